"""L-BFGS for linear scoring functions: one round is one step of the method.

With z the standardised features (or basis functions), what is minimised is a mean plus a penalty:

    loss(scores) / total weight + l2/2 |w|^2,        scores = Z w + b

The total weight is the objective's (`Target.total_weight`): that of documents, pairs or queries. b is trained for
pointwise objectives only and never penalised. A round takes the two-loop recursion over the last pairs of steps and
gradient changes, then searches along the direction for a step at which the slope is small and the cost has fallen
(Wolfe's conditions). Costs are compared where the objective has a loss of which its gradients are the derivatives
everywhere; others (lambda, sampled losses, a user's own) are searched by their slopes alone.

References: Nocedal and Wright, Numerical Optimization, chapters 3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.exact import exact_sum
from podium.data.precision import divisors
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix
from podium.learners.linear.basis import Basis
from podium.learners.linear.products import multiply, multiply_transposed
from podium.learners.protocol import Target
from podium.learners.stored import read_count, read_numbers, refuse_other_names

_MEMORY = 10  # pairs of steps and gradient changes
_SLOPE = 0.9  # of the slope at the start of a search, what may be left at its end
_DECREASE = 1e-4  # of what the slope at the start promises, what the cost must fall by
_ROUNDING = 1e-12  # of the cost, what it may rise by: less is rounding
_MOST_TRIALS = 20


@dataclass(frozen=True)
class LinearRules:
    """What is minimised, and when training ends by itself."""

    l2: float = 0.0
    tolerance: float = 1e-5  # of the gradient's largest entry
    fit_intercept: bool = False
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class Scaling:
    """Standardisation: z = (x - centre) / scale; a constant feature has scale 1 and so z = 0."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> Scaling:
        """Means and standard deviations of the columns, weighted if rows have weights; identity without any row."""
        weights = np.ones(len(X)) if weights is None else weights
        total = exact_sum(weights) if weights.any() else 1.0
        centre = multiply_transposed(X, weights, n_jobs) / total
        spread = np.zeros(X.shape[1])
        for f in range(X.shape[1]):
            spread[f] = exact_sum(weights * (X[:, f].astype(np.float64) - centre[f]) ** 2) / total
        return cls(centre, divisors(centre, np.sqrt(spread)))


@dataclass(eq=False)
class Place:
    """A point with the scores and the gradient of the cost there; the cost itself once it was asked for."""

    point: np.ndarray
    scores: np.ndarray
    gradient: np.ndarray
    cost: float | None = None


class LinearTraining:
    """The learner of linear models; `point` has the weights of standardised features, then the intercept."""

    def __init__(
        self,
        X: np.ndarray,
        target: Target,
        rules: LinearRules,
        basis: Basis | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        """weights (n,): of the rows, for their standardisation; the target knows its own."""
        self.basis, self.target, self.rules = basis, target, rules
        self.X = X = self._expanded(X)
        self.scaling = Scaling.of(X, rules.n_jobs, weights)
        total = target.total_weight
        self._total = total if total > 0 else 1.0  # without any weight, every gradient is 0
        self.point = np.zeros(X.shape[1] + 1)
        self.point[-1] = target.start() if rules.fit_intercept else 0.0
        self.n_steps, self.is_done = 0, False
        self._moves: list[tuple[np.ndarray, np.ndarray]] = []  # (step, change of the gradient), oldest first
        self._derivatives = np.empty(len(X), np.float32), np.empty(len(X), np.float32)
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[np.ndarray, np.ndarray | float]] = []
        self._here: Place | None = None  # the last place, where the next round need not ask again

    def step(self) -> None:
        self.target.begin(self.n_steps)
        here = self._here if self._here is not None and not self.target.is_random else self._place(self.point)
        moves, direction = self._moves, self._direction(here.gradient, self._moves)
        if not direction @ here.gradient < 0:  # the memory no longer describes the cost: follow the gradient
            moves, direction = [], self._direction(here.gradient, [])
        size, there = self._search(here, direction, float(direction @ here.gradient))
        self._moves = _remember(moves, there.point - here.point, there.gradient - here.gradient)
        self.point, self._here, self.n_steps = there.point, there, self.n_steps + 1
        self.is_done = size == 0.0 or float(np.abs(there.gradient).max(initial=0.0)) <= self.rules.tolerance
        for number, (X, offset) in enumerate(self._followed_rows):
            self.followed[number] = self._scores(X, self.point) + offset

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        rows = self._expanded(data.X)
        self._followed_rows.append((rows, offset))
        self.followed.append(self._scores(rows, self.point) + offset)

    def snapshot(self) -> tuple[int, np.ndarray]:
        return self.n_steps, self.point

    def keep(self, snapshot: tuple[int, np.ndarray]) -> None:
        self.n_steps, self.point = snapshot

    @property
    def coefficients(self) -> tuple[np.ndarray, float]:
        """Weights of the features as they came (or of the basis functions), and the intercept."""
        return self._coefficients(self.point)

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
        self.point, self.n_steps, self.followed, self._here = point, rounds, scores, None
        self._moves = [(step, change) for step, change in zip(steps, changes)]
        return read_count(meta, "best_rounds", rounds), best

    def _expanded(self, X: FeatureMatrix) -> np.ndarray:
        return np.asarray(X) if self.basis is None else self.basis.expand(np.asarray(X), self.rules.n_jobs)

    def _coefficients(self, point: np.ndarray) -> tuple[np.ndarray, float]:
        weights = point[:-1] / self.scaling.scale
        return weights, float(point[-1] - weights @ self.scaling.centre)

    def _scores(self, X: np.ndarray, point: np.ndarray) -> np.ndarray:
        weights, intercept = self._coefficients(point)
        scores = np.empty(len(X))
        multiply(X, weights, scores, self.rules.n_jobs)
        return scores + intercept

    def _place(self, point: np.ndarray) -> Place:
        """The gradient of the cost in the weights of standardised features and the intercept."""
        scores, (gradients, hessians) = self._scores(self.X, point), self._derivatives
        self.target.derivatives(scores, gradients, hessians)
        exact = gradients.astype(np.float64)
        total = exact_sum(exact)
        own = multiply_transposed(self.X, exact, self.rules.n_jobs)
        gradient = np.append((own - self.scaling.centre * total) / self.scaling.scale, total) / self._total
        gradient[:-1] += self.rules.l2 * point[:-1]
        if not self.rules.fit_intercept:
            gradient[-1] = 0.0
        if not np.isfinite(gradient).all():
            raise ValueError("the gradient is not finite; scale labels and weights down.")
        return Place(point, scores, gradient)

    def _cost(self, place: Place) -> float:
        if place.cost is None:
            weights = place.point[:-1]
            place.cost = self.target.loss(place.scores) / self._total + 0.5 * self.rules.l2 * float(weights @ weights)
        return place.cost

    def _direction(self, gradient: np.ndarray, moves: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Minus the inverse Hessian, as the last moves describe it, times the gradient."""
        direction, shares = -gradient, []
        for step, change in reversed(moves):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            shares.append(share)
        if moves:
            step, change = moves[-1]
            direction = direction * ((step @ change) / (change @ change))
        else:
            direction = direction / max(float(np.linalg.norm(gradient)), 1e-300)
        for (step, change), share in zip(moves, reversed(shares)):
            direction = direction + step * (share - (change @ direction) / (step @ change))
        return direction

    def _search(self, here: Place, direction: np.ndarray, slope: float) -> tuple[float, Place]:
        """A step size that ends the search, and the place there; the last one before the cost rises if there is none.

        The size is bracketed between one that is too small and one that is too large; between these, the next is where
        a straight line through their slopes is 0.
        """
        low, low_slope, before = 0.0, slope, here
        high, high_slope, size = np.inf, np.inf, 1.0
        most = self._cost(here) if self.target.is_smooth else np.inf
        most += _ROUNDING * abs(most) if most < np.inf else 0.0
        for _ in range(_MOST_TRIALS):
            there = self._place(here.point + size * direction)
            found = float(there.gradient @ direction)
            if found > -_SLOPE * slope or (most < np.inf and self._cost(there) > most + _DECREASE * size * slope):
                high, high_slope = size, found
            elif found < _SLOPE * slope:
                low, low_slope, before = size, found, there
            else:
                return size, there
            size = 4.0 * size if high == np.inf else _between(low, low_slope, high, high_slope)
        return low, before


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """Where the slope should be 0, at least a tenth of the way from both ends; the middle if slopes do not tell."""
    share = low_slope / (low_slope - high_slope) if high_slope > 0 else 0.5
    return low + min(max(share, 0.1), 0.9) * (high - low)


def _remember(
    moves: list[tuple[np.ndarray, np.ndarray]], step: np.ndarray, change: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    if step @ change > 1e-12 * (change @ change):  # otherwise the cost does not curve upwards here
        return [*moves, (step, change)][-_MEMORY:]
    return moves
