"""Tuning: the best trial wins, nothing depends on test labels, and failures stay where they are."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from sklearn.base import clone
from small_worlds import SMALL, small_model, world

import podium
from podium.data.ranking import RankingData
from podium.lab.tuning import samplers
from podium.lab.tuning.tuning import tune
from podium.models.registry import MODELS
from podium.pipelines.auto.criteria import criterion_value, parse_criterion

SPACE = {"max_leaf_nodes": {"low": 3, "high": 20}, "learning_rate": [0.05, 0.1, 0.3], "metric": ["ndcg@10", "map"]}
SAMPLERS = ["random", "optuna"]


@pytest.fixture(scope="module")
def parts() -> tuple[RankingData, RankingData]:
    return world(0), world(1, 16)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_best_trial_is_chosen_and_its_values_can_be_repeated(parts, sampler: str) -> None:
    values = {"n_estimators": 30, "min_samples_leaf": 5, "max_leaf_nodes": 5, "learning_rate": 0.1}
    model = podium.LambdaMART(**values)
    found = tune(model, SPACE, *parts, trials=7, sampler=sampler, random_state=3)
    again = tune(model, SPACE, *parts, trials=7, sampler=sampler, random_state=3)
    assert len(found.trials) == 7
    assert found.sampler == sampler
    assert found.criterion == "ndcg@10 (standard)"
    assert [(t.settings, t.value, t.step, t.note) for t in found.trials] == [
        (t.settings, t.value, t.step, t.note) for t in again.trials
    ]
    assert found.chosen == again.chosen
    known = [trial.value for trial in found.trials if trial.value is not None]
    assert found.value == max(known) == found.trials[found.best].value
    assert found.trials[0].settings == {"max_leaf_nodes": 5, "learning_rate": 0.1, "metric": "ndcg@10"}
    assert found.value == podium.evaluate(found.model.predict(parts[1]), parts[1])["ndcg@10"]
    assert len({json.dumps(trial.settings) for trial in found.trials}) == 7
    assert model.get_params() == podium.LambdaMART(**values).get_params()
    json.dumps(found.as_dict())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_another_seed_tries_other_settings(parts, sampler: str) -> None:
    model = podium.LambdaMART(n_estimators=3)
    tried = [
        [t.settings for t in tune(model, SPACE, *parts, trials=4, sampler=sampler, random_state=s).trials]
        for s in (0, 1)
    ]
    assert tried[0] != tried[1]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "AutoRanker"])
def test_the_chosen_settings_train_the_chosen_model_again(parts, name: str) -> None:
    """For every model: without any validation data, from the settings alone."""
    train, valid = parts
    model = small_model(name)
    found = tune(model, {"transform": [None, ("zscore",)]}, train, valid, trials=3, sampler="random", metric="map")
    assert [trial.note for trial in found.trials] == ["", ""], "two settings are all there are"
    again = clone(model).set_params(**found.chosen).fit(train)
    np.testing.assert_array_equal(again.predict(valid), found.model.predict(valid))
    assert found.model.eval_metric is None
    falls = getattr(model, "schedule", "constant") != "constant"  # the learning rate, until the last of the epochs
    assert set(found.chosen) == {"transform", None if falls else model.steps_parameter} - {None}


def test_a_blend_whose_weights_are_chosen_keeps_them_in_the_settings(parts) -> None:
    train, valid = parts
    blend = podium.Blend(SMALL["members"], weights="greedy")
    found = tune(blend, {"normalization": ["zscore", "rank"]}, train, valid, trials=2)
    again = clone(blend).set_params(**found.chosen).fit(train)
    np.testing.assert_allclose(again.predict(valid), found.model.predict(valid))


def test_the_number_of_steps_is_searched_where_the_space_names_it(parts) -> None:
    model = podium.LambdaMART(min_samples_leaf=5)
    found = tune(model, {"n_estimators": {"low": 2, "high": 9}}, *parts, trials=3)
    assert all(trial.step is None for trial in found.trials)
    assert found.chosen["n_estimators"] == found.model.n_estimators == found.model.best_iteration_


def test_epochs_of_a_falling_learning_rate_are_not_cut(parts) -> None:
    net = podium.RankNet(max_epochs=3, schedule="linear", hidden_layer_sizes=(4,))
    found = tune(net, {"dropout": [0.0, 0.2]}, *parts, trials=2)
    assert "max_epochs" not in found.chosen
    assert found.model.best_iteration_ == 3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_trial_that_fails_is_recorded_and_the_others_go_on(parts, sampler: str) -> None:
    space = {"metric": ["ndcg@10", "no such metric", "map"]}
    found = tune(podium.LambdaMART(n_estimators=3), space, *parts, trials=3, sampler=sampler)
    failed = [trial for trial in found.trials if trial.value is None]
    assert [trial.settings["metric"] for trial in failed] == ["no such metric"]
    assert failed[0].note.startswith("failed: metric must be a Metric or a name")
    assert found.chosen["metric"] in ("ndcg@10", "map")


def test_where_all_trials_fail_the_first_one_is_reported(parts) -> None:
    with pytest.raises(ValueError, match=r"no trial of 2 gave a model. The first one, with .*, failed: metric must be"):
        tune(podium.LambdaMART(n_estimators=3), {"metric": ["nope", "nor this"]}, *parts)


def test_a_metric_that_is_better_when_lower_is_minimised(parts) -> None:
    found = tune(podium.LambdaMART(n_estimators=10), SPACE, *parts, trials=5, metric="inversions", sampler="random")
    known = [trial.value for trial in found.trials]
    assert (
        found.value
        == min(known)
        == podium.evaluate(found.model.predict(parts[1]), parts[1], metrics="inversions")["inversions"]
    )


def test_a_sum_of_metrics_is_the_sum_of_their_values_under_the_policy(parts) -> None:
    metric, valid = parse_criterion("map+meanndcg", "letor4"), parts[1]
    scores = np.round(np.random.default_rng(0).standard_normal(valid.n_rows), 1)
    apart = podium.evaluate(scores, valid, metrics=["map", "meanndcg"], policy="letor4")
    assert criterion_value(scores, valid, metric) == pytest.approx(apart["map"] + apart["meanndcg"], abs=1e-12)
    found = tune(
        podium.Linear(max_iter=20),
        {"l2_regularization": [0.03, 1.0]},
        *parts,
        trials=2,
        metric="map+meanndcg",
        policy="letor4",
    )
    assert found.criterion == "map+meanndcg (letor4)"
    told = podium.evaluate(found.model.predict(valid), valid, metrics=["map", "meanndcg"], policy="letor4")
    assert found.value == pytest.approx(sum(told.values()), abs=1e-12)
    with pytest.raises(ValueError, match="inversions cannot be part of a sum"):
        parse_criterion("map+inversions")


def test_hopeless_trials_are_pruned_by_their_curves(parts) -> None:
    """Settings that cannot learn anything, beside some that do."""
    space = {"learning_rate": {"low": 1e-9, "high": 0.3, "log": True}, "min_samples_leaf": [5, 110]}
    model = podium.LambdaMART(n_estimators=40, min_samples_leaf=5)
    found = tune(model, space, *parts, trials=20, sampler="optuna")
    pruned = [trial for trial in found.trials if trial.note.startswith("pruned after")]
    assert pruned
    assert all(trial.value is None for trial in pruned)
    assert found.value == max(trial.value for trial in found.trials if trial.value is not None)


def test_no_trial_begins_when_the_time_is_over(parts) -> None:
    found = tune(podium.LambdaMART(n_estimators=20), SPACE, *parts, trials=10**6, seconds=0.5, sampler="random")
    assert 1 <= len(found.trials) < 10**6
    assert found.seconds < 20


@pytest.mark.parametrize("sampler", ["random", "optuna"])
def test_time_that_is_over_before_the_first_trial_is_one_sentence(parts, sampler: str) -> None:
    with pytest.raises(ValueError, match=r"^LambdaMART: the time was over before the first trial began\. Give more"):
        tune(podium.LambdaMART(n_estimators=2), SPACE, *parts, seconds=1e-9, sampler=sampler)


def test_without_optuna_the_search_is_random_and_asking_for_it_is_an_error(parts, monkeypatch) -> None:
    monkeypatch.setattr(samplers, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune(podium.LambdaMART(n_estimators=2), SPACE, *parts, trials=2).sampler == "random"
    with pytest.raises(ValueError, match=r'pip install "podium\[tune\]"'):
        tune(podium.LambdaMART(n_estimators=2), SPACE, *parts, sampler="optuna")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trials": 0}, "trials must be an integer from 1"),
        ({"trials": True}, "trials must be an integer from 1"),
        ({"seconds": 0}, "seconds must be above 0"),
        ({"seconds": float("inf")}, "seconds must be above 0 and finite"),
        ({"seconds": float("nan")}, "seconds must be above 0 and finite"),
        ({"seconds": "60"}, "seconds must be above 0 and finite"),
        ({"random_state": -1}, "random_state must be an integer from 0"),
        ({"sampler": "optina"}, "Did you mean 'optuna'"),
        ({"metric": "ndgc@10"}, "Did you mean 'ndcg@10'"),
        ({"policy": "letor5"}, "Did you mean 'letor4'"),
    ],
)
def test_wrong_arguments_are_refused_before_any_work(parts, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(podium.LambdaMART(), SPACE, *parts, **given)


def test_labels_outside_the_two_parts_change_nothing() -> None:
    """A choice on parts of a data set is the same whatever the labels of the rest are."""
    whole = world(5, 30)
    queries = np.arange(30)
    found = []
    for labels in (whole.y, np.where(whole.query_numbers >= 20, 0.0, whole.y)):
        data = RankingData.from_arrays(whole.X, labels, whole.qid)
        cut = data.subset(queries < 12), data.subset((queries >= 12) & (queries < 20))
        found.append(tune(podium.LambdaMART(n_estimators=5), SPACE, *cut, trials=3, sampler="random"))
    assert found[0].chosen == found[1].chosen
    assert [trial.value for trial in found[0].trials] == [trial.value for trial in found[1].trials]
