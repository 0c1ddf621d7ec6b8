"""What the linter measures of sparse features, at the cost of their stored entries: the same facts as of dense ones.

What is not stored is 0, whose bits are 0: it adds nothing to a hash, and counts only as one more value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podium.lint.facts import Facts, canonical_bits, keys


def measure_sparse(X: Any, offsets: np.ndarray) -> Facts:
    """All facts of a `csr_array` in the form that `as_sparse` gives it, its rows grouped by query."""
    n, width = X.shape
    bits = canonical_bits(X.data[None, :])[0]
    stored = bits != 0
    row, column = np.repeat(np.arange(n), np.diff(X.indptr))[stored], X.indices[stored].astype(np.int64)
    bits, values = bits[stored], X.data[stored]
    wide = bits.astype(np.uint64)
    counts = np.bincount(column, minlength=width)
    low, high = _extremes(column, values, width)
    zero = counts < n
    low, high = np.where(zero, np.fmin(low, 0), low), np.where(zero, np.fmax(high, 0), high)
    first = np.zeros(width, np.uint32)
    first[column[row == 0]] = bits[row == 0]
    query = np.searchsorted(offsets, row, side="right") - 1
    in_query = _varies(query * width + column, bits, np.diff(offsets)[query])
    in_all = _varies(column, bits, np.full(len(column), n))
    return Facts(
        np.bincount(column[np.isnan(values)], minlength=width),
        low,
        high,
        first,
        _any_of(column, in_all, width),
        _any_of(column, in_query, width),
        _sums(column, wide * keys(0, n)[row], width),
        _sums(row, wide * keys(0, width)[column], n),
    )


def _extremes(column: np.ndarray, values: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest stored value of each column, NaN where there is none."""
    low, high = np.full(width, np.nan, np.float32), np.full(width, np.nan, np.float32)
    np.fmin.at(low, column, values)
    np.fmax.at(high, column, values)
    return low, high


def _varies(group: np.ndarray, bits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """For each entry: are the values of its group not all the same? `sizes`: of the group, zeros included."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    if not len(starts):
        return np.zeros(0, bool)
    low, high = (of.reduceat(bits[order], starts) for of in (np.minimum, np.maximum))
    lengths = np.diff(starts, append=len(group))
    varies = np.empty(len(group), bool)
    varies[order] = np.repeat((low != high) | (lengths < sizes[order][starts]), lengths)
    return varies


def _any_of(column: np.ndarray, flags: np.ndarray, width: int) -> np.ndarray:
    result = np.zeros(width, bool)
    result[column[flags]] = True
    return result


def _sums(group: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Of uint64 values by group; they wrap, by design."""
    order = np.argsort(group, kind="stable")
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values[order], dtype=np.uint64)])
    ends = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n))])
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]])
