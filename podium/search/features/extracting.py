"""Extraction: the features of a query's candidates, from the postings of an index.

Training files and searches call the same code, so a value is the same bit for bit wherever it is computed: alone or
among many queries, on any thread, in one segment or several. What is known of a term (where its postings are, idf,
probabilities) is computed when the term is first asked for.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.memo import Memo
from podium._runtime.once import once
from podium.search.analysis.analyser import split_words
from podium.search.features.declaring import Feature, Features
from podium.search.features.kernels import fill_columns, fill_frequencies, scale_to_range
from podium.search.retrieval.syntax import is_plain
from podium.search.retrieval.terms import MOST_TERMS, query_terms
from podium.search.retrieval.weightings import Statistics

if TYPE_CHECKING:
    from podium.search.features.explaining import FeatureValue
    from podium.search.reading import Index

MEMORY = 1 << 26  # bytes that an extractor uses for terms it has seen
_TERM_BYTES = 700  # of an object with four arrays, without their values
_BLOCK_BYTES = 1 << 25  # of frequencies, lengths and uniques at a time


@dataclass(frozen=True)
class QueryDocuments:
    """What a feature that is a Python function is given: a query, and its candidates in the order of the rows."""

    index: Index
    text: str
    terms: Mapping[str, int]  # of the query, and how often each occurs in it
    documents: np.ndarray  # (n,) int64: numbers in the index
    scores: np.ndarray  # (n,) float64: of the stage before; NaN where there is none

    @property
    def ids(self) -> list[str]:
        return [self.index.id(document) for document in self.documents.tolist()]

    def stored(self) -> list[dict[str, Any]]:
        """What the index keeps of each document."""
        return [self.index.stored(document) for document in self.documents.tolist()]


@dataclass(frozen=True)
class _Term:
    """A term in all fields and columns."""

    ranges: np.ndarray  # (segments, fields, 2) int64: its postings
    numbers: np.ndarray  # (columns, 3)
    constants: np.ndarray  # (columns,)
    known: np.ndarray  # (columns,) 1.0 where the field has the term

    @property
    def n_bytes(self) -> int:
        arrays = (self.ranges, self.numbers, self.constants, self.known)
        return _TERM_BYTES + sum(array.nbytes for array in arrays)


class Extractor:
    """Computes the declared features for candidates of an index. Any number of threads may call it."""

    def __init__(self, index: Index, features: Features, memory: int = MEMORY) -> None:
        """`memory`: bytes for what is known of terms, and for phrases and feedback terms."""
        self.index, self.features = index, features
        n_expanded = sum(feature.row.expands for feature in features.features)
        self.memo_bytes = memory // (2 + 2 * n_expanded)  # two memos here, and two more per expansion
        codes = [feature.row.code for feature in features.features]
        self._codes = np.array([code for code in codes if code is not None], np.int64)
        self._columns = np.array([column for column, code in enumerate(codes) if code is not None], np.int64)
        self._text_features = [features.features[column] for column in self._columns]
        self._field_names = list(dict.fromkeys(feature.field or "" for feature in self._text_features))
        self._fields = [index.field(name) for name in self._field_names]
        self._others = [
            (column, feature.row.prepare(self, feature))
            for column, feature in enumerate(features.features)
            if feature.row.code is None and feature.row.prepare is not None
        ]
        self._derived = [
            (column, features.names.index(feature.settings["of"]), feature)
            for column, feature in enumerate(features.features)
            if feature.row.derive is not None
        ]
        self._column_fields = np.array([self._field_names.index(item.field or "") for item in self._text_features])
        self._column_fields = self._column_fields.astype(np.int64)
        self._terms: Memo[str, _Term] = Memo(self.memo_bytes)
        self._words: Memo[str, str | None] = Memo(self.memo_bytes)
        self._per_document: dict[Hashable, np.ndarray] = {}
        self._lock = threading.Lock()

    def bm25_sums(self, feature: Feature) -> Callable[[Mapping[str, float], np.ndarray], np.ndarray]:
        """`weighted_sums` of BM25 alone, with the settings of a feature."""
        settings = {name: value for name, value in feature.settings.items() if name in ("k1", "b")}
        plain = Features((Feature("bm25", "bm25", feature.field, settings),))
        return Extractor(self.index, plain, self.memo_bytes).weighted_sums

    def per_document(self, key: Hashable, compute: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """Numbers of all documents, computed once."""
        with self._lock:
            if key not in self._per_document:
                self._per_document[key] = compute(*arguments)
            return self._per_document[key]

    def values(
        self, text: str, documents: Any, scores: Any = None, *, n_ranged: int | None = None, normalize: bool = True
    ) -> np.ndarray:
        """(documents, features) float32 of the documents with these numbers, best first: feedback uses the first ones.

        `scores` are those of the stage before. Where the features are normalized within the query, the first `n_ranged`
        documents (default: all) give the range; others are scaled like them, and may lie outside.
        """
        documents = self._checked(documents)
        out = np.zeros((len(documents), len(self.features)), np.float32)
        terms = self.terms(text)
        if len(self._columns) and len(documents):
            self._fill_text_columns(terms, documents, out)
        if (self._others or self._derived) and len(documents):
            before = np.full(len(documents), np.nan) if scores is None else np.asarray(scores, np.float64)
            asked = QueryDocuments(self.index, text, terms, documents, before)
            for column, values in self._others:
                out[:, column] = values(asked)
            for column, of, feature in self._derived:
                assert feature.row.derive is not None
                out[:, column] = feature.row.derive(feature, asked, out[:, of])
        if self.features.normalize == "minmax" and normalize:
            scale_to_range(out, len(out) if n_ranged is None else n_ranged)
        return out

    def explain(self, text: str, document: int, score: float | None = None) -> list[FeatureValue]:
        """Every feature of one document before any normalization: its value, formula and inputs."""
        from podium.search.features.explaining import explain_features

        return explain_features(self, text, document, score)

    def _checked(self, documents: Any) -> np.ndarray:
        numbers = np.ascontiguousarray(documents, dtype=np.int64)
        if numbers.ndim != 1 or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.index.n_slots):
            raise ValueError(f"documents must be numbers from 0 to {self.index.n_slots - 1}; got {documents!r:.80}.")
        return numbers

    def terms(self, text: str) -> dict[str, int]:
        """The terms of a query and how often each occurs in it. What must not occur is no part of it."""
        words = split_words(text) if is_plain(text) else None
        if words is None or len(words) > MOST_TERMS:
            clauses = query_terms(text, self.index.analyser)
            return dict(Counter(term for clause in clauses if not clause.clause.must_not for term, _ in clause.terms))
        counts: dict[str, int] = {}
        known = self._words.values
        for word in words:
            try:
                term = known[word]
            except KeyError:
                term = self._learn_word(word)
            if term is not None:
                counts[term] = counts.get(term, 0) + 1
        return counts

    def _learn_word(self, word: str) -> str | None:
        term = self.index.analyser.terms_of([word])[0]
        self._words.keep(word, term, sys.getsizeof(term))
        return term

    def weighted_sums(self, terms: Mapping[str, float], documents: np.ndarray) -> np.ndarray:
        """(documents, features) of a query whose terms occur in it by fractions: only features of postings."""
        out = np.zeros((len(documents), len(self.features)), np.float32)
        self._fill_text_columns(terms, documents, out)
        return out

    def _fill_text_columns(self, terms: Mapping[str, float], documents: np.ndarray, out: np.ndarray) -> None:
        """A block of candidates at a time, so that a query of many terms needs no more memory than one of few."""
        known = [self._term(term) for term in terms]
        counts = np.array(list(terms.values()), np.float64)
        n_columns, n_fields = len(self._columns), len(self._fields)
        numbers = np.array([term.numbers for term in known]).reshape(len(known), n_columns, 3)
        constants, n_known = np.zeros(n_columns), np.zeros(n_columns)
        for count, term in zip(counts.tolist(), known):
            constants += count * term.constants
            n_known += count * term.known
        shape = (len(known), len(self.index.segments), n_fields, 2)
        ranges = np.array([term.ranges for term in known], np.int64).reshape(shape)
        order = np.argsort(documents, kind="stable")
        size = max(1, _BLOCK_BYTES // (n_fields * (2 * len(known) + 16)))
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            fill_columns(
                *self._frequencies(documents[rows], ranges), counts, self._codes, self._column_fields,
                self._document_numbers, numbers, constants, n_known, rows, self._columns, out,
            )  # fmt: skip

    def _frequencies(self, wanted: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frequencies, lengths and uniques of `kernels.py` for candidates, ascending."""
        n, n_fields = len(wanted), len(self._fields)
        frequencies = np.zeros((n_fields, len(ranges), n), np.uint16)
        lengths, uniques = np.empty((n_fields, n)), np.empty((n_fields, n))
        bases = self.index.bases
        bounds = [0, n] if len(bases) == 2 else np.searchsorted(wanted, bases).tolist()
        for segment in range(len(bases) - 1):
            first, last = bounds[segment], bounds[segment + 1]
            if first == last:
                continue
            for f, field in enumerate(self._fields):
                postings = field.postings_by_segment[segment]
                fill_frequencies(
                    postings.docs, postings.tfs, ranges[:, segment, f], postings.lengths, postings.uniques,
                    wanted[first:last], bases[segment], frequencies[f, :, first:last], lengths[f, first:last],
                    uniques[f, first:last],
                )  # fmt: skip
        return frequencies, lengths, uniques

    @once
    def _document_numbers(self) -> np.ndarray:
        """(columns, 3): p and q of the weighting, and the average length."""
        numbers = np.zeros((len(self._text_features), 3))
        for column, feature in enumerate(self._text_features):
            if feature.is_weighted:
                average = self.index.field(feature.field or "").average_length
                numbers[column] = *feature.weighting.document_parameters(), average or 1.0
        return numbers

    def _term(self, term: str) -> _Term:
        known = self._terms.values.get(term)
        if known is None:
            known = self._learn(term)
            self._terms.keep(term, known, known.n_bytes)
        return known

    def _learn(self, term: str) -> _Term:
        ranges = np.zeros((len(self.index.segments), len(self._fields), 2), np.int64)
        statistics = [field.statistics(term) for field in self._fields]
        for f, field in enumerate(self._fields):
            for segment, number in enumerate(field.numbers(term)):
                if number >= 0:
                    ranges[segment, f] = field.postings_by_segment[segment].starts[number : number + 2]
        n = len(self._text_features)
        numbers, constants, known = np.zeros((n, 3)), np.zeros(n), np.zeros(n)
        for column, feature in enumerate(self._text_features):
            term_statistics = statistics[self._column_fields[column]]
            if term_statistics.df:
                known[column] = 1.0
                numbers[column], constants[column] = _term_numbers(feature, term_statistics)
        return _Term(ranges, numbers, constants, known)


def _term_numbers(feature: Feature, statistics: Statistics) -> tuple[tuple[float, float, float], float]:
    if feature.is_weighted:
        return feature.weighting.per_term(statistics), feature.weighting.constant(statistics)
    idf = math.log(statistics.n_documents / statistics.df)
    return (idf, 0.0, 0.0), idf
