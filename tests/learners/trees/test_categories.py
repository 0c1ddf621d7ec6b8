"""Categories: a split parts the values of a feature in two, whatever their order."""

from itertools import combinations

import numpy as np
import pytest

import podium
from podium import explain
from podium.learners.trees.scoring.categories import CategorySets
from podium.learners.trees.training.binning import MISSING, bin_rows, find_bin_edges
from podium.models.trees.named import MART, LambdaMART, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

GROWTHS = ["leaf", "level", "oblivious"]


def coloured(rng, n=1_200, colours=12):
    """Labels that depend on the colour, in no order of its number, and on one plain feature."""
    X = np.column_stack([rng.integers(0, colours, n) * 7, rng.random(n)]).astype(np.float32)
    sides = rng.permutation(colours) % 3
    y = sides[(X[:, 0] / 7).astype(int)] + (X[:, 1] > 0.5)
    return X, y, np.arange(n) // 20


def test_bins_are_the_most_frequent_values_and_others_are_missing():
    X = np.array([[5]] * 3 + [[2]] * 4 + [[9]] * 1 + [[np.nan]], np.float32)
    edges = find_bin_edges(X, max_bins=2, categorical=np.array([True]))
    assert edges.upper[0, :2].tolist() == [2, 5]
    assert bin_rows(X, edges).columns[0].tolist() == [1, 1, 1, 0, 0, 0, 0, MISSING, MISSING]


def test_the_best_parting_of_all_is_found(rng):
    """For squared error, no way to part the categories in two is better than one along the order of their means."""
    X = rng.integers(0, 6, (300, 1)).astype(np.float32)
    y = rng.permutation(6)[X[:, 0].astype(int)] + rng.standard_normal(300)
    model = RegressionTree(max_leaf_nodes=2, categorical=[0], category_smoothing=0, min_samples_leaf=1)
    model.fit(X, y - y.min(), group=[300])

    def error(left):
        side = np.isin(X[:, 0], left)
        return sum(((y[part] - y[part].mean()) ** 2).sum() for part in (side, ~side))

    best = min(error(left) for size in range(1, 6) for left in combinations(range(6), size))
    found = ((y - y.min() - model.predict(X)) ** 2).sum()
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("growth", GROWTHS)
def test_a_category_needs_one_cut_where_numbers_need_many(rng, growth):
    X, y, qid = coloured(rng)
    settings = {"n_estimators": 1, "learning_rate": 1.0, "max_leaf_nodes": 4, "growth": growth}
    plain = MART(**settings).fit(X, y, qid=qid)
    named = MART(**settings, categorical=[0], category_smoothing=0).fit(X, y, qid=qid)
    assert ((named.predict(X) - y) ** 2).mean() < 0.6 * ((plain.predict(X) - y) ** 2).mean()


@pytest.mark.parametrize("growth", GROWTHS)
def test_scores_of_training_rows_are_those_of_the_forest(rng, growth):
    """Training routes rows by bins, prediction by values: both must agree, also where a tree saw only some rows."""
    X, y, qid = coloured(rng)
    X[rng.random(len(X)) < 0.1, 0] = np.nan
    curve = []
    settings = {"n_estimators": 12, "max_leaf_nodes": 8, "growth": growth, "row_fraction": 0.7, "categorical": [0]}
    model = LambdaMART(**settings)
    model.fit(X, y, qid=qid, eval_set=(X, y, qid), callbacks=[lambda p: curve.append(p.evals["eval_0"]["ndcg@10"][-1])])
    assert model.score(X, y, qid) == pytest.approx(curve[-1], abs=1e-12)
    more = LambdaMART(**settings | {"n_estimators": 6}).fit(X, y, qid=qid).fit_more(X, y, qid, n_estimators=6)
    np.testing.assert_array_equal(more.predict(X), model.predict(X))


def test_unseen_values_go_where_missing_ones_go(rng):
    X, y, qid = coloured(rng)
    X[:100, 0] = np.nan
    y[:100] = 3
    model = MART(n_estimators=5, max_leaf_nodes=6, categorical=[0]).fit(X, y, qid=qid)
    unseen, missing = X[:50].copy(), X[:50].copy()
    unseen[:, 0], missing[:, 0] = 1234.5, np.nan
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))
    assert model.predict(unseen).mean() > model.predict(X[100:]).mean()


@pytest.mark.parametrize("growth", GROWTHS)
def test_everything_that_takes_a_model_takes_categories(rng, growth, tmp_path):
    X, y, qid = coloured(rng)
    model = LambdaMART(n_estimators=5, max_leaf_nodes=8, categorical=[0], growth=growth, n_jobs=1).fit(X, y, qid=qid)
    scores = model.predict(X)
    model.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(X), scores)
    LambdaMART(n_estimators=5, max_leaf_nodes=8, categorical=[0], growth=growth, n_jobs=2).fit(X, y, qid=qid).save(
        tmp_path / "two.podium"
    )
    assert (tmp_path / "m.podium").read_bytes() == (tmp_path / "two.podium").read_bytes()
    np.testing.assert_array_equal(model.scorer()(X), scores.astype(np.float32))
    np.testing.assert_array_equal(model.scorer()(X[:1]), scores[:1].astype(np.float32))
    np.testing.assert_array_equal(list(model.staged_predict(X))[-1], scores)
    np.testing.assert_array_equal(model.predict(X, n_trees=2), list(model.staged_predict(X))[1])
    shares = explain.shap_values(model, X[:40])
    np.testing.assert_allclose(shares.base + shares.values.sum(axis=1), scores[:40], atol=1e-9)
    assert shares.values.shape == (40, 2)
    assert model.feature_importances_.shape == (2,)
    assert "feature 1 is" in explain_tree(model)
    assert np.isfinite(model.refit(X, y, qid).predict(X)).all()
    if growth == "oblivious":
        assert all(tree.oblivious for tree in model.inspect().trees)


def explain_tree(model):
    from podium.models.frame.inspection import tree_text

    return tree_text(model, 1)


def test_sets_are_looked_up_by_exact_value():
    sets = CategorySets(
        np.array([1, 0]), np.array([0, 3, 4]), np.array([1, 4, 9, 2], np.float32), np.array([0, 1, 0, 1], np.uint8)
    )
    X = np.array([[2, 4], [3, 9], [2, 5], [np.nan, np.nan]], np.float32)
    np.testing.assert_array_equal(sets.widen(X)[:, 2:], [[1, 1], [0, np.nan], [np.nan, 1], [np.nan, np.nan]])
    assert [part.tolist() for part in sets.sides_of(0)] == [[1, 9], [4]]


def test_what_cannot_be_is_refused(rng):
    X, y, qid = coloured(rng, 60)
    with pytest.raises(ValueError, match="categorical must be a list"):
        LambdaMART(categorical=0).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="categorical names the feature 7; expected a number below 2"):
        LambdaMART(categorical=[7]).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="cannot be monotone: it is categorical"):
        LambdaMART(categorical=[0], monotone={0: 1}).fit(X, y, qid=qid)
