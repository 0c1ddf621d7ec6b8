"""Growing: trees equal those of a slow search over all splits, whatever the threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from oracles import grow_tree_slowly

from podium.learners.trees.training.binning import MISSING, bin_rows, find_bin_edges
from podium.learners.trees.training.growing import POOL, GrowthRules, TreeGrower
from podium.learners.trees.training.histograms import STRIDE, TILE, add_rows, add_shares, clear_words
from podium.learners.trees.training.splitting import ALL_BINS, GAIN, SPLIT, best_gain, scan_bins


def grow(X, gradients, hessians, n_threads=1, sample=None, allowed=None, pool_bytes=POOL, **rules):
    X = np.asarray(X, np.float32)
    binned = bin_rows(X, find_bin_edges(X))
    grower = TreeGrower(binned, GrowthRules(**rules), n_threads, pool_bytes)
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


@pytest.mark.parametrize("growth", ["leaf", "level"])
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("histograms", [3, 5, 19])
def test_a_small_pool_of_histograms_changes_nothing(rng, growth, n_threads, histograms):
    """Evicted histograms are built again; the root's 20,000 rows are shared by rows, small leaves by features."""
    X = rng.standard_normal((20_000, 3)).astype(np.float32)
    gradients = (X[:, 0] * X[:, 1] + rng.standard_normal(20_000)).astype(np.float32)
    hessians = (rng.random(20_000) + 0.1).astype(np.float32)
    rules = {"max_leaf_nodes": 40, "growth": growth, "max_depth": 8}
    roomy, leaves = grow(X, gradients, hessians, **rules)
    size = 8 * 8 * STRIDE  # of one histogram: three features and five spare ones
    tight, same_leaves = grow(X, gradients, hessians, n_threads, pool_bytes=histograms * size, **rules)
    assert len(leaves) == 40
    assert same_leaves == leaves
    for name in ("feature", "bin", "left", "gain"):
        np.testing.assert_array_equal(getattr(tight, name), getattr(roomy, name))


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads_change_nothing(rng, n_threads):
    X = rng.standard_normal((30_000, 20)).astype(np.float32)
    gradients = (X[:, 0] * X[:, 1] + rng.standard_normal(30_000)).astype(np.float32)
    hessians = (rng.random(30_000) + 0.1).astype(np.float32)
    one, leaves = grow(X, gradients, hessians, max_leaf_nodes=20)
    two, others = grow(X, gradients, hessians, n_threads=n_threads, max_leaf_nodes=20)
    for name in ("feature", "bin", "missing_left", "left", "gain", "size", "leaf_node", "leaf_start"):
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
    gradients = X[:, 0] - 1.5  # mean 1/2 g^2 = 0.625; one split in the middle leaves 1/8
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


def test_teams_of_two_trees_do_not_meet(rng):
    """Each grower has threads of its own, so two Python threads may grow trees at the same time."""
    problems = [make_problem(rng, n=20_000) for _ in range(2)]
    alone = [grow(*problem, max_leaf_nodes=16)[1] for problem in problems]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda problem: grow(*problem, n_threads=2, max_leaf_nodes=16)[1], problems))
    assert together == alone


@pytest.mark.parametrize("huge", [1.0, 1e6, 1e30])
def test_a_million_rows_and_huge_weights_do_not_overflow_the_packed_sums(huge):
    """The better half has gradient -huge, the other +huge: one split, whose gain is 1,000,000 huge^2 / h."""
    n = 1_000_000
    X = np.arange(n, dtype=np.float32)[:, None]
    gradients = np.where(np.arange(n) < n // 2, -huge, huge).astype(np.float32)
    tree, leaves = grow(X, gradients, np.full(n, huge, np.float32), n_threads=2, max_leaf_nodes=2)
    assert tree.feature[0] == 0
    assert tree.gain[0] == pytest.approx(n * huge, rel=0.02)  # bins do not end exactly in the middle
    assert sum(map(len, leaves)) == n


def test_one_huge_gradient_leaves_the_others_what_is_left_of_the_precision(rng):
    """31 bits for the sum of all: with one of 10^5 times the others, these still have about 14 bits each."""
    X, gradients, hessians = make_problem(rng)
    gradients[7] = 1e5 * np.abs(gradients).max()
    _, leaves = grow(X, gradients, hessians, max_leaf_nodes=4, min_samples_leaf=1)
    expected = grow_tree_slowly(X, gradients, hessians, 4, 1)
    assert sorted(map(sorted, leaves)) == sorted(map(sorted, expected))


def make_histogram(rng, missing):
    packed = (rng.integers(-1000, 1000, STRIDE) << 32) + rng.integers(1, 1000, STRIDE)
    packed[~(np.arange(STRIDE) == MISSING) & (rng.random(STRIDE) < 0.3)] = 0  # empty bins
    packed[MISSING] *= missing
    return packed.astype(np.int64)


@pytest.mark.parametrize("missing", [False, True])
def test_the_fast_search_for_a_gain_equals_the_careful_one_to_the_last_bit(rng, missing):
    for n_bins in (2, 3, 17, 254, 255):
        for l2, least in ((0.0, 1.0), (7.5, 900.0)):
            histogram, scales = make_histogram(rng, missing), np.array([3.0, 0.5, l2, least])
            split = np.empty(SPLIT)
            scan_bins(
                ALL_BINS, histogram, n_bins, missing, scales, np.empty(0, np.int64), 0, 0.0, -np.inf, np.inf, split
            )
            assert best_gain(histogram, n_bins, missing, scales, np.empty(MISSING, np.int64)) == split[GAIN]


@pytest.mark.parametrize("n_features", [1, 8, 17, 40])
def test_rows_and_features_are_shared_with_the_same_sums(rng, n_features):
    n, words = 3_000, -(-n_features // 8)
    bins = np.zeros((n, words * 8), np.uint8)
    bins[:, :n_features] = rng.integers(0, 200, (n, n_features))
    packed = (rng.integers(-1000, 1000, n) << 32) + rng.integers(1, 1000, n)
    index = np.sort(rng.permutation(n)[:2_000]).astype(np.uint32)
    expected = np.zeros((words * 8, STRIDE), np.int64)
    for f in range(n_features):
        np.add.at(expected[f], bins[index, f], packed[index])
    found = np.full((words * 8, STRIDE), 99, np.int64)  # what an earlier leaf left
    room = np.empty(-(-words // 2) * TILE * 2, np.uint64), np.empty(TILE, np.int64)
    n_bins = np.full(n_features, 200, np.int32)
    middle = words // 4 * 2  # whole blocks
    for first, last in ((0, middle), (middle, words)):
        clear_words(found.reshape(-1), first, last, n_bins)
        add_rows(bins.view(np.uint64), packed, index, first, last, found.reshape(-1), *room)
    np.testing.assert_array_equal(found[:n_features, :200], expected[:n_features, :200])
    shares = np.full((2, words * 8 * STRIDE), 99, np.int64)
    for share, part in zip(shares, (index[:700], index[700:])):
        clear_words(share, 0, words, n_bins)
        add_rows(bins.view(np.uint64), packed, part, 0, words, share, *room)
    add_shares(shares, 0, words, n_bins, found.reshape(-1))
    np.testing.assert_array_equal(found[:n_features, :200], expected[:n_features, :200])
