"""Pairs given one by one, each with the probability that its first document is the better one.

With `o = sigma (s_i - s_j)` and `P = 1 / (1 + e^-o)`, a pair with target p costs the cross entropy
`-p log P - (1 - p) log(1 - P)`, so `g_i = sigma (P - p)`, `g_j = -g_i`, and both hessians grow by `sigma^2 P (1 - P)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.objectives.base import BoundLabels, BoundObjective, Lists, Outputs
from podium.objectives.pair_losses import sigmoid, softplus
from podium.objectives.pairwise import RankNet


class BoundPairs(BoundObjective):
    """RankNet's cost of given pairs."""

    objective: RankNet

    def __init__(self, objective: RankNet, data: BoundLabels, pairs: GivenPairs, n_jobs: int | None = None) -> None:
        super().__init__(objective, data, n_jobs)
        self.pairs = pairs
        query = np.searchsorted(data.offsets, pairs.first, side="right") - 1
        order = np.argsort(query, kind="stable")
        counts = np.bincount(query, minlength=self.n_queries)
        self._starts = readonly(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
        weights = np.ones(len(query))
        if len(data.weights):
            weights = data.weights[pairs.first] * data.weights[pairs.second]
        parts = pairs.first, pairs.second, pairs.target, weights * data.query_weights[query]
        self._sorted = [readonly(np.ascontiguousarray(part[order])) for part in parts]

    def work(self, lengths: Array) -> Array:
        return np.asarray(8 * lengths)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        lists = scores, *self._sorted, self._starts, self.offsets
        _run_pairs(float(self.objective.sigma), lists, queries, *out)


class GivenPairs:
    """Rows of both documents, and the target of each pair."""

    def __init__(self, first: Array, second: Array, target: Array) -> None:
        self.first, self.second, self.target = first, second, target

    @classmethod
    def read(cls, pairs: Any, rows: Array, offsets: Array) -> GivenPairs:
        """Check (i, j) or (i, j, p), whose rows are the caller's; `rows` groups them by query, as offsets say."""
        if not isinstance(pairs, Sequence) or len(pairs) not in (2, 3):
            raise ValueError(f"pairs must be (i, j) or (i, j, p), three lists; got {type(pairs).__name__}.")
        first, second = (_row_numbers(name, part, len(rows)) for name, part in zip("ij", pairs))
        target = np.ones(len(first)) if len(pairs) == 2 else np.asarray(pairs[2], dtype=np.float64)
        if not first.shape == second.shape == target.shape:
            shapes = f"{first.shape}, {second.shape} and {target.shape}"
            raise ValueError(f"pairs: i, j and p must be as long as one another; got shapes {shapes}.")
        bad = np.flatnonzero(~((target >= 0) & (target <= 1)))
        if len(bad):
            raise ValueError(f"pairs: p must be from 0 to 1; p[{bad[0]}] is {target[bad[0]]}.")
        position = np.empty(len(rows), np.int64)
        position[rows] = np.arange(len(rows))
        query = np.searchsorted(offsets, position, side="right") - 1
        bad = np.flatnonzero((query[first] != query[second]) | (first == second))
        if len(bad):
            rows_of_pair = f"pair {bad[0]} has rows {first[bad[0]]} and {second[bad[0]]}"
            raise ValueError(f"pairs: a pair must be two documents of one query; {rows_of_pair}.")
        return cls(position[first], position[second], target)


def _row_numbers(name: str, part: Any, n_rows: int) -> Array:
    numbers = np.asarray(part)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"pairs: {name} must be a list of row numbers; got {numbers.dtype} of shape {numbers.shape}.")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= n_rows):
        raise ValueError(f"pairs: {name} must be from 0 to {n_rows - 1}; got {numbers.min()} to {numbers.max()}.")
    return numbers.astype(np.int64)


@dataclass(frozen=True)
class PairGradient:
    """g_i of pairs with score differences s_i - s_j, as arrays of JAX."""

    sigma: float

    def __call__(self, difference: Any, target: Any) -> Any:
        from jax.nn import sigmoid

        return self.sigma * (sigmoid(self.sigma * difference) - target)


@kernel
def _run_pairs(
    sigma: float, lists: Lists, queries: Array, gradients: Array, hessians: Array, costs: Array | None
) -> None:
    """The sums at the top of this module; pairs (p,) lie by query, from `starts[q]`; gradients, hessians float32.

    Or costs[q] = sum of w (log(1 + e^-o) + (1 - p) o).
    """
    scores, first, second, target, weights, starts, offsets = lists
    for k in range(len(queries)):
        begin, end, total = offsets[queries[k]], offsets[queries[k] + 1], 0.0
        gradient_sums, hessian_sums = np.zeros(end - begin), np.zeros(end - begin)
        for pair in range(starts[queries[k]], starts[queries[k] + 1]):
            i, j = first[pair] - begin, second[pair] - begin
            o = sigma * (scores[begin + i] - scores[begin + j])
            if costs is not None:
                total += weights[pair] * (softplus(-o) + (1.0 - target[pair]) * o)
                continue
            above = sigmoid(o)
            gradient, hessian = weights[pair] * (above - target[pair]), weights[pair] * above * (1.0 - above)
            gradient_sums[i] += gradient
            gradient_sums[j] -= gradient
            hessian_sums[i] += hessian
            hessian_sums[j] += hessian
        if costs is not None:
            costs[queries[k]] = total
            continue
        for row in range(begin, end):
            gradients[row] = np.float32(sigma * gradient_sums[row - begin])
            hessians[row] = np.float32(sigma * sigma * hessian_sums[row - begin])
