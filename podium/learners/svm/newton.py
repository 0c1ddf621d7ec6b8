"""Truncated Newton for linear scoring functions with a margin: one round is one Newton step.

    1/2 |w|^2 + C sum over pairs of xi      (hinge), or of xi^2 (squared hinge)

The hinge is smoothed over an interval of margins (`pairs.py`) whose width falls until the smoothing no longer matters.
The squared hinge is minimised as it is. Large second derivatives, c = C / width or 2 C, would make the first steps end
far away: training begins with so large a width, or so small a C, that they are not large, and continues in stages. With
an infinite C, w must have no slack at all: the squared hinge with a growing C comes as close to that as is asked for.
Where it is cheaper, always with an infinite C, w is divided by the smallest margin, and no pair has any slack.

A round solves `(I + c X' M X) d = -gradient` by conjugate gradients, M being the second derivatives in the scores,
then finds the step by a search along d, which needs no further product with X. Each w also gives dual variables, one
per pair, of which only sums are needed: `alpha = c min(xi, width)`, with `v = sum alpha (x_i - x_j) = -c X' g`. So
in every stage there are bounds for the minimum on both sides,

    hinge:          1/2 |w|^2 + C sum xi     >=  minimum  >=  sum alpha - 1/2 |v|^2
    squared hinge:  1/2 |w|^2 + C sum xi^2   >=  minimum  >=  sum alpha - 1/2 |v|^2 - sum alpha^2 / 4C
    no slack:       1/2 |w|^2 / margin^2     >=  minimum  >=  1/2 (sum alpha)^2 / |v|^2

and training ends when they are as near as is asked for. The last line also shows when there is no solution: the
margin 1/|w| is at most `|v| / sum alpha`, which is then as small as one likes.

References: Chapelle and Keerthi 2010, Efficient algorithms for ranking with SVMs; Lee and Lin 2014, Large-scale
linear RankSVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.learners.linear.products import multiply, multiply_transposed
from podium.learners.stored import named_scores, read_count, read_numbers, read_scores, refuse_other_names
from podium.learners.svm.given_pairs import GivenMargins
from podium.learners.svm.pairs import Pairs, Violations
from podium.learners.svm.scatter import Preconditioner

_SMOOTHING = 1.0  # least width of the quadratic part of the hinge in the first round
_NARROWER, _NARROWEST = 0.2, 1e-9
_COSTLIER = 10.0  # the next C on the way to a large or infinite one
_SOLVED = 0.01  # of the squared residual of Newton's equations, what may be left
_MOST_PRODUCTS = 500  # with the Hessian, in one round
_MOST_TRIALS = 60
_SLOPE = 0.1  # of the slope at the start of a search, what may be left at its end
_NO_MARGIN = 1e-7  # of the usual length of a difference x_i - x_j: a smaller margin is none


@dataclass(frozen=True)
class SvmRules:
    """What is minimised, and when training ends by itself."""

    C: float = 1.0  # inf: no slack
    squared: bool = False
    tolerance: float = 1e-4  # of the duality gap, relative to the objective
    n_jobs: int | None = None


@dataclass(frozen=True, eq=False)
class NewtonIterate:
    """A point w, and what is known there."""

    point: np.ndarray
    scores: np.ndarray
    violations: Violations
    factor: float  # c
    gradient: np.ndarray  # of what is minimised with the present width and C
    primal: float  # the objective of the problem that was asked for, at point / scale
    scale: float
    dual: float  # a lower bound of its minimum
    reach: float  # |v| / sum alpha: no margin is larger, if every pair must have one


@dataclass(frozen=True, eq=False)
class Solution:
    """What a round ends with."""

    rounds: int
    weights: np.ndarray
    objective: float
    gap: float  # relative: (objective - lower bound) / objective


class SvmTraining:
    """The learner of RankSVM; features are taken as they are."""

    def __init__(self, X: np.ndarray, pairs: Pairs | GivenMargins, rules: SvmRules) -> None:
        self.X, self.pairs, self.rules = X, pairs, rules
        self._preconditioner = Preconditioner.of(X, pairs)
        self.is_hard = np.isinf(rules.C)
        self._squared = rules.squared or self.is_hard
        spread, n_pairs = float(self._preconditioner.values.sum()), int(pairs.counts.sum())
        self._usual_length = float(np.sqrt(spread / max(n_pairs, 1)))
        self._width = np.inf if self._squared else max(_SMOOTHING, rules.C * self._usual_length**2)
        self._cost = self._first_cost(spread)
        self._dual = 0.0
        self.followed: list[np.ndarray] = []
        self._followed_rows: list[tuple[np.ndarray, np.ndarray | float]] = []
        self._settle(self._evaluate(np.zeros(X.shape[1]), np.zeros(len(X)), self._width, self._cost), 0, moved=True)

    def _first_cost(self, spread: float) -> float:
        if self.is_hard:
            return 1.0 / max(spread, 1e-300)
        return min(self.rules.C, 1.0 / max(self._usual_length**2, 1e-300)) if self._squared else self.rules.C

    @property
    def n_steps(self) -> int:
        return self.solution.rounds

    @property
    def is_done(self) -> bool:
        return self.solution.gap <= self.rules.tolerance or self._stuck

    def step(self) -> None:
        here = self._iterate
        direction = self._direction(here)
        size = self._search(here, direction, self._multiply(self.X, direction))
        point = here.point + size * direction
        there = self._evaluate(point, self._multiply(self.X, point), self._width, self._cost)
        self._settle(there, self.n_steps + 1, moved=size > 0)
        for number, (X, offset) in enumerate(self._followed_rows):
            self.followed[number] = self._multiply(X, self.solution.weights) + offset

    def follow(self, data: RankingData, offset: np.ndarray | float) -> None:
        rows = self._followed_columns(data.X)
        self._followed_rows.append((rows, offset))
        self.followed.append(self._multiply(rows, self.solution.weights) + offset)

    def _followed_columns(self, X: np.ndarray) -> np.ndarray:
        """What the weights are multiplied with."""
        return X

    def snapshot(self) -> Solution:
        return self.solution

    def keep(self, snapshot: Solution) -> None:
        self.solution = snapshot

    def state(self, best: Solution) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        width = 0.0 if self._width == np.inf else self._width
        arrays = {
            "point": self._iterate.point,
            "stage": np.array([width, self._cost, self._dual]),
            "rounds": np.array([self.n_steps], np.float64),
            "best_weights": best.weights,
            "best_facts": np.array([best.objective, best.gap]),
        }
        return {"rounds": self.n_steps, "best_rounds": best.rounds}, arrays | named_scores(self.followed)

    def checked_steps(self, arrays: Mapping[str, np.ndarray]) -> int:
        return int(read_numbers(arrays, "rounds", 1)[0])

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Solution:
        refuse_other_names({"rounds", "best_rounds"}, meta)
        names = {"point", "stage", "rounds", "best_weights", "best_facts"}
        refuse_other_names(names | named_scores(self.followed).keys(), arrays)
        rounds, features = read_count(meta, "rounds", 2**53), self.X.shape[1]
        if rounds != self.checked_steps(arrays):
            raise ValueError("rounds are counted twice, and differ")
        point, best = read_numbers(arrays, "point", features), read_numbers(arrays, "best_weights", features)
        width, cost, dual = read_numbers(arrays, "stage", 3).tolist()
        if (width == 0) != self._squared or width < 0 or cost <= 0:
            raise ValueError("the stage of the solver is not one of this problem")
        objective, gap = read_numbers(arrays, "best_facts", 2, unset=np.inf).tolist()
        scores = read_scores(arrays, self.followed)
        solution = Solution(read_count(meta, "best_rounds", rounds), best, objective, gap)
        self._width, self._cost, self._dual = width or np.inf, cost, dual
        self._iterate = self._evaluate(point, self._multiply(self.X, point), self._width, self._cost)
        self.solution, self.followed = self._solution(self._iterate, dual, rounds), scores
        return solution

    def _multiply(self, X: np.ndarray, weights: np.ndarray) -> np.ndarray:
        out = np.empty(len(X))
        multiply(X, weights, out, self.rules.n_jobs)
        return out

    # --- where we are -----------------------------------------------------------------------------------------------

    def _settle(self, at: NewtonIterate, rounds: int, moved: bool) -> None:
        """Take over a point. Where it minimises what is minimised now, the next stage begins: another width or C."""
        width, cost, dual = self._width, self._cost, max(self._dual, at.dual)
        self._refuse_unrankable(at)
        is_done = self._solution(at, dual, rounds).gap <= self.rules.tolerance
        is_last = cost >= self.rules.C if self._squared else width <= _NARROWEST
        stuck = not moved and is_last
        is_final = is_last and self._squared  # a width can fall further
        if not is_done and not stuck and not is_final and (not moved or self._is_minimal(at)):
            width, cost = (width, self._next_cost(cost)) if self._squared else (width * _NARROWER, cost)
            at = self._evaluate(at.point, at.scores, width, cost)
            dual = max(dual, at.dual)
        self._width, self._cost, self._dual, self._iterate, self._stuck = width, cost, dual, at, stuck
        self.solution = self._solution(at, dual, rounds)

    def _next_cost(self, cost: float) -> float:
        return min(cost * _COSTLIER, self.rules.C)

    def _is_minimal(self, at: NewtonIterate) -> bool:
        """Whether the error of this stage, 1/2 |gradient|^2, is small beside what the next one can change."""
        error = 0.5 * float(at.gradient @ at.gradient)
        is_small = error <= 0.01 * (0.5 * float(at.point @ at.point) + at.factor * at.violations.loss)
        return is_small and (self._squared or error <= 0.1 * (at.primal - at.dual))

    def _refuse_unrankable(self, at: NewtonIterate) -> None:
        if self.is_hard and at.reach <= _NO_MARGIN * self._usual_length:
            usual = f"documents of a pair are usually {self._usual_length:.2g} apart"
            raise ValueError(
                "The training data are not linearly rankable, as C=inf asks for: no weights give every pair a margin "
                f"above {at.reach:.2g} ({usual}). Set C to a number: pairs may then violate the margin."
            )

    def _solution(self, at: NewtonIterate, dual: float, rounds: int) -> Solution:
        gap = max(at.primal - dual, 0.0) / at.primal if 0 < at.primal < np.inf else float(at.primal > 0)
        return Solution(rounds, at.point / at.scale, at.primal, gap)

    def _evaluate(self, point: np.ndarray, scores: np.ndarray, width: float, cost: float) -> NewtonIterate:
        violations = self.pairs.violations(scores, width)
        factor = 2.0 * cost if self._squared else cost / width
        dual_weights = -factor * multiply_transposed(self.X, violations.gradient, self.rules.n_jobs)
        penalty, length = 0.5 * float(point @ point), float(np.sqrt(dual_weights @ dual_weights))
        total = factor * violations.dual_sum
        reach = length / total if total > 0 else np.inf
        if self.is_hard:
            primal, dual = np.inf, 0.5 / reach**2 if reach > 0 else np.inf
        elif self._squared:
            squares, C = 2.0 * violations.loss, self.rules.C
            primal, dual = penalty + C * squares, total - 0.5 * length**2 - cost * (cost / C) * squares
        else:
            primal, dual = penalty + cost * violations.slack, total - 0.5 * length**2
        primal, scale = self._scaled(primal, penalty, violations.margin)
        return NewtonIterate(point, scores, violations, factor, point - dual_weights, primal, scale, dual, reach)

    def _scaled(self, primal: float, penalty: float, margin: float) -> tuple[float, float]:
        """The objective and the divisor of w: 1, or the smallest margin, if that is cheaper. No slack is left then."""
        without_slack = penalty / margin**2 if 0 < margin < np.inf else np.inf
        return (without_slack, margin) if without_slack < primal else (primal, 1.0)

    # --- one round --------------------------------------------------------------------------------------------------

    def _direction(self, here: NewtonIterate) -> np.ndarray:
        """Minus the inverse Hessian times the gradient, as nearly as is worth while, by conjugate gradients."""
        self._preconditioner.prepare(here.factor * here.violations.curvature.share)
        residual, solution = -here.gradient, np.zeros_like(here.gradient)
        search = self._preconditioner.solve(residual)
        size = start = float(residual @ search)
        for _ in range(_MOST_PRODUCTS):
            if size <= _SOLVED * start:
                break
            product = self._multiply_hessian(here, search)
            step = size / float(search @ product)
            solution, residual = solution + step * search, residual - step * product
            rest = self._preconditioner.solve(residual)
            size, before = float(residual @ rest), size
            search = rest + (size / before) * search
        return solution

    def _multiply_hessian(self, here: NewtonIterate, values: np.ndarray) -> np.ndarray:
        curved = here.violations.curvature.multiply(self._multiply(self.X, values))
        return np.asarray(values + here.factor * multiply_transposed(self.X, curved, self.rules.n_jobs))

    def _search(self, here: NewtonIterate, direction: np.ndarray, along: np.ndarray) -> float:
        """The step at which the slope along the direction is nearly 0: Newton steps, kept within a bracket."""
        start_slope, start_curve = float(here.point @ direction), float(direction @ direction)
        start = slope = float(here.gradient @ direction)
        low, high, size, curvature = 0.0, np.inf, 0.0, here.violations.curvature
        if not start < 0:
            return 0.0
        for _ in range(_MOST_TRIALS):
            size -= slope / (start_curve + here.factor * float(along @ curvature.multiply(along)))
            if not low < size < high:
                size = 0.5 * (low + high) if high < np.inf else 2.0 * low
            there = self.pairs.violations(here.scores + size * along, self._width)
            slope = start_slope + size * start_curve + here.factor * float(there.gradient @ along)
            if abs(slope) <= _SLOPE * abs(start):
                return size
            low, high, curvature = (size, high, there.curvature) if slope < 0 else (low, size, there.curvature)
        return low
