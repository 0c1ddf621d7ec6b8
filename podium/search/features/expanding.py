"""Expansion: features of other terms than those of the query.

bigrams     neighbouring terms of the query as phrases, each a term of its own
feedback    terms that are typical of the best documents so far (pseudo-relevance feedback); these may use other words
            than the query
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.memo import Memo
from podium.search.features.declaring import Feature
from podium.search.retrieval.terms import query_terms

if TYPE_CHECKING:
    from podium.search.reading import Index

EXPANSIONS = ("bigrams", "feedback")
FEEDBACK_DOCUMENTS, FEEDBACK_TERMS = 10, 25
_PHRASE_BYTES = 600  # of a tuple with two arrays and a number, and of its key


class Expansion:
    """A feature of other terms than those of the query: its neighbouring terms as phrases, or terms of feedback."""

    def __init__(
        self, index: Index, feature: Feature, bm25: Callable[[dict[str, float], np.ndarray], np.ndarray], memory: int
    ) -> None:
        """`bm25` has the scores of a query whose terms have weights, one column; `memory`: bytes for what was made."""
        self.index, self.feature, self._bm25 = index, feature, bm25
        self.field = index.field(feature.field or "")
        self._known: Memo[Any, Any] = Memo(memory)

    def values(self, text: str, documents: np.ndarray) -> np.ndarray:
        if self.feature.kind == "bigrams":
            return self._bigrams(text, documents)
        return self._bm25(self.feedback_terms(documents), documents)[:, 0]

    def _bigrams(self, text: str, documents: np.ndarray) -> np.ndarray:
        weighting = self.feature.weighting
        saturation = weighting.per_document(
            self.field.lengths[documents].astype(np.float64), np.empty(0), self.field.average_length
        )
        total = np.zeros(len(documents))
        for pair in neighbours(self.index, text):
            docs, tfs, idf = self._remembered(pair, self._phrase)
            if len(docs):
                places = np.minimum(np.searchsorted(docs, documents), len(docs) - 1)
                tf = np.where(docs[places] == documents, tfs[places], 0).astype(np.float64)
                total += idf * tf / np.where(tf > 0.0, tf + saturation, 1.0)
        return total

    def _phrase(self, pair: tuple[str, str, int]) -> tuple[np.ndarray, np.ndarray, float]:
        part = [(pair[0], 0), (pair[1], pair[2])]
        found = self.field.phrase_statistics(part)
        return *self.field.phrase_postings(part), self.feature.weighting.per_term(found)[0]

    def feedback_terms(self, documents: np.ndarray) -> dict[str, float]:
        """The terms of the first documents with the largest weights; these add up to 1."""
        first = documents[: self.feature.settings.get("documents", FEEDBACK_DOCUMENTS)]
        weights: dict[str, float] = {}
        for document in first.tolist():
            counts = self._remembered(document, self._terms_of)
            length = sum(counts.values())
            for term, count in counts.items():
                weights[term] = weights.get(term, 0.0) + count / length / len(first)
        for term in weights:
            found = self.field.statistics(term)
            weights[term] *= math.log(found.n_documents / found.df) if found.df else 0.0
        best = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))
        best = best[: self.feature.settings.get("terms", FEEDBACK_TERMS)]
        total = math.fsum(weight for _, weight in best)
        return {term: weight / total for term, weight in best if weight > 0.0}

    def _terms_of(self, document: int) -> Counter[str]:
        kept = self.index.stored(document)
        names = ("title", "body") if self.field.name == "whole" else (self.field.name,)
        return Counter(term for name in names for term, _ in self.index.analyser.terms(kept.get(name, "")))

    def _remembered(self, key: Any, make: Callable[[Any], Any]) -> Any:
        found = self._known.values.get(key)
        if found is None:
            found = make(key)
            self._known.keep(key, found, _size(found))
        return found


def _size(found: Counter[str] | tuple[np.ndarray, np.ndarray, float]) -> int:
    """Bytes of the terms of a document, or of the postings of a phrase."""
    if isinstance(found, Counter):
        return sys.getsizeof(found) + sum(map(sys.getsizeof, found))
    return _PHRASE_BYTES + found[0].nbytes + found[1].nbytes


def neighbours(index: Index, text: str) -> list[tuple[str, str, int]]:
    """Neighbouring terms of a query and their distance, which stop words between them widen."""
    clauses = [own.terms for own in query_terms(text, index.analyser) if not own.clause.must_not]
    return [(one, other, b - a) for terms in clauses for (one, a), (other, b) in pairwise(terms)]
