"""Expansion: features of other terms than those of the query.

bigrams     neighbouring terms of the query as phrases, each a term of its own
feedback    terms that are typical of the best documents so far (pseudo-relevance feedback); these may use other words
            than the query
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.memo import Memo
from podium.search.features.columns import frequencies
from podium.search.retrieval.document_terms import DocumentTerms, largest_shares
from podium.search.retrieval.formulas import saturated
from podium.search.retrieval.terms import query_terms

if TYPE_CHECKING:
    from podium.search.features.declaring import Feature
    from podium.search.features.extracting import Extractor, QueryDocuments
    from podium.search.reading import Index

FEEDBACK_DOCUMENTS, FEEDBACK_TERMS = 10, 25
_PHRASE_BYTES = 600  # of a tuple with two arrays and a number, and of its key
_Phrase = tuple[np.ndarray, np.ndarray, float]  # documents, frequencies, idf


class Bigrams:
    """BM25 of neighbouring terms of the query as phrases."""

    def __init__(self, extractor: Extractor, feature: Feature) -> None:
        self.index, self.weighting = extractor.index, feature.weighting
        self.field = self.index.field(feature.field or "")
        self._phrases: Memo[tuple[str, str, int], _Phrase] = Memo(extractor.memo_bytes)

    def __call__(self, asked: QueryDocuments) -> np.ndarray:
        lengths, uniques = self.field.lengths[asked.documents], self.field.uniques[asked.documents]
        x = self.weighting.per_document(lengths, uniques, self.field.average_length)
        total = np.zeros(len(asked.documents))
        for pair in neighbours(self.index, asked.text):
            docs, tfs, idf = self._phrase(pair)
            tf = frequencies(docs, tfs, asked.documents).astype(np.float64)
            rows = np.flatnonzero(tf)
            total[rows] += saturated(idf, tf[rows], x[rows])
        return total

    def _phrase(self, pair: tuple[str, str, int]) -> _Phrase:
        phrase = self._phrases.values.get(pair)
        if phrase is None:
            part = [(pair[0], 0), (pair[1], pair[2])]
            docs, tfs = self.field.phrase_postings(part)
            phrase = docs, tfs, self.weighting.per_term(self.field.phrase_statistics(part))[0]
            self._phrases.keep(pair, phrase, _PHRASE_BYTES + docs.nbytes + tfs.nbytes)
        return phrase


class Feedback:
    """BM25 of terms that are typical of the best documents."""

    def __init__(self, extractor: Extractor, feature: Feature) -> None:
        self.index, self.settings = extractor.index, feature.settings
        self.field = self.index.field(feature.field or "")
        self._bm25 = extractor.bm25_sums(feature)
        self._documents = DocumentTerms(self.index, self.field.name, extractor.memo_bytes)

    def __call__(self, asked: QueryDocuments) -> np.ndarray:
        return self._bm25(self.terms(asked.documents), asked.documents)[:, 0]

    def terms(self, documents: np.ndarray) -> dict[str, float]:
        """The terms of the first documents with the largest weights; these add up to 1."""
        first = documents[: self.settings.get("documents", FEEDBACK_DOCUMENTS)]
        weights: dict[str, float] = {}
        for document in first.tolist():
            counts = self._documents.counts(document)
            length = sum(counts.values())
            for term, count in counts.items():
                weights[term] = weights.get(term, 0.0) + count / length / len(first)
        for term in weights:
            statistics = self.field.statistics(term)
            weights[term] *= math.log(statistics.n_documents / statistics.df) if statistics.df else 0.0
        return largest_shares(weights, self.settings.get("terms", FEEDBACK_TERMS))


def neighbours(index: Index, text: str) -> list[tuple[str, str, int]]:
    """Neighbouring terms of a query and their distance, which stop words between them widen."""
    clauses = [part.terms for part in query_terms(text, index.analyser) if not part.clause.must_not]
    return [(one, other, b - a) for terms in clauses for (one, a), (other, b) in pairwise(terms)]
