"""Document terms: how often each term is in a document, from the texts that the index keeps.

Postings go from terms to documents; feedback needs the other direction, for a few documents of a query.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from typing import TYPE_CHECKING

from podium._runtime.memo import Memo

if TYPE_CHECKING:
    from podium.search.reading import Index


class DocumentTerms:
    """The terms of documents in one field, remembered up to a number of bytes."""

    def __init__(self, index: Index, field: str, memory: int) -> None:
        self.index = index
        self._names = ("title", "body") if field == "whole" else (field,)
        self._counts: Memo[int, Counter[str]] = Memo(memory)

    def counts(self, document: int) -> Counter[str]:
        counts = self._counts.values.get(document)
        if counts is None:
            texts, analyser = self.index.stored(document), self.index.analyser
            counts = Counter(term for name in self._names for term, _ in analyser.terms(texts.get(name, "")))
            self._counts.keep(document, counts, sys.getsizeof(counts) + sum(map(sys.getsizeof, counts)))
        return counts


def largest_shares(weights: Mapping[str, float], n: int) -> dict[str, float]:
    """The n largest weights, of equal ones those of the first terms, divided by their sum; {"a": 3, "b": 1}, 2 ->
    {"a": 0.75, "b": 0.25}."""
    least = min(nlargest(n, weights.values()), default=0.0)  # most terms need no comparison of texts
    best = sorted((pair for pair in weights.items() if pair[1] >= least), key=lambda pair: (-pair[1], pair[0]))[:n]
    total = math.fsum(weight for _, weight in best)
    return {term: weight / total for term, weight in best if weight > 0.0}
