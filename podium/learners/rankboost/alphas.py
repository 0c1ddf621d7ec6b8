"""The weight alpha of a weak ranker, in the three ways of Freund, Iyer, Schapire and Singer (2003), section 3.2.

Each makes Z(alpha) = sum D exp(-alpha u), u = h_i - h_j of the better document i and the worse one j, or a bound of it,
small. All are limited to [-largest, largest]: where no pair is reversed, Z falls for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

_PRECISION = 1e-12


def search_alpha(slope: Callable[[float], float], largest: float) -> float:
    """The zero of -dZ/dalpha, which falls as alpha rises: Z is convex and has one minimum."""
    start = slope(0.0)
    if start == 0.0:
        return 0.0
    end = math.copysign(largest, start)
    if slope(end) * start >= 0.0:
        return end
    return float(brentq(slope, min(0.0, end), max(0.0, end), xtol=_PRECISION, rtol=4 * _PRECISION))


def closed_alpha(ordered: float, reversed_: float, largest: float) -> float:
    """`1/2 ln(W+ / W-)`, the minimum for u in {-1, 0, 1}, where Z = W0 + W+ exp(-alpha) + W- exp(alpha)."""
    if reversed_ <= 0.0 or ordered <= 0.0:
        return math.copysign(largest, ordered - reversed_) if ordered != reversed_ else 0.0
    return _limited(0.5 * math.log(ordered / reversed_), largest)


def bound_alpha(r: float, largest: float) -> float:
    """`1/2 ln((1 + r) / (1 - r))`, the minimum of a bound for u in [-1, 1]; then Z <= sqrt(1 - r^2)."""
    if abs(r) >= 1.0:
        return math.copysign(largest, r)
    return _limited(math.atanh(r), largest)


def _limited(alpha: float, largest: float) -> float:
    return max(-largest, min(largest, alpha))
