"""Cross-validation: whole queries, models that have not seen them, scores in the caller's order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_worlds import small_model, world

import podium
from podium.data.ranking import RankingData
from podium.models.registry import MODELS
from podium.pipelines.auto.cross_validation import cross_validate, divide_queries


def interleaved(seed: int = 0) -> RankingData:
    data = world(seed)
    order = np.random.default_rng(seed).permutation(data.n_rows)
    return RankingData.from_arrays(data.X[order], data.y[order], data.qid[order])


@given(st.lists(st.integers(0, 7), min_size=2, max_size=60), st.integers(2, 6), st.integers(0, 5))
@settings(max_examples=60)
def test_no_query_is_in_two_folds_and_folds_are_of_one_size(qid, folds, seed) -> None:
    """Whatever the order of the rows."""
    data = RankingData.from_arrays(np.zeros((len(qid), 1)), np.zeros(len(qid)), qid)
    if folds > data.n_queries:
        with pytest.raises(ValueError, match="folds must be an integer from 2 to the number of queries"):
            divide_queries(data, folds, seed)
        return
    fold_of = divide_queries(data, folds, seed)
    of_row = fold_of[data.query_numbers]
    assert all(len({of_row[row] for row in range(len(qid)) if qid[row] == one}) == 1 for one in set(qid))
    sizes = np.bincount(fold_of, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= 1


@pytest.mark.parametrize("data", [world(), interleaved()], ids=["grouped", "interleaved"])
def test_scores_are_those_of_models_trained_on_the_other_queries(data) -> None:
    """By hand, from arrays, with nothing of the package's folds."""
    model = podium.LambdaMART(n_estimators=5, min_samples_leaf=5)
    found = cross_validate(model, data, folds=4, random_state=3, n_jobs=2)
    fold_of_query = dict(zip(data.query_ids, found.fold_of))
    folds = np.array([fold_of_query[one] for one in data.qid])
    for fold in range(4):
        held = folds == fold
        fitted = podium.LambdaMART(n_estimators=5, min_samples_leaf=5).fit(
            data.X[~held], data.y[~held], data.qid[~held]
        )
        np.testing.assert_array_equal(found.scores[held], fitted.predict(data.X[held]))
        own = podium.evaluate(found.scores[held], data.y[held], qid=data.qid[held])
        assert dict(found.folds[fold]) == dict(own)
    assert dict(found.evaluation) == dict(podium.evaluate(found.scores, data.y, qid=data.qid))
    assert list(found.evaluation.queries) == list(data.query_ids)
    assert len(found.per_query["map"]) == data.n_queries
    assert found.spread("map") == pytest.approx(np.std([fold["map"] for fold in found.folds], ddof=1))
    again = cross_validate(model, data, folds=4, random_state=3, n_jobs=1)
    np.testing.assert_array_equal(found.scores, again.scores)
    other = cross_validate(model, data, folds=4, random_state=4)
    assert (other.scores != found.scores).any()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_cross_validated(name: str) -> None:
    data = interleaved(2)
    found = cross_validate(small_model(name), data, folds=2, metrics=["map"], policy="letor4", n_jobs=1)
    assert found.evaluation.policy == "letor4"
    assert np.isfinite(found.scores).all()
    assert 0 < found.evaluation["map"] <= 1
    assert len(found.models) == 2


def test_the_models_given_stay_as_they_are_and_evaluations_can_be_compared() -> None:
    data = world()
    models = {"trees": podium.LambdaMART(n_estimators=5), "linear": podium.Linear(max_iter=10)}
    found = {name: cross_validate(model, data, folds=3) for name, model in models.items()}
    assert not hasattr(models["trees"], "forest_")
    compared = podium.compare({name: one.scores for name, one in found.items()}, data, metrics=["map"])
    assert len(compared.rows) == 1
    assert found["trees"].as_dict()["folds"][0]["queries"] == 8


@pytest.mark.parametrize("folds", [1, 0, -1, 2.5, True, 25])
def test_wrong_numbers_of_folds_are_refused(folds) -> None:
    with pytest.raises(ValueError, match="folds must be an integer from 2 to the number of queries, 24"):
        cross_validate(podium.Linear(), world(), folds=folds)


def test_one_score_per_row_is_no_base_model_of_folds() -> None:
    data = world()
    with pytest.raises(ValueError, match="Give a model that is not fitted as init"):
        cross_validate(podium.LambdaMART(init=np.zeros(data.n_rows)), data)
