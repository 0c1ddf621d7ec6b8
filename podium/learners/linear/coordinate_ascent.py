"""Coordinate ascent: one weight at a time, each to the exact optimum of a metric.

A round goes once through all features, in random order. With all other weights fixed, the metric is a curve of steps in
the weight of one feature, and a line search finds its best plateau among all real numbers: scores without the feature
are s, the feature is x, and s + t x is ranked as (1 - alpha) s + alpha x with t = alpha / (1 - alpha), for t < 0 with
-x. A weight moves only where the metric gains. After each move the weights are divided by the sum of their sizes, which
changes no ranking.

The first start has equal weights; when a round gains too little, the next one starts from random weights. The weights
after a round are the best of all starts so far.

References: Metzler and Croft, Linear feature-based models for information retrieval, Information Retrieval 10, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from podium.learners.linear.weighted import WeightedFeatures

# (scores s, direction x) -> (best value, larger is better, and the alpha in the middle of its plateau)
Search = Callable[[np.ndarray, np.ndarray], tuple[float, float]]


@dataclass(frozen=True)
class AscentRules:
    """How often to start, and when a start has come to its end."""

    n_restarts: int = 5
    min_improvement: float = 0.0
    seed: int = 0
    n_jobs: int | None = None


class CoordinateAscentTraining(WeightedFeatures):
    """The learner of coordinate ascent; `point` are the weights of the current start, `weights` the best ones."""

    def __init__(self, X: np.ndarray, search: Search, value: Callable[[np.ndarray], float], rules: AscentRules) -> None:
        """`value(scores)`: the metric, larger is better."""
        super().__init__(X, rules.n_jobs)
        self.search, self.value, self.rules = search, value, rules
        self.start, self.best = 0, -np.inf
        self.point = self._starting_point(0)
        self.weights = self.point

    def step(self) -> None:
        rng = np.random.Generator(np.random.PCG64([self.rules.seed, 1, self.n_steps]))
        before = now = self.value(self.scores(self.X, self.point))
        point = self.point
        for feature in rng.permutation(self.X.shape[1]):
            point, now = self._move(point, int(feature), now)
        best, weights = (now, point) if now > self.best else (self.best, self.weights)
        if now - before <= self.rules.min_improvement:
            self.start += 1
            self.is_done = self.start >= self.rules.n_restarts
            point = self._starting_point(self.start)
        self.best, self.point = best, point
        self.settle(weights)

    def _move(self, point: np.ndarray, feature: int, value: float) -> tuple[np.ndarray, float]:
        """The weights with the best one of this feature, and their value; the same if none is better."""
        others = point.copy()
        others[feature] = 0.0
        scores, column = self.scores(self.X, others), self.column(feature)
        (up, alpha), (down, other) = self.search(scores, column), self.search(scores, -column)
        best, sign, share = (up, 1.0, alpha) if up >= down else (down, -1.0, other)
        if not best > value:
            return point, value
        moved = (1.0 - share) * others
        moved[feature] = sign * share
        size = float(np.abs(moved).sum())
        if size == 0.0:
            return point, value
        moved /= size
        reached = self.value(self.scores(self.X, moved))  # at a crossing, rounded scores may break the tie
        return (moved, reached) if reached > value else (point, value)

    def _starting_point(self, start: int) -> np.ndarray:
        n = self.X.shape[1]
        if start == 0:
            return np.full(n, 1.0 / n)
        point = np.random.Generator(np.random.PCG64([self.rules.seed, 0, start])).standard_normal(n)
        return np.asarray(point / np.abs(point).sum())

    def _more_state(self) -> dict[str, np.ndarray]:
        best = max(self.best, np.finfo(np.float64).min)  # before the first round it is not finite
        return {"point": self.point, "start": np.array([float(self.start)]), "reached": np.array([best])}

    def _restore_more(self, arrays: Mapping[str, np.ndarray]) -> None:
        start = float(arrays["start"][0])
        if start != int(start) or not 0 <= start < self.rules.n_restarts:
            raise ValueError("start must be the number of a start")
        self.point, self.start, self.best = arrays["point"], int(start), float(arrays["reached"][0])
