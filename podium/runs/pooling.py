"""Pools: the documents of each query that are among the best of any run, to be judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.words import counted
from podium.data.query_ids import offsets_of
from podium.data.texts import Texts
from podium.formats.trec import Qrels, Run, refuse_other_than
from podium.runs.fusing import check_count
from podium.runs.joining import join_runs, named_runs
from podium.runs.ordering import best_first

UNJUDGED = -1.0  # as TREC's judgements mark documents of a pool that nobody judged


@dataclass(frozen=True, eq=False)
class Pool:
    """Documents to be judged. Query q has `offsets[q]:offsets[q + 1]`, by document id: their order says nothing."""

    query_ids: Array  # (queries,) str (object)
    offsets: Array  # (queries + 1,) int64
    docid_texts: Texts
    n_runs: Array  # (documents,) int64: the runs that have the document among their best
    best_rank: Array  # (documents,) int64, from 1
    depth: int
    n_judged: int  # documents of the pool that are judged already, and left out

    def __len__(self) -> int:
        return len(self.best_rank)

    @property
    def qrels(self) -> Qrels:
        """The pool as judgements that are still to be made: every label is -1, which evaluation counts as 0."""
        return Qrels(self.query_ids, self.offsets, self.docid_texts, np.full(len(self), UNJUDGED))

    def to_dict(self) -> dict[str, list[str]]:
        """`{query id: [document id]}`."""
        ids, ends = list(self.docid_texts), self.offsets.tolist()
        return {str(query): ids[ends[q] : ends[q + 1]] for q, query in enumerate(self.query_ids)}

    def lines(self) -> Iterator[str]:
        """A table, tab-separated: query, document, how many runs have it, and its best rank."""
        yield "qid\tdocid\truns\tbest_rank\n"
        queries = np.repeat(self.query_ids, np.diff(self.offsets)).tolist()
        for row in zip(queries, self.docid_texts, self.n_runs.tolist(), self.best_rank.tolist()):
            yield "\t".join(map(str, row)) + "\n"

    def as_dict(self) -> dict[str, Any]:
        sizes = {"queries": len(self.query_ids), "documents": len(self), "depth": self.depth}
        return sizes | {"already_judged": self.n_judged}

    def sentence(self) -> str:
        judged = f"; {self.n_judged:,} already judged, left out" if self.n_judged else ""
        sizes = f"{counted(len(self.query_ids), 'query', 'queries')}, {counted(len(self), 'document')} to judge"
        return f"{sizes}, the best {self.depth:,} of each run{judged}"


def pool(runs: Sequence[Run] | Mapping[str, Run], depth: int = 100, *, qrels: Qrels | None = None) -> Pool:
    """The best `depth` documents per query of each run, without those that `qrels` has."""
    named = named_runs(runs, "pool", fewest=1)
    check_count("depth", depth)
    if qrels is not None:
        refuse_other_than(Qrels, qrels, "pool: qrels")
    joined = join_runs(named, warns=False)
    near = joined.ranks < depth
    rows, n = joined.document_of_row[near], int(joined.offsets[-1])
    best = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(best, rows, joined.ranks[near] + 1)
    times = np.bincount(rows, minlength=n)
    query = np.repeat(np.arange(len(joined.query_ids)), np.diff(joined.offsets))
    order = best_first(np.zeros(n), joined.offsets, joined.ids, joined.first_rows)[::-1]  # by id, rising
    order = order[np.argsort(query[order], kind="stable")]
    pooled = order[times[order] > 0]
    texts = joined.ids.take(joined.first_rows[pooled])
    known = _judged(qrels, [str(name) for name in joined.query_ids], query[pooled], texts)
    left = pooled[~known]
    offsets = offsets_of(np.bincount(query[left], minlength=len(joined.query_ids)))
    remaining = texts.take(np.flatnonzero(~known))
    return Pool(joined.query_ids, offsets, remaining, times[left], best[left], depth, int(known.sum()))


def _judged(qrels: Qrels | None, queries: list[str], query: Array, ids: Texts) -> Array:
    """Which documents have a label; one below 0 is that of a document that nobody judged."""
    if qrels is None:
        return np.zeros(len(ids), np.bool_)
    labels = qrels.to_dict()
    known = [{id for id, label in labels.get(name, {}).items() if label >= 0} for name in queries]
    return np.array([id in known[q] for q, id in zip(query.tolist(), ids)], np.bool_)
