"""Refusals: what cannot be trained on a cluster with the result of a single machine, and why."""

from __future__ import annotations

from typing import Any

from podium.models.frame.estimator import is_fitted
from podium.models.frame.parameters import value_of
from podium.models.frame.plan import FitOptions
from podium.models.frame.ranker import Ranker
from podium.models.registry import catalogue
from podium.models.trees.boosted import BoostedTrees
from podium.objectives.custom import FunctionObjective
from podium.persistence.saving import refuse_unsaved


def refuse_other_models(model: Ranker) -> None:
    """In one sentence, models that are no boosted trees."""
    if isinstance(model, BoostedTrees):
        return
    able = ", ".join(entry.class_name for entry in catalogue() if issubclass(entry.kind, BoostedTrees))
    raise ValueError(f"{type(model).__name__} is trained on one machine; fit takes a client for {able}.")


def refuse_options(model: Any, client: Any, options: FitOptions) -> None:
    """What is not exact yet, or needs all rows in one place."""
    from distributed import Client

    if not isinstance(client, Client) or client.asynchronous:
        kind = f"an asynchronous {type(client).__name__}" if isinstance(client, Client) else type(client).__name__
        raise TypeError(f"client must be a distributed.Client that is not asynchronous; got {kind}.")
    name = type(model).__name__
    refuse_unsaved(model)
    for holds, problem, advice in (
        (options.group is not None, "group is not supported with a client", "Give qid, one query id per row"),
        (options.pairs is not None, "pairs name rows by their numbers, which a client does not", "Give labels"),
        (
            value_of(model, "validation_fraction") is not None,
            "validation_fraction holds out queries of one machine's rows",
            "Give an eval_set, which may be a Dask collection too",
        ),
        (
            model.step in ("tree", "line_search"),
            f"step={model.step!r} searches one step for all rows, which is not divided yet",
            'Use step="newton" or "mean"',
        ),
        (
            isinstance(model.make_objective(), FunctionObjective),
            "a Python function as objective may look at all rows at once",
            "Use an objective by name",
        ),
        (
            model.init is not None and not (isinstance(model.init, Ranker) and is_fitted(model.init)),
            "init must be a fitted model of Podium: workers train no second model and have no scores per row",
            "Fit it first",
        ),
    ):
        if holds:
            raise ValueError(f"{name}: {problem}. {advice}, or fit without a client.")
    for metric in model.evaluation_metrics() if options.eval_set is not None else ():
        if metric.pools_queries:
            raise ValueError(
                f"{name}: {metric.name} ranks the documents of all queries in one list, which no worker has."
            )
