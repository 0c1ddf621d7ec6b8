"""The catalogue: every model and parameter has words, and text becomes values of the right types."""

from dataclasses import dataclass

import pytest

from podium.models.products import MODELS, LambdaMART
from podium.models.registry import Entry, catalogue, find_model, plan_model, read_settings


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_every_model_and_every_parameter_is_explained(entry):
    assert entry.learner
    assert entry.objective
    assert entry.about
    model = entry.kind()
    for parameter in entry.parameters.values():
        assert parameter.about, parameter.name
        assert parameter.allowed, parameter.name
        assert parameter.default == getattr(model, parameter.name)


def test_the_catalogue_has_every_model_once_and_finds_it_in_any_case():
    assert [entry.kind for entry in catalogue()] == list(MODELS.values())
    assert find_model("LambdaMART").kind is find_model("lambdamart").kind is LambdaMART


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
    assert read_settings(find_model("lambdamart"), ["max_depth=3", "normalize=none", "init=none"]) == {
        "max_depth": 3,
        "normalize": None,
        "init": None,
    }


@dataclass(eq=False, repr=False, kw_only=True)
class _Switched(LambdaMART):
    """A model with a switch.

    Parameters
    ----------
    switch : on
        or off.
    """

    switch: bool = False
    limit: int | float | str = 0


def test_a_new_model_needs_only_its_fields_and_its_docstring():
    entry = Entry("switched", _Switched, "trees", "lambda", "A model with a switch.")
    assert entry.parameters["switch"].about == "on or off."
    assert entry.parameters["switch"].allowed == "true or false"
    assert entry.parameters["sigma"].about == find_model("lambdamart").parameters["sigma"].about
    assert read_settings(entry, ["switch=True", "limit=3"]) == {"switch": True, "limit": 3}
    assert read_settings(entry, ["limit=0.5"]) == {"limit": 0.5}
    assert read_settings(entry, ["limit=none"]) == {"limit": "none"}
    with pytest.raises(ValueError, match="switch must be true or false; got '1'"):
        read_settings(entry, ["switch=1"])


def test_a_plan_holds_all_parameters_and_the_conveniences_of_the_command_line():
    plan = plan_model("lambdamart", ["sigma=2"], jobs=1, seed=3)
    assert (plan.model.sigma, plan.model.n_jobs, plan.model.random_state) == (2.0, 1, 3)
    assert plan.parameters == plan.model.get_params()
