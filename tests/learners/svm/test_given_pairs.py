"""Sums over given pairs: equal to the loop over them, and to those of label pairs where they are the same pairs."""

import numpy as np
import pytest
from oracles import hinge_violations, preference_pairs

from podium.learners.svm.given_pairs import GivenMargins
from podium.learners.svm.pairs import Pairs
from podium.learners.svm.scatter import scatter

SCALINGS = ("pairs", "mean_pairs", "mean_queries")


def draw(rng, n_queries=6, per_query=9):
    """(better, worse, weight, starts) of pairs drawn at random: repeated, cyclic and of weight 0; offsets, query, n."""
    sizes = rng.integers(2, 12, n_queries)
    offsets, n = np.concatenate([[0], np.cumsum(sizes)]), int(sizes.sum())
    counts = rng.integers(0, per_query, n_queries)
    counts[1] = 0
    better, worse = [], []
    for q, count in enumerate(counts):
        for _ in range(count):
            i, j = rng.permutation(sizes[q])[:2] + offsets[q]
            better.append(i)
            worse.append(j)
    weight = rng.choice([0.0, 0.25, 1.0, 3.0], len(better))
    starts = np.concatenate([[0], np.cumsum(counts)])
    return (np.array(better), np.array(worse), weight, starts), np.repeat(np.arange(n_queries), sizes), n


def pairs_of_labels(labels, query):
    pairs = sorted(preference_pairs(labels, query), key=lambda pair: query[pair[0]])
    better, worse = (np.array(side, np.int64) for side in zip(*pairs))
    starts = np.searchsorted(query[better], np.arange(query.max() + 2))
    return better, worse, np.ones(len(pairs)), starts


@pytest.mark.parametrize("width", [np.inf, 1.0, 0.05])
@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 1000.0])
def test_sums_equal_those_of_the_loop_over_pairs(rng, width, spread):
    for _ in range(5):
        directed, query, n = draw(rng)
        weights, query_weights = rng.choice([0.0, 0.5, 1.0, 2.5], n), rng.uniform(0.5, 2.0, 6)
        scores, values = spread * rng.standard_normal(n), rng.standard_normal(n)
        found = GivenMargins(directed, weights, query_weights).violations(scores, width)
        pairs = list(zip(*directed[:2]))
        costs = [w * weights[i] * weights[j] * query_weights[query[i]] for (i, j), w in zip(pairs, directed[2])]
        counting = [(pair, cost) for pair, cost in zip(pairs, costs) if cost > 0]  # a margin of no weight is none
        pairs, costs = [pair for pair, _ in counting], [cost for _, cost in counting]
        loss, slack, duals, margin, gradient, hessian = hinge_violations(scores, pairs, costs, width)
        np.testing.assert_allclose((found.loss, found.slack, found.dual_sum), (loss, slack, duals), rtol=1e-9)
        np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.curvature.multiply(values), np.array(hessian) @ values, atol=1e-9)
        assert found.margin == pytest.approx(margin, abs=1e-9)
        inside = [0 < 1 - (scores[i] - scores[j]) < width for i, j in pairs]
        assert found.curvature.share == pytest.approx(sum(inside) / max(len(inside), 1))


@pytest.mark.parametrize("scaling", SCALINGS)
def test_pairs_of_labels_given_one_by_one_have_the_sums_of_the_labels(rng, scaling):
    query = np.sort(rng.integers(0, 6, 50))
    query[-1] = 5
    offsets = np.searchsorted(query, np.arange(7))
    labels, weights, query_weights = rng.integers(0, 4, 50), rng.choice([0.0, 0.5, 2.0], 50), rng.uniform(0.5, 2, 6)
    labels[query == 2] = 1  # a query without pairs
    common = weights, query_weights, scaling
    by_labels = Pairs(labels.astype(float), offsets, *common)
    by_pairs = GivenMargins(pairs_of_labels(labels, query), *common)
    scores, values = rng.standard_normal((2, 50))
    for width in (np.inf, 0.3):
        expected, found = by_labels.violations(scores, width), by_pairs.violations(scores, width)
        for name in ("loss", "slack", "dual_sum", "margin"):
            assert getattr(found, name) == pytest.approx(getattr(expected, name))
        np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-9)
        curved = expected.curvature.multiply(values)
        np.testing.assert_allclose(found.curvature.multiply(values), curved, atol=1e-9)


def test_scalings_divide_by_the_weights_of_pairs_or_by_those_of_each_query_and_the_queries(rng):
    """Scores of 0 give every pair a slack of 1, so that a mean of slacks is 1 and their sum that of the weights."""
    better, worse, starts = np.array([0, 0, 3]), np.array([1, 2, 4]), np.array([0, 2, 3, 3])
    directed = better, worse, np.array([1.0, 3.0, 2.0]), starts
    slack = {scaling: GivenMargins(directed, scaling=scaling).violations(np.zeros(6)).slack for scaling in SCALINGS}
    assert slack == pytest.approx({"pairs": 1 + 3 + 2, "mean_pairs": 1.0, "mean_queries": (1 + 1 + 0) / 3})
    scores = np.array([1.0, 0, 1, 0, 0, 0])  # the slack of pair (0, 1) is 0 now
    slack = {scaling: GivenMargins(directed, scaling=scaling).violations(scores).slack for scaling in SCALINGS}
    assert slack == pytest.approx({"pairs": 3 + 2, "mean_pairs": 5 / 6, "mean_queries": (3 / 4 + 1 + 0) / 3})


def test_the_number_of_threads_changes_no_bit(rng):
    n, count = 60_000, 200_000
    query = np.sort(rng.integers(0, n // 20, count))
    better, worse = (20 * query + rng.integers(0, 20, count) for _ in range(2))
    directed = better, worse, rng.random(count), np.searchsorted(query, np.arange(n // 20 + 1))
    X, scores = rng.standard_normal((n, 4)).astype(np.float32), rng.standard_normal(n)
    found = []
    for n_jobs in (1, 3):
        pairs = GivenMargins(directed, n_jobs=n_jobs)
        violations = pairs.violations(scores, 0.4)
        curved = violations.curvature.multiply(scores)
        sums = np.array([violations.loss, violations.slack, violations.dual_sum])
        found.append(b"".join(a.tobytes() for a in (sums, violations.gradient, curved, scatter(X, pairs))))
    assert found[0] == found[1]


def test_the_scatter_is_that_of_the_given_pairs(rng):
    directed, _, n = draw(rng)
    X, weights = rng.standard_normal((n, 3)).astype(np.float32), rng.uniform(0.5, 2, n)
    expected = np.zeros((3, 3))
    for i, j, weight in zip(*directed[:3]):
        difference = (X[i] - X[j]).astype(float)
        expected += weight * weights[i] * weights[j] * np.outer(difference, difference)
    pairs = GivenMargins(directed, weights)
    np.testing.assert_allclose(scatter(X, pairs), np.tril(expected), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(scatter(X, pairs, diagonal=True), np.diag(expected)[None], rtol=1e-5, atol=1e-7)


def test_of_very_many_pairs_some_stand_for_the_scatter_of_all(rng):
    X, count = rng.standard_normal((400, 2)).astype(np.float32), 100_000
    better, worse = rng.integers(0, 200, count), rng.integers(200, 400, count)
    pairs = GivenMargins((better, worse, np.ones(count), np.array([0, count])))
    differences = X[better].astype(float) - X[worse]
    np.testing.assert_allclose(scatter(X, pairs), np.tril(differences.T @ differences), rtol=0.05, atol=0.02 * count)
