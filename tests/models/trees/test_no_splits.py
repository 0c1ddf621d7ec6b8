"""A training in which no tree could split says why, and what it says helps."""

import re
import warnings

import numpy as np
import pytest
from families import TREE_MODELS
from scipy import sparse

from podium.models.trees.named import MART, Boosted, LambdaMART, MatrixNet, RandomForest, RegressionTree

pytestmark = pytest.mark.usefixtures("large_sizes")

FREE = {"min_samples_leaf": 1, "min_hessian": 0.0, "min_gain": 0.0, "max_impurity": 0.0, "feature_fraction": 1.0}


def rows(n=60, features=3, seed=0):
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n, features)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(float) + (X[:, -1] > 0), np.arange(n) // 10


def told_by(model, X, y, qid):
    """What a fit warns of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, qid)
    return [str(warning.message) for warning in told]


def has_splits(model):
    return bool((model.forest_.importances("split") > 0).any())


def told(kind, X=None, y=None, **parameters):
    data = rows()
    X, y = (data[0] if X is None else X), (data[1] if y is None else y)
    return told_by(kind(n_estimators=3, **parameters), X, y, data[2])


KINDS = [LambdaMART, MART, RegressionTree, Boosted, RandomForest]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("growth", ["leaf", "level"])
def test_the_reason_and_the_cure_are_named(kind, growth):
    X = rows()[0]
    first = "no tree could split: "
    if kind is not RandomForest:  # its trees see the queries that were drawn
        (few,) = told(kind, growth=growth, min_samples_leaf=31)
        assert few == f"{first}60 rows are fewer than twice min_samples_leaf=31. Lower min_samples_leaf."
    (one_sided,) = told(kind, (np.arange(60) == 3).astype(float)[:, None], growth=growth, min_samples_leaf=20)
    assert "fewer rows than min_samples_leaf=20 on one side. Lower min_samples_leaf." in one_sided
    (gain,) = told(kind, growth=growth, min_gain=1e9)
    assert gain == f"{first}no split gains more than min_gain=1e+09. Lower min_gain."
    (hessian,) = told(kind, growth=growth, min_hessian=1e9)
    assert hessian.endswith("below min_hessian=1e+09 on one side. Lower min_hessian.")
    (constant,) = told(kind, np.ones_like(X), growth=growth)
    reason = "constant or missing in all rows, so there is nothing to learn. Check the features."
    assert constant == f"{kind.__name__}: each of the 3 features is {reason}"
    assert told(kind, np.full_like(X, np.nan), growth=growth) == [constant]
    assert told(kind, sparse.csr_array((60, 3)), growth=growth) == [constant]
    (only,) = told(kind, np.ones((60, 1)), growth=growth)
    assert only == f"{kind.__name__}: the only feature is {reason}"
    (both,) = told(kind, growth=growth, min_gain=1e9, min_hessian=1e9)
    assert both == f"{first}min_hessian=1e+09, min_gain=1e+09 allow none together. Lower them."
    (impure,) = told(kind, growth=growth, max_impurity=1e9)
    assert impure.endswith("max_impurity=1e+09 as it is. Lower max_impurity.")


@pytest.mark.parametrize("growth", ["leaf", "level", "oblivious"])
def test_splits_by_gradients_are_never_told_of_hessians(growth):
    assert told(LambdaMART, growth=growth, split_by="gradients", min_hessian=1e9) == []
    (gain,) = told(LambdaMART, growth=growth, split_by="gradients", min_hessian=1e9, min_gain=1e9)
    assert gain.endswith("no split gains more than min_gain=1e+09. Lower min_gain.")


def test_oblivious_trees_have_their_own_rules():
    assert told(LambdaMART, growth="oblivious", min_samples_leaf=31) == []
    (gain,) = told(MatrixNet, min_gain=1e9)
    assert gain == "no tree could split: no split gains more than min_gain=1e+09. Lower min_gain."
    (constant,) = told(MatrixNet, np.ones((60, 2)))
    assert "each of the 2 features is constant or missing in all rows, so there is nothing to learn." in constant


def test_samples_labels_constraints_and_features_that_say_nothing():
    X = rows()[0]
    (sampled,) = told(MART, row_fraction=0.5, min_samples_leaf=16)
    assert "the 30 rows that a tree sees are fewer than twice min_samples_leaf=16" in sampled
    (equal,) = told(MART, y=np.ones(60))
    assert equal.startswith("no tree could split: the gradients of all rows are 0. Check that the labels differ")
    assert told(LambdaMART, y=np.ones(60)) == ["0 of 6 queries have two different labels; the model is constant."]
    wide = np.column_stack([X[:, 0], *np.ones((9, 60))])
    (drawn,) = told(MART, wide, feature_fraction=0.1, random_state=1)
    assert drawn.endswith("drawn by feature_fraction=0.1 allow none. Raise feature_fraction.")
    (nothing,) = told(MART, np.repeat([0.0, 1.0], 30)[:, None], np.tile([0.0, 1.0], 30))
    assert nothing.endswith("no feature tells rows apart that differ in their labels. Check the features.")
    (held,) = told(MART, X[:, :1], (X[:, 0] < 0).astype(float), monotone={0: 1}, min_samples_leaf=1)
    assert "the monotone constraints allow none" in held
    missing = np.where(np.arange(60)[:, None] < 30, np.nan, np.ones((60, 1)))
    assert told(MART, missing, (np.arange(60) < 30).astype(float)) == []  # a missing value can be told from 1


def test_trees_that_are_added_without_a_split_are_reported_too():
    X, y, qid = rows()
    model = MART(n_estimators=2, min_samples_leaf=5).fit(X, y, qid)
    model.min_samples_leaf = 31
    with pytest.warns(UserWarning, match="no tree could split: 60 rows are fewer than twice min_samples_leaf=31"):
        model.fit_more(X, y, qid, n_estimators=2)


@pytest.mark.parametrize("name", [name for name in TREE_MODELS if name != "LambdaSMART"])
def test_it_is_reported_exactly_when_nothing_splits_and_the_cure_cures(name):
    """Random rules on small data: the parameter that is named, set free, lets the model split."""
    draws, silent, cured = np.random.default_rng(7), 0, 0
    for _ in range(40):
        n = int(draws.integers(8, 60))
        X = draws.integers(0, draws.choice([2, 5, 50]), (n, 3)).astype(np.float32)
        y, qid = draws.integers(0, 3, n), np.arange(n) // 8
        parameters = {
            "min_samples_leaf": int(draws.choice([1, 5, 20])),
            "min_hessian": float(draws.choice([0.0, 1e-3, 10.0])),
            "min_gain": float(draws.choice([0.0, 0.0, 100.0])),
            "max_impurity": float(draws.choice([0.0, 0.0, 10.0])),
            "growth": str(draws.choice(["leaf", "level", "oblivious"])),
            "feature_fraction": float(draws.choice([1.0, 0.4])),
        }
        model = TREE_MODELS[name](n_estimators=1)
        model.set_params(**{name: value for name, value in parameters.items() if name in model.get_params()})
        warned = [text for text in told_by(model, X, y, qid) if text.startswith("no tree could split")]
        teaches = np.ptp(y) > 0 or not model.training_plan().learns_from_pairs
        assert bool(warned) == (not has_splits(model) and teaches)
        silent += not warned
        named = [parameter for parameter in FREE if re.search(rf"\b{parameter}\b", warned[0])] if warned else []
        if named:
            model.set_params(**{parameter: FREE[parameter] for parameter in named})
            told_by(model, X, y, qid)
            assert has_splits(model), warned
            cured += 1
    assert silent >= 5
    assert cured >= 5


def test_drawn_thresholds_and_features_are_named_where_others_would_split():
    """The first column says nothing about the labels, whose period is 3, the second little: its period is 7."""
    rows = np.arange(60)
    X, y = np.stack([rows % 5, rows % 7], axis=1).astype(np.float32), rows % 3
    drawn = {"max_leaf_nodes": 4, "min_samples_leaf": 3, "n_estimators": 1}
    for settings, named in (
        ({"extra_trees": True, "feature_fraction": 1.0}, "extra_trees=True allow none. Set extra_trees=False."),
        ({"extra_trees": False, "feature_fraction": 0.6}, "feature_fraction=0.6 allow none. Raise feature_fraction."),
    ):
        with pytest.warns(UserWarning, match=f"drawn by {named}"):
            model = MART(**drawn, **settings).fit(X, y, rows // 6)
        assert len(model.forest_.feature) == 1
    assert len(MART(**drawn, extra_trees=False, feature_fraction=1.0).fit(X, y, rows // 6).forest_.feature) == 7
