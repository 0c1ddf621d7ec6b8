"""Oblivious trees: one question a level, the same as a slow search finds."""

import numpy as np
import pytest
from oracles import grow_oblivious_slowly

from podium.learners.trees.training.binning import bin_rows, find_bin_edges
from podium.learners.trees.training.growing import GrowthRules, TreeGrower
from podium.models.trees.named import LambdaMART, MatrixNet

pytestmark = pytest.mark.usefixtures("large_sizes")


def grow(X, gradients, hessians, n_threads=1, **rules):
    binned = bin_rows(X, find_bin_edges(X))
    grower = TreeGrower(binned, GrowthRules(growth="oblivious", **rules), n_threads)
    tree = grower.grow(gradients, hessians, None, np.ones(X.shape[1], np.bool_))
    return tree, [grower.index[a:b].tolist() for a, b in zip(tree.leaf_start[:-1], tree.leaf_start[1:])]


def make_problem(rng, n=300):
    X = rng.integers(0, 9, (n, 4)).astype(np.float32)
    gradients = np.where(X[:, 1] > 4, 1.0, -1.0) + 0.7 * (X[:, 3] > 6) * (X[:, 0] > 2) + 0.2 * rng.standard_normal(n)
    return X, gradients.astype(np.float32), (rng.random(n) + 0.5).astype(np.float32)


def questions(tree):
    """The set of (feature, bin, missing side) of each level."""
    levels = [[0]]
    while any(tree.feature[node] >= 0 for node in levels[-1]):
        levels.append([child for node in levels[-1] for child in (tree.left[node], tree.left[node] + 1)])
    return [{(tree.feature[node], tree.bin[node], tree.missing_left[node]) for node in level} for level in levels[:-1]]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_tree_equals_the_slow_search(rng, depth):
    for _ in range(3):
        X, gradients, hessians = make_problem(rng)
        rules = {"max_leaf_nodes": 2**depth, "min_samples_leaf": 1, "min_hessian": 3.0, "l2_regularization": 0.5}
        _, leaves = grow(X, gradients, hessians, **rules)
        slow = (gradients.astype(float).tolist(), hessians.astype(float).tolist())
        expected = grow_oblivious_slowly(X.tolist(), *slow, depth, l2=0.5, least=3.0)
        assert sorted(map(sorted, leaves)) == sorted(map(sorted, expected))


def test_every_level_asks_one_question(rng):
    X, gradients, hessians = make_problem(rng)
    tree, leaves = grow(X, gradients, hessians, max_leaf_nodes=16, min_samples_leaf=1)
    assert [len(level) for level in questions(tree)] == [1, 1, 1, 1]
    assert len(leaves) == 16
    assert sorted(row for leaf in leaves for row in leaf) == list(range(len(X)))
    np.testing.assert_array_equal(tree.size[tree.leaf_node], [len(leaf) for leaf in leaves])


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_nothing(rng, n_threads):
    X = rng.standard_normal((40_000, 12)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    gradients = (np.nan_to_num(X[:, 0] * X[:, 1]) + rng.standard_normal(40_000)).astype(np.float32)
    hessians = (rng.random(40_000) + 0.1).astype(np.float32)
    one, leaves = grow(X, gradients, hessians, max_leaf_nodes=32)
    two, others = grow(X, gradients, hessians, n_threads=n_threads, max_leaf_nodes=32)
    for name in ("feature", "bin", "missing_left", "sides", "left", "gain", "size", "leaf_node", "leaf_start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert leaves == others


def test_a_level_that_gains_nothing_ends_the_tree():
    X = np.repeat([[0.0], [1.0]], 50, axis=0).astype(np.float32)
    tree, leaves = grow(X, X[:, 0] - 0.5, np.ones(100, np.float32), max_leaf_nodes=8, min_samples_leaf=1)
    assert len(leaves) == 2
    assert len(tree.feature) == 3


def test_missing_values_learn_one_side_a_level():
    X = np.array([[0.0]] * 20 + [[1.0]] * 20 + [[np.nan]] * 20, np.float32)
    for like, expected in ((-1.0, True), (1.0, False)):
        gradients = np.array([-1.0] * 20 + [1.0] * 20 + [like] * 20, np.float32)
        tree, _ = grow(X, gradients, np.ones(60, np.float32), max_leaf_nodes=2, min_samples_leaf=1)
        assert tree.missing_left[0] == expected


def test_matrixnet_learns_and_scores_what_it_grew(splits):
    model = MatrixNet(n_estimators=10, max_depth=4).fit(splits.train)
    assert model.score(splits.test) > 0.5
    roots, forest = model.forest_.roots, model.forest_
    for tree in range(forest.n_trees):
        assert roots[tree + 1] - roots[tree] == 31  # 16 leaves
    # plain lambdas shrink as pairs get in order: their steps are shorter than normalised ones, so it takes more trees
    by_lambda = MatrixNet(n_estimators=30, max_depth=4, objective="lambda").fit(splits.train)
    assert by_lambda.score(splits.test) > 0.5


def test_depth_follows_from_the_leaves_unless_given(splits):
    for given, leaves in (({}, 16), ({"max_leaf_nodes": 8}, 8), ({"max_depth": 3}, 8), ({"max_depth": 6}, 64)):
        model = LambdaMART(n_estimators=1, growth="oblivious", **given).fit(splits.train)
        assert len(model.forest_.feature) <= 2 * leaves - 1
