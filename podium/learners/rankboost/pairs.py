"""The distribution over pairs, kept per document.

A pair (i, j) of a query, i with the larger label, has the weight

    D(i, j) = c_q w_i w_j p(i, j) exp(s_j - s_i) / total

with the scores s learned so far. The exponential is a product of a number of j and a number of i, so all sums over
pairs that a round needs are sums over documents: those of lower grades are added up from the lowest grade on, and each
document multiplies the sum below it by its own factor. p(i, j) is 1, or the difference of the labels, which the same
loop adds up gap by gap. One pass over the documents, whatever the number of pairs.

Sums are kept relative to the largest exponent in them, and all weights relative to the last total: scores of any size
neither overflow nor vanish together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.exact import exact_sum
from podium._runtime.threads import over_queries

Sums = tuple[Array, Array, float]
Arrays = tuple[Array, Array, Array, Array]  # logarithms of the queries' constants, scores, sources, targets


class Grades(NamedTuple):
    """Rows in places sorted by query and label: the documents of one label of a query, a grade, lie together."""

    order: Array  # (n,) int64: the row at each place
    offsets: Array  # (queries + 1,) int64: where the places of a query begin
    starts: Array  # (grades + 1,) int64: where the places of a grade begin
    labels: Array  # (grades,) float64
    of_query: Array  # (queries + 1,) int64: where the grades of a query begin, lowest first

    @classmethod
    def of(cls, labels: Array, offsets: Array) -> Grades:
        """labels (n,) and offsets (queries + 1,) of grouped rows."""
        offsets = np.asarray(offsets, np.int64)
        query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((labels, query))
        ordered = np.asarray(labels, np.float64)[order]
        begins = np.ones(len(ordered), np.bool_)
        begins[1:] = (ordered[1:] != ordered[:-1]) | (query[1:] != query[:-1])
        starts = np.append(np.flatnonzero(begins), len(ordered))
        arrays = order, offsets, starts, ordered[starts[:-1]], np.searchsorted(starts, offsets)
        return cls(*map(readonly, arrays))

    @property
    def most_per_query(self) -> int:
        return int(np.diff(self.of_query).max(initial=0))


class PairDistribution:
    """D at the current scores. `better` and `worse` have, per place, the weight of its pairs in which it is the one."""

    def __init__(
        self,
        grades: Grades,
        weights: Array,
        query_weights: Array,
        by_difference: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        """weights (n,) per place, query_weights (queries,); by_difference: p is the difference of labels, not 1."""
        self.grades, self.by_difference, self.n_jobs = grades, by_difference, n_jobs
        self.weights = readonly(np.asarray(weights, np.float64))
        with np.errstate(divide="ignore"):  # a query of weight 0 has no pairs
            self.log_constants = readonly(np.log(np.asarray(query_weights, np.float64)))
        self.shift, n = 0.0, len(weights)  # the logarithm that all weights are relative to
        self.better, self.worse, self.total = np.zeros(n), np.zeros(n), 0.0
        start = np.zeros(n)
        self.move_to(start, 0.0, self.sums_at(start, 0.0))
        self.has_pairs = self.total > 0
        if self.has_pairs:
            shift = math.log(self.total)
            self.move_to(start, shift, self.sums_at(start, shift))

    def sums_at(self, scores: Array, shift: float) -> Sums:
        """(better, worse, total) at other scores, divided by exp(shift), before they are divided by the total."""
        better = self.opposed(scores, shift, 1.0, self.weights, self.weights)
        worse = self.opposed(scores, shift, -1.0, self.weights, self.weights)
        return better, worse, float(exact_sum(better))

    def move_to(self, scores: Array, shift: float, sums: Sums) -> None:
        """D at these scores, with their `sums_at`; if `shift` is the bound before the step, the total is its Z."""
        better, worse, total = sums
        scale = 1.0 / total if total > 0 else 0.0
        self.scores, self.shift, self.total = scores, shift, total
        self.better, self.worse = better * scale, worse * scale

    @property
    def order(self) -> Array:
        """(n,) the row at each place."""
        return self.grades.order

    @property
    def log_bound(self) -> float:
        """The logarithm of sum D0 exp(s_j - s_i), which is the product of all Z so far."""
        return self.shift + math.log(self.total)

    @property
    def potentials(self) -> Array:
        """Per place, so that `sum D (h_i - h_j)` over pairs is `sum potentials h` over documents, for any h."""
        return self.better - self.worse

    def split(self, inside: Array) -> tuple[float, float]:
        """(W+, W-) of a weak ranker with values 0 and 1: the weight of pairs it orders, and that it reverses."""
        within = self.weights * inside
        beyond = self.weights * (1.0 - inside)
        shift = self.log_bound
        ordered = self.opposed(self.scores, shift, 1.0, beyond, within)
        reversed_ = self.opposed(self.scores, shift, 1.0, within, beyond)
        return float(exact_sum(ordered)), float(exact_sum(reversed_))

    def slope(self, values: Array, alpha: float) -> float:
        """`-dZ/dalpha = sum D exp(-alpha u) u` of a weak ranker with these values; u = h_i - h_j."""
        better, worse, _ = self.sums_at(self.scores + alpha * values, self.log_bound)
        return float(exact_sum((better - worse) * values))

    def factor(self, values: Array, alpha: float) -> float:
        """`Z = sum D exp(-alpha u)`."""
        scores = self.scores + alpha * values
        return float(exact_sum(self.opposed(scores, self.log_bound, 1.0, self.weights, self.weights)))

    def opposed(self, scores: Array, shift: float, sign: float, sources: Array, targets: Array) -> Array:
        """Per place k, `targets_k c sum_j sources_j p exp(sign (s_j - s_k) - shift)`.

        j is of lower grades if the sign is 1, of higher ones if it is -1.
        """
        out = np.empty(len(scores))
        arrays = self.log_constants, readonly(scores), readonly(sources), readonly(targets)

        def work(first: int, last: int) -> None:
            _sum_opposed(first, last, self.grades, arrays, shift, self.by_difference, sign, out)

        over_queries(work, self.grades.offsets, self.n_jobs)
        return out


@kernel
def _sum_opposed(
    first: int, last: int, grades: Grades, arrays: Arrays, shift: float, by_difference: bool, sign: float, out: Array
) -> None:
    """`PairDistribution.opposed` of queries first .. last - 1.

    Over the grades g that were passed, with top the largest sign s_j among their sources:
    mass = sum sources_j exp(sign s_j - top), opposed = sum p(g, label_j) sources_j exp(sign s_j - top).
    """
    (_, _, starts, labels, of_query), (log_constants, scores, sources, targets) = grades, arrays
    for q in range(first, last):
        mass, opposed, top = 0.0, 0.0, -np.inf
        count = of_query[q + 1] - of_query[q]
        for t in range(count):
            g = of_query[q] + t if sign > 0 else of_query[q + 1] - 1 - t
            if not by_difference:
                opposed = mass
            elif t > 0:
                opposed += abs(labels[g] - labels[g - 1 if sign > 0 else g + 1]) * mass
            peak = top
            for k in range(starts[g], starts[g + 1]):
                score = sign * scores[k]
                out[k] = 0.0
                if opposed > 0.0 and targets[k] > 0.0:
                    out[k] = targets[k] * opposed * math.exp(top - score + log_constants[q] - shift)
                if sources[k] > 0.0:
                    peak = max(peak, score)
            if peak > top:
                shrink = math.exp(top - peak)
                mass, opposed, top = mass * shrink, opposed * shrink, peak
            for k in range(starts[g], starts[g + 1]):
                if sources[k] > 0.0:
                    mass += sources[k] * math.exp(sign * scores[k] - top)
