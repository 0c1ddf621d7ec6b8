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

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.exact import exact_sum
from podium.data.sparse import FeatureMatrix
from podium.learners.linear.basis import Basis
from podium.learners.linear.products import multiply_transposed
from podium.learners.linear.weighted import WeightedFeatures
from podium.learners.protocol import Target

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


@dataclass(eq=False)
class Iterate:
    """Weights with the scores and the gradient of the cost there; the cost itself once it was asked for."""

    point: Array
    scores: Array
    gradient: Array
    cost: float | None = None


class LinearTraining(WeightedFeatures):
    """The learner of linear models; behind the weights of standardised features, `weights` has the intercept."""

    def __init__(
        self, X: Array, target: Target, rules: LinearRules, basis: Basis | None = None, row_weights: Array | None = None
    ) -> None:
        """row_weights (n,): for the standardisation; the target knows its own."""
        self.basis, self.target, self.rules = basis, target, rules
        super().__init__(self._expanded(X), rules.n_jobs, row_weights)
        total = target.total_weight
        self._total = total if total > 0 else 1.0  # without any weight, every gradient is 0
        self.weights = np.append(self.weights, target.start() if rules.fit_intercept else 0.0)
        self._moves: list[tuple[Array, Array]] = []  # (step, change of the gradient), oldest first
        self._derivatives = np.empty(len(X), np.float32), np.empty(len(X), np.float32)
        self._here: Iterate | None = None  # the last one, where the next round need not ask again

    def step(self) -> None:
        self.target.begin(self.n_steps)
        here = self._here if self._here is not None and not self.target.is_random else self._iterate(self.weights)
        moves, direction = self._moves, self._direction(here.gradient, self._moves)
        if not direction @ here.gradient < 0:  # the memory no longer describes the cost: follow the gradient
            moves, direction = [], self._direction(here.gradient, [])
        size, there = self._search(here, direction, float(direction @ here.gradient))
        self._moves = _remember(moves, there.point - here.point, there.gradient - here.gradient)
        self._here = there
        self.is_done = size == 0.0 or float(np.abs(there.gradient).max(initial=0.0)) <= self.rules.tolerance
        self.settle(there.point)

    def _expanded(self, X: FeatureMatrix) -> Array:
        return np.asarray(X) if self.basis is None else self.basis.expand(np.asarray(X), self.rules.n_jobs)

    def _unscaled(self, weights: Array) -> tuple[Array, float]:
        raw, intercept = super()._unscaled(weights[:-1])
        return raw, float(weights[-1] + intercept)

    def _more_state(self) -> dict[str, Array]:
        moves = np.zeros((2, _MEMORY, len(self.weights)))
        for number, move in enumerate(self._moves):
            moves[:, number] = move
        return {"memory": np.array([float(len(self._moves))]), "moves": moves.reshape(-1)}

    def _restore_more(self, arrays: Mapping[str, Array]) -> None:
        memory = float(arrays["memory"][0])
        if memory not in range(_MEMORY + 1):
            raise ValueError(f"memory must be an integer from 0 to {_MEMORY}")
        steps, changes = arrays["moves"].reshape(2, _MEMORY, -1)[:, : int(memory)]
        self._moves, self._here = list(zip(steps, changes)), None

    def _iterate(self, point: Array) -> Iterate:
        """The gradient of the cost in the weights of standardised features and the intercept."""
        scores, (gradients, hessians) = self.scores(self.X, point), self._derivatives
        self.target.derivatives(scores, gradients, hessians)
        exact = gradients.astype(np.float64)
        total = exact_sum(exact)
        raw = multiply_transposed(self.X, exact, self.rules.n_jobs)
        gradient = np.append((raw - self.scaling.centre * total) / self.scaling.scale, total) / self._total
        gradient[:-1] += self.rules.l2 * point[:-1]
        if not self.rules.fit_intercept:
            gradient[-1] = 0.0
        if not np.isfinite(gradient).all():
            raise ValueError("the gradient is not finite; scale labels and weights down.")
        return Iterate(point, scores, gradient)

    def _cost(self, at: Iterate) -> float:
        if at.cost is None:
            weights = at.point[:-1]
            at.cost = self.target.loss(at.scores) / self._total + 0.5 * self.rules.l2 * float(weights @ weights)
        return at.cost

    def _direction(self, gradient: Array, moves: list[tuple[Array, Array]]) -> Array:
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

    def _search(self, here: Iterate, direction: Array, slope: float) -> tuple[float, Iterate]:
        """A step size that ends the search, and the iterate there; the last one before the cost rises if there is none.

        The size is bracketed between one that is too small and one that is too large; between these, the next is where
        a straight line through their slopes is 0.
        """
        low, low_slope, before = 0.0, slope, here
        high, high_slope, size = np.inf, np.inf, 1.0
        most = self._cost(here) if self.target.is_smooth else np.inf
        most += _ROUNDING * abs(most) if most < np.inf else 0.0
        for _ in range(_MOST_TRIALS):
            there = self._iterate(here.point + size * direction)
            new = float(there.gradient @ direction)
            if new > -_SLOPE * slope or (most < np.inf and self._cost(there) > most + _DECREASE * size * slope):
                high, high_slope = size, new
            elif new < _SLOPE * slope:
                low, low_slope, before = size, new, there
            else:
                return size, there
            size = 4.0 * size if high == np.inf else _between(low, low_slope, high, high_slope)
        return low, before


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """Where the slope should be 0, at least a tenth of the way from both ends; the middle if slopes do not tell."""
    share = low_slope / (low_slope - high_slope) if high_slope > 0 else 0.5
    return low + min(max(share, 0.1), 0.9) * (high - low)


def _remember(moves: list[tuple[Array, Array]], step: Array, change: Array) -> list[tuple[Array, Array]]:
    if step @ change > 1e-12 * (change @ change):  # otherwise the cost does not curve upwards here
        return [*moves, (step, change)][-_MEMORY:]
    return moves
