"""Pointwise objectives: their formulas and where they start."""

import math

import numpy as np
import pytest

from podium.objectives import Logistic, Ordinal, Squared


def derivatives(bound, scores):
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    bound.derivatives(np.asarray(scores, dtype=float), g, h)
    return g, h


def test_squared_error_wants_the_label():
    g, h = derivatives(Squared().bind([3.0, 1.0], [0, 2], weights=[1.0, 2.0]), [1.0, 1.5])
    np.testing.assert_array_equal(g, [1 - 3, 2 * (1.5 - 1)])
    np.testing.assert_array_equal(h, [1, 2])


def test_squared_error_starts_at_the_mean_of_the_notes_seventeen_points():
    labels = [1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4]
    assert Squared().bind(labels, [0, 17]).start() == pytest.approx(42 / 17)
    assert Squared().bind([1.0, 5.0], [0, 1, 2], weights=[1, 3]).start() == 4.0
    assert Squared().bind([1.0, 5.0], [0, 1, 2], query_weights=[3, 1]).start() == 2.0


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_logistic_newton_leaf_is_that_of_the_notes(alpha, rng):
    scores, labels = rng.standard_normal(9), rng.integers(0, 3, 9).astype(float)
    g, h = derivatives(Logistic(alpha=alpha).bind(labels, [0, 9]), scores)
    y = np.where(labels >= 1, 1, -1)
    r = 2 * alpha * y / (1 + np.exp(2 * alpha * y * scores))
    np.testing.assert_allclose(-g, r, rtol=1e-6)
    np.testing.assert_allclose(h, np.abs(r) * (2 * alpha - np.abs(r)), rtol=1e-6)
    assert -g.sum() / h.sum() == pytest.approx(r.sum() / (np.abs(r) * (2 * alpha - np.abs(r))).sum(), rel=1e-5)


def test_logistic_starts_where_its_gradients_cancel():
    bound = Logistic(alpha=2.0, relevant=2.0).bind([0.0, 1, 2, 3, 0, 0], [0, 6])
    assert bound.start() == pytest.approx(math.log(2 / 4) / (2 * 2.0))
    assert derivatives(bound, np.full(6, bound.start()))[0].sum() == pytest.approx(0, abs=1e-6)
    only = Logistic().bind([1.0, 1.0], [0, 2])
    assert 5 < only.start() < 20  # far up, and finite


def test_ordinal_is_the_proportional_odds_model():
    thresholds = [-1.0, 0.5]
    bound = Ordinal(thresholds).bind([0.0, 1.0, 2.0], [0, 3])
    for scores in ([0.3, -0.2, 1.7], [4.0, 4.0, -4.0]):
        below = [[1 / (1 + math.exp(s - t)) for t in thresholds] for s in scores]
        shares = [below[0][0], below[1][1] - below[1][0], 1 - below[2][1]]
        assert bound.loss(np.array(scores)) == pytest.approx(-sum(math.log(share) for share in shares))


def test_ordinal_thresholds_are_the_log_odds_of_the_grades():
    bound = Ordinal().bind([0.0, 0, 0, 0, 0, 1, 1, 2], [0, 8])
    np.testing.assert_allclose(bound.thresholds, [math.log(5 / 3), math.log(7 / 1)])
    assert bound.start() == pytest.approx(0, abs=1e-9)
    assert derivatives(bound, np.zeros(8))[0].sum() == pytest.approx(0, abs=1e-6)


def test_ordinal_with_given_thresholds_starts_where_its_gradients_cancel():
    bound = Ordinal([3.0, 4.0]).bind([0.0, 0, 0, 1, 2], [0, 5])
    assert derivatives(bound, np.full(5, bound.start()))[0].sum() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("weights", [(1, 1, 1), (5, 1, 2), (1, 0, 1e-9), (1e6, 1, 0), (1, 0, 0), (0, 0, 1), (0, 1, 0)])
def test_ordinal_starts_where_a_slow_search_does(weights):
    """Also where all weight is on an outer grade, and no constant is best."""
    thresholds = [-0.5, 2.0]
    bound = Ordinal(thresholds).bind([0.0, 1.0, 2.0], [0, 3], weights=weights)
    low, high = -0.5 - 40, 2.0 + 40
    for _ in range(100):
        middle = (low + high) / 2
        below = [1 / (1 + math.exp(t - middle)) for t in thresholds]
        down = weights[0] * below[0] + weights[1] * below[1]
        up = weights[1] * (1 - below[0]) + weights[2] * (1 - below[1])
        low, high = (low, middle) if down > up else (middle, high)
    assert bound.start() == pytest.approx(low, rel=1e-12, abs=1e-12)


def test_ordinal_keeps_its_thresholds_apart_when_a_grade_has_no_weight():
    bound = Ordinal().bind([0.0, 1.0, 2.0], [0, 3], weights=[1.0, 0.0, 1.0])
    assert np.diff(bound.thresholds).min() > 0
    assert np.isfinite(bound.loss(np.zeros(3)))


def test_one_grade_has_nothing_to_learn():
    for objective in (Ordinal(), Ordinal([])):
        bound = objective.bind([2.0, 2.0], [0, 2])
        np.testing.assert_array_equal(derivatives(bound, [1.0, -1.0]), 0.0)
        assert bound.start() == 0.0
        assert bound.loss(np.array([1.0, -1.0])) == 0.0


def test_wrong_settings_and_labels_are_answered():
    with pytest.raises(ValueError, match="alpha must be a positive number; got -1"):
        Logistic(alpha=-1)
    with pytest.raises(ValueError, match="must be finite and rise"):
        Ordinal([1.0, 1.0])
    with pytest.raises(ValueError, match="3 grades need 2 thresholds; got 1"):
        Ordinal([1.0]).bind([0.0, 1.0, 2.0], [0, 3])
    with pytest.raises(ValueError, match="at most 255 different labels; found 300"):
        Ordinal().bind(np.arange(300.0), [0, 300])
