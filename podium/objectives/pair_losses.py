"""Pair losses: a cost C of the margin `o = s_i - s_j` of two documents, i the better one, and its two derivatives.

The derivatives are written once, for numbers and arrays: the pair kernels compile them (float32), JAX calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from podium._runtime.compiler import copied_kernel, kernel
from podium._runtime.numeric.portable import exp64

LOGISTIC, EVEN, HINGE, SQUARED_HINGE, EXPONENTIAL, BELL = range(6)

STEEPEST = 60.0  # the exponential loss goes on as a straight line where -o is larger: sums of e^60 still fit float32
FLATTEST = 35.0  # sigmoids stay as they are where |o| is larger, 6e-16 from their ends

_F4, _I4 = np.float32, np.int32
_ZERO, _HALF, _ONE, _STEEPEST = (np.float32(number) for number in (0.0, 0.5, 1.0, STEEPEST))


def pair_terms(
    loss: int, o: Any, exp: Callable[[Any], Any], sigmoids: Callable[[Any], Any], where: Callable[[Any, Any, Any], Any]
) -> tuple[Any, Any]:
    """(-dC/do, d2C/do2). exp: e^x; sigmoids: rho = 1 / (1 + e^o), and 1 - rho; where: the choice between two numbers.

    logistic: C = log(1 + e^-o); even (equal labels): C = o/2 + log(1 + e^-o); hinge: C = max(0, 1 - o), whose second
    derivative is 0 and replaced by 1 inside the margin; squared hinge: its square; exponential: C = e^-o;
    bell: C = rho, with `|d2C/do2| <= rho (1 - rho)` in place of the second derivative.
    """
    if loss == HINGE:
        inside = where(o < _ONE, _ONE, _ZERO)
        return inside, inside
    if loss == SQUARED_HINGE:
        gap, inside = where(o < _ONE, _ONE - o, _ZERO), where(o < _ONE, _ONE, _ZERO)
        return gap + gap, inside + inside
    if loss == EXPONENTIAL:
        cost = exp(where(-o < _STEEPEST, -o, _STEEPEST))
        return cost, cost
    rho, rest = sigmoids(o)
    if loss == EVEN:
        return rho - _HALF, rho * rest
    if loss == BELL:
        return rho * rest, rho * rest
    return rho, rho * rest


def pair_slopes(loss: int, o: Any) -> Any:
    """-dC/do of an array of JAX."""
    import jax
    import jax.numpy as jnp

    return pair_terms(loss, o, jnp.exp, lambda o: (jax.nn.sigmoid(-o), jax.nn.sigmoid(o)), jnp.where)[0]


def pair_arrays(loss: int, o: Any) -> tuple[Any, Any]:
    """`pair_terms` of an array of NumPy, in float64."""
    from scipy.special import expit

    slope, bend = pair_terms(loss, o, np.exp, lambda o: (expit(-o), expit(o)), np.where)
    return np.asarray(slope, dtype=np.float64), np.asarray(bend, dtype=np.float64)


@kernel
def pair_cost(loss: int, o: float) -> float:
    """C, in float64."""
    if loss == HINGE:
        return max(1.0 - o, 0.0)
    if loss == SQUARED_HINGE:
        return max(1.0 - o, 0.0) ** 2
    if loss == EXPONENTIAL:
        return math.exp(min(-o, STEEPEST)) * (1.0 + max(-o - STEEPEST, 0.0))
    if loss == BELL:
        return sigmoid(-o)
    return softplus(-o) + 0.5 * o if loss == EVEN else softplus(-o)


@kernel
def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + exp64(-x)) if x > -700.0 else 0.0


@kernel
def softplus(x: float) -> float:
    """log(1 + e^x)"""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


# --- float32, in loops that vectorise --------------------------------------------------------------------------------


@kernel
def exp32(x: np.float32) -> np.float32:
    """`e^x` in float32 for |x| <= 87, with relative error 2e-7: `2^k` by the exponent bits, `2^f` by a polynomial.

    `math.exp` is a call and stops a loop from vectorising. The degree-5 coefficients are the minimax fit of `2^f` for
    |f| <= 1/2.
    """
    power = x * _F4(1.4426950408889634)
    biased = _I4(power + _F4(127.5))  # rounds to the nearest: the sum is positive
    f = power - _F4(_I4(biased - _I4(127)))
    p = _F4(1.3276471979e-3)
    for coefficient in (9.6755413342e-3, 5.5507132735e-2, 0.24022119724, 0.69314696706, 1.0000000717):
        p = p * f + _F4(coefficient)
    return p * _I4(biased << _I4(23)).view(np.float32)


@kernel
def _exp_down(x: np.float32) -> np.float32:
    return exp32(max(x, _F4(-87.0)))


@kernel
def _sigmoids(o: np.float32) -> tuple[np.float32, np.float32]:
    rise = exp32(min(max(o, _F4(-FLATTEST)), _F4(FLATTEST)))
    rho = _ONE / (_ONE + rise)
    return rho, rho * rise  # 1 - rho, without the difference of two numbers near 1


@kernel
def _where(condition: bool, yes: np.float32, no: np.float32) -> np.float32:
    return yes if condition else no


_pair_terms = copied_kernel(pair_terms)


@kernel
def _exp64(x: float) -> float:
    return math.exp(x)


@kernel
def _sigmoids64(o: float) -> tuple[float, float]:
    return sigmoid(-o), sigmoid(o)


@kernel
def _where64(condition: bool, yes: float, no: float) -> float:
    return yes if condition else no


@kernel
def pair_terms64(loss: int, o: float) -> tuple[float, float]:
    """`pair_terms` of one pair, in float64."""
    slope, bend = _pair_terms(loss, o, _exp64, _sigmoids64, _where64)
    return np.float64(slope), np.float64(bend)


@copied_kernel
def pair_terms32(loss: int, o: np.float32) -> tuple[np.float32, np.float32]:
    return _pair_terms(loss, o, _exp_down, _sigmoids, _where)
