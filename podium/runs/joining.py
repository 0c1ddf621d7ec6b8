"""Several runs joined by query and document: which rows of which run are about the same document of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.query_ids import object_array, offsets_of
from podium.data.text_hashing import Ids, hash_of, same_text
from podium.data.texts import Texts
from podium.formats.trec import Run, refuse_other_than
from podium.runs.ordering import best_first

_HALF, _LOWER, _UPPER = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)


@dataclass(frozen=True, eq=False)
class JoinedRuns:
    """The rows of all runs, one run after the other, and the documents of each query over all runs.

    Query q has documents `offsets[q]:offsets[q + 1]`, numbered by first appearance; those of run i are in rows
    `segments[q, i, 0]:segments[q, i, 1]`, and `documents[row]` is the number of a row's document within the query.
    """

    names: tuple[str, ...]
    query_ids: Array  # (queries,) str (object), by first appearance
    segments: Array  # (queries, runs, 2) int64
    scores: Array  # (rows,) float64
    ids: Texts  # one per row
    run_offsets: Array  # of the queries of each run, by rows
    n_jobs: int | None

    @property
    def n_runs(self) -> int:
        return len(self.names)

    @once
    def _numbered(self) -> tuple[Array, Array, Array]:
        return _number_documents(self.segments, self.ids, self.n_jobs)

    @property
    def documents(self) -> Array:
        """(rows,) int32: the number of each row's document within its query."""
        return self._numbered[0]

    @property
    def offsets(self) -> Array:
        """(queries + 1,) int64: of the documents of each query."""
        return self._numbered[1]

    @property
    def first_rows(self) -> Array:
        """(documents,) int64: a row with the id of each document."""
        return self._numbered[2]

    @once
    def is_ranked(self) -> bool:
        """Whether the rows of each run and query are in order, without ties."""
        falls = np.ones(len(self.run_offsets) - 1, np.bool_)
        scores, offsets = readonly(self.scores), readonly(self.run_offsets)
        over_queries(lambda first, last: _check_falling(scores, offsets, first, last, falls), offsets, self.n_jobs)
        return bool(falls.all())

    @once
    def ranks(self) -> Array:
        """(rows,) int64: the rank of each row in its run and query, from 0; ties by document id, descending."""
        if self.is_ranked:
            return readonly(np.arange(len(self.scores)) - np.repeat(self.run_offsets[:-1], np.diff(self.run_offsets)))
        order, offsets = readonly(best_first(self.scores, self.run_offsets, self.ids)), readonly(self.run_offsets)
        ranks = np.empty(len(order), np.int64)
        over_queries(lambda first, last: _fill_ranks(order, offsets, first, last, ranks), offsets)
        return readonly(ranks)

    @property
    def longest(self) -> int:
        """Documents of the longest list of a run."""
        return int(np.diff(self.segments, axis=2).max(initial=0))

    @once
    def document_of_row(self) -> Array:
        """(rows,) int64: the document of each row, counted over all queries."""
        lengths = np.diff(self.segments, axis=2)[:, :, 0].T.ravel()  # run by run, as the rows are
        order = np.argsort(self.segments[:, :, 0].T.ravel(), kind="stable")
        starts = np.tile(self.offsets[:-1], self.n_runs)
        return readonly(np.repeat(starts[order], lengths[order]) + self.documents)

    def in_run(self) -> Array:
        """(documents, runs) bool: which runs retrieved a document."""
        run_of_row = np.repeat(np.arange(self.n_runs), np.diff(self.segments, axis=2)[:, :, 0].sum(axis=0))
        retrieved = np.zeros((int(self.offsets[-1]), self.n_runs), np.bool_)
        retrieved[self.document_of_row, run_of_row] = True
        return retrieved


def named_runs(runs: Sequence[Run] | Mapping[str, Run], what: str, fewest: int = 2) -> dict[str, Run]:
    """Runs with the names that messages use."""
    if isinstance(runs, Run):
        raise TypeError(f"{what} needs several runs; got one. Give a list of them, or {{name: run}}.")
    named = dict(runs) if isinstance(runs, Mapping) else {f"run {i}": run for i, run in enumerate(runs, 1)}
    for name, run in named.items():
        refuse_other_than(Run, run, f"{what}: {name}")
    if len(named) < fewest:
        raise ValueError(f"{what} needs {counted(fewest, 'run')} or more; got {len(named)}.")
    return {str(name): run for name, run in named.items()}


def join_runs(runs: Mapping[str, Run], n_jobs: int | None = None, *, warns: bool = True) -> JoinedRuns:
    """Join runs by their queries and document ids. A query that a run lacks has no documents there."""
    numbers: dict[str, int] = {}
    for run in runs.values():
        for query in run.query_ids:
            numbers.setdefault(str(query), len(numbers))
    segments, start, ends = np.zeros((len(numbers), len(runs), 2), np.int64), 0, [np.zeros(1, np.int64)]
    for i, run in enumerate(runs.values()):
        rows = [numbers[str(query)] for query in run.query_ids]
        segments[rows, i, 0], segments[rows, i, 1] = start + run.offsets[:-1], start + run.offsets[1:]
        ends.append(start + run.offsets[1:])
        start += len(run)
    if warns:
        _warn_of_missing(runs, len(numbers))
    ids = Texts.concat([run.docid_texts for run in runs.values()]) if runs else Texts.of([])
    scores = np.concatenate([np.empty(0), *(run.scores for run in runs.values())])
    return JoinedRuns(tuple(runs), object_array(list(numbers)), segments, scores, ids, np.concatenate(ends), n_jobs)


def _warn_of_missing(runs: Mapping[str, Run], n_queries: int) -> None:
    lacking = {name: n_queries - run.n_queries for name, run in runs.items() if run.n_queries < n_queries}
    if lacking:
        which = ", ".join(f"{name} lacks {number:,}" for name, number in list(lacking.items())[:3])
        more = ", ..." if len(lacking) > 3 else ""
        total = counted(n_queries, "query", "queries")
        warn(f"of the {total} of all runs {which}{more}. A run says nothing about a query that it lacks.")


def _number_documents(segments: Array, ids: Texts, n_jobs: int | None) -> tuple[Array, Array, Array]:
    """The number of each row's document in its query, offsets of the documents, and a row of each."""
    sizes = np.diff(segments, axis=2).sum(axis=(1, 2))
    upper = offsets_of(sizes)  # a query has at most as many documents as rows
    documents, first_rows = np.empty(len(ids), np.int32), np.empty(int(upper[-1]), np.int64)
    counts = np.zeros(len(sizes), np.int64)
    data, ends, parts, starts = map(readonly, (ids.data, ids.offsets, segments, upper))

    def work(first: int, last: int) -> None:
        _number_block((data, ends), parts, starts, (first, last), documents, first_rows, counts)

    over_queries(work, upper, n_jobs)
    offsets = offsets_of(counts)
    rows = np.empty(int(offsets[-1]), np.int64)
    sources = readonly(first_rows), starts, readonly(offsets)
    over_queries(lambda first, last: _compact(*sources, first, last, rows), upper, n_jobs)
    return documents, offsets, rows


@kernel
def _check_falling(scores: Array, offsets: Array, first: int, last: int, falls: Array) -> None:
    for q in range(first, last):
        wrong = np.int64(0)
        for k in range(np.uint64(offsets[q] + 1), np.uint64(offsets[q + 1])):
            wrong += not scores[k] < scores[k - np.uint64(1)]
        falls[q] = wrong == 0


@kernel
def _compact(first_rows: Array, starts: Array, offsets: Array, first: int, last: int, out: Array) -> None:
    for q in range(first, last):
        for k in range(offsets[q + 1] - offsets[q]):
            out[offsets[q] + k] = first_rows[starts[q] + k]


@kernel
def _fill_ranks(order: Array, offsets: Array, first: int, last: int, ranks: Array) -> None:
    for q in range(first, last):
        for k in range(offsets[q + 1] - offsets[q]):
            ranks[np.uint64(order[offsets[q] + k])] = k


@kernel
def _number_block(
    texts: Ids,
    segments: Array,
    starts: Array,
    queries: tuple[int, int],
    documents: Array,
    first_rows: Array,
    counts: Array,
) -> None:
    """A hash table of the ids of each query: open addressing."""
    first, last = queries
    most = 0
    for q in range(first, last):
        most = max(most, starts[q + 1] - starts[q])
    slots, used = make_slots(most), np.empty(most, np.uint64)
    for q in range(first, last):
        entered, count = (first_rows[starts[q] : starts[q + 1]], used), np.uint64(0)
        for run in range(segments.shape[1]):
            for row in range(segments[q, run, 0], segments[q, run, 1]):
                document = enter_row(slots, texts, entered, count, row)
                count += np.uint64(document == count)
                documents[row] = document
        counts[q] = count
        for k in range(count):
            slots[used[k]] = 0


@kernel
def make_slots(rows: int) -> Array:
    """An empty hash table, at most three quarters full."""
    size = 16
    while 3 * size < 4 * rows:
        size *= 2
    return np.zeros(size, np.uint64)


@inlined_bare_kernel
def enter_row(slots: Array, texts: Ids, entered: tuple[Array, Array], count: np.uint64, row: int) -> np.uint64:
    """The number of the document of a row; it is `count`, the number of those before, if the row is its first.

    A slot has the hash and the number of a document from 1, in one word, so that a look costs one access. entered: the
    first row and the slot of each document.
    """
    code, mask, one = np.uint64(hash_of(texts, row)), np.uint64(len(slots) - 1), np.uint64(1)
    slot, tag = code & mask, code << _HALF
    while slots[slot]:
        number = (slots[slot] & _LOWER) - one
        if slots[slot] & _UPPER == tag and same_text(texts, entered[0][number], texts, row):
            return np.uint64(number)
        slot = (slot + one) & mask
    slots[slot] = tag | (count + one)
    entered[0][count], entered[1][count] = row, slot
    return count


def take_texts(texts: Texts, rows: Array, n_jobs: int | None = None) -> Texts:
    """`texts.take(rows)` without an index per byte."""
    lengths = np.diff(texts.offsets)[rows]
    offsets = offsets_of(lengths)
    out = np.empty(int(offsets[-1]), np.uint8)
    sources = readonly(texts.data), readonly(texts.offsets), readonly(rows), readonly(offsets)
    parts = np.unique(np.linspace(0, len(rows), 17).astype(np.int64))
    steps = list(pairwise(parts.tolist()))
    bounds = offsets[parts]

    def work(first: int, last: int) -> None:
        for step in steps[first:last]:
            _copy(sources, *step, out)

    over_queries(work, bounds, n_jobs)
    return Texts(out, offsets)


@kernel
def _copy(sources: tuple[Array, Array, Array, Array], first: int, last: int, out: Array) -> None:
    data, ends, rows, offsets = sources
    for number in range(first, last):
        start, target = np.uint64(ends[rows[number]]), np.uint64(offsets[number])
        for k in range(np.uint64(offsets[number + 1]) - target):
            out[target + k] = data[start + k]


def as_weights_of_runs(weights: Any, names: Sequence[str]) -> Array:
    """One finite number per run, not all 0, from a sequence or {name: number}."""
    if isinstance(weights, Mapping):
        unknown = [name for name in weights if name not in names]
        if unknown or len(weights) < len(names):
            raise ValueError(f"weights must name the runs {', '.join(names)}; got {', '.join(map(str, weights))}.")
        weights = [weights[name] for name in names]
    try:
        numbers = np.array(weights, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape != (len(names),) or not np.isfinite(numbers).all():
        raise ValueError(f"weights must be {len(names)} finite numbers, one per run; got {weights!r:.80}.")
    if not numbers.any():
        raise ValueError("weights must not all be 0: every document would have the same score.")
    return numbers
