"""A linear scoring function: one weight per feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium.learners.linear.products import multiply


@dataclass(frozen=True, eq=False)
class LinearFunction:
    """score = weights . row + intercept. `means` are those of the features over the training rows."""

    weights: np.ndarray
    intercept: float
    means: np.ndarray

    def scores(self, X: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """One score per row; the same bits for any number of threads."""
        scores = np.empty(len(X))
        multiply(X, self.weights, scores, n_jobs)
        scores += self.intercept
        return scores
