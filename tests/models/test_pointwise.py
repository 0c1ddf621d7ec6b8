"""Estimators of scikit-learn as rankers: the same numbers as theirs, saved where arrays tell them."""

import io
import json
import pickle
import sys

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import (
    BayesianRidge,
    ElasticNet,
    HuberRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVC, LinearSVR
from sklearn.tree import DecisionTreeClassifier

import podium
from podium import cli
from podium.data.ranking import RankingData
from podium.models.estimators import ESTIMATORS, name_of
from podium.models.pointwise import Pairwise, Pointwise, sample_pairs

REGRESSORS = [
    LinearRegression(),
    Ridge(alpha=3.0),
    Lasso(alpha=0.01),
    ElasticNet(alpha=0.01),
    BayesianRidge(),
    HuberRegressor(max_iter=500),
    LinearSVR(random_state=0, max_iter=20_000),
    SVR(kernel="linear", C=0.5),
    SVR(kernel="rbf"),
    SVR(kernel="poly", degree=2, coef0=1.0, gamma="auto"),
    SVR(kernel="sigmoid", gamma=0.1),
]


def make_rows(rng, n=120):
    X = (rng.standard_normal((n, 4)) * [1, 10, 0.1, 3] + [0, 50, 0, -2]).astype(np.float32)
    y = np.clip(np.round(1 + X[:, 0] + X[:, 2] * 5 + rng.standard_normal(n) / 2), 0, 3)
    return X, y, np.arange(n) // 12


def saved(model, X):
    """The model after a round through a file, with the same bits."""
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = podium.load(file)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    return loaded


@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda one: f"{name_of(one)} {getattr(one, 'kernel', '')}")
@pytest.mark.parametrize("standardize", [True, False])
def test_a_regressor_scores_by_its_prediction(regressor, standardize, rng):
    X, y, qid = make_rows(rng)
    if not standardize:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = Pointwise(estimator=regressor, standardize=standardize).fit(X, y, qid=qid)
    wide = X.astype(np.float64)
    other = make_pipeline(StandardScaler(), regressor) if standardize else regressor
    np.testing.assert_allclose(model.predict(X), other.fit(wide, y).predict(wide), rtol=1e-6, atol=1e-6)
    loaded = saved(model, X)
    assert loaded.estimator.get_params() == regressor.get_params()
    np.testing.assert_array_equal(loaded.fit(X, y, qid=qid).predict(X), model.predict(X))
    np.testing.assert_array_equal(model.predict(X[:7]), model.predict(X)[:7])


def test_a_classifier_scores_by_the_grade_to_expect(rng):
    X, y, qid = make_rows(rng)
    Z = StandardScaler().fit_transform(X.astype(np.float64))
    model = Pointwise(estimator=LogisticRegression(C=0.5)).fit(X, y, qid=qid)
    chances = LogisticRegression(C=0.5).fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(model.predict(X), chances @ [0, 1, 2, 3], atol=1e-5)
    saved(model, X)
    binary = Pointwise(estimator=LogisticRegression(), relevant=2).fit(X, y, qid=qid)
    np.testing.assert_allclose(binary.predict(X), LogisticRegression().fit(Z, y >= 2).predict_proba(Z)[:, 1], atol=1e-5)
    saved(binary, X)


@pytest.mark.parametrize("classifier", [LinearSVC(random_state=0), RidgeClassifier()], ids=name_of)
def test_a_classifier_without_probabilities_scores_by_its_decision(classifier, rng):
    X, y, qid = make_rows(rng)
    Z = StandardScaler().fit_transform(X.astype(np.float64))
    model = Pointwise(estimator=classifier, relevant=1).fit(X, y, qid=qid)
    np.testing.assert_allclose(model.predict(X), classifier.fit(Z, y >= 1).decision_function(Z), atol=1e-6)
    saved(model, X)
    with pytest.raises(ValueError, match=r"has no predict_proba, so it takes two classes; the labels have 4\. Set rel"):
        Pointwise(estimator=classifier).fit(X, y, qid=qid)


@pytest.mark.parametrize(
    "model",
    [
        Pointwise(estimator=HistGradientBoostingRegressor(max_iter=5)),
        Pointwise(estimator=RandomForestClassifier(n_estimators=5)),
        Pairwise(classifier=DecisionTreeClassifier(max_depth=3)),
    ],
    ids=["regressor", "classifier", "pairs"],
)
def test_other_estimators_train_and_predict_but_are_not_saved(model, rng, tmp_path):
    X, y, qid = make_rows(rng)
    model.fit(X, y, qid=qid, eval_set=(X, y, qid))
    assert model.evals_["eval_0"]["ndcg@10"] == [pytest.approx(model.score(X, y, qid))]
    assert model.score(X, y, qid) > podium.evaluate(np.zeros(120), y, qid=qid)["ndcg@10"] + 0.05
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    kind = type(model.estimator_).__name__
    with pytest.raises(ValueError, match=f"cannot be saved: {kind} is neither a linear estimator nor SVR.*holds no co"):
        model.save(tmp_path / "m.podium")
    assert not (tmp_path / "m.podium").exists()
    again = type(model)(**model.get_params(deep=False)).fit(X, y, qid=qid)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))  # the seed is the model's


def test_missing_values_are_the_estimators_affair(rng):
    X, y, qid = make_rows(rng)
    X[3, 1] = np.nan
    assert np.isfinite(
        Pointwise(estimator=HistGradientBoostingRegressor(max_iter=5)).fit(X, y, qid=qid).predict(X)
    ).all()
    with pytest.raises(ValueError, match="Pointwise does not support missing values; feature 2"):
        Pointwise().fit(X, y, qid=qid)


def test_weights_reach_the_estimator(rng):
    X, y, qid = make_rows(rng)
    weights, query_weights = rng.random(120) + 0.1, rng.random(10) + 0.1
    model = Pointwise(estimator=Ridge()).fit(X, y, qid=qid, sample_weight=weights, query_weight=query_weights)
    Z = StandardScaler().fit_transform(X.astype(np.float64))
    scaled = weights / weights.mean() * (query_weights / query_weights.mean())[qid]
    expected = Ridge().fit(Z, y, sample_weight=scaled).predict(Z)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-5)
    with pytest.raises(ValueError, match="takes no sample_weight; fit without weights"):
        Pointwise(estimator=make_pipeline(Ridge())).fit(X, y, qid=qid, sample_weight=weights)


def differences(X, y, qid):
    """Both rows of every pair, by a double loop."""
    rows, classes = [], []
    for i in range(len(y)):
        for j in range(len(y)):
            if qid[i] == qid[j] and y[i] != y[j]:
                rows.append(X[i] - X[j])
                classes.append(float(y[i] > y[j]))
    return np.array(rows), np.array(classes)


@pytest.mark.parametrize("classifier", [LogisticRegression(C=0.1), LinearSVC(random_state=0)], ids=name_of)
def test_a_classifier_of_pairs_is_that_of_all_differences(classifier, rng):
    X, y, qid = make_rows(rng)
    order = rng.permutation(len(y))
    model = Pairwise(classifier=classifier).fit(X[order], y[order], qid=qid[order])
    Z = StandardScaler().fit_transform(X.astype(np.float64))
    rows, classes = differences(Z, y, qid)
    assert model.n_pairs_ == len(classes) // 2
    expected = Z @ classifier.fit(rows, classes).coef_[0]
    found = model.predict(X)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-3)
    saved(model, X)


def test_more_pairs_than_the_budget_are_sampled_evenly_and_by_the_seed(rng):
    y, qid = rng.integers(0, 3, 300).astype(float), np.repeat(np.arange(5), [10, 20, 30, 40, 200])
    data = RankingData.from_arrays(np.zeros((300, 1), np.float32), y, qid)
    better, worse, query = sample_pairs(data, 10**9, np.random.default_rng(0))
    assert (y[better] > y[worse]).all()
    assert (qid[better] == qid[worse]).all()
    assert (qid[better] == query).all()
    expected = {(i, j) for i in range(300) for j in range(300) if qid[i] == qid[j] and y[i] > y[j]}
    assert {*zip(better.tolist(), worse.tolist())} == expected
    assert len(better) == len(expected)
    some, others, _ = sample_pairs(data, 500, np.random.default_rng(0))
    assert len({*zip(some.tolist(), others.tolist())} & expected) == 500
    shares = np.bincount(qid[some], minlength=5) / 500 - np.bincount(qid[better], minlength=5) / len(better)
    assert np.abs(shares).max() < 0.01
    X = rng.standard_normal((300, 3)).astype(np.float32)
    first, same, other = (Pairwise(max_pairs=200, random_state=seed).fit(X, y, qid=qid) for seed in (0, 0, 1))
    assert first.n_pairs_ == 200
    np.testing.assert_array_equal(first.predict(X), same.predict(X))
    assert (first.predict(X) != other.predict(X)).any()


def test_without_pairs_the_model_is_constant(rng):
    with pytest.warns(UserWarning, match="0 of 2 queries have two different labels"):
        model = Pairwise().fit(rng.standard_normal((6, 2)), np.ones(6), qid=[1, 1, 1, 2, 2, 2])
    assert np.ptp(model.predict(np.eye(2))) == 0


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Pointwise(estimator="rigde"), "Pointwise: estimator must be one of .*; got 'rigde'.*Did you mean 'ridge'"),
        (Pointwise(estimator=Ridge), "must be an estimator of scikit-learn or one of linear_regression"),
        (Pointwise(estimator=3), "must be an estimator of scikit-learn"),
        (Pairwise(classifier=Ridge()), r"Pairwise: classifier must be a classifier; got Ridge\(\)\. Use Pointwise"),
        (Pairwise(max_pairs=0), "max_pairs must be an integer from 1"),
    ],
)
def test_what_is_no_estimator_is_refused(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(np.eye(4), [0, 1, 0, 1], group=[4])


def test_the_command_line_names_estimators(rng, tmp_path, monkeypatch, capsys):
    X, y, qid = make_rows(rng)
    podium.write_letor(RankingData.from_arrays(X, y, qid), tmp_path / "train.txt")
    podium.write_letor(RankingData.from_arrays(X[::-1], y, qid), tmp_path / "valid.txt")
    monkeypatch.chdir(tmp_path)
    for command in (
        "train pointwise train.txt --out m.podium --set estimator=svr --json",
        "train pairwise train.txt --valid valid.txt --out n.podium --set classifier=linear_svc --json",
    ):
        monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        assert json.loads(capsys.readouterr().out)["model"] == command.split()[1]
    assert podium.load("m.podium").estimator == "svr"
    assert {name_of(podium.models.estimators.make_estimator(name)) for name in ESTIMATORS} == set(ESTIMATORS)


def test_a_constant_column_counts_for_nothing(rng):
    X, y, qid = make_rows(rng)
    for constant in (0.0, 7.5):
        X[:, 1] = constant
        model = Pointwise(estimator="linear_regression").fit(X, y, qid=qid)
        other = X.copy()
        other[:, 1] = constant + 1.0
        np.testing.assert_allclose(model.predict(other), model.predict(X), atol=1e-6)
    for model in (Pointwise(), Pointwise(standardize=False), Pairwise()):
        values = podium.explain.shap_values(model.fit(X, y, qid=qid), X)
        assert values.base == pytest.approx(model.predict(X).mean(), abs=1e-5)
        np.testing.assert_allclose(values.values.sum(axis=1) + values.base, model.predict(X), atol=1e-6)
