"""Exact sums: numbers are rounded to a common grid of integers and added as integers.

Integer sums do not depend on the order of the numbers, nor on how they are divided among threads, processes or
machines. The grid is set by the largest number and by how many there are: each keeps at least 30 bits below the
largest, 52 where there are few, and the sum of all stays within 63 bits.
"""

from __future__ import annotations

import math

import numpy as np

from podium._runtime.compiler import kernel

_MANTISSA, _SUM = 52, 61  # bits of one number on the grid, and of a sum of them
_INFINITE = np.uint32(0x7F800000)  # bits of a float32 from here on: infinity and NaN
_SIZE = np.uint32(0x7FFFFFFF)  # all bits of a float32 but its sign


@kernel
def units_for(largest: float, n: int) -> float:
    """Units per 1, a power of two, such that n numbers of at most this size add up to less than 2**62."""
    if largest == 0.0 or n == 0:
        return 1.0
    bits_of_count = math.frexp(float(n))[1]
    bits = min(_MANTISSA, _SUM - bits_of_count)
    return math.ldexp(1.0, min(bits - math.frexp(largest)[1], 1000))


@kernel
def on_grid(value: float, units: float) -> np.int64:
    """The number in units, to the nearest, ties to even."""
    return np.int64(np.rint(value * units))


@kernel
def largest_size(values: np.ndarray) -> float:
    """The largest absolute value of float32 numbers; infinite if one of them is not finite.

    Without signs, the bits of such numbers rise with them: integers compare in a loop that vectorises.
    """
    bits, best = values.view(np.uint32), np.uint32(0)
    for k in range(len(bits)):
        best = max(best, bits[k] & _SIZE)
    return np.inf if best >= _INFINITE else float(np.uint32(best).view(np.float32))


@kernel
def exact_sum(values: np.ndarray) -> float:
    """The sum of float64 numbers, each rounded to the common grid; the same for any order. Infinite if one is."""
    largest = 0.0
    for k in range(len(values)):
        largest = max(largest, abs(values[k]))
    if largest == np.inf:
        return np.inf
    units, total = units_for(largest, len(values)), np.int64(0)
    for k in range(len(values)):
        total += on_grid(values[k], units)
    return float(total) / units
