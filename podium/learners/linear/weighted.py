"""What learners of linear weights have in common: standardised rows, scores, evaluation sets and stored state.

They change `weights`, one per standardised feature; all that the next step depends on is in `weights` and in what a
member names in `_more_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.learners.linear.lbfgs import Scaling
from podium.learners.linear.products import multiply
from podium.learners.stored import read_count, read_numbers, refuse_other_names

Snapshot = tuple[int, np.ndarray]


class WeightedFeatures:
    """A linear learner in training: members define `step`."""

    def __init__(self, X: np.ndarray, n_jobs: int | None) -> None:
        self.X, self.n_jobs = X, n_jobs
        self.scaling = Scaling.of(X, n_jobs)
        self.weights = np.zeros(X.shape[1])
        self.n_steps, self.is_done = 0, False
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[np.ndarray, np.ndarray | float]] = []

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        self._followed_rows.append((data.X, offset))
        self.followed.append(self.scores(data.X, self.weights) + offset)

    def snapshot(self) -> Snapshot:
        return self.n_steps, self.weights

    def keep(self, snapshot: Snapshot) -> None:
        self.n_steps, self.weights = snapshot

    @property
    def coefficients(self) -> tuple[np.ndarray, float]:
        """Weights of the features as they came, and the intercept."""
        weights = self.weights / self.scaling.scale
        return weights, float(-(weights @ self.scaling.centre))

    def scores(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """One score per row, with these weights of standardised features."""
        scores, raw = np.empty(len(X)), weights / self.scaling.scale
        multiply(X, raw, scores, self.n_jobs)
        scores -= raw @ self.scaling.centre
        return scores

    def column(self, feature: int) -> np.ndarray:
        """A standardised feature of all training rows."""
        centred = self.X[:, feature].astype(np.float64) - self.scaling.centre[feature]
        return np.asarray(centred / self.scaling.scale[feature])

    def settle(self, weights: np.ndarray) -> None:
        """The step is done: these are the weights now."""
        self.weights, self.n_steps = weights, self.n_steps + 1
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
        self._restore_more({name: read_numbers(arrays, name, len(own)) for name, own in more.items()})
        self.weights, self.n_steps = weights, rounds
        self.followed = [self.scores(X, weights) + offset for X, offset in self._followed_rows]
        return best
