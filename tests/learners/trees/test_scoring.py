"""Scoring: every way through a forest ends in the same bits as a slow walk, whatever the batch and the threads."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from oracles import walk_slowly

from podium._runtime.compiler import kernel
from podium.learners.trees.scoring import simd
from podium.learners.trees.scoring.forest import Forest, TreeArrays
from podium.learners.trees.scoring.tables import arrange_nodes
from podium.learners.trees.scoring.walking import FEW, Scorer

N_FEATURES = 7
# Few values, so that documents stand on thresholds; the two zeros are one number, infinities compare as numbers.
GRID = np.array([-np.inf, -3e38, -1.5, -1e-40, -0.0, 0.0, 1e-40, 0.5, 2.0, 3e38, np.inf], np.float32)


def make_tree(rng, n_leaves, pick="any"):
    """Split leaves until there are n; pick "last" makes a chain, as deep as it has splits."""
    feature, threshold, left, missing_right, depth = [0], [np.inf], [0], [0], [0]
    leaves = [0]
    while len(leaves) < n_leaves:
        node = leaves.pop(-1 if pick == "last" else int(rng.integers(len(leaves))))
        feature[node], threshold[node] = int(rng.integers(N_FEATURES)), rng.choice(GRID)
        missing_right[node], left[node] = int(rng.integers(2)), len(left)
        for _ in range(2):
            leaves.append(len(left))
            feature.append(0)
            threshold.append(np.inf)
            missing_right.append(0)
            left.append(len(left))
            depth.append(depth[node] + 1)
    return finish(rng, feature, threshold, left, missing_right, max(depth))


def make_oblivious_tree(rng, depth):
    """All nodes of a level make one test; node i has the children 2i + 1 and 2i + 2."""
    n = 2**depth - 1
    level = np.log2(np.arange(1, n + 1)).astype(int)
    tests = [rng.integers(N_FEATURES, size=depth), rng.choice(GRID, depth), rng.integers(2, size=depth)]
    feature, threshold, missing_right = (
        np.concatenate([test[level], np.full(n + 1, fill)]) for test, fill in zip(tests, (0, np.inf, 0))
    )
    left = np.concatenate([2 * np.arange(n) + 1, np.arange(n, 2 * n + 1)])
    return finish(rng, feature, threshold, left, missing_right, depth)


def finish(rng, feature, threshold, left, missing_right, depth):
    n = len(left)
    value = np.where(np.asarray(left) == np.arange(n), rng.standard_normal(n), 0.0)
    columns = [np.asarray(column) for column in (feature, threshold, left, missing_right, value)]
    return TreeArrays(*columns, np.zeros(n), np.zeros(n), depth)


def make_rows(rng, n):
    X = rng.choice(GRID, (n, N_FEATURES))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X.astype(np.float32)


def make_forest(rng, kind):
    sizes = {"small": range(1, 33), "large": [255, 256, 100], "chains": [256, 40], "leaves": [1] * 3, "none": []}
    if kind == "oblivious":
        trees = [make_oblivious_tree(rng, depth) for depth in (0, 1, 2, 6, 8)]
    elif kind == "mixed":
        trees = [make_tree(rng, 9), make_oblivious_tree(rng, 3), make_tree(rng, 1), make_oblivious_tree(rng, 4)]
    else:
        trees = [make_tree(rng, n, "last" if kind == "chains" else "any") for n in sizes[kind]]
    forest = Forest.join(trees, 0.1, N_FEATURES)
    forest.check()
    return forest


KINDS = ["small", "large", "chains", "leaves", "none", "oblivious", "mixed"]
WAYS = {
    "bit vectors": lambda forest, X, out: forest.bit_tables.add_scores(X, forest.n_trees, out),
    "trees in step": lambda forest, X, out: forest.walk_tables.add_scores(X, forest.n_trees, out),
    "documents in step": lambda forest, X, out: forest.add_scores(X, 0, forest.n_trees, out),
}


def slow_scores(forest, X, n_trees=None):
    return np.array([walk_slowly(forest, row, n_trees) for row in X])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_equals_a_slow_walk(rng, way, kind):
    forest, X = make_forest(rng, kind), make_rows(rng, 150)
    out = np.full(len(X), forest.start)
    WAYS[way](forest, X, out)
    np.testing.assert_array_equal(out, slow_scores(forest, X))


@pytest.mark.parametrize("kind", ["small", "mixed"])
def test_the_size_of_the_batch_changes_nothing(rng, kind):
    forest, X = make_forest(rng, kind), make_rows(rng, 200)
    expected = slow_scores(forest, X)
    scorer = Scorer(forest)
    for n in [0, 1, 2, FEW - 1, FEW, 63, 64, 65, 64 + FEW, 127, 128, 129, 200]:
        np.testing.assert_array_equal(forest.scores(X[:n]), expected[:n])
        np.testing.assert_array_equal(scorer.exact(X[:n]), expected[:n])


@pytest.mark.parametrize("kind", ["small", "large", "chains", "oblivious", "mixed", "none"])
@pytest.mark.parametrize("step", [1000, 1003])  # 1000: all of the matrix; 1003: a part of one
def test_rows_whose_columns_are_in_one_piece_have_the_same_scores(rng, kind, step):
    forest, X = make_forest(rng, kind), make_rows(rng, 1000)
    columns = np.full((N_FEATURES, step), np.nan, np.float32)
    columns[:, :1000] = X.T
    for n in (0, 1, 2, FEW - 1, FEW, 63, 64, 65, 1000):
        np.testing.assert_array_equal(forest.scores(columns[:, :n].T), forest.scores(X[:n]))
        np.testing.assert_array_equal(forest.scores(X[1000 - n :][::-1]), forest.scores(X[1000 - n :])[::-1])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_change_nothing(rng, n_jobs):
    forest, X = make_forest(rng, "small"), make_rows(rng, 9_001)
    expected = np.full(len(X), forest.start)
    forest.add_scores(X, 0, forest.n_trees, expected)
    np.testing.assert_array_equal(forest.scores(X, n_jobs=n_jobs), expected)


def test_trees_of_more_leaves_than_a_byte_can_number_are_walked(rng):
    forest = Forest.join([make_tree(rng, n) for n in (257, 5)], 0.0, N_FEATURES)
    assert forest.bit_tables is None
    X = make_rows(rng, 100)
    for n in (3, 100):
        np.testing.assert_array_equal(forest.scores(X[:n]), slow_scores(forest, X[:n]))


@pytest.mark.parametrize(("depth", "fits"), [(15, True), (16, False)])
def test_a_forest_whose_nodes_need_more_than_eight_bytes_is_walked_without_tables(rng, depth, fits):
    n = 2**depth - 1  # one feature per split: depth + 1 bits for the places of the keys, the others for distances
    left = np.concatenate([2 * np.arange(n) + 1, np.arange(n, 2 * n + 1)])
    feature = np.concatenate([np.arange(n), np.zeros(n + 1, int)])
    threshold = np.concatenate([np.zeros(n), np.full(n + 1, np.inf)])
    missing_right = np.concatenate([rng.integers(2, size=n), np.zeros(n + 1, int)])
    forest = Forest.join([finish(rng, feature, threshold, left, missing_right, depth)], 0.0, n)
    assert (forest.walk_tables is not None) == fits
    X = rng.standard_normal((9, n)).astype(np.float32)
    X[rng.random(X.shape) < 0.5] = np.nan
    np.testing.assert_array_equal(forest.scores(X), slow_scores(forest, X))


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_are_arranged_in_pairs_that_no_cache_line_parts(rng, kind):
    forest = make_forest(rng, kind)
    new = arrange_nodes(forest.roots, forest.left, rng.integers(0, 9, len(forest.left)))
    assert len(set(new.tolist())) == len(new)
    assert (new < len(new) + forest.n_trees).all()
    for node, left in enumerate(forest.left.tolist()):
        if left != node:
            assert new[left] > new[node]
            assert new[left + 1] == new[left] + 1
            assert new[left] // 8 == new[left + 1] // 8


@pytest.mark.parametrize("rows", [3, 70])
def test_the_first_trees_alone(rng, rows):
    forest, X = make_forest(rng, "small"), make_rows(rng, rows)
    for n in (0, 1, 7, 31, 32):
        expected = slow_scores(forest, X, n)
        np.testing.assert_array_equal(forest.scores(X, n_trees=n), expected)
        np.testing.assert_array_equal(forest.first(n).scores(X), expected)


def test_contributions_add_up_to_the_scores(rng):
    forest, X = make_forest(rng, "mixed"), make_rows(rng, 30)
    contributions = forest.contributions(X, n_jobs=2)
    assert contributions.shape == (30, 4)
    scores = np.full(30, forest.start)
    for tree in range(4):
        scores += contributions[:, tree]
    np.testing.assert_array_equal(scores, forest.scores(X))


def test_a_level_of_equal_tests_is_one_step(rng):
    tree = make_oblivious_tree(rng, 5)
    assert len(Forest.join([tree], 0.0, N_FEATURES).bit_tables.splits) == 5
    other = replace(tree, missing_right=np.where(np.arange(63) == 4, 1 - tree.missing_right, tree.missing_right))
    forest = Forest.join([other, tree], 0.0, N_FEATURES)
    assert len(forest.bit_tables.splits) == 31 + 5
    X = make_rows(rng, 100)
    np.testing.assert_array_equal(forest.scores(X), slow_scores(forest, X))


def test_equal_tests_are_made_once(rng):
    tree = make_tree(rng, 20)
    one, many = (Forest.join([tree] * n, 0.0, N_FEATURES).bit_tables for n in (1, 6))
    np.testing.assert_array_equal(one.thresholds, many.thresholds)
    assert len(many.splits) == 6 * len(one.splits)


@kernel
def ask_lanes(words, column, threshold):
    simd.greater(words, np.uint64(1), column, threshold)
    simd.greater_or_missing(words, np.uint64(2), column, threshold)


@kernel
def change_lanes(numbers, words):
    simd.masked_store(numbers, words[1], np.uint8(7))
    simd.masked_add(numbers, words[2], np.uint8(30))


def test_lanes_answer_as_the_slow_versions_do(rng):
    column = np.resize([*GRID, np.nan], simd.LANES).astype(np.float32)
    for threshold in GRID:
        fast, slow = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
        ask_lanes(fast, column, threshold)
        simd._greater_slowly(slow, 1, column, threshold)
        simd._greater_or_missing_slowly(slow, 2, column, threshold)
        np.testing.assert_array_equal(fast, slow)
        numbers = rng.integers(0, 100, simd.LANES).astype(np.uint8)
        expected = numbers.copy()
        change_lanes(numbers, fast)
        simd._masked_store_slowly(expected, slow[1], np.uint8(7))
        simd._masked_add_slowly(expected, slow[2], np.uint8(30))
        np.testing.assert_array_equal(numbers, expected)


def test_many_threads_may_score_at_once(rng):
    forest, X = make_forest(rng, "small"), make_rows(rng, 100)
    scorer, expected = Scorer(forest), slow_scores(forest, X).astype(np.float32)
    sizes = [1, 5, 64, 100] * 25
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: scorer(X[:n]), sizes))
    for n, scores in zip(sizes, found):
        np.testing.assert_array_equal(scores, expected[:n])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda X: X.astype(np.float64), r"got float64 with shape \(20, 7\)"),
        (lambda X: X.astype(">f4"), r"got >f4 with shape \(20, 7\)"),
        (lambda X: X[:, :6].copy(), r"got float32 with shape \(20, 6\)"),
        (lambda X: X[0], r"got float32 with shape \(7,\)"),
        (lambda X: X[None], r"got float32 with shape \(1, 20, 7\)"),
        (lambda X: np.asfortranarray(X), "that is not in C order"),
        (lambda X: X[::2], "that is not in C order"),
        (lambda X: X.tolist(), "got list"),
        (lambda X: np.ma.masked_invalid(X), "got MaskedArray"),
    ],
)
def test_a_scorer_refuses_what_its_kernels_cannot_read(rng, rows, message):
    scorer = Scorer(make_forest(rng, "mixed"))
    with pytest.raises(ValueError, match=r"float32 in C order with shape \(rows, 7\); " + f".*{message}.*ascontiguous"):
        scorer(rows(make_rows(rng, 20)))


def test_a_scorer_takes_rows_that_are_read_only(rng):
    forest, X = make_forest(rng, "mixed"), make_rows(rng, 20)
    X.flags.writeable = False
    scores = Scorer(forest)(X)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, slow_scores(forest, X).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("left", 0, 3, "a node hangs on no other, or on two"),
        ("threshold", 0, np.nan, "a threshold is out of range"),
        ("value", 5, np.inf, "a value or a gain is not finite"),
        ("value", 5, np.nan, "a value or a gain is not finite"),
        ("gain", 0, np.nan, "a value or a gain is not finite"),
        ("count", 0, -1, "a negative number of rows"),
        ("left", 0, 2**32 - 1, "a tree points outside of itself"),
        ("left", 0, 2**32 - 2, "a tree points outside of itself"),
        ("feature", 0, N_FEATURES, "a feature that is not there"),
        ("missing_right", 0, 156, "a feature that is not there"),
        ("roots", 0, -1, "do not fill their arrays"),
        ("roots", 1, 2**63 - 1, "do not fill their arrays"),
        ("depths", 0, 1, "a tree is not as deep as it says"),
        ("depths", 0, 3, "a tree is not as deep as it says"),
        ("left", 0, 7, "a tree points outside of itself"),
    ],
)
def test_damaged_trees_are_refused(rng, name, place, value, message):
    forest = Forest.join([make_oblivious_tree(rng, 2)], 0.0, N_FEATURES)
    damaged = getattr(forest, name).copy()
    damaged[place] = value
    with pytest.raises(ValueError, match=message):
        replace(forest, **{name: damaged}).check()


def test_rows_of_another_kind_are_refused(rng):
    forest = make_forest(rng, "mixed")
    with pytest.raises(ValueError, match="the rows have 6 features, the model was trained on 7"):
        forest.scores(make_rows(rng, 5)[:, :6])
    with pytest.raises(ValueError, match="the rows must be float32; got float64"):
        forest.scores(make_rows(rng, 5).astype(np.float64))
