"""Sparse rows in scoring: a forest uses few of the features, and only these become dense blocks.

The blocks go through the kernels that score any rows (`NarrowForest`), so the scores have the same bits, at the cost of
the stored entries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly

if TYPE_CHECKING:
    from podium.learners.trees.scoring.categories import CategorySets
    from podium.learners.trees.scoring.forest import Forest

_BLOCK_ROWS, _BLOCK_VALUES = 4096, 1 << 22
_NODE_ARRAYS = ("threshold", "missing_right", "value", "gain", "count")


def entries_of(X: Any) -> tuple[Array, Array, Array]:
    """For kernels: row i has `values[k]` in column `indices[k]`, for k from ends[i] to ends[i + 1]."""
    return readonly(X.indptr), readonly(X.indices), readonly(X.data)


@dataclass(frozen=True, eq=False)
class NarrowForest:
    """Some trees of a forest over the features that they ask for, which have numbers of their own."""

    forest: Forest
    number: Array  # (all features + 1,) int64: the new number of a feature; -1: no tree asks for it

    @classmethod
    def of(cls, forest: Forest, first: int, last: int) -> NarrowForest:
        """Trees first..last, with the sets of categories that they use."""
        nodes = slice(forest.roots[first], forest.roots[last])
        left = forest.left[nodes] - np.uint32(nodes.start)
        feature, sets, number = _number_anew(forest, nodes, left == np.arange(len(left)))
        changed: dict[str, Any] = {name: getattr(forest, name)[nodes] for name in _NODE_ARRAYS}
        changed |= replace(sets, feature=number[sets.feature]).arrays()
        trees = replace(
            forest,
            roots=forest.roots[first : last + 1] - nodes.start,
            depths=forest.depths[first:last],
            feature=feature.astype(np.uint32),
            left=left,
            n_features=max(1, int(number.max()) + 1),
            **changed,
        )
        return cls(trees, readonly(number))

    @property
    def block_rows(self) -> int:
        """As many as a block of dense rows may have."""
        return max(64, min(_BLOCK_ROWS, _BLOCK_VALUES // self.forest.n_features // 64 * 64))

    def take(self, X: Any, part: slice) -> Array:
        """Rows of X as a dense block of the features that the trees ask for."""
        first, last, _ = part.indices(X.shape[0])
        rows = np.zeros((last - first, self.forest.n_features), dtype=np.float32)
        _spread_entries(*entries_of(X), self.number, first, rows)
        return rows


def _number_anew(forest: Forest, nodes: slice, leaf: Array) -> tuple[Array, CategorySets, Array]:
    """The features that nodes ask for, counted from 0; the sets of categories among them; the new number of each.

    A leaf names feature 0, also where there is none.
    """
    asked, n = forest.feature[nodes].astype(np.int64), forest.n_features
    named = asked >= n
    used_sets, set_number = np.unique(asked[named] - n, return_inverse=True)
    sets = forest.sets.take(used_sets)
    used = np.union1d(asked[~leaf & ~named], sets.feature)
    number = np.full(n + 1, -1, dtype=np.int64)
    number[used] = np.arange(len(used))
    feature = np.where(leaf, 0, number[np.minimum(asked, n)])
    feature[named] = max(1, len(used)) + set_number
    return feature, sets, number


@kernel
def _spread_entries(ends: Array, indices: Array, values: Array, number: Array, first: int, rows: Array) -> None:
    """rows[i, number[f]] = the entry of row first + i and feature f, for the features that have a number."""
    for i in range(len(rows)):
        for k in range(ends[first + i], ends[first + i + 1]):
            to = number[indices[k]]
            if to >= 0:
                rows[i, to] = values[k]
