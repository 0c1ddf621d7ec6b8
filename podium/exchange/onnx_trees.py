"""Trees as ONNX: one operator for all of them.

`TreeEnsemble` (onnxruntime 1.21 and later) holds splits and leaves apart, in float64, and splits by categories; with
one thread it adds one leaf per tree to 0, from the first tree to the last. `TreeEnsembleRegressor`, for versions
before, does so too, and rounds the sum to float32. Both add up forests with values in float32 in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import ROUNDED, Claim, Written
from podium.exchange.forms import Trees, as_trees
from podium.exchange.onnx_graph import (
    ENSEMBLE_OPSET,
    INPUT,
    REGRESSOR_OPSET,
    TREE_DOMAIN,
    WITH_ENSEMBLE,
    WITH_SETS,
    Graph,
    facts_of,
)
from podium.learners.trees.scoring.exact import has_exact_sums
from podium.learners.trees.scoring.forest import Forest
from podium.models.imported import TINY, ZERO_MISSING

SUM = 1  # aggregate_function
AT_MOST, MEMBER = 0, 6  # nodes_modes: x <= split, and x is listed
_MOST_CATEGORY = 2**24  # float32 holds every integer below
_IN_PARTS = "with more threads it may add up the trees in parts, and the last bits differ"


def write_trees(form: Trees, version: tuple[int, int] | None) -> Written:
    """version: of onnxruntime; None: a current one."""
    if version is not None and version < WITH_ENSEMBLE:
        return _as_regressor(form)
    has_sets = version is None or version >= WITH_SETS
    where = "ONNX" if has_sets else "ONNX for onnxruntime before 1.23"
    trees = as_trees(replace(form, factor=1.0, divisor=1.0), where, sets=has_sets, zero_missing=True)
    dtype = trees.forest.value.dtype.type
    claim = trees.claim(dtype, *_conditions(trees, "1.23" if len(trees.forest.sets) else "1.21"))
    graph = Graph()
    total = _add_ensemble(graph, _rows(graph, trees), trees.with_start_as_tree())
    total = graph.cast(total, np.float64) if dtype is not np.float64 else total
    if form.factor != 1:
        total = graph.add("Mul", total, graph.constant("factor", form.factor))
    if form.divisor != 1:
        graph.add("Div", total, graph.constant("divisor", form.divisor))
    facts = facts_of(trees.names, claim, trees.categories)
    content = graph.content(trees.forest.n_features, np.float64, ENSEMBLE_OPSET, facts)
    return Written(content, claim, replace(trees, factor=form.factor, divisor=form.divisor).scores)


def _conditions(trees: Trees, oldest: str) -> tuple[str, list[str]]:
    """The program and how it is called, and when the claim holds."""
    is_exact = has_exact_sums(trees.forest)
    threads = "any number of threads" if is_exact else "intra_op_num_threads=1"
    conditions = [] if is_exact else [_IN_PARTS]
    if len(trees.forest.sets):
        conditions.append("categories are integers from 0, as the model numbers them")
    return f"onnxruntime {oldest} or later on a CPU, {threads}", conditions


def _rows(graph: Graph, trees: Trees) -> str:
    """The rows as the trees see them: zeros that count as missing are NaN, and all are of the type of the values."""
    rows, of_zeros = INPUT, trees.prepared == ZERO_MISSING
    if of_zeros.any():
        is_tiny = graph.add("LessOrEqual", graph.add("Abs", rows), graph.constant("tiny", TINY, np.float32))
        is_missing = graph.add("And", is_tiny, graph.constant("of_zeros", of_zeros, np.bool_))
        rows = graph.add("Where", is_missing, graph.constant("missing", np.nan, np.float32), rows)
    return rows if trees.forest.value.dtype == np.float32 else graph.cast(rows, np.float64)


# --- TreeEnsemble


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Places in the arrays of ONNX: splits and leaves are counted apart, over all trees.

    A tree of one leaf is a split between two leaves of its value: onnxruntime mistakes the number of the split for that
    of the leaf where both branches lead to one.
    """

    node: Array  # of the forest's nodes, those that are splits here, in order
    split: Array  # the number of a node as a split
    leaf: Array  # the number of a node as a leaf
    is_leaf: Array
    is_alone: Array  # a leaf that is a tree

    @classmethod
    def of(cls, forest: Forest) -> _Numbers:
        is_leaf = forest.left == np.arange(len(forest.left))
        is_alone = np.zeros(len(is_leaf), np.bool_)
        is_alone[forest.roots[:-1]] = is_leaf[forest.roots[:-1]]
        is_split = ~is_leaf | is_alone
        leaves = is_leaf.astype(np.int64) + is_alone
        return cls(np.flatnonzero(is_split), np.cumsum(is_split) - 1, np.cumsum(leaves) - leaves, is_leaf, is_alone)

    def branch(self, child: Array) -> tuple[Array, Array]:
        """Of every split where a branch leads, and whether that is a leaf."""
        is_leaf = self.is_leaf[child]
        return np.where(is_leaf, self.leaf[child], self.split[child]), is_leaf


def _add_ensemble(graph: Graph, rows: str, trees: Trees) -> str:
    forest, numbers = trees.forest, _Numbers.of(trees.forest)
    dtype, node = forest.value.dtype, numbers.node
    listed, swapped, modes, splits = _questions(trees, node)
    alone, left = numbers.is_alone[node], forest.left[node].astype(np.int64)
    is_number = ~alone & (forest.feature[node] < forest.n_features)
    true_id, true_leaf = numbers.branch(np.where(swapped, left + 1, left))
    false_id, false_leaf = numbers.branch(np.where(swapped | alone, left, left + 1))
    weights = np.repeat(forest.value, numbers.is_leaf.astype(np.int64) + numbers.is_alone)
    integers = {
        "tree_roots": numbers.split[forest.roots[:-1]],
        "nodes_featureids": forest.owner[node],
        "nodes_truenodeids": true_id,
        "nodes_falsenodeids": false_id + alone,
        "nodes_trueleafs": true_leaf,
        "nodes_falseleafs": false_leaf,
        "nodes_missing_value_tracks_true": is_number & (forest.missing_right[node] == 0),
        "leaf_targetids": np.zeros(len(weights)),
    }
    tensors = {"nodes_splits": splits.astype(dtype), "nodes_modes": modes, "leaf_weights": weights}
    if listed:
        tensors["membership_values"] = np.concatenate(listed).astype(dtype)
    attributes = graph.lists(integers) | graph.tensors(tensors)
    options = {"aggregate_function": SUM, "post_transform": 0, "n_targets": 1}
    return graph.add("TreeEnsemble", rows, domain=TREE_DOMAIN, **options, **attributes)


def _questions(trees: Trees, node: Array) -> tuple[list[Array], Array, Array, Array]:
    """What splits ask: listed categories, each list ending with NaN; whether children change sides; modes; thresholds.

    What is listed takes the true branch, all else the false one: so the side opposite to that of missing values is
    listed. Nothing is listed where all values go to one side.
    """
    forest = trees.forest
    splits, swapped = forest.threshold[node].astype(np.float64), np.zeros(len(node), np.bool_)
    modes, listed = np.full(len(node), AT_MOST, np.uint8), []
    for at in np.flatnonzero(forest.feature[node] >= forest.n_features).tolist():
        missing_left = forest.missing_right[node[at]] == 0
        number = int(forest.feature[node[at]]) - forest.n_features
        known = forest.sets.sides_of(number)[1 if missing_left else 0]
        swapped[at] = missing_left
        if len(known) == 0:
            splits[at] = -np.inf
            continue
        _refuse_odd(known, trees.names[int(forest.sets.feature[number])])
        modes[at], splits[at] = MEMBER, 0
        listed.append(np.append(known, np.nan))
    return listed, swapped, modes, splits


def _refuse_odd(categories: Array, name: str) -> None:
    wrong = (categories != np.floor(categories)) | (categories < 0) | (categories >= _MOST_CATEGORY)
    if wrong.any():
        problem = f"feature {name!r} has the category {float(categories[wrong][0]):g}; ONNX takes integers from 0 only"
        raise ValueError(f"{problem}. Number its categories from 0, and train again.")


# --- TreeEnsembleRegressor


def _as_regressor(form: Trees) -> Written:
    trees = as_trees(form, "ONNX for onnxruntime before 1.21", sets=False, zero_missing=True)
    dtype = trees.forest.value.dtype.type
    engine, conditions = _conditions(trees, "1.15")
    claim = Claim(ROUNDED, engine, tuple(conditions))
    if dtype is np.float32:
        claim = trees.claim(np.float32, engine, conditions)
    graph = Graph()
    _add_regressor(graph, _rows(graph, trees), trees.with_start_as_tree().forest)
    facts = facts_of(trees.names, claim, trees.categories)
    content = graph.content(trees.forest.n_features, np.float32, REGRESSOR_OPSET, facts)
    return Written(content, claim, lambda X: trees.scores(X).astype(np.float32).astype(np.float64))


def _add_regressor(graph: Graph, rows: str, forest: Forest) -> str:
    node, sizes = np.arange(len(forest.left)), np.diff(forest.roots)
    tree, number = np.repeat(np.arange(forest.n_trees), sizes), node - np.repeat(forest.roots[:-1], sizes)
    leaf = forest.left == node
    left = np.where(leaf, 0, forest.left.astype(np.int64) - np.repeat(forest.roots[:-1], sizes))
    missing_left = ~leaf & (forest.missing_right == 0)
    thresholds = np.where(leaf, 0, forest.threshold).astype(forest.value.dtype)
    integers = {
        "nodes_treeids": tree,
        "nodes_nodeids": number,
        "nodes_featureids": forest.owner,
        "nodes_truenodeids": left,
        "nodes_falsenodeids": np.where(leaf, 0, left + 1),
        "nodes_missing_value_tracks_true": missing_left,
        "target_treeids": tree[leaf],
        "target_nodeids": number[leaf],
        "target_ids": np.zeros(int(leaf.sum())),
    }
    tensors = {"nodes_values_as_tensor": thresholds, "target_weights_as_tensor": forest.value[leaf]}
    attributes = graph.lists(integers) | graph.tensors(tensors)
    attributes["nodes_modes"] = np.where(leaf, "LEAF", "BRANCH_LEQ").tolist()
    options = {"aggregate_function": "SUM", "post_transform": "NONE", "n_targets": 1}
    return graph.add("TreeEnsembleRegressor", rows, domain=TREE_DOMAIN, **options, **attributes)
