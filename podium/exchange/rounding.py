"""Thresholds of one program as those of another, exactly for float32 values.

Here `x <= t` goes left. Elsewhere it may be `x < c`, or t may be a float64: for float32 values of x there is always a
float32 threshold that asks the same.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from podium._runtime.compiler import Array

_SINGLE = np.float32
INFINITY = np.float32(np.inf)


def at_most(thresholds: Array) -> Array:
    """The largest float32 that is not above each float64: for float32 x, x <= this if and only if x <= the float64."""
    with np.errstate(over="ignore"):
        single = thresholds.astype(_SINGLE)
    return np.where(single.astype(np.float64) > thresholds, np.nextafter(single, -INFINITY), single)


def below(thresholds: Array) -> Array:
    """Thresholds t of `x <= t` for those c of `x < c`; both float32."""
    with np.errstate(over="ignore"):
        return np.nextafter(thresholds.astype(_SINGLE), -INFINITY)


def strict(thresholds: Array) -> Array:
    """Thresholds c of `x < c` for those t of `x <= t`; both float32."""
    with np.errstate(over="ignore"):
        return np.nextafter(thresholds.astype(_SINGLE), INFINITY)


def midway(numbers: Array) -> Array:
    """Whether each float64 is as far from one float32 as from its neighbour."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = numbers.astype(_SINGLE)
        back = single.astype(np.float64)
        other = np.nextafter(single, np.where(numbers > back, INFINITY, -INFINITY)).astype(np.float64)
        return np.asarray((numbers != back) & (numbers - back == other - numbers))


def unambiguous(text: str) -> float:
    """A float64 that rounds to the float32 nearest to a decimal text; float(text) can round the wrong way twice.

    "7.038531e-26" is the shortest text of a float32, and its float64 lies midway between this one and the next.
    """
    number = float(text)
    if not midway(np.array([number]))[0] or (exact := Decimal(text)) == Decimal(number):
        return number
    return math.nextafter(number, math.inf if exact > Decimal(number) else -math.inf)
