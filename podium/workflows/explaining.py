"""Explaining a saved model on the data of a file: one query, or what features are worth over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from podium import explain
from podium._runtime.progress import progress
from podium.explain import queries
from podium.explain.attributions import ShapSummary
from podium.explain.drops import ImportanceDrops
from podium.explain.lambdas import Lambdas
from podium.explain.queries import QueryExplained
from podium.explain.reasons import Why
from podium.workflows.reading import Columns, Locate, itself, read_file, read_with_model


def explain_file(
    model: Path,
    data: Path,
    query: str,
    *,
    documents: tuple[str, str] | None = None,
    top: int = 5,
    lambdas: str | None = None,
    locate: Locate = itself,
) -> QueryExplained | Why | Lambdas:
    """Explain the top documents of a query, or why one of two documents is ranked above the other.

    Or, where `lambdas` names a metric, what LambdaRank would do to the documents at the scores of the model.
    """

    ranker, rows = read_with_model(model, data, locate)
    if lambdas is not None:
        return queries.explain_lambdas(ranker, rows, query, lambdas)
    if documents is None:
        return queries.explain_top(ranker, rows, query, top)
    return queries.explain_pair(ranker, rows, query, documents)


def study_file(
    model: Path,
    data: Path,
    kind: str,
    *,
    train: Path | None = None,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    metric: str | None = None,
    locate: Locate = itself,
) -> ImportanceDrops | ShapSummary:
    """What each feature of a model is worth on the data: kind is "shap", "permutation" or "ablation" (with `train`)."""

    ranker, rows = read_with_model(model, data, locate)
    if kind == "shap":
        return explain.shap_summary(ranker, rows)
    if kind == "permutation":
        return explain.permutation_importance(ranker, rows, metric=metric)
    if train is None:
        raise ValueError("an ablation needs training data.")
    columns = Columns.of_model(ranker, model)
    learned = columns.give(read_file(train, locate, columns.categories or ()), train)
    with progress("training without features") as report:
        return explain.ablation(ranker, learned, rows, groups=groups, metric=metric, report=report)
