"""Tables: a forest arranged for one way of scoring. They are made from its arrays when that way is first taken."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import as_strided

from podium._runtime.compiler import Array, kernel, readonly
from podium.learners.trees.scoring.walking import MOST_LEAVES, SIGN, answer_tests, walk_trees

if TYPE_CHECKING:
    from podium.learners.trees.scoring.forest import Forest

_SPLIT = np.dtype([("test", "u4"), ("node", "u2"), ("left", "u2"), ("leaf", "u4")])
_LINE = 8  # nodes per cache line


@dataclass(frozen=True, eq=False)
class BitTables:
    """The different tests of a forest by feature, and its trees as what to do with the answers."""

    columns: Array  # (columns,) uint32: the features that are asked for
    starts: Array  # (2 * columns + 1,) int64: tests of column c; those that send missing values right come second
    thresholds: Array  # (tests,) float32
    splits: Array  # of _SPLIT, parents first; `leaf`: the leftmost leaf right of the split, counted in its tree
    trees: Array  # (trees, 4) int64: first level, first split, end of splits, first value
    values: Array  # (leaves,) of the forest's type, from left to right

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, readonly(value))

    def add_scores(self, X: Array, n_trees: int, out: Array) -> None:
        answer_tests(
            *_flat(X),
            self.columns,
            self.starts,
            self.thresholds,
            self.splits,
            self.trees[:n_trees],
            self.values,
            out,
        )


def _flat(X: Array) -> tuple[Array, int, int]:
    """Rows in one dimension, read-only, and the steps from row to row and from column to column.

    No copy is made of rows in C order, nor of columns each of which is in one piece.
    """
    n, width = X.shape
    step, rest = divmod(X.strides[1], X.itemsize)
    if X.flags.c_contiguous or X.strides[0] != X.itemsize or step < n or rest:
        return readonly(X.reshape(-1)), width, 1
    span = (width - 1) * step + n
    return as_strided(X, (span,), (X.itemsize,), writeable=False), 1, step


@dataclass(frozen=True, eq=False)
class WalkTables:
    """Nodes in eight bytes, those that a walk passes together in one cache line.

    From the lowest bit: 32 bits of the threshold's key (of a leaf: the number of its value), the distance to the left
    child (0: a leaf), and in the highest `64 - shift` bits the place of the feature's key. The arrays stay writeable:
    for arrays that are not, a call takes longer, and a single document is scored in microseconds.
    """

    columns: Array  # (used,) int64: the features that are asked for
    nodes: Array  # (places,) uint64
    roots: Array  # (trees,) uint32
    values: Array  # (leaves,) of the forest's type
    shift: int

    def add_scores(self, X: Array, n_trees: int, out: Array) -> None:
        if not X.flags.carray:  # of so few rows, a copy costs less than the read-only view that other kernels get
            X = X.copy()
        roots = self.roots if n_trees == len(self.roots) else self.roots[:n_trees]  # a view costs more than a question
        walk_trees(X, self.columns, self.nodes, roots, self.values, self.shift, out)


def walk_tables(forest: Forest) -> WalkTables | None:
    """None where the distance to a child and the number of a key do not fit into 32 bits."""
    split = forest.left != np.arange(len(forest.left))
    columns, column = np.unique(forest.feature[split], return_inverse=True)
    key = np.full(len(split), 2 * len(columns))  # of a leaf: a key that exceeds nothing
    key[split] = column + np.where(forest.missing_right[split] > 0, len(columns), 0)
    new = arrange_nodes(forest.roots, forest.left, forest.count)
    distance = (new[forest.left] - new).astype(np.uint64)
    shift = 64 - max(1, (2 * len(columns)).bit_length())
    if int(distance.max(initial=0)) >> (shift - 32):
        return None
    low = np.where(split, _keys(forest.threshold), np.cumsum(~split) - 1).astype(np.uint64)
    nodes = _aligned(len(split) + forest.n_trees)
    nodes[new] = low | distance << np.uint64(32) | key.astype(np.uint64) << np.uint64(shift)
    return WalkTables(
        columns.astype(np.int64), nodes, new[forest.roots[:-1]].astype(np.uint32), forest.value[~split], shift
    )


def _keys(values: Array) -> Array:
    """Whole numbers in the order of these float32 (none missing); the two zeros are one."""
    bits = (values + np.float32(0)).view(np.int32)
    return (bits ^ (bits >> 31 | SIGN)).view(np.uint32)


def _aligned(length: int) -> Array:
    """Zeros that begin with a cache line."""
    buffer = np.zeros(length + _LINE, np.uint64)
    start = -(buffer.ctypes.data // buffer.itemsize) % _LINE
    return buffer[start : start + length]


@kernel
def arrange_nodes(roots: Array, left: Array, count: Array) -> Array:
    """The new place of each node, so that a walk meets few cache lines: it waits for each.

    A line is filled with pairs of children: those of the splits in this line that most rows came by, then, as long as
    there is room, those of the split that was put aside last. One place per tree stays empty, in front of its root, so
    that no pair lies across two lines.
    """
    new, waiting = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
    position = 0
    for tree in range(len(roots) - 1):
        new[roots[tree]] = position + 1
        waiting[0], top, first = roots[tree], int(left[roots[tree]] != roots[tree]), 0
        position += 2
        while top > 0:
            if position % _LINE == 0 or first == top:  # a new line, or all splits of this one have their children
                first = top - 1
            best = first
            for k in range(first + 1, top):
                best = k if count[waiting[k]] > count[waiting[best]] else best
            top -= 1
            split, waiting[best] = waiting[best], waiting[top]
            for child in range(left[split], left[split] + 2):
                new[child] = position
                position += 1
                waiting[top] = child
                top += int(left[child] != child)
    return new


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
    needed = np.flatnonzero(
        split & ~(oblivious[owner] & (number > 0))
    )  # of a level of equal tests, the leftmost stands
    splits = np.empty(len(needed), _SPLIT)
    splits["test"], splits["leaf"] = test[needed], number[forest.left[needed] + 1]
    splits["node"] = needed - forest.roots[owner[needed]]
    splits["left"] = forest.left[needed] - forest.roots[owner[needed]]
    steps = np.bincount(owner[needed], minlength=forest.n_trees)
    ends, first = np.cumsum(steps), np.cumsum(steps) - steps
    first_value = np.cumsum(leaves) - leaves
    values = np.empty(int(leaves.sum()), forest.value.dtype)
    values[(first_value[owner] + number)[~split]] = forest.value[~split]
    trees = np.stack([first, np.where(oblivious, ends, first), ends, first_value], axis=1).astype(np.int64)
    return BitTables(columns, starts, thresholds, splits, trees, values)


def split_levels(forest: Forest) -> list[Array]:
    """The splits at depth 0, 1, ..., each level from left to right, tree by tree."""
    levels = []
    level = forest.roots[:-1]
    while len(level := level[forest.left[level] != level]):
        levels.append(level)
        left = forest.left[level].astype(np.int64)
        level = np.stack([left, left + 1], axis=1).reshape(-1)
    return levels


def _distinct_tests(forest: Forest, split: Array) -> tuple[Array, Array, Array, Array]:
    """(columns, starts, thresholds, the test of each node)."""
    columns, column = np.unique(forest.feature[split], return_inverse=True)
    group = column.astype(np.uint64) * np.uint64(2) + forest.missing_right[split]
    bits = forest.threshold[split].view(np.uint32)
    different, number = np.unique(group << np.uint64(32) | bits, return_inverse=True)
    starts = np.searchsorted(different >> np.uint64(32), np.arange(2 * len(columns) + 1, dtype=np.uint64))
    test = np.zeros(len(split), np.int64)
    test[split] = number
    return columns.astype(np.uint32), starts.astype(np.int64), different.astype(np.uint32).view(np.float32), test


def _leaf_numbers(forest: Forest, levels: list[Array]) -> Array:
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


def _oblivious_trees(levels: list[Array], test: Array, owner: Array, n_trees: int) -> Array:
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
