"""Listwise objectives against double loops and sums over all orders."""

import numpy as np
import pytest
from oracles import (
    METRIC_ORACLES,
    approx_ndcg,
    cross_entropy_derivatives,
    expected_metric,
    list_mle_derivatives,
    softmax,
)

from podium._runtime.random import stream_of, uniform
from podium.objectives import XENDCG, ApproxNDCG, BayesRank, ListMLE, ListNet, QueryRMSE


def derivatives(bound, scores):
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    bound.derivatives(np.asarray(scores, dtype=float), g, h)
    return g, h


def slopes(function, scores, step=1e-5):
    moves = step * np.eye(len(scores))
    return np.array([function(scores + move) - function(scores - move) for move in moves]) / (2 * step)


def test_listnet_equals_the_plain_loop(rng):
    scores, labels = rng.standard_normal(9), rng.integers(0, 4, 9).astype(float)
    expected = cross_entropy_derivatives(scores, softmax(labels))
    np.testing.assert_allclose(derivatives(ListNet().bind(labels, [0, 9]), scores), expected, atol=1e-6)


def test_smoothing_mixes_the_target_with_an_even_one(rng):
    scores, labels = rng.standard_normal(9), rng.integers(0, 4, 9).astype(float)
    smooth = [0.7 * share + 0.3 / 9 for share in softmax(labels)]
    found = derivatives(ListNet(smoothing=0.3).bind(labels, [0, 9]), scores)
    np.testing.assert_allclose(found, cross_entropy_derivatives(scores, smooth), atol=1e-6)
    gains = [2**label - 0.5 for label in labels]
    smooth = [0.7 * gain / sum(gains) + 0.3 / 9 for gain in gains]
    found = derivatives(XENDCG(seed=None, smoothing=0.3).bind(labels, [0, 9]), scores)
    np.testing.assert_allclose(found, cross_entropy_derivatives(scores, smooth), atol=1e-6)
    with pytest.raises(ValueError, match="xendcg: smoothing must be a number from 0 to 1; got 2"):
        XENDCG(smoothing=2)


def test_query_rmse_is_squared_error_after_both_means_are_taken_off(rng):
    scores, labels, weights = rng.standard_normal(9), rng.integers(0, 4, 9).astype(float), rng.random(9)
    bound = QueryRMSE().bind(labels, [0, 4, 9], weights=weights, query_weights=[1.0, 2.0])
    g, _ = derivatives(bound, scores)
    loss = 0.0
    for factor, own in ((1.0, slice(0, 4)), (2.0, slice(4, 9))):
        w = weights[own]
        residual = scores[own] - np.average(scores[own], weights=w) - labels[own] + np.average(labels[own], weights=w)
        np.testing.assert_allclose(g[own], factor * w * residual, atol=1e-6)
        loss += factor * np.sum(w * residual**2) / 2
    assert bound.loss(scores) == pytest.approx(loss)


def test_listmle_equals_the_plain_loop(rng):
    for labels in (rng.integers(0, 4, 9).astype(float), rng.permutation(9).astype(float), np.zeros(9)):
        scores = rng.standard_normal(9)
        found = derivatives(ListMLE().bind(labels, [0, 9]), scores)
        np.testing.assert_allclose(found, list_mle_derivatives(scores, labels), atol=1e-6)


def test_listmle_of_different_labels_is_the_likelihood_of_their_order():
    scores, labels = np.array([0.3, -1.0, 0.7]), np.array([1.0, 0.0, 2.0])  # chosen: third, first, second
    first, second = softmax([0.7, 0.3, -1.0])[0], softmax([0.3, -1.0])[0]
    assert ListMLE().bind(labels, [0, 3]).loss(scores) == pytest.approx(-np.log(first) - np.log(second))


def test_likelihoods_survive_gaps_of_ten_thousand():
    scores, labels = np.array([-1e4, 0.0, 1e4, -1e4]), np.array([3.0, 2.0, 1.0, 0.0])
    bound = ListMLE().bind(labels, [0, 4])
    # Chosen in turn: -1e4 against 1e4, 0 against 1e4, 1e4 against -1e4.
    assert bound.loss(scores) == pytest.approx(2e4 + 1e4 + 0.0)
    g, h = derivatives(bound, scores)
    np.testing.assert_allclose(g, [-1.0, -1.0, 1 + 1 + 1 - 1, 0.0], atol=1e-6)
    np.testing.assert_allclose(h, 0.0, atol=1e-6)


def test_a_long_list_of_different_labels(rng):
    n = 20_000
    scores, labels = 3 * rng.standard_normal(n), rng.permutation(n).astype(float)
    g, h = derivatives(ListMLE().bind(labels, [0, n]), scores)
    assert np.isfinite(g).all()
    assert abs(g.sum(dtype=float)) < 1e-5 * np.abs(g).sum(dtype=float)
    assert (h >= 0).all()


def test_xendcg_without_a_draw_equals_the_plain_loop(rng):
    scores, labels = rng.standard_normal(9), rng.integers(0, 4, 9).astype(float)
    targets = (2**labels - 0.5) / (2**labels - 0.5).sum()
    found = derivatives(XENDCG(seed=None).bind(labels, [0, 9]), scores)
    np.testing.assert_allclose(found, cross_entropy_derivatives(scores, targets), atol=1e-6)


def test_xendcg_draws_anew_in_every_iteration_and_the_same_again_for_the_same(rng):
    scores, labels, offsets = rng.standard_normal(9), rng.integers(0, 4, 9).astype(float), [0, 4, 9]
    bound, other = XENDCG(seed=7).bind(labels, offsets), XENDCG(seed=7).bind(labels, offsets)
    first = derivatives(bound, scores)[0]
    bound.begin(5)
    fifth = derivatives(bound, scores)[0]
    assert np.abs(first - fifth).min() > 0
    other.begin(3)
    other.begin(5)
    np.testing.assert_array_equal(fifth, derivatives(other, scores)[0])
    bound.begin(0)
    np.testing.assert_array_equal(first, derivatives(bound, scores)[0])
    assert np.any(first != derivatives(XENDCG(seed=8).bind(labels, offsets), scores)[0])


def test_draws_are_even_and_independent_of_each_other():
    values = np.array([uniform(stream_of(3, k), j) for k in range(50) for j in range(100)])
    assert 0 < values.min() < 0.001
    assert 0.999 < values.max() < 1
    np.testing.assert_allclose(np.histogram(values, 10, (0, 1))[0], 500, atol=100)
    table = values.reshape(50, 100)
    assert np.abs(np.corrcoef(table) - np.eye(50)).max() < 0.5


@pytest.mark.parametrize("n", [2, 5, 9, 40])
def test_approxndcg_equals_the_plain_loop(n, rng):
    scores, labels = rng.standard_normal(n), rng.permutation(np.resize([0.0, 1, 2, 3], n))
    bound = ApproxNDCG(alpha=1.5).bind(labels, [0, n])
    assert bound.loss(scores) == pytest.approx(1 - approx_ndcg(scores, labels, 1.5))
    expected = -slopes(lambda s: approx_ndcg(s, labels, 1.5), scores)
    np.testing.assert_allclose(derivatives(bound, scores)[0], expected, rtol=1e-4, atol=1e-6)


def test_approxndcg_comes_to_ndcg_as_alpha_grows(rng):
    scores, labels = rng.permutation(12).astype(float), rng.integers(0, 4, 12).astype(float)
    value = METRIC_ORACLES["ndcg"]([labels[row] for row in np.argsort(-scores)])
    assert ApproxNDCG(alpha=50).bind(labels, [0, 12]).loss(scores) == pytest.approx(1 - value)


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@2", "dcg@1", "rbp", "p@2"])
def test_bayesrank_is_exact_on_short_lists(metric, rng):
    name, _, cutoff = metric.partition("@")
    for n in (2, 3, 4):
        scores, labels = rng.standard_normal(n), rng.permutation(np.arange(n) * 1.0)

        def expected(s, labels=labels):
            return expected_metric(s, labels, lambda r: METRIC_ORACLES[name](r, int(cutoff) if cutoff else None))

        bound = BayesRank(metric).bind(labels, [0, n])
        assert bound.loss(scores) == pytest.approx(1 - expected(scores))
        np.testing.assert_allclose(derivatives(bound, scores)[0], -slopes(expected, scores), atol=1e-6)


@pytest.mark.parametrize("metric", ["ndcg@2", "ndcg"])
def test_bayesrank_of_longer_lists_is_right_on_average(metric):
    rng = np.random.default_rng(1)
    scores, labels = rng.standard_normal(6), np.array([0.0, 2, 1, 0, 3, 1])
    cutoff = 2 if "@" in metric else None

    def expected(s):
        return expected_metric(s, labels, lambda ranked: METRIC_ORACLES["ndcg"](ranked, cutoff))

    bound = BayesRank(metric, samples=50_000).bind(labels, [0, 6])
    far = np.concatenate([scores[:5], [-5000.0]])  # a document that is always last, and another way to draw
    assert bound.loss(far) == pytest.approx(1 - expected(far), abs=2e-3)
    np.testing.assert_allclose(derivatives(bound, far)[0], -slopes(expected, far, 1e-4), atol=2e-3)
    assert bound.loss(scores) == pytest.approx(1 - expected(scores), abs=2e-3)
    np.testing.assert_allclose(derivatives(bound, scores)[0], -slopes(expected, scores, 1e-4), atol=2e-3)


def test_bayesrank_draws_depend_on_seed_and_iteration_alone(rng):
    scores, labels = rng.standard_normal(30), rng.integers(0, 4, 30).astype(float)
    bound = BayesRank(seed=2).bind(labels, [0, 30])
    first = derivatives(bound, scores)[0]
    np.testing.assert_array_equal(first, derivatives(bound, scores)[0])
    bound.begin(1)
    assert np.any(first != derivatives(bound, scores)[0])
    bound.begin(0)
    np.testing.assert_array_equal(first, derivatives(bound, scores)[0])


def test_descending_each_listwise_gradient_sorts_the_list(rng):
    labels = rng.permutation(np.resize([0.0, 1, 2, 3], 12))
    for objective in (ListNet(), ListMLE(), XENDCG(), ApproxNDCG(alpha=1.0), BayesRank("ndcg")):
        bound, scores = objective.bind(labels, [0, 12]), 0.1 * rng.standard_normal(12)
        for iteration in range(300):
            bound.begin(iteration)
            g, h = derivatives(bound, scores)
            scores -= 0.2 * g / (h + 0.02)
        reached = METRIC_ORACLES["ndcg"]([labels[row] for row in np.argsort(-scores)])
        assert reached > 0.97, objective


def test_wrong_settings_and_labels_are_answered():
    for objective, words in (
        (lambda: XENDCG(seed=-1), "seed must be an integer"),
        (lambda: XENDCG(gain="cubic"), "exponential"),
        (lambda: XENDCG().bind([0.0, -1.0], [0, 2]), "xendcg: labels must not be negative"),
        (lambda: XENDCG().bind([0.0, 40.0], [0, 2]), 'gain="linear"'),
        (lambda: ApproxNDCG(alpha=0), "alpha must be a positive number"),
        (lambda: BayesRank("map"), "does not add up over places"),
        (lambda: BayesRank(samples=0), "samples must be a positive number"),
        (lambda: BayesRank(seed=None), "seed must be an integer"),
    ):
        with pytest.raises(ValueError, match=words):
            objective()
