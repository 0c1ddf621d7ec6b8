"""Finishing: a grown tree, whose splits are bins, becomes a tree of a forest, whose splits are thresholds."""

from __future__ import annotations

import numpy as np

from podium.learners.trees.scoring.categories import SET_THRESHOLD, CategorySets
from podium.learners.trees.scoring.forest import TreeArrays
from podium.learners.trees.training.binning import BinEdges
from podium.learners.trees.training.grown import GrownTree


def finish_tree(tree: GrownTree, values: np.ndarray, edges: BinEdges) -> TreeArrays:
    """From bins to thresholds. values: one per leaf, in the order of `tree.leaf_node`."""
    n = len(tree.feature)
    splits = tree.feature >= 0
    feature = np.where(splits, tree.feature, 0)
    threshold = np.where(splits, edges.upper[feature, np.minimum(tree.bin, edges.upper.shape[1] - 1)], np.inf)
    value = np.zeros(n)
    value[tree.leaf_node] = values
    named = np.flatnonzero(splits & edges.categorical[feature])
    sets: dict[bytes, CategorySets] = {}  # a level of an oblivious tree has one for all its splits
    for node in named.tolist():
        one = _set_of(tree, node, edges)
        key = one.feature.tobytes() + one.sides.tobytes()
        sets.setdefault(key, one)
        feature[node], threshold[node] = edges.n_features + list(sets).index(key), SET_THRESHOLD
    return TreeArrays(
        feature,
        threshold,
        np.where(splits, tree.left, np.arange(n)),
        splits & ~tree.missing_left,
        value,
        tree.gain,
        tree.size,
        _depth(tree),
        CategorySets.join(list(sets.values())),
    )


def newton_steps(sums: np.ndarray, l2: float) -> np.ndarray:
    """-G / (H + l2) for sums (leaves, 2) of gradients and hessians; 0 where there is nothing to divide by."""
    weight = sums[:, 1] + l2
    return np.where(weight > 0, -sums[:, 0] / np.where(weight > 0, weight, 1.0), 0.0)


def _set_of(tree: GrownTree, node: int, edges: BinEdges) -> CategorySets:
    """The side of every category that training has seen; its bins are the slots of its column."""
    f = tree.feature[node]
    n = edges.n_bins[f]
    ends = np.array([0, n])
    return CategorySets(np.array([f], np.int64), ends, edges.upper[f, :n], tree.sides[node, :n])


def _depth(tree: GrownTree) -> int:
    depth, splits = 0, np.zeros(1, np.int64)[: int(tree.feature[0] >= 0)]
    while len(splits):  # a level of the tree after the other
        children = np.concatenate([tree.left[splits], tree.left[splits] + 1])
        depth, splits = depth + 1, children[tree.feature[children] >= 0]
    return depth
