"""Kernels: functions of two rows that are the product of their images, and training documents that span a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

KERNELS = ("linear", "gaussian", "polynomial", "sigmoid", "precomputed")
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Kernel:
    """A kernel by its name, or a Python function of two arrays of rows."""

    kind: str | Callable[[np.ndarray, np.ndarray], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def matrix(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """(rows of A, rows of B) float64."""
        A, B = A.astype(np.float64), B.astype(np.float64)
        if callable(self.kind):
            return self._own(np.asarray(self.kind(A, B), np.float64), len(A), len(B))
        shape: dict[str, Any] = {"gamma": self.gamma, "coef0": self.coef0}
        made = {
            "linear": lambda: linear_kernel(A, B),
            "gaussian": lambda: rbf_kernel(A, B, gamma=self.gamma),
            "polynomial": lambda: polynomial_kernel(A, B, degree=self.degree, **shape),
            "sigmoid": lambda: sigmoid_kernel(A, B, **shape),
        }
        return np.asarray(made[self.kind]())

    @staticmethod
    def _own(found: np.ndarray, n: int, m: int) -> np.ndarray:
        if found.shape != (n, m) or not np.isfinite(found).all():
            problem = "numbers that are not finite" if found.shape == (n, m) else f"an array of shape {found.shape}"
            raise ValueError(
                f"kernel: expected an array of shape ({n}, {m}), one number per pair of rows; got {problem}."
            )
        return found


@dataclass(frozen=True, eq=False)
class Documents:
    """Training documents that other rows are compared with: their features, or their columns of given kernel values."""

    kernel: Kernel
    vectors: np.ndarray  # (m, features) float32; (0, features) where kernel values are given
    columns: np.ndarray  # (m,) int64: training rows as the caller counts them

    @property
    def are_given(self) -> bool:
        return self.kernel.kind == "precomputed"

    def take(self, places: np.ndarray) -> Documents:
        """Some of them."""
        return replace(
            self, vectors=self.vectors if self.are_given else self.vectors[places], columns=self.columns[places]
        )

    def values(self, X: np.ndarray) -> np.ndarray:
        """(rows of X, documents) float64."""
        if self.are_given:
            return np.asarray(X[:, self.columns], np.float64)
        return self.kernel.matrix(X, self.vectors)

    def scores(self, X: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """sum over documents of factor * kernel value, a block of rows at a time."""
        out = np.empty(len(X))
        for start in range(0, len(X), _BLOCK_ROWS):
            out[start : start + _BLOCK_ROWS] = self.values(X[start : start + _BLOCK_ROWS]) @ factors
        return out
