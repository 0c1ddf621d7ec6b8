"""scikit-learn's own checks over every model; what cannot pass is a table in docs/sklearn.md, which does not grow."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from families import small_model
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from podium.data.sparse import as_dense
from podium.models.registry import MODELS

PAGE = Path(__file__).parents[2] / "docs" / "sklearn.md"
SLOW = ("SelfAttentionRanker",)  # every length of a list is a program of its own
MOST_EXCEPTIONS = 35  # of a check and a model: fewer is better


class FirstFeature(BaseEstimator):
    """A base model for data of any width: the first feature, 0 where it is missing."""

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.nan_to_num(as_dense(X[:, [0]])[:, 0].astype(np.float64))

    def __sklearn_is_fitted__(self):
        return True


def exceptions():
    """Rows of the table: (check, model, reason)."""
    lines = PAGE.read_text().partition("| check | fails for |")[2].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    return [(check.strip("`"), name.strip(), why) for check, names, why in cells for name in names.split(",")]


def make(name):
    return small_model(name, **({"init": FirstFeature()} if name == "LambdaSMART" else {}))


def checks_of(model):
    return {getattr(check, "func", check).__name__ for _, check in estimator_checks_generator(model)}


@pytest.mark.filterwarnings("ignore:.*does not inherit from `sklearn.base.BaseEstimator`")  # importing it takes long
def test_each_exception_is_of_a_model_and_a_check_that_it_has_and_has_a_reason():
    listed = exceptions()
    assert max(Counter((check, name) for check, name, _ in listed).values()) == 1
    assert all(name in MODELS and len(why) > 5 for _, name, why in listed)
    assert not [(check, name) for check, name, _ in listed if check not in checks_of(make(name))]


def test_there_are_no_more_exceptions():
    assert len(exceptions()) == MOST_EXCEPTIONS


@pytest.mark.filterwarnings("ignore")  # checks fit on one query, on few rows, and for few rounds
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]
)
def test_scikit_learn_accepts_the_model_but_for_the_listed_exceptions(name):
    listed = {check: why for check, model, why in exceptions() if model == name}
    results = check_estimator(make(name), expected_failed_checks=listed, on_skip=None, on_fail=None)
    failed = [(one["check_name"], str(one["exception"])) for one in results if one["status"] == "failed"]
    assert failed == []
    passed_after_all = {one["check_name"] for one in results if one["expected_to_fail"] and one["status"] == "passed"}
    assert passed_after_all == set()
    assert len(results) > 40
