"""How features vary within queries: what makes Newton's equations easy to solve.

The scatter of a query is the sum over its pairs of `(x_i - x_j)(x_i - x_j)'`; over all pairs, equal labels too, it is
the number of documents times their covariance. The Hessian is that of the pairs inside the margin, so it looks like
`I + factor S`: solving with the latter first leaves conjugate gradients little to do, whatever the scales of features
and however they depend on one another. An approximation is enough here: it changes the way to the solution, not the
solution.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.linalg import eigh

from podium._runtime.compiler import Array, fast_kernel, readonly
from podium._runtime.threads import map_blocks
from podium.learners.linear.products import multiply
from podium.learners.svm.pairs import Pairs

_MOST_ROWS = 32_768  # whole queries at even distances stand for all of them beyond this
_MOST_FEATURES = 1024  # with more, only the diagonal is used
_BLOCK_QUERIES = 64


class Preconditioner:
    """Solves `(I + factor S) x = r` for the scatter S of the training pairs, or its diagonal."""

    def __init__(self, values: Array, vectors: Array | None) -> None:
        """`values`: eigenvalues of S with its `vectors`, or its diagonal."""
        self.values, self._vectors = np.maximum(values, 0.0), vectors
        self._turned = None if vectors is None else np.ascontiguousarray(vectors.T)
        self._scale = np.ones(len(values))

    @classmethod
    def of(cls, X: Array, pairs: Pairs) -> Self:
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


def scatter(X: Array, pairs: Pairs, diagonal: bool = False) -> Array:
    """S (features, features), or its diagonal as (1, features), weighted as the pairs are; added block by block."""
    X, width = readonly(X), X.shape[1]
    lists, sizes = pairs.lists, np.diff(pairs.lists.offsets)
    every = -(-int(sizes.sum()) // _MOST_ROWS) if len(sizes) else 1
    queries = np.flatnonzero(pairs.counts > 0)[::every]
    # of all pairs of a query, the share that has different labels
    shares = every * lists.costs * pairs.counts / np.maximum(sizes * (sizes - 1) / 2, 1)
    blocks = [queries[k : k + _BLOCK_QUERIES] for k in range(0, len(queries), _BLOCK_QUERIES)]

    def work(block: int) -> Array:
        total = np.zeros((1 if diagonal else width, width))
        _add_scatter(X, lists.offsets, lists.weights, shares, blocks[block], total)
        return total

    total = np.zeros((1 if diagonal else width, width))
    for part in map_blocks(work, len(blocks), pairs.n_jobs):
        total += part
    return total


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
