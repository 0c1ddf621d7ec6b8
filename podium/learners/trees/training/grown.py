"""The shape of trees: when growth stops, and a tree over bins. Needs no Numba, so that a GPU can do without."""

from __future__ import annotations

from dataclasses import dataclass

from podium._runtime.compiler import Array


@dataclass(frozen=True)
class GrowthRules:
    """When a tree stops and what shape it takes."""

    max_leaf_nodes: int = 31
    max_depth: int = 0  # 0: no limit
    min_samples_leaf: int = 20
    min_hessian: float = 1e-3  # of splits by Newton's gain
    min_gain: float = 0.0
    max_impurity: float = 0.0  # stop once sum |S_i|/|S| * mean 1/2 (y - mean)^2 is not above this; 0: never
    l2_regularization: float = 0.0
    growth: str = "leaf"
    split_by: str = "newton"  # or "gradients": least squares, weights in place of hessians
    extra_trees: bool = False  # one drawn bin per feature and node


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree over bins: node 0 is the root, children of a split stand side by side (left, then left + 1)."""

    feature: Array  # (nodes,) int32; -1 in leaves
    bin: Array  # (nodes,) uint8: rows with at most this bin go left, unless the feature is a category
    missing_left: Array  # (nodes,) bool
    column: Array  # (nodes,) int32: where the feature's slots are
    sides: Array  # (nodes, 256) uint8: of every slot of that column, 1 for right
    left: Array  # (nodes,) int32; leaves are their own
    gain: Array  # (nodes,) float64
    size: Array  # (nodes,) int64: rows
    leaf_node: Array  # (leaves,) int32: the node of each leaf
    leaf_start: Array  # (leaves + 1,) int64: its range of `rows`, leaves in order of their ranges
    rows: Array  # uint32: the rows of the tree, leaf after leaf, until the next tree is grown
    low: Array  # (leaves,) float64: the least value a leaf may have, as splits saw values
    high: Array  # (leaves,) float64: the largest
    units: tuple[float, float]  # per gradient and per hessian: the grid on which leaf sums are exact
