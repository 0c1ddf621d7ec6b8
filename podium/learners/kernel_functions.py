"""Kernel functions of two rows a and b, for numbers and arrays: NumPy calls them, kernels compile them.

gaussian     exp(-gamma |a - b|^2)
polynomial   (gamma a . b + coef0)^degree
sigmoid      tanh(gamma a . b + coef0)
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

KERNEL_FUNCTIONS = ("gaussian", "polynomial", "sigmoid")
SKLEARN_NAMES = {"rbf": "gaussian", "poly": "polynomial", "sigmoid": "sigmoid"}

Values = TypeVar("Values", float, np.ndarray)


def gaussian(squared_distance: Values, gamma: float) -> Values:
    return np.exp(-gamma * squared_distance)  # type: ignore[no-any-return]


def polynomial(product: Values, gamma: float, coef0: float, degree: int) -> Values:
    return (gamma * product + coef0) ** degree


def sigmoid(product: Values, gamma: float, coef0: float) -> Values:
    return np.tanh(gamma * product + coef0)  # type: ignore[no-any-return]
