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
from podium.metrics.lists import RankedLists, heads
from podium.metrics.measures.profiles import Profile
from podium.metrics.policies import discounts, gains

Lists = tuple[Array, Array, Array, Array]  # gains in ranked order, their offsets, gains in the best order, offsets
_LEAST_COST = 1.0  # of a rank, however small its ideal gain


@dataclass(frozen=True)
class GainMeasure(RelevanceMetric):
    """The frame: gains in ranked order, down to the cutoff, and in the best order. Members define `kernel`."""

    kernel: ClassVar[Callable[..., Any]]

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        ideal, ends = lists.ideal()
        longest = 1 + max(np.diff(offsets).max(initial=0), np.diff(ends).max(initial=0))
        gain = gains(labels, self.policy.gain), offsets, gains(ideal, self.policy.gain), ends
        arrays = tuple(map(readonly, gain))
        discount = readonly(discounts(int(longest), self.policy.discount))
        out, work = np.empty(lists.n_queries), type(self).kernel
        over_queries(lambda first, last: work(arrays, discount, first, last, out), readonly(offsets))
        return out


@kernel
def _normalised_gains(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: `sum gain_i / log2(2 + ideal_i - reached_i) / sum of all gains`.

    reached_i: the gains down to rank i; ideal_i: those of the best order, each rank counting 1 at least.
    """
    gain, offsets, ideal, ends = lists
    for q in range(first, last):
        total, reached, cost, best = 0.0, 0.0, 0.0, 0.0
        for k in range(ends[q], ends[q + 1]):
            best += max(ideal[k], 0.0)
        for rank in range(offsets[q + 1] - offsets[q]):
            here = gain[offsets[q] + rank]
            reached += here
            cost += max(ideal[ends[q] + rank], _LEAST_COST) if ends[q] + rank < ends[q + 1] else _LEAST_COST
            if here != 0.0:
                total += here / np.log2(2.0 + cost - reached)
        out[q] = total / best if best > 0 else 0.0


@kernel
def _mean_at_relevant(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the mean of NDCG@i over the ranks i of documents with a gain; at the end of the list for the others."""
    gain, offsets, ideal, ends = lists
    for q in range(first, last):
        total, dcg, best, met = 0.0, 0.0, 0.0, 0
        n, rank = offsets[q + 1] - offsets[q], 0
        while rank < n or (ends[q] + rank < ends[q + 1] and ideal[ends[q] + rank] > 0):
            if ends[q] + rank < ends[q + 1]:
                best += max(ideal[ends[q] + rank], 0.0) * discount[rank]
            if rank < n and gain[offsets[q] + rank] > 0:
                dcg += gain[offsets[q] + rank] * discount[rank]
                total += dcg / best
                met += 1
            rank += 1
        graded = 0
        for k in range(ends[q], ends[q + 1]):
            graded += ideal[k] > 0
        out[q] = (total + (graded - met) * dcg / best) / graded if graded else 0.0


@kernel
def _mean_at_levels(lists: Lists, discount: Array, first: int, last: int, out: Array) -> None:
    """out[q]: the mean of NDCG@b over the ranks b where the best order reaches a lower gain, and of NDCG if b passes.

    As in trec_eval, the whole list is a level of its own when it has two documents more than there are with a gain.
    """
    gain, offsets, ideal, ends = lists
    for q in range(first, last):
        total, dcg, best, levels = 0.0, 0.0, 0.0, 0
        n, rank = offsets[q + 1] - offsets[q], 0
        while ends[q] + rank < ends[q + 1] and ideal[ends[q] + rank] > 0:
            best += ideal[ends[q] + rank] * discount[rank]
            if rank < n:
                dcg += gain[offsets[q] + rank] * discount[rank]
            rank += 1
            if ends[q] + rank == ends[q + 1] or ideal[ends[q] + rank] != ideal[ends[q] + rank - 1]:
                total += dcg / best
                levels += 1
        if rank + 1 < n:
            for k in range(rank, n):
                dcg += gain[offsets[q] + k] * discount[k]
            if best > 0:
                total += dcg / best
                levels += 1
        out[q] = total / levels if levels else 0.0


@dataclass(frozen=True)
class NormalisedGain(GainMeasure):
    """trec_eval's G: a document counts less the further the gains above it fall behind the best ones."""

    base_name: ClassVar[str] = "g"
    kernel: ClassVar[Callable[..., Any]] = staticmethod(_normalised_gains)


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
