"""W+ of all thresholds of a feature: the weight of the pairs that each of them orders.

While a threshold falls, documents pass it, those of the highest bin first. A change of W+ belongs to each bin: by how
much it rises when the documents of that bin pass. Where pairs follow from labels, documents pass one by one, each with
one sum per grade; a given pair adds its weight at the bin of its better document and takes it away at that of the worse
one, if the better one passes first.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_blocks, map_slices
from podium.learners.rankboost.given_pairs import GivenDistribution
from podium.learners.rankboost.pairs import Grades, PairDistribution
from podium.learners.trees.training.binning import MISSING

Distribution = PairDistribution | GivenDistribution
MOST_GRADES = 256  # per query
STRIDE = 264  # slots per feature: a power of two would make features share cache sets
_BLOCK = 8  # features that share one reading of the documents


class Follower(Protocol):
    """Follows W+ of the thresholds of all features."""

    def changes(self) -> Array:
        """(features, 2, slots) float64: the change of each bin, where a missing value is 0, and where it is 1."""


def follower_of(pairs: Distribution, columns: Array, has_missing: Array, n_jobs: int | None) -> Follower:
    """columns (features, n) uint8: the bins, in the order of places; has_missing (features,)."""
    kind = PairFollower if isinstance(pairs, GivenDistribution) else GradeFollower
    return kind(pairs, columns, has_missing, n_jobs)  # type: ignore[arg-type]


class Factors(NamedTuple):
    """D in factors, each relative to the largest of its grade."""

    as_better: Array  # (n,)
    as_worse: Array  # (n,)
    low: Array  # (grades,) the least score, of the better one
    high: Array  # (grades,) the largest score, of the worse one
    constants: Array  # (queries,)
    grade: Array  # (n,) int64


class GradeFollower:
    """Of pairs that follow from labels."""

    def __init__(self, pairs: PairDistribution, columns: Array, has_missing: Array, n_jobs: int | None) -> None:
        self.pairs, self.columns, self.has_missing, self.n_jobs = pairs, columns, has_missing, n_jobs
        self._orders = self._sorted_places(pairs.grades.offsets)

    def changes(self) -> Array:
        factors, orders, pairs = _factors(self.pairs), self._orders, self.pairs
        changes = np.zeros((len(self.columns), 2, STRIDE))

        def work(part: slice) -> None:
            features = orders[part], self.columns[part], self.has_missing[part]
            _follow_thresholds(features, factors, pairs.grades, pairs.by_difference, changes[part])

        map_slices(work, len(changes), _BLOCK, self.n_jobs)
        return changes

    def _sorted_places(self, offsets: Array) -> Array:
        """(features, n) int32: the places of each query, the largest bin first, missing values before all."""
        orders = np.empty(self.columns.shape, np.int32)

        def work(f: int) -> None:
            _sort_places(self.columns[f], readonly(offsets), orders[f])

        map_blocks(work, len(orders), self.n_jobs)
        return readonly(orders)


class PairFollower:
    """Of given pairs."""

    def __init__(self, pairs: GivenDistribution, columns: Array, has_missing: Array, n_jobs: int | None) -> None:
        self.pairs, self.columns, self.has_missing, self.n_jobs = pairs, columns, has_missing, n_jobs

    def changes(self) -> Array:
        pairs, changes = self.pairs, np.zeros((len(self.columns), 2, STRIDE))
        better, worse, weights = pairs.better, pairs.worse, readonly(pairs.weights)

        def work(feature: int) -> None:
            _follow_pairs(
                self.columns[feature], bool(self.has_missing[feature]), better, worse, weights, changes[feature]
            )

        map_blocks(work, len(changes), self.n_jobs)
        return changes


def _factors(pairs: PairDistribution) -> Factors:
    grades, scores = pairs.grades, pairs.scores
    starts, sizes = grades.starts[:-1], np.diff(grades.starts)
    high, low = np.maximum.reduceat(scores, starts), np.minimum.reduceat(scores, starts)
    as_worse = pairs.weights * np.exp(scores - np.repeat(high, sizes))
    as_better = pairs.weights * np.exp(np.repeat(low, sizes) - scores)
    grade = np.repeat(np.arange(len(starts)), sizes)
    constants = pairs.log_constants - pairs.log_bound
    return Factors(*map(readonly, (as_better, as_worse, low, high, constants, grade)))


@kernel
def _sort_places(column: Array, offsets: Array, order: Array) -> None:
    """The places by query, then by falling bin: by bins first, then handed out to the queries, which keeps that."""
    counts = np.zeros(257, np.int64)
    for k in range(len(column)):
        counts[256 - np.int64(column[k])] += 1
    for b in range(256):
        counts[b + 1] += counts[b]
    by_bin, query = np.empty(len(column), np.int32), np.empty(len(column), np.int32)
    for k in range(len(column)):
        slot = 255 - np.int64(column[k])
        by_bin[counts[slot]] = k
        counts[slot] += 1
    for q in range(len(offsets) - 1):
        query[offsets[q] : offsets[q + 1]] = q
    ends = offsets[:-1].copy()
    for position in range(len(by_bin)):
        k = by_bin[position]
        order[ends[query[k]]] = k
        ends[query[k]] += 1


@kernel
def _follow_thresholds(
    features: tuple[Array, Array, Array], factors: Factors, grades: Grades, by_difference: bool, changes: Array
) -> None:
    """changes[f, default, b]: by how much W+ rises when the documents of bin b of feature f pass the threshold.

    W+ of a query is sum over grades g > l of pair[g, l] inside[g] outside[l], with inside[g] the sum of as_better over
    documents above the threshold, outside[l] that of as_worse over the others, pair[g, l] = p exp(high_l - low_g + c).
    """
    as_better, as_worse, low, high, constants, grade = factors
    (orders, columns, has_missing), (_, offsets, starts, labels, of_query) = features, grades
    most = 0
    for q in range(len(offsets) - 1):
        most = max(most, of_query[q + 1] - of_query[q])
    pair, total = np.zeros((most, most)), np.zeros(most)
    inside, outside = np.zeros(most), np.zeros(most)
    for q in range(len(offsets) - 1):
        base, n = of_query[q], of_query[q + 1] - of_query[q]
        if n < 2:
            continue
        for g in range(n):
            total[g] = 0.0
            for k in range(starts[base + g], starts[base + g + 1]):
                total[g] += as_worse[k]
            for worse in range(g):
                share = labels[base + g] - labels[base + worse] if by_difference else 1.0
                pair[g, worse] = share * math.exp(high[base + worse] - low[base + g] + constants[q])
        for f in range(len(columns)):
            for default in range(2 if has_missing[f] else 1):
                inside[:n] = 0.0
                outside[:n] = total[:n]
                for position in range(offsets[q], offsets[q + 1]):
                    k = orders[f, position]
                    b = columns[f, k]
                    if b == MISSING and default == 0:
                        continue
                    here = grade[k] - base
                    below, above = 0.0, 0.0
                    for g in range(here):
                        below += pair[here, g] * outside[g]
                    for g in range(here + 1, n):
                        above += pair[g, here] * inside[g]
                    changes[f, default, b] += as_better[k] * below - as_worse[k] * above
                    inside[here] += as_better[k]
                    outside[here] -= as_worse[k]


@kernel
def _follow_pairs(
    column: Array, has_missing: bool, better: Array, worse: Array, weights: Array, changes: Array
) -> None:
    """changes (2, slots): row 0 if missing values are below all thresholds, row 1 if they are above all of them."""
    for p in range(len(weights)):
        high, low, weight = column[better[p]], column[worse[p]], weights[p]
        if high > low and has_missing:  # the bin of missing values is the largest, so they pass first
            changes[1, high] += weight
            changes[1, low] -= weight
        if high != MISSING and (high > low or low == MISSING):
            changes[0, high] += weight
            changes[0, low] -= weight  # of a missing value, which passes no threshold: nobody reads it
