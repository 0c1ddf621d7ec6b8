"""Pairwise objectives on given pairs, each with the probability p that its first document is the better one.

A pair counts as i above j with weight p and as j above i with weight 1 - p. With C the cost of a pair and
`o = slope (s_i - s_j)`, it costs `p C(o) + (1 - p) C(-o)`. RankNet's C makes this the cross entropy
`-p log P - (1 - p) log(1 - P)` of `P = 1 / (1 + e^-o)`, so `g_i = slope (P - p)` and both hessians grow by
`slope^2 P (1 - P)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.data.given_pairs import GivenPairs
from podium.data.sharding.shard import Shard
from podium.objectives.base import BoundLabels, BoundObjective, Lists, Objective, Outputs, bind_labels
from podium.objectives.pair_losses import LOGISTIC, pair_cost, pair_terms64, sigmoid, softplus
from podium.objectives.pairwise import PairwiseObjective


def bind_pairs(
    objective: Objective,
    pairs: GivenPairs,
    offsets: Array,
    weights: Array | None = None,
    query_weights: Array | None = None,
    n_jobs: int | None = None,
    shard: Shard | None = None,
) -> BoundPairs:
    """A pairwise objective on given pairs; `weights` of documents and `query_weights` multiply those of the pairs."""
    if not isinstance(objective, PairwiseObjective) or not objective.takes_pairs:
        raise ValueError(f"objective {objective.name!r} takes no pairs; use a pairwise one, such as ranknet or hinge.")
    no_labels = np.zeros(int(offsets[-1]))
    return BoundPairs(objective, bind_labels(no_labels, offsets, weights, query_weights, shard), pairs, n_jobs)


class BoundPairs(BoundObjective):
    """A pairwise objective on given pairs."""

    objective: PairwiseObjective

    def __init__(
        self, objective: PairwiseObjective, data: BoundLabels, pairs: GivenPairs, n_jobs: int | None = None
    ) -> None:
        super().__init__(objective, data, n_jobs)
        documents = pairs.weighted(data.weights if len(data.weights) else None, None)
        if objective.pair_exponent:
            factors = _pair_factors(documents, objective.pair_exponent)
            self.query_weights = readonly(data.query_weights * factors)
        self.pairs = documents.weighted(None, self.query_weights)

    @property
    def total_weight(self) -> float:
        """The sum of the pairs' weights."""
        return self.data.exact_sum(self.pairs.weight)

    def effort(self, queries: Array) -> Array:
        """Pairs cost more than rows, and a query has any number of them."""
        return np.asarray(self.data.lengths[queries] + 8 * np.diff(self.pairs.starts)[queries])

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        pairs, settings = self.pairs, (self.objective.pair_loss, float(self.objective.slope))
        lists = scores, pairs.first, pairs.second, pairs.target, pairs.weight, pairs.starts, self.offsets
        if out.costs is None:
            _run_pairs(settings, lists, queries, out.gradients, out.hessians)
        else:
            _sum_costs(settings, lists, queries, out.costs)


def _pair_factors(pairs: GivenPairs, exponent: float) -> Array:
    """(queries,) `n_pairs**-exponent`, of pairs whose weight is not 0; 1 where there are none."""
    counts = np.bincount(pairs.queries[pairs.weight > 0], minlength=pairs.n_queries)
    return np.asarray(np.maximum(counts, 1.0) ** -float(exponent))


@dataclass(frozen=True)
class PairGradient:
    """g_i of pairs with score differences s_i - s_j, as arrays of JAX."""

    sigma: float

    def __call__(self, difference: Any, target: Any) -> Any:
        from jax.nn import sigmoid

        return self.sigma * (sigmoid(self.sigma * difference) - target)


@kernel
def _run_pairs(settings: tuple[int, float], lists: Lists, queries: Array, gradients: Array, hessians: Array) -> None:
    """The derivatives of the cost at the top of this module; pairs (p,) lie by query, from `starts[q]`."""
    (loss, slope), (scores, first, second, target, weights, starts, offsets) = settings, lists
    for k in range(len(queries)):
        begin, end = offsets[queries[k]], offsets[queries[k] + 1]
        gradient_sums, hessian_sums = np.zeros(end - begin), np.zeros(end - begin)
        for pair in range(starts[queries[k]], starts[queries[k] + 1]):
            i, j = first[pair] - begin, second[pair] - begin
            o = slope * (scores[begin + i] - scores[begin + j])
            gradient, hessian = _derivatives(loss, o, target[pair])
            gradient_sums[i] += weights[pair] * gradient
            gradient_sums[j] -= weights[pair] * gradient
            hessian_sums[i] += weights[pair] * hessian
            hessian_sums[j] += weights[pair] * hessian
        for row in range(begin, end):
            gradients[row] = np.float32(slope * gradient_sums[row - begin])
            hessians[row] = np.float32(slope * slope * hessian_sums[row - begin])


@kernel
def _derivatives(loss: int, o: float, p: float) -> tuple[float, float]:
    """Of `p C(o) + (1 - p) C(-o)` by o; a direction of weight 0 is not asked for: its loss could overflow."""
    if loss == LOGISTIC:
        above = sigmoid(o)
        return above - p, above * (1.0 - above)
    gradient, hessian = 0.0, 0.0
    if p > 0.0:
        slope, bend = pair_terms64(loss, o)
        gradient, hessian = -p * slope, p * bend
    if p < 1.0:
        slope, bend = pair_terms64(loss, -o)
        gradient += (1.0 - p) * slope
        hessian += (1.0 - p) * bend
    return gradient, hessian


@kernel
def _sum_costs(settings: tuple[int, float], lists: Lists, queries: Array, costs: Array) -> None:
    """costs[q] = sum of w (p C(o) + (1 - p) C(-o)); of logistic ones w (log(1 + e^-o) + (1 - p) o)."""
    (loss, slope), (scores, first, second, target, weights, starts, _) = settings, lists
    for k in range(len(queries)):
        total = 0.0
        for pair in range(starts[queries[k]], starts[queries[k] + 1]):
            o, p = slope * (scores[first[pair]] - scores[second[pair]]), target[pair]
            if loss == LOGISTIC:
                total += weights[pair] * (softplus(-o) + (1.0 - p) * o)
                continue
            cost = p * pair_cost(loss, o) if p > 0.0 else 0.0
            total += weights[pair] * (cost + ((1.0 - p) * pair_cost(loss, -o) if p < 1.0 else 0.0))
        costs[queries[k]] = total
