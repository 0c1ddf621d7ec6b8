"""Forest: many trees in flat arrays.

A split at threshold t sends x <= t left and the rest right; a missing value goes where training sent it. Children stand
side by side, so a step is one addition: the next node is `left + goes_right`. Leaves are their own left child with a
threshold no value exceeds; a walk may run past them without harm, so every document takes the same number of steps
and many walk in step without a branch. `walking.py` has the ways through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.once import once
from podium._runtime.threads import map_blocks
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.learners.trees.scoring import tables, walking
from podium.learners.trees.scoring.categories import SET_THRESHOLD, CategorySets
from podium.learners.trees.scoring.sparse import NarrowForest
from podium.learners.trees.scoring.tables import BitTables, WalkTables

_BLOCK_ROWS = 4096
_MOST_FEATURES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees one behind the other; tree t owns nodes `roots[t]:roots[t + 1]`."""

    roots: Array  # (trees + 1,) int64
    depths: Array  # (trees,) int64
    feature: Array  # (nodes,) uint32
    threshold: Array  # (nodes,) float32; +inf in leaves
    left: Array  # (nodes,) uint32: the left child, or the node itself in leaves
    missing_right: Array  # (nodes,) uint8
    value: Array  # (nodes,) float64: the score a leaf adds; 0 in splits. float32: scores are added up in float32 too
    gain: Array  # (nodes,) float64: what a split gained; 0 in leaves
    count: Array  # (nodes,) int64: training rows that came by
    start: float  # the score before the first tree
    n_features: int
    set_feature: Array  # the four arrays of `CategorySets`; set k is feature number n_features + k
    set_start: Array
    set_values: Array
    set_sides: Array

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, one.name, readonly(value))

    @classmethod
    def join(cls, trees: Sequence[TreeArrays], start: float, n_features: int) -> Forest:
        """Put trees one behind the other."""
        roots = np.cumsum([0, *(len(tree.feature) for tree in trees)], dtype=np.int64)
        nodes = {
            name: np.concatenate([np.empty(0, FOREST_DTYPES[name]), *(getattr(tree, name) for tree in trees)])
            for name in NODE_ARRAYS
        }
        nodes["left"] = nodes["left"] + np.repeat(roots[:-1], np.diff(roots))
        before = np.cumsum([0, *(len(tree.sets) for tree in trees)])[:-1]
        nodes["feature"] = nodes["feature"] + np.where(
            nodes["feature"] >= n_features, np.repeat(before, np.diff(roots)), 0
        )
        typed = {name: array.astype(FOREST_DTYPES[name], copy=False) for name, array in nodes.items()}
        depths = np.array([tree.depth for tree in trees], dtype=np.int64)
        sets = CategorySets.join([tree.sets for tree in trees])
        return cls(roots=roots, depths=depths, start=start, n_features=n_features, **typed, **sets.arrays())

    @once
    def sets(self) -> CategorySets:
        return CategorySets(self.set_feature, self.set_start, self.set_values, self.set_sides)

    @property
    def width(self) -> int:
        """The columns of widened rows."""
        return self.n_features + len(self.set_feature)

    @once
    def owner(self) -> Array:
        """The feature that each split asks for; of a set of categories, whose it is."""
        owner = self.feature.astype(np.int64)
        of_set = owner >= self.n_features
        owner[of_set] = self.set_feature[owner[of_set] - self.n_features]
        return readonly(owner)

    def split(self) -> list[TreeArrays]:
        """The trees one by one."""
        parts = []
        for root, end, depth in zip(self.roots, self.roots[1:], self.depths.tolist()):
            nodes = {name: getattr(self, name)[root:end] for name in NODE_ARRAYS}
            feature = nodes["feature"].astype(np.int64)
            named = feature >= self.n_features
            used, number = np.unique(feature[named] - self.n_features, return_inverse=True)
            feature[named] = self.n_features + number
            nodes |= {"feature": feature, "left": nodes["left"] - np.uint32(root)}
            parts.append(TreeArrays(**nodes, depth=depth, sets=self.sets.take(used)))
        return parts

    @property
    def n_trees(self) -> int:
        return len(self.depths)

    @property
    def reads_columns(self) -> bool:
        """Whether rows whose columns are in one piece each are scored as fast as rows in C order, or faster."""
        return self.bit_tables is not None and not len(self.sets)

    def scores(self, X: FeatureMatrix, n_trees: int | None = None, n_jobs: int | None = None) -> Array:
        """One score per row of X (rows, features), float32, sparse or in C order; others that `reads_columns` takes."""
        trees = self.n_trees if n_trees is None else min(n_trees, self.n_trees)
        forest, blocks = self.dense_blocks(X)
        out = np.empty(X.shape[0], self.value.dtype)
        out.fill(self.start)
        if trees == 0:
            return out
        add = walking.fastest_way(forest, len(out))

        def work(block: int) -> None:
            part, rows = blocks.take(block)
            add(forest.sets.widen(rows), trees, out[part])

        map_blocks(work, blocks.number, n_jobs)
        return out

    def dense_blocks(self, X: FeatureMatrix, block_rows: int = _BLOCK_ROWS) -> tuple[Forest, _Blocks]:
        """Rows of X block by block as a dense matrix, and a forest for them: this one, or all it needs of it."""
        self._check_rows(X)
        if not is_sparse(X):
            return self, _Blocks(X.__getitem__, len(X), block_rows)
        narrow = self.narrowed
        return narrow.forest, _Blocks(partial(narrow.take, X), X.shape[0], narrow.block_rows)

    @once
    def narrowed(self) -> NarrowForest:
        """The same trees for sparse rows."""
        return NarrowForest.of(self, 0, self.n_trees)

    def add_scores(self, X: FeatureMatrix, first: int, last: int, out: Array) -> None:
        """Add trees first..last to `out` without tables; serial and free of the interpreter lock."""
        self._check_rows(X)
        if not is_sparse(X):
            self.add_wide_scores(self.sets.widen(X), first, last, out)
            return
        narrow = NarrowForest.of(self, first, last)
        blocks = _Blocks(partial(narrow.take, X), X.shape[0], narrow.block_rows)
        for block in range(blocks.number):
            part, rows = blocks.take(block)
            narrow.forest.add_wide_scores(narrow.forest.sets.widen(rows), 0, last - first, out[part])

    def add_wide_scores(self, X: Array, first: int, last: int, out: Array) -> None:
        """`add_scores` of rows that were checked and widened."""
        walking.walk_documents(
            readonly(X.reshape(-1)), X.shape[1], self.roots, self.depths, self.feature, self.threshold, self.left,
            self.missing_right, self.value, first, last, out,
        )  # fmt: skip

    def contributions(self, X: FeatureMatrix, n_jobs: int | None = None) -> Array:
        """What each tree adds to each row's score, (rows, trees)."""
        forest, blocks = self.dense_blocks(X)
        added = np.full((self.n_trees, X.shape[0]), -0.0)  # -0 + x is x, also for x = -0

        def work(block: int) -> None:
            part, rows = blocks.take(block)
            wide = forest.sets.widen(rows)
            for tree in range(self.n_trees):
                forest.add_wide_scores(wide, tree, tree + 1, added[tree, part])

        map_blocks(work, blocks.number, n_jobs)
        return added.T

    def first(self, n_trees: int) -> Forest:
        """The first trees alone; they share their arrays with this forest."""
        end = self.roots[n_trees]
        nodes = {name: getattr(self, name)[:end] for name in NODE_ARRAYS}
        return replace(self, roots=self.roots[: n_trees + 1], depths=self.depths[:n_trees], **nodes)

    @once
    def bit_tables(self) -> BitTables | None:
        return tables.bit_tables(self)

    @once
    def walk_tables(self) -> WalkTables | None:
        return tables.walk_tables(self)

    def __reduce__(self) -> tuple[Any, ...]:  # copies make their tables anew when they need them
        return Forest, tuple(getattr(self, one.name) for one in fields(self))

    def _check_rows(self, X: FeatureMatrix) -> None:
        if X.shape[1] != self.n_features:  # kernels check no bounds
            raise ValueError(f"the rows have {X.shape[1]} features, the model was trained on {self.n_features}.")
        if X.dtype != np.float32:
            raise ValueError(f"the rows must be float32; got {X.dtype}.")

    def check(self, values: Any = np.float64) -> None:
        """Refuse arrays that no kernel may be trusted with: dtypes, lengths, order of nodes, ranges, depths.

        values: the type that the values of leaves must have.

        Nothing is added, subtracted or used as an index before its range is known: integers wrap without a word.
        """
        self._check_kinds(np.dtype(values))
        self._check_lengths()
        self.sets.check(self.n_features)
        self._check_links()
        self._check_questions(self.left == np.arange(len(self.left), dtype=self.left.dtype))
        self._check_numbers()

    def _check_kinds(self, values: Any) -> None:
        for name, dtype in (FOREST_DTYPES | {"value": values}).items():
            array = getattr(self, name)
            if array.dtype != dtype or array.ndim != 1:
                expected = f"{name} must have dtype {np.dtype(dtype)} and one dimension"
                raise ValueError(f"{expected}, not {array.dtype} and {array.ndim}")
        if not 0 <= self.n_features <= _MOST_FEATURES - len(self.set_feature):
            raise ValueError(f"the number of features is {self.n_features}; at most {_MOST_FEATURES} fit into a tree")

    def _check_lengths(self) -> None:
        n, trees = len(self.feature), self.n_trees
        if any(len(getattr(self, name)) != n for name in NODE_ARRAYS) or len(self.roots) != trees + 1:
            raise ValueError("the arrays of the trees have different lengths")
        if self.roots[0] != 0 or self.roots[-1] != n or (self.roots[1:] <= self.roots[:-1]).any():
            raise ValueError("the trees do not fill their arrays")

    def _check_links(self) -> None:
        n = len(self.left)
        depths, parents, levels = np.zeros(self.n_trees, np.int64), np.zeros(n, np.uint8), np.zeros(n, np.int32)
        if not walking.follow_links(self.roots, self.left, parents, levels, depths):
            raise ValueError("a tree points outside of itself")
        if (parents != 1).any():
            raise ValueError("a node hangs on no other, or on two")
        if (self.depths != depths).any():
            raise ValueError("a tree is not as deep as it says")

    def _check_questions(self, leaf: Array) -> None:
        asked = self.feature if self.n_features else self.feature[~leaf]  # leaves name feature 0, also where none is
        if (asked >= self.width).any() or (self.missing_right > 1).any():
            raise ValueError("a tree asks for a feature that is not there")
        if not np.isposinf(self.threshold[leaf]).all() or self.missing_right[leaf].any():
            raise ValueError("a leaf would let documents through")
        of_set = ~leaf & (self.feature >= self.n_features)
        if np.isnan(self.threshold).any() or (self.threshold[of_set] != SET_THRESHOLD).any():
            raise ValueError("a threshold is out of range")

    def _check_numbers(self) -> None:
        with np.errstate(over="ignore"):
            total_gain = np.abs(self.gain).sum()
        if not np.isfinite(self.largest_score) or not np.isfinite(total_gain):
            raise ValueError("a value or a gain is not finite, or their sum is not")
        if (self.count < 0).any():
            raise ValueError("a node has a negative number of rows")

    @property
    def largest_score(self) -> float:
        """No score is further from 0 than this; not finite if a value is not."""
        with np.errstate(over="ignore"):
            largest = np.maximum.reduceat(np.abs(self.value), self.roots[:-1]) if self.n_trees else np.zeros(1)
            return float(abs(self.start) + largest.sum(dtype=np.float64))

    def importances(self, kind: str = "gain") -> Array:
        """The total gain of each feature's splits, or with "split" their number."""
        splits = self.left != np.arange(len(self.left))
        weight = self.gain[splits] if kind == "gain" else np.ones(int(splits.sum()))
        return np.bincount(self.owner[splits], weight, minlength=self.n_features)

    def used_features(self) -> tuple[Array, Array]:
        """The features that splits ask for, rising, and the total gain of each; the others take no memory."""
        splits = self.left != np.arange(len(self.left))
        used, number = np.unique(self.owner[splits], return_inverse=True)
        return used, np.bincount(number, self.gain[splits], minlength=len(used))


@dataclass(frozen=True)
class _Blocks:
    """Rows in blocks of a size that the caches like."""

    rows: Callable[[slice], Array]
    n_rows: int
    size: int

    @property
    def number(self) -> int:
        return -(-self.n_rows // self.size)

    def take(self, block: int) -> tuple[slice, Array]:
        """Where the rows of a block are, and the rows."""
        part = slice(block * self.size, (block + 1) * self.size)
        return part, self.rows(part)


FOREST_ARRAYS = tuple(field.name for field in fields(Forest) if field.name not in ("start", "n_features"))
FOREST_DTYPES = {
    "roots": np.int64,
    "depths": np.int64,
    "feature": np.uint32,
    "threshold": np.float32,
    "left": np.uint32,
    "missing_right": np.uint8,
    "value": np.float64,
    "gain": np.float64,
    "count": np.int64,
    "set_feature": np.int64,
    "set_start": np.int64,
    "set_values": np.float32,
    "set_sides": np.uint8,
}
NODE_ARRAYS = ("feature", "threshold", "left", "missing_right", "value", "gain", "count")


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """One finished tree, ready to join a forest."""

    feature: Array
    threshold: Array
    left: Array
    missing_right: Array
    value: Array
    gain: Array
    count: Array
    depth: int
    sets: CategorySets = field(default_factory=CategorySets.none)  # set k is feature number n_features + k

    def times(self, factor: float) -> TreeArrays:
        """The same tree with other values."""
        return replace(self, value=self.value * factor)
