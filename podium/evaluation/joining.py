"""A run joined with its judgements: the code of every retrieved document, looked up by its id in a hash table.

A code is the label of a judged document, or says that there is none (`podium.metrics.lists`): UNJUDGED for a document
that the qrels lack, UNLABELLED for one with a negative label, which trec_eval takes for pooled but not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium._runtime.words import counted
from podium.data.text_hashing import Ids, find_row, hash_table
from podium.data.texts import TextRows
from podium.metrics.lists import UNJUDGED, UNLABELLED

if TYPE_CHECKING:
    from podium.formats.trec import Qrels, Run


@dataclass(frozen=True, eq=False)
class Joined:
    """The queries of a run that are judged, in the order of the qrels, and what is missing on either side."""

    queries: Array
    scores: Array
    codes: Array
    offsets: Array
    docids: TextRows
    pool: tuple[Array, Array]  # labels of the judged documents of each query, and their offsets
    absent: list[str]  # judged queries that the run lacks
    absent_pool: tuple[Array, Array]
    notes: list[str]


def join(qrels: Qrels, run: Run, missing: str) -> Joined:
    """Look up the code of every retrieved document."""
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
    rows, offsets = _rows_of(run.offsets, numbers[:, 1])
    gone = np.array([j for j, query in enumerate(judged) if query not in ranked], dtype=np.int64)
    return Joined(
        queries=np.array([judged[j] for j, _ in common], dtype=object),
        scores=run.scores[rows],
        codes=_codes(qrels, run, numbers, offsets),
        offsets=offsets,
        docids=TextRows(run.docid_texts, rows),
        pool=_pool(qrels, numbers[:, 0]),
        absent=absent,
        absent_pool=_pool(qrels, gone),
        notes=list(_notes(absent, unjudged, len(judged), missing)),
    )


def _rows_of(offsets: Array, queries: Array) -> tuple[Array, Array]:
    """The rows of these queries, one query after the other, and their new offsets."""
    if np.array_equal(queries, np.arange(len(offsets) - 1)):
        return np.arange(offsets[-1]), offsets
    lengths = np.diff(offsets)[queries]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.repeat(offsets[queries] - ends[:-1], lengths) + np.arange(ends[-1]), ends


def _pool(qrels: Qrels, queries: Array) -> tuple[Array, Array]:
    """The labels of the judged documents of these queries; those with a negative label are not judged."""
    rows, ends = _rows_of(qrels.offsets, queries)
    labels = qrels.labels[rows]
    judged = labels >= 0
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(judged)])
    return labels[judged], counts[ends]


def _codes(qrels: Qrels, run: Run, numbers: Array, offsets: Array) -> Array:
    out = np.empty(int(offsets[-1]))
    judged = readonly(qrels.docid_texts.data), readonly(qrels.docid_texts.offsets)
    retrieved = readonly(run.docid_texts.data), readonly(run.docid_texts.offsets)
    ranges = readonly(
        np.column_stack(
            [qrels.offsets[numbers[:, 0]], qrels.offsets[numbers[:, 0] + 1], run.offsets[numbers[:, 1]], offsets[:-1]]
        )
    )
    offsets, labels = readonly(offsets), readonly(qrels.labels)
    over_queries(lambda first, last: _look_up(judged, labels, retrieved, ranges, offsets, first, last, out), offsets)
    return out


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
    judged: Ids, labels: Array, retrieved: Ids, ranges: Array, offsets: Array, first: int, last: int, out: Array
) -> None:
    """out[k]: the code of retrieved document k of the joined queries first..last.

    ranges: (queries, 4): the first judged document and the one behind the last, the first of the run, its place in out.
    """
    for q in range(first, last):
        start, end = ranges[q, 0], ranges[q, 1]
        table = hash_table(judged, start, end)
        for k in range(offsets[q + 1] - offsets[q]):
            row = find_row(table, judged, retrieved, ranges[q, 2] + k)
            code = UNJUDGED
            if row >= 0:
                code = labels[row] if labels[row] >= 0 else UNLABELLED
            out[ranges[q, 3] + k] = code
