"""Pairwise objectives against double loops and the numbers of the notes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from oracles import even_derivatives, pair_derivatives

from podium.objectives import Exponential, Hinge, RankNet, SquaredHinge
from podium.objectives.pair_losses import STEEPEST, exp32


def derivatives(objective, scores, labels, offsets=None, **weights):
    offsets = [0, len(scores)] if offsets is None else offsets
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    objective.bind(labels, offsets, **weights).derivatives(np.array(scores, dtype=float), g, h)
    return g, h


def rho(o, sigma=1.0):
    return 1 / (1 + math.exp(sigma * o))


FORMULAS = {
    RankNet(): (lambda o: -rho(o), lambda o: rho(o) * (1 - rho(o))),
    RankNet(sigma=2.5): (lambda o: -2.5 * rho(o, 2.5), lambda o: 2.5**2 * rho(o, 2.5) * (1 - rho(o, 2.5))),
    Hinge(): (lambda o: -1.0 * (o < 1), lambda o: 1.0 * (o < 1)),
    SquaredHinge(): (lambda o: -2 * max(0, 1 - o), lambda o: 2.0 * (o < 1)),
    Exponential(): (lambda o: -math.exp(-o), lambda o: math.exp(-o)),
}


@pytest.mark.parametrize("objective", FORMULAS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 8, 9, 40])
def test_derivatives_equal_the_double_loop(objective, n, rng):
    scores, labels, weights = rng.standard_normal(n), rng.integers(0, 4, n).astype(float), rng.random(n)
    for given in (None, weights):
        expected = pair_derivatives(scores, labels, *FORMULAS[objective], given)
        found = derivatives(objective, scores, labels, weights=given)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_pairs_of_equal_labels_pull_together_when_asked(rng):
    scores, labels = rng.standard_normal(20), rng.integers(0, 3, 20).astype(float)
    pairs, even = pair_derivatives(scores, labels, *FORMULAS[RankNet()]), even_derivatives(scores, labels)
    found = derivatives(RankNet(ties=True), scores, labels)
    np.testing.assert_allclose(found, np.add(pairs, even), rtol=1e-5, atol=1e-5)
    g, _ = derivatives(RankNet(ties=True), [1.0, 0.0], [2.0, 2.0])
    assert g[0] > 0 > g[1]


def test_a_predicted_probability_of_one_fifth_and_target_one_give_minus_four_fifths():
    o = math.log(0.2 / 0.8)  # 1 / (1 + exp(-o)) = 0.2
    g, h = derivatives(RankNet(), [o, 0.0], [1.0, 0.0])
    np.testing.assert_allclose(g, [-0.8, 0.8], rtol=1e-6)
    np.testing.assert_allclose(h, 0.2 * 0.8, rtol=1e-6)


def test_the_derivative_of_an_even_pair_in_the_notes():
    g, _ = derivatives(RankNet(sigma=1.7, ties=True), [0.37, 0.0], [1.0, 1.0])
    assert g[0] == pytest.approx(1.7 * (0.5 - rho(0.37, 1.7)), rel=1e-6)
    assert g[0] == pytest.approx(0.2588, abs=5e-5)
    assert g[1] == -g[0]


def test_labels_four_three_two_one_make_six_pairs():
    _, h = derivatives(Hinge(), [0.0] * 4, [4.0, 3.0, 2.0, 1.0])
    assert h.sum() / 2 == 6  # each pair is inside the margin and counts 1 for both


def test_queries_are_never_paired(rng):
    scores, labels = rng.standard_normal(6), np.array([0.0, 0, 0, 4, 4, 4])
    assert not derivatives(RankNet(), scores, labels, [0, 3, 6])[0].any()


def test_the_exponential_loss_goes_on_as_a_line():
    bound = Exponential().bind([1.0, 0.0], [0, 2])
    at = bound.loss(np.array([-STEEPEST, 0.0]))
    assert bound.loss(np.array([-STEEPEST - 2, 0.0])) == pytest.approx(3 * at)
    g, _ = derivatives(Exponential(), [-1e6, 0.0], [1.0, 0.0])
    assert g[0] == pytest.approx(-math.exp(STEEPEST), rel=1e-5)


def test_a_long_list_is_summed_without_storing_pairs(rng):
    n = 3_000
    scores, labels = rng.standard_normal(n), rng.integers(0, 2, n).astype(float)
    g, _ = derivatives(Hinge(), scores, labels)
    bad = np.sort(scores[labels == 0])
    best = int(np.argmax(labels))  # the first relevant document
    assert -g[best] == len(bad) - np.searchsorted(bad, np.float32(scores[best]) - 1, side="right")


def test_exp_is_good_to_two_ten_millionths():
    x = np.linspace(-86, 86, 4001).astype(np.float32)
    found = np.array([exp32(value) for value in x], dtype=float)
    np.testing.assert_allclose(found, np.exp(x.astype(float)), rtol=1e-5)  # the argument's own rounding, times 86
    near = np.linspace(-1, 1, 2001).astype(np.float32)
    found = np.array([exp32(value) for value in near], dtype=float)
    np.testing.assert_allclose(found, np.exp(near.astype(float)), rtol=2.5e-7)


def test_hessians_of_badly_ordered_pairs_keep_their_digits():
    for o in (-3.0, -10.0, -20.0, 20.0):
        _, h = derivatives(RankNet(), [o, 0.0], [1.0, 0.0])
        assert h[0] == pytest.approx(1 / (2 + math.exp(o) + math.exp(-o)), rel=1e-5)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("kind", [RankNet, Hinge, SquaredHinge, Exponential])
def test_a_query_counts_by_a_power_of_its_number_of_pairs(kind, exponent, rng):
    """Against counting in a double loop; of three queries, one has no pair."""
    offsets, scores = [0, 5, 8, 20], rng.standard_normal(20)
    labels = np.concatenate([rng.integers(0, 3, 5), [1, 1, 1], rng.integers(0, 5, 12)]).astype(float)
    plain = derivatives(kind(), scores, labels, offsets)
    factors = np.ones(20)
    for start, stop in pairwise(offsets):
        own = labels[start:stop]
        n_pairs = sum(a > b for a in own for b in own)
        factors[start:stop] = n_pairs**-exponent if n_pairs else 1.0
    found = derivatives(kind(pair_exponent=exponent), scores, labels, offsets)
    np.testing.assert_allclose(found, plain * factors, rtol=1e-6)


def test_the_total_weight_of_pairs_is_the_sum_of_their_products(rng):
    offsets, labels, weights = [0, 6, 6, 9], rng.integers(0, 3, 9).astype(float), rng.random(9)
    different, equal = 0.0, 0.0
    for factor, start, stop in ((2.0, 0, 6), (5.0, 6, 9)):
        for i in range(start, stop):
            for j in range(start, i):
                both = factor * weights[i] * weights[j]
                different += both * (labels[i] != labels[j])
                equal += both * (labels[i] == labels[j])
    given = {"weights": weights, "query_weights": [2.0, 3.0, 5.0]}
    assert RankNet().bind(labels, offsets, **given).total_weight == pytest.approx(different)
    assert RankNet(ties=True).bind(labels, offsets, **given).total_weight == pytest.approx(different + equal)


@pytest.mark.parametrize("wrong", [-0.1, 1.5, True, "1", np.nan])
def test_an_exponent_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="hinge: pair_exponent must be a number from 0 to 1; got"):
        Hinge(pair_exponent=wrong)
