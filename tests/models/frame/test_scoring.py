"""Scores: of trees, all, the first ones or one by one; through a bare function for services.

Two laws of all models: scores are finite or an error, and no batch changes a bit.
"""

import copy
import subprocess
import sys

import numpy as np
import pytest
from families import NETS
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from small_worlds import small_model, world

import podium
from podium.data.ranking import RankingData
from podium.learners.net.scoring import Inputs
from podium.models.registry import MODELS, catalogue
from podium.models.trees.boosted import BoostedTrees
from podium.models.trees.named import MART, LambdaSMART


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
    frame = ("podium.models.frame.fitting", "podium.models.trees.no_splits", "podium.persistence.checkpoints")
    found = {name for name in loaded if name.startswith((*training, *frame, "podium.objectives"))}
    assert found <= objectives


# --- finite, or an error ---------------------------------------------------------------------------------------------


def edited_features(edit):
    """Eight queries whose features an edit has made hostile, though every number is finite."""
    data = world(0, 8)
    X = edit(data.X.astype(np.float64))
    return RankingData.from_arrays(np.clip(X, -3.3e38, 3.3e38).astype(np.float32), data.y, data.qid)


def column(feature, change):
    def edit(X):
        X[:, feature] = change(X[:, feature])
        return X

    return edit


HOSTILE = {
    "one subnormal spread": column(1, lambda x: x * 1e-40),
    "all subnormal": lambda X: X * 1e-40,
    "one near 3e38": column(1, lambda x: x * 1e38),
    "signs of 3e38": column(1, lambda x: np.sign(x) * 3e38),
    "all near 3e38": lambda X: X * 1e38,
    "constant 3e38": column(1, lambda x: 0 * x + 3e38),
    "nearly constant -3e38": column(2, lambda x: -3e38 + 3e31 * x),
    "a constant of a large odd number": column(2, lambda x: 0 * x + 1.1e30),
    "mixed magnitudes": lambda X: X * [1e-44, 1e-30, 1, 1e30, 5e37],
    "constants": lambda X: X * [0, 0, 1, 0, 0] + [1, 0, 0, -7, 1e-45],
}
FAR = np.float32([[3e38] * 5, [-3e38] * 5, [0] * 5, [1e-45] * 5, [3e38, -3e38, 1, -1, 3e38], [1e20] * 5])


def ways_to_scores(model, X, qid):
    """Every way from rows to scores that a model has."""
    yield lambda: model.predict(X, qid)
    if len(np.unique(qid)) == 1 or not model.needs_queries():
        yield lambda: model.scorer()(np.ascontiguousarray(X))
    if hasattr(model, "staged_predict"):
        yield lambda: np.stack(list(model.staged_predict(X, qid)))
        yield lambda: model.predict(X, qid, n_trees=2)


@pytest.mark.filterwarnings("ignore::UserWarning")  # constant features, rounds that are not enough
@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_finite_or_an_error(name, what):
    data = edited_features(HOSTILE[what])
    model = small_model(name).fit(data)
    assert np.isfinite(model.predict(data)).all()  # what was trained on can be scored
    for X, qid in ((data.X[:1], data.qid[:1]), (FAR, np.zeros(6, int)), (FAR[:1], np.zeros(1, int))):
        for ask in ways_to_scores(model, X, qid):
            try:
                assert np.isfinite(ask()).all()
            except ValueError as error:
                assert "score" in str(error) and "row" in str(error)  # noqa: PT017, PT018


@pytest.mark.parametrize("name", NETS)
def test_a_scale_of_1e_minus_40_changes_the_scores_of_a_net_by_rounding_only(name):
    plain, small = (edited_features(column(1, lambda x, by=by: x * by)) for by in (1.0, 2.0**-130))
    expected, scores = (small_model(name).fit(data).predict(data) for data in (plain, small))
    np.testing.assert_allclose(scores, expected, rtol=2e-3, atol=2e-3)  # 2^-130 leaves 19 of 24 bits


def test_missing_values_of_extreme_features_count_as_their_mean():
    data = edited_features(HOSTILE["mixed magnitudes"])
    model = podium.Net(hidden_layer_sizes=(4,), max_epochs=2).fit(data)
    rows = data.X[:9].copy()
    rows[:, 4] = np.nan
    filled = rows.copy()
    filled[:, 4] = data.X[:, 4].mean(dtype=np.float64)
    np.testing.assert_allclose(model.predict(rows), model.predict(filled), rtol=1e-4, atol=1e-6)


def test_the_rounding_errors_of_a_large_constant_are_no_input():
    X = np.full((77, 1), 3.1e38, np.float32)
    X[0] = np.nextafter(X[0], np.float32(0))  # 2e31 away
    assert 0 < np.abs(Inputs.of(X).columns(X)).max() < 77**0.5 * 1e-7


def too_large(model):
    """The model with weights that overflow; nothing in its file would be wrong."""
    model.coef_ = np.full_like(model.coef_, 1e308)
    return model


def test_a_score_that_is_not_finite_is_refused_with_model_and_row():
    train = world(0, 8)
    model = too_large(podium.Linear(max_iter=3).fit(train))
    rows = np.zeros((9, 5), np.float32)
    rows[[4, 7]] = 10.0
    for ask in (model.predict, model.scorer(), lambda rows: model.rank(rows, [0] * len(rows))):
        with pytest.raises(ValueError, match=r"^Linear: expected finite scores; that of row 5 is inf\. Check"):
            ask(rows)
    model.coef_[:] = 1e40
    np.testing.assert_allclose(model.predict(rows)[4], 5 * 10 * 1e40)
    with pytest.raises(ValueError, match=r"^Linear: the score of row 5, 5e\+41, is too large for float32\."):
        model.scorer()(rows)


@pytest.mark.parametrize("normalization", ["rank", "zscore", "minmax", None])
def test_ranks_do_not_hide_a_member_without_finite_scores(normalization):
    train = world(0, 8)
    members = [podium.Linear(max_iter=3), podium.MART(n_estimators=2)]
    blend = podium.Blend(members, normalization=normalization).fit(train)
    too_large(blend.members_[0])
    with pytest.raises(ValueError, match=r"^Linear: expected finite scores"):
        blend.predict(train)


class Constant:
    """A base model of another library."""

    score = 1.0

    def predict(self, X):
        return np.full(len(X), self.score)


def test_a_base_model_without_finite_scores_is_refused_on_every_way():
    train = world(0, 8)
    bases = podium.Linear(max_iter=3).fit(train), Constant()
    models = [LambdaSMART(n_estimators=2, init=base).fit(train) for base in bases]
    too_large(models[0].init_)
    models[1].init_.score = np.nan
    for model in models:
        for ask in ways_to_scores(model, train.X, train.qid):
            with pytest.raises(ValueError, match=r"expected finite scores; that of row \d+ is"):
                ask()


# --- the same bits in any batch --------------------------------------------------------------------------------------


def kernel_machine(kernel):
    return podium.KernelRankSVM(kernel=kernel, max_iter=3)


SETTINGS = {
    **{f"KernelRankSVM {kernel}": kernel_machine(kernel) for kernel in ("linear", "polynomial", "sigmoid")},
    **{f"Linear {basis}": podium.Linear(basis=basis, max_iter=3) for basis in ("polynomial", "gaussian", "sigmoid")},
    "Linear products": podium.Linear(basis="polynomial", interactions=True, degree=2, max_iter=3),
    "Linear raw centres": podium.Linear(basis="gaussian", sigma=3.0, n_centres=9, max_iter=3),
    "Linear transformed": podium.Linear(transform=("standard", "signed_log", "quantile"), max_iter=3),
    "Linear within the query": podium.Linear(transform=("raw", "zscore", "rank", "minmax"), max_iter=3),
    "Pointwise svr": podium.Pointwise("svr"),
    "Pointwise softmax": podium.Pointwise("logistic_regression"),
    "RankBoost values": podium.RankBoost(n_estimators=4, weak_ranker="value"),
    "Net narrow": podium.Net(hidden_layer_sizes=(33, 17), layer_norm=True, residual=True, n_nets=3, max_epochs=1),
    "Net wide": podium.Net(hidden_layer_sizes=(300,), activation="gelu", max_epochs=1),
    "Net without a layer": podium.Net(hidden_layer_sizes=(), max_epochs=1),
    "SelfAttentionRanker deep": podium.SelfAttentionRanker(n_layers=2, max_epochs=1),
}


def batches(n, sizes):
    """Slices of 0 .. n - 1 with these sizes, over and over."""
    start, number = 0, 0
    while start < n:
        yield slice(start, start + sizes[number % len(sizes)])
        start, number = start + sizes[number % len(sizes)], number + 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # rounds that are not enough
@pytest.mark.parametrize("name", [*MODELS, *SETTINGS])
def test_a_score_is_the_same_in_any_batch(name):
    train, rows = world(0), world(1)
    model = (small_model(name) if name in MODELS else SETTINGS[name]).fit(train)
    X, qid = rows.X.copy(), rows.qid
    if model.allows_missing and name in NETS:
        X[np.random.default_rng(2).random(X.shape) < 0.1] = np.nan
    scores = model.predict(X, qid)
    whole_queries = [[10], [20, 30], [130, 10]]
    for sizes in whole_queries if model.needs_queries() else [[1], [2, 3, 5, 17], [64, 1, 127], [129, 16]]:
        parts = [model.predict(X[part], qid[part]) for part in batches(len(X), sizes)]
        np.testing.assert_array_equal(np.concatenate(parts), scores)
    many, ids = np.tile(X, (21, 1)), np.concatenate([qid + 10_000 * copy for copy in range(21)])
    for n_jobs in (1, 2):  # 5,040 rows: more than one block of any model
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).predict(many, ids), np.tile(scores, 21))


def test_given_kernel_values_have_the_same_score_in_any_batch():
    train, rows = world(0), world(1)
    model = podium.KernelRankSVM(kernel="precomputed", max_iter=3).set_params(max_gap=1.0)
    model.fit(train.X @ train.X.T, train.y, train.qid)
    K = rows.X @ train.X.T
    one_by_one = [model.predict(K[row : row + 1])[0] for row in range(len(K))]
    np.testing.assert_array_equal(one_by_one, model.predict(K))
