"""What was learned stays as it is: parameters that are set after `fit` are those of the next training."""

import io
from copy import copy
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

import podium
from podium import Blend, KernelRankSVM, LambdaMART, LambdaSMART, Linear, Pointwise, RankingData
from podium.models.frame.parameters import INTEGER, NUMBER, SWITCH, parameters_of
from podium.models.registry import MODELS
from podium.persistence.saving import from_parts, to_parts
from podium.persistence.storage import load_parts, save_parts

N = 60
DRAWS = np.random.default_rng(3)
X = DRAWS.standard_normal((N, 4)).astype(np.float32)
Y, QID = np.clip(np.round(X[:, 0] + X[:, 1]), 0, 2), np.arange(N) // 10
DATA, OTHER = RankingData.from_arrays(X, Y, QID), RankingData.from_arrays(X[::-1], Y, QID)
MISSING = np.where(X > 1.5, np.float32(np.nan), X)

FEW = {"n_estimators": 2, "min_samples_leaf": 5, "max_epochs": 1, "hidden_layer_sizes": (3,), "embedding_size": 4}
FEW |= {"n_members": 2, "folds": 2, "max_iter": 500, "n_rounds": 2, "n_restarts": 1, "divisions": 1}
FLAT, TREES = Linear(max_iter=2), LambdaMART(n_estimators=2, min_samples_leaf=5)
CASES = {
    **{name: {} for name in MODELS},
    "LambdaSMART": {"init": FLAT},
    "LambdaMART with init": {"init": TREES},
    "RankNet with init": {"init": FLAT},
    "SelfAttentionRanker with init": {"init": TREES},
    "Linear of powers": {"basis": "polynomial", "degree": 2},
    "Linear of products": {"basis": "polynomial", "degree": 2, "interactions": True},
    "Linear of centres": {"basis": "gaussian", "n_centres": 5},
    "Linear of points": {"basis": "gaussian", "centres": X[:3].tolist(), "sigma": 2.0},
    "Linear of standardised points": {"basis": "sigmoid", "centres": [[0, 1, 0, 1], [1, 0, 1, 0]]},
    "BayesRank of centres": {"basis": "sigmoid", "n_centres": 5},
    "KernelRankSVM of powers": {"kernel": "polynomial", "degree": 2},
    "KernelRankSVM, sigmoid": {"kernel": "sigmoid"},
    "Bagged": {"model": TREES},
    "Bagged with init": {"model": LambdaSMART(n_estimators=2, init=FLAT), "normalization": None},
    "Blend": {"members": [TREES, FLAT]},
    "Blend of trees": {"members": [TREES], "normalization": None},
    "Stack": {"members": [TREES, FLAT], "passthrough": True},
    "AutoRanker": {"families": ("linear",)},
    "LambdaMART with a transform": {"transform": ("raw", "rank")},
}
OTHER_VALUES = {
    "alpha": "bound",
    "C": 0.5,
    "categorical": [0],
    "centres": [[1.0, 2.0]],
    "classifier": "linear_svc",
    "criterion": "map",
    "estimator": "lasso",
    "eval_metric": "map",
    "families": ("trees",),
    "final": LambdaMART(n_estimators=1),
    "goss": (0.2, 0.1),
    "hidden_layer_sizes": (2, 2),
    "init": LambdaMART(n_estimators=3, min_samples_leaf=2),
    "kernel": "linear",
    "members": [Linear(max_iter=1), Linear(max_iter=1), Linear(max_iter=1)],
    "metric": "map",
    "model": Linear(max_iter=1),
    "monotone": {0: 1},
    "objective": "squared",
    "plan": {"members": [LambdaMART(n_estimators=1)], "weights": [1.0]},
    "transform": ("zscore",),
    "weights": [5.0, 1.0, 1.0],
}


def kind_of(case):
    return MODELS[case.split()[0].rstrip(",")]


@cache
def fitted(case):
    kind = kind_of(case)
    if kind.__module__.endswith(("nets", "attention")):
        pytest.importorskip("jax")
    few = {name: value for name, value in FEW.items() if name in parameters_of(kind)}
    return kind(**few | CASES[case]).fit(DATA)


def another(name, parameter, value):
    """A value that the parameter takes and does not have."""
    declaration = parameter.declaration
    if declaration.kind is SWITCH or name == "n_jobs":
        return not value if declaration.kind is SWITCH else 1
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if declaration.choices:
        return next(choice for choice in declaration.choices if choice != value)
    assert declaration.kind in (INTEGER, NUMBER), name
    return declaration.high if value is None or value != declaration.high else declaration.low


def answer(model, rows):
    try:
        return model.predict(rows, QID).tolist()
    except ValueError as error:
        return str(error)


def answers(model):
    """Scores of all kinds of rows, or what is wrong with them."""
    scorer = getattr(model, "scorer", None)
    own = [answer(model, rows) for rows in (X, MISSING, csr_array(X))]
    return [*own, scorer()(X[:10]).tolist(), model.needs_queries()]


def facts(model):
    """All that a file holds but the parameters, and the arrays."""
    _, meta, arrays = to_parts(model, False)
    return without_parameters(meta), {name: array.tobytes() for name, array in arrays.items()}


def without_parameters(meta):
    own = {key: value for key, value in meta.items() if key not in ("parameters", "fitted", "resolved", "children")}
    children = {name: without_parameters(child["meta"]) for name, child in meta.get("children", {}).items()}
    return own | {"children": children}


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return podium.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("case", CASES)
def test_no_parameter_that_is_set_after_fit_changes_the_fitted_model(case):
    before, known = answers(fitted(case)), facts(fitted(case))
    for name, parameter in parameters_of(kind_of(case)).items():
        model = copy(fitted(case))
        model.set_params(**{name: another(name, parameter, model.get_params(deep=False)[name])})
        assert answers(model) == before, name
        assert facts(model) == known, name
        loaded = saved(model)
        assert answers(loaded) == before, name
        assert facts(loaded) == known, name
        assert getattr(loaded, "resolved_params_", None) == getattr(fitted(case), "resolved_params_", None), name
        machine = {key: value for key, value in {"n_jobs": None, "device": "cpu"}.items() if key in model.get_params()}
        assert repr(loaded) == repr(copy(model).set_params(**machine)), name


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        ("Linear of powers", {"basis": None}),
        ("Linear of powers", {"interactions": True}),
        ("Linear of products", {"interactions": False, "degree": 3}),
        ("Linear of centres", {"sigma": 3.0}),
        ("Linear of points", {"sigma": None, "centres": [[0.0, 0.0, 0.0, 0.5]]}),
        ("Linear of points", {"basis": "sigmoid", "centres": None}),
        ("KernelRankSVM of powers", {"kernel": "linear"}),
        ("Stack", {"passthrough": False, "normalization": "rank"}),
        ("LambdaSMART", {"init": TREES}),
        ("LambdaMART with init", {"init": None}),
        ("AutoRanker", {"criterion": "map"}),
    ],
)
def test_parameters_that_are_set_after_fit_are_those_of_the_next_training(case, changed):
    model = copy(fitted(case)).set_params(**changed)
    again, expected = saved(model).fit(OTHER), clone(model).fit(OTHER)
    assert answers(again) == answers(expected)
    assert facts(saved(again)) == facts(expected)


def test_what_a_model_supports_is_what_was_fitted_supports():
    """Of an estimator that takes missing values, and one that does not; also of members, and of a base model."""
    takes, refuses = Pointwise(HistGradientBoostingRegressor(max_iter=2)), Pointwise("ridge")
    for kind in (lambda model: model, lambda model: Blend([model], normalization=None)):
        model, nested = kind(clone(takes)).fit(X, Y, QID), kind(takes) is not takes
        scores = model.predict(MISSING, QID)
        model.set_params(**{"members": [refuses]} if nested else {"estimator": "ridge"})
        np.testing.assert_array_equal(model.predict(MISSING, QID), scores)
        model.fit(X, Y, QID).set_params(**{"members": [takes]} if nested else {"estimator": takes.estimator})
        with pytest.raises(ValueError, match="Pointwise does not support missing values"):
            model.predict(MISSING, QID)
        model.fit(MISSING, Y, QID)  # which it supports now
    trees = LambdaSMART(n_estimators=2, init=FLAT).fit(X, Y, QID)
    with pytest.raises(
        ValueError, match=r"Linear does not support missing values; feature 1, X\[:, 0\], of the rows has NaN"
    ):
        trees.predict(MISSING)
    with pytest.raises(ValueError, match="Linear does not support sparse rows"):
        trees.predict(csr_array(X))
    with pytest.raises(
        ValueError, match=r"Linear does not support missing values; feature 1, X\[:, 0\], of the training data"
    ):
        LambdaSMART(init=FLAT).fit(MISSING, Y, QID)


def test_a_fitted_model_tells_about_itself_whatever_is_set() -> None:
    model = Pointwise("ridge").fit(X, Y, QID)
    shown = model.inspect().n_features
    assert model.set_params(estimator="rigde").inspect().n_features == shown
    np.testing.assert_array_equal(model.predict(X), Pointwise("ridge").fit(X, Y, QID).predict(X))


def test_a_base_model_that_is_trained_again_changes_no_model_that_started_from_it():
    base = clone(FLAT).fit(DATA)
    model = LambdaSMART(n_estimators=2, init=base).fit(DATA)
    before = model.predict(X)
    base.fit(OTHER)
    np.testing.assert_array_equal(model.predict(X), before)


def test_further_training_goes_on_from_the_base_model_of_the_training():
    expected = LambdaMART(n_estimators=2, init=FLAT, random_state=1).fit(DATA).fit_more(DATA, n_estimators=2)
    for other in (None, TREES, clone(TREES).fit(DATA)):
        model = LambdaMART(n_estimators=2, init=FLAT, random_state=1).fit(DATA).set_params(init=other)
        loaded = saved(model)
        for one in (model, loaded):
            np.testing.assert_array_equal(one.refit(OTHER).predict(X), expected_refit(DATA, OTHER))
            np.testing.assert_array_equal(one.fit_more(DATA, n_estimators=2).predict(X), expected.predict(X))
            assert str(one.inspect()) == str(model.inspect())


def expected_refit(data, other):
    return LambdaMART(n_estimators=2, init=FLAT, random_state=1).fit(data).refit(other).predict(X)


def test_an_svm_that_was_read_with_other_parameters_is_saved_as_it_was_read(tmp_path):
    KernelRankSVM(kernel="polynomial", degree=2).fit(DATA).write_svmlight(tmp_path / "m.dat")
    model = KernelRankSVM.read_svmlight(tmp_path / "m.dat", degree=5, coef0=3.0)
    np.testing.assert_array_equal(saved(model).predict(X), model.predict(X))


@pytest.mark.parametrize(
    "fitted_then",
    [{"normalization": "best"}, {"normalization": 3}, {"passthrough": "yes"}, {"folds": 3}, {"passthrough": None}, []],
)
def test_files_with_other_fitted_parameters_are_refused(fitted_then):
    kind, meta, arrays = to_parts(fitted("Stack"), False)
    with pytest.raises(ValueError, match=r"normalization|passthrough|folds|fitted"):
        from_parts(kind, meta | {"fitted": fitted_then}, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta["parameters"].update(depth=2), "the parameters hold 'depth', which is not known"),
        (lambda meta: meta.update(init={"kind": "MART", "meta": {}}), "meta hold 'init', which is not known"),
        (lambda meta: meta["parameters"].update(monotone={"0": 1}), "monotone: a type must be one of"),
    ],
)
def test_what_only_files_of_other_versions_hold_is_refused(change, message, tmp_path):
    rng = np.random.default_rng(0)
    podium.RandomForest(n_estimators=1).fit(rng.random((60, 2)), np.arange(60) % 3, np.arange(60) // 6).save(
        tmp_path / "m.podium"
    )
    kind, meta, arrays = load_parts(tmp_path / "m.podium")
    change(meta)
    save_parts(tmp_path / "m.podium", kind, meta, arrays)
    with pytest.raises(ValueError, match=message):
        podium.load(tmp_path / "m.podium")


def test_a_base_model_in_the_file_of_a_model_that_takes_none_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    model = podium.RandomForest(n_estimators=1).fit(rng.random((60, 2)), np.arange(60) % 3, np.arange(60) // 6)
    model.save(tmp_path / "m.podium")
    kind, meta, arrays = load_parts(tmp_path / "m.podium")
    inner = {f"init/{name}": array for name, array in arrays.items()}
    children = {"init": {"kind": kind, "meta": dict(meta)}}
    save_parts(tmp_path / "m.podium", kind, meta | {"children": children}, {**arrays, **inner})
    with pytest.raises(ValueError, match="RandomForest takes no init"):
        podium.load(tmp_path / "m.podium")
