"""L-BFGS for linear scoring functions: one round is one step of the method.

The cost is that of an objective at the scores X w + b, over standardised features, plus l2/2 |w|^2 per training row; b
is not penalised. A round takes the two-loop recursion over the last pairs of steps and gradient changes, then searches
along the direction until the slope has fallen to a tenth of what it was. Only gradients are used, never the loss: so
objectives without one (lambda, a user's own) are trained in the same way.

References: Nocedal and Wright, Numerical Optimization, chapter 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.exact import exact_sum
from podium.data.sparse import Features
from podium.learners.linear.products import multiply, multiply_transposed
from podium.learners.protocol import Target
from podium.learners.stored import read_count, read_numbers, refuse_other_names

_MEMORY = 10  # pairs of steps and gradient changes
_SLOPE = 0.1  # of the slope at the start of a search, what may be left at its end
_MOST_TRIALS = 20


@dataclass(frozen=True)
class LinearRules:
    """What is minimised, and when training ends by itself."""

    l2: float = 0.0
    tolerance: float = 1e-5  # of the gradient's largest entry, per training row
    fit_intercept: bool = False
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardisation: z = (x - centre) / scale; a constant feature has scale 1 and so z = 0."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, n_jobs: int | None) -> Scaling:
        """Means and standard deviations of the columns; identity where X has no rows."""
        n, ones = max(len(X), 1), np.ones(len(X))
        centre = multiply_transposed(X, ones, n_jobs) / n
        spread = np.zeros(X.shape[1])
        for f in range(X.shape[1]):
            spread[f] = exact_sum((X[:, f].astype(np.float64) - centre[f]) ** 2) / n
        scale = np.sqrt(spread)
        constant = scale <= 1e-7 * np.abs(centre)
        return cls(centre, np.where(constant | (scale == 0), 1.0, scale))


class LinearTraining:
    """The learner of linear models; `point` has the weights of standardised features, then the intercept."""

    unit = "round"

    def __init__(self, X: np.ndarray, target: Target, rules: LinearRules) -> None:
        self.X, self.target, self.rules = X, target, rules
        self.scaling = Scaling.of(X, rules.n_jobs)
        self.point = np.zeros(X.shape[1] + 1)
        self.point[-1] = target.start() if rules.fit_intercept else 0.0
        self.n_steps, self.is_done = 0, False
        self._moves: list[tuple[np.ndarray, np.ndarray]] = []  # (step, change of the gradient), oldest first
        self._derivatives = np.empty(len(X), np.float32), np.empty(len(X), np.float32)
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[np.ndarray, np.ndarray | float]] = []
        self._gradient = self._gradient_at(self.point)

    def step(self) -> None:
        self.target.begin(self.n_steps)
        gradient = self._gradient_at(self.point)  # an objective may draw other numbers in every round
        direction = self._direction(gradient)
        slope = float(direction @ gradient)
        if not slope < 0:  # the memory no longer describes the cost: follow the gradient
            self._moves, direction = [], -gradient
            slope = float(direction @ gradient)
        size, ended = self._search(direction, slope)
        point = self.point + size * direction
        self._remember(size * direction, ended - gradient)
        self.point, self._gradient, self.n_steps = point, ended, self.n_steps + 1
        largest = float(np.abs(ended).max(initial=0.0))
        self.is_done = size == 0.0 or largest <= self.rules.tolerance * max(len(self.X), 1)
        for number, (X, offset) in enumerate(self._followed_rows):
            self.followed[number] = self._scores(X) + offset

    def follow(self, X: Features, offset: np.ndarray | float) -> None:
        self._followed_rows.append((X, offset))
        self.followed.append(self._scores(X) + offset)

    def snapshot(self) -> tuple[int, np.ndarray]:
        return self.n_steps, self.point

    def keep(self, snapshot: tuple[int, np.ndarray]) -> None:
        self.n_steps, self.point = snapshot

    @property
    def coefficients(self) -> tuple[np.ndarray, float]:
        """Weights of the features as they came, and the intercept."""
        weights = self.point[:-1] / self.scaling.scale
        return weights, float(self.point[-1] - weights @ self.scaling.centre)

    def state(self, best: tuple[int, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        empty = np.empty((0, len(self.point)))
        moves = {
            "steps": np.concatenate([empty, *(step[None] for step, _ in self._moves)]).reshape(-1),
            "changes": np.concatenate([empty, *(change[None] for _, change in self._moves)]).reshape(-1),
        }
        scores = {f"eval_{number}/scores": scores for number, scores in enumerate(self.followed)}
        meta = {"rounds": self.n_steps, "best_rounds": best[0], "memory": len(self._moves)}
        return meta, {
            "point": self.point,
            "best_point": best[1],
            "rounds": np.array([self.n_steps], np.float64),
        } | moves | scores

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        return int(read_numbers(arrays, "rounds", 1)[0])

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> tuple[int, np.ndarray]:
        followed = [f"eval_{number}/scores" for number in range(len(self.followed))]
        refuse_other_names({"rounds", "best_rounds", "memory"}, meta)
        refuse_other_names({"point", "best_point", "rounds", "steps", "changes", *followed}, arrays)
        rounds, memory = read_count(meta, "rounds", 2**53), read_count(meta, "memory", _MEMORY)
        if rounds != self.checked_steps(arrays):
            raise ValueError("rounds are counted twice, and differ")
        width = len(self.point)
        point, best = read_numbers(arrays, "point", width), read_numbers(arrays, "best_point", width)
        steps, changes = (
            read_numbers(arrays, name, memory * width).reshape(memory, width) for name in ("steps", "changes")
        )
        scores = [read_numbers(arrays, name, len(own)) for name, own in zip(followed, self.followed)]
        self.point, self.n_steps, self.followed = point, rounds, scores
        self._moves = [(step, change) for step, change in zip(steps, changes)]
        return read_count(meta, "best_rounds", rounds), best

    def _scores(self, X: np.ndarray) -> np.ndarray:
        weights, intercept = self.coefficients
        scores = np.empty(len(X))
        multiply(X, weights, scores, self.rules.n_jobs)
        return scores + intercept

    def _gradient_at(self, point: np.ndarray) -> np.ndarray:
        """The gradient of the cost in the weights of standardised features and the intercept."""
        before, self.point = self.point, point
        scores = self._scores(self.X)
        self.point = before
        gradients, hessians = self._derivatives
        self.target.derivatives(scores, gradients, hessians)
        pulls = gradients.astype(np.float64)
        total = exact_sum(pulls)
        own = multiply_transposed(self.X, pulls, self.rules.n_jobs)
        gradient = np.append((own - self.scaling.centre * total) / self.scaling.scale, total)
        gradient[:-1] += self.rules.l2 * len(self.X) * point[:-1]
        if not self.rules.fit_intercept:
            gradient[-1] = 0.0
        if not np.isfinite(gradient).all():
            raise ValueError("the gradient is not finite; scale labels and weights down.")
        return gradient

    def _direction(self, gradient: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian, as the last moves describe it, times the gradient."""
        direction, shares = -gradient, []
        for step, change in reversed(self._moves):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            shares.append(share)
        if self._moves:
            step, change = self._moves[-1]
            direction = direction * ((step @ change) / (change @ change))
        else:
            direction = direction / max(float(np.linalg.norm(gradient)), 1e-300)
        for (step, change), share in zip(self._moves, reversed(shares)):
            direction = direction + step * (share - (change @ direction) / (step @ change))
        return direction

    def _search(self, direction: np.ndarray, slope: float) -> tuple[float, np.ndarray]:
        """A step size at which the slope along the direction is small, and the gradient there; 0 if there is none."""
        low, high, size = 0.0, np.inf, 1.0
        low_gradient = self._gradient_at(self.point)
        for _ in range(_MOST_TRIALS):
            gradient = self._gradient_at(self.point + size * direction)
            found = float(gradient @ direction)
            if abs(found) <= _SLOPE * abs(slope):
                return size, gradient
            if found > 0:
                high = size
            else:
                low, low_gradient = size, gradient
            size = 2.0 * low if high == np.inf else 0.5 * (low + high)
        return low, low_gradient  # the last size at which the cost still falls

    def _remember(self, step: np.ndarray, change: np.ndarray) -> None:
        if step @ change > 1e-12 * (change @ change):  # otherwise the cost does not curve upwards here
            self._moves = [*self._moves, (step, change)][-_MEMORY:]
