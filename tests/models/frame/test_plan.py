"""Plans: what a model of one's own defines is public, and everything else is the frame's."""

import numpy as np
import pytest

import podium
from podium.learners import Learner
from podium.models import FittedState, Ranker, TrainingPlan, parameter, parametrized
from podium.pipelines.ensembles.training import MembersTraining

X, Y, QID = np.arange(120.0).reshape(60, 2) % 7, np.arange(60) % 3, np.arange(60) // 10


class Nearest:
    """A learner of one number: the feature that is added to the score, by its number."""

    def __init__(self, rows):
        self.rows, self.n_steps, self.is_done, self.followed, self.data = rows, 0, False, [], []

    def step(self):
        self.n_steps += 1
        self.followed = [data.X[:, self.n_steps % 2].astype(float) for data in self.data]

    def follow(self, data, offset):
        self.data.append(data)
        self.followed.append(np.zeros(data.n_rows) + offset)

    def snapshot(self):
        return self.n_steps

    def keep(self, snapshot):
        self.n_steps = snapshot


@parametrized
class OneFeature(Ranker):
    """The score is a feature."""

    n_rounds: int = parameter(3, "Number of rounds.", low=1, high=10)

    def training_plan(self):
        return TrainingPlan(Nearest, self.keep_number, n_steps=self.n_rounds, target_metric="map")

    def keep_number(self, learner):
        self.number_ = learner.n_steps % 2

    def score_columns(self, X, queries):
        return X[:, self.number_].astype(float)

    def fitted_state(self):
        return FittedState({"number": self.number_})


def test_a_plan_and_a_score_are_all_that_a_model_defines():
    model = OneFeature().fit(X, Y, QID, eval_set=(X, Y, QID))
    np.testing.assert_array_equal(model.predict(X), X[:, 1])
    assert list(model.evals_["eval_0"]) == ["map"]
    assert len(model.evals_["eval_0"]["map"]) == model.best_iteration_ == 3
    best = OneFeature(transform=("raw", "zscore")).fit(X, Y, QID, eval_set=(X, Y, QID), early_stopping_rounds=1)
    assert best.best_iteration_ <= 2
    assert best.column_names_ == ("feature 1", "feature 2", "zscore(feature 1)", "zscore(feature 2)")


def test_nothing_that_a_model_overrides_is_private():
    assert not [name for name in vars(Ranker) if name.startswith("_") and not name.startswith("__")]


def test_the_chain_of_classes_of_a_model_is_short():
    assert len(podium.LambdaMART.__mro__) <= 15


@pytest.mark.parametrize("name", ["step", "follow", "snapshot", "keep", "state", "checked_steps", "restore"])
def test_an_ensemble_in_training_is_a_learner_like_any_other(name):
    assert getattr(MembersTraining, name).__code__.co_varnames[:2] == getattr(Learner, name).__code__.co_varnames[:2]
