"""The registry: every parameter is declared, described, checked and has an effect; settings are read from text."""

import inspect
import json
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import podium
from podium.models.frame.parameters import (
    ABOVE_0,
    INTEGER,
    LARGE,
    NUMBER,
    LambdaParameters,
    check_values,
    parameter,
    parameters_of,
    parametrized,
)
from podium.models.linear import Linear
from podium.models.nets import TrainedNet
from podium.models.registry import MODELS, ModelEntry, catalogue, find_model, plan_model, read_settings
from podium.models.trees.named import MART, LambdaMART, LambdaSMART
from podium.persistence.values import to_plain

X, Y, QID = np.arange(200.0).reshape(100, 2) % 7, np.arange(100) % 3, np.arange(100) // 10
DECLARED = [(entry, one) for entry in catalogue() for one in entry.parameters.values()]


def named(entry_and_parameter):
    entry, one = entry_and_parameter
    return f"{entry.name}-{one.name}"


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_every_model_and_every_parameter_is_described(entry):
    assert entry.learner
    assert entry.objective
    assert (entry.kind.__doc__ or "").startswith(entry.about)
    assert getattr(podium, entry.class_name).__module__ == entry.module
    model, page = entry.kind(), pydoc.render_doc(entry.kind, renderer=pydoc.plaintext)
    assert set(entry.parameters) == set(model.get_params())
    for one in entry.parameters.values():
        assert one.declaration.about.endswith("."), one.name
        assert one.declaration.allowed, one.name
        assert one.default == model.get_params()[one.name]
        assert f"|  {one.name} : " in page
        assert " ".join(one.declaration.about.split()) in " ".join(page.replace("|", " ").split())


def test_the_registry_has_every_model_once_and_finds_it_in_any_case():
    assert [entry.kind for entry in catalogue()] == list(MODELS.values())
    assert [entry.class_name for entry in catalogue()] == list(dict.fromkeys(MODELS))
    assert find_model("LambdaMART").kind is find_model("lambdamart").kind is LambdaMART


def test_only_what_a_model_is_made_around_is_given_by_position():
    positional = {
        name: [p.name for p in inspect.signature(kind).parameters.values() if p.kind is not p.KEYWORD_ONLY]
        for name, kind in MODELS.items()
    }
    assert {name: given for name, given in positional.items() if given} == {
        "Pointwise": ["estimator"],
        "Pairwise": ["classifier"],
        "Bagged": ["model"],
        "Blend": ["members"],
        "Stack": ["members"],
    }


def test_listing_the_models_imports_none_of_them():
    code = (
        "import sys; from podium.models.registry import catalogue; print([entry.name for entry in catalogue()]); "
        "print([name for name in ('numpy', 'podium.models.trees.named') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{[name.lower() for name in MODELS]}\n[]\n"


@pytest.mark.slow
def test_nothing_is_lost_where_python_strips_docstrings():
    command = [sys.executable, "-OO", "-m", "podium", "models", "lambdamart", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == find_model("lambdamart").as_dict(with_parameters=True)


# --- declarations -------------------------------------------------------------------------------------------------


# The depth of oblivious trees, the penalty of weights, rounds instead of trees, and kernels instead of powers.
OTHER_MEANINGS = {
    ("MatrixNet", "max_depth"),
    ("Linear", "l2_regularization"),
    ("BayesRank", "l2_regularization"),
    ("Linear", "sigma"),  # of basis functions
    ("BayesRank", "sigma"),
    ("RankBoost", "n_estimators"),
    ("KernelRankSVM", "degree"),
}


def test_parameters_that_models_share_have_one_declaration():
    """Whatever the default is there, apart from "auto"; the step of an optimizer is not the factor of a tree."""
    found: dict[tuple[str, bool], Any] = {}
    for entry, one in DECLARED:
        of_nets = issubclass(entry.kind, TrainedNet) and one.name == "learning_rate"
        if (entry.class_name, one.name) not in OTHER_MEANINGS and not of_nets:
            assert found.setdefault((one.name, one.declaration.auto), one.declaration) == one.declaration, named(
                (entry, one)
            )
    assert all(found[name, False] is one.declaration for name, one in parameters_of(LambdaParameters).items())


@pytest.mark.parametrize("declared", DECLARED, ids=named)
def test_values_are_taken_within_the_limits_and_refused_beyond_them(declared):
    """By the words alone: what an error asks for is read from its sentence, and then taken."""
    entry, one = declared
    declaration = one.declaration
    model = entry.kind(**{one.name: one.default})
    check_values(model)
    wrong: list[Any] = []
    if declaration.kind in (INTEGER, NUMBER):
        low, high = declaration.low, declaration.high
        for good in (low, high):
            check_values(model.set_params(**{one.name: good}))
        wrong = [low - 1, high * 2, np.nan, np.inf, True, "7", [1]]
        wrong += [2.5] if declaration.kind is INTEGER else []
    if declaration.choices:
        for good in declaration.choices:
            check_values(model.set_params(**{one.name: good}))
        wrong = ["None", declaration.choices[0].upper(), 1, True, list(declaration.choices)]
    for bad in wrong if declaration.optional else [*wrong, None] * bool(wrong):
        with pytest.raises(ValueError, match=rf"^{entry.class_name}: {one.name} must be .*; got ") as told:
            check_values(model.set_params(**{one.name: bad}))
        assert repr(bad) in str(told.value)
    if declaration.optional:
        check_values(model.set_params(**{one.name: None}))


def test_bounds_that_the_words_leave_out_are_named_when_they_are_crossed():
    for given, expected in (
        ({"l2_regularization": LARGE * 10}, "l2_regularization must be at most 1e+12; got 10000000000000.0."),
        ({"l2_regularization": -1}, "l2_regularization must be 0 or larger; got -1."),
        ({"sigma": ABOVE_0 / 10}, "sigma must be at least 1e-12; got 1e-13."),
        ({"sigma": 0}, "sigma must be above 0; got 0."),
        ({"random_state": 2**63}, "random_state must be at most 9.22337e+18; got 9223372036854775808."),
    ):
        with pytest.raises(ValueError, match="must be") as told:
            LambdaMART(**given).check_parameters()
        assert str(told.value) == f"LambdaMART: {expected}"


@parametrized
class _Switched(LambdaMART):
    """A model with a switch."""

    switch: bool = parameter(False, "On or off.")
    n_estimators: int = 7


@pytest.fixture
def registered():
    from podium.models import register_model
    from podium.models.registry import _entries

    yield register_model(_Switched, learner="boosted trees", objective="lambda of a metric")
    del _entries["_Switched"]


def test_a_registered_class_is_named_saved_and_loaded(registered, tmp_path):
    entry = find_model("_switched")
    assert (entry.kind, entry.family, entry.about) == (_Switched, "plugins", "A model with a switch.")
    assert (entry.kind.step_word, entry.kind.steps_parameter, entry.missing_extra) == ("tree", "n_estimators", None)
    assert entry.kind.search_space == LambdaMART.search_space
    model = plan_model("_switched", ["switch=true", "n_estimators=2"]).model.fit(X, Y, QID)
    model.save(tmp_path / "model.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "model.podium").predict(X), model.predict(X))


def test_the_file_of_a_plugin_is_refused_by_its_name_unless_it_is_registered(registered, tmp_path):
    from podium.models.registry import _entries

    path = tmp_path / "model.podium"
    _Switched(n_estimators=1).fit(X, Y, QID).save(path)
    entry = _entries.pop("_Switched")
    try:
        with pytest.raises(ValueError, match=r"'_Switched' is not a model of Podium; import .*--plugin MODULE"):
            podium.load(path)
        with pytest.raises(ValueError, match=r"_Switched cannot be saved.*register_model\(_Switched\)"):
            _Switched(n_estimators=1).fit(X, Y, QID).save(path)
    finally:
        _entries["_Switched"] = entry


def test_a_name_is_registered_once(registered):
    from podium.models import register_model

    assert register_model(_Switched) is _Switched
    with pytest.raises(ValueError, match=r"there is a model LambdaMART already, of podium\.models\.trees\.named"):
        register_model(type("LambdaMART", (LambdaMART,), {}))


def test_every_net_and_nothing_else_needs_an_extra(monkeypatch):
    monkeypatch.setattr("podium.models.registry.find_spec", lambda name: None)
    needing = {entry.class_name for entry in catalogue() if entry.missing_extra}
    assert needing == {entry.class_name for entry in catalogue() if issubclass(entry.kind, TrainedNet)}


def test_every_model_has_a_family_and_a_step_word_and_its_steps_are_a_parameter():
    families = {"trees", "linear", "svm", "boosting", "estimators", "nets", "ensembles"}
    for entry in catalogue():
        assert entry.family in families
        assert entry.kind.step_word in ("tree", "round", "epoch", "member", "fit")
        assert entry.kind.steps_parameter is None or entry.kind.steps_parameter in entry.parameters


def test_a_new_model_needs_only_its_fields_and_an_entry():
    entry = ModelEntry("_Switched", __name__, "trees", "boosted trees", "lambda", "A model with a switch.")
    assert (entry.name, entry.kind) == ("_switched", _Switched)
    assert list(entry.parameters)[:2] == ["switch", "n_estimators"]
    assert entry.parameters["switch"].declaration.about == "On or off."
    assert entry.parameters["switch"].declaration.allowed == "True or False"
    assert entry.parameters["n_estimators"].default == _Switched().n_estimators == 7
    assert "n_estimators : an integer from 1 to 1,000,000, default=7\n    Number of trees." in _Switched.__doc__
    assert read_settings(entry, ["switch=True"]) == {"switch": True}
    with pytest.raises(ValueError, match="switch must be True or False; got '1'"):
        read_settings(entry, ["switch=1"])
    with pytest.raises(ValueError, match="n_estimators must be an integer from 1 to 1,000,000; got 0"):
        _Switched(n_estimators=0).check_parameters()


def test_a_parameter_without_a_declaration_is_refused_when_the_class_is_made():
    with pytest.raises(ValueError, match=r"Bare: depth has no declaration; give it one by parameter"):

        @parametrized
        class Bare(LambdaMART):
            depth: int = 3


# --- effects ------------------------------------------------------------------------------------------------------


def plan_of(*models):
    """What AutoRanker calls a plan."""
    return {"members": [to_plain(model) for model in models], "weights": [1 / len(models)] * len(models)}


# Another value, and the parameters beside which it has an effect.
EFFECTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "objective": ("logistic", {}),
    "metric": ("dcg@3", {"objective": "lambda"}),
    "sigma": (3.0, {"basis": "gaussian"}),
    "normalize": (None, {"normalize": "lightgbm"}),
    "pair_exponent": (0.5, {"objective": "ranknet", "normalize": None}),
    "n_estimators": (3, {}),
    "learning_rate": (0.37, {}),
    "max_leaf_nodes": (3, {}),
    "max_depth": (1, {}),
    "min_samples_leaf": (60, {}),
    "min_hessian": (60.0, {}),
    "split_by": ("gradients", {"min_hessian": 60.0}),
    "min_gain": (1e9, {}),
    "max_impurity": (1e9, {}),
    "l2_regularization": (50.0, {}),
    "max_delta_step": (1e-3, {}),
    "step": ("mean", {"l2_regularization": 50.0}),
    "growth": ("oblivious", {}),
    "row_fraction": (0.5, {}),
    "query_fraction": (0.5, {}),
    "feature_fraction": (0.7, {}),
    "goss": ((0.2, 0.2), {}),
    "goss_by": ("query", {"goss": (0.2, 0.2)}),
    "drop_rate": (0.9, {"skip_drop": 0.0}),
    "skip_drop": (1.0, {"drop_rate": 0.9, "skip_drop": 0.0}),
    "max_drop": (1, {"drop_rate": 1.0, "skip_drop": 0.0}),
    "extra_trees": (True, {}),
    "max_bins": (3, {}),
    "bundle_features": (True, {"max_conflicts": 0.5}),
    "max_conflicts": (0.5, {"bundle_features": True}),
    "monotone": ({0: -1}, {"feature_fraction": 1.0}),
    "categorical": ([3], {}),
    "category_smoothing": (
        1e4,
        {"category_smoothing": 0.0, "categorical": [3], "feature_fraction": 1.0, "min_samples_leaf": 1, "max_depth": 6},
    ),
    "exact_sums": (False, {}),
    "init": (np.sin(np.arange(240)), {}),
    "eval_metric": ("rr", {}),
    "validation_fraction": (0.3, {"validation_fraction": 0.1}),
    "impute": ("zero", {"impute": "mean"}),
    "missing_indicator": (True, {"impute": "mean"}),
    "max_iter": (2, {}),
    "tolerance": (1e3, {}),
    "weak_ranker": ("value", {}),
    "selection": ("z", {}),
    "alpha": ("bound", {}),
    "max_alpha": (1e-3, {}),
    "preference": ("difference", {}),
    "model": (MART(n_estimators=3), {}),
    "n_members": (3, {}),
    "sample": ("seeds", {"model": LambdaMART(n_estimators=3, query_fraction=0.5)}),
    "normalization": (None, {"plan": plan_of(Linear(max_iter=3), MART(n_estimators=3))}),
    "members": ([Linear(max_iter=3), MART(n_estimators=3)], {}),
    "weights": ([3, 1], {}),
    "final": (MART(n_estimators=3), {}),
    "folds": (3, {}),
    "passthrough": (True, {}),
    "budget": (1e-6, {"budget": 60.0, "families": ["linear", "trees"], "divisions": 1}),
    "criterion": ("err@5", {}),
    "policy": ("letor4", {}),
    "families": (["trees"], {}),
    "divisions": (1, {"budget": 60.0, "families": ["linear"], "divisions": 2}),
    "refit": ("all", {"plan": plan_of(MART(n_estimators=3))}),
    "plan": (plan_of(Linear(max_iter=3)), {}),
    "transform": (("raw", "rank"), {}),
    "basis": ("polynomial", {}),
    "degree": (2, {"basis": "polynomial", "kernel": "polynomial"}),
    "interactions": (True, {"basis": "polynomial"}),
    "n_centres": (7, {"basis": "gaussian"}),
    "centres": ([[0, 0, 0, 0, 0, 0], [1, -1, 0, 2, 0, 0]], {"basis": "gaussian"}),
    "width": (2.0, {"basis": "gaussian"}),
    "samples": (3, {}),
    "estimator": ("lasso", {}),
    "relevant": (2.0, {"estimator": "logistic_regression"}),
    "standardize": (False, {}),
    "classifier": ("linear_svc", {}),
    "max_pairs": (50, {}),
    "references": (1, {"classifier": DecisionTreeClassifier(max_depth=3)}),
    "random_state": (
        1,
        {
            "feature_fraction": 0.4,
            "objective": "xendcg",
            "estimator": "linear_svr",
            "max_pairs": 50,
            "n_landmarks": 40,
        },
    ),
    "C": (0.01, {}),
    "loss": ("squared_hinge", {}),
    "scaling": ("mean_pairs", {}),
    "max_gap": (0.9, {}),
    "kernel": ("linear", {}),
    "gamma": (0.3, {}),
    "coef0": (0.1, {"kernel": "polynomial"}),
    "n_landmarks": (40, {}),
    "hidden_layer_sizes": ([3], {}),
    "activation": ("tanh", {}),
    "layer_norm": (True, {}),
    "residual": (True, {"hidden_layer_sizes": [4, 4]}),
    "dropout": (0.5, {}),
    "max_epochs": (2, {}),
    "batch_size": (40, {}),
    "optimizer": ("sgd", {}),
    "momentum": (0.0, {"optimizer": "sgd", "batch_size": 40}),
    "schedule": ("cosine", {"batch_size": 40}),
    "warmup": (0.5, {}),
    "weight_decay": (10.0, {"batch_size": 40}),
    "gradient_clipping": (1e-3, {"optimizer": "sgd"}),
    "n_nets": (2, {}),
    "derivatives": ("device", {"batch_size": 40}),
    "precision": ("bfloat16", {}),
    "ties": (True, {}),
    "update": ("pair", {}),
    "embedding_size": (4, {}),
    "n_layers": (2, {}),
    "n_heads": (1, {}),
    "steepness": (3.0, {}),
    "n_jobs": (2, {}),
    "device": ("auto", {}),
    "n_rounds": (1, {}),
    "signs": ("both", {"metric": "p@1"}),
    "n_restarts": (1, {"n_rounds": 8, "min_improvement": 0.05}),
    "min_improvement": (0.5, {}),
}


FEW_MEMBERS = {
    "n_members": 2,
    "folds": 2,
    "budget": 600.0,
    "families": ["linear"],
    "divisions": 1,
    "model": LambdaMART(n_estimators=3, max_leaf_nodes=6, min_samples_leaf=5),
    "members": [LambdaMART(n_estimators=3, max_leaf_nodes=6), Linear(max_iter=3)],
}


def rows():
    draws = np.random.default_rng(5)
    X = draws.standard_normal((240, 6)).astype(np.float32)
    X[:, 3] = 12 * draws.random(240) ** 3 // 1  # categories, few of them frequent
    X[:, 4:] *= draws.random((240, 2)) < 0.15  # sparse columns, which collide in some rows
    y = np.clip(np.round(X[:, 0] + np.cos(2 * X[:, 3]) + X[:, 4] + draws.standard_normal(240) / 2), 0, 3)
    return X, y, np.arange(240) // 12


def trained(kind, **parameters):
    """All that a training makes."""
    X, y, qid = rows()
    if "impute" in parameters:
        X[::5, [0, 3]] = np.nan
    judged = {} if "validation_fraction" in parameters else {"eval_set": (X, y, qid)}
    model = kind(**parameters).fit(X, y, qid, **judged)
    state = model.fitted_state()
    return [{name: array.tobytes() for name, array in state.arrays.items()}, state.facts, model.evals_]


@pytest.mark.parametrize("declared", DECLARED, ids=named)
@pytest.mark.filterwarnings("ignore:no tree could split:UserWarning", "ignore:.*RankSVM stopped after:UserWarning")
def test_no_model_has_a_parameter_that_it_refuses_or_ignores(declared):
    entry, one = declared
    value, beside = EFFECTS[one.name]
    few = (
        FEW_MEMBERS
        | {"n_estimators": 5, "n_rounds": 4, "max_leaf_nodes": 6, "min_samples_leaf": 5, "max_iter": 5, "n_jobs": 1}
        | {"max_epochs": 3, "hidden_layer_sizes": [4], "embedding_size": 2}
        | beside
    )
    common = {name: given for name, given in few.items() if name in entry.parameters}
    if entry.kind is LambdaSMART:
        common["init"] = np.cos(np.arange(240))
    same = trained(entry.kind, **common) == trained(entry.kind, **common | {one.name: value})
    assert same == (one.name in ("n_jobs", "device"))


NO_USE = {
    "MatrixNet": {"growth", "max_leaf_nodes", "min_samples_leaf", "max_impurity"},
    "RandomForest": {"learning_rate", "row_fraction", "query_fraction", "goss", "goss_by", "init"}
    | {"drop_rate", "skip_drop", "max_drop"},
}


@pytest.mark.parametrize("name", NO_USE)
def test_what_a_model_has_no_use_for_is_no_parameter_of_it(name):
    gone = NO_USE[name]
    assert gone == set(MART().get_params()) - set(MODELS[name]().get_params()) - {"pair_exponent"}
    for parameter_name in sorted(gone):
        with pytest.raises(TypeError, match=parameter_name):
            MODELS[name](**{parameter_name: 1})
        with pytest.raises(ValueError, match=f"{name}: a parameter must be one of .*; got '{parameter_name}'"):
            plan_model(name, [f"{parameter_name}=1"])


# --- settings as text ---------------------------------------------------------------------------------------------


def test_settings_have_the_types_of_the_fields():
    texts = ["n_estimators=50", "learning_rate=1", "max_depth=None", "metric=ndcg@5(gain=linear)", "growth = level"]
    found = read_settings(find_model("lambdamart"), texts)
    assert found == {
        "n_estimators": 50,
        "learning_rate": 1.0,
        "max_depth": None,
        "metric": "ndcg@5(gain=linear)",
        "growth": "level",
    }
    assert type(found["learning_rate"]) is float
    texts = ["max_depth=3", "normalize=none", "init=none", "goss=[0.2, 0.1]", "bundle_features=true"]
    assert read_settings(find_model("lambdamart"), texts) == {
        "max_depth": 3,
        "normalize": None,
        "init": None,
        "goss": [0.2, 0.1],
        "bundle_features": True,
    }


def test_a_plan_holds_all_parameters_and_the_conveniences_of_the_command_line():
    plan = plan_model("lambdamart", ["sigma=2"], n_jobs=1, seed=3)
    assert (plan.model.sigma, plan.model.n_jobs, plan.model.random_state) == (2.0, 1, 3)
    assert plan.parameters == plan.model.get_params()
