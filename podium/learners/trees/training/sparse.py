"""Sparse rows in training: every step costs the stored entries, none the rows times the features.

Bin edges need the values of a column (`SparseColumns`), bundles the rows in which a feature is outside the bin of 0
(`find_non_default`), and bins are written entry by entry (`bin_entries`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly

if TYPE_CHECKING:
    from podium.learners.trees.training.binning import FeatureLayout

Entries = tuple[Array, Array, Array]  # of sparse rows: their ends, and the columns and values of stored entries
Edges = tuple[Array, Array]  # `upper` and `categorical` of `BinEdges`
Slots = tuple[Array, Array, Array, Array]  # rows, columns, and per feature whether values are missing, or collide


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """The stored values of each column: those of column f are `values[ends[f]:ends[f + 1]]`."""

    values: Array
    ends: Array
    n_rows: int

    @classmethod
    def of(cls, X: Any) -> SparseColumns:
        by_column = X.tocsc()
        return cls(by_column.data, by_column.indptr, X.shape[0])

    def take(self, first: int, last: int) -> list[tuple[Array, int]]:
        """The stored values of each column in order, NaN last, and how many zeros there are beside them."""
        columns = [np.sort(self.values[self.ends[f] : self.ends[f + 1]]) for f in range(first, last)]
        return [(values, self.n_rows - len(values)) for values in columns]


def find_non_default(X: Any, upper: Array, features: Array) -> tuple[Array, list[Array]]:
    """The bin of 0 of each of these features, and the rows (uint32) in which it is outside of it.

    upper: (all features, 255) the bin edges of bins, as in `BinEdges`. None of the features is categorical.
    """
    by_column = X.tocsc()
    zeros = bins_of_zero(upper, np.zeros(len(upper), dtype=np.bool_))
    is_non_default = np.empty(len(by_column.data), dtype=np.bool_)
    _compare_bins(readonly(by_column.indptr), readonly(by_column.data), readonly(upper), zeros, is_non_default)
    rows = by_column.indices[is_non_default].astype(np.uint32)
    ends = np.concatenate([[0], np.cumsum(is_non_default)])[by_column.indptr]
    return zeros[features].astype(np.int64), [rows[ends[f] : ends[f + 1]] for f in features]


def bins_of_zero(upper: Array, categorical: Array) -> Array:
    """The bin of 0 of each feature, uint8; 255 where it is no category."""
    bins = np.empty(len(upper), dtype=np.uint8)
    _find_bins_of_zero(readonly(upper), readonly(categorical), bins)
    return bins


@kernel
def _find_bin(edges: Array, named: bool, value: np.float32) -> int:
    """The number of bin edges below the value, or that of missing values, which stands behind all edges."""
    low, high = 0, len(edges) - 1  # the last edge is infinite
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return len(edges) if value != value or (named and edges[low] != value) else low


@kernel
def _find_bins_of_zero(upper: Array, categorical: Array, bins: Array) -> None:
    for f in range(len(upper)):
        bins[f] = _find_bin(upper[f], categorical[f], np.float32(0))


@kernel
def _compare_bins(ends: Array, values: Array, upper: Array, zeros: Array, is_non_default: Array) -> None:
    """is_non_default[k] = whether value k is in another bin of its column than 0 is."""
    for f in range(len(upper)):
        for k in range(ends[f], ends[f + 1]):
            is_non_default[k] = _find_bin(upper[f], False, values[k]) != zeros[f]


@kernel
def bin_entries(
    entries: Entries, known: Edges, layout: FeatureLayout | None, first: int, last: int, out: Slots
) -> None:
    """Write the slots of stored entries over those of zeros, for rows first..last.

    rows[i, c] = columns[c, i] as in `binning.py`; a row's features come in their order, so in a bundle the last one
    that is outside its default bin wins here too.
    """
    (ends, indices, values), (upper, categorical), (rows, columns, missing, collides) = entries, known, out
    for i in range(first, last):
        for k in range(ends[i], ends[i + 1]):
            f = indices[k]
            b = _find_bin(upper[f], categorical[f], values[k])
            if b == upper.shape[1]:
                missing[f] = True
            column, default_bin, offset = np.int64(f), np.int64(-1), np.int64(0)
            if layout is not None:
                column, default_bin, offset = layout.column[f], layout.default_bin[f], layout.offset[f]
            if b != default_bin:
                slot = b if default_bin < 0 else offset + b - (b > default_bin)
                if default_bin >= 0 and rows[i, column] != 0:
                    collides[f] = True
                rows[i, column] = columns[column, i] = np.uint8(slot)
