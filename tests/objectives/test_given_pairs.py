"""Pairwise objectives on given pairs: the costs and derivatives of a double loop, whatever the pairs and weights."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from oracles import given_pair_cost

from podium.data.given_pairs import GivenPairs
from podium.objectives import parse_objective
from podium.objectives.base import BoundObjective
from podium.objectives.given_pairs import bind_pairs
from podium.objectives.pairwise import PairwiseObjective

OFFSETS = np.array([0, 5, 6, 13, 20])
LOSSES = {"ranknet": "logistic", "hinge": "hinge", "squared_hinge": "squared_hinge", "exponential": "exponential"}
OBJECTIVES = [*({"name": name} for name in LOSSES), {"name": "ranknet", "sigma": 1.7, "ties": True}]
OBJECTIVES += [{"name": name, "pair_exponent": 0.5} for name in ("ranknet", "hinge")]


def make(settings):
    return parse_objective(settings["name"], **{key: value for key, value in settings.items() if key != "name"})


def draw_pairs(rng, n=40):
    """Pairs of all queries but the second, which has one document, and the last, which has none given."""
    query = rng.choice([0, 2], n)
    i = OFFSETS[query] + rng.integers(0, 4, n)
    j = OFFSETS[query] + (i - OFFSETS[query] + 1 + rng.integers(0, 3, n)) % 5
    return i, j, rng.choice([0.0, 0.3, 0.5, 1.0], n), rng.choice([0.0, 1.0, 2.0], n)


def read(pairs):
    return GivenPairs.read(pairs, np.arange(20), OFFSETS)


def derivatives(bound, scores, queries=None):
    result = np.full((2, 20), np.nan, np.float32)
    bound.derivatives(scores, *result, queries=queries)
    return result


def expected_cost(settings, pairs, scores, weights, query_weights):
    i, j, p, w = pairs
    w = w / w[w > 0].mean()
    query = np.searchsorted(OFFSETS, i, side="right") - 1
    counted = np.bincount(query[(w > 0) & (weights[i] * weights[j] > 0)], minlength=4)
    factor = query_weights * np.maximum(counted, 1.0) ** -settings.get("pair_exponent", 0.0)
    w = w * weights[i] * weights[j] * factor[query]
    loss, slope = LOSSES[settings["name"]], settings.get("sigma", 1.0)
    return sum(given_pair_cost(loss, slope * (scores[a] - scores[b]), q, x) for a, b, q, x in zip(i, j, p, w))


@pytest.mark.parametrize("settings", OBJECTIVES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_costs_and_gradients_are_those_of_a_double_loop(rng, settings, weighted):
    pairs, scores = draw_pairs(rng), rng.standard_normal(20)
    weights = rng.choice([0.0, 1.0, 0.5], 20) if weighted else np.ones(20)
    query_weights = rng.random(4) + 0.5 if weighted else np.ones(4)
    bound = bind_pairs(make(settings), read(pairs), OFFSETS, weights, query_weights)
    slow = lambda s: expected_cost(settings, pairs, s, weights, query_weights)  # noqa: E731
    assert bound.loss(scores) == pytest.approx(slow(scores), rel=1e-12)
    gradients, hessians = derivatives(bound, scores)
    for row in range(20):
        step = np.eye(20)[row] * 1e-6
        assert gradients[row] == pytest.approx((slow(scores + step) - slow(scores - step)) / 2e-6, abs=2e-5)
    assert gradients.sum() == pytest.approx(0, abs=1e-5)
    assert (hessians >= 0).all()
    assert not gradients[13:].any()
    assert not hessians[13:].any()


@pytest.mark.parametrize("settings", OBJECTIVES[:-2], ids=str)  # a pair_exponent would count them as two
def test_a_pair_is_two_pairs_that_are_certain(rng, settings):
    i, j, p, w = draw_pairs(rng)
    certain = np.append(i, j), np.append(j, i), np.ones(80), np.append(p * w, (1 - p) * w)
    scores, total = rng.standard_normal(20), w[w > 0].mean()
    split = certain[3][certain[3] > 0].mean()
    one, two = (bind_pairs(make(settings), read(pairs), OFFSETS) for pairs in ((i, j, p, w), certain))
    assert one.loss(scores) * total == pytest.approx(two.loss(scores) * split, rel=1e-10)
    assert one.total_weight * total == pytest.approx(two.total_weight * split, rel=1e-10)
    np.testing.assert_allclose(derivatives(one, scores) * total, derivatives(two, scores) * split, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("pair_exponent", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_pairs_of_labels_cost_what_the_labels_cost(rng, name, pair_exponent, weighted):
    settings = {"name": name, "pair_exponent": pair_exponent}
    labels, scores = rng.integers(0, 3, 20).astype(float), rng.standard_normal(20)
    query = np.repeat(np.arange(4), np.diff(OFFSETS))
    i, j = np.nonzero((labels[:, None] > labels) & (query[:, None] == query))
    weights = {"weights": rng.random(20) + 0.5, "query_weights": rng.random(4) + 0.5} if weighted else {}
    by_labels = make(settings).bind(labels, OFFSETS, **weights)
    by_pairs = bind_pairs(make(settings), read((i, j)), OFFSETS, **weights)
    assert by_pairs.loss(scores) == pytest.approx(by_labels.loss(scores), rel=1e-6)
    assert by_pairs.total_weight == pytest.approx(by_labels.total_weight, rel=1e-12)
    np.testing.assert_allclose(derivatives(by_pairs, scores), derivatives(by_labels, scores), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", OBJECTIVES, ids=str)
def test_threads_order_and_other_queries_change_nothing(rng, settings):
    pairs, scores = draw_pairs(rng, 200), rng.standard_normal(20)
    whole = bind_pairs(make(settings), read(pairs), OFFSETS, n_jobs=1)
    expected = derivatives(whole, scores)
    many = bind_pairs(make(settings), read(pairs), OFFSETS, n_jobs=4)
    assert derivatives(many, scores).tobytes() == expected.tobytes()
    assert many.loss(scores) == whole.loss(scores)
    order = rng.permutation(200)
    mixed = bind_pairs(make(settings), read(tuple(part[order] for part in pairs)), OFFSETS)
    np.testing.assert_allclose(derivatives(mixed, scores), expected, atol=1e-5)
    partly = derivatives(whole, scores, np.array([2]))
    np.testing.assert_array_equal(partly[:, 6:13], expected[:, 6:13])
    assert np.isnan(partly[:, :6]).all()
    assert np.isnan(partly[:, 13:]).all()


@pytest.mark.parametrize("name", LOSSES)
def test_scores_that_are_far_apart_stay_finite(name):
    bound = bind_pairs(make({"name": name}), read(([0, 1], [1, 2], [1.0, 0.5])), OFFSETS)
    for scale in (1.0, -1.0):
        scores = np.zeros(20)
        scores[:3] = np.array([0.0, 1e4, -1e4]) * scale
        assert np.isfinite(bound.loss(scores))
        assert np.isfinite(derivatives(bound, scores)).all()


@dataclass(frozen=True)
class Own(PairwiseObjective):
    name: ClassVar[str] = "own"


@dataclass(frozen=True)
class OwnBinding(PairwiseObjective):
    name: ClassVar[str] = "own_binding"


class BoundOwn(BoundObjective, of=OwnBinding):
    pass


def test_a_pairwise_objective_that_binds_labels_in_its_own_way_refuses_pairs():
    assert Own().takes_pairs
    assert not OwnBinding().takes_pairs
    with pytest.raises(ValueError, match="objective 'own_binding' takes no pairs"):
        bind_pairs(OwnBinding(), read(([0], [1])), OFFSETS)


def test_objectives_of_labels_refuse_pairs():
    with pytest.raises(ValueError, match="objective 'lambda' takes no pairs; use a pairwise one"):
        bind_pairs(parse_objective("lambda"), read(([0], [1])), OFFSETS)
