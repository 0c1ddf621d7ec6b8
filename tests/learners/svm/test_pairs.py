"""Sums over pairs: equal to the double loop, for any grades, weights, widths and threads."""

import numpy as np
import pytest
from oracles import hinge_violations, preference_pairs

from podium.learners.svm.pairs import Pairs
from podium.learners.svm.scatter import scatter


def draw(rng, n_queries=6, grades=5):
    sizes = rng.integers(1, 20, n_queries)
    offsets, n = np.concatenate([[0], np.cumsum(sizes)]), int(sizes.sum())
    labels = rng.integers(0, grades, n).astype(float)
    return labels, offsets, np.repeat(np.arange(n_queries), sizes), n


@pytest.mark.parametrize("width", [np.inf, 1.0, 0.05])
@pytest.mark.parametrize("grades", [1, 2, 3, 5, 16, 1000])
def test_sums_equal_those_of_the_double_loop(rng, width, grades):
    for spread in (0.0, 0.3, 3.0, 1000.0):
        labels, offsets, query, n = draw(rng, grades=grades)
        weights, query_weights = rng.choice([0.0, 0.5, 1.0, 2.5], n), rng.uniform(0.5, 2.0, len(offsets) - 1)
        scores, values = spread * rng.standard_normal(n) + 100, rng.standard_normal(n)
        scores[rng.random(n) < 0.3] = scores[0]  # ties
        found = Pairs(labels, offsets, weights, query_weights).violations(scores, width)
        pairs = preference_pairs(labels, query)
        pair_weights = [weights[i] * weights[j] * query_weights[query[i]] for i, j in pairs]
        loss, slack, duals, _, gradient, hessian = hinge_violations(scores, pairs, pair_weights, width)
        sums = found.loss, found.slack, found.dual_sum
        np.testing.assert_allclose(sums, (loss, slack, duals), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.gradient, gradient, rtol=1e-9, atol=1e-9)
        curved = found.curvature.multiply(values)
        np.testing.assert_allclose(curved, np.array(hessian).reshape(n, n) @ values, rtol=1e-9, atol=1e-9)
        counting = [(i, j) for (i, j), weight in zip(pairs, pair_weights) if weight > 0]
        smallest = min((scores[i] - scores[j] for i, j in counting), default=np.inf)
        assert found.margin == pytest.approx(smallest, abs=1e-9)


@pytest.mark.parametrize("grades", [1, 2, 5, 30])
def test_scalings_divide_by_pairs_or_by_pairs_and_queries(rng, grades):
    labels, offsets, query, n = draw(rng, grades=grades)
    pairs = preference_pairs(labels, query)
    per_query = np.bincount([query[i] for i, _ in pairs], minlength=6)
    scores = rng.standard_normal(n)
    slacks = np.zeros(6)
    for i, j in pairs:
        slacks[query[i]] += max(0.0, 1 - (scores[i] - scores[j]))
    expected = {
        "pairs": slacks.sum(),
        "mean_pairs": slacks.sum() / max(len(pairs), 1),
        "mean_queries": (slacks / np.maximum(per_query, 1)).sum() / 6,
    }
    for scaling, slack in expected.items():
        bound = Pairs(labels, offsets, scaling=scaling)
        assert bound.counts.tolist() == per_query.tolist()
        assert bound.violations(scores).slack == pytest.approx(slack)


def test_a_weight_of_two_is_a_second_copy_and_of_zero_is_none(rng):
    labels, offsets, query, n = draw(rng)
    weights, scores = rng.integers(0, 3, n), rng.standard_normal(n)
    copies = np.repeat(np.arange(n), weights)
    copied = np.concatenate([[0], np.cumsum(np.bincount(query[copies], minlength=6))])
    for scaling in ("pairs", "mean_pairs", "mean_queries"):
        one = Pairs(labels, offsets, weights, scaling=scaling).violations(scores)
        other = Pairs(labels[copies], copied, scaling=scaling).violations(scores[copies])
        assert one.loss == pytest.approx(other.loss)
        assert one.margin == pytest.approx(other.margin)


def test_the_number_of_threads_changes_no_bit(rng):
    labels, scores = rng.integers(0, 5, 100_000).astype(float), rng.standard_normal(100_000)
    found = [Pairs(labels, np.arange(0, 100_001, 50), n_jobs=n_jobs).violations(scores) for n_jobs in (1, 3)]
    assert found[0].loss == found[1].loss
    assert found[0].gradient.tobytes() == found[1].gradient.tobytes()
    assert found[0].curvature.multiply(scores).tobytes() == found[1].curvature.multiply(scores).tobytes()


def test_the_scatter_of_queries_whose_labels_all_differ_is_that_of_their_pairs(rng):
    X = rng.standard_normal((40, 3)).astype(np.float32)
    labels, offsets = rng.permutation(40).astype(float), np.array([0, 15, 40])
    weights = rng.uniform(0.5, 2, 40)
    expected = np.zeros((3, 3))
    for i, j in preference_pairs(labels, np.repeat([0, 1], [15, 25])):
        difference = (X[i] - X[j]).astype(float)
        expected += weights[i] * weights[j] * np.outer(difference, difference)
    pairs = Pairs(labels, offsets, weights)
    np.testing.assert_allclose(scatter(X, pairs), np.tril(expected), rtol=1e-5)
    np.testing.assert_allclose(scatter(X, pairs, diagonal=True), np.diag(expected)[None], rtol=1e-5)
