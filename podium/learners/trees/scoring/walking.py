"""Scoring: how documents get through a forest, and which way is taken for which shape.

Three ways, which give the same bits: each finds the leaf of every tree exactly, and the values of the leaves are added
tree by tree in double precision (or in single, where a forest has such values), so neither the batch nor the number of
threads can matter.

1. Bit vectors (`answer_tests`), 64 documents at a time. Every different test of the forest (feature, threshold, side of
   missing values) is made once, and the answers of the 64 are the bits of one word. Down a tree go the words of who
   reaches each node; a node costs a handful of instructions for all 64. An oblivious tree, where all nodes of a level
   make the same test, needs one word per level: its leaf is a number whose bits are the answers.
2. One document walks down 32 trees in step (`walk_trees`). A single walk waits for memory at each step.
3. Sixteen documents walk down one tree in step (`walk_documents`). It needs no tables, so training uses it.

Microseconds per document on one thread of a Xeon with AVX-512 (benchmarks/bench_score.py prints this table):

| forest | bit vectors | trees in step | documents in step |
| --- | --- | --- | --- |
| 100 trees of 31 leaves | 0.27 | 0.9 | 1.2 |
| 1,000 trees of 64 leaves | 3.1 | 13 | 18 |
| 50 trees of 256 leaves | 0.6 | 1.1 | 1.2 |
| 1,000 oblivious trees of 64 leaves | 1.1 | 16 | 8 |

So: bit vectors wherever there are enough documents to fill a good part of a block, trees in step for fewer, and
documents in step for many documents and trees of more leaves than a byte can number. With the vectors of older
processors bit vectors still take a third of the time of a walk. What was tried and left: a comparison at every split
instead of one for each different test (a third slower).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.rows import are_scorable, describe_unscorable, single_scores
from podium.learners.trees.scoring import simd
from podium.learners.trees.scoring.simd import LANES

if TYPE_CHECKING:
    from podium.learners.trees.scoring.forest import Forest

FEW = 16  # a block of 64 costs as much as 13 to 19 documents one by one, for small forests and large ones
MOST_LEAVES = 256  # the number of a leaf is a byte
SIGN = np.int32(-(2**31))
_NEVER, _ALWAYS = np.uint32(0), np.uint32(2**32 - 1)  # keys of missing values; _NEVER also of leaves
_STEP = 16  # documents that walk together
_TREES = 32  # down so many trees
_FIRST_ROUND, _NEXT_ROUND = 6, 3  # steps
_SINGLE = np.dtype(np.float32)
_LARGEST = float(np.finfo(np.float32).max)

Way = Callable[[Array, int, Array], None]
"""Adds the first n trees to one score per row, given (widened rows, n, scores), on this thread, without the interpreter
lock."""


def fastest_way(forest: Forest, n_rows: int) -> Way:
    if n_rows < FEW and forest.walk_tables is not None:
        return forest.walk_tables.add_scores
    if n_rows >= FEW and forest.bit_tables is not None:
        return forest.bit_tables.add_scores
    return lambda X, n_trees, out: forest.add_wide_scores(X, 0, n_trees, out)


class Scorer:
    """Scores for a service: float32 rows in C order in, float32 scores out, all on the caller's thread.

    Any number of threads may call it at once; the interpreter lock is free while the trees are at work.
    """

    __slots__ = (
        "_base",
        "_few",
        "_is_bounded",
        "_many",
        "_model",
        "_n_trees",
        "_sets",
        "_start",
        "_type",
        "n_features",
    )

    def __init__(self, forest: Forest, base: Callable[[Array], Array] | None = None, model: str = "forest") -> None:
        """base: float64 scores to add, of rows that were checked; model: the name of the model, for errors."""
        self._few, self._many = fastest_way(forest, 1), fastest_way(forest, LANES)
        self._base, self.n_features = base, forest.n_features
        self._n_trees, self._start, self._sets = forest.n_trees, forest.start, forest.sets or None
        self._type = forest.value.dtype
        self._is_bounded, self._model = base is None and forest.largest_score <= _LARGEST, model
        for rows in (1, LANES):  # tables are made and kernels compiled now, so that no request waits for them
            with suppress(ValueError):  # rows of zeros may have no finite score in a base model
                self.exact(np.zeros((rows, self.n_features), np.float32))

    def __call__(self, X: Array) -> Array:
        """One score per row."""
        if not are_scorable(X, self.n_features):  # the kernels check no bounds
            raise ValueError(describe_unscorable(X, self.n_features))
        scores = self.exact(X)
        return scores.astype(_SINGLE) if self._is_bounded else single_scores(scores, self._model)

    def exact(self, X: Array) -> Array:
        """The scores in double precision, the bits of `predict`, of rows that were checked already."""
        out = np.empty(len(X), self._type)
        out.fill(self._start)
        add = self._few if len(X) < FEW else self._many
        add(X if self._sets is None else self._sets.widen(X), self._n_trees, out)
        return out if self._base is None else out + self._base(X)


@kernel
def answer_tests(
    X: Array,
    row_step: int,
    column_step: int,
    columns: Array,
    starts: Array,
    thresholds: Array,
    splits: Array,
    trees: Array,
    values: Array,
    out: Array,
) -> None:
    """out[i] += sum over trees of the value of the leaf that row i of X reaches.

    Feature f of row i stands at i * row_step + f * column_step: rows in one piece, or columns (row_step 1).
    """
    n = len(out)
    base, column = np.empty(LANES, np.uint64), np.empty(LANES, np.float32)
    answers, reach = np.empty(len(thresholds), np.uint64), np.empty(2 * MOST_LEAVES, np.uint64)
    leaf = np.empty(LANES, np.uint8)
    for start in range(0, n, LANES):
        rows = min(LANES, n - start)
        for k in range(LANES):  # the last lanes of a short block repeat the last row
            base[k] = np.uint64(start + min(k, rows - 1)) * np.uint64(row_step)
        for c in range(len(columns)):
            at = np.uint64(columns[c]) * np.uint64(column_step)
            if row_step == 1 and rows == LANES:  # one piece of memory
                at += np.uint64(start)
                for k in range(LANES):
                    column[k] = X[at + np.uint64(k)]
            else:
                for k in range(LANES):
                    column[k] = X[at + base[k]]
            for test in range(starts[2 * c], starts[2 * c + 1]):
                simd.greater(answers, np.uint64(test), column, thresholds[test])
            for test in range(starts[2 * c + 1], starts[2 * c + 2]):
                simd.greater_or_missing(answers, np.uint64(test), column, thresholds[test])
        for tree in range(len(trees)):
            for k in range(LANES):
                leaf[k] = 0
            for s in range(trees[tree, 0], trees[tree, 1]):  # levels of an oblivious tree: each answer is a bit
                split = splits[np.uint64(s)]
                simd.masked_add(leaf, answers[np.uint64(split["test"])], np.uint8(split["leaf"]))
            reach[0] = np.uint64(0xFFFFFFFFFFFFFFFF)
            for s in range(trees[tree, 1], trees[tree, 2]):  # the last turn to the right decides
                split = splits[np.uint64(s)]
                here = reach[np.uint64(split["node"])]
                right = here & answers[np.uint64(split["test"])]
                reach[np.uint64(split["left"])] = here ^ right
                reach[np.uint64(split["left"]) + np.uint64(1)] = right
                simd.masked_store(leaf, right, np.uint8(split["leaf"]))
            first = np.uint64(trees[tree, 3])
            for k in range(rows):
                out[start + k] += values[first + np.uint64(leaf[k])]


@kernel
def walk_trees(X: Array, columns: Array, nodes: Array, roots: Array, values: Array, shift: int, out: Array) -> None:
    """The same for rows of X (rows, features) one by one: 32 trees in step, added in the order of the trees.

    Values are compared as integers of the same order, and each stands there twice: a missing one is never above
    a threshold in the first half and always in the second, so that a step needs no question about it. After a few
    steps, only the trees whose leaf was not reached go on: a leaf lies half as deep as the deepest one of its tree.
    """
    used, n_trees = len(columns), len(roots)
    keys, node, leaves = np.empty(2 * used + 1, np.uint32), np.empty(_TREES, np.uint32), np.empty(n_trees, np.uint32)
    places, numbers = np.empty(n_trees + _TREES, np.uint32), np.empty(n_trees, np.uint32)
    half, top, mask = np.uint64(32), np.uint64(shift), np.uint64((1 << (shift - 32)) - 1)
    keys[2 * used] = _NEVER
    bits = X.view(np.int32)
    for i in range(len(out)):
        for c in range(used):
            f = columns[c]
            key = bits[i, f] if bits[i, f] != SIGN else np.int32(0)  # these are the bits of -0, as it happens
            key ^= key >> np.int32(31) | SIGN
            there = X[i, f] == X[i, f]
            keys[c] = np.uint32(key) if there else _NEVER
            keys[used + c] = np.uint32(key) if there else _ALWAYS
        for tree in range(n_trees):
            places[tree], numbers[tree] = roots[tree], tree
        walking, steps = n_trees, _FIRST_ROUND
        while walking > 0:
            for k in range(_TREES):  # the last lanes of a short group walk with the last tree
                places[walking + k] = places[walking - 1]
            going_on = 0
            for start in range(0, walking, _TREES):
                for k in range(_TREES):
                    node[k] = places[np.uint64(start + k)]
                for _ in range(steps):
                    for k in range(_TREES):
                        at = nodes[np.uint64(node[k])]
                        right = np.uint32(keys[at >> top] > np.uint32(at))
                        node[k] = node[k] + np.uint32(at >> half & mask) + right
                for k in range(min(_TREES, walking - start)):
                    at, number = nodes[np.uint64(node[k])], numbers[np.uint64(start + k)]
                    leaves[np.uint64(number)] = np.uint32(at)
                    places[going_on], numbers[going_on] = node[k], number
                    going_on += int((at >> half & mask) != 0)
            walking, steps = going_on, _NEXT_ROUND
        total = out[i]
        for tree in range(n_trees):
            total += values[np.uint64(leaves[tree])]
        out[i] = total


@kernel
def walk_documents(
    X: Array,
    n_features: int,
    roots: Array,
    depths: Array,
    feature: Array,
    threshold: Array,
    left: Array,
    missing_right: Array,
    value: Array,
    first: int,
    last: int,
    out: Array,
) -> None:
    """The same for trees first..last, as the forest has them: sixteen rows in step down one tree."""
    n = len(out)
    node, base = np.empty(_STEP, np.uint32), np.empty(_STEP, np.uint64)
    for start in range(0, n, _STEP):
        lanes_used = min(_STEP, n - start)
        for k in range(_STEP):  # the last lanes of a short batch walk with the last row
            base[k] = np.uint64(start + min(k, lanes_used - 1)) * np.uint64(n_features)
        for tree in range(first, last):
            for k in range(_STEP):
                node[k] = np.uint32(roots[tree])
            for _ in range(depths[tree]):
                for k in range(_STEP):
                    at = node[k]
                    x = X[base[k] + np.uint64(feature[at])]
                    right = np.uint32(x > threshold[at]) | (np.uint32(x != x) & np.uint32(missing_right[at]))
                    node[k] = left[at] + right
            for k in range(lanes_used):
                out[start + k] += value[node[k]]


@kernel
def follow_links(roots: Array, left: Array, parents: Array, levels: Array, depths: Array) -> bool:
    """How many nodes each one hangs on (2 for more), its level, the depth of each tree; False if one points outside.

    Children stand behind their parents, so one pass in the order of the nodes meets parents first.
    """
    for tree in range(len(depths)):
        first, last = roots[tree], roots[tree + 1]
        parents[first] = 1
        for node in range(first, last):
            child = np.int64(left[node])
            if child == node:
                continue
            if child < node or child + 1 >= last:
                return False
            for below in (child, child + 1):
                parents[below] = min(parents[below] + 1, 2)
                levels[below] = levels[node] + 1
            depths[tree] = max(depths[tree], levels[node] + 1)
    return True
