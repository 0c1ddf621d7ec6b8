"""Measures of graded gains: trec_eval's G, and NDCG averaged over relevant documents or over levels of relevance.

The gain of a label and the discount of a rank are the policy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.base import RelevanceMetric, refuse_averaged_ties, refuse_weights
from podium.metrics.lists import Places, RankedLists, heads
from podium.metrics.measures.profiles import Profile
from podium.metrics.policies import discounts, gains

Lists = tuple[Array, ...]  # gains in ranked order, their ranks and offsets, gains in the best order, offsets, lengths
_LEAST_COST = 1.0  # of a rank, however small its ideal gain


@dataclass(frozen=True)
class GainMeasure(RelevanceMetric):
    """The frame: gains and their ranks, down to the cutoff, and gains in the best order. Members define `kernel`."""

    kernel: ClassVar[Callable[..., Any]]

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        arrays = tuple(map(readonly, self._lists(lists)))
        longest = 1 + max(lists.longest, np.diff(arrays[4]).max(initial=0))
        discount = readonly(self.discounts(int(longest)))
        out, work = np.empty(lists.n_queries), type(self).kernel
        over_queries(lambda first, last: work(arrays, discount, first, last, out), arrays[2])
        return out

    def discounts(self, n: int) -> Array:
        """The weights of the first n ranks."""
        return discounts(n, self.policy.discount)

    def _lists(self, lists: RankedLists) -> Lists:
        key = "gains", self.policy.gain, self.cutoff
        if key not in lists.memo:
            ideal, ends = lists.ideal()
            lengths = lists.lengths if self.cutoff is None else np.minimum(lists.lengths, self.cutoff)
            lists.memo[key] = *self._ranked(lists), gains(ideal, self.policy.gain), ends, lengths
        arrays: Lists = lists.memo[key]
        return arrays

    def _ranked(self, lists: RankedLists) -> Lists:
        """The documents of the qrels, or where those without a label have a gain, all."""
        if gains(np.zeros(1), self.policy.gain)[0] > 0:
            labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
            places = Places.all(labels, offsets)
        else:
            places = lists.places.down_to(self.cutoff)
        return gains(places.labels, self.policy.gain), places.ranks, places.ends


@kernel
def _normalised_gains(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: `sum gain_i / log2(2 + ideal_i - reached_i) / sum of all gains`.

    reached_i: the gains down to rank i; ideal_i: those of the best order, each rank counting 1 at least.
    """
    gain, ranks, offsets, ideal, ends, _ = lists
    for q in range(first, last):
        total, reached, cost, best, rank, graded = 0.0, 0.0, 0.0, 0.0, 0, ends[q + 1] - ends[q]
        for k in range(ends[q], ends[q + 1]):
            best += max(ideal[k], 0.0)
        for k in range(offsets[q], offsets[q + 1]):
            while rank <= ranks[k] and rank < graded:
                cost += max(ideal[ends[q] + rank], _LEAST_COST)
                rank += 1
            reached += gain[k]
            if gain[k] != 0.0:
                behind = cost + max(ranks[k] + 1 - graded, 0) * _LEAST_COST - reached
                if 0.0 <= behind < len(discount) and behind == np.floor(behind):
                    total += gain[k] * discount[np.uint64(behind)]
                else:
                    total += gain[k] / np.log2(2.0 + behind)
        out[q] = total / best if best > 0 else 0.0


@kernel
def _mean_at_relevant(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the mean of NDCG@i over the ranks i of documents with a gain; at the end of the list for the others."""
    gain, ranks, offsets, ideal, ends, _ = lists
    for q in range(first, last):
        total, dcg, best, met, rank, graded = 0.0, 0.0, 0.0, 0, 0, 0
        while ends[q] + graded < ends[q + 1] and ideal[ends[q] + graded] > 0:
            graded += 1
        for k in range(offsets[q], offsets[q + 1]):
            if gain[k] > 0:
                while rank <= ranks[k] and rank < graded:
                    best += ideal[ends[q] + rank] * discount[rank]
                    rank += 1
                dcg += gain[k] * discount[ranks[k]]
                total += dcg / best
                met += 1
        while rank < graded:
            best += ideal[ends[q] + rank] * discount[rank]
            rank += 1
        out[q] = (total + (graded - met) * dcg / best) / graded if graded else 0.0


@kernel
def _mean_at_levels(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the mean of NDCG@b over the ranks b where the best order reaches a lower gain, and of NDCG if b passes.

    As in trec_eval, the whole list is a level of its own when it has two documents more than there are with a gain.
    """
    gain, ranks, offsets, ideal, ends, lengths = lists
    for q in range(first, last):
        total, dcg, best, levels, rank, following = 0.0, 0.0, 0.0, 0, 0, offsets[q]
        while ends[q] + rank < ends[q + 1] and ideal[ends[q] + rank] > 0:
            best += ideal[ends[q] + rank] * discount[rank]
            if following < offsets[q + 1] and ranks[following] == rank:
                dcg += gain[following] * discount[rank]
                following += 1
            rank += 1
            if ends[q] + rank == ends[q + 1] or ideal[ends[q] + rank] != ideal[ends[q] + rank - 1]:
                total += dcg / best
                levels += 1
        if rank + 1 < lengths[q]:
            for k in range(following, offsets[q + 1]):
                dcg += gain[k] * discount[ranks[k]]
            if best > 0:
                total += dcg / best
                levels += 1
        out[q] = total / levels if levels else 0.0


@dataclass(frozen=True)
class NormalisedGain(GainMeasure):
    """trec_eval's G: a document counts less the further the gains above it fall behind the best ones."""

    base_name: ClassVar[str] = "g"
    kernel: ClassVar[Callable[..., Any]] = staticmethod(_normalised_gains)

    def discounts(self, n: int) -> Array:
        """1 / log2(2 + m) for m = 0, 1, ...: most differences of gains are such numbers."""
        return discounts(4 * n, "log2")


@dataclass(frozen=True)
class NDCGAtRelevant(GainMeasure):
    """trec_eval's ndcg_rel: NDCG averaged over the ranks of the documents with a gain."""

    base_name: ClassVar[str] = "ndcg_rel"
    kernel: ClassVar[Callable[..., Any]] = staticmethod(_mean_at_relevant)


@dataclass(frozen=True)
class NDCGAtLevels(GainMeasure):
    """trec_eval's Rndcg: NDCG averaged over the ranks at which the best order has seen all documents of a level."""

    base_name: ClassVar[str] = "rndcg"
    kernel: ClassVar[Callable[..., Any]] = staticmethod(_mean_at_levels)

    def values(self, lists: RankedLists) -> Array:
        relevant = Profile.of(lists, self.threshold).relevant
        return np.where(relevant > 0, super().values(lists), 0.0)
