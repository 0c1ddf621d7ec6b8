"""Evaluating: the numbers of `podium.evaluate` and `podium.compare`, of scores in Dask collections.

Values per query are computed where the query is (`queries.py`); only these, one number per query and metric, come
together, in the order of first appearance, and are added up as those of one machine are. So the last bit is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import as_query_ids, concat_ids, group_rows
from podium.data.ranking import as_labels, as_weights
from podium.distributed.scoring.parts import delayed_parts, refuse_others, require_dask, same_partitions
from podium.distributed.scoring.queries import Owners, Rows, distinct_queries, gather
from podium.evaluation.comparing import compare_evaluations
from podium.evaluation.comparison import Comparison, Settings
from podium.evaluation.evaluating import (
    Evaluation,
    MetricLike,
    QueryValues,
    as_scores,
    metrics_for,
    refuse_other_labels,
    summarised,
)
from podium.evaluation.rankings import JudgedRows, Rankings
from podium.metrics.base import Metric
from podium.metrics.policies import Policy
from podium.metrics.registry import policy_of


def evaluate(
    scores: Any,
    y: Any,
    qid: Any,
    *,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10", "map"),
    policy: str | Policy | None = None,
    docids: Any = None,
    query_weight: Any = None,
    sample_weight: Any = None,
    gain: str | None = None,
    label_gain: Sequence[float] | None = None,
    relevant: float | None = None,
    bracket: bool = False,
) -> Evaluation:
    """What `podium.evaluate` returns for the computed arrays, to the last bit, without bringing the rows together.

    `scores`, `y` and `qid` are Dask Series or arrays with the same partitions, and so are `docids` and `sample_weight`;
    the rest is as there, `query_weight` an array with one weight per query in order of first appearance. The
    collections are computed now, once; each worker keeps its rows until the values are there.
    """
    require_dask()
    import dask

    listed = [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)
    rules = policy_of(listed, policy, "standard").vary(gain=gain, label_gain=label_gain, relevant=relevant)
    metrics_for(listed, rules, 0.0)  # a misspelt name is reported before the work
    parts = dask.persist(*_parts(scores=scores, y=y, qid=qid, docids=docids, sample_weight=sample_weight))
    facts = dask.compute(*[dask.delayed(_facts_of)(part) for part in parts])
    parsed = _separable(metrics_for(listed, rules, max(fact.largest_label for fact in facts)))
    owners = Owners.of([fact.queries for fact in facts])
    if not owners.n_queries:
        raise ValueError("There are no rows to evaluate.")
    if query_weight is not None:
        query_weight = as_weights(query_weight, owners.n_queries, "query_weight", "query")
    whole = all(fact.whole_labels for fact in facts)
    work = dask.delayed(_values_of)
    values = dask.compute(*[work(rows, rules, parsed, bracket, whole) for rows in gather(parts, owners)])
    return summarised(_joined([one for one in values if one is not None]), rules, parsed, query_weight)


def compare(
    systems: Mapping[str, Any],
    y: Any,
    qid: Any,
    *,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10",),
    baseline: str | None = None,
    pairs: str = "baseline",
    **options: Any,
) -> Comparison:
    """What `podium.compare` returns for the computed scores of two or more systems: {"a": scores, "b": scores}.

    `options` are further arguments of `podium.compare`, about tests (`test`, `correction`, `level`, ...) and of
    `evaluate` above.
    """
    metrics = [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)
    names = {field.name for field in fields(Settings)}
    settings = Settings(**{name: value for name, value in options.items() if name in names})
    rules = {name: value for name, value in options.items() if name not in names}
    results = {name: evaluate(scores, y, qid, metrics=metrics, **rules) for name, scores in systems.items()}
    return compare_evaluations(results, metrics=metrics, baseline=baseline, pairs=pairs, settings=settings)


@dataclass(frozen=True)
class _Facts:
    """What all partitions must know of one."""

    queries: list[Any]
    largest_label: float
    whole_labels: bool


def _parts(**columns: Any) -> list[Any]:
    """Delayed rows per partition."""
    from dask import delayed

    columns = {name: values for name, values in columns.items() if values is not None or name in ("scores", "y", "qid")}
    for name, values in columns.items():
        refuse_others(values, name)
    parts = {name: delayed_parts(values) for name, values in columns.items()}
    same_partitions(parts)
    return [delayed(_rows_of)(dict(zip(parts, values))) for values in zip(*parts.values())]


def _rows_of(columns: Mapping[str, Any]) -> Rows:
    """The columns of one partition as arrays, checked."""
    n = len(columns["y"])
    labels = as_labels(columns["y"], n)
    rows = {"y": labels, "scores": as_scores(columns["scores"], n), "qid": as_query_ids(columns["qid"], None, n)}
    whole = np.asarray(columns["y"]).dtype.kind in "biu"
    rows["whole"] = np.full(n, whole)
    if "sample_weight" in columns:
        rows["sample_weight"] = as_weights(columns["sample_weight"], n, "sample_weight", "row")
    if "docids" in columns:
        rows["docids"] = np.asarray(columns["docids"], dtype=object)
        if len(rows["docids"]) != n:
            raise ValueError(f"docids has {len(rows['docids'])} entries, the labels have {n} rows.")
    return rows


def _facts_of(rows: Rows) -> _Facts:
    return _Facts(distinct_queries(rows["qid"]), float(rows["y"].max(initial=0.0)), bool(rows["whole"].all()))


def _separable(metrics: dict[str, Metric]) -> dict[str, Metric]:
    for name, metric in metrics.items():
        if metric.pools_queries:
            raise ValueError(
                f"{name} is one value for all queries together, which needs all rows in one process. Call "
                "podium.evaluate on the computed arrays."
            )
    return metrics


def _values_of(
    rows: Rows, rules: Policy, metrics: Mapping[str, Metric], bracket: bool, whole_labels: bool
) -> QueryValues | None:
    """Of the queries of an owner, None where it has none."""
    if not len(rows["qid"]):
        return None
    order, offsets, queries = group_rows(rows["qid"])
    judged = JudgedRows(
        rows["y"], offsets, queries, None, rows.get("docids"), rows.get("sample_weight"), whole_labels=whole_labels
    )
    judged = judged if order is None else judged.grouped_by(order)
    refuse_other_labels(judged, rules)
    rankings = Rankings(judged.reordered(rows["scores"]), judged, rules.single_precision, n_jobs=1)
    return QueryValues.of(rankings, rules, metrics, bracket)


def _joined(values: Sequence[QueryValues]) -> QueryValues:
    """One owner after the other."""

    def together(name: str) -> dict[str, Array]:
        columns = [getattr(one, name) for one in values]
        return {metric: np.concatenate([column[metric] for column in columns]) for metric in columns[0]}

    queries = concat_ids([one.queries for one in values])
    tied = any(one.tied_by_input for one in values)
    return QueryValues(together("per_query"), together("worst"), together("best"), queries, tied)
