"""Estimators: a fitted estimator of scikit-learn as arrays, and its training as one step.

A linear estimator is its weights and a link, support vector regression its support vectors and a kernel:

    identity   w . x + b
    logistic   g_0 + (g_1 - g_0) / (1 + exp(-(w . x + b))), the expected grade of two
    softmax    sum_k g_k softmax(W x + b)_k, the expected grade of several
    rbf, poly, sigmoid   sum_j a_j k(z, v_j) + b, with k of `kernel_functions.py`

x are the features as they came, z those that were standardised for the estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_slices
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.data.standardising import Standardisation
from podium.learners.kernel_functions import SKLEARN_NAMES, gaussian, polynomial, sigmoid
from podium.learners.linear.products import multiply

KERNELS = tuple(SKLEARN_NAMES)
LINKS = ("identity", "logistic", "softmax", *KERNELS)
_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Form:
    """A scoring function as arrays; all float64."""

    link: str
    weights: Array  # (outputs, features); of kernels (1, support vectors)
    intercepts: Array  # (outputs,)
    grades: Array  # (outputs,) of softmax, (2,) of logistic, (0,) otherwise
    support: Array  # (support vectors, features), standardised; no rows unless there is a kernel
    mean: Array  # (features,) of the standardisation for kernels; of the training rows otherwise
    scale: Array  # (features,)
    gamma: float = 0.0
    coef0: float = 0.0
    degree: int = 0

    def scores(self, X: Array, n_jobs: int | None = None) -> Array:
        """One score per row, whatever the other rows are."""
        if self.link in KERNELS:
            return self._kernel_scores(X, n_jobs)
        outputs = np.empty((len(self.weights), len(X)))
        for weights, intercept, output in zip(self.weights, self.intercepts, outputs):
            multiply(X, np.ascontiguousarray(weights), output, n_jobs)
            output += intercept
        if self.link == "identity":
            return np.asarray(outputs[0])
        if self.link == "logistic":
            low, high = self.grades
            return np.asarray(low + (high - low) * 0.5 * (1.0 + np.tanh(0.5 * outputs[0])))
        chances = np.exp(outputs - outputs.max(axis=0))
        return np.asarray((chances * self.grades[:, None]).sum(axis=0) / chances.sum(axis=0))

    def _kernel_scores(self, X: Array, n_jobs: int | None) -> Array:
        scores, weights, support = np.empty(len(X)), readonly(self.weights[0].copy()), readonly(self.support)
        kind, gamma, coef0, degree = KERNELS.index(self.link), self.gamma, self.coef0, self.degree

        def work(part: slice) -> None:
            z = Standardisation(self.mean, self.scale).apply(X[part])
            _kernel_sums(z, support, weights, kind, gamma, coef0, degree, scores[part])

        map_slices(work, len(X), _BLOCK_ROWS, n_jobs)
        return np.asarray(scores + self.intercepts[0])

    def check(self, n_features: int) -> None:
        """Refuse arrays that do not fit together, as a crafted file may hold them."""
        outputs = len(self.weights)
        width = len(self.support) if self.link in KERNELS else n_features
        grades = {"logistic": 2, "softmax": outputs}.get(self.link, 0)
        for name, array, shape in (
            ("weights", self.weights, (outputs, width)),
            ("intercepts", self.intercepts, (outputs,)),
            ("grades", self.grades, (grades,)),
            ("support vectors", self.support, (len(self.support), n_features)),
            ("mean", self.mean, (n_features,)),
            ("scale", self.scale, (n_features,)),
        ):
            if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite float64 numbers of shape {shape}")
        if outputs < 1 or (self.link != "softmax" and outputs != 1) or not (self.scale > 0).all():
            raise ValueError(f"weights of {outputs} outputs, or a scale, do not fit link {self.link!r}")


class EstimatorTraining:
    """The learner of a single step: `fit` trains the estimator, and `score` then has its scores."""

    def __init__(self, fit: Callable[[], None], score: Callable[[Array], Array]) -> None:
        self._fit, self._score, self.n_steps = fit, score, 0
        self.followed: list[Array] = []
        self._followed_rows: list[tuple[FeatureMatrix, Array | float]] = []

    @property
    def is_done(self) -> bool:
        return self.n_steps == 1

    def step(self) -> None:
        self._fit()
        self.n_steps = 1
        for number, (X, offset) in enumerate(self._followed_rows):
            self.followed[number] = self._score(np.asarray(X)) + offset

    def follow(self, data: RankingData, offset: Array | float) -> None:
        self._followed_rows.append((data.X, offset))
        self.followed.append(np.zeros(data.n_rows) + offset)

    def snapshot(self) -> int:
        return self.n_steps

    def keep(self, snapshot: int) -> None:
        self.n_steps = snapshot

    def state(self, best: int) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {}  # there is nothing between the beginning and the end

    def checked_steps(self, arrays: Mapping[str, Array]) -> int:
        return 0

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> int:
        raise ValueError("a single step has no state to continue from")


_gaussian, _polynomial, _sigmoid = kernel(gaussian), kernel(polynomial), kernel(sigmoid)


@kernel
def _kernel_sums(
    z: Array, support: Array, weights: Array, kind: int, gamma: float, coef0: float, degree: int, scores: Array
) -> None:
    """scores[i] = sum_j weights[j] k(z_i, support_j); kind: the number of the kernel in KERNELS."""
    for i in range(len(z)):
        total = 0.0
        for j in range(len(support)):
            inner = 0.0
            for f in range(z.shape[1]):
                inner += (z[i, f] - support[j, f]) ** 2 if kind == 0 else z[i, f] * support[j, f]
            if kind == 0:
                total += weights[j] * _gaussian(inner, gamma)
            elif kind == 1:
                total += weights[j] * _polynomial(inner, gamma, coef0, degree)
            else:
                total += weights[j] * _sigmoid(inner, gamma, coef0)
        scores[i] = total
