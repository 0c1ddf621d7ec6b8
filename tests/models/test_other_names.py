"""Other names: an error about a name of another library says ours, and the page has the same names."""

import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.lab.tuning import tune
from podium.models.other_names import ARGUMENTS, ATTRIBUTES, CALLBACKS, PARAMETERS
from podium.models.registry import MODELS, plan_model

PAGE = (Path(podium.__file__).parent.parent / "docs" / "coming-from.md").read_text("utf-8")
X = np.random.default_rng(3).random((40, 3))
Y, QID = np.arange(40) % 3, np.repeat(np.arange(4), 10)


@pytest.fixture(scope="module")
def model():
    return podium.LambdaMART(n_estimators=2).fit(X, Y, QID)


def names_of_the_page():
    """{their name: our parameter} of the table of parameters."""
    section = PAGE.split("## Parameters\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:2] == "| "
    ]
    found = {}
    for row in rows[2:]:
        for cell in row[2:6]:
            if match := re.match(r"`(\w+)`", cell):
                found.setdefault(match[1], row[0].strip("`"))
    return found


def test_the_hints_are_those_of_the_page():
    ours = podium.LambdaMART().get_params()
    page = {theirs: name for theirs, name in names_of_the_page().items() if theirs not in ours}
    assert len(page) > 40
    assert page == {theirs: PARAMETERS.get(theirs) for theirs in page}
    for name in [*PARAMETERS, *ARGUMENTS, *ATTRIBUTES]:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE), name
    assert {name for name in PARAMETERS.values() if not name.endswith(".")} <= set(ours)


@pytest.mark.parametrize("theirs", PARAMETERS)
def test_a_parameter_of_another_library_is_answered_with_ours(theirs):
    expected = PARAMETERS[theirs] if PARAMETERS[theirs].endswith(".") else f"It is called {PARAMETERS[theirs]} here."
    with pytest.raises(TypeError, match=re.escape(expected)):
        podium.LambdaMART(**{theirs: 1})
    with pytest.raises(ValueError, match=re.escape(expected)):
        podium.LambdaMART().set_params(**{theirs: 1})
    with pytest.raises(ValueError, match=re.escape(expected)):
        plan_model("lambdamart", [f"{theirs}=1"])


def test_a_model_without_the_parameter_gets_no_wrong_hint():
    with pytest.raises(TypeError, match=r"Linear has no parameter 'num_leaves'\.$"):
        podium.Linear(num_leaves=3)
    with pytest.raises(TypeError, match=r"Did you mean 'l2_regularization'\?"):
        podium.Linear(l2_regularisation=3)
    with pytest.raises(ValueError, match="It is called max_leaf_nodes here"):
        tune(podium.LambdaMART(), {"num_leaves": [3, 4]}, None, None)


@pytest.mark.parametrize("theirs", ATTRIBUTES)
def test_an_attribute_of_another_library_is_answered_with_ours(theirs, model):
    with pytest.raises(AttributeError, match=re.escape(ATTRIBUTES[theirs])):
        getattr(model, theirs)
    assert not hasattr(model, theirs)


def test_a_property_that_fails_keeps_its_own_error():
    with pytest.raises(AttributeError, match="no attribute 'forest_'"):
        _ = podium.LambdaMART().feature_importances_
    with pytest.raises(AttributeError, match="transform is None"):
        _ = podium.LambdaMART().transform


@pytest.mark.parametrize(
    ("method", "argument", "hint"),
    [
        ("predict", "pred_contrib", "podium.explain.shap_values(model, X)"),
        ("predict", "num_iteration", "It is called n_trees here"),
        ("predict", "raw_score", "leave it out"),
        ("fit", "eval_at", 'eval_metric="ndcg@10"'),
        ("fit", "eval_group", "Give eval_set=(X, y, qid)"),
        ("fit", "init_model", "fit_more"),
        ("fit", "early_stoping_rounds", "Did you mean 'early_stopping_rounds'?"),
        ("score", "sample_weights", "Did you mean 'sample_weight'?"),
    ],
)
def test_an_argument_of_another_library_is_answered_with_ours(method, argument, hint, model):
    with pytest.raises(TypeError, match=re.escape(hint)):
        getattr(model, method)(X, **{argument: 1})


def test_hints_change_neither_signatures_nor_copies(model):
    for kind in MODELS.values():
        assert "X" in inspect.signature(kind.fit).parameters
        assert list(inspect.signature(kind).parameters) == list(inspect.signature(kind.__init__).parameters)[1:]
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def test_callbacks_of_other_libraries_say_what_replaces_them(model):
    lightgbm = pytest.importorskip("lightgbm")
    for callback, hint in (
        (lightgbm.early_stopping(5, verbose=False), "give fit early_stopping_rounds"),
        (lightgbm.log_evaluation(5), "give fit verbose"),
        (lightgbm.record_evaluation({}), "model.evals_"),
    ):
        with pytest.raises(TypeError, match=re.escape(hint)):
            podium.LambdaMART(n_estimators=2).fit(X, Y, QID, callbacks=[callback])
    xgboost = pytest.importorskip("xgboost")
    assert all(hasattr(xgboost.callback, name) for name in CALLBACKS["xgboost"])
    with pytest.raises(TypeError, match="give fit early_stopping_rounds"):
        podium.Linear().fit(X, Y, QID, callbacks=[xgboost.callback.EarlyStopping(rounds=3)])
