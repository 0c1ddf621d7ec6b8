"""Ranking: from the text of a query to the best documents, under one weighting of one field or several.

A query of plain words in one field is the common case, and kept short: words are looked up in a dictionary of those
seen before, and compiled code does the rest. Phrases, conditions, several fields and bm25f make lists of their own for
the query; the same top-k search then runs over these.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from podium.data.texts import Texts
from podium.search.analysis import split_words
from podium.search.impacts import NO_DELETIONS, ImpactTable, table_of_lists
from podium.search.syntax import Clause, is_plain, parse_query
from podium.search.topk import LARGEST, ROWS, UNITS, WINDOW, best_of_segment, collect, search_segment, sort_heap
from podium.search.weightings import BM25F, LanguageModel, Statistics, Weighting, fill_impacts

if TYPE_CHECKING:
    from podium.search.fields import Field
    from podium.search.reading import Index

_MOST_WORDS = 200_000  # that a ranker remembers
_NO_PRIOR = np.empty(0, np.int64)
_ANY = np.empty(0, bool)
_IN_ORDER = np.empty(0, np.int64)
_SPARE = 8  # workspaces that are kept

Lists = list[tuple[np.ndarray, np.ndarray]]  # per segment: documents, impacts


class Workspace:
    """Arrays that one search at a time uses."""

    def __init__(self, k: int, n_terms: int, dtype: type = np.uint32) -> None:
        self.k, self.room = k, n_terms
        self.terms, self.counts = np.zeros(n_terms, np.int64), np.zeros(n_terms, np.int64)
        self.lists = np.zeros((ROWS, n_terms + 1), np.int64)
        self.window: np.ndarray = np.zeros(WINDOW, dtype)
        self.scores, self.best = np.zeros(k, np.int64), np.zeros(k, np.int64)
        self.values, self.names = np.zeros(k), np.zeros(64 * k, np.uint8)
        self.name_bytes, self.is_short = self.names.data, dtype is np.uint32


Found = tuple[np.ndarray, list[float], list[str]]  # the best documents: numbers in the index, scores, ids


class Ranker:
    """Scores the documents of an index. `fields` maps each searched field to its weight."""

    def __init__(self, index: Index, weighting: Weighting, fields: Mapping[str, float]) -> None:
        self.index, self.weighting = index, weighting
        largest = max(fields.values())
        # Impacts are integers below 2**32: weights are divided by a power of two, which scores are multiplied with.
        self.scale = 2.0 ** max(0, math.ceil(math.log2(largest)))
        self.fields = {name: weight / self.scale for name, weight in fields.items()}
        if isinstance(weighting, LanguageModel) and len(fields) > 1:
            raise ValueError(f"{weighting.variant} searches one field; got {', '.join(fields)}.")
        self._sources: dict[tuple[str, float], Source] = {}
        self._lock = threading.Lock()
        self._words: dict[str, tuple[int, ...] | None] = {}
        self._constants: dict[tuple[int, ...], float] = {}
        self._spare: list[Workspace] = []
        self.names = Texts.of([]) if index.only_segment is None else index.only_segment.ids
        self._main = None if len(fields) > 1 or isinstance(weighting, BM25F) else self._source(*_only(self.fields))

    def search(self, text: str, k: int) -> Found:
        if self._main is not None and is_plain(text):
            return self._search_words(self._main, text, k)
        return self._search_clauses(parse_query(text), k)

    def _search_words(self, source: Source, text: str, k: int) -> Found:
        """Plain words in one field."""
        counts: dict[tuple[int, ...], int] = {}
        known, n_words = self._words, 0
        for word in split_words(text):
            try:
                lists = known[word]
            except KeyError:
                lists = self._learn(source, word)
            if lists is not None:
                counts[lists] = counts.get(lists, 0) + 1
                n_words += 1
        n_query, add = 0, 0.0
        if self._constants:
            n_query = n_words
            add = sum(self._constants[lists] * count for lists, count in counts.items())
        work = self.workspace(k, len(counts), n_words * source.largest >= 2**32)
        terms, times, n = work.terms, work.counts, 0
        if self.index.only_segment is not None:
            for lists, count in counts.items():
                terms[n], times[n], n = lists[0], count, n + 1
            return self._search_only(source, n, n_query, add + n_query * source.largest_prior, work)
        for j, count in enumerate(counts.values()):
            times[j] = count
        for place, table in enumerate(source.tables):
            for j, lists in enumerate(counts):
                terms[j] = lists[place]
            n = self._search_table(table, place, len(counts), source.priors[place], n_query, _ANY, work, n)
        return self._found(work, n, add + n_query * source.largest_prior)

    def _search_only(self, source: Source, n_terms: int, n_query: int, add: float, work: Workspace) -> Found:
        """The only segment: one call of compiled code does everything."""
        table, names, work_lists = source.tables[0], self.names, work.lists
        n, used = search_segment(
            work.terms, work.counts, n_terms, table.facts, table.docs, table.impacts, table.block_maxima,
            table.directory, table.hints, table.n_documents, source.priors[0], n_query, _ANY, _IN_ORDER, work_lists,
            work.window, work.scores, work.best, add, names.data, names.offsets, work.values, work.names,
        )  # fmt: skip
        return self._collected(work, n, used)

    @property
    def batch_source(self) -> Source | None:
        """What `many.py` searches: one field of one segment, by sums of impacts alone; None for anything else."""
        if self.index.only_segment is None or isinstance(self.weighting, LanguageModel):
            return None
        return self._main

    def lists_of(self, source: Source, word: str) -> tuple[int, ...] | None:
        """The lists of a word, prepared; None for stop words and words that no document has."""
        try:
            return self._words[word]
        except KeyError:
            return self._learn(source, word)

    def _learn(self, source: Source, word: str) -> tuple[int, ...] | None:
        """Prepare the lists of a word; None for stop words and words that no document has."""
        term = self.index.analyser.terms_of([word])[0]
        lists = None if term is None else source.prepare(term)
        if lists is not None and isinstance(self.weighting, LanguageModel):
            self._constants[lists] = self.weighting.constant(source.field.statistics(term or ""))
        with self._lock:
            if len(self._words) >= _MOST_WORDS:
                self._words = {}
            self._words[word] = lists
        return lists

    def _search_table(
        self,
        table: ImpactTable,
        place: int,
        n_terms: int,
        prior: np.ndarray,
        n_query: int,
        allowed: np.ndarray,
        work: Workspace,
        n: int,
    ) -> int:
        return best_of_segment(
            work.terms, work.counts, n_terms, table.facts, table.docs, table.impacts, table.block_maxima,
            table.directory, table.hints, table.n_documents, prior, n_query, allowed, self.index.ranks[place],
            work.lists, work.window, work.scores, work.best, n,
        )  # fmt: skip

    def workspace(self, k: int, n_terms: int, long: bool = False) -> Workspace:
        if long:
            return Workspace(k, n_terms, np.uint64)
        try:
            work = self._spare.pop()
        except IndexError:
            return Workspace(k, max(n_terms, 16))
        return work if work.k == k and work.room >= n_terms else Workspace(k, max(n_terms, 16))

    def _found(self, work: Workspace, n: int, add: float) -> Found:
        """The heap as documents, scores and ids."""
        index, used = self.index, -1
        if index.only_segment is None:
            sort_heap(work.scores, work.best, n)
            work.values[:n] = work.scores[:n] / UNITS + add
            work.best[:n] = index.by_rank[work.best[:n]]
        else:
            names = self.names
            used = collect(work.scores, work.best, n, add, names.data, names.offsets, work.values, work.names)
        return self._collected(work, n, used)

    def _collected(self, work: Workspace, n: int, used: int) -> Found:
        documents, values = work.best[:n].copy(), work.values[:n]
        if used < 0:
            ids = [self.index.id(document) for document in documents.tolist()]
        else:
            ids = str(work.name_bytes[:used], "utf-8", "surrogateescape").split("\0") if n else []
        scores = values.tolist() if self.scale == 1.0 else (values * self.scale).tolist()
        self.return_workspace(work)
        return documents, scores, ids

    def return_workspace(self, work: Workspace) -> None:
        """Keep a workspace for later searches."""
        if len(self._spare) < _SPARE and work.is_short:
            self._spare.append(work)

    # Phrases, conditions, several fields, bm25f

    def _search_clauses(self, clauses: list[Clause], k: int) -> Found:
        lists, counts, n_query, add = [], [], 0, 0.0
        musts, nots = [], []
        for clause in clauses:
            for part in self._parts(clause):
                found = self._lists_of(part, clause.field)
                if clause.must_not:
                    nots.append(found)
                    continue
                if clause.must:
                    musts.append(found)
                if any(len(docs) for own in found for docs, _ in own):
                    lists += found
                    counts += [1] * len(found)
                    if clause.field is None or clause.field in self.fields:
                        n_query += 1
                        add += self._constant(part)
        if not isinstance(self.weighting, LanguageModel):
            n_query, add = 0, 0.0
        source = self._main
        bound = sum(max((int(impacts.max(initial=0)) for _, impacts in own), default=0) for own in lists)
        work = Workspace(k, max(len(lists), 1), np.uint64 if bound >= 2**32 else np.uint32)
        work.terms[: len(lists)], work.counts[: len(lists)] = np.arange(len(lists)), 1
        n = 0
        for place, segment in enumerate(self.index.segments):
            table = table_of_lists([own[place] for own in lists], segment.n_documents)
            prior = _NO_PRIOR if source is None else source.priors[place]
            allowed = _allowed(musts, nots, place, segment.n_documents)
            n = self._search_table(table, place, len(lists), prior, n_query, allowed, work, n)
        offset = 0.0 if source is None else n_query * source.largest_prior
        return self._found(work, n, add + offset)

    def _parts(self, clause: Clause) -> Iterator[list[tuple[str, int]]]:
        """Terms with positions: all of a phrase together, or each word on its own."""
        terms = self.index.analyser.terms(clause.text)
        if clause.phrase and len(terms) > 1:
            yield terms
        else:
            yield from ([term] for term in terms)

    def _lists_of(self, part: list[tuple[str, int]], name: str | None) -> list[Lists]:
        """One list per searched field, or one for all fields in bm25f; each with a part per segment."""
        if name is None and isinstance(self.weighting, BM25F):
            return [self._joint_lists(self.weighting, part)]
        fields = self.fields if name is None else {name: self.fields.get(name, 1.0 / self.scale)}
        return [self._source(field, weight).lists(part) for field, weight in fields.items()]

    def _joint_lists(self, weighting: BM25F, part: list[tuple[str, int]]) -> Lists:
        """bm25f: the fields' frequencies, relative to their lengths, are added before they saturate."""
        docs, sums = [], []
        for place, segment in enumerate(self.index.segments):
            total = np.zeros(segment.n_documents)
            for name, weight in self.fields.items():
                field = self.index.field(name)
                own, tfs = field.segment_postings(part, place)
                relative = (
                    1.0 - weighting.b + weighting.b * field.lengths_of(place)[own] / (field.average_length or 1.0)
                )
                total[own] += weight * self.scale * tfs / relative
            total[self.index.deleted[place]] = 0.0
            docs.append(np.flatnonzero(total).astype(np.uint32))
            sums.append(total[docs[-1]])
        df = sum(map(len, docs))
        if df == 0:
            return [(own, np.empty(0, np.uint32)) for own in docs]
        idf = weighting.idf(Statistics(self.index.n_documents, df, 0, 1)) / self.scale
        return [
            (own, np.maximum(1, np.rint(idf * tf / (weighting.k1 + tf) * UNITS)).astype(np.uint32))
            for own, tf in zip(docs, sums)
        ]

    def _constant(self, part: list[tuple[str, int]]) -> float:
        if not isinstance(self.weighting, LanguageModel) or self._main is None:
            return 0.0
        return self.weighting.constant(self._main.field.phrase_statistics(part))

    def _source(self, name: str, weight: float) -> Source:
        with self._lock:
            found = self._sources.get((name, weight))
            if found is None:
                weighting = self.weighting.plain if isinstance(self.weighting, BM25F) else self.weighting
                found = self._sources[name, weight] = Source(self.index, self.index.field(name), weighting, weight)
        return found


class Source:
    """The lists of one field under a weighting, with a weight."""

    def __init__(self, index: Index, field: Field, weighting: Weighting, weight: float) -> None:
        self.index, self.field, self.weighting, self.weight = index, field, weighting, weight
        self.largest = 0  # impact of any list so far

    @cached_property
    def tables(self) -> list[ImpactTable]:
        return [ImpactTable(part.docs, part.n_terms, part.n_documents) for part in self.field.postings_by_segment]

    @cached_property
    def per_document(self) -> list[np.ndarray]:
        average = self.field.average_length
        return [
            np.asarray(self.weighting.per_document(part.lengths, part.uniques, average), np.float64)
            for part in self.field.postings_by_segment
        ]

    @cached_property
    def largest_prior(self) -> float:
        """Added to scores at the end; what is left of the priors is at most 0. Deleted documents do not count."""
        live = (prior[~deleted] for prior, deleted in zip(self._exact_priors, self.index.deleted) if len(prior))
        largest = max((float(prior.max(initial=-np.inf)) for prior in live), default=0.0)
        return largest if math.isfinite(largest) else 0.0

    @cached_property
    def _exact_priors(self) -> list[np.ndarray]:
        return [self.weighting.prior(part.lengths, part.uniques) for part in self.field.postings_by_segment]

    @cached_property
    def priors(self) -> list[np.ndarray]:
        """Per segment and document, in units of an impact."""
        largest = self.largest_prior
        return [
            np.rint(np.minimum(prior - largest, 0.0) * UNITS).astype(np.int64) if len(prior) else _NO_PRIOR
            for prior in self._exact_priors
        ]

    def prepare(self, term: str) -> tuple[int, ...] | None:
        """The list of a term in each segment's table; None if no document has it."""
        found = self.field.statistics(term)
        if found.df == 0:
            return None
        numbers, lists = self.weighting.per_term(found), []
        for place, number in enumerate(self.field.numbers(term)):
            table = self.tables[place]
            if number >= 0:
                part = self.field.postings_by_segment[place]
                deleted = self.index.deletions[place]
                table.prepare(number, part, self.weighting, numbers, self.weight, self.per_document[place], deleted)
                self.largest = max(self.largest, int(table.facts[number, LARGEST]))
            lists.append(table.n_terms if number < 0 else number)
        return tuple(lists)

    def lists(self, part: list[tuple[str, int]]) -> Lists:
        """Documents and impacts of a term or phrase, per segment."""
        found = self.field.phrase_statistics(part)
        result = []
        for place in range(len(self.index.segments)):
            docs, tfs = self.field.segment_postings(part, place)
            impacts = np.empty(len(docs), np.uint32)
            if len(docs) and found.df:
                numbers, per_document = self.weighting.per_term(found), self.per_document[place]
                fill_impacts(self.weighting.kind, *numbers, self.weight, docs, tfs, per_document, NO_DELETIONS, impacts)
            result.append((docs, impacts))
        return result


def _allowed(musts: list[list[Lists]], nots: list[list[Lists]], place: int, n: int) -> np.ndarray:
    """Per document whether it meets the conditions; empty without any."""
    if not musts and not nots:
        return _ANY
    allowed = np.ones(n, bool)
    for found in musts:
        there = np.zeros(n, bool)
        for own in found:
            there[own[place][0]] = True
        allowed &= there
    for found in nots:
        for own in found:
            allowed[own[place][0]] = False
    return allowed


def _only(fields: Mapping[str, float]) -> tuple[str, float]:
    return next(iter(fields.items()))
