"""Boosting: trees added one by one, each fitted to the derivatives of the cost at the scores so far.

What the cost is, boosting does not know: it asks `target` for gradients and hessians. Leaf values are computed from
full-precision sums in a fixed row order, the structure of a tree from exact integer sums, and every random draw from
the seed and the number of the tree alone. So the same input gives the same bytes, for any number of threads, and a run
that goes on from n trees ends as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from podium._numba import fast_kernel, kernel, readonly
from podium._threads import usable_threads
from podium.learners.trees.binning import BinnedRows, bin_rows, find_borders
from podium.learners.trees.forest import Forest, TreeArrays, finish_tree
from podium.learners.trees.growing import GrownTree, GrowthRules, TreeGrower


class Target(Protocol):
    """What boosting needs of an objective that is bound to the training rows."""

    def begin(self, iteration: int) -> None: ...
    def start(self) -> float: ...
    def derivatives(self, scores: np.ndarray, gradients: np.ndarray, hessians: np.ndarray) -> None: ...
    def loss(self, scores: np.ndarray) -> float: ...


@dataclass(frozen=True)
class BoostingRules:
    """How trees are added up."""

    learning_rate: float = 0.1
    step: str = "newton"  # of a leaf; "mean": minus the mean gradient; "exact": to the minimum; "length": of the tree
    max_delta_step: float = 0.0  # bound of a leaf value before the learning rate; 0: none
    max_bins: int = 255
    row_fraction: float = 1.0
    query_fraction: float = 1.0
    feature_fraction: float = 1.0
    seed: int = 0
    growth: GrowthRules = field(default_factory=GrowthRules)


class Boosting:
    """A forest under way: the scores of the training rows and the trees that made them."""

    def __init__(
        self,
        X: np.ndarray,
        offsets: np.ndarray,
        target: Target,
        rules: BoostingRules,
        *,
        base_scores: np.ndarray | None = None,
        forest: Forest | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.X, self.offsets, self.target, self.rules = X, offsets, target, rules
        self.n_threads = usable_threads(n_jobs)
        borders = find_borders(X, rules.max_bins, rules.seed, self.n_threads)
        self.binned: BinnedRows = bin_rows(X, borders, self.n_threads)
        self.grower = TreeGrower(self.binned, rules.growth, self.n_threads)
        self.trees: list[TreeArrays] = [] if forest is None else forest.split()
        self.start = forest.start if forest is not None else 0.0 if base_scores is not None else target.start()
        self.scores = np.full(len(X), self.start)
        if base_scores is not None:
            self.scores += base_scores
        if forest is not None:  # tree by tree behind the base, as an uninterrupted run would
            forest.add_scores(readonly(X), 0, forest.n_trees, self.scores)
        self._gradients, self._hessians = np.empty(len(X), np.float32), np.empty(len(X), np.float32)

    def add_tree(self) -> TreeArrays:
        """Grow one tree and add it to the scores."""
        number = len(self.trees)
        self.target.begin(number)
        self.target.derivatives(self.scores, self._gradients, self._hessians)
        rng = np.random.Generator(np.random.PCG64([self.rules.seed, number]))
        allowed, sample = self._draw_features(rng), self._draw_rows(rng)
        grown = self.grower.grow(self._gradients, self._hessians, sample, allowed)
        rows = self.grower.index[: grown.leaf_start[-1]]
        values = self._leaf_values(grown, rows) * self.rules.learning_rate
        tree = finish_tree(grown, values, self.binned.borders)
        if sample is None:
            _add_to_leaves(rows, grown.leaf_start, values, self.scores)
        else:
            Forest.join([tree], 0.0, self.X.shape[1]).add_scores(readonly(self.X), 0, 1, self.scores)
        self.trees.append(tree)
        return tree

    def forest(self, n_trees: int | None = None) -> Forest:
        """The first n trees."""
        return Forest.join(self.trees[:n_trees], self.start, self.X.shape[1])

    def _leaf_values(self, grown: GrownTree, rows: np.ndarray) -> np.ndarray:
        rules = self.rules
        values = self._newton_values(grown, rows)
        if rules.step == "exact":
            values = self._exact_values(grown, rows, values)
        elif rules.step == "length":
            values = values * self._best_length(grown, rows, values)
        if rules.max_delta_step > 0:
            values = np.clip(values, -rules.max_delta_step, rules.max_delta_step)
        return values

    def _newton_values(self, grown: GrownTree, rows: np.ndarray) -> np.ndarray:
        sums = np.empty((len(grown.leaf_node), 2))
        _sum_leaves(rows, grown.leaf_start, self._gradients, self._hessians, sums)
        if self.rules.step in ("mean", "length"):
            return np.negative(sums[:, 0]) / np.diff(grown.leaf_start)
        weight = sums[:, 1] + self.rules.growth.l2_regularization
        return np.where(weight > 0, -sums[:, 0] / np.where(weight > 0, weight, 1.0), 0.0)

    def _exact_values(self, grown: GrownTree, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Newton's steps of every leaf at once, until none moves: the minimum, for losses of single documents."""
        for _ in range(50):
            moved = self.scores.copy()
            _add_to_leaves(rows, grown.leaf_start, values, moved)
            self.target.derivatives(moved, self._gradients, self._hessians)
            change = self._newton_values(grown, rows)
            values = values + change
            if np.abs(change).max(initial=0.0) <= 1e-10 * (1.0 + np.abs(values).max(initial=0.0)):
                break
        return values

    def _best_length(self, grown: GrownTree, rows: np.ndarray, values: np.ndarray) -> float:
        """The one factor for the whole tree that lowers the loss most."""
        from scipy.optimize import minimize_scalar

        direction = np.zeros(len(self.scores))
        _add_to_leaves(rows, grown.leaf_start, values, direction)
        found = minimize_scalar(lambda length: self.target.loss(self.scores + length * direction), bracket=(0.0, 1.0))
        return float(found.x)

    def _draw_features(self, rng: np.random.Generator) -> np.ndarray:
        n = self.X.shape[1]
        allowed = np.ones(n, dtype=np.bool_)
        if self.rules.feature_fraction < 1:
            kept = max(1, round(self.rules.feature_fraction * n))
            allowed[:] = False
            allowed[rng.permutation(n)[:kept]] = True
        return allowed

    def _draw_rows(self, rng: np.random.Generator) -> np.ndarray | None:
        """The rows of a tree: a share of the queries, and of these a share of the rows; None for all."""
        rules, n_queries = self.rules, len(self.offsets) - 1
        if rules.query_fraction >= 1 and rules.row_fraction >= 1:
            return None
        chosen = np.ones(n_queries, dtype=np.bool_)
        if rules.query_fraction < 1:
            chosen[:] = False
            chosen[rng.permutation(n_queries)[: max(1, round(rules.query_fraction * n_queries))]] = True
        rows = np.flatnonzero(np.repeat(chosen, np.diff(self.offsets)))
        if rules.row_fraction < 1:
            rows = np.sort(rng.permutation(rows)[: max(1, round(rules.row_fraction * len(rows)))])
        return rows


def boost(boosting: Boosting, n_trees: int, after: Callable[[int, TreeArrays], bool]) -> None:
    """Add trees until there are `n_trees`, or `after(number, tree)` says stop."""
    while len(boosting.trees) < n_trees:
        tree = boosting.add_tree()
        if after(len(boosting.trees), tree):
            return


@fast_kernel
def _sum_leaves(
    rows: np.ndarray, leaf_start: np.ndarray, gradients: np.ndarray, hessians: np.ndarray, sums: np.ndarray
) -> None:
    """sums[leaf] = (gradient, hessian) of its rows, in an order that the compiler fixed."""
    for leaf in range(len(sums)):
        gradient, hessian = 0.0, 0.0
        own = rows[leaf_start[leaf] : leaf_start[leaf + 1]]
        for k in range(len(own)):
            gradient += gradients[own[k]]
            hessian += hessians[own[k]]
        sums[leaf, 0], sums[leaf, 1] = gradient, hessian


@kernel
def _add_to_leaves(rows: np.ndarray, leaf_start: np.ndarray, values: np.ndarray, scores: np.ndarray) -> None:
    for leaf in range(len(values)):
        for k in range(leaf_start[leaf], leaf_start[leaf + 1]):
            scores[rows[k]] += values[leaf]
