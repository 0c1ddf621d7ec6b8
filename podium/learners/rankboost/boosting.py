"""RankBoost: one weak ranker per round, chosen and weighted on the current distribution over pairs.

    D <- D exp(-alpha u) / Z, u = h(better) - h(worse)

After all rounds D0 exp(s_worse - s_better) adds up to the product of all Z. A pair that is not in order has an
exponential of at least 1, so the product bounds the share of such pairs under D0; equal scores count as errors.

References: Freund, Iyer, Schapire and Singer, An Efficient Boosting Algorithm for Combining Preferences, 2003.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.exact import exact_sum
from podium.data.ranking import RankingData
from podium.learners.rankboost.alphas import bound_alpha, closed_alpha, search_alpha
from podium.learners.rankboost.following import MOST_GRADES, Distribution
from podium.learners.rankboost.given_pairs import Directed, GivenDistribution, counting_pairs
from podium.learners.rankboost.pairs import Grades, PairDistribution
from podium.learners.rankboost.rankers import RANKER_ARRAYS, WeakRanker, WeakRankers
from podium.learners.rankboost.selection import Selection, Thresholds, Values, Weighing
from podium.learners.stored import named_scores, read_count, read_numbers, read_scores, refuse_other_names
from podium.learners.trees.training.binning import bin_rows, find_bin_edges

_NO_PROGRESS = 1e-12  # a round whose Z is within this of 1 is not taken


@dataclass(frozen=True)
class RankBoostRules:
    """Which weak rankers, how one is chosen, and its weight."""

    weak_ranker: str = "threshold"
    selection: str = "r"
    alpha: str = "search"
    largest_alpha: float = 5.0
    preference: str = "equal"
    max_bins: int = 255
    n_jobs: int | None = None


class RankBoosting:
    """The learner of RankBoost."""

    def __init__(self, X: Array, pairs: Distribution, rules: RankBoostRules) -> None:
        """X (n, features) float32, the rows that `pairs.order` arranges."""
        self.rules, self.n_features, self.pairs = rules, X.shape[1], pairs
        self._selection = self._prepare(X)
        self._rounds: list[tuple[WeakRanker, float, float]] = []
        self.is_done = not self.pairs.has_pairs
        self.followed: list[Array] = []
        self._followed_rows: list[Array] = []

    @classmethod
    def of_labels(
        cls, X: Array, labels: Array, offsets: Array, weights: Array, query_weights: Array, rules: RankBoostRules
    ) -> Self:
        """X (n, features) float32 and labels (n,) of grouped rows; weights (n,), query_weights (queries,)."""
        counts = _that_count(offsets, weights, query_weights)
        if not counts.all():
            X, labels, weights = X[counts], labels[counts], weights[counts]
            offsets = np.append(0, np.cumsum(counts))[offsets]
        grades = Grades.of(labels, offsets)
        by_difference = rules.preference == "difference"
        pairs = PairDistribution(grades, weights[grades.order], query_weights, by_difference, rules.n_jobs)
        _refuse_many_grades(grades, rules)
        return cls(X, pairs, rules)

    @classmethod
    def of_given(
        cls, X: Array, directed: Directed, offsets: Array, weights: Array, query_weights: Array, rules: RankBoostRules
    ) -> Self:
        """As `of_labels`, from pairs by query in place of labels."""
        counts = _that_count(offsets, weights, query_weights)
        directed = counting_pairs(directed, counts, weights, query_weights)
        X = X if counts.all() else X[counts]
        return cls(X, GivenDistribution(directed, len(X), rules.n_jobs), rules)

    @property
    def n_steps(self) -> int:
        return len(self._rounds)

    @property
    def rankers(self) -> WeakRankers:
        return WeakRankers.of(self._rounds)

    def step(self) -> None:
        """Add the best weak ranker; where none makes Z smaller than 1, training is done."""
        ranker = self._selection.best(self.pairs)
        if ranker is None:
            self.is_done = True
            return
        values = self._selection.values(ranker)
        alpha, is_perfect = self._weigh(values)
        scores, shift = self.pairs.scores + alpha * values, self.pairs.log_bound
        sums = self.pairs.sums_at(scores, shift)
        z = sums[2]
        if not 0.0 < z < 1.0 - _NO_PROGRESS:
            self.is_done = True
            return
        added = WeakRankers.of([(ranker, alpha, z)])
        followed = [scores.copy() for scores in self.followed]
        for known, X in zip(followed, self._followed_rows):
            added.add_to(known, X, n_jobs=self.rules.n_jobs)
        self.pairs.move_to(scores, shift, sums)
        self._rounds.append((ranker, alpha, z))
        self.followed, self.is_done = followed, is_perfect

    def follow(self, data: RankingData, offset: Array | float) -> None:
        scores = np.zeros(data.n_rows) + offset
        self.rankers.add_to(scores, data.X, n_jobs=self.rules.n_jobs)
        self._followed_rows.append(data.X)
        self.followed.append(scores)

    def snapshot(self) -> int:
        return self.n_steps

    def keep(self, snapshot: int) -> None:
        self._rounds = self._rounds[:snapshot]

    def state(self, best: int) -> tuple[dict[str, Any], dict[str, Array]]:
        arrays = self.rankers.arrays() | {"scores": self.pairs.scores, "shift": np.array([self.pairs.shift])}
        return {"best_rounds": int(best)}, arrays | named_scores(self.followed)

    def checked_steps(self, arrays: Mapping[str, Array]) -> int:
        rankers = WeakRankers(**{name: arrays[name] for name in RANKER_ARRAYS})
        rankers.check(self.n_features)
        return len(rankers)

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> int:
        refuse_other_names({"best_rounds"}, meta)
        refuse_other_names({*RANKER_ARRAYS, "scores", "shift", *named_scores(self.followed)}, arrays)
        rounds = self.checked_steps(arrays)
        best = read_count(meta, "best_rounds", rounds)
        scores, shift = read_numbers(arrays, "scores", len(self.pairs.scores)), read_numbers(arrays, "shift", 1)
        followed = read_scores(arrays, self.followed)
        sums = self.pairs.sums_at(scores, float(shift[0]))
        if self.pairs.has_pairs and not 0.0 < sums[2] < math.inf:
            raise ValueError("scores and shift do not fit together")
        self._rounds = WeakRankers(**{name: arrays[name] for name in RANKER_ARRAYS}).rounds()
        self.pairs.move_to(scores, float(shift[0]), sums)
        self.followed = followed
        return best

    def _prepare(self, X: Array) -> Selection:
        rules, order, by_z = self.rules, self.pairs.order, self.rules.selection == "z"
        weighing = Weighing(rules.alpha == "bound", rules.largest_alpha)
        if rules.weak_ranker == "value":
            return Values(X[order], by_z, rules.n_jobs, weighing)
        edges = find_bin_edges(X, rules.max_bins, n_jobs=rules.n_jobs)
        binned = bin_rows(X, edges, rules.n_jobs)
        return Thresholds(binned.columns[:, order], binned.edges, self.pairs, by_z, rules.n_jobs, weighing)

    def _weigh(self, values: Array) -> tuple[float, bool]:
        """alpha, and whether the weak ranker orders every pair with u = 1 (or -1): then the next would be the same."""
        pairs, largest = self.pairs, self.rules.largest_alpha
        r = float(exact_sum(pairs.potentials * values))
        is_perfect = abs(r) >= 1.0 - _NO_PROGRESS
        if self.rules.alpha == "bound":
            return bound_alpha(r, largest), is_perfect
        if self.rules.weak_ranker == "value":
            return search_alpha(lambda size: pairs.slope(values, size), largest), is_perfect
        ordered, reversed_ = pairs.split(values)
        if self.rules.alpha == "closed":
            return closed_alpha(ordered, reversed_, largest), is_perfect

        def slope(size: float) -> float:
            return ordered * math.exp(-size) - reversed_ * math.exp(size)

        return search_alpha(slope, largest), is_perfect


def _that_count(offsets: Array, weights: Array, query_weights: Array) -> Array:
    """(n,) which rows count: all without those of weight 0, which would still move bin edges and scales."""
    return (weights > 0) & np.repeat(query_weights > 0, np.diff(offsets))


def _refuse_many_grades(grades: Grades, rules: RankBoostRules) -> None:
    most = grades.most_per_query
    if rules.weak_ranker == "threshold" and rules.selection == "z" and most > MOST_GRADES:
        raise ValueError(
            f'selection="z" takes queries with at most {MOST_GRADES} different labels; one has {most:,}. '
            'Use selection="r", which takes any number.'
        )
