"""Products of the rows with a vector, in a fixed order of additions.

scores = X w and the gradient X' g are the cost of a linear model. BLAS may add in another order for another number of
threads; here rows are divided into blocks of a fixed size, each block is one loop, and the sums of blocks are added in
their order. So the result has the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, fast_kernel, readonly
from podium._runtime.threads import map_slices

_BLOCK_ROWS = 8192
_FEWEST_VALUES = 1 << 20  # of X: below this, handing out work costs more than it saves


def multiply(X: Array, weights: Array, out: Array, n_jobs: int | None = None) -> None:
    """out = X weights. X (n, features) float32 in C order, weights (features,) and out (n,) float64."""
    X = readonly(X)

    def work(part: slice) -> None:
        _multiply_block(X[part], weights, out[part])

    map_slices(work, len(X), _BLOCK_ROWS, n_jobs if X.size >= _FEWEST_VALUES else 1)


def multiply_transposed(X: Array, values: Array, n_jobs: int | None = None) -> Array:
    """X' values, float64. values (n,) float64."""
    X = readonly(X)

    def work(part: slice) -> Array:
        total = np.zeros(X.shape[1])
        _add_block(X[part], values[part], total)
        return total

    total = np.zeros(X.shape[1])
    for block in map_slices(work, len(X), _BLOCK_ROWS, n_jobs if X.size >= _FEWEST_VALUES else 1):
        total += block
    return total


@fast_kernel
def _multiply_block(X: Array, weights: Array, out: Array) -> None:
    for i in range(len(X)):
        total = 0.0
        for f in range(X.shape[1]):
            total += X[i, f] * weights[f]
        out[i] = total


@fast_kernel
def _add_block(X: Array, values: Array, total: Array) -> None:
    for i in range(len(X)):
        value = values[i]
        for f in range(X.shape[1]):
            total[f] += X[i, f] * value
