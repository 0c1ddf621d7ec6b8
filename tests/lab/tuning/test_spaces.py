"""Search spaces: checked against the parameters of the model; draws lie within them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import podium
from podium.data.ranking import RankingData
from podium.lab.tuning.spaces import parse_space
from podium.lab.tuning.tuning import default_space
from podium.models.registry import catalogue


def lists(n_queries: int) -> RankingData:
    """Twenty documents per query."""
    n = 20 * n_queries
    X, y = np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 3
    return RankingData.from_arrays(X, y, np.repeat(np.arange(n_queries), 20))


FEW, MANY = lists(50), lists(5000)
FIXED = {"AutoRanker"}  # chooses for itself


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "must name at least one parameter"),
        ({"learning_rat": [0.1]}, r"a parameter must be one of .*; got 'learning_rat'. Did you mean 'learning_rate'"),
        ({"learning_rate": 0.1}, "the space of learning_rate must be a list of values"),
        ({"learning_rate": "0.1"}, "must be a list of values"),
        ({"learning_rate": []}, "must be a list of values"),
        ({"learning_rate": [0.1, 0.1]}, "has a value twice"),
        ({"learning_rate": [0.1, -1]}, "learning_rate must be above 0"),
        ({"growth": ["leaf", "lefel"]}, r"growth must be one of .*; got 'lefel'. Did you mean 'level'"),
        ({"max_leaf_nodes": [7, 7.5]}, "max_leaf_nodes must be an integer"),
        ({"growth": {"low": 1, "high": 2}}, "must be a list of values, because it is not a number"),
        ({"learning_rate": {"low": 0.1}}, "must have numbers low < high"),
        ({"learning_rate": {"low": 0.2, "high": 0.1}}, "must have numbers low < high"),
        ({"learning_rate": {"low": 0.1, "high": math.inf}}, "must have numbers low < high"),
        ({"learning_rate": {"low": 0.1, "high": 0.2, "logg": True}}, "Did you mean 'log'"),
        ({"learning_rate": {"low": 0.1, "high": 0.2, "log": 1}}, "log true or false"),
        ({"l2_regularization": {"low": 0, "high": 2, "log": True}}, "log needs a low above 0"),
        ({"learning_rate": {"low": 0.1, "high": 2000}}, "learning_rate must be above 0 and at most 1,000"),
        ({"max_leaf_nodes": {"low": 1, "high": 8}}, "max_leaf_nodes must be an integer from 2"),
    ],
)
def test_a_wrong_space_is_refused_with_what_is_right(space: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message) as told:
        parse_space(podium.LambdaMART(), space)
    assert str(told.value).startswith("LambdaMART: ")


@pytest.mark.parametrize("log", [False, True])
def test_ranges_are_drawn_evenly_with_both_ends(log: bool) -> None:
    space = parse_space(podium.LambdaMART(), {"max_leaf_nodes": {"low": 2, "high": 9, "log": log}})
    rng = np.random.default_rng(0)
    drawn = np.array([space.draw(rng)["max_leaf_nodes"] for _ in range(8000)])
    edges = np.log(np.arange(2, 11)) if log else np.arange(2, 11)
    expected = np.diff(edges) / (edges[-1] - edges[0])
    np.testing.assert_allclose(np.bincount(drawn, minlength=10)[2:] / 8000, expected, atol=0.02)
    numbers = parse_space(podium.LambdaMART(), {"learning_rate": {"low": 0.01, "high": 1, "log": log}})
    values = np.array([numbers.draw(rng)["learning_rate"] for _ in range(4000)])
    assert values.min() >= 0.01
    assert values.max() <= 1
    assert np.mean(values < (0.1 if log else 0.505)) == pytest.approx(0.5, abs=0.03)


def test_parameters_of_inner_models_are_named_as_in_scikit_learn() -> None:
    bagged = podium.Bagged(podium.LambdaMART())
    space = parse_space(bagged, {"model__max_leaf_nodes": {"low": 3, "high": 5}, "n_members": [2]})
    assert space.size == 3
    assert space.settings_of(bagged, FEW) is None
    blend = podium.Blend([podium.LambdaMART(), podium.Linear()])
    assert len(parse_space(blend, {"members__1__l2_regularization": [0.1, 0.03]})) == 1
    with pytest.raises(ValueError, match="max_leaf_nodes must be an integer"):
        parse_space(bagged, {"model__max_leaf_nodes": [1]})
    from sklearn.linear_model import Ridge

    drawn = parse_space(podium.Pointwise(Ridge()), {"estimator__alpha": {"low": 1.0, "high": 2.0}})
    assert 1 <= drawn.draw(np.random.default_rng(1))["estimator__alpha"] <= 2


def test_lists_and_tuples_are_the_same_choice_and_numbers_are_no_switches() -> None:
    model = podium.LambdaMART(transform=["raw", "rank"], extra_trees=True)
    assert parse_space(model, {"transform": [("raw", "rank"), None]}).settings_of(model, FEW) is not None
    assert parse_space(model, {"extra_trees": [False]}).settings_of(model, FEW) is None


def test_auto_is_tried_as_what_it_is_for_the_training_data() -> None:
    mapping = {"max_leaf_nodes": {"low": 2, "high": 63}, "extra_trees": [True, False], "learning_rate": ["auto", 0.3]}
    space = parse_space(podium.LambdaMART(), mapping)
    few = {"max_leaf_nodes": 5, "extra_trees": True, "learning_rate": "auto"}
    assert space.settings_of(podium.LambdaMART(), FEW) == few
    assert space.settings_of(podium.LambdaMART(), MANY) == few | {"max_leaf_nodes": 31, "extra_trees": False}
    assert space.settings_of(podium.LambdaMART(max_leaf_nodes=9), FEW) == few | {"max_leaf_nodes": 9}
    inner = parse_space(podium.Bagged(podium.MART()), {"model__max_leaf_nodes": {"low": 2, "high": 63}})
    assert inner.settings_of(podium.Bagged(podium.MART()), FEW) == {"model__max_leaf_nodes": 5}
    narrow = parse_space(podium.LambdaMART(), {"max_leaf_nodes": {"low": 10, "high": 63}})
    assert narrow.settings_of(podium.LambdaMART(), FEW) is None


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: entry.name)
def test_every_model_has_a_default_space_that_holds_its_defaults(entry) -> None:
    model = entry.kind()
    if entry.class_name in FIXED:
        with pytest.raises(ValueError, match="has no default space"):
            default_space(model)
        return
    space = parse_space(model, default_space(model))
    for data in (FEW, MANY):
        settings = space.settings_of(model, data)
        assert settings is not None
        assert all(space.dimensions[name].holds(value) for name, value in settings.items())
    rng = np.random.default_rng(0)
    for _ in range(5):
        drawn = space.draw(rng)
        assert all(space.dimensions[name].holds(value) for name, value in drawn.items())
        if entry.class_name != "LambdaSMART":  # needs a base model
            entry.kind(**drawn).check_parameters()
