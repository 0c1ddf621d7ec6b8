"""Sums in lanes, and functions with the same bits everywhere, against slow versions of themselves and the library."""

import math

import numpy as np
import pytest

from podium._runtime.compiler import kernel
from podium._runtime.numeric.lanes import LANES, fold, lane_sizes, lane_sums
from podium._runtime.numeric.portable import exp64, log2_64


@kernel
def both(one, two, n):
    return lane_sums(one, two, n), lane_sizes(one, n)


def add_in_lanes(values):
    lanes = [np.float32(0)] * LANES
    for k, value in enumerate(values):
        lanes[k % LANES] += value
    return fold(np.array(lanes))


@pytest.mark.parametrize("n", [0, 8, 16, 24, 32, 40, 104, 1000])
def test_lanes_are_added_one_by_one_and_then_folded(n, rng):
    one, two = rng.standard_normal((2, 1024)).astype(np.float32)
    sums, sizes = both(one, two, n)
    assert sums == (add_in_lanes(one[:n]), add_in_lanes(two[:n]))
    assert sizes == add_in_lanes(np.abs(one[:n]))


def test_the_exponential_is_exact_to_a_unit_in_the_last_place(rng):
    for x in [0.0, 1.0, -1.0, 700.0, -700.0, *rng.uniform(-700, 700, 2000)]:
        assert exp64(x) == pytest.approx(math.exp(x), rel=2 * 2**-52, abs=0)
    assert exp64(1e9) == exp64(700.0)
    assert exp64(-np.inf) == exp64(-700.0)


def test_the_logarithm_is_exact_to_two_units_in_the_last_place(rng):
    for x in [1.0, 2.0, 2.0**0.5, 1 + 2**-52, 1e300, *np.exp(rng.uniform(-60, 60, 2000))]:
        assert log2_64(x) == pytest.approx(math.log2(x), rel=3 * 2**-52, abs=2**-53)
    assert [log2_64(2.0**k) for k in (-3, 0, 40)] == [-3.0, 0.0, 40.0]
