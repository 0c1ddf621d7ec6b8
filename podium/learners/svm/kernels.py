"""Kernels: functions of two rows that are the product of their images, and training documents that span a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, fast_kernel, readonly
from podium._runtime.threads import map_slices
from podium.learners.kernel_functions import KERNEL_FUNCTIONS, gaussian, polynomial, sigmoid
from podium.learners.linear.products import multiply

KERNELS = ("linear", *KERNEL_FUNCTIONS, "precomputed")
_BLOCK_ROWS = 64  # per thread and step of scoring
_TILE = 256  # documents that stay in the cache while a block of rows passes


@dataclass(frozen=True)
class Kernel:
    """A kernel by its name, or a Python function of two arrays of rows."""

    kind: str | Callable[[Array, Array], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0

    def matrix(self, A: Array, B: Array) -> Array:
        """(rows of A, rows of B) float64."""
        A, B = A.astype(np.float64), B.astype(np.float64)
        if callable(self.kind):
            return _checked(np.asarray(self.kind(A, B), np.float64), (len(A), len(B)))
        return self._values(A @ B.T, _squares(A), _squares(B))

    def row_by_row(self, A: Array, B: Array, of_b: Array) -> Array:
        """`matrix`, in which a row has the same bits whatever the others are; those of BLAS depend on their number.

        of_b: the squares |b|^2 of B.
        """
        if callable(self.kind):
            return self.matrix(A, B)
        products = np.empty((len(A), len(B)))
        _multiply_rows(readonly(A), readonly(B), products)
        return self._values(products, _squares(A.astype(np.float64)), of_b)

    def _values(self, products: Array, of_a: Array, of_b: Array) -> Array:
        """In place, block by block: kernel values from the products a.b and the squares |a|^2 and |b|^2."""
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks for scores refuses those that are not finite
            for start in range(0, len(products) if self.kind != "linear" else 0, _BLOCK_ROWS):
                block = products[start : start + _BLOCK_ROWS]
                if self.kind == "gaussian":
                    distances = -2.0 * block + of_a[start : start + _BLOCK_ROWS, None] + of_b
                    block[:] = gaussian(np.maximum(distances, 0.0), self.gamma)
                elif self.kind == "polynomial":
                    block[:] = polynomial(block, self.gamma, self.coef0, self.degree)
                else:
                    block[:] = sigmoid(block, self.gamma, self.coef0)
        return products


@dataclass(frozen=True, eq=False)
class Documents:
    """Training documents that other rows are compared with: their features, or their columns of given kernel values."""

    kernel: Kernel
    vectors: Array  # (m, features) float32; (0, features) where kernel values are given
    columns: Array  # (m,) int64: training rows as the caller counts them

    @property
    def are_given(self) -> bool:
        return self.kernel.kind == "precomputed"

    def take(self, places: Array) -> Documents:
        """Some of them."""
        return replace(
            self, vectors=self.vectors if self.are_given else self.vectors[places], columns=self.columns[places]
        )

    def values(self, X: Array) -> Array:
        """(rows of X, documents) float64."""
        return self._given(X) if self.are_given else self.kernel.matrix(X, self.vectors)

    def scores(self, X: Array, factors: Array, n_jobs: int | None = None) -> Array:
        """sum over documents of factor * kernel value; threads share blocks of rows, and no row depends on others.

        A kernel that is a Python function gets a block of rows at a time, so it alone decides about that.
        """
        out, vectors = np.empty(len(X)), self.vectors
        squares = _squares(vectors.astype(np.float64)) if self.kernel.kind == "gaussian" else out

        def work(part: slice) -> None:
            values = self._given(X[part]) if self.are_given else self.kernel.row_by_row(X[part], vectors, squares)
            multiply(values, factors, out[part], 1)

        map_slices(work, len(X), _BLOCK_ROWS, 1 if callable(self.kernel.kind) else n_jobs)
        return out

    def _given(self, X: Array) -> Array:
        return np.asarray(X[:, self.columns], np.float64, order="C")


def _checked(values: Array, shape: tuple[int, int]) -> Array:
    """What a kernel that is a Python function returned."""
    if values.shape != shape or not np.isfinite(values).all():
        problem = "numbers that are not finite" if values.shape == shape else f"an array of shape {values.shape}"
        raise ValueError(f"kernel: expected an array of shape {shape}, one number per pair of rows; got {problem}.")
    return values


def _squares(A: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", A, A))


@fast_kernel
def _multiply_rows(A: Array, B: Array, out: Array) -> None:
    """out[i, j] = A[i] . B[j], each in the same order of additions. A (n, features), B (m, features), out (n, m)."""
    for start in range(0, len(B), _TILE):
        for i in range(len(A)):
            for j in range(start, min(start + _TILE, len(B))):
                total = 0.0
                for f in range(A.shape[1]):
                    total += np.float64(A[i, f]) * np.float64(B[j, f])
                out[i, j] = total
