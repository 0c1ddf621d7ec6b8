"""The distribution over given pairs: any starting weights, cyclic and contradictory pairs too.

    D(b, w) = D0(b, w) exp(s_w - s_b) / total

for pairs of a better document b and a worse one w, with the scores s learned so far. Nothing orders the documents, so
each pair has a weight of its own, made anew from the scores: what a training that resumes computes is then the same to
the bit. Weights are relative to the last total, so that scores of any size do not overflow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.exact import exact_sum
from podium._runtime.threads import over_queries

Directed = tuple[Array, Array, Array, Array]  # better (p,), worse (p,), weight (p,) and starts (queries + 1,)
PairSums = tuple[Array, Array, float]  # weights (p,), potentials (n,) and the total


class PairArrays(NamedTuple):
    """Pairs of positive weight by query, those of query q from `starts[q]` on, as kernels read them."""

    better: Array  # (p,) int64: rows
    worse: Array  # (p,) int64
    starts: Array  # (queries + 1,) int64


def counting_pairs(directed: Directed, counts: Array, weights: Array, query_weights: Array) -> Directed:
    """Pairs with the weights of documents (n,) and queries in theirs, without those of weight 0; rows are numbered
    among those that count (n,)."""
    better, worse, weight, starts = directed
    query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    weight = weight * weights[better] * weights[worse] * query_weights[query]
    some, numbers = weight > 0, np.cumsum(counts) - 1
    begins = np.append(0, np.cumsum(some))[starts]
    return numbers[better[some]], numbers[worse[some]], weight[some], begins


class GivenDistribution:
    """D at the current scores; has what `PairDistribution` has. Rows keep their order: place k has row k."""

    def __init__(self, directed: Directed, n_rows: int, n_jobs: int | None = None) -> None:
        """directed: pairs by query, with positive weights."""
        better, worse, initial, starts = (readonly(np.ascontiguousarray(one)) for one in directed)
        self.better, self.worse, self.starts, self.n_jobs = better, worse, starts, n_jobs
        self.initial = readonly(initial / max(float(exact_sum(initial)), 1e-300))  # D0
        self.order, self.has_pairs, zeros = np.arange(n_rows), len(better) > 0, np.zeros(n_rows)
        self.move_to(zeros, 0.0, self.sums_at(zeros, 0.0))

    def sums_at(self, scores: Array, shift: float) -> PairSums:
        """(weights, potentials, total) at other scores, divided by exp(shift), before they are divided by the total."""
        weights, potentials, pairs = np.empty(len(self.better)), np.zeros(len(scores)), self._pairs

        def work(first: int, last: int) -> None:
            _weigh_pairs(first, last, pairs, (self.initial, readonly(scores)), shift, weights, potentials)

        over_queries(work, self.starts, self.n_jobs)
        return weights, potentials, float(exact_sum(weights))

    def move_to(self, scores: Array, shift: float, sums: PairSums) -> None:
        """D at these scores, with their `sums_at`; if `shift` is the bound before the step, the total is its Z."""
        weights, potentials, total = sums
        scale = 1.0 / total if total > 0 else 0.0
        self.scores, self.shift, self.total = scores, shift, total
        self.weights, self.potentials = weights * scale, potentials * scale

    @property
    def log_bound(self) -> float:
        """The logarithm of sum D0 exp(s_w - s_b), which is the product of all Z so far."""
        return self.shift + math.log(self.total)

    def split(self, inside: Array) -> tuple[float, float]:
        """(W+, W-) of a weak ranker with values 0 and 1: the weight of pairs it orders, and that it reverses."""
        return self._sum_moved(inside, 0.0)[:2]

    def slope(self, values: Array, alpha: float) -> float:
        """`-dZ/dalpha = sum D exp(-alpha u) u` of a weak ranker with these values; u = h_b - h_w."""
        return self._sum_moved(values, alpha)[2]

    def factor(self, values: Array, alpha: float) -> float:
        """`Z = sum D exp(-alpha u)`."""
        return self._sum_moved(values, alpha)[3]

    @property
    def _pairs(self) -> PairArrays:
        return PairArrays(self.better, self.worse, self.starts)

    def _sum_moved(self, values: Array, alpha: float) -> tuple[float, float, float, float]:
        """With D exp(-alpha u): the sums where u > 0, where u < 0, of its product with u, and of all."""
        sums, pairs, weights = np.zeros((4, len(self.starts) - 1)), self._pairs, readonly(self.weights)

        def work(first: int, last: int) -> None:
            _sum_moved(first, last, pairs, (weights, readonly(values)), alpha, sums)

        over_queries(work, self.starts, self.n_jobs)
        ordered, reversed_, slope, total = (float(exact_sum(one)) for one in sums)
        return ordered, reversed_, slope, total


@kernel
def _weigh_pairs(
    first: int,
    last: int,
    pairs: PairArrays,
    arrays: tuple[Array, Array],
    shift: float,
    weights: Array,
    potentials: Array,
) -> None:
    """weights_p = D0_p exp(s_w - s_b - shift), added to the potential of b and taken from that of w."""
    (better, worse, starts), (initial, scores) = pairs, arrays
    for p in range(starts[first], starts[last]):
        b, w = better[p], worse[p]
        weight = initial[p] * math.exp(scores[w] - scores[b] - shift)
        weights[p] = weight
        potentials[b] += weight
        potentials[w] -= weight


@kernel
def _sum_moved(
    first: int, last: int, pairs: PairArrays, arrays: tuple[Array, Array], alpha: float, sums: Array
) -> None:
    """sums[:, q]: see `GivenDistribution._sum_moved`."""
    (better, worse, starts), (weights, values) = pairs, arrays
    for q in range(first, last):
        ordered, reversed_, slope, total = 0.0, 0.0, 0.0, 0.0
        for p in range(starts[q], starts[q + 1]):
            u = values[better[p]] - values[worse[p]]
            weight = weights[p] * math.exp(-alpha * u) if alpha != 0.0 else weights[p]
            if u > 0.0:
                ordered += weight
            elif u < 0.0:
                reversed_ += weight
            slope += weight * u
            total += weight
        sums[0, q], sums[1, q], sums[2, q], sums[3, q] = ordered, reversed_, slope, total
