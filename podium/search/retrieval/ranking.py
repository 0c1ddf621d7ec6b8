"""Ranking: from the text of a query to the best documents, under one weighting of one field or several.

A query of plain words in one field is the common case, and kept short: words are looked up in a dictionary of those
seen before, and compiled code does the rest. `clauses.py` has phrases, conditions, several fields and bm25f.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.memo import Memo
from podium._runtime.once import once
from podium.data.texts import Texts
from podium.search.analysis.analyser import split_words
from podium.search.retrieval import topk
from podium.search.retrieval.clauses import ANY, search_clauses
from podium.search.retrieval.impacts import NO_DELETIONS, ImpactTable
from podium.search.retrieval.syntax import is_plain
from podium.search.retrieval.terms import MOST_TERMS, limited_words, query_terms
from podium.search.retrieval.weightings import LARGEST_SCORE, Statistics, Weighting

if TYPE_CHECKING:
    from podium.search.reading import Index
    from podium.search.retrieval.fields import Field, Part

WORD_MEMORY = 1 << 26  # bytes that a ranker uses for words it has seen
_WORD_BYTES = 56  # of a tuple; a list takes 40 more
_NO_PRIOR = np.empty(0, np.int64)
_IN_ORDER = np.empty(0, np.int64)
_SPARE = 8  # workspaces that are kept

Lists = list[tuple[np.ndarray, np.ndarray]]  # per segment: documents, impacts
Word = tuple[Any, ...]  # its list in each segment; in a language model, also what it adds to all scores


class SearchWorkspace:
    """Arrays that one search at a time uses."""

    def __init__(self, k: int, n_terms: int, dtype: type = np.uint32) -> None:
        self.k, self.capacity = k, n_terms
        self.terms, self.counts = np.zeros(n_terms, np.int64), np.zeros(n_terms, np.int64)
        self.lists = np.zeros((topk.ROWS, n_terms + 1), np.int64)
        self.window: np.ndarray = np.zeros(topk.WINDOW, dtype)
        self.scores, self.best = np.zeros(k, np.int64), np.zeros(k, np.int64)
        self.values, self.names = np.zeros(k), np.zeros(64 * k, np.uint8)
        self.name_bytes, self.is_short = self.names.data, dtype is np.uint32


BestDocuments = tuple[np.ndarray, list[float], list[str]]  # the best documents: numbers in the index, scores, ids


class Ranker:
    """Scores the documents of an index. `fields` maps each searched field to its weight."""

    def __init__(self, index: Index, weighting: Weighting, fields: Mapping[str, float]) -> None:
        self.index, self.weighting = index, weighting
        largest = max(fields.values()) * weighting.largest / LARGEST_SCORE
        # Impacts are integers below 2**32: weights are divided by a power of two, which scores are multiplied with.
        self.scale = 2.0 ** max(0, math.ceil(math.log2(largest)))
        self.fields = {name: weight / self.scale for name, weight in fields.items()}
        if weighting.has_prior and len(fields) > 1:
            raise ValueError(f"{weighting.name} searches one field; got {', '.join(fields)}.")
        self._sources: dict[tuple[str, float], PostingSource] = {}
        self._lock = threading.Lock()
        self._words: Memo[str, Word | None] = Memo(WORD_MEMORY)
        self._spare: list[SearchWorkspace] = []
        self.names = Texts.of([]) if index.only_segment is None else index.only_segment.ids
        (first, weight), *others = self.fields.items()
        self.main = None if others or weighting.joins_fields else self.posting_source(first, weight)

    def search(self, text: str, k: int) -> BestDocuments:
        if self.main is not None and is_plain(text):
            return self._search_words(self.main, text, k)
        return search_clauses(self, query_terms(text, self.index.analyser), k)

    def _search_words(self, source: PostingSource, text: str, k: int) -> BestDocuments:
        """Plain words in one field."""
        counts: dict[Word, int] = {}
        known, n_words = self._words.values, 0
        words = split_words(text)
        if len(words) > MOST_TERMS:
            words = limited_words(words, self.index.analyser)
        for word in words:
            try:
                word_lists = known[word]
            except KeyError:
                word_lists = self._learn(source, word)
            if word_lists is not None:
                counts[word_lists] = counts.get(word_lists, 0) + 1
                n_words += 1
        n_query, add = 0, 0.0
        if self.weighting.has_prior:
            n_query = n_words
            add = sum(word_lists[-1] * count for word_lists, count in counts.items())
        work = self.workspace(k, len(counts), n_words * source.largest >= 2**32)
        terms, times, n = work.terms, work.counts, 0
        if self.index.only_segment is not None:
            for lists, count in counts.items():
                terms[n], times[n], n = lists[0], count, n + 1
            return self._search_only(source, n, n_query, add + n_query * source.largest_prior, work)
        n = self.search_lists(source, list(counts.items()), n_query, [ANY] * len(source.tables), work)
        return self.finish(work, n, add + n_query * source.largest_prior)

    def search_lists(
        self,
        source: PostingSource,
        lists: Sequence[tuple[Word, int]],
        n_query: int,
        allowed: Sequence[np.ndarray],
        work: SearchWorkspace,
    ) -> int:
        """The best documents of all segments for lists and how often each is in the query: entries of the heap."""
        n, n_lists, ranks = 0, len(lists), self.index.ranks
        work.counts[:n_lists] = [count for _, count in lists]
        for segment, table in enumerate(source.tables):
            work.terms[:n_lists] = [numbers[segment] for numbers, _ in lists]
            n = topk.best_of_segment(
                work.terms, work.counts, n_lists, table.facts, table.docs, table.impacts, table.block_maxima,
                table.directory, table.hints, table.n_documents, source.priors[segment], n_query, allowed[segment],
                ranks[segment], work.lists, work.window, work.scores, work.best, n,
            )  # fmt: skip
        return n

    def _search_only(
        self, source: PostingSource, n_terms: int, n_query: int, add: float, work: SearchWorkspace
    ) -> BestDocuments:
        """The only segment: one call of compiled code does everything."""
        table, names, work_lists = source.tables[0], self.names, work.lists
        n, used = topk.search_segment(
            work.terms, work.counts, n_terms, table.facts, table.docs, table.impacts, table.block_maxima,
            table.directory, table.hints, table.n_documents, source.priors[0], n_query, ANY, _IN_ORDER, work_lists,
            work.window, work.scores, work.best, add, names.data, names.offsets, work.values, work.names,
        )  # fmt: skip
        return self._collected(work, n, used)

    @property
    def batch_source(self) -> PostingSource | None:
        """What `many.py` searches: one field of one segment, by sums of impacts alone; None for anything else."""
        if self.index.only_segment is None or self.weighting.has_prior:
            return None
        return self.main

    def lists_of(self, source: PostingSource, word: str) -> Word | None:
        """The lists of a word, prepared; None for stop words and words that no document has."""
        try:
            return self._words.values[word]
        except KeyError:
            return self._learn(source, word)

    def _learn(self, source: PostingSource, word: str) -> Word | None:
        """Prepare the lists of a word; None for stop words and words that no document has."""
        term = self.index.analyser.terms_of([word])[0]
        lists: Word | None = None if term is None else source.prepare(term)
        if lists is not None and self.weighting.has_prior:
            lists = (*lists, self.weighting.constant(source.field.statistics(term or "")))
        self._words.keep(word, lists, _WORD_BYTES + 40 * len(lists or ()))
        return lists

    def workspace(self, k: int, n_terms: int, long: bool = False) -> SearchWorkspace:
        if long:
            return SearchWorkspace(k, n_terms, np.uint64)
        try:
            work = self._spare.pop()
        except IndexError:
            return SearchWorkspace(k, max(n_terms, 16))
        return work if work.k == k and work.capacity >= n_terms else SearchWorkspace(k, max(n_terms, 16))

    def finish(self, work: SearchWorkspace, n: int, add: float) -> BestDocuments:
        """The heap as documents, scores and ids."""
        index, used = self.index, -1
        if index.only_segment is None:
            topk.sort_heap(work.scores, work.best, n)
            work.values[:n] = work.scores[:n] / topk.UNITS + add
            work.best[:n] = index.by_rank[work.best[:n]]
        else:
            names = self.names
            used = topk.collect(work.scores, work.best, n, add, names.data, names.offsets, work.values, work.names)
        return self._collected(work, n, used)

    def _collected(self, work: SearchWorkspace, n: int, used: int) -> BestDocuments:
        documents, values = work.best[:n].copy(), work.values[:n]
        if used < 0:
            ids = [self.index.id(document) for document in documents.tolist()]
        else:
            ids = str(work.name_bytes[:used], "utf-8", "surrogateescape").split("\0") if n else []
        scores = values.tolist() if self.scale == 1.0 else (values * self.scale).tolist()
        self.return_workspace(work)
        return documents, scores, ids

    def return_workspace(self, work: SearchWorkspace) -> None:
        """Keep a workspace for later searches."""
        if len(self._spare) < _SPARE and work.is_short:
            self._spare.append(work)

    def posting_source(self, name: str, weight: float) -> PostingSource:
        with self._lock:
            source = self._sources.get((name, weight))
            if source is None:
                source = self._sources[name, weight] = PostingSource(
                    self.index, self.index.field(name), self.weighting.plain, weight
                )
        return source


class PostingSource:
    """The lists of one field under a weighting, with a weight."""

    def __init__(self, index: Index, field: Field, weighting: Weighting, weight: float) -> None:
        self.index, self.field, self.weighting, self.weight = index, field, weighting, weight
        self.largest = 0  # impact of any list so far
        self._lock = threading.Lock()

    @once
    def tables(self) -> list[ImpactTable]:
        return [ImpactTable(part.docs, part.n_terms, part.n_documents) for part in self.field.postings_by_segment]

    @once
    def per_document(self) -> list[np.ndarray]:
        average = self.field.average_length
        return [
            np.asarray(self.weighting.per_document(part.lengths, part.uniques, average), np.float64)
            for part in self.field.postings_by_segment
        ]

    @once
    def largest_prior(self) -> float:
        """Added to scores at the end; what is left of the priors is at most 0. Deleted documents do not count."""
        live = (prior[~deleted] for prior, deleted in zip(self._exact_priors, self.index.deleted) if len(prior))
        largest = max((float(prior.max(initial=-np.inf)) for prior in live), default=0.0)
        return largest if math.isfinite(largest) else 0.0

    @once
    def _exact_priors(self) -> list[np.ndarray]:
        return [self.weighting.prior(part.lengths, part.uniques) for part in self.field.postings_by_segment]

    @once
    def priors(self) -> list[np.ndarray]:
        """Per segment and document, in units of an impact."""
        largest = self.largest_prior
        return [
            np.rint(np.minimum(prior - largest, 0.0) * topk.UNITS).astype(np.int64) if len(prior) else _NO_PRIOR
            for prior in self._exact_priors
        ]

    def prepare(self, term: str) -> tuple[int, ...] | None:
        """The list of a term in each segment's table; None if no document has it."""
        statistics = self.field.statistics(term)
        if statistics.df == 0:
            return None
        lists = []
        for segment, number in enumerate(self.field.numbers(term)):
            table = self.tables[segment]
            if number >= 0:
                fill = partial(self._fill, statistics, segment, self.index.deletions[segment])
                table.prepare(number, self.field.postings_by_segment[segment], fill)
                with self._lock:
                    self.largest = max(self.largest, int(table.facts[number, topk.LARGEST]))
            lists.append(table.n_terms if number < 0 else number)
        return tuple(lists)

    def phrase_lists(self, part: Part) -> Lists:
        """Documents and impacts of a phrase, per segment, made anew."""
        postings = [self.field.segment_postings(part, segment) for segment in range(len(self.index.segments))]
        statistics, result = self.field.statistics_of(postings), []
        for segment, (docs, tfs) in enumerate(postings):
            impacts = np.empty(len(docs), np.uint32)
            if len(docs):
                self._fill(statistics, segment, NO_DELETIONS, docs, tfs, impacts)
            result.append((docs, impacts))
        return result

    def _fill(self, term: Statistics, segment: int, deleted: Array, docs: Array, tfs: Array, impacts: Array) -> None:
        self.weighting.fill_impacts(term, self.weight, docs, tfs, self.per_document[segment], deleted, impacts)
