"""Forest: many trees in flat arrays, and how documents walk down them.

A split at threshold t sends x <= t left and the rest right; a missing value goes where training sent it. Children stand
side by side, so a step is one addition: the next node is `left + goes_right`. Leaves are their own left child with a
threshold no value exceeds; a walk may run past them without harm, so every document takes the same number of steps
and sixteen of them walk in step without a branch. Scores are added up tree by tree in double precision: the same bits
for any batch size and any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from podium._numba import kernel, readonly
from podium._threads import map_blocks
from podium.learners.trees.binning import Borders
from podium.learners.trees.growing import GrownTree

_ROWS_A_BLOCK = 4096
_LANES = 16


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees one behind the other; tree t owns nodes `roots[t]:roots[t + 1]`."""

    roots: np.ndarray  # (trees + 1,) int64
    depths: np.ndarray  # (trees,) int64
    feature: np.ndarray  # (nodes,) uint32
    threshold: np.ndarray  # (nodes,) float32; +inf in leaves
    left: np.ndarray  # (nodes,) uint32: the left child, or the node itself in leaves
    missing_right: np.ndarray  # (nodes,) uint8
    value: np.ndarray  # (nodes,) float64: the score a leaf adds; 0 in splits
    gain: np.ndarray  # (nodes,) float64: what a split gained; 0 in leaves
    count: np.ndarray  # (nodes,) int64: training rows that came by
    start: float  # the score before the first tree
    n_features: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, readonly(value))

    @classmethod
    def join(cls, trees: Sequence[TreeArrays], start: float, n_features: int) -> Forest:
        """Put trees one behind the other."""
        roots = np.cumsum([0, *(len(tree.feature) for tree in trees)], dtype=np.int64)

        def column(name: str, dtype: type) -> np.ndarray:
            parts = [getattr(tree, name) for tree in trees]
            return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)

        shift = np.repeat(roots[:-1], np.diff(roots)).astype(np.uint32)
        return cls(
            roots,
            np.array([tree.depth for tree in trees], dtype=np.int64),
            column("feature", np.uint32),
            column("threshold", np.float32),
            column("left", np.uint32) + shift,
            column("missing_right", np.uint8),
            column("value", np.float64),
            column("gain", np.float64),
            column("count", np.int64),
            start,
            n_features,
        )

    def split(self) -> list[TreeArrays]:
        """The trees one by one."""
        parts = []
        for tree in range(self.n_trees):
            own = slice(self.roots[tree], self.roots[tree + 1])
            left = self.left[own] - np.uint32(self.roots[tree])
            parts.append(
                TreeArrays(
                    self.feature[own],
                    self.threshold[own],
                    left,
                    self.missing_right[own],
                    self.value[own],
                    self.gain[own],
                    self.count[own],
                    int(self.depths[tree]),
                )
            )
        return parts

    @property
    def n_trees(self) -> int:
        return len(self.depths)

    def scores(self, X: np.ndarray, n_trees: int | None = None, n_jobs: int | None = None) -> np.ndarray:
        """One score a row of X (rows, features), float32 in C order."""
        out = np.full(len(X), self.start)
        trees = self.n_trees if n_trees is None else min(n_trees, self.n_trees)
        X = readonly(X)

        def work(block: int) -> None:
            part = slice(block * _ROWS_A_BLOCK, min(len(X), (block + 1) * _ROWS_A_BLOCK))
            self.add_scores(X[part], 0, trees, out[part])

        map_blocks(work, -(-len(X) // _ROWS_A_BLOCK), n_jobs)
        return out

    def add_scores(self, X: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
        """Add trees first..last to `out`; serial and free of the interpreter lock."""
        if X.shape[1] != self.n_features:  # the walk itself checks no bounds
            raise ValueError(f"the rows have {X.shape[1]} features, the model was trained on {self.n_features}.")
        _walk(
            X.reshape(-1),
            X.shape[1],
            self.roots,
            self.depths,
            self.feature,
            self.threshold,
            self.left,
            self.missing_right,
            self.value,
            first,
            last,
            out,
        )

    def check(self) -> None:
        """Refuse arrays that no walk may be trusted with: lengths, order of nodes, depths."""
        n, trees = len(self.feature), self.n_trees
        lengths = {
            name: len(getattr(self, name)) for name in ("threshold", "left", "missing_right", "value", "gain", "count")
        }
        if set(lengths.values()) != {n} or len(self.roots) != trees + 1:
            raise ValueError("the arrays of the trees have different lengths")
        if self.roots[0] != 0 or self.roots[-1] != n or (np.diff(self.roots) < 1).any():
            raise ValueError("the trees do not fill their arrays")
        owner = np.repeat(np.arange(trees), np.diff(self.roots))
        node = np.arange(n)
        leaf = self.left == node
        inside = (self.left > node) & (self.left + 1 < self.roots[owner + 1])
        if not (leaf | inside).all():
            raise ValueError("a tree points outside of itself")
        if n and (self.feature.max() >= max(1, self.n_features) or self.missing_right.max() > 1):
            raise ValueError("a tree asks for a feature that is not there")
        if not (np.isinf(self.threshold) & (self.threshold > 0))[leaf].all() or self.missing_right[leaf].any():
            raise ValueError("a leaf would let documents through")
        if not np.isfinite(self.value).all() or (self.depths < 0).any() or (self.depths > np.diff(self.roots)).any():
            raise ValueError("a value or a depth is out of range")

    def importances(self, kind: str = "gain") -> np.ndarray:
        """The total gain of each feature's splits, or with "split" their number."""
        splits = self.left != np.arange(len(self.left))
        weight = self.gain[splits] if kind == "gain" else np.ones(int(splits.sum()))
        return np.bincount(self.feature[splits], weight, minlength=self.n_features)


FOREST_ARRAYS = tuple(field.name for field in fields(Forest) if field.name not in ("start", "n_features"))


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """One finished tree, ready to join a forest."""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    missing_right: np.ndarray
    value: np.ndarray
    gain: np.ndarray
    count: np.ndarray
    depth: int

    def times(self, factor: float) -> TreeArrays:
        """The same tree with other values."""
        return replace(self, value=self.value * factor)


def finish_tree(tree: GrownTree, values: np.ndarray, borders: Borders) -> TreeArrays:
    """From bins to thresholds. values: one a leaf, in the order of `tree.leaf_node`."""
    n = len(tree.feature)
    splits = tree.feature >= 0
    feature = np.where(splits, tree.feature, 0)
    threshold = np.where(splits, borders.upper[feature, np.minimum(tree.bin, borders.upper.shape[1] - 1)], np.inf)
    value = np.zeros(n)
    value[tree.leaf_node] = values
    return TreeArrays(
        feature,
        threshold,
        np.where(splits, tree.left, np.arange(n)),
        splits & ~tree.missing_left,
        value,
        tree.gain,
        tree.count,
        _depth(tree),
    )


def _depth(tree: GrownTree) -> int:
    depth = np.zeros(len(tree.feature), dtype=np.int64)
    for node in np.flatnonzero(tree.feature >= 0):  # parents stand before their children
        depth[tree.left[node]] = depth[tree.left[node] + 1] = depth[node] + 1
    return int(depth.max())


@kernel
def _walk(
    X: np.ndarray,
    n_features: int,
    roots: np.ndarray,
    depths: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    missing_right: np.ndarray,
    value: np.ndarray,
    first: int,
    last: int,
    out: np.ndarray,
) -> None:
    """out[i] += sum over trees of the value of the leaf that row i of X (flat) reaches."""
    n = len(out)
    node, base = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint64)
    for start in range(0, n, _LANES):
        lanes = min(_LANES, n - start)
        for k in range(_LANES):  # the last lanes of a short batch walk with the last row
            base[k] = np.uint64(start + min(k, lanes - 1)) * np.uint64(n_features)
        for tree in range(first, last):
            for k in range(_LANES):
                node[k] = np.uint32(roots[tree])
            for _ in range(depths[tree]):
                for k in range(_LANES):
                    at = node[k]
                    x = X[base[k] + np.uint64(feature[at])]
                    right = np.uint32(x > threshold[at]) | (np.uint32(x != x) & np.uint32(missing_right[at]))
                    node[k] = left[at] + right
            for k in range(lanes):
                out[start + k] += value[node[k]]
