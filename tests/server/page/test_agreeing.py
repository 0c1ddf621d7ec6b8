"""Agreement of raters."""

import oracles
import pytest

from podium.server.page.agreeing import krippendorff_alpha


def test_alpha_is_that_of_the_definition(rng):
    for _ in range(200):
        units = [rng.integers(0, 5, rng.integers(0, 5)).tolist() for _ in range(rng.integers(1, 12))]
        expected = oracles.krippendorff_alpha(units)
        if expected is None:
            assert krippendorff_alpha(units) is None
        else:
            assert krippendorff_alpha(units) == pytest.approx(expected, abs=1e-12)


def test_alpha_is_one_for_equal_labels_and_negative_for_opposite_ones():
    assert krippendorff_alpha([(0, 0), (4, 4), (2, 2)]) == 1.0
    assert krippendorff_alpha([(0, 4), (4, 0)]) < 0


def test_a_small_difference_on_the_scale_costs_less_than_a_large_one():
    agreed = [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert krippendorff_alpha([*agreed, (3, 4)]) > krippendorff_alpha([*agreed, (0, 4)])


def test_labels_in_a_worked_example():
    # Labels 0 0 1 3 4 4, so that the distances of 1 and 3 is (1/2 + 1/2)^2 = 1.
    observed = 2 * 1 / 6
    distances = {(0, 1): 1.5**2, (0, 3): 2.5**2, (0, 4): 4**2, (1, 3): 1, (1, 4): 2.5**2, (3, 4): 1.5**2}
    counts = {0: 2, 1: 1, 3: 1, 4: 2}
    expected = sum(2 * counts[a] * counts[b] * value for (a, b), value in distances.items()) / (6 * 5)
    assert krippendorff_alpha([(4, 4), (0, 0), (3, 1)]) == pytest.approx(1 - observed / expected)


@pytest.mark.parametrize("units", [[], [(1,), (2,)], [(3, 3), (3, 3)]])
def test_alpha_is_not_defined_without_pairs_or_without_different_labels(units):
    assert krippendorff_alpha(units) is None
