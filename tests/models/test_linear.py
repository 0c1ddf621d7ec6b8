"""Linear models have everything from the frame: early stopping, checkpoints, files, the command line, explanations."""

import dataclasses
import io
import json
import sys

import numpy as np
import pytest

import podium
from podium import cli
from podium.data.ranking import RankingData
from podium.models.linear import Linear
from podium.objectives import Hinge

OBJECTIVES = ["squared", "ordinal", "ranknet", "hinge", "squared_hinge", "exponential", "lambda", "listnet", "listmle"]
OBJECTIVES += ["query_rmse", "xendcg", "approxndcg"]


@pytest.fixture(scope="module")
def parts(splits):
    """Without missing values, which a linear model refuses."""
    return [
        RankingData.from_arrays(np.nan_to_num(part.X), part.y, part.qid)
        for part in (splits.train, splits.valid, splits.test)
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_any_objective_learns_to_rank(parts, objective):
    train, valid, test = parts
    model = Linear(objective=objective, max_iter=30).fit(train, eval_set=valid, early_stopping_rounds=10)
    assert len(model.evals_["eval_0"]["ndcg@10"]) <= 30
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@10"])["ndcg@10"]
    assert model.score(test) > constant + 0.1


def test_a_function_is_an_objective_too(parts):
    def squared(scores, labels, offsets):
        return scores - labels, np.ones(len(labels))

    own = Linear(objective=squared, max_iter=300).fit(parts[0])
    named = Linear(objective="squared", max_iter=300).fit(parts[0])
    np.testing.assert_allclose(own.predict(parts[2]), named.predict(parts[2]), atol=1e-3)
    with pytest.raises(ValueError, match="a model file holds no code"):
        own.save(io.BytesIO())
    file = io.BytesIO()
    own.save(file, score_only=True)
    file.seek(0)
    loaded = podium.load(file)
    np.testing.assert_array_equal(loaded.predict(parts[2]), own.predict(parts[2]))
    with pytest.raises(ValueError, match="not saved"):
        loaded.fit(parts[0])


def test_early_stopping_keeps_the_best_round(parts):
    train, valid, _ = parts
    model = Linear(objective="lambda", max_iter=60).fit(train, eval_set=valid, early_stopping_rounds=5)
    curve = model.evals_["eval_0"]["ndcg@10"]
    assert model.best_iteration_ == 1 + int(np.argmax(curve))
    assert model.score(valid) == pytest.approx(max(curve), abs=1e-12)


@pytest.mark.parametrize("objective", ["ranknet", "lambda", "xendcg"])
def test_a_killed_training_ends_in_the_same_bytes(parts, tmp_path, objective):
    class Killed(Exception):
        pass

    def kill(progress):
        if progress.iteration == 9:
            raise Killed

    train, valid, _ = parts
    options = {"eval_set": valid, "early_stopping_rounds": 8}
    Linear(objective=objective, max_iter=20).fit(train, **options).save(tmp_path / "whole.podium")
    kept = {"checkpoint": tmp_path / "run.check", "every": 4}
    with pytest.raises(Killed):
        Linear(objective=objective, max_iter=20).fit(train, **options, **kept, callbacks=[kill])
    Linear(objective=objective, max_iter=20).fit(train, **options, **kept).save(tmp_path / "resumed.podium")
    assert (tmp_path / "whole.podium").read_bytes() == (tmp_path / "resumed.podium").read_bytes()


def test_the_same_bytes_for_any_number_of_threads(rng, tmp_path):
    X = rng.standard_normal((40_000, 6)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 2), 0, 4)
    for n_jobs in (1, 2):
        Linear(max_iter=5, n_jobs=n_jobs).fit(X, y, qid=np.arange(40_000) // 40).save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()


def test_what_is_not_supported_is_refused_with_what_to_do(parts, splits):
    from scipy.sparse import csr_array

    with pytest.raises(
        ValueError, match=r"does not support missing values; feature \d+, X\[:, \d+\], of the training data has NaN"
    ):
        Linear().fit(splits.train)
    with pytest.raises(ValueError, match="Linear does not support sparse rows"):
        Linear().fit(csr_array(np.eye(4)), [0, 1, 0, 1], group=[4])
    model = Linear(max_iter=3).fit(parts[0])
    with pytest.raises(ValueError, match="of the rows has NaN"):
        model.predict(splits.test.X)


def test_every_model_has_a_scorer_an_inspection_and_importances(parts):
    train, _, test = parts
    for model in (Linear(max_iter=20), podium.LambdaMART(n_estimators=5)):
        model.fit(train)
        np.testing.assert_allclose(model.scorer()(test.X), model.predict(test), rtol=1e-5, atol=1e-5)
        assert type(model).__name__ in str(model.inspect())
        json.dumps(model.inspect().as_dict())
        curve = podium.explain.partial_dependence(model, test, 0, grid=5)
        assert curve.curves.shape == (test.n_rows, 5)
        found = podium.explain.permutation_importance(model, test, repeats=2)
        assert found.baseline == model.score(test)
        assert found.sorted()[0][1] > 0.05
        assert len(found.as_dict()["features"]) == 24


def test_a_weight_is_the_slope_of_the_dependence(parts):
    model = Linear(max_iter=20).fit(parts[0])
    curve = podium.explain.partial_dependence(model, parts[2], 0, grid=[0.0, 1.0, 2.0])
    np.testing.assert_allclose(np.diff(curve.mean), model.coef_[0], rtol=1e-6)


def test_contributions_are_shapley_values_of_the_linear_function_and_of_trees_on_top(parts, tmp_path):
    train, _, test = parts
    linear = Linear(max_iter=20).fit(train)
    boosted = podium.LambdaSMART(n_estimators=5, init=linear).fit(train)
    means = train.X.astype(np.float64).mean(axis=0)
    found = podium.explain.shap_values(linear, test)
    np.testing.assert_allclose(found.values, linear.coef_ * (test.X - means), atol=1e-6)
    assert found.base == pytest.approx(linear.coef_ @ means + linear.intercept_, abs=1e-6)
    for model in (linear, boosted):
        found = podium.explain.shap_values(model, test)
        np.testing.assert_allclose(found.base + found.values.sum(axis=1), model.predict(test), rtol=1e-6, atol=1e-6)
        reasons = podium.explain.why(model, test, 0, 1)
        assert sum(reason.contribution for reason in reasons.reasons) == pytest.approx(reasons.difference)
    podium.explain.draw_curves(Linear(max_iter=3).fit(train, eval_set=test), tmp_path / "curves.svg")
    with pytest.raises(ValueError, match=r"expected a model of trees, such as LambdaMART; got Linear"):
        podium.explain.importance(linear)


def test_a_shuffled_feature_that_is_not_used_changes_nothing(rng):
    X = rng.standard_normal((400, 2)).astype(np.float32)
    model = podium.MART(n_estimators=5, feature_fraction=1.0).fit(X[:, [0, 0]] * [1, 0], np.abs(X[:, 0]), group=[400])
    found = podium.explain.permutation_importance(model, X, np.abs(np.round(X[:, 0])), np.arange(400) // 20)
    assert found.drops[1].tolist() == [0.0] * 5


def test_a_linear_model_can_be_the_base_of_trees(parts, tmp_path):
    train, _, test = parts
    base = Linear(max_iter=20).fit(train)
    model = podium.LambdaSMART(n_estimators=5, init=base).fit(train)
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    assert isinstance(loaded.init, Linear)
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))


def test_the_command_line_trains_it(parts, tmp_path, monkeypatch, capsys):
    for name, part in zip(("train", "valid"), parts):
        podium.write_letor(part, tmp_path / f"{name}.txt")
    monkeypatch.chdir(tmp_path)
    command = "train linear train.txt --valid valid.txt --out m.podium --set max_iter=10 --set objective=lambda --json"
    monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == "linear"
    assert 1 <= found["rounds"] <= 10
    assert isinstance(podium.load("m.podium"), Linear)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_iter": 0}, "max_iter must be an integer from 1"),
        ({"tolerance": -1}, "tolerance"),
        ({"objective": "x"}, "x"),
    ],
)
def test_parameters_out_of_range_are_refused(parts, wrong, message):
    with pytest.raises(ValueError, match=message):
        Linear(**wrong).fit(parts[0])


def test_a_number_of_trees_is_no_query_id(parts):
    model = podium.LambdaMART(n_estimators=3).fit(parts[0])
    with pytest.raises(ValueError, match=r"got 2\. For the first trees only, give n_trees=2"):
        model.predict(parts[2], 2)
    np.testing.assert_array_equal(model.predict(parts[2], n_trees=3), model.predict(parts[2], parts[2].qid))


@pytest.mark.parametrize("basis", ["polynomial", "gaussian", "sigmoid"])
def test_basis_functions_are_those_of_their_formulas_and_saved_with_the_model(basis, rng, tmp_path):
    """And learn what no weighted sum of the features is."""
    X = rng.standard_normal((400, 3)).astype(np.float32) * [1, 5, 1] + [0, 20, 0]
    X = X.astype(np.float32)
    y, qid = np.clip(np.round(2 - X[:, 0] ** 2 + (X[:, 1] - 20) / 5), 0, 4), np.arange(400) // 20
    model = Linear(basis=basis, degree=2, n_centres=40, width=0.8, max_iter=60).fit(X, y, qid=qid)
    Z = (X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)) / X.astype(np.float64).std(axis=0)
    if basis == "polynomial":
        phi = np.stack([Z[:, f] ** power for f in range(3) for power in (1, 2)], axis=1)
    else:
        centres = model.basis_.centres
        assert len(centres) == 40
        assert all(np.isclose(Z, centre).all(axis=1).any() for centre in centres)  # training rows
        spread = 0.8**2 * 3
        if basis == "gaussian":
            phi = np.exp(-((Z[:, None, :] - centres[None]) ** 2).sum(axis=2) / (2 * spread))
        else:
            phi = 1 / (1 + np.exp(-(Z @ centres.T) / spread))
    np.testing.assert_allclose(model.predict(X), phi @ model.coef_ + model.intercept_, atol=1e-4)
    assert model.score(X, y, qid) > Linear(max_iter=60).fit(X, y, qid=qid).score(X, y, qid) + 0.02
    model.save(tmp_path / "m.podium")
    loaded = podium.load(tmp_path / "m.podium")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert str(loaded.inspect()) == str(model.inspect())
    assert np.isfinite(model.predict(np.full((1, 3), 3e38, np.float32))).all()
    names = {"polynomial": "feature 1^2", "gaussian": "gaussian 1", "sigmoid": "sigmoid 1"}
    assert names[basis] in [name for name, _ in model.inspect().weights]


def test_basis_functions_pass_the_laws_of_the_frame(parts, tmp_path):
    train, valid, test = parts
    for basis in ("polynomial", "gaussian"):
        given = {"basis": basis, "max_iter": 12, "n_centres": 30}
        model = Linear(**given).fit(train, eval_set=valid, early_stopping_rounds=6)
        assert model.score(valid) == pytest.approx(max(model.evals_["eval_0"]["ndcg@10"]), abs=1e-12)
        np.testing.assert_allclose(model.scorer()(test.X), model.predict(test), rtol=1e-5, atol=1e-5)
        other = Linear(**given, random_state=1).fit(train)
        assert (basis == "polynomial") == np.array_equal(other.predict(test), Linear(**given).fit(train).predict(test))
    assert Linear(basis="polynomial", max_iter=5).fit(train).feature_importances_.sum() == pytest.approx(1)
    assert not hasattr(Linear(basis="gaussian", max_iter=5).fit(train), "feature_importances_")
    with pytest.raises(ValueError, match="basis must be one of None, polynomial, gaussian, sigmoid; got 'poly'"):
        Linear(basis="poly").fit(train)


def test_crafted_files_of_basis_functions_are_refused(parts):
    model = Linear(basis="gaussian", n_centres=5, max_iter=3).fit(parts[0])
    scaling = model.basis_.scaling
    negative, short = dataclasses.replace(scaling, scale=-scaling.scale), scaling.take(slice(3))
    for change in ({"scaling": negative}, {"scaling": short}, {"centres": np.empty((0, 24))}):
        broken = Linear(basis="gaussian", n_centres=5, max_iter=3).fit(parts[0])
        broken.basis_ = dataclasses.replace(model.basis_, **change)
        with pytest.raises(ValueError, match="Nothing is written"):
            broken.save(io.BytesIO())


def test_bayesrank_learns_to_rank_and_its_seed_counts(parts, tmp_path):
    train, _, test = parts
    model = podium.BayesRank(metric="ndcg", max_iter=15).fit(train)
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg"])["ndcg"]
    assert model.score(test) > constant + 0.05
    assert (podium.BayesRank(metric="ndcg", max_iter=15, random_state=1).fit(train).coef_ != model.coef_).any()
    assert (podium.BayesRank(metric="ndcg", max_iter=15, samples=3).fit(train).coef_ != model.coef_).any()
    for n_jobs in (1, 2):
        fitted = podium.BayesRank(max_iter=5, n_jobs=n_jobs).fit(train)
        fitted.save(tmp_path / f"{n_jobs}.podium")
    assert (tmp_path / "1.podium").read_bytes() == (tmp_path / "2.podium").read_bytes()
    with pytest.raises(ValueError, match="does not add up over places"):
        podium.BayesRank(metric="map").fit(train)


@pytest.mark.parametrize("kind", [podium.Boosted, podium.MatrixNet, Linear])
def test_the_expected_metric_is_an_objective_of_every_learner(kind, parts):
    train, _, test = parts
    few = {"max_iter": 15} if kind is Linear else {"n_estimators": 10}
    model = kind(objective="bayesrank", metric="ndcg@5", **few).fit(train)
    assert model.make_objective().metric == "ndcg@5"
    constant = podium.evaluate(np.zeros(test.n_rows), test, metrics=["ndcg@5"])["ndcg@5"]
    assert model.score(test) > constant + 0.05


def test_an_exponent_is_refused_where_no_pairs_are_summed(parts):
    message = "Linear: pair_exponent=0.5 is for pairwise objectives and lambda; got objective 'listnet'. Leave it at 0."
    with pytest.raises(ValueError, match=message):
        Linear(objective="listnet", pair_exponent=0.5).fit(parts[0])
    with pytest.raises(ValueError, match="needs normalize=None; got 'lightgbm'"):
        podium.LambdaMART(pair_exponent=0.5, normalize="lightgbm").fit(parts[0])
    assert Linear(objective="lambda", pair_exponent=0.5).make_objective().pair_exponent == 0.5
    assert podium.Boosted(objective=Hinge(pair_exponent=1.0)).make_objective().pair_exponent == 1.0
