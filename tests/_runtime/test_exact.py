"""Exact sums: the same for any order and grouping, and close to the true sum."""

from fractions import Fraction

import numpy as np
import pytest

from podium._runtime.exact import exact_sum, largest_size, on_grid, units_for


@pytest.mark.parametrize("scale", [1e-250, 1e-30, 1.0, 1e30, 1e290])
def test_no_order_changes_a_sum(rng, scale):
    values = rng.standard_normal(5_000) * np.exp(rng.uniform(-20, 20, 5_000)) * scale
    sums = {exact_sum(rng.permutation(values)) for _ in range(20)}
    assert len(sums) == 1
    true = sum(map(Fraction, values.tolist()))
    largest = Fraction(float(np.abs(values).max()))
    assert abs(Fraction(sums.pop()) - true) <= 5_000 * largest / 2**48


def test_small_integers_are_added_exactly(rng):
    values = rng.integers(-1_000, 1_000, 10_000).astype(float)
    assert exact_sum(values) == values.sum()
    assert exact_sum(np.empty(0)) == 0
    assert exact_sum(np.zeros(3)) == 0
    assert exact_sum(np.array([1.0, np.inf])) == np.inf


@pytest.mark.parametrize("n", [1, 2, 1_000, 2**20, 2**31, 2**40])
@pytest.mark.parametrize("largest", [1.0, 1.5, 3.0e38, 1e-44])
def test_no_sum_leaves_its_64_bits(n, largest):
    units = units_for(largest, n)
    assert np.frexp(units)[0] == 0.5  # a power of two
    assert n * (int(on_grid(largest, units)) + 1) < 2**63
    assert on_grid(largest, units) >= 2 ** (min(52, 60 - n.bit_length()) - 1)  # and no bit is given away


def test_the_largest_size_of_single_precision_numbers(rng):
    values = (rng.standard_normal(1_000) * 1e30).astype(np.float32)
    assert largest_size(values) == np.abs(values).max()
    assert largest_size(np.float32([-0.0, 1e-45])) == np.float32(1e-45)
    for bad in (np.inf, -np.inf, np.nan):
        values[17] = bad
        assert largest_size(values) == np.inf
