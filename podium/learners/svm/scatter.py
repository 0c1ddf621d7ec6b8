"""How features vary within queries: what makes Newton's equations easy to solve.

The scatter of a query is the sum over its pairs of `(x_i - x_j)(x_i - x_j)'`; over all pairs, equal labels too, it is
the number of documents times their covariance. The Hessian is that of the pairs inside the margin, so it looks like
`I + factor S`: solving with the latter first leaves conjugate gradients little to do, whatever the scales of features
and however they depend on one another. An approximation is enough here: it changes the way to the solution, not the
solution. Of given pairs, which need not be all pairs of a query nor even many, the scatter is that of the pairs
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from scipy.linalg import eigh

from podium._runtime.compiler import Array, fast_kernel, readonly
from podium._runtime.threads import map_blocks
from podium.learners.linear.products import multiply
from podium.learners.svm.given_pairs import GivenMargins
from podium.learners.svm.pairs import Pairs

_MOST_ROWS = 32_768  # whole queries, or given pairs, at even distances stand for all of them beyond this
_MOST_FEATURES = 1024  # with more, only the diagonal is used
_BLOCK_QUERIES, _BLOCK_PAIRS = 64, 4096


class Preconditioner:
    """Solves `(I + factor S) x = r` for the scatter S of the training pairs, or its diagonal."""

    def __init__(self, values: Array, vectors: Array | None) -> None:
        """`values`: eigenvalues of S with its `vectors`, or its diagonal."""
        self.values, self._vectors = np.maximum(values, 0.0), vectors
        self._turned = None if vectors is None else np.ascontiguousarray(vectors.T)
        self._scale = np.ones(len(values))

    @classmethod
    def of(cls, X: Array, pairs: Pairs | GivenMargins) -> Self:
        """X (n, features) in C order."""
        if X.shape[1] > _MOST_FEATURES:
            return cls(scatter(X, pairs, diagonal=True)[0], None)
        values, vectors = eigh(scatter(X, pairs))
        return cls(values, np.ascontiguousarray(vectors))

    def prepare(self, factor: float) -> None:
        self._scale = 1.0 / (1.0 + factor * self.values)

    def solve(self, right: Array) -> Array:
        if self._vectors is None or self._turned is None:
            return np.asarray(self._scale * right)
        turned, solution = np.empty(len(right)), np.empty(len(right))
        multiply(self._turned, right, turned, 1)  # BLAS might add in another order with more threads
        multiply(self._vectors, self._scale * turned, solution, 1)
        return solution


def scatter(X: Array, pairs: Pairs | GivenMargins, diagonal: bool = False) -> Array:
    """S (features, features), or its diagonal as (1, features), weighted as the pairs are; added block by block."""
    X, width = readonly(X), X.shape[1]
    add, n_blocks = _blocks_of_pairs(X, pairs) if isinstance(pairs, GivenMargins) else _blocks_of_queries(X, pairs)

    def work(block: int) -> Array:
        total = np.zeros((1 if diagonal else width, width))
        add(block, total)
        return total

    total = np.zeros((1 if diagonal else width, width))
    for part in map_blocks(work, n_blocks, pairs.n_jobs):
        total += part
    return total


def _blocks_of_queries(X: Array, pairs: Pairs) -> tuple[Callable[[int, Array], None], int]:
    lists, sizes = pairs.lists, np.diff(pairs.lists.offsets)
    every = -(-int(sizes.sum()) // _MOST_ROWS) if len(sizes) else 1
    queries = np.flatnonzero(pairs.counts > 0)[::every]
    # of all pairs of a query, the share that has different labels
    shares = every * lists.costs * pairs.counts / np.maximum(sizes * (sizes - 1) / 2, 1)
    blocks = [queries[k : k + _BLOCK_QUERIES] for k in range(0, len(queries), _BLOCK_QUERIES)]

    def add(block: int, total: Array) -> None:
        _add_scatter(X, lists.offsets, lists.weights, shares, blocks[block], total)

    return add, len(blocks)


def _blocks_of_pairs(X: Array, pairs: GivenMargins) -> tuple[Callable[[int, Array], None], int]:
    better, worse, weights, _ = pairs.arrays
    every = max(-(-len(weights) // _MOST_ROWS), 1)
    chosen = np.arange(0, len(weights), every)
    blocks = [chosen[k : k + _BLOCK_PAIRS] for k in range(0, len(chosen), _BLOCK_PAIRS)]

    def add(block: int, total: Array) -> None:
        _add_pairs(X, better, worse, every * weights[blocks[block]], blocks[block], total)

    return add, len(blocks)


@fast_kernel
def _add_scatter(X: Array, offsets: Array, weights: Array, shares: Array, queries: Array, total: Array) -> None:
    """total += share sum_i w_i * sum_i w_i (x_i - mean)(x_i - mean)'; one row of total: the diagonal alone.

    Only the lower triangle of a matrix is filled, which is what `eigh` reads.
    """
    mean, row = np.empty(X.shape[1]), np.empty(X.shape[1])
    for q in queries:
        mean[:], weight = 0.0, 0.0
        for i in range(offsets[q], offsets[q + 1]):
            weight += weights[i]
            for f in range(len(mean)):
                mean[f] += weights[i] * X[i, f]
        if weight == 0.0:
            continue
        for i in range(offsets[q], offsets[q + 1]):
            factor = shares[q] * weight * weights[i]
            for f in range(len(mean)):
                row[f] = X[i, f] - mean[f] / weight
            if len(total) == 1:
                for f in range(len(mean)):
                    total[0, f] += factor * row[f] * row[f]
                continue
            for f in range(len(mean)):
                scaled = factor * row[f]
                for g in range(f + 1):
                    total[f, g] += scaled * row[g]


@fast_kernel
def _add_pairs(X: Array, better: Array, worse: Array, weights: Array, chosen: Array, total: Array) -> None:
    """total += sum_p c_p (x_b - x_w)(x_b - x_w)' of the chosen pairs; rows of total as in `_add_scatter`."""
    row = np.empty(X.shape[1])
    for p in range(len(chosen)):
        b, w = better[chosen[p]], worse[chosen[p]]
        for f in range(len(row)):
            row[f] = np.float64(X[b, f]) - np.float64(X[w, f])
        if len(total) == 1:
            for f in range(len(row)):
                total[0, f] += weights[p] * row[f] * row[f]
            continue
        for f in range(len(row)):
            scaled = weights[p] * row[f]
            for g in range(f + 1):
                total[f, g] += scaled * row[g]
