"""Measures of novelty and diversity, by judgements per subtopic: what a document adds that those above it lack.

The gain of a document is `sum over its subtopics s of (1 - alpha)^(documents above that are relevant to s)`. A subtopic
counts where a document of the qrels is relevant to it; S is how many do. Definitions are those of ndeval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.base import refuse_averaged_ties
from podium.metrics.lists import RankedLists
from podium.metrics.measures.frame import RunMeasure
from podium.metrics.measures.profiles import ratio

Pairs = tuple[Array, Array]  # numbers of documents in the qrels (negative: not judged), and offsets per query
Table = tuple[Array, Array, Array]  # starts, subtopics and judgements of a SubtopicQrels
_DEEPEST = 1_000_000  # there is a weight for each rank


@dataclass(frozen=True)
class SubtopicMeasure(RunMeasure):
    """The frame: the documents of a list, and those that are judged, by their numbers in the qrels.

    Members define `of_documents`.
    """

    needs_subtopics: ClassVar[bool] = True

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        if lists.subtopics is None or lists.codes is None:
            raise ValueError(f"{self.name} needs judgements per subtopic. podium.SubtopicQrels has them.")
        judged, ends = lists.all_judged
        qrels, threshold = lists.subtopics, self.threshold
        documents = Documents(
            (readonly(lists.codes), readonly(lists.offsets)),
            (readonly(judged), readonly(ends)),
            (qrels.starts, qrels.subtopics, qrels.judgements),
            threshold,
            lists.lengths if self.cutoff is None else np.full(lists.n_queries, self.cutoff),
        )
        return self.of_documents(documents)

    def of_documents(self, documents: Documents) -> Array:
        """One number per query."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Documents:
    """Ranked and judged documents of each query, and sums of the gains that depend on alpha."""

    ranked: Pairs
    judged: Pairs
    table: Table
    threshold: float
    depths: Array  # how many places of each query count

    @property
    def subtopics(self) -> Array:
        """S: the gains of all judged documents, where each subtopic counts once."""
        return self._sums(self.judged, 1.0, self.ones(), np.diff(self.judged[1]))

    def sums(self, alpha: float, weights: Array) -> Array:
        """The sum over ranks of the gains of the list times weights."""
        return self._sums(self.ranked, alpha, weights, self.depths)

    def best_sums(self, alpha: float, weights: Array) -> Array:
        """The same in the best order, in which each document adds as much as possible to those above it."""
        judged, table, rules, out = self.judged, self.table, (alpha, self.threshold), np.empty(len(self.depths))
        depths, weights = readonly(np.minimum(len(weights), np.diff(judged[1]))), readonly(weights)
        over_queries(
            lambda first, last: _sum_best_gains(judged, table, rules, weights, depths, first, last, out), judged[1]
        )
        return out

    def _sums(self, pairs: Pairs, alpha: float, weights: Array, depths: Array) -> Array:
        judged, table, rules, out = self.judged, self.table, (alpha, self.threshold), np.empty(len(self.depths))
        depths, weights = readonly(depths), readonly(weights)
        over_queries(
            lambda first, last: _sum_gains(pairs, judged, table, rules, weights, depths, first, last, out), pairs[1]
        )
        return out

    def ones(self) -> Array:
        """A weight of 1 per rank of the longest list, or of the most judged documents."""
        return np.ones(max(np.diff(offsets).max(initial=0) for _, offsets in (self.ranked, self.judged)))


@dataclass(frozen=True)
class NoveltyMeasure(SubtopicMeasure):
    """Gains times a weight per rank, divided by the most that S subtopics allow; `best` divides by the best order.

    The most: if every document were relevant to all subtopics. Members define `weights`.
    """

    best: ClassVar[bool] = False

    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"{self.base_name}: alpha must be between 0 and 1; got {self.alpha!r}.")
        if (self.cutoff or 0) > _DEEPEST:
            raise ValueError(f"{self.base_name}: the cutoff must be at most {_DEEPEST:,}; got {self.cutoff}.")

    def weights(self, ranks: Array) -> Array:
        raise NotImplementedError

    def of_documents(self, documents: Documents) -> Array:
        deepest = max(len(documents.ones()), documents.depths.max(initial=0))
        weights = self.weights(np.arange(1.0, 1.0 + deepest))
        sums = documents.sums(self.alpha, weights)
        if self.best:
            return ratio(sums, documents.best_sums(self.alpha, weights[: self.cutoff]))
        return ratio(sums, documents.subtopics * self.most(weights, documents.depths))

    def most(self, weights: Array, depths: Array) -> Array:
        """Per subtopic: `sum (1 - alpha)^(rank - 1) weight` over the ranks that count."""
        shrinking = (1.0 - self.alpha) ** np.arange(len(weights))
        most: Array = np.concatenate([np.zeros(1), np.cumsum(weights * shrinking)])[depths]
        return most


@dataclass(frozen=True)
class AlphaDCG(NoveltyMeasure):
    """Gains discounted by 1 / log2(1 + rank)."""

    base_name: ClassVar[str] = "alpha_dcg"

    def weights(self, ranks: Array) -> Array:
        return np.asarray(1.0 / np.log2(1.0 + ranks))


@dataclass(frozen=True)
class AlphaNDCG(AlphaDCG):
    """alpha_DCG divided by that of the best order, which takes the document with the largest gain at every rank."""

    base_name: ClassVar[str] = "alpha_ndcg"
    best: ClassVar[bool] = True


@dataclass(frozen=True)
class IntentAwareERR(NoveltyMeasure):
    """Gains discounted by 1 / rank: expected reciprocal rank, averaged over the subtopics."""

    base_name: ClassVar[str] = "err_ia"

    def weights(self, ranks: Array) -> Array:
        return 1.0 / ranks


@dataclass(frozen=True)
class NormalisedIntentAwareERR(IntentAwareERR):
    """ERR_IA divided by that of the best order."""

    base_name: ClassVar[str] = "nerr_ia"
    best: ClassVar[bool] = True


@dataclass(frozen=True)
class NRBP(NoveltyMeasure):
    """Gains discounted by beta^(rank - 1): novelty- and rank-biased precision."""

    base_name: ClassVar[str] = "nrbp"

    beta: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.beta < 1:
            raise ValueError(f"{self.base_name}: beta must be from 0 to below 1; got {self.beta!r}.")

    def weights(self, ranks: Array) -> Array:
        return np.asarray(self.beta ** (ranks - 1.0))

    def most(self, weights: Array, depths: Array) -> Array:
        """Of a list without end, whatever the cutoff."""
        return np.full(len(depths), 1.0 / (1.0 - (1.0 - self.alpha) * self.beta))


@dataclass(frozen=True)
class NormalisedNRBP(NRBP):
    """NRBP divided by that of the best order."""

    base_name: ClassVar[str] = "nnrbp"
    best: ClassVar[bool] = True


@dataclass(frozen=True)
class SubtopicRecall(SubtopicMeasure):
    """The share of the subtopics that the first k documents are relevant to."""

    base_name: ClassVar[str] = "strecall"

    def of_documents(self, documents: Documents) -> Array:
        return ratio(documents.sums(1.0, documents.ones()), documents.subtopics)


@dataclass(frozen=True)
class IntentAwarePrecision(SubtopicMeasure):
    """The mean over the subtopics of precision."""

    base_name: ClassVar[str] = "p_ia"

    def of_documents(self, documents: Documents) -> Array:
        return ratio(documents.sums(0.0, documents.ones()), documents.subtopics * documents.depths)


@dataclass(frozen=True)
class IntentAwareAP(SubtopicMeasure):
    """The mean over the subtopics of average precision."""

    base_name: ClassVar[str] = "ap_ia"

    def of_documents(self, documents: Documents) -> Array:
        ranked, judged, table, out = (
            documents.ranked,
            documents.judged,
            documents.table,
            np.empty(len(documents.depths)),
        )
        depths, threshold = readonly(documents.depths), documents.threshold
        over_queries(
            lambda first, last: _mean_precisions(ranked, judged, table, threshold, depths, first, last, out), ranked[1]
        )
        return out


@kernel
def _sum_gains(
    pairs: Pairs,
    judged: Pairs,
    table: Table,
    rules: tuple[float, float],
    weights: Array,
    depths: Array,
    first: int,
    last: int,
    out: Array,
) -> None:
    """out[q]: `sum gain weight` over the first depths[q] documents; rules: alpha, the smallest relevant judgement."""
    (numbers, offsets), (alpha, threshold), (starts, subtopics, judgements) = pairs, rules, table
    for q in range(first, last):
        left = np.ones(_count_names(judged, table, q))
        total = 0.0
        for rank in range(min(offsets[q + 1] - offsets[q], depths[q])):
            number = np.int64(numbers[offsets[q] + rank])
            gain = 0.0
            if number >= 0:
                for k in range(starts[number], starts[number + 1]):
                    if judgements[k] >= threshold:
                        gain += left[subtopics[k]]
                        left[subtopics[k]] *= 1.0 - alpha
            total += gain * weights[rank]
        out[q] = total


@kernel
def _sum_best_gains(
    judged: Pairs,
    table: Table,
    rules: tuple[float, float],
    weights: Array,
    depths: Array,
    first: int,
    last: int,
    out: Array,
) -> None:
    """The same in the order that takes, at every rank, the document with the largest gain, of equal ones the first."""
    (numbers, offsets), (alpha, threshold), (starts, subtopics, judgements) = judged, rules, table
    for q in range(first, last):
        left = np.ones(_count_names(judged, table, q))
        free = numbers[offsets[q] : offsets[q + 1]].astype(np.int64)
        total = 0.0
        for rank in range(depths[q]):
            best, chosen = 0.0, -1
            for one in range(len(free)):
                number, gain = free[one], 0.0
                if number >= 0:
                    for k in range(starts[number], starts[number + 1]):
                        if judgements[k] >= threshold:
                            gain += left[subtopics[k]]
                    if gain > best:
                        best, chosen = gain, one
            if chosen < 0:
                break
            for k in range(starts[free[chosen]], starts[free[chosen] + 1]):
                if judgements[k] >= threshold:
                    left[subtopics[k]] *= 1.0 - alpha
            free[chosen] = -1
            total += best * weights[rank]
        out[q] = total


@kernel
def _mean_precisions(
    ranked: Pairs, judged: Pairs, table: Table, threshold: float, depths: Array, first: int, last: int, out: Array
) -> None:
    """out[q]: the mean over subtopics of `sum (relevant documents down to rank) / rank / relevant documents`."""
    (numbers, offsets), (pool, ends), (starts, subtopics, judgements) = ranked, judged, table
    for q in range(first, last):
        n = _count_names(judged, table, q)
        relevant, met, sums = np.zeros(n), np.zeros(n), np.zeros(n)
        for row in range(ends[q], ends[q + 1]):
            number = np.int64(pool[row])
            for k in range(starts[number], starts[number + 1]):
                relevant[subtopics[k]] += judgements[k] >= threshold
        for rank in range(min(offsets[q + 1] - offsets[q], depths[q])):
            number = np.int64(numbers[offsets[q] + rank])
            if number >= 0:
                for k in range(starts[number], starts[number + 1]):
                    if judgements[k] >= threshold:
                        met[subtopics[k]] += 1.0
                        sums[subtopics[k]] += met[subtopics[k]] / (rank + 1)
        total, count = 0.0, 0
        for subtopic in range(n):
            if relevant[subtopic] > 0:
                total += sums[subtopic] / relevant[subtopic]
                count += 1
        out[q] = total / count if count else 0.0


@kernel
def _count_names(judged: Pairs, table: Table, q: int) -> int:
    """How many subtopics the judged documents of query q have, relevant or not."""
    (pool, ends), (starts, subtopics, _) = judged, table
    largest = -1
    for row in range(ends[q], ends[q + 1]):
        number = np.int64(pool[row])
        for k in range(starts[number], starts[number + 1]):
            largest = max(largest, subtopics[k])
    return largest + 1
