"""Scores of the tree models: all trees, the first ones, one by one, and through a bare function for services."""

import copy
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from podium.models.boosted import BoostedTrees
from podium.models.products import MART, LambdaSMART
from podium.models.ranker import Ranker
from podium.models.registry import catalogue


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((300, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-1.0, 0.0, 1.0]).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y, np.repeat(np.arange(15), 20)


@pytest.fixture(scope="module")
def model(lists):
    return MART(n_estimators=12, max_leaf_nodes=6, min_samples_leaf=5).fit(*lists)


@pytest.fixture(scope="module")
def on_top(lists, model):
    return LambdaSMART(n_estimators=5, max_leaf_nodes=4, init=model).fit(*lists)


@pytest.mark.parametrize("name", ["model", "on_top"])
def test_stages_prefixes_and_contributions_tell_one_story(name, lists, request):
    model, X = request.getfixturevalue(name), lists[0]
    base = 0.0 if model.init is None else model.init.predict(X)
    scores = np.full(len(X), model.forest_.start)
    contributions = model.tree_contributions(X)
    assert contributions.shape == (300, model.forest_.n_trees)
    np.testing.assert_array_equal(model.predict(X, n_trees=0), scores + base)
    for n, stage in enumerate(model.staged_predict(X), start=1):
        scores += contributions[:, n - 1]
        np.testing.assert_array_equal(stage, scores + base)
        np.testing.assert_array_equal(stage, model.predict(X, n_trees=n))
    assert n == model.forest_.n_trees
    np.testing.assert_array_equal(model.predict(X), scores + base)


def test_stages_keep_their_values(lists, model):
    first, *_, last = model.staged_predict(lists[0])
    np.testing.assert_array_equal(first, model.predict(lists[0], n_trees=1))
    np.testing.assert_array_equal(last, model.predict(lists[0]))


@pytest.mark.parametrize("name", ["model", "on_top"])
@pytest.mark.parametrize("n_trees", [None, 0, 3])
def test_a_scorer_gives_the_scores_of_predict_in_single_precision(name, n_trees, lists, request):
    model, X = request.getfixturevalue(name), lists[0]
    scorer = model.scorer(n_trees)
    for rows in (1, 7, 100, 300):
        scores = scorer(X[:rows])
        assert scores.dtype == np.float32
        np.testing.assert_array_equal(scores, model.predict(X[:rows], n_trees=n_trees).astype(np.float32))


def test_a_scorer_takes_infinities_as_numbers_where_predict_refuses_them(lists, model):
    X = lists[0][:2].copy()
    X[:, 0] = [np.inf, -np.inf]
    with pytest.raises(ValueError, match="infinity"):
        model.predict(X)
    largest = np.clip(X, np.finfo(np.float32).min, np.finfo(np.float32).max)
    np.testing.assert_array_equal(model.scorer()(X), model.scorer()(largest))


def test_a_scorer_stays_what_it_was(lists):
    X, y, qid = lists
    model = MART(n_estimators=3, max_leaf_nodes=4).fit(X, y, qid)
    scorer, before = model.scorer(), model.predict(X).astype(np.float32)
    model.fit(X, -y + 3, qid)
    np.testing.assert_array_equal(scorer(X), before)
    assert (model.predict(X) != before).any()


def test_a_base_model_of_another_library_has_its_say(lists):
    X, y, qid = np.nan_to_num(lists[0]), *lists[1:]
    base = LinearRegression().fit(X, y)
    model = LambdaSMART(n_estimators=3, max_leaf_nodes=4, init=base).fit(X, y, qid)
    expected = model.forest_.scores(X) + base.predict(X).astype(float)
    np.testing.assert_array_equal(model.scorer()(X), expected.astype(np.float32))


@pytest.mark.parametrize("n_trees", [-1, 13, 2.0, True, "3"])
def test_trees_that_are_not_there_are_refused(n_trees, lists, model):
    for ask in (lambda: model.predict(lists[0], n_trees=n_trees), lambda: model.scorer(n_trees)):
        with pytest.raises(ValueError, match="n_trees must be an integer from 0 to 12, the number of trees; got"):
            ask()


def test_unfitted_models_have_no_scores(lists):
    for ask in (
        MART().predict,
        MART().tree_contributions,
        lambda X: MART().scorer(),
        lambda X: next(MART().staged_predict(X)),
    ):
        with pytest.raises(NotFittedError):
            ask(lists[0])


def test_copies_of_a_model_leave_the_tables_of_scoring_behind(lists, model):
    model.predict(lists[0])
    again = copy.deepcopy(model)
    assert "bit_tables" in vars(model.forest_)
    assert "bit_tables" not in vars(again.forest_)
    np.testing.assert_array_equal(again.predict(lists[0]), model.predict(lists[0]))


def test_loading_a_model_to_score_it_imports_no_training_code(lists, tmp_path):
    X, y, qid = np.nan_to_num(lists[0]), *lists[1:]
    first = MART(n_estimators=2, max_leaf_nodes=4).fit(X, y, qid)
    for entry in catalogue():
        settings = {"n_estimators": 2} if issubclass(entry.kind, BoostedTrees) else {}
        settings |= {"init": first} if entry.class_name == "LambdaSMART" else {}
        entry.kind(**settings).fit(X, y, qid).save(tmp_path / f"{entry.name}.podium")
    np.save(tmp_path / "X.npy", X)
    code = (
        "import pathlib, sys, numpy, podium\n"
        "X = numpy.load('X.npy')\n"
        "for path in sorted(pathlib.Path('.').glob('*.podium')):\n"
        "    model = podium.load(path)\n"
        "    scores = model.predict(X, numpy.zeros(len(X), int))\n"
        "    assert model.scorer()(X).shape == scores.shape == model.rank(X).shape\n"
        "    print(path.stem)\n"
        "print(*sorted(name for name in sys.modules if name.startswith('podium.')), sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {entry.name for entry in catalogue()} < loaded
    objectives = {"podium.objectives", "podium.objectives.base", "podium.objectives.registry"}  # classes by name only
    training = (
        "podium.learners.trees.training",
        "podium.learners.linear.lbfgs",
        "podium.learners.linear.adarank",
        "podium.learners.linear.coordinate_ascent",
        "podium.learners.net.network",
        "podium.learners.net.training",
        "podium.learners.rankboost.boosting",
        "podium.learners.svm.newton",
        "podium.learners.svm.pairs",
        "podium.learners.monitor",
    )
    frame = ("podium.models.fitting", "podium.models.no_splits", "podium.persistence.checkpoints")
    found = {name for name in loaded if name.startswith((*training, *frame, "podium.objectives"))}
    assert found <= objectives


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_a_model_calls_a_step_as_its_learner_does(entry, lists, monkeypatch):
    X, y, qid = np.nan_to_num(lists[0]), *lists[1:]
    units, keep = {}, Ranker._keep

    def note(model, learner, monitor):
        units[type(model)] = learner.unit
        keep(model, learner, monitor)

    monkeypatch.setattr(Ranker, "_keep", note)
    few = {name: 2 for name in ("n_estimators", "max_epochs") if name in entry.parameters}
    start = {"init": np.zeros(len(y))} if entry.class_name == "LambdaSMART" else {}
    model = entry.kind(**few, **start).fit(X, y, qid)
    assert units[entry.kind] == model._UNIT
