"""Histograms: for each feature and bin, the sum of gradients and hessians of a leaf's rows.

Both sums live in one 64-bit integer: the gradient, in fixed point, in the upper 32 bits, the hessian in the lower 32.
One addition updates both, and integer sums are exact: no order of rows and no number of threads can change them, and so
nothing that is decided by them.

A leaf's rows are copied, a tile at a time, into a small buffer that stays in the cache; copying touches each row once
with few instructions, so that many cache misses overlap. Then 16 features at a time are added up, whose 16 histograms
fit into the innermost cache. The stride of 264 instead of 256 slots keeps them from fighting for the same cache sets.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, WORD

STRIDE = 264  # slots a feature
BLOCK = 2 * WORD  # features added up in one go
TILE = 512  # rows copied at a time

_LOW = np.int64(0xFFFFFFFF)
_U = np.uint32


@kernel
def gradient_of(packed: np.int64) -> np.int64:
    """The gradient sum in units: the upper half, rounded down, so that the lower half never borrows from it."""
    return packed >> np.int64(32)


@kernel
def hessian_of(packed: np.int64) -> np.int64:
    """The hessian sum in units: the lower half, unsigned."""
    return packed & _LOW


@kernel
def pack_rows(gradients: np.ndarray, hessians: np.ndarray, scales: np.ndarray, packed: np.ndarray) -> np.int64:
    """packed[row] = gradient and hessian of each row, in fixed point; returns the largest hessian.

    scales: units a gradient, units a hessian. A hessian is at least one unit, so that a leaf with rows never has
    hessian sum 0. Rows that are not in a tree's sample are packed too, and never looked at.
    """
    largest, g_units, h_units = np.int64(1), scales[0], scales[1]
    for row in range(len(packed)):
        gradient = np.int64(np.rint(np.float64(gradients[row]) * g_units))
        hessian = max(np.int64(np.rint(np.float64(hessians[row]) * h_units)), np.int64(1))
        packed[row] = (gradient << np.int64(32)) + hessian
        largest = max(largest, hessian)
    return largest


@kernel
def _add_block(tile: np.ndarray, at: np.uint32, values: np.ndarray, n: int, own: np.ndarray, features: int) -> None:
    """own[feature * STRIDE + bin] += value, over n rows of 16 bytes. Unsigned indices need no guard."""
    for k in range(n):
        value = values[k]
        for f in range(features):
            own[_U(f * STRIDE) + _U(tile[at + _U(f)])] += value
        at += _U(BLOCK)


@kernel
def add_rows(
    rows: np.ndarray,
    packed: np.ndarray,
    index: np.ndarray,
    first: int,
    last: int,
    histogram: np.ndarray,
    tile: np.ndarray,
    values: np.ndarray,
) -> None:
    """Add the features of words first..last of the rows named by `index`; a tile holds TILE pieces of each block."""
    blocks, odd = (last - first) // 2, (last - first) % 2
    tile_bytes = tile.view(np.uint8)
    for start in range(0, len(index), TILE):
        part = index[start : min(start + TILE, len(index))]
        for k in range(len(part)):
            row = part[k]
            to, word = _U(2 * k), _U(first)
            for _ in range(blocks):
                tile[to] = rows[row, word]
                tile[to + _U(1)] = rows[row, word + _U(1)]
                to += _U(2 * TILE)
                word += _U(2)
            if odd:
                tile[to] = rows[row, word]
            values[k] = packed[row]
        for block in range(blocks):
            own = histogram[(first + 2 * block) * WORD * STRIDE : (first + 2 * block + 2) * WORD * STRIDE]
            _add_block(tile_bytes, _U(block * TILE * BLOCK), values, len(part), own, BLOCK)
        if odd:
            own = histogram[(last - 1) * WORD * STRIDE : last * WORD * STRIDE]
            _add_block(tile_bytes, _U(blocks * TILE * BLOCK), values, len(part), own, WORD)


@kernel
def clear_words(histogram: np.ndarray, first: int, last: int, n_bins: np.ndarray) -> None:
    """Nothing in the features of words first..last; bins that a feature does not have are left alone."""
    for f in range(first * WORD, last * WORD):
        own = histogram[f * STRIDE : (f + 1) * STRIDE]
        for b in range(n_bins[f] if f < len(n_bins) else 1):  # spare features of the last word have bin 0
            own[b] = 0
        own[MISSING] = 0


@kernel
def add_shares(shares: np.ndarray, first: int, last: int, n_bins: np.ndarray, histogram: np.ndarray) -> None:
    """The features of words first..last = the sum of the workers' shares, exactly."""
    clear_words(histogram, first, last, n_bins)
    for worker in range(len(shares)):
        for f in range(first * WORD, min(last * WORD, len(n_bins))):
            own, share = histogram[f * STRIDE : (f + 1) * STRIDE], shares[worker, f * STRIDE : (f + 1) * STRIDE]
            for b in range(n_bins[f]):
                own[b] += share[b]
            own[MISSING] += share[MISSING]
