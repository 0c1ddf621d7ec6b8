"""Boosting: trees added one by one, each fitted to the derivatives of the cost at the scores so far.

What the cost is, boosting does not know: it asks `target` for gradients and hessians. The structure of a tree and its
leaf values come from exact sums of these, which no order or grouping of rows can change, and every random draw from the
seed and the number of the tree alone. So the same input gives the same bytes, for any number of threads, and a run that
goes on from n trees ends as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.exact import largest_size, on_grid, units_for
from podium._runtime.random import stream_of
from podium._runtime.threads import map_slices, usable_threads
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix
from podium.learners.protocol import Target
from podium.learners.stored import named_scores, read_count, read_numbers, read_scores, refuse_other_names
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest, TreeArrays
from podium.learners.trees.sharding.support import counted_rows, refuse_on_shards
from podium.learners.trees.training.binning import BinnedRows, find_bin_edges
from podium.learners.trees.training.bundling import LayoutRules, bin_bundled
from podium.learners.trees.training.finishing import finish_tree, newton_steps
from podium.learners.trees.training.growing import TreeGrower, refuse_bad_derivatives
from podium.learners.trees.training.grown import GrownTree, GrowthRules
from podium.learners.trees.training.monotone import clip_to_constraints
from podium.learners.trees.training.partitioning import route_rows
from podium.learners.trees.training.sampling import SamplingRules, draw_features, draw_rows

_BLOCK_ROWS = 16_384

# (scores, what the tree adds to each, largest size) -> the size of the step along the tree; 0 if none is an improvement
StepRule = Callable[[Array, Array, float], float]


@dataclass(frozen=True)
class BoostingRules:
    """How trees are added up."""

    learning_rate: float = 0.1
    # or "mean" of the gradients, "exact" to the minimum, "tree" and "line_search": one size per tree
    step: str = "newton"
    max_delta_step: float = 0.0  # bound of a leaf value before the learning rate; 0: none
    max_bins: int = 255
    drop_rate: float = 0.0  # the share of the trees that is left out while a new one is grown: DART
    skip_drop: float = 0.5  # how often none is
    max_drop: int = 50
    average: bool = False  # every tree is grown from the start, and the forest is their mean
    seed: int = 0
    n_jobs: int | None = None
    growth: GrowthRules = field(default_factory=GrowthRules)
    sampling: SamplingRules = field(default_factory=SamplingRules)
    layout: LayoutRules = field(default_factory=LayoutRules)


class Boosting:
    """The learner of boosted trees: the scores of the training rows and the trees that made them."""

    def __init__(
        self,
        X: FeatureMatrix,
        shard: Shard,
        target: Target,
        rules: BoostingRules,
        *,
        base_scores: Array | None = None,
        forest: Forest | None = None,
        step_rule: StepRule | None = None,
        weights: Array | None = None,
    ) -> None:
        """`step_rule` decides the size of each step where the rules ask for a line search.

        weights (rows,): trees and bin edges are as if rows whose weight is 0 were not there, and splits by gradients
        weigh rows by them. None: all are 1.

        shard: which rows these are. Ranks with some of the rows, to which `target` is bound too, take all steps
        together and have the same trees: those of one process with all rows, to the last bit.
        """
        self.X, self.shard, self.target, self.rules = X, shard, target, rules
        refuse_on_shards(X, shard, target, weights, step_rule is not None)
        self._step_rule, self.is_done = step_rule, False
        self.n_threads = usable_threads(rules.n_jobs)
        self._counts, is_weighted = counted_rows(weights, self.shard)
        self._row_weights = self._weights_of_splits(weights if is_weighted else None)
        self.split_weights = self._row_weights
        self.binned = self._bin()
        self.grower = self.make_grower(rules.growth, self.n_threads)
        self.trees: list[TreeArrays] = [] if forest is None else forest.split()
        self.start = forest.start if forest is not None else 0.0 if base_scores is not None else target.start()
        self._refuse_other_start()
        if not np.isfinite(self.start):
            raise ValueError("the constant to start from is not finite; scale labels and weights down.")
        n = X.shape[0]
        self.scores = np.full(n, self.start)
        if base_scores is not None:
            self.scores += base_scores
        if forest is not None:  # tree by tree behind the base, as an uninterrupted run would
            forest.add_scores(X, 0, forest.n_trees, self.scores)
        self._gradients, self._hessians = np.empty(n, np.float32), np.empty(n, np.float32)
        self.followed: list[Array] = []
        self._followed_rows: list[FeatureMatrix] = []
        self._followed_shards: list[Shard | None] = []

    @property
    def n_steps(self) -> int:
        return len(self.trees)

    def make_grower(self, growth: GrowthRules, n_threads: int) -> TreeGrower:
        """What grows trees by these rules on the rows of this training."""
        return TreeGrower(self.binned, growth, n_threads, shard=self.shard)

    def _refuse_other_start(self) -> None:
        """An objective of the user's own may have computed its start from the rows of one rank."""
        starts = np.concatenate(self.shard.collective.gather(np.array([self.start])))
        if len(np.unique(starts)) > 1:
            problem = f"the objective starts at {', '.join(f'{start:g}' for start in starts)} on the ranks"
            raise ValueError(f"{problem}; its start must be a sum over all of them (`data.exact_sum`).")

    def step(self) -> None:
        """One more tree; none, and training is done, where the step rule finds no improvement along it."""
        changes = Forest.join(self.add_tree(), 0.0, self.X.shape[1])
        for X, scores in zip(self._followed_rows, self.followed):
            changes.add_scores(X, 0, changes.n_trees, scores)

    def follow(self, data: RankingData, offset: Array | float, shard: Shard | None = None) -> None:
        """`shard`: of which rows of the evaluation set these are, so that `state` has the scores of all."""
        self._followed_rows.append(data.X)
        self._followed_shards.append(shard)
        self.followed.append(self.forest().scores(data.X, n_jobs=self.n_threads) + offset)

    def _followed_everywhere(self) -> list[Array]:
        """The scores of evaluation sets, of the rows of all ranks."""
        both = zip(self.followed, self._followed_shards)
        return [scores if shard is None else shard.gather_rows(scores) for scores, shard in both]

    def snapshot(self) -> list[TreeArrays]:
        return self.trees  # each step makes a new list: later ones may change the values of earlier trees

    def keep(self, snapshot: list[TreeArrays]) -> None:
        self.trees = snapshot

    def state(self, best: list[TreeArrays]) -> tuple[dict[str, Any], dict[str, Array]]:
        """The trees, the scores they have given (with DART not their sum to the last bit), and the best trees.

        Random draws depend on the seed and the number of the tree alone. Ranks call this together, and each gets the
        state of all: the scores of all rows, in their order.
        """
        forest = self.forest()
        arrays = {name: getattr(forest, name) for name in FOREST_ARRAYS}
        arrays |= {"scores": self.shard.gather_rows(self.scores)} | named_scores(self._followed_everywhere())
        if any(tree is not now for tree, now in zip(best, self.trees)):
            # DART has changed trees since the best step: their values, never their shape
            arrays["best_leaves"] = np.concatenate([tree.value for tree in best])
        return {"best_trees": len(best)}, arrays

    def checked_steps(self, arrays: Mapping[str, Array]) -> int:
        return self._stored_forest(arrays).n_trees

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> list[TreeArrays]:
        refuse_other_names({"best_trees"}, meta)
        names = {*FOREST_ARRAYS, "scores", *named_scores(self.followed)}
        refuse_other_names(names, arrays.keys() - {"best_leaves"})
        forest = self._stored_forest(arrays)
        n_best = read_count(meta, "best_trees", forest.n_trees)
        scores = read_numbers(arrays, "scores", self.shard.n_rows)[self.shard.rows]
        others = self._read_followed(arrays)
        leaves = read_numbers(arrays, "best_leaves", int(forest.roots[n_best])) if "best_leaves" in arrays else None

        self.trees, self.scores, self.followed = forest.split(), scores, others
        best = self.trees[:n_best]
        return best if leaves is None else _with_values(best, leaves)

    def _read_followed(self, arrays: Mapping[str, Array]) -> list[Array]:
        both = list(zip(self.followed, self._followed_shards))
        stored = read_scores(arrays, [np.empty(len(part) if shard is None else shard.n_rows) for part, shard in both])
        return [scores if shard is None else scores[shard.rows] for scores, (_, shard) in zip(stored, both)]

    def _stored_forest(self, arrays: Mapping[str, Array]) -> Forest:
        trees = {name: arrays[name] for name in FOREST_ARRAYS}
        forest = Forest(**trees, start=self.start, n_features=self.X.shape[1])
        forest.check()
        return forest

    def _bin(self) -> BinnedRows:
        """All rows, in bins of the values of the rows that count."""
        X, rules, threads, counted, shard = self.X, self.rules, self.n_threads, self.X, self.shard
        if self._counts is not None:
            counted, shard = X[self._counts], shard.of_rows(self._counts)
        named = np.zeros(X.shape[1], dtype=np.bool_)
        named[list(rules.layout.categorical)] = True
        edges = find_bin_edges(counted, rules.max_bins, rules.seed, threads, named, shard)
        return bin_bundled(X, edges, rules.layout, rules.seed, threads, self.shard)

    def add_tree(self) -> list[TreeArrays]:
        """Grow one tree and add it to the scores. Returns what any other scores must be given too.

        If it raises, `trees` are still those before it, but the scores may lack those that were left out.
        """
        number = len(self.trees)
        rng = np.random.Generator(np.random.PCG64([self.rules.seed, number]))
        dropped = draw_dropped(number, self.rules, rng)
        for tree in dropped:
            self._add(self.trees[tree].times(-1.0))
        self.target.begin(number)
        self._find_derivatives()
        allowed = draw_features(self.rules.sampling, self.X.shape[1], rng)
        sample = self._that_count(self._draw_rows(number))
        stream = stream_of(self.rules.seed, number) if self.rules.growth.extra_trees else None
        grown = self.grower.grow(self._gradients, self._hessians, sample, allowed, stream, self.split_weights)
        values = self._leaf_values(grown)
        if self._step_rule is not None:
            values = values * self._searched_size(grown, values)
            if self.is_done:
                return []
        values = values * (self.rules.learning_rate / (1 + len(dropped)))
        if not np.isfinite(values).all():
            raise ValueError(f"tree {number + 1} has a leaf whose value is not finite; scale labels and weights down.")
        tree = finish_tree(grown, values, self.binned.edges)
        if not self.rules.average:  # otherwise the next one starts where this one did
            self._add_tree(grown, tree)
        trees, changes = self._restore_dropped(dropped)
        self.trees = [*trees, tree]  # last and at once: wherever a step is interrupted, the trees are those before it
        return [tree, *changes]

    def _find_derivatives(self) -> None:
        """At the scores so far, for the next tree."""
        self.target.derivatives(self.scores, self._gradients, self._hessians)

    def _add_tree(self, grown: GrownTree, tree: TreeArrays) -> None:
        self._add_grown(grown, tree, self.scores)

    def _add_grown(self, grown: GrownTree, tree: TreeArrays, scores: Array) -> None:
        """Add the tree of this step to the scores of all training rows."""
        if self.binned.collides.any():  # as `predict` does: the bins of such a row are not those of all its values
            scores += Forest.join([tree], 0.0, self.X.shape[1]).scores(self.X, n_jobs=self.n_threads)
        elif len(grown.rows) == len(scores):
            _add_to_leaves(grown.rows, grown.leaf_start, tree.value[grown.leaf_node], scores)
        else:
            self._add_to_all(grown, tree, scores)

    def _searched_size(self, grown: GrownTree, values: Array) -> float:
        """What the step rule says of the tree, within `max_delta_step`; where it says 0, training is done."""
        assert self._step_rule is not None
        direction, size = np.zeros(len(self.scores)), float(np.abs(values).max(initial=0.0))
        self._add_grown(grown, finish_tree(grown, values, self.binned.edges), direction)
        largest = self.rules.max_delta_step / size if self.rules.max_delta_step > 0 and size > 0 else np.inf
        step = self._step_rule(self.scores, direction, largest)
        self.is_done = step <= 0
        return step

    def _restore_dropped(self, dropped: Array) -> tuple[list[TreeArrays], list[TreeArrays]]:
        """Add the dropped trees again, scaled down to make up for the tree that was grown without them.

        With k of them, each keeps k / (k + 1) of its values. Returns all trees so far, and the change of each of these.
        """
        share, trees, changes = len(dropped) / (len(dropped) + 1), list(self.trees), []
        for tree in dropped:
            changes.append(trees[tree].times(share - 1.0))
            trees[tree] = trees[tree].times(share)
            self._add(trees[tree])
        return trees, changes

    def _add(self, tree: TreeArrays) -> None:
        """Add a tree of an earlier step to the scores."""
        self.scores += Forest.join([tree], 0.0, self.X.shape[1]).scores(self.X, n_jobs=self.n_threads)

    def bundles(self) -> list[list[int]]:
        """The features that share a column; constants, which no tree asks for, are left out."""
        layout = self.binned.layout
        if layout is None:
            return []
        bundled = (layout.default_bin >= 0) & (self.binned.edges.n_bins > 1)
        groups = [layout.members[a:b] for a, b in pairwise(layout.starts)]
        return [group[bundled[group]].tolist() for group in groups if np.count_nonzero(bundled[group]) > 1]

    def forest(self, n_trees: int | None = None) -> Forest:
        """The first n trees as they were grown."""
        return Forest.join(self.trees[:n_trees], self.start, self.X.shape[1])

    def finished(self) -> Forest:
        """The result: the trees, or their mean."""
        share = 1.0 / max(len(self.trees), 1)
        trees = [tree.times(share) for tree in self.trees] if self.rules.average else self.trees
        return checked_forest(trees, self.start, self.X.shape[1])

    def _leaf_values(self, grown: GrownTree) -> Array:
        rules = self.rules
        values = self._newton_values(grown, grown.units)
        if rules.step == "exact":
            values = self._exact_values(grown, values)
        elif rules.step == "tree":
            values = values * self._best_step_size(grown, values)
        return limit_step(self._within_constraints(grown, values), rules)

    def _within_constraints(self, grown: GrownTree, values: Array) -> Array:
        """Splits by gradients bound mean residuals, which are no leaf values: then the values decide themselves."""
        if self.split_weights is None:
            return np.asarray(np.clip(values, grown.low, grown.high))
        signs = self.rules.layout.signs
        if not any(signs):
            return values
        tree = finish_tree(grown, values, self.binned.edges)
        return np.asarray(clip_to_constraints(tree, tree.value, signs)[grown.leaf_node])

    def _newton_values(self, grown: GrownTree, units: tuple[float, float]) -> Array:
        totals = np.empty((len(grown.leaf_node), 2), np.int64)
        _sum_leaves(grown.rows, grown.leaf_start, self._gradients, self._hessians, *units, totals)
        return self._steps_of(self.shard.collective.sum(totals) / np.array(units), grown)

    def _steps_of(self, sums: Array, grown: GrownTree) -> Array:
        """The values of leaves with these sums (leaves, 2) of gradients and hessians."""
        if self.rules.step in ("mean", "tree"):
            return np.asarray(-sums[:, 0] / np.maximum(grown.size[grown.leaf_node], 1))  # an empty leaf: 0
        return newton_steps(sums, self.rules.growth.l2_regularization)

    def _exact_values(self, grown: GrownTree, values: Array) -> Array:
        """Newton's steps of every leaf at once, until none moves: the minimum, for losses of single documents."""
        for _ in range(50):
            moved = self.scores.copy()
            _add_to_leaves(grown.rows, grown.leaf_start, values, moved)
            self.target.derivatives(moved, self._gradients, self._hessians)
            units = _grids(self._gradients[grown.rows], self._hessians[grown.rows], self.shard)
            change = self._newton_values(grown, units)
            values = values + change
            if np.abs(change).max(initial=0.0) <= 1e-10 * (1.0 + np.abs(values).max(initial=0.0)):
                break
        return values

    def _best_step_size(self, grown: GrownTree, values: Array) -> float:
        """The one factor for the whole tree that lowers the loss most."""
        from scipy.optimize import minimize_scalar

        direction = np.zeros(len(self.scores))
        _add_to_leaves(grown.rows, grown.leaf_start, values, direction)
        best = minimize_scalar(lambda size: self.target.loss(self.scores + size * direction), bracket=(0.0, 1.0))
        return float(best.x)

    def _weights_of_splits(self, weights: Array | None) -> Array | None:
        """(rows,) float32: what splits by gradients divide by; None where they divide by hessians."""
        if self.rules.growth.split_by != "gradients":
            return None
        if weights is None:
            return np.ones(self.X.shape[0], np.float32)
        return weights.astype(np.float32)

    def _draw_rows(self, tree: int) -> Array | None:
        """The rows of a tree, None for all. Where some count more than once, their derivatives and weights change."""
        sampling = self.rules.sampling
        if self._row_weights is not None and (sampling.bootstrap or sampling.goss is not None):
            self.split_weights = self._row_weights.copy()
        derivatives = self._gradients, self._hessians
        return draw_rows(sampling, self.shard, *derivatives, self.rules.seed, tree, self.split_weights)

    def _that_count(self, sample: Array | None) -> Array | None:
        """The rows of a sample whose weight is not 0, or the sample where it has none."""
        if self._counts is None:
            return sample
        rows = np.flatnonzero(self._counts) if sample is None else sample[self._counts[sample]]
        return rows if self.shard.total(len(rows)) else sample

    def _add_to_all(self, grown: GrownTree, tree: TreeArrays, scores: Array) -> None:
        """Add a tree to the scores of all rows, also of those that were not sampled."""
        arrays = grown.feature, grown.column, grown.left, grown.sides, tree.value

        def work(part: slice) -> None:
            route_rows(self.binned.columns, part.start, part.stop, arrays, scores)

        map_slices(work, len(scores), _BLOCK_ROWS, self.n_threads)


def draw_dropped(n_trees: int, rules: BoostingRules, rng: np.random.Generator) -> Array:
    """Which trees are left out of the next step; with DART, at least one where any is."""
    if rules.drop_rate <= 0 or n_trees == 0 or rng.random() < rules.skip_drop:
        return np.empty(0, dtype=np.int64)
    dropped = np.flatnonzero(rng.random(n_trees) < rules.drop_rate)
    if len(dropped) == 0:
        dropped = rng.integers(0, n_trees, 1)
    return dropped if len(dropped) <= rules.max_drop else np.sort(rng.permutation(dropped)[: rules.max_drop])


def _with_values(trees: Sequence[TreeArrays], values: Array) -> list[TreeArrays]:
    ends = np.cumsum([len(tree.value) for tree in trees])
    return [replace(tree, value=values[end - len(tree.value) : end]) for tree, end in zip(trees, ends.tolist())]


def limit_step(values: Array, rules: BoostingRules) -> Array:
    """Leaf values within `max_delta_step`. All are clipped alike, so that monotone trees stay monotone."""
    largest = rules.max_delta_step if rules.max_delta_step > 0 else np.inf
    return np.asarray(np.clip(values, -largest, largest))


def refit_values(
    forest: Forest, X: FeatureMatrix, target: Target, rules: BoostingRules, decay: float, base_scores: Array | None
) -> Forest:
    """The same trees with values for other rows: decay * old + (1 - decay) * Newton's step, within the constraints."""
    scores = np.full(X.shape[0], forest.start)
    scores += 0.0 if base_scores is None else base_scores
    gradients, hessians = np.empty(len(scores), np.float32), np.empty(len(scores), np.float32)
    trees, share = [], 1.0 / forest.n_trees if rules.average else 1.0
    for number, tree in enumerate(forest.split()):
        if number == 0 or not rules.average:
            target.begin(number)
            target.derivatives(scores, gradients, hessians)
            refuse_bad_derivatives(gradients, hessians)
        numbered = replace(tree, value=np.arange(len(tree.value), dtype=np.float64))
        leaf = Forest.join([numbered], 0.0, forest.n_features).scores(X, n_jobs=rules.n_jobs).astype(np.int64)
        rows, totals = np.argsort(leaf, kind="stable"), np.zeros((len(tree.value), 2), np.int64)
        starts, units = np.searchsorted(leaf[rows], np.arange(len(totals) + 1)), _grids(gradients, hessians)
        _sum_leaves(rows, starts, gradients, hessians, *units, totals)
        step = newton_steps(totals / np.array(units), rules.growth.l2_regularization)
        step = limit_step(step, rules) * (rules.learning_rate * share)
        value = np.where(np.diff(starts) > 0, decay * tree.value + (1 - decay) * step, tree.value)
        value = clip_to_constraints(tree, value, rules.layout.signs)
        trees.append(replace(tree, value=value))
        scores += value[leaf]
    return checked_forest(trees, forest.start, forest.n_features)


def checked_forest(trees: list[TreeArrays], start: float, n_features: int) -> Forest:
    """Trees as a forest whose scores are finite whatever the rows."""
    forest = Forest.join(trees, start, n_features)
    if not np.isfinite(forest.largest_score):
        raise ValueError("the model's scores are not finite; scale labels and weights down, or lower learning_rate.")
    return forest


def _grids(gradients: Array, hessians: Array, shard: Shard | None = None) -> tuple[float, float]:
    """Units per gradient and per hessian of exact sums over these rows, of all ranks."""
    sizes, n = np.array([largest_size(gradients), largest_size(hessians)]), len(gradients)
    if shard is not None:
        sizes, n = shard.collective.largest(sizes), shard.total(n)
    return units_for(float(sizes[0]), n), units_for(float(sizes[1]), n)


@kernel
def _sum_leaves(
    rows: Array, leaf_start: Array, gradients: Array, hessians: Array, g_units: float, h_units: float, totals: Array
) -> None:
    """totals[leaf] = (gradient, hessian) of its rows, exactly, in units of these grids."""
    for leaf in range(len(totals)):
        gradient, hessian = np.int64(0), np.int64(0)
        for k in range(leaf_start[leaf], leaf_start[leaf + 1]):
            gradient += on_grid(np.float64(gradients[rows[k]]), g_units)
            hessian += on_grid(np.float64(hessians[rows[k]]), h_units)
        totals[leaf, 0], totals[leaf, 1] = gradient, hessian


@kernel
def _add_to_leaves(rows: Array, leaf_start: Array, values: Array, scores: Array) -> None:
    for leaf in range(len(values)):
        for k in range(leaf_start[leaf], leaf_start[leaf + 1]):
            scores[rows[k]] += values[leaf]
