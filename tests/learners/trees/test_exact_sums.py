"""Integers decide: no order or grouping of rows changes a model, and what a model holds is finite."""

import warnings
from itertools import product

import numpy as np
import pytest
from oracles import grow_tree_slowly

import podium
from podium.learners.trees.training import growing
from podium.learners.trees.training.binning import bin_rows, find_bin_edges
from podium.learners.trees.training.growing import GrowthRules, TreeGrower
from podium.learners.trees.training.histograms import PACKED, WIDE, units_of
from podium.models.trees.named import MART, Boosted, LambdaMART, RandomForest, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

GROWTHS, STEPS = ("leaf", "level", "oblivious"), ("newton", "mean", "exact", "tree")


def make_rows(rng, n=400):
    X = rng.integers(0, 12, (n, 5)).astype(np.float32)
    y = np.clip(np.round(X[:, 1] / 3 + rng.standard_normal(n)), 0, 4)
    return X, y, np.arange(n) // 20


def grow(X, gradients, hessians, n_threads=1, **rules):
    binned = bin_rows(X, find_bin_edges(X))
    grower = TreeGrower(binned, GrowthRules(**rules), n_threads)
    tree = grower.grow(np.float32(gradients), np.float32(hessians), None, np.ones(X.shape[1], np.bool_))
    return tree, [grower.index[a:b].tolist() for a, b in zip(tree.leaf_start[:-1], tree.leaf_start[1:])]


# --- the order of rows --------------------


@pytest.mark.parametrize("objective", ["squared", "logistic", "ordinal"])
@pytest.mark.parametrize(("growth", "step"), list(product(GROWTHS, ("newton", "mean", "exact"))))
def test_a_model_of_single_documents_has_the_same_bytes_for_any_order_of_rows(rng, tmp_path, objective, growth, step):
    X, y, _ = make_rows(rng)
    weights = rng.random(400) + 0.5
    y = np.minimum(y, 1) if objective == "logistic" else y
    settings = {"n_estimators": 4, "growth": growth, "step": step, "min_samples_leaf": 3, "max_impurity": 1e-6}
    bytes_found = set()
    for _ in range(3):
        order = rng.permutation(400)
        model = Boosted(objective=objective, max_leaf_nodes=8, **settings)
        model.fit(X[order], y[order], group=[400], sample_weight=weights[order]).save(tmp_path / "m.podium")
        bytes_found.add((tmp_path / "m.podium").read_bytes())
    assert len(bytes_found) == 1


def test_a_refitted_model_has_the_same_bytes_for_any_order_of_rows(rng, tmp_path):
    X, y, _ = make_rows(rng)
    model = MART(n_estimators=5, max_leaf_nodes=8).fit(X, y, group=[400])
    bytes_found = set()
    for _ in range(3):
        order = rng.permutation(400)[:]
        model.refit(X[order], y[order] / 3, group=[400], decay=0.3).save(tmp_path / "m.podium")
        bytes_found.add((tmp_path / "m.podium").read_bytes())
    assert len(bytes_found) == 1


@pytest.mark.parametrize("options", [{}, {"monotone": {1: 1}}, {"categorical": [2]}, {"step": "mean"}])
@pytest.mark.parametrize("growth", GROWTHS)
def test_whole_queries_may_come_in_any_order(rng, growth, options):
    """Lambdas are sums over one query; which query comes first must not matter."""
    X, y, qid = make_rows(rng)
    settings = {"n_estimators": 3, "growth": growth, "max_leaf_nodes": 8, "min_samples_leaf": 3}
    scores = []
    for order in (np.arange(20), rng.permutation(20)):
        rows = (order[:, None] * 20 + np.arange(20)).reshape(-1)
        model = LambdaMART(**settings, **options)
        scores.append(model.fit(X[rows], y[rows], qid=qid[rows]).predict(X))
    np.testing.assert_array_equal(*scores)


# --- unit hessians --------------------


def test_the_least_hessian_is_met_by_exactly_as_many_rows():
    """k rows of hessian 1 on each side are enough for min_hessian=k; k - 1 are not."""
    for k in range(2, 200):
        X = np.repeat([[0.0], [1.0]], k, axis=0).astype(np.float32)
        gradients, ones = X[:, 0] - 0.5, np.ones(2 * k)
        assert len(grow(X, gradients, ones, min_samples_leaf=1, min_hessian=float(k))[1]) == 2
        assert len(grow(X, gradients, ones, min_samples_leaf=1, min_hessian=k + 0.001)[1]) == 1


# --- wide histograms --------------------


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setattr(growing, "WIDE_ROWS", 1)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("min_samples_leaf", [1, 30])
def test_wide_histograms_find_the_tree_of_the_slow_search(rng, wide, missing, min_samples_leaf):
    X, gradients = rng.integers(0, 12, (400, 5)).astype(np.float32), rng.standard_normal(400)
    X[rng.random(X.shape) < missing] = np.nan
    gradients, hessians = np.float32(gradients + np.nan_to_num(X[:, 1]) / 4), np.float32(rng.random(400) + 0.5)
    rules = {"max_leaf_nodes": 9, "min_samples_leaf": min_samples_leaf, "l2_regularization": 0.5}
    expected = grow_tree_slowly(X, gradients, hessians, 9, min_samples_leaf, l2=0.5)
    for n_threads in (1, 2):
        leaves = grow(X, gradients, hessians, n_threads, **rules)[1]
        assert sorted(map(sorted, leaves)) == sorted(map(sorted, expected))


WIDE_CASES = [
    {},
    {"monotone": {0: 1, 1: -1}},
    {"categorical": [2]},
    {"bundle_features": True, "max_conflicts": 0.5},
    {"goss": (0.2, 0.2)},
    {"row_fraction": 0.5, "max_impurity": 1e-9},
]


@pytest.mark.parametrize("options", WIDE_CASES)
@pytest.mark.parametrize("growth", GROWTHS)
def test_wide_and_packed_histograms_agree_where_both_are_exact(rng, monkeypatch, growth, options):
    """Squared error with integer labels from a start of 0: all sums are small integers."""
    X, y, _ = make_rows(rng, 600)
    y[:300], y[300:] = 4 - y[300:], y[300:]
    X[:, 3] = np.where(rng.random(600) < 0.9, 0, X[:, 3])
    X[:, 4] = np.where(X[:, 3] == 0, X[:, 4] * (rng.random(600) < 0.1), 0)
    settings = {"growth": growth, "max_leaf_nodes": 8, "min_samples_leaf": 4, "learning_rate": 1.0, "n_estimators": 1}
    found = []
    for rows in (1, 2**40):
        monkeypatch.setattr(growing, "WIDE_ROWS", rows)
        model = MART(init=np.zeros(600), **settings, **options).fit(X, y, group=[600])
        found.append(model.forest_)
    for name in ("feature", "threshold", "left", "value", "count"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
    np.testing.assert_allclose(found[0].gain, found[1].gain, rtol=1e-12)


@pytest.mark.parametrize("growth", GROWTHS)
def test_wide_histograms_give_the_same_bytes_for_any_number_of_threads(rng, wide, tmp_path, growth):
    X = rng.standard_normal((20_000, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] * X[:, 1] + 2), 0, 4)
    for n_jobs in (1, 2):
        model = LambdaMART(n_estimators=2, growth=growth, n_jobs=n_jobs).fit(X, y, qid=np.arange(20_000) // 50)
        model.save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()


def test_wide_histograms_have_18_bits_of_the_largest_row_and_no_fewer_units_than_packed_ones():
    """2**24 rows of size 1: packed, 2**31 units are for all of them. One row of 2**40 takes most of 31 bits, or 18."""
    n = 2**24
    assert units_of(float(n), 1.0, n, PACKED) == 2**6  # below 2**31 / 2**24, with room for rounding
    assert units_of(float(n), 1.0, n, WIDE) == 2**17
    assert units_of(2.0**40, 2.0**40, 1, PACKED) == units_of(2.0**40, 2.0**40, 1, WIDE) == 2.0**-10
    assert units_of(0.0, 0.0, n, WIDE) == 1.0


# --- finite, or an error --------------------


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("step", STEPS)
def test_scores_of_new_rows_are_finite(rng, tmp_path, growth, step):
    """Oblivious trees have leaves without rows."""
    for n in (20, 60):
        X = rng.integers(0, 4, (n, 3)).astype(np.float32)
        y = rng.integers(0, 3, n).astype(float)
        settings = {"growth": growth, "step": step, "max_depth": 5, "n_estimators": 3, "min_samples_leaf": 1}
        model = MART(**settings).fit(X, y, group=[n])
        model.save(tmp_path / "m.podium")
        new = rng.integers(-1, 6, (200, 3)).astype(np.float32)
        assert np.isfinite(model.predict(new)).all()
        np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(new), model.predict(new))


@pytest.mark.parametrize("objective", ["squared", "ranknet", "lambda", "listmle", "xendcg"])
@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("label", [1.0, 30.0, 1e10, 1e38, 1e40, 1e300])
@pytest.mark.parametrize("weight", [1e-300, 1.0, 1e30, 1e300])
def test_what_fit_returns_is_finite_or_fit_says_why_not(rng, tmp_path, objective, growth, label, weight):
    X, y, qid = make_rows(rng, 60)
    model = Boosted(objective=objective, metric="map", growth=growth, n_estimators=1, min_samples_leaf=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no tree could split: the gradients of all rows are 0")
        try:
            model.fit(X, np.where(y > 2, label, 0.0), qid=qid, sample_weight=np.full(60, weight))
        except ValueError as error:
            assert "finite" in str(error) or "label" in str(error), error  # noqa: PT017 (both ends are right)
            return
    model.save(tmp_path / "m.podium")
    assert np.isfinite(podium.load(tmp_path / "m.podium").predict(X)).all()


@pytest.mark.parametrize("model", [MART(), RandomForest(), RegressionTree()])
def test_labels_beyond_single_precision_are_refused_in_the_only_tree(rng, model):
    X, y, qid = make_rows(rng, 100)
    with pytest.raises(ValueError, match=r"a gradient of the objective is not finite; no tree can be grown\. Labels"):
        model.set_params(n_estimators=1).fit(X, y * 1e40, qid=qid)


@pytest.mark.parametrize("growth", GROWTHS)
def test_negative_hessians_are_refused(rng, growth):
    def concave(scores, labels, offsets):
        return scores - labels, -np.ones(len(labels))

    X, y, qid = make_rows(rng, 100)
    model = Boosted(objective=concave, growth=growth)
    with pytest.raises(ValueError, match=r"a hessian of the objective is -1; no tree can be grown\. Hessians"):
        model.fit(X, y, qid=qid)


# --- oblivious trees --------------------


@pytest.mark.parametrize("min_gain", [0.0, 0.5, 5.0, 50.0, 1e9])
@pytest.mark.filterwarnings("ignore:no tree could split:UserWarning")
def test_a_level_must_gain_more_than_the_least_gain(rng, min_gain):
    X, y, _ = make_rows(rng, 200)
    model = MART(growth="oblivious", max_depth=6, min_gain=min_gain, n_estimators=3).fit(X, y, group=[200])
    forest = model.forest_
    assert np.isfinite(model.predict(X)).all()
    for tree in forest.split():
        level = [0]
        while tree.left[level[0]] != level[0]:
            assert sum(tree.gain[node] for node in level) > min_gain
            level = [child for node in level for child in (tree.left[node], tree.left[node] + 1)]
    assert (forest.n_trees == len(forest.feature)) == (min_gain == 1e9)  # nothing but roots


def test_the_fewest_rows_of_a_leaf_play_no_part_in_oblivious_trees(rng):
    X, y, _ = make_rows(rng, 200)
    models = [
        MART(growth="oblivious", max_depth=6, min_samples_leaf=least, n_estimators=1).fit(X, y, group=[200])
        for least in (1, 5, 20, 60, 1_000)
    ]
    assert models[0].forest_.depths.tolist() == [6]
    for model in models[1:]:
        np.testing.assert_array_equal(model.forest_.value, models[0].forest_.value)


def test_deep_oblivious_trees_of_few_rows_need_little_memory(rng):
    """2^16 leaves of which at most 40 have rows: a histogram for each of those, not for all."""
    X = rng.random((40, 3)).astype(np.float32)
    binned = bin_rows(X, find_bin_edges(X))
    grower = TreeGrower(binned, GrowthRules(growth="oblivious", max_leaf_nodes=2**16), 1)
    tree = grower.grow(X[:, 0] * X[:, 1], np.ones(40, np.float32), None, np.ones(3, np.bool_))
    assert len(grower._workspace.histograms) == 40
    assert tree.size[tree.leaf_node].sum() == 40


def test_histograms_that_no_machine_holds_are_refused(rng, monkeypatch):
    monkeypatch.setattr(growing, "memory", lambda: 2**20)
    X, y, _ = make_rows(rng)
    with pytest.raises(ValueError, match=r"oblivious trees of 256 leaves need up to .* Lower max_depth"):
        MART(growth="oblivious", max_depth=8).fit(X, y, group=[400])


# --- many features where the leaf size binds --------------------


@pytest.mark.parametrize("growth", ["leaf", "level"])
@pytest.mark.parametrize("min_samples_leaf", [2, 5, 9])
def test_many_features_whose_best_splits_leave_too_few_rows(rng, growth, min_samples_leaf):
    """Gradients of which few are large: the best splits of nearly all features separate one or two rows."""
    for _ in range(4):
        X = rng.integers(0, 6, (40, 60)).astype(np.float32)
        gradients = np.float32(rng.standard_cauchy(40))
        rules = {"max_leaf_nodes": 6, "min_samples_leaf": min_samples_leaf, "growth": growth, "max_depth": 4}
        leaves = grow(X, gradients, np.ones(40), **rules)[1]
        expected = grow_tree_slowly(
            X, gradients, np.ones(40), 6, min_samples_leaf, by_level=growth == "level", max_depth=4
        )
        assert sorted(map(sorted, leaves)) == sorted(map(sorted, expected))
