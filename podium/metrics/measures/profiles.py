"""Profile: where the relevant documents of each list are. All that measures of relevant ranks need, counted once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium.metrics.additive import relevant_weight
from podium.metrics.lists import RankedLists, heads


@dataclass(frozen=True, eq=False)
class Profile:
    """The lists down to a cutoff, for one threshold of relevance. Query q has places `offsets[q]:offsets[q + 1]`."""

    codes: Array  # (n,) labels in ranked order; negative: no label
    offsets: Array
    hits: Array  # (n,) int64: relevant documents so far
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
        codes, offsets = heads(lists.labels if lists.codes is None else lists.codes, lists.offsets, cutoff)
        labels, ends = lists.all_judged
        relevant = relevant_weight(labels, threshold, None, ends).astype(np.int64)
        hits, codes, offsets = np.empty(len(codes), dtype=np.int64), readonly(codes), readonly(offsets)
        over_queries(lambda first, last: _count_hits(codes, offsets, threshold, first, last, hits), offsets)
        return cls(codes, offsets, readonly(hits), relevant, np.diff(ends) - relevant, threshold)

    @once
    def retrieved(self) -> Array:
        return np.diff(self.offsets)

    @once
    def relevant_retrieved(self) -> Array:
        return self.hits_at(self.retrieved)

    def hits_at(self, ranks: int | Array) -> Array:
        """How many of the first documents are relevant: (queries,) for one rank, or one rank per query."""
        ends = self.offsets[:-1] + np.minimum(ranks, self.retrieved) - 1
        some = ends >= self.offsets[:-1]
        out = np.zeros(len(ends), dtype=np.int64)
        out[some] = self.hits[ends[some]]
        return out

    @once
    def peaks(self) -> tuple[Array, Array]:
        """The largest precision at or below each relevant document that is retrieved, in ranked order, and offsets."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.relevant_retrieved)])
        out = np.empty(int(ends[-1]))
        over_queries(
            lambda first, last: _find_peaks(self.hits, self.offsets, ends, first, last, out), readonly(self.offsets)
        )
        return out, ends


def ratio(numerators: Array, denominators: Array) -> Array:
    """Quotients, 0 where the denominator is 0."""
    quotients: Array = np.divide(
        numerators, denominators, out=np.zeros(len(numerators)), where=np.asarray(denominators) > 0
    )
    return quotients


@kernel
def _count_hits(codes: Array, offsets: Array, threshold: float, first: int, last: int, hits: Array) -> None:
    """hits[k]: how many documents of the same query down to place k have a label from the threshold on."""
    for q in range(first, last):
        count = 0
        for k in range(offsets[q], offsets[q + 1]):
            count += codes[k] >= threshold
            hits[k] = count


@kernel
def _find_peaks(hits: Array, offsets: Array, ends: Array, first: int, last: int, out: Array) -> None:
    """out[ends[q] + c]: the largest precision at the rank of relevant document c of query q or below it."""
    for q in range(first, last):
        best = 0.0
        for rank in range(offsets[q + 1] - offsets[q] - 1, -1, -1):
            count = hits[offsets[q] + rank]
            before = hits[offsets[q] + rank - 1] if rank else 0
            best = max(best, count / (rank + 1))
            if count > before:
                out[ends[q] + before] = best
