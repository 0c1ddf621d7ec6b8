"""Exact sums: the values of a forest on a grid on which no sum of them is rounded, so that their order does not matter.

S is |start| plus the largest |value| of each tree, and 2**e the power of two above it. On the grid of multiples of
q = 2**(e - 53), a sum of one value per tree, and each part of such a sum, is a multiple of q below 2**53 q: a float64.
In float32, 53 is 24.

Values are rounded towards 0. So S does not grow, values stay within their bounds, and constraints still hold.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from podium._runtime.compiler import Array
from podium.learners.trees.scoring.forest import Forest

_DIGITS = {np.dtype(np.float64): 53, np.dtype(np.float32): 24}  # bits
_FINEST = -1074  # 2**-1074 is the smallest float64


def with_exact_sums(forest: Forest) -> Forest:
    """The same trees, whose values add up to the same bits in every order."""
    exponent = _grid_of(forest)
    value, start = _rounded(forest.value, exponent), float(_rounded(np.array(forest.start), exponent))
    return replace(forest, value=value, start=start)


def has_exact_sums(forest: Forest) -> bool:
    """Whether the values are on this grid, so that they add up to the same bits in every order, in their type."""
    values = np.append(forest.value.astype(np.float64), forest.start)
    return bool(_rounded(values, _grid_of(forest)).tobytes() == values.tobytes())


def _grid_of(forest: Forest) -> int:
    """e - 53, of a forest whose scores are finite."""
    value = np.abs(forest.value.astype(np.float64))
    sizes = np.maximum.reduceat(value, forest.roots[:-1]) if forest.n_trees else np.zeros(0)
    total = math.fsum([abs(forest.start), *sizes.tolist()])  # rounded once: below a power of two if the sum is
    return max(math.frexp(total)[1] - _DIGITS[forest.value.dtype], _FINEST)


def _rounded(values: Array, exponent: int) -> Array:
    """The values as multiples of 2**exponent, towards 0; never -0.0, whose sums have other bits than those of 0.0."""
    return np.asarray(np.ldexp(np.trunc(np.ldexp(values, -exponent)), exponent) + 0.0)
