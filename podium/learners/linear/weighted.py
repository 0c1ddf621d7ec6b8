"""What learners of linear weights have in common: standardised rows, scores, evaluation sets and stored state.

They change `weights`, one per standardised feature; all that the next step depends on is in `weights` and in what a
member names in `_more_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.data.standardising import Standardisation
from podium.learners.linear.products import multiply
from podium.learners.stored import read_count, read_numbers, refuse_other_names

Snapshot = tuple[int, np.ndarray]


class WeightedFeatures:
    """A linear learner in training: members define `step`."""

    def __init__(self, X: np.ndarray, n_jobs: int | None, row_weights: np.ndarray | None = None) -> None:
        """row_weights (n,): for the standardisation."""
        self.X, self.n_jobs = X, n_jobs
        self.scaling = Standardisation.fit(X, row_weights)
        self.weights = np.zeros(X.shape[1])
        self.n_steps, self.is_done = 0, False
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[np.ndarray, np.ndarray | float]] = []

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        rows = self._expanded(data.X)
        self._followed_rows.append((rows, offset))
        self.followed.append(self.scores(rows, self.weights) + offset)

    def _expanded(self, X: FeatureMatrix) -> np.ndarray:
        """The columns that are weighted: the features, or basis functions of them."""
        return np.asarray(X)

    def snapshot(self) -> Snapshot:
        return self.n_steps, self.weights

    def keep(self, snapshot: Snapshot) -> None:
        self.n_steps, self.weights = snapshot

    @property
    def coefficients(self) -> tuple[np.ndarray, float]:
        """Weights of the features as they came, and the intercept."""
        return self._unscaled(self.weights)

    def _unscaled(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        raw, shift = self.scaling.unscaled(weights)
        return raw, -float(shift)

    def scores(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One score per row, with these weights of standardised features."""
        scores, (raw, intercept) = np.empty(len(X)), self._unscaled(weights)
        multiply(X, raw, scores, self.n_jobs)
        scores += intercept
        return scores

    def column(self, feature: int) -> np.ndarray:
        """A standardised feature of all training rows."""
        return self.scaling.take(feature).apply(self.X[:, feature])

    def settle(self, weights: np.ndarray) -> None:
        """The step is done: these are the weights now."""
        self._move_to(weights, self.n_steps + 1)

    def _move_to(self, weights: np.ndarray, n_steps: int) -> None:
        self.weights, self.n_steps = weights, n_steps
        self.followed = [self.scores(X, weights) + offset for X, offset in self._followed_rows]

    def _more_state(self) -> dict[str, np.ndarray]:
        """Further float64 vectors that the next step depends on, always of the same lengths."""
        return {}

    def _restore_more(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `_more_state` returned."""

    def state(self, best: Snapshot) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {"weights": self.weights, "best_weights": best[1], "rounds": np.array([float(self.n_steps)])}
        return {"best_rounds": best[0]}, arrays | self._more_state()

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        rounds = float(read_numbers(arrays, "rounds", 1)[0])
        if rounds != int(rounds) or not 0 <= rounds < 2**53:
            raise ValueError("rounds must be a count")
        return int(rounds)

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Snapshot:
        more = self._more_state()
        refuse_other_names({"best_rounds"}, meta)
        refuse_other_names({"weights", "best_weights", "rounds", *more}, arrays)
        rounds, width = self.checked_steps(arrays), len(self.weights)
        best = read_count(meta, "best_rounds", rounds), read_numbers(arrays, "best_weights", width)
        weights = read_numbers(arrays, "weights", width)
        self._restore_more({name: read_numbers(arrays, name, len(numbers)) for name, numbers in more.items()})
        self._move_to(weights, rounds)
        return best
