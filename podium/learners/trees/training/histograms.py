"""Histograms: for each feature and bin, the sum of gradients and hessians of a leaf's rows.

Both sums live in one 64-bit integer: the gradient, in fixed point, in the upper 32 bits, the hessian in the lower 32.
One addition updates both, and integer sums are exact: no order of rows and no number of threads can change them, and so
nothing that is decided by them.

With many millions of rows 32 bits leave too few units per row. Then histograms are wide: a complex number per slot, the
gradient in its real and the hessian in its imaginary part, both integers below 2**53, which float64 adds exactly; the
largest row has 18 bits. All
kernels take either kind; `gradient_of` and `hessian_of` are the only ones that know which it is.

A leaf's rows are copied, a tile at a time, into a small buffer that stays in the cache; copying touches each row once
with few instructions, so that many cache misses overlap. Then 16 features at a time are added up, whose 16 histograms
fit into the innermost cache. The stride of 264 instead of 256 slots keeps them from fighting for the same cache sets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from podium._runtime.compiler import Array, kernel, overload
from podium.learners.trees.training.binning import MISSING, WORD

STRIDE = 264  # slots per feature
BLOCK = 2 * WORD  # features added up in one go
TILE = 512  # rows copied at a time

_LOW = np.int64(0xFFFFFFFF)
_U = np.uint32


PACKED, WIDE = np.dtype(np.int64), np.dtype(np.complex128)  # the two kinds of a sum
_CAPACITY = 2.0**31  # largest sum that is packed, in units
_WIDE_BITS = 18  # of the largest row, at least, where histograms are wide: sums of 8,192 rows still fit 32 bits


def gradient_of(total: Any) -> Any:
    """The gradient sum in units. Packed: the upper half, rounded down, so that the lower half never borrows from it."""
    return np.real(total) if np.iscomplexobj(total) else np.int64(total) >> np.int64(32)


def hessian_of(total: Any) -> Any:
    """The hessian sum in units. Packed: the lower half, unsigned."""
    return np.imag(total) if np.iscomplexobj(total) else np.int64(total) & _LOW


# Numba compares the signatures of these with those of what they return: no annotations.
@overload(gradient_of)
def _gradient_of(total):  # type: ignore[no-untyped-def]
    if isinstance(total, types.Complex):
        return lambda total: total.real
    return lambda total: total >> np.int64(32)


@overload(hessian_of)
def _hessian_of(total):  # type: ignore[no-untyped-def]
    if isinstance(total, types.Complex):
        return lambda total: total.imag
    return lambda total: total & _LOW


def units_of(total: float, largest: float, n_rows: int, kind: np.dtype) -> float:
    """Units per gradient or hessian, a power of two, for sizes up to `largest` that add up to `total`.

    No packed sum of rows can overflow. Wide ones have no fewer units, and enough for `_WIDE_BITS` of the largest row.
    """
    if not total > 0:
        return 1.0
    capacity = _CAPACITY - 2.0 * n_rows - 2.0  # rounding may add one unit per row
    units = float(2.0 ** (np.frexp(capacity / total)[1] - 1))
    return max(units, float(2.0 ** (_WIDE_BITS - np.frexp(largest)[1]))) if kind is WIDE else units


@kernel
def pack_rows(gradients: Array, hessians: Array, scales: Array, packed: Array) -> np.int64:
    """packed[row] = gradient and hessian of each row, in fixed point; returns the largest hessian.

    scales: units per gradient, units per hessian. A hessian is at least one unit, so that a leaf with rows never has
    hessian sum 0. Rows that are not in a tree's sample are packed too, and never read.
    """
    largest, g_units, h_units = np.int64(1), scales[0], scales[1]
    for row in range(len(packed)):
        gradient = np.int64(np.rint(np.float64(gradients[row]) * g_units))
        hessian = max(np.int64(np.rint(np.float64(hessians[row]) * h_units)), np.int64(1))
        packed[row] = (gradient << np.int64(32)) + hessian
        largest = max(largest, hessian)
    return largest


@kernel
def pack_wide(gradients: Array, hessians: Array, scales: Array, packed: Array) -> np.int64:
    """`pack_rows` for wide histograms."""
    largest, g_units, h_units = 1.0, scales[0], scales[1]
    for row in range(len(packed)):
        hessian = max(np.rint(np.float64(hessians[row]) * h_units), 1.0)
        packed[row] = complex(np.rint(np.float64(gradients[row]) * g_units), hessian)
        largest = max(largest, hessian)
    return np.int64(largest)


@kernel
def _add_block(tile: Array, at: np.uint32, values: Array, n: int, sums: Array, features: int) -> None:
    """sums[feature * STRIDE + bin] += value, over n rows of 16 bytes. Unsigned indices need no guard."""
    for k in range(n):
        value = values[k]
        for f in range(features):
            sums[_U(f * STRIDE) + _U(tile[at + _U(f)])] += value
        at += _U(BLOCK)


@kernel
def add_rows(
    rows: Array, packed: Array, index: Array, first: int, last: int, histogram: Array, tile: Array, values: Array
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
            sums = histogram[(first + 2 * block) * WORD * STRIDE : (first + 2 * block + 2) * WORD * STRIDE]
            _add_block(tile_bytes, _U(block * TILE * BLOCK), values, len(part), sums, BLOCK)
        if odd:
            sums = histogram[(last - 1) * WORD * STRIDE : last * WORD * STRIDE]
            _add_block(tile_bytes, _U(blocks * TILE * BLOCK), values, len(part), sums, WORD)


@kernel
def clear_words(histogram: Array, first: int, last: int, n_bins: Array) -> None:
    """Nothing in the features of words first..last; bins that a feature does not have are left alone."""
    for f in range(first * WORD, last * WORD):
        slots = histogram[f * STRIDE : (f + 1) * STRIDE]
        for b in range(n_bins[f] if f < len(n_bins) else 1):  # spare features of the last word have bin 0
            slots[b] = 0
        slots[MISSING] = 0


@kernel
def add_shares(shares: Array, first: int, last: int, n_bins: Array, histogram: Array) -> None:
    """The features of words first..last = the sum of the workers' shares, exactly."""
    clear_words(histogram, first, last, n_bins)
    for worker in range(len(shares)):
        for f in range(first * WORD, min(last * WORD, len(n_bins))):
            total, share = histogram[f * STRIDE : (f + 1) * STRIDE], shares[worker, f * STRIDE : (f + 1) * STRIDE]
            for b in range(n_bins[f]):
                total[b] += share[b]
            total[MISSING] += share[MISSING]


@kernel
def subtract_words(child: Array, parent: Array, before: int, first: int, last: int, n_slots: Array) -> None:
    """In the columns of words first..last, leave of the parent what is not the child's.

    before: columns that the histograms do not have, the first ones.
    """
    for column in range(first * WORD, min(last * WORD, len(n_slots))):
        slots = slice((column - before) * STRIDE, (column - before + 1) * STRIDE)
        taken, rest = child[slots], parent[slots]
        for slot in range(n_slots[column]):
            rest[slot] -= taken[slot]
        rest[MISSING] -= taken[MISSING]
