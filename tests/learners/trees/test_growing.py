"""Growing: trees equal those of a slow search over all cuts, whatever the threads."""

import numpy as np
import pytest
from oracles import grow_tree_slowly

from podium.learners.trees.binning import bin_rows, find_borders
from podium.learners.trees.growing import GrowthRules, TreeGrower


def grow(X, gradients, hessians, n_threads=1, sample=None, allowed=None, **rules):
    X = np.asarray(X, np.float32)
    binned = bin_rows(X, find_borders(X))
    grower = TreeGrower(binned, GrowthRules(**rules), n_threads)
    allowed = np.ones(X.shape[1], np.bool_) if allowed is None else allowed
    tree = grower.grow(np.asarray(gradients, np.float32), np.asarray(hessians, np.float32), sample, allowed)
    leaves = [grower.index[a:b].tolist() for a, b in zip(tree.leaf_start[:-1], tree.leaf_start[1:])]
    return tree, leaves


def make_problem(rng, n=400, missing=0.0):
    X = rng.integers(0, 12, (n, 5)).astype(np.float32)
    gradients = np.where(X[:, 1] > 5, 1.0, -1.0) + 0.5 * (X[:, 3] > 8) + rng.standard_normal(n) * 0.3
    hessians = rng.random(n) + 0.5
    X[rng.random(X.shape) < missing] = np.nan
    return X, gradients.astype(np.float32), hessians.astype(np.float32)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("min_samples_leaf", [1, 30])
@pytest.mark.parametrize("growth", ["leaf", "level"])
def test_a_tree_equals_the_slow_search_over_all_cuts(rng, missing, min_samples_leaf, growth):
    for _ in range(3):
        X, gradients, hessians = make_problem(rng, missing=missing)
        depth = {} if growth == "leaf" else {"max_depth": 3}
        rules = {"max_leaf_nodes": 9, "min_samples_leaf": min_samples_leaf, "l2_regularization": 0.5}
        _, leaves = grow(X, gradients, hessians, growth=growth, **rules, **depth)
        expected = grow_tree_slowly(
            X, gradients, hessians, 9, min_samples_leaf, l2=0.5, by_level=growth == "level", **depth
        )
        assert sorted(map(sorted, leaves)) == sorted(map(sorted, expected))


def test_rows_keep_their_order_inside_leaves(rng):
    X, gradients, hessians = make_problem(rng)
    _, leaves = grow(X, gradients, hessians, max_leaf_nodes=8)
    assert all(leaf == sorted(leaf) for leaf in leaves)
    assert sorted(row for leaf in leaves for row in leaf) == list(range(len(X)))


@pytest.mark.parametrize("n_threads", [2])
def test_threads_change_nothing(rng, n_threads):
    X = rng.standard_normal((30_000, 20)).astype(np.float32)
    gradients = (X[:, 0] * X[:, 1] + rng.standard_normal(30_000)).astype(np.float32)
    hessians = (rng.random(30_000) + 0.1).astype(np.float32)
    one, leaves = grow(X, gradients, hessians, max_leaf_nodes=20)
    two, others = grow(X, gradients, hessians, n_threads=n_threads, max_leaf_nodes=20)
    for name in ("feature", "bin", "missing_left", "left", "gain", "count", "leaf_node", "leaf_start"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert leaves == others


def test_missing_values_go_to_the_side_where_they_gain_more():
    X = np.array([[0.0]] * 20 + [[1.0]] * 20 + [[np.nan]] * 20)
    for like, expected in ((-1.0, True), (1.0, False)):
        gradients = np.array([-1.0] * 20 + [1.0] * 20 + [like] * 20)
        tree, leaves = grow(X, gradients, np.ones(60), max_leaf_nodes=2, min_samples_leaf=1)
        assert tree.missing_left[0] == expected
        assert len(leaves[0]) == (40 if expected else 20)


def test_missing_against_the_rest_is_a_cut_too():
    X = np.array([[0.0], [1.0]] * 20 + [[np.nan]] * 20)
    gradients = np.array([1.0, 1.0] * 20 + [-1.0] * 20)
    tree, leaves = grow(X, gradients, np.ones(60), max_leaf_nodes=2, min_samples_leaf=1)
    assert sorted(map(len, leaves)) == [20, 40]
    assert not tree.missing_left[0]


@pytest.mark.parametrize(
    ("rules", "check"),
    [
        ({"min_samples_leaf": 50}, lambda leaves, H: min(map(len, leaves)) >= 50),
        ({"min_hessian": 40.0}, lambda leaves, H: min(H[leaf].sum() for leaf in leaves) >= 40 * (1 - 1e-6)),
        ({"max_leaf_nodes": 5}, lambda leaves, H: len(leaves) <= 5),
        ({"max_depth": 2}, lambda leaves, H: len(leaves) <= 4),
        ({"min_gain": 1e9}, lambda leaves, H: len(leaves) == 1),
    ],
)
def test_stop_rules_are_kept(rng, rules, check):
    X, gradients, hessians = make_problem(rng, n=1_000)
    _, leaves = grow(X, gradients, hessians, **({"min_samples_leaf": 1, "max_leaf_nodes": 40} | rules))
    assert check(leaves, hessians)


def test_a_tree_stops_when_its_impurity_is_low_enough():
    X = np.array([[0.0], [1.0], [2.0], [3.0]] * 10)
    gradients = X[:, 0] - 1.5  # mean 1/2 g^2 = 0.625; one cut in the middle leaves 1/8
    for limit, leaves in ((0.7, 1), (0.2, 2), (0.1, 3), (0.0, 4)):
        found = grow(X, gradients, np.ones(40), min_samples_leaf=1, max_impurity=limit)[1]
        assert len(found) == leaves


def test_only_sampled_rows_and_allowed_features_are_used(rng):
    X, gradients, hessians = make_problem(rng)
    sample = np.arange(0, 400, 2)
    allowed = np.array([True, False, True, True, True])
    tree, leaves = grow(X, gradients, hessians, sample=sample, allowed=allowed, max_leaf_nodes=6)
    assert sorted(row for leaf in leaves for row in leaf) == sample.tolist()
    assert 1 not in tree.feature


@pytest.mark.parametrize("scale", [2.0**-100, 1.0, 2.0**90])
def test_fixed_point_survives_extreme_derivatives(rng, scale):
    X, gradients, hessians = make_problem(rng)
    _, leaves = grow(X, gradients, hessians, max_leaf_nodes=6, min_hessian=0.0)
    _, others = grow(X, gradients * scale, hessians * scale, max_leaf_nodes=6, min_hessian=0.0)
    assert leaves == others


def test_one_huge_gradient_does_not_overflow(rng):
    X, gradients, hessians = make_problem(rng)
    gradients[7] = 1e30
    _, leaves = grow(X, gradients, hessians, max_leaf_nodes=2, min_samples_leaf=1)
    assert len(leaves) == 2
    assert sum(map(len, leaves)) == 400


def test_nothing_to_gain_is_a_single_leaf():
    tree, leaves = grow(np.ones((50, 3)), np.ones(50), np.ones(50))
    assert len(leaves) == 1
    assert tree.feature.tolist() == [-1]
