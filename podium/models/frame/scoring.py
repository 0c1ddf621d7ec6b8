"""Scoring for services: a bare function that checks its rows and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from podium.learners.rows import are_scorable, describe_unscorable, single_scores


class Scorer(Protocol):
    """float32 rows in C order in, float32 scores out, on the caller's thread; any number of threads may call it."""

    def __call__(self, X: np.ndarray) -> np.ndarray: ...
    def exact(self, X: np.ndarray, /) -> np.ndarray:
        """float64 scores of rows that were checked."""


class RowScorer:
    """A `Scorer` of any function of rows."""

    def __init__(self, exact: Callable[[np.ndarray], np.ndarray], n_features: int, model: str) -> None:
        """`model`: its name, for errors."""
        self._exact, self.n_features, self.model = exact, n_features, model

    def exact(self, X: np.ndarray) -> np.ndarray:
        return self._exact(X)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """One score per row."""
        if not are_scorable(X, self.n_features):
            raise ValueError(describe_unscorable(X, self.n_features))
        return single_scores(self._exact(X), self.model)
