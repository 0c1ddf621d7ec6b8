"""Hinge losses over all pairs of a query, in O(n log n) and without a list of pairs.

A pair is a document i and a document j of a smaller label; its slack is `xi = max(0, 1 - (s_i - s_j))`. The loss is

    1/2 xi^2              where xi <= width
    width xi - width^2/2  beyond

so an infinite width gives the squared hinge and a small one the hinge, smoothed. Pairs count by the product of the
weights of their documents.

Documents are sorted by score, then divided by the bits of their grades (0, 1, 2, ... within the query), highest bit
first: within a group, all documents whose bit is set have larger labels than those whose bit is not, and every pair
is met in one level. The documents j that violate the margin of i are an interval of the lower ones, which moves up
with s_i: one pass over both gives all sums, from prefix sums on the side of i and from differences at the interval's
ends on the side of j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.sorting import make_sort_workspace, sort_places


class Lists(NamedTuple):
    """The documents of all queries, as kernels read them."""

    grades: Array  # (n,) int32: 0, 1, 2, ... for the labels of a query
    weights: Array  # (n,)
    bits: Array  # (queries,) int64: of the largest grade
    costs: Array  # (queries,): what a pair counts
    offsets: Array  # (queries + 1,) int64


class Levels(NamedTuple):
    """(bits, n) int32 each: documents of a query by group, then by bit, then by score; and, of a position in the upper
    half, the first lower position with xi > 0, and the first with xi >= width."""

    order: Array
    first: Array
    last: Array


Ends = tuple[int, int, int]  # of a group: the first position of its lower half and of its upper one, and its end
Part = tuple[Array, Array, Array, Array]  # order, first and last of a level, and weights, of one query


@dataclass(frozen=True, eq=False)
class Violations:
    """The pairs inside the margin at some scores: loss, gradient, and what second derivatives need.

    All sums are weighted by the costs of queries.
    """

    loss: float
    slack: float  # sum of xi
    dual_sum: float  # sum of min(xi, width): the dual variables of all pairs, but for a factor
    margin: float  # the smallest difference s_i - s_j of any pair; inf where there are none
    gradient: Array  # (n,) of the loss in the scores
    curvature: Curvature


class Curvature(Protocol):
    """Which pairs are on the quadratic part of the loss: its second derivatives."""

    @property
    def share(self) -> float:
        """Of all pairs, those on the quadratic part."""

    def multiply(self, values: Array) -> Array:
        """The second derivatives of the loss in the scores, times values (n,)."""


@dataclass(frozen=True, eq=False)
class LabelCurvature:
    """The curvature of pairs that follow from labels."""

    pairs: Pairs
    levels: Levels

    @property
    def share(self) -> float:
        """Of all pairs, those on the quadratic part."""
        n_quadratic = int((self.levels.last - self.levels.first).sum(dtype=np.int64))
        return n_quadratic / max(int(self.pairs.counts.sum()), 1)

    def multiply(self, values: Array) -> Array:
        """The second derivatives of the loss in the scores, times values (n,)."""
        lists, out = self.pairs.lists, np.zeros(len(values))

        def work(first: int, last: int) -> None:
            _multiply_queries(first, last, lists, self.levels, values, out)

        over_queries(work, lists.offsets, self.pairs.n_jobs)
        return out


class Pairs:
    """The pairs of differently labelled documents of one data set."""

    def __init__(
        self,
        labels: Array,
        offsets: Array,
        weights: Array | None = None,
        query_weights: Array | None = None,
        scaling: str = "pairs",
        n_jobs: int | None = None,
    ) -> None:
        """labels (n,), offsets (queries + 1,), weights (n,) and query_weights (queries,): 1 where not given."""
        n_queries, self.n_jobs = len(offsets) - 1, n_jobs
        bits, self.counts = np.zeros(n_queries, np.int64), np.zeros(n_queries, np.int64)
        weights = np.ones(len(labels)) if weights is None else np.array(weights, np.float64)
        grades, costs, totals = np.empty(len(labels), np.int32), np.zeros(n_queries), np.zeros(n_queries)
        lists = Lists(grades, weights, bits, costs, np.asarray(offsets, np.int64))
        _grade_queries(np.asarray(labels, np.float64), lists, self.counts, totals)
        importance = np.ones(n_queries) if query_weights is None else np.array(query_weights, np.float64)
        costs[:] = SCALINGS[scaling](importance, totals)
        self.lists = Lists(*map(readonly, lists))

    def violations(self, scores: Array, width: float = np.inf) -> Violations:
        """Loss, gradient and curvature at these scores (n,)."""
        n, lists = len(scores), self.lists
        levels = Levels(*np.zeros((3, int(lists.bits.max(initial=0)), n), np.int32))
        gradient, sums = np.zeros(n), np.zeros((len(lists.costs), 4))

        def work(start: int, stop: int) -> None:
            _sum_queries(start, stop, lists, scores, width, levels, gradient, sums)

        over_queries(work, lists.offsets, self.n_jobs)
        loss, slack, dual_sum = (float((lists.costs * sums[:, k]).sum()) for k in range(3))
        margin = float(sums[:, 3].min(initial=np.inf))
        return Violations(loss, slack, dual_sum, margin, gradient, LabelCurvature(self, levels))


def _mean_over_pairs(importance: Array, totals: Array) -> Array:
    whole = float(importance @ totals)
    return np.asarray(importance / whole if whole > 0 else importance)


def _mean_over_queries(importance: Array, totals: Array) -> Array:
    """A query without pairs counts as a query whose slack is 0, as in SVMrank."""
    whole = max(float(importance.sum()), 1e-300)
    return np.where(totals > 0, importance / (whole * np.where(totals > 0, totals, 1.0)), 0.0)


# From the weights of queries and the sums of their pair weights: what a pair costs, but for C.
SCALINGS: dict[str, Callable[[Array, Array], Array]] = {
    "pairs": lambda importance, _: importance,
    "mean_pairs": _mean_over_pairs,
    "mean_queries": _mean_over_queries,
}


@kernel
def _grade_queries(labels: Array, lists: Lists, counts: Array, totals: Array) -> None:
    """Fill grades and bits; counts, totals: pairs of a query, and the sum of their weights."""
    grades, weights, bits, _, offsets = lists
    for q in range(len(offsets) - 1):
        start, stop = offsets[q], offsets[q + 1]
        order = np.argsort(labels[start:stop], kind="mergesort")
        grade, first, below, equal = 0, 0, 0.0, 0.0  # below, equal: weights of smaller labels, and of this one
        for k in range(stop - start):
            i = start + order[k]
            if k > 0 and labels[i] > labels[start + order[k - 1]]:
                grade, first, below, equal = grade + 1, k, below + equal, 0.0
            grades[i] = grade
            counts[q] += first
            totals[q] += weights[i] * below
            equal += weights[i]
        while (1 << bits[q]) <= grade:
            bits[q] += 1


@kernel
def _divide_group(order: Array, grades: Array, bit: int, start: int, out: Array) -> tuple[int, int]:
    """Divide the group (grade >> bit + 1) that begins at `start` by the bit, stably: (first of the upper half, end)."""
    n, group, stop, middle = len(order), grades[order[start]] >> (bit + 1), start, start
    while stop < n and grades[order[stop]] >> (bit + 1) == group:
        if (grades[order[stop]] >> bit) & 1 == 0:
            out[middle] = order[stop]
            middle += 1
        stop += 1
    upper = middle
    for k in range(start, stop):
        if (grades[order[k]] >> bit) & 1 == 1:
            out[upper] = order[k]
            upper += 1
    return middle, stop


@kernel
def _ends(order: Array, grades: Array, bit: int, start: int) -> tuple[int, int]:
    """(first of the upper half, end) of the group that begins at `start` of a divided order."""
    n, group = len(order), grades[order[start]] >> (bit + 1)
    middle = start
    while middle < n and grades[order[middle]] >> bit == 2 * group:
        middle += 1
    stop = middle
    while stop < n and grades[order[stop]] >> (bit + 1) == group:
        stop += 1
    return middle, stop


@kernel
def _longest(first: int, last: int, offsets: Array) -> int:
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def _sum_queries(
    first: int, last: int, lists: Lists, scores: Array, width: float, levels: Levels, gradient: Array, sums: Array
) -> None:
    """sums[q] = loss, slack, dual sum and smallest margin; gradient (n,) times the query's cost; fills `levels`."""
    grades, weights, bits, costs, offsets = lists
    longest = _longest(first, last, offsets)
    buffers, sorting = np.empty((7, longest + 1)), make_sort_workspace(longest)
    for q in range(first, last):
        sums[q, 3] = np.inf
        if bits[q] == 0 or costs[q] == 0.0:
            continue
        start, stop = offsets[q], offsets[q + 1]
        n = stop - start
        relative = scores[start:stop] - scores[start + n // 2]  # large numbers would cost digits
        order = sort_places(relative, sorting, False)[::-1].astype(np.int32)
        for bit in range(bits[q] - 1, -1, -1):
            level, group = levels.order[bit, start:stop], 0
            while group < n:
                middle, end = _divide_group(order, grades[start:stop], bit, group, level)
                if group < middle < end:
                    part = level, levels.first[bit, start:stop], levels.last[bit, start:stop], weights[start:stop]
                    _sum_group((group, middle, end), part, relative, width, buffers, gradient[start:stop], sums[q])
                group = end
            order = level
        for k in range(start, stop):
            gradient[k] *= costs[q]


@kernel
def _sum_group(
    ends: Ends, part: Part, scores: Array, width: float, buffers: Array, gradient: Array, sums: Array
) -> None:
    """Pairs of the upper positions middle .. end - 1 with the lower ones start .. middle - 1, both sorted by score."""
    (start, middle, end), (level, firsts, lasts, weights) = ends, part
    count, total, squares, of_count, of_target, of_steep, sorted_scores = buffers
    count[start], total[start], squares[start] = 0.0, 0.0, 0.0
    for k in range(start, middle):
        weight, score = weights[level[k]], scores[level[k]]
        count[k + 1], total[k + 1] = count[k] + weight, total[k] + weight * score
        squares[k + 1], sorted_scores[k] = squares[k] + weight * score * score, score
        of_count[k], of_target[k], of_steep[k] = 0.0, 0.0, 0.0
    of_count[middle], of_target[middle], of_steep[middle] = 0.0, 0.0, 0.0
    lowest, highest = middle, middle - 1  # of the documents that count
    while lowest < end and weights[level[lowest]] == 0.0:
        lowest += 1
    while highest >= start and weights[level[highest]] == 0.0:
        highest -= 1
    if lowest < end and highest >= start:
        sums[3] = min(sums[3], scores[level[lowest]] - scores[level[highest]])
    first = last = start
    loss, slack, duals = 0.0, 0.0, 0.0
    for k in range(middle, end):
        i = level[k]
        weight, target = weights[i], scores[i] - 1.0  # xi = s_j - target
        while first < middle and sorted_scores[first] <= target:
            first += 1
        last = max(first, last)
        while last < middle and sorted_scores[last] < target + width:
            last += 1
        firsts[k], lasts[k] = first, last
        n, steep = count[last] - count[first], count[middle] - count[last]
        near = total[last] - total[first] - target * n
        far = total[middle] - total[last] - target * steep
        square = squares[last] - squares[first] - target * (total[last] - total[first] + near)
        dual, of_far = near, 0.0
        if last < middle:
            dual, of_far = near + width * steep, width * far - 0.5 * width * width * steep
            of_steep[last] += weight * width
        loss += weight * (0.5 * square + of_far)
        slack += weight * (near + far)
        duals += weight * dual
        gradient[i] -= weight * dual
        of_count[first] += weight
        of_count[last] -= weight
        of_target[first] += weight * target
        of_target[last] -= weight * target
    sums[0] += loss
    sums[1] += slack
    sums[2] += duals
    n, target, steep = 0.0, 0.0, 0.0
    for k in range(start, middle):
        n, target, steep = n + of_count[k], target + of_target[k], steep + of_steep[k]
        j = level[k]
        gradient[j] += weights[j] * (n * sorted_scores[k] - target + steep)


@kernel
def _multiply_queries(first: int, last: int, lists: Lists, levels: Levels, values: Array, out: Array) -> None:
    """out_i = sum over the pairs of i on the quadratic part of w_i w_j (v_i - v_j), times the query's cost."""
    grades, weights, bits, costs, offsets = lists
    buffers = np.empty((4, _longest(first, last, offsets) + 1))
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        for bit in range(bits[q]):
            level, group = levels.order[bit, start:stop], 0
            while group < stop - start:
                middle, end = _ends(level, grades[start:stop], bit, group)
                if group < middle < end:
                    part = level, levels.first[bit, start:stop], levels.last[bit, start:stop], weights[start:stop]
                    _multiply_group((group, middle, end), part, values[start:stop], buffers, out[start:stop])
                group = end
        for k in range(start, stop):
            out[k] *= costs[q]


@kernel
def _multiply_group(ends: Ends, part: Part, values: Array, buffers: Array, out: Array) -> None:
    (start, middle, end), (level, firsts, lasts, weights) = ends, part
    count, total, of_count, of_total = buffers
    count[start], total[start] = 0.0, 0.0
    for k in range(start, middle):
        weight = weights[level[k]]
        count[k + 1], total[k + 1] = count[k] + weight, total[k] + weight * values[level[k]]
    for k in range(start, middle + 1):
        of_count[k], of_total[k] = 0.0, 0.0
    for k in range(middle, end):
        i, first, last = level[k], firsts[k], lasts[k]
        weight, value = weights[i], values[i]
        out[i] += weight * (value * (count[last] - count[first]) - (total[last] - total[first]))
        of_count[first] += weight
        of_count[last] -= weight
        of_total[first] += weight * value
        of_total[last] -= weight * value
    n, sum_above = 0.0, 0.0
    for k in range(start, middle):
        n, sum_above = n + of_count[k], sum_above + of_total[k]
        j = level[k]
        out[j] += weights[j] * (values[j] * n - sum_above)
