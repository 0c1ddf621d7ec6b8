"""Selection: the weak ranker of a round, among all thresholds of all features, or among all scaled features.

By |r|: r = sum D (h_i - h_j) is the sum of potentials times h over documents, so a histogram of potentials per feature
gives r of all thresholds. By Z: the weight W+ of the pairs that a threshold orders is followed while the threshold
falls and documents pass it one by one; W- = W+ - r, and Z = 1 - W+ (1 - exp(-alpha)) - W- (1 - exp(alpha)), at the
alpha that the threshold would get: for the best one, the least Z = 1 - (sqrt(W+) - sqrt(W-))^2.

Sums of histograms are exact integers, other sums have a fixed order, and one thread processes a feature: the choice is
the same for any number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.exact import on_grid, units_for
from podium._runtime.threads import map_blocks, map_slices
from podium.learners.rankboost.alphas import bound_alpha, search_alpha
from podium.learners.rankboost.following import STRIDE, Distribution, Follower, follower_of
from podium.learners.rankboost.rankers import WeakRanker, rank_value
from podium.learners.trees.training.binning import MISSING, BinEdges

_CLEARLY = 1.0 + 1e-9  # a gain must be larger by this factor; among equal ones the first counts, not a rounding error
_BLOCK = 8  # features that share one reading of the documents


@dataclass(frozen=True)
class Weighing:
    """Which alpha the chosen weak ranker will have, for Z depends on it: the least Z, or its bound's, within limits."""

    is_bound: bool
    largest: float


class Selection(Protocol):
    """How the weak ranker of a round is chosen."""

    def best(self, pairs: Distribution) -> WeakRanker | None:
        """The best one; None where no feature tells two documents of a pair apart."""

    def values(self, ranker: WeakRanker) -> Array:
        """Of a weak ranker, per place."""


class Thresholds:
    """Weak rankers with values 0 and 1: whether a feature lies above the upper edge of a bin."""

    def __init__(
        self,
        columns: Array,
        edges: BinEdges,
        pairs: Distribution,
        by_z: bool,
        n_jobs: int | None,
        weighing: Weighing,
    ) -> None:
        """columns (features, n) uint8: the bins, in the order of places."""
        self.columns, self.edges, self.n_jobs = readonly(np.ascontiguousarray(columns)), edges, n_jobs
        self.weighing = weighing
        self.n_bins, self.has_missing = readonly(self.edges.n_bins), readonly(self.edges.has_missing)
        self._follower = follower_of(pairs, self.columns, self.has_missing, n_jobs) if by_z else None

    def best(self, pairs: Distribution) -> WeakRanker | None:
        gains = self._by_r(pairs) if self._follower is None else self._by_z(pairs, self._follower)
        feature = _first_of_the_largest(gains[:, 0])
        if feature is None:
            return None
        bin_, default = int(gains[feature, 1]), int(gains[feature, 2])
        threshold = -np.inf if bin_ < 0 else float(self.edges.upper[feature, bin_])
        return WeakRanker(feature, threshold, threshold, default)

    def values(self, ranker: WeakRanker) -> Array:
        """By bins: bin b holds values in (upper[b - 1], upper[b]]."""
        column, edges = self.columns[ranker.feature], self.edges.upper[ranker.feature]
        bin_ = -1 if ranker.low == -np.inf else int(np.searchsorted(edges, np.float32(ranker.low)))
        return np.where(column == MISSING, float(ranker.default), (column > bin_).astype(np.float64))

    def _by_r(self, pairs: Distribution) -> Array:
        """(features, 3): the largest |r|, and the bin and default of its threshold."""
        sums, units = self._potential_sums(pairs)
        gains = np.zeros((len(self.columns), 3))
        _choose_by_r(sums, units, self.n_bins, self.has_missing, gains)
        return gains

    def _potential_sums(self, pairs: Distribution) -> tuple[Array, float]:
        """(features, slots) int64 sums of potentials per bin, in units of a grid; and units per 1."""
        potentials = pairs.potentials
        units = units_for(float(np.abs(potentials).max(initial=0.0)), len(potentials))
        rounded = np.empty(len(potentials), np.int64)
        _round_all(potentials, units, rounded)
        sums = np.zeros((len(self.columns), STRIDE), np.int64)

        def work(part: slice) -> None:
            _add_potentials(self.columns[part], rounded, sums[part])

        map_slices(work, len(sums), _BLOCK, self.n_jobs)
        return sums, units

    def _by_z(self, pairs: Distribution, follower: Follower) -> Array:
        """(features, 3): the largest 1 - Z, and the bin and default of its threshold."""
        sums, units = self._potential_sums(pairs)
        changes, gains = follower.changes(), np.zeros((len(sums), 3))
        limit = math.exp(self.weighing.largest)
        bins, weighing = (self.n_bins, self.has_missing), (self.weighing.is_bound, limit)
        _choose_by_z(sums, units, changes, bins, weighing, gains)
        return gains


class Values:
    """Weak rankers with values from 0 to 1: a feature scaled by its least and largest value."""

    def __init__(self, X: Array, by_z: bool, n_jobs: int | None, weighing: Weighing) -> None:
        """X (n, features) float32, rows in the order of places."""
        self.X, self.by_z, self.n_jobs, self.weighing = readonly(X), by_z, n_jobs, weighing
        self.low, self.high = np.full(X.shape[1], np.inf, np.float32), np.full(X.shape[1], -np.inf, np.float32)
        self.has_missing = np.zeros(X.shape[1], np.bool_)
        _find_ranges(self.X, self.low, self.high, self.has_missing)
        empty = self.low > self.high  # all values are missing
        self.low[empty], self.high[empty] = 0.0, 0.0

    def best(self, pairs: Distribution) -> WeakRanker | None:
        r = self._potential_sums(pairs)
        if self.by_z:
            gains = np.array(map_blocks(lambda f: self._by_z(pairs, f, r[f]), len(r), self.n_jobs)).reshape(-1, 2)
        else:
            gains = np.abs(r)
        best = _first_of_the_largest(gains.reshape(-1))
        return None if best is None else self._ranker(best // 2, best % 2)

    def values(self, ranker: WeakRanker) -> Array:
        return ranker.values(self.X[:, ranker.feature])

    def _ranker(self, feature: int, default: int) -> WeakRanker:
        return WeakRanker(feature, float(self.low[feature]), float(self.high[feature]), default)

    def _potential_sums(self, pairs: Distribution) -> Array:
        """(features, 2): r with the default 0 and 1; 0 for the latter where nothing is missing."""
        potentials, r = pairs.potentials, np.zeros((len(self.low), 2))

        def work(part: slice) -> None:
            _add_values(self.X, part.start, part.stop, self.low, self.high, potentials, r)

        map_slices(work, len(r), 2 * _BLOCK, self.n_jobs)
        r[:, 1] = np.where(self.has_missing, r[:, 0] + r[:, 1], 0.0)
        return r

    def _by_z(self, pairs: Distribution, feature: int, r: Array) -> tuple[float, float]:
        """1 - Z at the alpha it would have, with the default 0 and 1, for which r is known."""
        gains, largest = [0.0, 0.0], self.weighing.largest
        for default in range(2 if self.has_missing[feature] else 1):
            values = self.values(self._ranker(feature, default))
            if self.weighing.is_bound:
                alpha = bound_alpha(float(r[default]), largest)
            else:
                alpha = search_alpha(partial(pairs.slope, values), largest)
            gains[default] = 1.0 - pairs.factor(values, alpha)
        return gains[0], gains[1]


def _first_of_the_largest(gains: Array) -> int | None:
    largest = gains.max(initial=0.0)
    return int(np.argmax(gains * _CLEARLY >= largest)) if largest > 0 else None


@kernel
def _round_all(values: Array, units: float, rounded: Array) -> None:
    for k in range(len(values)):
        rounded[k] = on_grid(values[k], units)


@kernel
def _add_potentials(columns: Array, potentials: Array, sums: Array) -> None:
    """sums[f, columns[f, k]] += potentials[k]. columns (features, n) uint8, potentials (n,) int64."""
    for k in range(len(potentials)):
        potential = potentials[k]
        for f in range(len(columns)):
            sums[f, columns[f, k]] += potential


@kernel
def _choose_by_r(sums: Array, units: float, n_bins: Array, has_missing: Array, gains: Array) -> None:
    """gains[f] = (|r|, bin, default), r = sum of the bins above, and of the missing ones if the default is 1."""
    for f in range(len(sums)):
        above = np.int64(0)
        for b in range(n_bins[f] - 2, -2 if has_missing[f] else -1, -1):
            above += sums[f, b + 1]
            for default in range(2 if has_missing[f] else 1):
                r = abs(float(above + default * sums[f, MISSING]) / units)
                if r > gains[f, 0] * _CLEARLY:
                    gains[f, 0], gains[f, 1], gains[f, 2] = r, b, default


@kernel
def _gain(ordered: float, reversed_: float, is_bound: bool, limit: float) -> float:
    """1 - Z = W+ (1 - exp(-alpha)) + W- (1 - exp(alpha)), exp(alpha) between 1 / limit and limit.

    exp(alpha) = sqrt(W+ / W-), the best, or that of the bound, sqrt((1 + r) / (1 - r)) with r = W+ - W-.
    """
    if is_bound:
        above, below = 1.0 + (ordered - reversed_), 1.0 - (ordered - reversed_)
    else:
        above, below = ordered, reversed_
    if above > below * limit * limit:
        size = limit
    elif below > above * limit * limit:
        size = 1.0 / limit
    elif is_bound:
        size = math.sqrt(above / below)
    else:
        return (math.sqrt(ordered) - math.sqrt(reversed_)) ** 2  # the same, with less rounding
    return ordered * (1.0 - 1.0 / size) + reversed_ * (1.0 - size)


@kernel
def _choose_by_z(
    sums: Array, units: float, changes: Array, bins: tuple[Array, Array], weighing: tuple[bool, float], gains: Array
) -> None:
    """gains[f] = (1 - Z, bin, default); changes (features, 2, slots) of W+. is_bound, limit: see `_gain`."""
    (n_bins, has_missing), (is_bound, limit) = bins, weighing
    for f in range(len(sums)):
        for default in range(2 if has_missing[f] else 1):
            above = default * sums[f, MISSING]
            ordered = default * changes[f, default, MISSING]
            for b in range(n_bins[f] - 2, -2 if has_missing[f] else -1, -1):
                above += sums[f, b + 1]
                ordered += changes[f, default, b + 1]
                reversed_ = ordered - float(above) / units
                gain = _gain(max(ordered, 0.0), max(reversed_, 0.0), is_bound, limit)
                if gain > gains[f, 0] * _CLEARLY:
                    gains[f, 0], gains[f, 1], gains[f, 2] = gain, b, default


@kernel
def _find_ranges(X: Array, low: Array, high: Array, has_missing: Array) -> None:
    for k in range(len(X)):
        for f in range(X.shape[1]):
            x = X[k, f]
            if x != x:
                has_missing[f] = True
            else:
                low[f], high[f] = min(low[f], x), max(high[f], x)


@kernel
def _add_values(X: Array, first: int, last: int, low: Array, high: Array, potentials: Array, sums: Array) -> None:
    """sums[f] += potentials[k] times (h(X[k, f]) with the default 0, whether it is missing)."""
    for k in range(len(X)):
        for f in range(first, last):
            x = X[k, f]
            if x != x:
                sums[f, 1] += potentials[k]
            else:
                sums[f, 0] += potentials[k] * rank_value(x, low[f], high[f], 0.0)
