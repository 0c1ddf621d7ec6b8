"""Field: statistics and postings of one field over all segments of an index, without deleted documents.

This is what features are computed from. Documents are numbered through all segments: `index.bases` says where each
begins.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.memo import Memo
from podium._runtime.once import once
from podium.search.index.postings import Postings
from podium.search.index.segments import find_text
from podium.search.retrieval.phrases import phrase_postings
from podium.search.retrieval.weightings import Statistics

if TYPE_CHECKING:
    from podium.search.reading import Index

STATISTICS_MEMORY = 1 << 25  # bytes that a field uses for terms it has seen
_STATISTICS_BYTES = 300  # of an object with four numbers
Part = Sequence[tuple[str, int]]  # a term, or the terms of a phrase with their positions


class Field:
    """One of whole, body, title, anchor and url."""

    def __init__(self, index: Index, name: str) -> None:
        self.index, self.name = index, name
        self._statistics: Memo[str, Statistics] = Memo(STATISTICS_MEMORY)

    @once
    def postings_by_segment(self) -> list[Postings]:
        if self.name != "anchor":
            return [segment.postings(self.name) for segment in self.index.segments]
        links = self.index.links
        if links is None:
            return [_no_postings(segment.n_documents) for segment in self.index.segments]
        return [links.anchor_postings(number) for number in range(len(self.index.segments))]

    @once
    def lengths(self) -> np.ndarray:
        """(documents,) the number of terms, for all numbers of documents, also of deleted ones."""
        return self._joined("lengths")

    @once
    def uniques(self) -> np.ndarray:
        """(documents,) the number of distinct terms."""
        return self._joined("uniques")

    def _joined(self, name: str) -> np.ndarray:
        parts = [getattr(part, name) for part in self.postings_by_segment]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint32), *parts])

    @once
    def n_terms(self) -> int:
        """Occurrences of all terms in all live documents."""
        pairs = zip(self.postings_by_segment, self.index.deleted)
        return sum(int(part.lengths[~deleted].sum(dtype=np.int64)) for part, deleted in pairs)

    @property
    def average_length(self) -> float:
        """Terms per live document; those without this field count with 0."""
        return self.n_terms / self.index.n_documents if self.index.n_documents else 0.0

    def numbers(self, term: str) -> list[int]:
        """The number of a term in each segment; -1 where it is not there."""
        if self.name == "anchor":
            number = -1 if self.index.links is None else find_text(self.index.links.terms, term)
            return [number] * len(self.index.segments)
        return [find_text(segment.terms, term) for segment in self.index.segments]

    def statistics(self, term: str) -> Statistics:
        """Document frequency and occurrences of a term (as the analyser gives it)."""
        statistics = self._statistics.values.get(term)
        if statistics is None:
            statistics = self.phrase_statistics([(term, 0)])
            self._statistics.keep(term, statistics, _STATISTICS_BYTES)
        return statistics

    def part_statistics(self, part: Part) -> Statistics:
        """The same of a term or a phrase."""
        return self.statistics(part[0][0]) if len(part) == 1 else self.phrase_statistics(part)

    def phrase_statistics(self, part: Part) -> Statistics:
        """The same of a phrase, which counts as a term of its own."""
        return self.statistics_of(self.segment_postings(part, segment) for segment in range(len(self.index.segments)))

    def statistics_of(self, postings: Iterable[tuple[np.ndarray, np.ndarray]]) -> Statistics:
        """The same of documents and frequencies per segment."""
        df = cf = 0
        for docs, tfs in postings:
            df, cf = df + len(docs), cf + int(tfs.sum(dtype=np.int64))
        return Statistics(self.index.n_documents, df, cf, self.n_terms)

    def postings(self, term: str) -> tuple[np.ndarray, np.ndarray]:
        """(documents, frequencies) of a term, documents ascending and numbered through all segments."""
        return self.phrase_postings([(term, 0)])

    def frequency(self, term: str, document: int) -> int:
        """How often a document has a term."""
        segment = bisect_right(self.index.bases, document) - 1
        docs, tfs = self.segment_postings([(term, 0)], segment)
        number = document - self.index.bases[segment]
        row = int(np.searchsorted(docs, number))
        return int(tfs[row]) if row < len(docs) and docs[row] == number else 0

    def phrase_postings(self, part: Part) -> tuple[np.ndarray, np.ndarray]:
        """The same of a phrase."""
        postings = [self.segment_postings(part, segment) for segment in range(len(self.index.segments))]
        if len(postings) == 1:
            return postings[0]
        docs = [segment_docs + np.uint32(base) for (segment_docs, _), base in zip(postings, self.index.bases)]
        return (
            np.concatenate([np.empty(0, np.uint32), *docs]),
            np.concatenate([np.empty(0, np.uint16), *(tfs for _, tfs in postings)]),
        )

    def segment_postings(self, part: Part, segment: int) -> tuple[np.ndarray, np.ndarray]:
        """(documents, frequencies) of a term or phrase in one segment, without deleted documents."""
        if len(part) == 1:
            docs, tfs = self._term_postings(part[0][0], segment)
        elif self.name == "whole":
            docs, tfs = _added([self._within(name, part, segment) for name in ("title", "body")])
        else:
            docs, tfs = self._within(self.name, part, segment)
        deleted = self.index.deletions[segment]
        if len(deleted):
            live = ~deleted[docs]
            docs, tfs = docs[live], tfs[live]
        return docs, tfs

    def _term_postings(self, term: str, segment: int) -> tuple[np.ndarray, np.ndarray]:
        number = self.numbers(term)[segment]
        postings = self.postings_by_segment[segment]
        start, end = (0, 0) if number < 0 else postings.starts[number : number + 2].tolist()
        return postings.docs[start:end], postings.tfs[start:end]

    def _within(self, name: str, part: Part, segment: int) -> tuple[np.ndarray, np.ndarray]:
        """A phrase in a field that has positions."""
        field = self if name == self.name else self.index.field(name)
        numbers = [field.numbers(term)[segment] for term, _ in part]
        if min(numbers) < 0:
            return np.empty(0, np.uint32), np.empty(0, np.uint16)
        first = part[0][1]
        return phrase_postings(field.postings_by_segment[segment], numbers, [position - first for _, position in part])


def _added(lists: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies of the same document are added."""
    docs, places = np.unique(np.concatenate([docs for docs, _ in lists]), return_inverse=True)
    sums = np.bincount(places, np.concatenate([tfs for _, tfs in lists]), len(docs))
    return docs.astype(np.uint32), np.minimum(sums, 65_535).astype(np.uint16)


def _no_postings(n_documents: int) -> Postings:
    nothing = np.zeros(n_documents, np.uint32)
    short, long = np.empty(0, np.uint16), np.zeros(1, np.int64)
    return Postings(long, np.empty(0, np.uint32), short, nothing, nothing, long, short)
