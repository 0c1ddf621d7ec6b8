"""Profile: where the relevant documents of each list are. All that measures of relevant ranks need, counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium.metrics.lists import Places, RankedLists
from podium.metrics.measures.prefixes import PrefixSums

Arrays = tuple[Array, Array, Array]


@dataclass(frozen=True, eq=False)
class Profile:
    """The lists down to a cutoff, for one threshold of relevance."""

    judged: Places  # the documents that the qrels have
    hits: Places  # those of them that are relevant
    retrieved: Array  # (queries,) int64
    relevant: Array  # (queries,) int64: relevant documents, retrieved or not
    nonrelevant: Array  # (queries,) int64: judged documents that are not relevant, retrieved or not
    threshold: float

    @classmethod
    def of(cls, lists: RankedLists, threshold: float, cutoff: int | None = None) -> Profile:
        """Counted at the first use, and kept with the lists."""
        if cutoff is not None and cutoff >= lists.longest:
            cutoff = None
        key = (cls, threshold, cutoff)
        if key not in lists.memo:
            lists.memo[key] = cls._counted(lists, threshold, cutoff)
        profile: Profile = lists.memo[key]
        return profile

    @classmethod
    def _counted(cls, lists: RankedLists, threshold: float, cutoff: int | None) -> Profile:
        judged = lists.places.down_to(cutoff)
        relevant = relevant_counts(lists, threshold)
        retrieved = lists.lengths if cutoff is None else np.minimum(lists.lengths, cutoff)
        others = np.diff(lists.all_judged[1]) - relevant
        return cls(judged, _relevant(judged, threshold), retrieved, relevant, others, threshold)

    @once
    def relevant_retrieved(self) -> Array:
        return np.diff(self.hits.ends)

    def hits_at(self, ranks: int | Array) -> Array:
        """How many of the first documents are relevant: (queries,) for one rank, or one rank per query."""
        return self.hits.below(ranks)

    def of_first(self, cutoff: int | None) -> Array:
        """1 / rank of the first relevant document of each query, 0 if there is none down to the cutoff."""
        some = self.hits_at(self.retrieved if cutoff is None else cutoff) > 0
        out = np.zeros(len(some))
        out[some] = 1.0 / (self.hits.ranks[self.hits.ends[:-1][some]] + 1)
        return out

    @once
    def precisions(self) -> PrefixSums:
        """Sums of the precisions at relevant ranks."""
        return PrefixSums.of_precisions(self.hits)

    @once
    def judged_above(self) -> Array:
        """How many documents that the qrels have are above each relevant one."""
        return self._above[0]

    @once
    def others_above(self) -> Array:
        """How many of them are judged and not relevant."""
        return self._above[1]

    @once
    def _above(self) -> tuple[Array, Array]:
        codes, ends, n = self.judged.codes, self.judged.ends, len(self.hits.ranks) + 1
        out = np.empty(n, np.int32), np.empty(n, np.int32)
        _count_above(codes, ends, self.threshold, *out)
        return readonly(out[0][:-1]), readonly(out[1][:-1])

    @once
    def peaks(self) -> Array:
        """The largest precision at or below each relevant document that is retrieved."""
        ranks, ends, out = self.hits.ranks, self.hits.ends, np.empty(len(self.hits.ranks))
        over_queries(lambda first, last: _find_peaks(ranks, ends, first, last, out), ends, cheap=True)
        return out


def relevant_counts(lists: RankedLists, threshold: float) -> Array:
    """(queries,) int64: how many judged documents are relevant."""
    key = ("relevant", threshold)
    if key not in lists.memo:
        labels, ends = lists.all_judged
        labels, ends, counts = readonly(labels), readonly(ends), np.empty(len(ends) - 1, np.int64)
        over_queries(
            lambda first, last: _count_relevant(labels, ends, threshold, first, last, counts), ends, cheap=True
        )
        lists.memo[key] = readonly(counts)
    counted: Array = lists.memo[key]
    return counted


def ratio(numerators: Array, denominators: Array) -> Array:
    """Quotients, 0 where the denominator is 0."""
    quotients: Array = np.divide(
        numerators, denominators, out=np.zeros(len(numerators)), where=np.asarray(denominators) > 0
    )
    return quotients


def _relevant(places: Places, threshold: float) -> Places:
    """The documents with a label from the threshold on."""
    ranks, codes = np.empty(len(places.ranks), np.int32), np.empty(len(places.ranks))
    ends = np.zeros(len(places.ends), np.int64)
    n = _take_relevant((places.ranks, places.codes, places.ends), threshold, (ranks, codes, ends))
    return Places(readonly(ranks[:n]), readonly(codes[:n]), readonly(ends))


@kernel
def _count_relevant(codes: Array, ends: Array, threshold: float, first: int, last: int, counts: Array) -> None:
    for q in range(first, last):
        count = 0
        for k in range(np.uint64(ends[q]), np.uint64(ends[q + 1])):
            count += codes[k] >= threshold
        counts[q] = count


@kernel
def _take_relevant(places: Arrays, threshold: float, out: Arrays) -> int:
    """Copy ranks, codes and ends of places; what lies behind the last relevant one is overwritten, as no branch is."""
    (ranks, codes, ends), (out_ranks, out_codes, out_ends) = places, out
    count = np.uint64(0)
    for q in range(len(ends) - 1):
        for k in range(np.uint64(ends[q]), np.uint64(ends[q + 1])):
            out_ranks[count], out_codes[count] = ranks[k], codes[k]
            count += np.uint64(codes[k] >= threshold)
        out_ends[q + 1] = count
    return int(count)


@kernel
def _count_above(codes: Array, ends: Array, threshold: float, judged_above: Array, others_above: Array) -> None:
    """As above, without branches: what is written for a document that is not relevant is overwritten by the next."""
    count = np.uint64(0)
    for q in range(len(ends) - 1):
        start, others = np.uint64(ends[q]), 0
        for k in range(start, np.uint64(ends[q + 1])):
            judged_above[count], others_above[count] = k - start, others
            is_relevant = codes[k] >= threshold
            count += np.uint64(is_relevant)
            others += (codes[k] >= 0.0) & (not is_relevant)


@kernel
def _find_peaks(ranks: Array, ends: Array, first: int, last: int, out: Array) -> None:
    """out[k]: the largest precision at the rank of relevant document k or below it."""
    for q in range(first, last):
        best = 0.0
        for k in range(ends[q + 1] - 1, ends[q] - 1, -1):
            best = max(best, (k - ends[q] + 1) / (ranks[k] + 1))
            out[k] = best
