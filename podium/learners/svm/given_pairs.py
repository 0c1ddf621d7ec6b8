"""Hinge losses over given pairs: any pairs within queries, each with a weight, cyclic and contradictory ones too.

Nothing orders the documents, so the sums of `pairs.py` are taken pair by pair, in O(pairs). A pair of the weight c, of
the better document b and the worse one w, has the slack `xi = max(0, 1 - (s_b - s_w))` and adds

    c (xi d - 1/2 d^2)     to the loss, d = min(xi, width)
    c xi, c d              to the slack and the dual sum
    -c d, c d              to the gradients of b and w
    c                      to the second derivatives, in the direction s_b - s_w, where 0 < xi < width
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.learners.svm.pairs import SCALINGS, Violations

Directed = tuple[Array, Array, Array, Array]  # better (p,), worse (p,), weight (p,) and starts (queries + 1,)


class PairArrays(NamedTuple):
    """Pairs of positive weight by query, those of query q from `starts[q]` on, as kernels read them."""

    better: Array  # (p,) int64: rows
    worse: Array  # (p,) int64
    weights: Array  # (p,): what a pair counts, with its documents' and its query's weight
    starts: Array  # (queries + 1,) int64


class GivenMargins:
    """Given pairs of one data set; has what `Pairs` has."""

    def __init__(
        self,
        directed: Directed,
        weights: Array | None = None,
        query_weights: Array | None = None,
        scaling: str = "pairs",
        n_jobs: int | None = None,
    ) -> None:
        """directed: pairs by query, rows of the grouped data; weights (n,), query_weights (queries,): 1 if None."""
        (better, worse, counted, starts), self.n_jobs = directed, n_jobs
        n_queries, query = len(starts) - 1, np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        if weights is not None:
            counted = counted * weights[better] * weights[worse]
        importance = np.ones(n_queries) if query_weights is None else np.array(query_weights, np.float64)
        totals = np.bincount(query, counted, minlength=n_queries)
        counted = counted * SCALINGS[scaling](importance, totals)[query]
        counts = counted > 0
        self.counts = np.bincount(query[counts], minlength=n_queries)
        begins = np.append(0, np.cumsum(self.counts))
        arrays = better[counts], worse[counts], counted[counts], begins
        self.arrays = PairArrays(*(readonly(np.ascontiguousarray(one)) for one in arrays))

    def violations(self, scores: Array, width: float = np.inf) -> Violations:
        """Loss, gradient and curvature at these scores (n,)."""
        arrays, gradient, sums = self.arrays, np.zeros(len(scores)), np.zeros((len(self.counts), 4))
        quadratic = np.zeros(len(arrays.weights), np.bool_)

        def work(first: int, last: int) -> None:
            _sum_pairs(first, last, arrays, readonly(scores), width, quadratic, gradient, sums)

        over_queries(work, arrays.starts, self.n_jobs)
        loss, slack, dual_sum = (float(sums[:, k].sum()) for k in range(3))
        margin = float(sums[:, 3].min(initial=np.inf))
        return Violations(loss, slack, dual_sum, margin, gradient, GivenCurvature(self, quadratic))


@dataclass(frozen=True, eq=False)
class GivenCurvature:
    """Which given pairs are on the quadratic part of the loss: its second derivatives."""

    pairs: GivenMargins
    quadratic: Array  # (p,) bool

    @property
    def share(self) -> float:
        """Of all pairs, those on the quadratic part."""
        return int(np.count_nonzero(self.quadratic)) / max(len(self.quadratic), 1)

    def multiply(self, values: Array) -> Array:
        """The second derivatives of the loss in the scores, times values (n,)."""
        arrays, out = self.pairs.arrays, np.zeros(len(values))

        def work(first: int, last: int) -> None:
            _multiply_pairs(first, last, arrays, self.quadratic, readonly(values), out)

        over_queries(work, arrays.starts, self.pairs.n_jobs)
        return out


@kernel
def _sum_pairs(
    first: int,
    last: int,
    pairs: PairArrays,
    scores: Array,
    width: float,
    quadratic: Array,
    gradient: Array,
    sums: Array,
) -> None:
    """sums[q] = loss, slack, dual sum and smallest margin; gradient (n,); fills `quadratic`."""
    better, worse, weights, starts = pairs
    for q in range(first, last):
        loss, slack, duals, margin = 0.0, 0.0, 0.0, np.inf
        for k in range(starts[q], starts[q + 1]):
            difference, weight = scores[better[k]] - scores[worse[k]], weights[k]
            margin = min(margin, difference)
            xi = 1.0 - difference
            if xi <= 0.0:
                continue
            dual = min(xi, width)
            quadratic[k] = xi < width
            loss += weight * dual * (xi - 0.5 * dual)
            slack += weight * xi
            duals += weight * dual
            gradient[better[k]] -= weight * dual
            gradient[worse[k]] += weight * dual
        sums[q, 0], sums[q, 1], sums[q, 2], sums[q, 3] = loss, slack, duals, margin


@kernel
def _multiply_pairs(first: int, last: int, pairs: PairArrays, quadratic: Array, values: Array, out: Array) -> None:
    """out_b += c (v_b - v_w), out_w -= c (v_b - v_w) for the pairs on the quadratic part."""
    better, worse, weights, starts = pairs
    for k in range(starts[first], starts[last]):
        if quadratic[k]:
            change = weights[k] * (values[better[k]] - values[worse[k]])
            out[better[k]] += change
            out[worse[k]] -= change
