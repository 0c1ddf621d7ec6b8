"""scikit-learn's HistGradientBoosting: the bits of the fitted object, with categories and missing values."""

import numpy as np
import pandas
import pytest
from exchange.forests import hostile_rows

import podium
from podium.exchange import from_sklearn, verify

sklearn = pytest.importorskip("sklearn")
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor  # noqa: E402

CODES = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 1000, 2.5, -4, 1e6]  # categories need not be 0, 1, 2


def data(seed=0, n_rows=800):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n_rows, 6)).astype(np.float32)
    X[:, 1], X[:, 4] = random.choice(np.array(CODES[:13]), n_rows), random.choice(np.array(CODES), n_rows)
    X[random.random(X.shape) < 0.1] = np.nan
    X[:, 5] = random.integers(0, 4, n_rows)  # nothing is missing in training
    target = np.nan_to_num(X[:, 0]) + np.isin(X[:, 4], CODES[::3]) + np.isin(X[:, 1], CODES[1::2]) * (X[:, 5] > 1)
    return X, target + 0.1 * random.standard_normal(n_rows)


def rows_for(model, categorical, seed=0):
    """Hostile rows, with known and unseen categories."""
    random = np.random.default_rng(seed)
    rows = hostile_rows(model.forest_, 2000, seed)
    for column in categorical:
        rows[:, column] = random.choice(np.array([*CODES, 4, 7.5, -1, 300, 256, np.nan]), len(rows))
    return rows


MODELS = {
    "default": {},
    "small leaves": {"max_leaf_nodes": 7, "min_samples_leaf": 3},
    "many iterations": {"max_iter": 300, "learning_rate": 0.03, "early_stopping": True},
    "absolute error": {"loss": "absolute_error"},
    "constrained": {"monotonic_cst": [1, 0, -1, 0, 0, 0]},
}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("categorical", [(), (1, 4), (4,)], ids=["numbers", "two categorical", "one categorical"])
def test_a_regressor_scores_here_as_there(options, categorical, tmp_path):
    X, y = data()
    options = {"max_iter": 60, "random_state": 0, **options}
    theirs = HistGradientBoostingRegressor(categorical_features=list(categorical) or None, **options).fit(X, y)
    ours = from_sklearn(theirs)
    rows = rows_for(ours, categorical)
    for values in (X, rows, rows[:1]):
        np.testing.assert_array_equal(ours.predict(values), theirs.predict(values))
    ours.save(tmp_path / "m.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "m.podium").predict(rows), ours.predict(rows))
    if not categorical:
        ours.export(tmp_path / "m.txt", "lightgbm")
        assert verify(ours, tmp_path / "m.txt").holds


def test_a_classifier_of_two_classes_scores_as_its_decision_function():
    X, y = data()
    theirs = HistGradientBoostingClassifier(categorical_features=[1, 4], max_iter=40).fit(X, y > 0.5)
    ours = from_sklearn(theirs)
    rows = rows_for(ours, (1, 4))
    np.testing.assert_array_equal(ours.predict(rows), theirs.decision_function(rows))
    assert ours.inspect().source.endswith(f"of scikit-learn {sklearn.__version__}, decision_function")


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_scores_are_the_sum_of_the_trees_where_predict_is_a_function_of_it(loss):
    X, y = data()
    theirs = HistGradientBoostingRegressor(loss=loss, max_iter=20).fit(X, np.exp(y))
    ours = from_sklearn(theirs)
    np.testing.assert_allclose(np.exp(ours.predict(X)), theirs.predict(X), rtol=1e-14)
    assert "predict is exp of it" in ours.source_


def test_texts_as_categories_are_matched_by_name():
    X, y = data()
    table = pandas.DataFrame(X, columns=list("abcdef"))
    words = np.array(["red", "green", "blue", "grey"])
    table["f"] = pandas.Categorical(words[X[:, 5].astype(int)])
    theirs = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=30).fit(table, y)
    ours = from_sklearn(theirs)
    assert ours.categories_ == {"f": ["blue", "green", "grey", "red"]}
    np.testing.assert_array_equal(ours.predict(table), theirs.predict(table))
    other = table.assign(f=pandas.Categorical(np.where(X[:, 0] > 0, "pink", words[X[:, 5].astype(int)])))
    with pytest.warns(UserWarning, match="training did not know 340 of 800 values"):
        scores = ours.predict(other)
    np.testing.assert_array_equal(scores, theirs.predict(other))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X, y: HistGradientBoostingRegressor(), ValueError, "is not fitted"),
        (lambda X, y: HistGradientBoostingClassifier(max_iter=2).fit(X, y.round()), ValueError, "one score per class"),
        (lambda X, y: podium.RegressionTree(), TypeError, "got RegressionTree"),
        (
            lambda X, y: HistGradientBoostingRegressor(categorical_features=[0]).fit(X[:200] + 0.1, y[:200]),
            ValueError,
            r"feature 1 has the category \S+, which float32 does not hold",
        ),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(make, error, message):
    X, y = data()
    with pytest.raises(error, match=message):
        from_sklearn(make(X.astype(np.float64), y))
