"""Plackett-Luce: probabilities against enumeration, samples against probabilities."""

import math
from itertools import permutations

import numpy as np
import pytest

from podium.objectives.likelihood import ListMLE
from podium.objectives.plackett_luce import log_likelihood, sample_rankings

SCORES = np.array([0.3, -1.0, 1.2, 0.0])


def probability(scores, ranking):
    """As it is defined: one softmax after the other."""
    left, product = list(range(len(scores))), 1.0
    for row in ranking:
        product *= math.exp(scores[row]) / sum(math.exp(scores[other]) for other in left)
        left.remove(row)
    return product


def test_the_likelihood_is_the_product_of_softmaxes_and_sums_to_one():
    assert log_likelihood(SCORES, []) == 0.0
    for places in (1, 2, 3, 4):
        rankings = np.array(list(permutations(range(4), places)))
        expected = [probability(SCORES, ranking) for ranking in rankings]
        np.testing.assert_allclose(np.exp(log_likelihood(SCORES, rankings)), expected, rtol=1e-12)
        assert sum(expected) == pytest.approx(1.0)
    assert log_likelihood(SCORES, [2, 0, 3, 1]) == pytest.approx(math.log(probability(SCORES, [2, 0, 3, 1])))


def test_listmle_is_minus_the_likelihood_of_the_ideal_ranking():
    labels = np.array([1.0, 0.0, 3.0, 2.0])
    assert ListMLE().bind(labels, [0, 4]).loss(SCORES) == pytest.approx(-log_likelihood(SCORES, [2, 3, 0, 1]))


def test_samples_have_the_frequencies_of_their_probabilities():
    n = 20_000
    drawn = sample_rankings(SCORES, n, seed=3)
    found, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(found) == 24
    expected = n * np.array([probability(SCORES, ranking) for ranking in found])
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 49.7  # 23 degrees of freedom, 1 in 1,000
    firsts = sample_rankings(SCORES, n, top=1, seed=3)
    np.testing.assert_array_equal(firsts[:, 0], drawn[:, 0])


def test_samples_depend_on_the_seed_and_their_number_alone():
    many = sample_rankings(SCORES, 50, seed=1)
    np.testing.assert_array_equal(sample_rankings(SCORES, 7, seed=1), many[:7])
    assert (sample_rankings(SCORES, 50, seed=2) != many).any()
    np.testing.assert_array_equal(sample_rankings(1e4 * SCORES, 5), np.tile([2, 0, 3, 1], (5, 1)))
    assert log_likelihood(1e4 * SCORES, [2, 0, 3, 1]) == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: log_likelihood(SCORES, [0, 0]), r"different rows from 0 to 3; got \[0, 0\]"),
        (lambda: log_likelihood(SCORES, [4]), "different rows"),
        (lambda: log_likelihood(SCORES, [0.5]), "must hold rows"),
        (lambda: log_likelihood([np.nan], [0]), "finite"),
        (lambda: sample_rankings(SCORES, 2, top=5), "top must be an integer from 0 to 4; got 5"),
        (lambda: sample_rankings(SCORES, -1), "n_samples must be"),
        (lambda: sample_rankings(SCORES, seed=-1), "seed must be"),
    ],
)
def test_what_is_wrong_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()
