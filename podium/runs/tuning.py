"""Weights of a fusion, chosen on judged queries: the metric itself is maximised, along one line at a time.

A sum of points is linear in the weights, so that a change of one weight is a line on which the best value is exact
(`podium.metrics.line_search`). Two starts are compared: the best run, to which others are added (greedy), and equal
weights (coordinate), as in `Blend`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import offsets_of
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate_run
from podium.formats.trec import Qrels, Run, refuse_other_than
from podium.metrics.base import Metric
from podium.metrics.lists import rank_lists
from podium.metrics.policies import Policy
from podium.metrics.query_values import QueryValues
from podium.metrics.registry import parse_metric, policy_of
from podium.runs.fusing import as_run, check_count
from podium.runs.joining import JoinedRuns, join_runs, named_runs
from podium.runs.methods import METHODS, Method, parse_method, points_of
from podium.runs.points import PointsOfRuns


@dataclass(frozen=True, eq=False)
class TunedFusion:
    """Weights that add up to 1, and means of the metric over the judged queries."""

    weights: Mapping[str, float]
    method: str
    normalization: str | None
    metric: str
    policy: str
    n_queries: int
    value: float  # with these weights, on the queries that they were chosen on
    equal: float  # with equal weights
    alone: Mapping[str, float]  # of each run
    cross_validated: float  # each query fused with weights that were chosen without its fold
    folds: Sequence[Mapping[str, float]]  # the weights of each fold

    def as_dict(self) -> dict[str, Any]:
        return {
            "weights": dict(self.weights),
            "method": self.method,
            "normalization": self.normalization,
            "metric": self.metric,
            "policy": self.policy,
            "queries": self.n_queries,
            "value": self.value,
            "equal_weights": self.equal,
            "alone": dict(self.alone),
            "cross_validated": self.cross_validated,
            "folds": [dict(weights) for weights in self.folds],
        }

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """What, with which weights, and the mean, as a table shows them."""
        for name, value in self.alone.items():
            yield f"{name} alone", "", f"{value:.4f}"
        yield "equal weights", "", f"{self.equal:.4f}"
        yield "cross-validated", "as chosen without the fold", f"{self.cross_validated:.4f}"
        yield "chosen on all queries", shown_weights(self.weights), f"{self.value:.4f}"


def shown_weights(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:.4g}" for name, weight in weights.items())


def tune_fusion(
    runs: Sequence[Run] | Mapping[str, Run],
    qrels: Qrels,
    *,
    method: str | Method = "combsum",
    normalization: str | None = None,
    depth: int = 100,
    metric: str | Metric = "ndcg@10",
    folds: int = 5,
    random_state: int = 0,
) -> TunedFusion:
    """Choose one weight per run on judged queries, by the metric under policy "trec" unless it has one of its own.

    The method must be a sum of points. Weights are compared by the documents that are among the best `depth` of a run,
    with the points that they have in the whole runs; all values are of the whole runs. What is chosen on queries is
    optimistic there, so that the mean is also cross-validated: `folds` divides the queries by `random_state`, and each
    part is fused with weights of the others.
    """
    named = named_runs(runs, "tune_fusion")
    refuse_other_than(Qrels, qrels, "tune_fusion: qrels")
    chosen = parse_method(method)
    points = points_of(chosen, normalization)
    if not chosen.is_linear:
        linear = ", ".join(name for name, one in METHODS.items() if one.is_linear)
        raise ValueError(f"weights are tuned for sums of points ({linear}); got {chosen.name}.")
    rules = policy_of([metric], None, "trec")
    parsed = parse_metric(metric, rules)
    if parsed.pools_queries or not parsed.higher_is_better:
        raise ValueError(f"expected a metric with a value per query of which more is better; got {parsed.name}.")
    check_count("depth", depth)
    judged = {name: _judged(run, qrels) for name, run in named.items()}
    joined = join_runs(judged, warns=False)  # `fuse` says what is missing
    if len(joined.query_ids) < 2:
        raise ValueError(f"tuning needs two judged queries or more; found {len(joined.query_ids)} in the runs.")
    numbers = _fold_numbers(len(joined.query_ids), folds, random_state)
    return _tune(joined, judged, qrels, _Task(chosen, normalization, points, parsed, rules, depth), numbers)


@dataclass(frozen=True)
class _Task:
    method: Method
    normalization: str | None
    points: int
    metric: Metric
    rules: Policy
    depth: int


def _tune(joined: JoinedRuns, runs: dict[str, Run], qrels: Qrels, task: _Task, numbers: Array) -> TunedFusion:
    points, compared = PointsOfRuns(joined, task.method, task.points), _compared(joined, task.depth)
    scores = points.matrix()[:, compared]
    data = _as_data(joined, compared, qrels, task.metric)
    weights = _chosen(scores, data, task.metric)
    parts, held_out = [], np.empty(len(numbers))
    for fold in range(int(numbers.max()) + 1):
        part = _chosen(*_without(scores, data, numbers == fold), task.metric)
        parts.append(dict(zip(runs, part.tolist())))
        held_out[numbers == fold] = _values(points, qrels, task, part)[numbers == fold]
    options: dict[str, Any] = {"metrics": [task.metric], "policy": task.rules}
    return TunedFusion(
        dict(zip(runs, weights.tolist())),
        str(task.method),
        task.normalization,
        task.metric.name,
        task.rules.name,
        len(numbers),
        _mean(_values(points, qrels, task, weights)),
        _mean(_values(points, qrels, task, np.ones(len(runs)))),
        {name: next(iter(evaluate_run(qrels, run, **options).values())) for name, run in runs.items()},
        _mean(held_out),
        parts,
    )


def _judged(run: Run, qrels: Qrels) -> Run:
    """The part of a run that is about judged queries."""
    judged = set(map(str, qrels.query_ids))
    lengths = np.diff(run.offsets)
    rows = [q for q, query in enumerate(run.query_ids) if lengths[q] and str(query) in judged]
    places = [np.arange(run.offsets[q], run.offsets[q + 1]) for q in rows]
    taken = np.concatenate([np.empty(0, np.int64), *places])
    offsets = offsets_of(np.array(list(map(len, places)), np.int64))
    return Run(run.query_ids[rows], offsets, run.docid_texts.take(taken), run.scores[taken])


def _compared(joined: JoinedRuns, depth: int) -> Array:
    """(documents,) bool: which documents are among the best `depth` of a run."""
    compared = np.zeros(int(joined.offsets[-1]), np.bool_)
    compared[joined.document_of_row[joined.ranks < depth]] = True
    return compared


def _as_data(joined: JoinedRuns, compared: Array, qrels: Qrels, metric: Metric) -> RankingData:
    """Documents of the runs with their labels.

    Judged documents that no run has lower the value of a query by the same factor, whatever the weights: it becomes
    the weight of the query, so that the best weights are those of the metric with all judgements.
    """
    labels_of = qrels.to_dict()
    queries = np.repeat(np.arange(len(joined.query_ids)), np.diff(joined.offsets))[compared]
    ids = joined.ids.take(joined.first_rows[compared]).to_array()
    known = [{id: max(label, 0.0) for id, label in labels_of[query].items()} for query in joined.query_ids]
    labels = np.array([known[query].get(id, 0.0) for query, id in zip(queries.tolist(), ids)])
    offsets = offsets_of(np.bincount(queries, minlength=len(known)))
    weights = _shares(labels, offsets, [np.array(list(pool.values()), np.float64) for pool in known], metric)
    names = joined.query_ids[queries]
    return RankingData.from_arrays(np.zeros((len(ids), 1)), labels, names, docids=ids, query_weight=weights)


def _shares(labels: Array, offsets: Array, pools: list[Array], metric: Metric) -> Array:
    """Per query, the value of its best order with all judgements, divided by that with those of the runs alone."""
    pool = np.concatenate(pools), offsets_of(np.array(list(map(len, pools)), np.int64))
    resolved = metric.resolve(float(pool[0].max(initial=0.0)))
    whole, reached = (
        np.asarray(resolved.values(rank_lists(labels, labels, offsets, judged=known))) for known in (pool, None)
    )
    shares: Array = np.divide(whole, reached, out=np.zeros(len(reached)), where=reached > 0)
    if not shares.any():
        raise ValueError(f"no run has a document that counts for {metric.name}, so that no weights are best.")
    return shares


def _fold_numbers(n_queries: int, folds: int, random_state: int) -> Array:
    if type(folds) is not int or not 2 <= folds <= n_queries:
        raise ValueError(
            f"folds must be an integer from 2 to {n_queries}, the number of judged queries; got {folds!r}."
        )
    if type(random_state) is not int or random_state < 0:
        raise ValueError(f"random_state must be an integer from 0; got {random_state!r}.")
    numbers: Array = np.random.default_rng(random_state).permutation(n_queries) % folds
    return numbers


def _without(scores: Array, data: RankingData, left_out: Array) -> tuple[Array, RankingData]:
    rows = np.repeat(~left_out, np.diff(data.offsets))
    return scores[:, rows], data.subset(np.flatnonzero(~left_out))


def _chosen(scores: Array, data: RankingData, metric: Metric) -> Array:
    """The better of greedy and coordinate weights; of equal ones the former, which leave more runs out."""
    from podium.pipelines.ensembles.weighting import coordinate_weights, greedy_weights, weighted_sum

    options = [choose(scores, data, metric, None) for choose in (greedy_weights, coordinate_weights)]
    values = [QueryValues.of(data, metric, None).mean(weighted_sum(weights, scores)) for weights in options]
    return options[0] if values[0] >= values[1] - 1e-12 else options[1]


def _values(points: PointsOfRuns, qrels: Qrels, task: _Task, weights: Array) -> Array:
    """The metric of each query, NaN where it is undefined, as `evaluate_run` has it for the fused run."""
    fused = as_run(points.joined, points.fused(weights))
    result = evaluate_run(qrels, fused, metrics=[task.metric], policy=task.rules)
    (per_query,) = result.per_query.values()
    by_query = dict(zip(result.queries.tolist(), per_query.tolist()))
    return np.array([by_query[str(query)] for query in points.joined.query_ids])


def _mean(values: Array) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
