"""Nodes as a format has them, in any order within a tree, become a forest, whose children stand side by side.

Each node is visited once, without recursion; whatever is not a tree is refused with its place before any of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_blocks, map_slices
from podium.learners.trees.scoring.categories import SET_THRESHOLD, CategorySets
from podium.learners.trees.scoring.forest import FOREST_DTYPES, NODE_ARRAYS, Forest

BLOCK_NODES = 2**15  # per pass: the caches hold what is made of them
OUTSIDE, TWICE = 1, 2  # what is wrong with a child


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, tree by tree; a tree begins with its root.

    Children are places in these arrays. What no way from a root leads to is left out.
    """

    sizes: Array  # (trees,) nodes of each tree, 1 or more
    left: Array  # (nodes,) int64; -1: a leaf
    right: Array  # (nodes,) int64
    feature: Array  # (nodes,) int64
    threshold: Array  # (nodes,) float32: x <= threshold goes left
    missing_right: Array  # (nodes,) bool
    value: Array  # (nodes,) of leaves; float32: scores are added up in float32
    gain: Array | None = None  # (nodes,) float64
    count: Array | None = None  # (nodes,) int64
    of_set: Array | None = None  # (nodes,) int64: the set that a node asks for in place of its threshold; -1: none
    sets: CategorySets = field(default_factory=CategorySets.none)
    first_tree: int = 0  # the number of the first tree in the file, for errors


@dataclass(frozen=True, eq=False)
class _Arranged:
    """The trees of a part: where they are in its stretch of the arrays, of which they fill the beginning."""

    roots: Array  # (trees + 1,) int64
    depths: Array
    sets: CategorySets


def forest_of(nodes: Nodes, start: float, n_features: int) -> Forest:
    """The trees one behind the other, or an error that names the tree and the node that cannot be one."""
    return forest_of_parts([len(nodes.left)], lambda part: nodes, start, n_features, nodes.value.dtype)


def forest_of_parts(
    sizes: Sequence[int], read: Callable[[int], Nodes], start: float, n_features: int, values: Any = np.float64
) -> Forest:
    """`forest_of` of nodes that `read` makes part by part, on all cores: large files need no more than the result.

    sizes: how many nodes each part has; values: the type of values.
    """
    ends = np.cumsum([0, *sizes], dtype=np.int64)
    made = {name: np.empty(ends[-1], FOREST_DTYPES[name] if name != "value" else values) for name in NODE_ARRAYS}

    def make(number: int) -> _Arranged:
        stretch = slice(ends[number], ends[number + 1])
        return _arrange_part(read(number), {name: made[name][stretch] for name in made}, int(ends[number]), n_features)

    return _joined(map_blocks(make, len(sizes)), made, ends, start, n_features)


def _arrange_part(nodes: Nodes, made: dict[str, Array], first: int, n_features: int) -> _Arranged:
    """Arrange the nodes of a part in its stretch of the arrays, which begins at `first`."""
    starts = np.concatenate([[0], np.cumsum(nodes.sizes, dtype=np.int64)])
    n_trees = len(nodes.sizes)
    order, new_left = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.int64)
    roots, depths, fault = np.zeros(n_trees + 1, np.int64), np.empty(n_trees, np.int64), np.zeros(4, np.int64)
    left, right = (readonly(side.astype(np.int64, copy=False)) for side in (nodes.left, nodes.right))
    _arrange(readonly(starts), left, right, order, new_left, roots, depths, fault)
    if fault[0]:
        problem = "has a child outside of its tree" if fault[0] == OUTSIDE else "has a child that hangs on two nodes"
        raise ValueError(f"tree {nodes.first_tree + fault[1] + 1}, node {fault[2]}: {problem} ({fault[3]})")

    def settle(part: slice) -> None:
        block = {name: array[part] for name, array in made.items()}
        leaf = new_left[part] == np.arange(part.start, part.stop)
        block["left"][:] = new_left[part] + first
        _settle(nodes, order[part], leaf, starts, n_features, block)

    map_slices(settle, int(roots[-1]), BLOCK_NODES)
    return _Arranged(roots, depths, nodes.sets)


def _joined(parts: Sequence[_Arranged], made: dict[str, Array], ends: Array, start: float, n_features: int) -> Forest:
    """The parts as one forest; what the trees of a part do not fill is left out."""
    counts = np.array([part.roots[-1] for part in parts], np.int64)
    before = np.cumsum(counts) - counts
    if (counts < np.diff(ends)).any():
        stretches = [slice(first, first + n) for first, n in zip(ends.tolist(), counts.tolist())]
        made["left"] -= np.repeat(ends[:-1] - before, np.diff(ends)).astype(np.uint32)
        made = {name: np.concatenate([array[one] for one in stretches]) for name, array in made.items()}
    sets = CategorySets.join([part.sets for part in parts])
    if len(parts) > 1 and len(sets):
        n_sets = np.cumsum([len(part.sets) for part in parts]) - [len(part.sets) for part in parts]
        made["feature"] += np.where(made["feature"] >= n_features, np.repeat(n_sets, counts), 0).astype(np.uint32)
    roots = np.concatenate([np.zeros(1, np.int64), *(part.roots[1:] + n for part, n in zip(parts, before))])
    depths = np.concatenate([np.zeros(0, np.int64), *(part.depths for part in parts)])
    forest = Forest(roots=roots, depths=depths, start=start, n_features=n_features, **made, **sets.arrays())
    forest.check(forest.value.dtype)
    return forest


def _settle(nodes: Nodes, order: Array, leaf: Array, starts: Array, n_features: int, made: dict[str, Array]) -> None:
    """What a block of nodes asks for and holds, in the new order."""
    made["feature"][:], made["threshold"][:] = _questions(nodes, order, leaf, starts, n_features)
    made["missing_right"][:] = nodes.missing_right[order] & ~leaf
    value = np.where(leaf, nodes.value[order], nodes.value.dtype.type(0))
    wrong = ~np.isfinite(value)
    if wrong.any():
        raise ValueError(f"{_name(nodes, order[int(np.argmax(wrong))], starts)}: has a value that is not finite")
    made["value"][:] = value
    made["gain"][:] = 0.0 if nodes.gain is None else np.where(leaf, 0.0, np.nan_to_num(nodes.gain[order]))
    made["count"][:] = 0 if nodes.count is None else np.maximum(nodes.count[order], 0)


def _questions(nodes: Nodes, order: Array, leaf: Array, starts: Array, n_features: int) -> tuple[Array, Array]:
    """Features and thresholds, sets of categories as features of their own."""
    feature, threshold = nodes.feature[order].astype(np.int64), nodes.threshold[order]
    outside = ~leaf & ((feature < 0) | (feature >= n_features))
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"{_name(nodes, order[at], starts)}: feature {feature[at]} is not there; there are {n_features:,}"
        )
    if nodes.of_set is not None:
        of_set = np.where(leaf, -1, nodes.of_set[order])
        feature = np.where(of_set >= 0, n_features + of_set, feature)
        threshold = np.where(of_set >= 0, np.float32(SET_THRESHOLD), threshold)
    unclear = ~leaf & np.isnan(threshold)
    if unclear.any():
        raise ValueError(f"{_name(nodes, order[int(np.argmax(unclear))], starts)}: its threshold is not a number")
    return np.where(leaf, 0, feature), np.where(leaf, np.float32(np.inf), threshold)


def _name(nodes: Nodes, node: int, starts: Array) -> str:
    """`tree 3, node 5`: trees count from 1, nodes as the format has them, from 0."""
    tree = int(np.searchsorted(starts, node, side="right")) - 1
    return f"tree {nodes.first_tree + tree + 1}, node {int(node) - int(starts[tree])}"


@kernel
def _arrange(
    starts: Array, left: Array, right: Array, order: Array, new_left: Array, roots: Array, depths: Array, fault: Array
) -> None:
    """order[k] = the node that comes k-th, level by level; new_left[k] = where its children begin, or k in leaves.

    fault: what is wrong, the tree, the node in its tree, the child in its tree.
    """
    seen = np.zeros(len(left), np.uint8)
    end = 0
    for tree in range(len(starts) - 1):
        first, last = starts[tree], starts[tree + 1]
        roots[tree], depths[tree] = end, 0
        here, level_end = end, end + 1
        order[end], seen[first] = first, 1
        end += 1
        while here < end:
            if here == level_end:
                depths[tree] += 1
                level_end = end
            node = order[here]
            new_left[here] = here
            if left[node] >= 0:
                new_left[here] = end
                for child in (left[node], right[node]):
                    inside = first <= child < last
                    if not inside or seen[child]:
                        fault[0], fault[1] = (TWICE if inside else OUTSIDE), tree
                        fault[2], fault[3] = node - first, child - first
                        return
                    seen[child] = 1
                    order[end] = child
                    end += 1
            here += 1
        roots[tree + 1] = end
