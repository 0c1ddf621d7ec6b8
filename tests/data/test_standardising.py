"""Standardisation: one fit and one apply, for every model that has means and scales."""

import numpy as np
import pytest

import podium
from podium.data.standardising import Standardisation
from podium.learners.net.scoring import Inputs


def rows():
    return np.random.default_rng(5).lognormal(1.0, 2.0, (300, 4)).astype(np.float32)


def test_mean_and_deviation_leave_missing_values_out():
    scaling = Standardisation.fit(np.array([[1, 5], [np.nan, 5], [3, 5]], np.float32))
    np.testing.assert_array_equal(scaling.centre, [(1 + 3) / 2, 5])
    np.testing.assert_array_equal(scaling.scale, [1, 1])  # a constant has scale 1
    np.testing.assert_array_equal(scaling.apply(np.array([[4.0, 7.0]])), [[4 - 2, 7 - 5]])


def test_a_row_of_weight_2_counts_as_two_rows():
    X = np.array([[0.0], [3.0], [9.0]], np.float32)
    weighted, repeated = Standardisation.fit(X, np.array([1.0, 2.0, 0.0])), Standardisation.fit(X[[0, 1, 1]])
    assert (weighted.centre[0], weighted.scale[0]) == (repeated.centre[0], repeated.scale[0]) == (2.0, 2**0.5)


def test_without_values_or_weights_nothing_is_scaled():
    for scaling in (
        Standardisation.fit(np.empty((0, 2), np.float32)),
        Standardisation.fit(np.full((3, 2), np.nan, np.float32)),
        Standardisation.fit(np.ones((3, 2), np.float32), np.zeros(3)),
    ):
        np.testing.assert_array_equal(scaling.apply(np.array([[4.0, -1.0]])), [[4.0, -1.0]])


def test_no_order_of_the_rows_changes_a_bit():
    X = rows()
    one, other = Standardisation.fit(X), Standardisation.fit(X[::-1].copy())
    assert one.centre.tobytes() == other.centre.tobytes()
    assert one.scale.tobytes() == other.scale.tobytes()


def test_weights_of_standardised_features_become_weights_of_features():
    scaling, weights = Standardisation(np.array([1.0, 2.0]), np.array([2.0, 4.0])), np.array([3.0, 8.0])
    raw, shift = scaling.unscaled(weights)
    x = np.array([5.0, 7.0])
    assert raw @ x - shift == weights @ scaling.apply(x) == 3 * (5 - 1) / 2 + 8 * (7 - 2) / 4


@pytest.mark.parametrize("model", ["linear", "basis", "net", "estimator", "transform"])
def test_all_models_have_the_same_means_and_scales(model):
    X, qid = rows(), np.repeat(np.arange(30), 10)
    y = (X[:, 0] > np.median(X[:, 0])).astype(float)
    expected = Standardisation.fit(X)
    if model == "linear":
        centre, scale = podium.Linear(max_iter=2).fit(X, y, qid=qid).feature_means_, expected.scale
    elif model == "basis":
        scaling = podium.Linear(basis="gaussian", n_centres=3, max_iter=2).fit(X, y, qid=qid).basis_.scaling
        centre, scale = scaling.centre, scaling.scale
    elif model == "net":
        centre, scale = Inputs.of(X).centre, Inputs.of(X).scale
    elif model == "estimator":
        scaling = podium.Pointwise("svr").fit(X, y, qid=qid).scaling_
        centre, scale = scaling.centre, scaling.scale
    else:
        transform = podium.Linear(transform=("standard",), max_iter=2).fit(X, y, qid=qid).transform_
        centre, scale = transform.centre, transform.scale
    assert centre.tobytes() == expected.centre.tobytes()
    assert scale.tobytes() == expected.scale.tobytes()
