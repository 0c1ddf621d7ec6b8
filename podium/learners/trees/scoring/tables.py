"""Tables: a forest arranged for one way of scoring. They are made from its arrays when that way is first taken."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import readonly
from podium.learners.trees.scoring.walking import ALWAYS, MOST_LEAVES, answer_tests, walk_trees

if TYPE_CHECKING:
    from podium.learners.trees.scoring.forest import Forest

_SPLIT = np.dtype([("test", "u4"), ("node", "u2"), ("left", "u2"), ("leaf", "u4")])
_NODE = np.dtype([("key", "i4"), ("left", "u4"), ("place", "u4")])


class _Tables:
    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, readonly(value))


@dataclass(frozen=True, eq=False)
class BitTables(_Tables):
    """The different tests of a forest by feature, and its trees as what to do with the answers."""

    columns: np.ndarray  # (columns,) uint32: the features that are asked for
    starts: np.ndarray  # (2 * columns + 1,) int64: tests of column c; those that send missing values right come second
    thresholds: np.ndarray  # (tests,) float32
    splits: np.ndarray  # of _SPLIT, parents first; `leaf`: the leftmost leaf right of the split, counted in its tree
    trees: np.ndarray  # (trees, 4) int64: first level, first split, end of splits, first value
    values: np.ndarray  # (leaves,) float64, from left to right
    n_features: int

    def add_scores(self, X: np.ndarray, n_trees: int, out: np.ndarray) -> None:
        answer_tests(
            readonly(X.reshape(-1)),
            self.n_features,
            self.columns,
            self.starts,
            self.thresholds,
            self.splits,
            self.trees[:n_trees],
            self.values,
            out,
        )


@dataclass(frozen=True, eq=False)
class WalkTables(_Tables):
    """Nodes in twelve bytes."""

    nodes: np.ndarray  # of _NODE
    roots: np.ndarray  # (trees,) uint32
    values: np.ndarray  # (nodes,) float64

    def add_scores(self, X: np.ndarray, n_trees: int, out: np.ndarray) -> None:
        if not X.flags.carray:  # of so few rows, a copy costs less than the read-only view that other kernels get
            X = X.copy()
        roots = self.roots if n_trees == len(self.roots) else self.roots[:n_trees]  # a view costs more than a question
        walk_trees(X, self.nodes, roots, self.values, out)


def walk_tables(forest: Forest) -> WalkTables:
    leaf = forest.left == np.arange(len(forest.left))
    nodes = np.empty(len(leaf), _NODE)
    nodes["key"] = np.where(leaf, ALWAYS, _keys(forest.threshold))
    nodes["left"] = forest.left
    nodes["place"] = forest.feature + forest.missing_right * np.uint32(forest.width)
    return WalkTables(nodes, forest.roots[:-1].astype(np.uint32), forest.value)


def _keys(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of these float32 (none missing); the two zeros are one."""
    bits = (values + np.float32(0)).view(np.int32)
    return bits ^ ((bits >> 31) & ALWAYS)


def bit_tables(forest: Forest) -> BitTables | None:
    """None where a tree has more leaves than a byte can number."""
    split = forest.left != np.arange(len(forest.left))
    owner = np.repeat(np.arange(forest.n_trees), np.diff(forest.roots))
    leaves = np.bincount(owner[~split], minlength=forest.n_trees)
    if leaves.max(initial=0) > MOST_LEAVES:
        return None
    columns, starts, thresholds, test = _distinct_tests(forest, split)
    levels = split_levels(forest)
    number = _leaf_numbers(forest, levels)
    oblivious = _oblivious_trees(levels, test, owner, forest.n_trees)
    kept = np.flatnonzero(split & ~(oblivious[owner] & (number > 0)))  # of a level of equal tests, the leftmost stands
    splits = np.empty(len(kept), _SPLIT)
    splits["test"], splits["leaf"] = test[kept], number[forest.left[kept] + 1]
    splits["node"] = kept - forest.roots[owner[kept]]
    splits["left"] = forest.left[kept] - forest.roots[owner[kept]]
    steps = np.bincount(owner[kept], minlength=forest.n_trees)
    ends, first = np.cumsum(steps), np.cumsum(steps) - steps
    first_value = np.cumsum(leaves) - leaves
    values = np.empty(int(leaves.sum()))
    values[(first_value[owner] + number)[~split]] = forest.value[~split]
    trees = np.stack([first, np.where(oblivious, ends, first), ends, first_value], axis=1).astype(np.int64)
    return BitTables(columns, starts, thresholds, splits, trees, values, forest.width)


def split_levels(forest: Forest) -> list[np.ndarray]:
    """The splits at depth 0, 1, ..., each level from left to right, tree by tree."""
    found = []
    level = forest.roots[:-1]
    while len(level := level[forest.left[level] != level]):
        found.append(level)
        left = forest.left[level].astype(np.int64)
        level = np.stack([left, left + 1], axis=1).reshape(-1)
    return found


def _distinct_tests(forest: Forest, split: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(columns, starts, thresholds, the test of each node)."""
    columns, column = np.unique(forest.feature[split], return_inverse=True)
    group = column.astype(np.uint64) * np.uint64(2) + forest.missing_right[split]
    bits = forest.threshold[split].view(np.uint32)
    different, number = np.unique(group << np.uint64(32) | bits, return_inverse=True)
    starts = np.searchsorted(different >> np.uint64(32), np.arange(2 * len(columns) + 1, dtype=np.uint64))
    test = np.zeros(len(split), np.int64)
    test[split] = number
    return columns.astype(np.uint32), starts.astype(np.int64), different.astype(np.uint32).view(np.float32), test


def _leaf_numbers(forest: Forest, levels: list[np.ndarray]) -> np.ndarray:
    """The leftmost leaf below each node, counted from the left in its tree."""
    below = np.ones(len(forest.left), np.int64)
    for level in reversed(levels):
        left = forest.left[level]
        below[level] = below[left] + below[left + 1]
    number = np.zeros(len(forest.left), np.int64)
    for level in levels:
        left = forest.left[level]
        number[left], number[left + 1] = number[level], number[level] + below[left]
    return number


def _oblivious_trees(levels: list[np.ndarray], test: np.ndarray, owner: np.ndarray, n_trees: int) -> np.ndarray:
    """Which trees have full levels only, each with one test."""
    oblivious = np.ones(n_trees, np.bool_)
    for depth, level in enumerate(levels):
        trees = owner[level]
        leftmost = np.zeros(n_trees, np.int64)
        leftmost[trees[::-1]] = test[level[::-1]]
        oblivious[trees[test[level] != leftmost[trees]]] = False
        width = np.bincount(trees, minlength=n_trees)
        oblivious &= (width == 0) | (width == 2 ** min(depth, 60))
    return oblivious
