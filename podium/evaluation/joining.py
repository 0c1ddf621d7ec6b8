"""A run joined with its judgements: which of the retrieved documents the qrels have, by their ids in a hash table.

A code is the label of a judged document, or says that there is none (`podium.metrics.lists`): UNJUDGED for a document
that the qrels lack, UNLABELLED for one with a negative label, which trec_eval takes for pooled but not judged. Few
documents of a run are judged; columns with one entry per retrieved document are made when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium._runtime.words import counted
from podium.data.query_ids import offsets_of, rows_of
from podium.data.text_hashing import Ids, empty_table, fill_table, find_row, may_have
from podium.data.texts import TextRows
from podium.metrics.lists import UNLABELLED, Places

if TYPE_CHECKING:
    from podium.formats.trec import Qrels, Run


@dataclass(frozen=True, eq=False)
class Joined:
    """The queries of a run that are judged, in the order of the qrels, and what is missing on either side."""

    run: Run
    queries: Array
    numbers: Array  # of these queries in the run
    offsets: Array  # of their retrieved documents, one query after the other
    places: Places  # the retrieved documents that the qrels have, by their places in the run
    pool: tuple[Array, Array]  # labels of the judged documents of each query, and their offsets
    absent: list[str]  # judged queries that the run lacks
    absent_pool: tuple[Array, Array]
    notes: list[str]

    @once
    def rows(self) -> Array:
        """The row of the run of each retrieved document."""
        return rows_of(self.run.offsets, self.numbers)[0]

    @once
    def scores(self) -> Array:
        if _is_all(self.numbers, self.run.n_queries):
            return self.run.scores
        ends = self.run.offsets
        return np.concatenate([self.run.scores[ends[q] : ends[q + 1]] for q in self.numbers.tolist()])

    @once
    def codes(self) -> Array:
        return self.places.spread(self.offsets)

    @once
    def docids(self) -> TextRows:
        return TextRows(self.run.docid_texts, self.rows)

    def names(self, queries: Array) -> TextRows:
        """The documents of some of the queries."""
        return TextRows(self.run.docid_texts, rows_of(self.run.offsets, self.numbers[queries])[0])


def join(qrels: Qrels, run: Run, missing: str) -> Joined:
    """Look up the documents of the queries of both."""
    ranked = {str(query): q for q, query in enumerate(run.query_ids)}
    judged = [str(query) for query in qrels.query_ids]
    common = [(j, ranked[query]) for j, query in enumerate(judged) if query in ranked]
    names = set(judged)
    absent = [query for query in judged if query not in ranked]
    unjudged = [query for query in ranked if query not in names]
    if not common:
        raise ValueError(
            f"0 of {len(ranked)} run queries are in the qrels (run: {_some(ranked)}; qrels: {_some(judged)}). "
            "Do both files use the same query ids?"
        )
    numbers = np.array(common, dtype=np.int64)
    gone = np.array([j for j, query in enumerate(judged) if query not in ranked], dtype=np.int64)
    return Joined(
        run,
        queries=np.array([judged[j] for j, _ in common], dtype=object),
        numbers=numbers[:, 1],
        offsets=offsets_of(np.diff(run.offsets)[numbers[:, 1]]),
        places=_find(qrels, run, numbers),
        pool=_pool(qrels, numbers[:, 0]),
        absent=absent,
        absent_pool=_pool(qrels, gone),
        notes=list(_notes(absent, unjudged, len(judged), missing)),
    )


def _is_all(queries: Array, n: int) -> bool:
    return len(queries) == n and bool((queries == np.arange(n)).all())


def _pool(qrels: Qrels, queries: Array) -> tuple[Array, Array]:
    """The labels of the judged documents of these queries; those with a negative label are not judged."""
    labels, ends = qrels.labels, qrels.offsets
    if not _is_all(queries, qrels.n_queries):
        rows, ends = rows_of(ends, queries)
        labels = labels[rows]
    judged = labels >= 0
    if judged.all():
        return labels, ends
    return labels[judged], offsets_of(judged)[ends]


def _find(qrels: Qrels, run: Run, numbers: Array) -> Places:
    """The retrieved documents of these pairs of queries that the qrels have, in the order of the run."""
    judged = readonly(qrels.docid_texts.data), readonly(qrels.docid_texts.offsets)
    retrieved = readonly(run.docid_texts.data), readonly(run.docid_texts.offsets)
    bounds = qrels.offsets[numbers[:, 0]], qrels.offsets[numbers[:, 0] + 1]
    ranges = readonly(np.column_stack([*bounds, run.offsets[numbers[:, 1]], run.offsets[numbers[:, 1] + 1]]))
    room, labels = readonly(offsets_of(bounds[1] - bounds[0])), readonly(qrels.labels)
    places, codes = np.empty(int(room[-1]), np.int32), np.empty(int(room[-1]))
    counts = np.empty(len(numbers), np.int64)

    def work(first: int, last: int) -> None:
        _look_up(judged, labels, retrieved, ranges, room, (first, last), places, codes, counts)

    over_queries(work, offsets_of(ranges[:, 3] - ranges[:, 2]))
    ends = offsets_of(counts)
    if ends[-1] < room[-1]:
        used = np.repeat(room[:-1] - ends[:-1], counts) + np.arange(ends[-1])
        places, codes = places[used], codes[used]
    return Places(readonly(places), readonly(codes), readonly(ends))


def _notes(absent: list[str], unjudged: list[str], n_judged: int, missing: str) -> Iterator[str]:
    if absent:
        what = "score 0" if missing == "zero" else 'are left out (missing="zero" counts them as 0, as trec_eval -c)'
        yield f"{len(absent)} of {n_judged} judged queries are not in the run ({_some(absent)}); they {what}."
    if unjudged:
        queries = counted(len(unjudged), "query", "queries")
        yield f"{queries} of the run without judgements ({_some(unjudged)}) left out."


def _some(names: Any) -> str:
    names = sorted(names)
    return ", ".join(repr(name) for name in names[:3]) + (", ..." if len(names) > 3 else "")


@kernel
def _look_up(
    judged: Ids,
    labels: Array,
    retrieved: Ids,
    ranges: Array,
    room: Array,
    queries: tuple[int, int],
    places: Array,
    codes: Array,
    counts: Array,
) -> None:
    """The retrieved documents that are judged: their places in their query and their codes, from room[q] on.

    ranges: (queries, 4): the first judged document and the one behind the last, the same of the retrieved ones.
    """
    first, last = queries
    most, longest = 0, 0
    for q in range(first, last):
        most, longest = max(most, ranges[q, 1] - ranges[q, 0]), max(longest, ranges[q, 3] - ranges[q, 2])
    table, slots, candidates = empty_table(most), np.empty(most, np.int64), np.empty(longest + 1, np.int64)
    for q in range(first, last):
        start, end, count, n = ranges[q, 0], ranges[q, 1], room[q], np.uint64(0)
        fill_table(table, judged, start, end, slots)
        for k in range(np.uint64(ranges[q, 2]), np.uint64(ranges[q, 3])):
            candidates[n] = k
            n += may_have(table, retrieved, k)
        for k in candidates[:n]:
            row = find_row(table, judged, start, retrieved, k)
            if row >= 0 and count < room[q + 1]:
                places[count] = k - ranges[q, 2]
                codes[count] = labels[row] if labels[row] >= 0 else UNLABELLED
                count += 1
        counts[q] = count - room[q]
        for k in range(end - start):
            table[slots[k]] = 0
