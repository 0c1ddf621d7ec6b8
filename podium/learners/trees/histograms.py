"""Histograms: for each feature and bin, the sum of gradients and hessians of a leaf's rows.

Both sums live in one 64-bit integer: the gradient, in fixed point, in the upper 32 bits, the hessian in the lower 32.
One addition updates both, and integer sums are exact: no order of rows and no number of threads can change them, and so
nothing that is decided by them.

A leaf's rows are copied, a tile at a time, into a small buffer that stays in the cache; copying touches each row once
with few instructions, so that many cache misses overlap. Then 16 features at a time are added up, whose 16 histograms
fit into the innermost cache. The stride of 264 instead of 256 slots keeps them from fighting for the same cache sets.
"""

from __future__ import annotations

import numba
import numpy as np

from podium._numba import kernel, parallel_kernel
from podium.learners.trees.binning import BLOCK

STRIDE = 264  # slots a feature
TILE = 1024  # rows copied at a time
_WORTH_SHARING = 4096  # rows; below, waking the other threads costs more than they save

_LOW = np.int64(0xFFFFFFFF)
_HALF = np.uint64(32)


@kernel
def gradient_of(packed: np.int64) -> np.int64:
    """The gradient sum in units: the upper half, rounded down, so that the lower half never borrows from it."""
    return packed >> np.int64(32)


@kernel
def hessian_of(packed: np.int64) -> np.int64:
    """The hessian sum in units: the lower half, unsigned."""
    return packed & _LOW


@kernel
def pack_rows(
    gradients: np.ndarray, hessians: np.ndarray, index: np.ndarray, scales: np.ndarray, packed: np.ndarray
) -> None:
    """packed[row] = gradient and hessian of each row of `index`, in fixed point. scales: units a gradient, a hessian.

    A hessian is at least one unit, so that a leaf with rows never has hessian sum 0.
    """
    for k in range(len(index)):
        row = index[k]
        gradient = np.int64(np.rint(np.float64(gradients[row]) * scales[0]))
        hessian = max(np.int64(np.rint(np.float64(hessians[row]) * scales[1])), np.int64(1))
        packed[row] = (gradient << np.int64(32)) + hessian


@kernel
def _add_tile(tile: np.ndarray, width: int, packed: np.ndarray, n: int, histogram: np.ndarray) -> None:
    """histogram[feature * STRIDE + bin] += packed, over n rows of `width` bytes. Unsigned indices need no guard."""
    for block in range(width // BLOCK):
        own = histogram[block * BLOCK * STRIDE : (block + 1) * BLOCK * STRIDE]
        for k in range(n):
            at, value = np.uint32(k) * np.uint32(width) + np.uint32(block * BLOCK), packed[k]
            for f in range(BLOCK):
                own[np.uint32(f * STRIDE) + np.uint32(tile[at + np.uint32(f)])] += value


@kernel
def _add_rows(
    rows: np.ndarray, packed: np.ndarray, index: np.ndarray, histogram: np.ndarray, tile: np.ndarray, values: np.ndarray
) -> None:
    """Add the rows named by `index`. rows: (n, words) uint64 views of the bins; tile: room for TILE rows."""
    words = rows.shape[1]
    for start in range(0, len(index), TILE):
        part = index[start : min(start + TILE, len(index))]
        for k in range(len(part)):
            for word in range(words):
                tile[np.uint32(k) * np.uint32(words) + np.uint32(word)] = rows[part[k], word]
            values[k] = packed[part[k]]
        _add_tile(tile.view(np.uint8), words * 8, values, len(part), histogram)


@parallel_kernel
def _fill_shares(
    rows: np.ndarray,
    packed: np.ndarray,
    index: np.ndarray,
    partial: np.ndarray,
    tiles: np.ndarray,
    values: np.ndarray,
) -> None:
    """Each worker adds up its share of the rows."""
    workers, n = len(partial), len(index)
    for worker in numba.prange(workers):
        own = partial[worker]
        for k in range(len(own)):
            own[k] = 0
        share = index[worker * n // workers : (worker + 1) * n // workers]
        _add_rows(rows, packed, share, own, tiles[worker], values[worker])


@kernel
def fill_histogram(
    rows: np.ndarray,
    packed: np.ndarray,
    index: np.ndarray,
    histogram: np.ndarray,
    partial: np.ndarray,
    tiles: np.ndarray,
    values: np.ndarray,
) -> bool:
    """Sum over the rows named by `index`. partial, tiles, values: room for each worker.

    True when the shares still have to be added: whoever reads the histogram next does that block by block
    (`add_shares`), which saves waking all threads once more.
    """
    if len(partial) > 1 and len(index) >= _WORTH_SHARING:
        _fill_shares(rows, packed, index, partial, tiles, values)
        return True
    for k in range(len(histogram)):
        histogram[k] = 0
    _add_rows(rows, packed, index, histogram, tiles[0], values[0])
    return False


@kernel
def add_shares(partial: np.ndarray, low: int, high: int, histogram: np.ndarray) -> None:
    """histogram[low:high] = the sum of the workers' shares, exactly."""
    own = histogram[low:high]
    first = partial[0, low:high]
    for k in range(len(own)):
        own[k] = first[k]
    for worker in range(1, len(partial)):
        share = partial[worker, low:high]
        for k in range(len(own)):
            own[k] += share[k]
