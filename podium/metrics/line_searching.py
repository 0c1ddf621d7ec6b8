"""Exact line search: the best alpha of (1 - alpha) s + alpha s2 for any metric, and the metric along the whole line.

A metric depends on the order of the scores only, so it is constant between the points where two documents of a query
cross (`crossings.py`). Those are enumerated per query, and the value of the query is updated across each of them: in
closed form for the metrics of Podium, by ranking again for any other (`reranking.py`). The sum over queries
(`curves.py`) is a curve of steps, whose best value is exact: nothing lies between two points of a grid.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.exact import units_for
from podium._runtime.threads import map_blocks
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData, as_labels, as_weights, refuse_beside_data
from podium.metrics.base import Metric
from podium.metrics.closed_forms import ADDITIVE, ClosedForm
from podium.metrics.crossings import LARGEST_SCORE, Events, sweep_queries
from podium.metrics.curves import Curve, add_up
from podium.metrics.lists import RankedLists, as_scores, name_keys
from podium.metrics.policies import Policy
from podium.metrics.query_values import QueryValues
from podium.metrics.registry import parse_metric, policy_of
from podium.metrics.reranking import Line, values_along

LONGEST_LINE = 1 << 14  # documents of a query: their crossings are held in memory
_BLOCK_PAIRS = 1 << 22
_EQUAL = 1e-12  # values this close are equal; of values above 1, relative to the largest on the line
_HEADROOM = 1024.0  # for metrics whose largest value is not known


@dataclass(frozen=True, eq=False)
class LineSearch:
    """The best alpha, its value, the plateau it is the middle of, and the whole curve."""

    alpha: float
    value: float
    plateau: tuple[float, float]  # the widest stretch of the line with the best value; one point where both are equal
    curve: Curve
    metric: str
    policy: str
    improves: bool  # whether the value is better than that at 0

    @property
    def beta(self) -> float:
        """The factor of s2 beside s: alpha / (1 - alpha), infinite where s2 alone is best."""
        return self.alpha / (1.0 - self.alpha) if self.alpha < 1.0 else np.inf


def line_search(
    s: Any,
    s2: Any,
    y: Any,
    *,
    qid: Any = None,
    group: Any = None,
    metric: str | Metric = "ndcg@10",
    policy: str | Policy | None = None,
    high: float = 1.0,
    docids: Any = None,
    query_weight: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> LineSearch:
    """The best alpha from 0 to `high` of `(1 - alpha) s + alpha s2`, by the mean of the metric over queries.

    `s` and `s2` have one score per row; labels, query ids, weights and policy are those of `evaluate`. Of several best
    stretches of the line the widest is taken, and alpha is its middle. At a crossing itself the documents tie, as the
    policy says. Under policies that compare scores as float32, `s` and `s2` are rounded to it, and nothing else is.
    """
    rules = policy_of([metric], policy, "standard")
    if isinstance(y, RankingData):
        weights = {"query_weight": query_weight, "sample_weight": sample_weight}
        refuse_beside_data("line_search", qid=qid, group=group, docids=docids, **weights)
        data, rows = y.grouped(), None if y.is_contiguous else y.rows
        labels, offsets, docids = data.labels_for("line_search"), data.offsets, data.docids
        query_weight, sample_weight = data.query_weight, data.sample_weight
    else:
        labels = as_labels(y, len(y))
        rows, offsets, ids = group_rows(as_query_ids(qid, group, len(labels)))
        docids = None if docids is None else _as_ids(docids, len(labels))
        sample_weight = (
            None if sample_weight is None else as_weights(sample_weight, len(labels), "sample_weight", "row")
        )
        query_weight = None if query_weight is None else as_weights(query_weight, len(ids), "query_weight", "query")
        if rows is not None:
            labels = labels[rows]
            docids = None if docids is None else docids[rows]
            sample_weight = None if sample_weight is None else sample_weight[rows]
    ends = [as_scores(scores, len(labels)) for scores in (s, s2)]
    start, end = (scores if rows is None else scores[rows] for scores in ends)
    options = {"docids": docids, "query_weight": query_weight, "sample_weight": sample_weight, "n_jobs": n_jobs}
    return LineSearcher(labels, offsets, parse_metric(metric, rules), **options).search(start, end, high)


class LineSearcher(QueryValues):
    """Line searches on one data set, grouped by query, with one metric: what does not depend on scores is kept."""

    def __init__(self, labels: Array, offsets: Array, metric: Metric, **more: Any) -> None:
        """`more`: what else `QueryValues` takes."""
        if len(labels) == 0:
            raise ValueError("There are no rows to search on.")
        super().__init__(labels, offsets, metric, **more)
        longest = int(np.diff(self.offsets).max(initial=0))
        if longest > LONGEST_LINE:
            problem = (
                f"a list has {longest:,} documents, so up to {longest * (longest - 1) // 2:,} pairs that can cross"
            )
            raise ValueError(f"line_search: {problem}; at most {LONGEST_LINE:,} documents are supported. Rank fewer.")
        self._rows = self._tie_order()
        self._ranked = self.labels[self._rows]  # not by score, but by what decides among equal ones
        self._weight = None if self.sample_weight is None else self.sample_weight[self._rows]
        self._averages = self.metric.policy.ties == "average"
        lists = RankedLists(self._ranked, self.offsets, weights=self._weight, average_ties=self._averages)
        self._form = self.metric.closed_form(lists)

    def search(self, s: Array, s2: Array, high: float = 1.0) -> LineSearch:
        """The best alpha between scores s and s2 of the grouped rows."""
        if not 0 < high <= 1:
            raise ValueError(f"high must be above 0 and at most 1; got {high!r}.")
        for name, scores in (("s", s), ("s2", s2)):
            if not np.abs(scores).max(initial=0.0) <= LARGEST_SCORE:  # NaN fails too
                row = int(np.flatnonzero(~(np.abs(scores) <= LARGEST_SCORE))[0])
                raise ValueError(f"{name}[{row}] is {scores[row]}; a line needs numbers from -1e300 to 1e300.")
        curve = self._curve(s, s2, float(high))
        largest = max(1.0, float(np.abs(curve.between).max()))
        best, first, last = curve.best_plateau(self.metric.higher_is_better, _EQUAL * largest)
        alpha = first if first == last else 0.5 * (first + last)
        improves = abs(best - float(curve.at[0])) > _EQUAL * largest
        return LineSearch(alpha, best, (first, last), curve, self.metric.name, self.metric.policy.name, improves)

    def _curve(self, s: Array, s2: Array, high: float) -> Curve:
        start, ends = self.values(s), (self._as_compared(s)[self._rows], self._as_compared(s2)[self._rows])
        weight = np.where(np.isnan(start), 0.0, self.query_weight)
        total, largest = float(weight.sum()), self._bound(start) * float(weight.max(initial=0.0))
        if total == 0:
            raise ValueError(f"{self.metric.name} is undefined for all queries, so no alpha is best.")
        units = units_for(largest, len(weight))
        if self._form is None:
            blocks = self._rerank(*ends, high, weight * units, largest * units)
        else:
            blocks = self._sweep(*ends, high, self._form, self._form.scales * weight * units)
        alpha, at, between = add_up(blocks, high, self.n_jobs)
        counted = weight > 0
        mean = float((start[counted] * weight[counted]).sum()) / total
        return Curve(alpha, mean + at / (units * total), mean + between / (units * total))

    def _bound(self, start: Array) -> float:
        """No value of a query is larger; a guess where the metric has no closed form."""
        if self._form is not None:
            return self._form.largest
        return _HEADROOM * max(1.0, float(np.nanmax(np.abs(start), initial=0.0)))

    def _as_compared(self, scores: Array) -> Array:
        single = self.metric.policy.single_precision
        return np.asarray(scores.astype(np.float32) if single else scores, np.float64)

    def _tie_order(self) -> Array:
        """The rows of each query in the order that they have where their scores are equal."""
        ties, n = self.metric.policy.ties, len(self.labels)
        if ties in ("worst", "best"):
            key = self.labels if ties == "worst" else -self.labels
        elif ties == "docid" and self.docids is not None:
            key = -name_keys(np.arange(n), np.ones(n, np.bool_), np.asarray(self.docids, dtype=object))
        else:
            return np.arange(n)
        query = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return np.lexsort((key, query))  # stable: equal keys keep the order of the input

    def _sweep(self, s: Array, s2: Array, high: float, form: ClosedForm, scales: Array) -> list[Events]:
        blocks, average = self._blocks(), self._averages and form.kind == ADDITIVE  # tied pairs count one half anyway
        lines, numbers = (readonly(s), readonly(s2), readonly(self.offsets)), replace(form, scales=scales).arrays

        def work(block: int) -> Events:
            return sweep_queries(lines, *blocks[block], high, form.kind, average, numbers)

        return map_blocks(work, len(blocks), self.n_jobs)

    def _rerank(self, s: Array, s2: Array, high: float, units: Array, most: float) -> list[Events]:
        """The same by ranking each query anew; `units`: of the value of each query, `most` of them at most."""
        blocks = [self._rerank_query(q, s, s2, high, units[q], most) for q in np.flatnonzero(units > 0).tolist()]
        return [tuple(map(np.concatenate, zip(*blocks)))] if blocks else []  # type: ignore[list-item]

    def _rerank_query(self, q: int, s: Array, s2: Array, high: float, units: float, most: float) -> Events:
        rows = slice(int(self.offsets[q]), int(self.offsets[q + 1]))
        line = Line(s[rows], s2[rows], self._ranked[rows], None if self._weight is None else self._weight[rows])
        alpha, at, behind = map(np.concatenate, zip(*values_along(line, self.metric, high)))
        if not (np.isfinite(at).all() and np.isfinite(behind).all()):
            raise ValueError(
                f"{self.metric.name} is defined for some orders of a query only, so no mean is comparable."
            )
        at, behind = units * at, units * behind
        if max(np.abs(at).max(), np.abs(behind).max()) > most:
            raise ValueError(f"{self.metric.name} varies by more than a factor of {_HEADROOM:g} along the line.")
        at, behind = np.rint(at).astype(np.int64), np.rint(behind).astype(np.int64)
        before = np.concatenate([at[:1], behind[:-1]])
        return alpha, behind - before, at - before

    def _blocks(self) -> list[tuple[int, int]]:
        """Queries with about as many pairs in each block, whatever the number of threads."""
        lengths = np.diff(self.offsets)
        pairs = np.concatenate([[0], np.cumsum(lengths * (lengths - 1) // 2)])
        ends = np.searchsorted(pairs, np.arange(_BLOCK_PAIRS, pairs[-1], _BLOCK_PAIRS))
        return list(pairwise(np.unique([0, *ends.tolist(), len(lengths)]).tolist()))


def _as_ids(docids: Any, n: int) -> Array:
    ids = np.asarray(docids, dtype=object)
    if ids.shape != (n,):
        raise ValueError(f"docids has shape {ids.shape}, the labels have {n} rows; expected one id per row.")
    return ids
