"""Points: what each run says about each document of a query, and the fused score of a document.

points(document, run) = (score - shift) / scale, or a formula of the rank; NaN where the run lacks the document
fused(document) = a sum, product with a factor, extreme or median of the points of the runs
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel, readonly
from podium._runtime.threads import over_queries
from podium.runs.joining import JoinedRuns
from podium.runs.methods import (
    BORDA,
    BORDA_SHARE,
    LEAST,
    MAXIMUM,
    MIN_MAX,
    MOST,
    RANK,
    SHARE,
    SUM,
    SUM_OF_WEIGHTS,
    TABLE,
    USES_RANKS,
    Z_SCORE,
    Method,
)


@dataclass(frozen=True, eq=False)
class PointsOfRuns:
    """Joined runs with the kind of points that a method adds up."""

    joined: JoinedRuns
    method: Method
    points: int

    def fused(self, weights: Array | None, n_jobs: int | None = None) -> Array:
        """(documents,) float64: the fused score of each document."""
        scores = np.empty(int(self.joined.offsets[-1]))
        numbers = np.ones(self.joined.n_runs) if weights is None else weights
        self._run(readonly(numbers), scores, np.empty((0, 0)), n_jobs)
        return scores

    def matrix(self, n_jobs: int | None = None) -> Array:
        """(runs, documents) float64: points times the factor of the method; 0 where a run has nothing to say."""
        table = np.empty((int(self.joined.offsets[-1]), self.joined.n_runs))
        self._run(readonly(np.ones(self.joined.n_runs)), np.empty(0), table, n_jobs)
        return np.ascontiguousarray(table.T)

    def _run(self, weights: Array, scores: Array, table: Array, n_jobs: int | None) -> None:
        joined, method = self.joined, self.method
        if self.points == MAXIMUM:
            refuse_no_positive_maximum(joined)
        ranks = joined.ranks if self.points in USES_RANKS else np.empty(0, np.int64)
        rows = readonly(joined.scores), readonly(ranks), readonly(joined.documents)
        lists = readonly(joined.segments), readonly(joined.offsets)
        numbers = readonly(method.rank_points(joined.longest)), readonly(method.factors(joined.n_runs)), weights
        codes = self.points, method.combine

        def work(first: int, last: int) -> None:
            _fuse_block(rows, lists, numbers, codes, (first, last), scores, table)

        over_queries(work, joined.offsets, n_jobs)


def refuse_no_positive_maximum(joined: JoinedRuns) -> None:
    """Division by a best score of 0 or less has no order."""
    for q, i in np.argwhere(np.diff(joined.segments, axis=2)[:, :, 0] > 0).tolist():
        first, last = joined.segments[q, i].tolist()
        best = float(joined.scores[first:last].max())
        if best <= 0:
            where = f"query {joined.query_ids[q]!r} of {joined.names[i]}"
            raise ValueError(f"normalization max needs a best score above 0; that of {where} is {best:g}. Use min-max.")


@kernel
def _fuse_block(
    rows: tuple[Array, Array, Array],
    lists: tuple[Array, Array],
    numbers: tuple[Array, Array, Array],
    codes: tuple[int, int],
    queries: tuple[int, int],
    scores: Array,
    table: Array,
) -> None:
    """Fill scores (documents), or where there are none, the table (documents, runs), for queries first..last."""
    (segments, offsets), (rank_points, factors, weights) = lists, numbers
    (code, combine), (first, last) = codes, queries
    n_runs, most = segments.shape[1], 0
    for q in range(first, last):
        most = max(most, offsets[q + 1] - offsets[q])
    points, counts, buffer = np.empty((n_runs, most)), np.empty(most, np.int64), np.empty(n_runs)
    for q in range(first, last):
        n = offsets[q + 1] - offsets[q]
        counts[:n] = 0
        for run in range(n_runs):
            _fill_points(rows, segments[q, run], rank_points, code, n, points[run], counts)
        for document in range(n):
            if len(scores):
                many = np.uint64(counts[document])
                scores[offsets[q] + document] = _combined(points, document, factors[many], weights, combine, buffer)
            else:
                for run in range(n_runs):
                    value = points[run, document]
                    table[offsets[q] + document, run] = 0.0 if np.isnan(value) else value * factors[counts[document]]


@kernel
def _fill_points(
    rows: tuple[Array, Array, Array],
    segment: Array,
    rank_points: Array,
    code: int,
    n_documents: int,
    points: Array,
    counts: Array,
) -> None:
    """The points that one run gives to the documents of a query, and one more run for each of them."""
    scores, ranks, documents = rows
    first, last = segment[0], segment[1]
    n, c = last - first, n_documents
    absent = np.nan
    if code == BORDA:
        absent = (c - n + 1) / 2.0
    elif code == BORDA_SHARE:
        absent = 0.5 - (n - 1) / (2.0 * c)
    for document in range(n_documents):
        points[document] = absent
    shift, scale = shift_and_scale(scores[first:last], code)
    for row in range(first, last):
        if code == BORDA:
            value = float(c - ranks[row])
        elif code == BORDA_SHARE:
            value = 1.0 - ranks[row] / c
        else:
            value = point(code, scores[row], ranks[row] if len(ranks) else 0, shift, scale, n, rank_points)
        place_of_document = np.uint64(documents[row])
        points[place_of_document] = value
        counts[place_of_document] += 1


@inlined_bare_kernel
def point(code: int, score: float, rank: int, shift: float, scale: float, n: int, rank_points: Array) -> float:
    """What a run with n documents says about the one at a rank (from 0), whatever the other runs say."""
    if code == TABLE:
        return float(rank_points[np.uint64(rank)])
    if code == RANK:
        return 1.0 - rank / n
    return (score - shift) / scale


@kernel
def shift_and_scale(scores: Array, code: int) -> tuple[float, float]:
    """Where all scores are equal, min-max, z-scores and shares are 0: the shift is the score."""
    shift, scale, n = 0.0, 1.0, len(scores)
    if n == 0 or code not in (MIN_MAX, Z_SCORE, SHARE, MAXIMUM):
        return shift, scale
    low, high = scores[0], scores[0]
    for k in range(n):
        low, high = min(low, scores[k]), max(high, scores[k])
    if code == MAXIMUM:
        return shift, high
    if low == high:
        return low, scale
    if code == MIN_MAX:
        return low, high - low
    total = 0.0
    for k in range(n):
        total += scores[k] - low
    if code == SHARE:
        return low, total
    mean, squares = low + total / n, 0.0
    for k in range(n):
        squares += (scores[k] - mean) ** 2
    return mean, np.sqrt(squares / n)


@kernel
def _combined(points: Array, document: int, factor: float, weights: Array, combine: int, buffer: Array) -> float:
    """The fused score of a document; NaN marks runs that have nothing to say about it."""
    n, total, weight, least, most = 0, 0.0, 0.0, np.inf, -np.inf
    if combine == SUM:
        for run in range(points.shape[0]):
            value = weights[run] * points[run, document]
            total += 0.0 if np.isnan(value) else value
        return total * factor
    for run in range(points.shape[0]):
        value = points[run, document]
        if not np.isnan(value):
            total, weight = total + value, weight + weights[run]
            least, most = min(least, value), max(most, value)
            buffer[n] = value
            n += 1
    if combine == SUM_OF_WEIGHTS:
        return total * weight
    if combine == LEAST:
        return least
    return most if combine == MOST else np.median(buffer[:n])
