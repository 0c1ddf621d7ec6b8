"""Functions that have the same bits everywhere: e^x and the binary logarithm, of additions, products and divisions.

Those of the standard library differ in their last bits from one system to the next, and on a GPU. These are as exact to
about one unit in the last place.
"""

from __future__ import annotations

import math

import numpy as np

from podium._runtime.compiler import kernel

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 21 zero bits at its end
_LOG2_E, _ROOT_2 = 1.4426950408889634, 1.4142135623730951
_LARGEST = 700.0
_EXP = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))  # Taylor, |r| <= ln(2) / 2
_LOG = tuple(2.0 * _LOG2_E / (2 * k + 1) for k in range(11, -1, -1))  # of log2((1 + s) / (1 - s)) / s, in s^2


@kernel
def exp64(x: float) -> float:
    """e^x; x is brought into -700 .. 700."""
    x = min(max(x, -_LARGEST), _LARGEST)
    k = np.rint(x * _LOG2_E)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 0.0
    for coefficient in _EXP:
        p = p * r + coefficient
    return p * np.int64((np.int64(k) + np.int64(1023)) << np.int64(52)).view(np.float64)


@kernel
def log2_64(x: float) -> float:
    """The binary logarithm of a normal number above 0."""
    bits = np.float64(x).view(np.int64)
    exponent = np.float64((bits >> np.int64(52)) - np.int64(1023))
    mantissa = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(0x3FF0000000000000)).view(np.float64)
    if mantissa > _ROOT_2:
        mantissa, exponent = 0.5 * mantissa, exponent + 1.0
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, p = s * s, 0.0
    for coefficient in _LOG:
        p = p * square + coefficient
    return exponent + s * p
