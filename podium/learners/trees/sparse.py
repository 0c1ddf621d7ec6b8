"""Sparse rows as trees need them: every step costs the stored entries, none the rows times the features.

Borders ask for the values of a column (`SparseColumns`), bundles for the rows in which a feature is away from the bin
of 0 (`find_away`), and bins are written entry by entry (`bin_entries`). A forest asks for few of the features: dense
blocks of these alone go through the kernels that score any rows (`NarrowForest`), so the scores have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._numba import kernel, readonly

if TYPE_CHECKING:
    from podium.learners.trees.binning import Views
    from podium.learners.trees.categories import CategorySets
    from podium.learners.trees.forest import Forest

_ROWS_A_BLOCK, _VALUES_A_BLOCK = 4096, 1 << 22
_NODE_ARRAYS = ("threshold", "missing_right", "value", "gain", "count")


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """The stored values of each column: those of column f are `values[ends[f]:ends[f + 1]]`."""

    values: np.ndarray
    ends: np.ndarray
    n_rows: int

    @classmethod
    def of(cls, X: Any) -> SparseColumns:
        by_column = X.tocsc()
        return cls(by_column.data, by_column.indptr, X.shape[0])

    def take(self, first: int, last: int) -> list[tuple[np.ndarray, int]]:
        """The stored values of each column in order, NaN last, and how many zeros there are beside them."""
        columns = [np.sort(self.values[self.ends[f] : self.ends[f + 1]]) for f in range(first, last)]
        return [(values, self.n_rows - len(values)) for values in columns]


def entries_of(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For kernels: row i has `values[k]` in column `indices[k]`, for k from ends[i] to ends[i + 1]."""
    return readonly(X.indptr), readonly(X.indices), readonly(X.data)


def find_away(
    X: Any, upper: np.ndarray, features: np.ndarray, most: float
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """The features that are away from the bin of 0 in no more than `most` rows, that bin, and those rows (uint32).

    upper: (all features, 255) the borders of bins, as in `Borders`. None of the features is categorical.
    """
    by_column = X.tocsc()
    zeros = bins_of_zero(upper, np.zeros(len(upper), dtype=np.bool_))
    is_away = np.empty(len(by_column.data), dtype=np.bool_)
    _compare_bins(readonly(by_column.indptr), readonly(by_column.data), readonly(upper), zeros, is_away)
    rows = by_column.indices[is_away].astype(np.uint32)
    ends = np.concatenate([[0], np.cumsum(is_away)])[by_column.indptr]
    kept = features[np.diff(ends)[features] <= most]
    return kept, zeros[kept].astype(np.int64), [rows[ends[f] : ends[f + 1]] for f in kept]


def bins_of_zero(upper: np.ndarray, categorical: np.ndarray) -> np.ndarray:
    """The bin of 0 of each feature, uint8; 255 where it is no category."""
    bins = np.empty(len(upper), dtype=np.uint8)
    _find_bins_of_zero(readonly(upper), readonly(categorical), bins)
    return bins


@dataclass(frozen=True, eq=False)
class NarrowForest:
    """Some trees of a forest over the features that they ask for, which have numbers of their own."""

    forest: Forest
    place: np.ndarray  # (all features + 1,) int64: the new number of a feature; -1: no tree asks for it

    @classmethod
    def of(cls, forest: Forest, first: int, last: int) -> NarrowForest:
        """Trees first..last, with the sets of categories that they use."""
        nodes = slice(forest.roots[first], forest.roots[last])
        left = forest.left[nodes] - np.uint32(nodes.start)
        feature, sets, place = _number_anew(forest, nodes, left == np.arange(len(left)))
        trees = replace(
            forest,
            roots=forest.roots[first : last + 1] - nodes.start,
            depths=forest.depths[first:last],
            feature=feature.astype(np.uint32),
            left=left,
            n_features=max(1, int(place.max()) + 1),
            set_feature=place[sets.feature],
            set_start=sets.start,
            set_values=sets.values,
            set_sides=sets.sides,
            **{name: getattr(forest, name)[nodes] for name in _NODE_ARRAYS},
        )
        return cls(trees, readonly(place))

    @property
    def rows_a_block(self) -> int:
        """As many as a block of dense rows may have."""
        return max(64, min(_ROWS_A_BLOCK, _VALUES_A_BLOCK // self.forest.n_features // 64 * 64))

    def take(self, X: Any, part: slice) -> np.ndarray:
        """Rows of X as a dense block of the features that the trees ask for."""
        first, last, _ = part.indices(X.shape[0])
        rows = np.zeros((last - first, self.forest.n_features), dtype=np.float32)
        _spread_entries(*entries_of(X), self.place, first, rows)
        return rows


def _number_anew(forest: Forest, nodes: slice, leaf: np.ndarray) -> tuple[np.ndarray, CategorySets, np.ndarray]:
    """The features that nodes ask for, counted from 0; the sets of categories among them; the new number of each.

    A leaf names feature 0, also where there is none.
    """
    asked, n = forest.feature[nodes].astype(np.int64), forest.n_features
    named = asked >= n
    kept, number = np.unique(asked[named] - n, return_inverse=True)
    sets = forest.sets.take(kept)
    used = np.union1d(asked[~leaf & ~named], sets.feature)
    place = np.full(n + 1, -1, dtype=np.int64)
    place[used] = np.arange(len(used))
    feature = np.where(leaf, 0, place[np.minimum(asked, n)])
    feature[named] = max(1, len(used)) + number
    return feature, sets, place


@kernel
def _find_bin(borders: np.ndarray, named: bool, value: np.float32) -> int:
    """The number of borders below the value, or that of missing values, which stands behind all borders."""
    low, high = 0, len(borders) - 1  # the last border is infinite
    while low < high:
        middle = (low + high) // 2
        if borders[middle] < value:
            low = middle + 1
        else:
            high = middle
    return len(borders) if value != value or (named and borders[low] != value) else low


@kernel
def _find_bins_of_zero(upper: np.ndarray, categorical: np.ndarray, bins: np.ndarray) -> None:
    for f in range(len(upper)):
        bins[f] = _find_bin(upper[f], categorical[f], np.float32(0))


@kernel
def _compare_bins(
    ends: np.ndarray, values: np.ndarray, upper: np.ndarray, zeros: np.ndarray, is_away: np.ndarray
) -> None:
    """is_away[k] = whether value k is in another bin of its column than 0 is."""
    for f in range(len(upper)):
        for k in range(ends[f], ends[f + 1]):
            is_away[k] = _find_bin(upper[f], False, values[k]) != zeros[f]


@kernel
def bin_entries(
    ends: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    upper: np.ndarray,
    categorical: np.ndarray,
    views: Views | None,
    first: int,
    last: int,
    rows: np.ndarray,
    columns: np.ndarray,
    missing: np.ndarray,
    collides: np.ndarray,
) -> None:
    """Write the slots of stored entries over those of zeros, for rows first..last.

    rows[i, c] = columns[c, i] as in `binning.py`; a row's features come in their order, so in a bundle the last one
    that is away from its usual bin wins here too.
    """
    for i in range(first, last):
        for k in range(ends[i], ends[i + 1]):
            f = indices[k]
            b = _find_bin(upper[f], categorical[f], values[k])
            if b == upper.shape[1]:
                missing[f] = True
            column, usual, offset = np.int64(f), np.int64(-1), np.int64(0)
            if views is not None:
                column, usual, offset = views.column[f], views.usual[f], views.offset[f]
            if b != usual:
                slot = b if usual < 0 else offset + b - (b > usual)
                if usual >= 0 and rows[i, column] != 0:
                    collides[f] = True
                rows[i, column] = columns[column, i] = np.uint8(slot)


@kernel
def _spread_entries(
    ends: np.ndarray, indices: np.ndarray, values: np.ndarray, place: np.ndarray, first: int, rows: np.ndarray
) -> None:
    """rows[i, place[f]] = the entry of row first + i and feature f, for the features that have a place."""
    for i in range(len(rows)):
        for k in range(ends[first + i], ends[first + i + 1]):
            to = place[indices[k]]
            if to >= 0:
                rows[i, to] = values[k]
