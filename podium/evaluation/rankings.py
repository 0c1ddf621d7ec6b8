"""Judged rows, and the ranked lists that a set of scores makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.once import once
from podium.data.query_ids import offsets_of
from podium.data.texts import TextRows
from podium.evaluation.joining import Joined
from podium.metrics.base import Metric
from podium.metrics.lists import RankedLists, heads, rank_lists
from podium.metrics.measures.sparse import SparseLists, rank_places
from podium.metrics.policies import Ties

if TYPE_CHECKING:
    from podium.formats.subtopics import SubtopicQrels


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Labels grouped by query, and where each row came from."""

    labels: Array
    offsets: Array
    queries: Array
    order: Array | None = None  # rows of the input in grouped order; None when it was grouped already
    docids: Any = None
    sample_weight: Array | None = None
    query_weight: Array | None = None
    judged: tuple[Array, Array] | None = None
    whole_labels: bool = False  # known to be integers
    subtopics: SubtopicQrels | None = None  # then labels are numbers of documents in these qrels

    @property
    def has_docids(self) -> bool:
        return self.docids is not None

    def grouped_by(self, order: Array) -> JudgedRows:
        """Rows in the order of the input, grouped."""
        return replace(
            self,
            labels=self.labels[order],
            order=order,
            docids=None if self.docids is None else np.asarray(self.docids, dtype=object)[order],
            sample_weight=None if self.sample_weight is None else self.sample_weight[order],
        )

    def reordered(self, values: Array) -> Array:
        return values if self.order is None else values[self.order]


class RowsOfRun(JudgedRows):
    """The retrieved documents of a run, as it is joined with its qrels; what has an entry per row is made when read."""

    def __init__(self, joined: Joined, subtopics: SubtopicQrels | None = None) -> None:
        columns = {"offsets": joined.offsets, "queries": joined.queries, "judged": joined.pool}
        vars(self).update(columns, joined=joined, subtopics=subtopics)

    joined: Joined

    @once
    def labels(self) -> Array:
        return self.joined.codes

    @once
    def docids(self) -> TextRows:
        return self.joined.docids

    @property
    def has_docids(self) -> bool:
        return True


class Rankings:
    """The ranked lists of one set of scores, made once for each rule about ties."""

    def __init__(
        self, scores: Array, judged: JudgedRows, single: bool, n_jobs: int | None, depth: int | None = None
    ) -> None:
        self.scores, self.judged, self.single, self.n_jobs, self.depth = scores, judged, single, n_jobs, depth
        self._made: dict[tuple[str, bool], RankedLists] = {}

    def values(self, metric: Metric, ties: Ties) -> Array:
        pooled = metric.pools_queries
        values = metric.values(self.lists(ties, pooled))
        return np.repeat(values, len(self.judged.queries)) if pooled else values

    def lists(self, ties: Ties, pooled: bool = False) -> RankedLists:
        if (ties, pooled) not in self._made:
            self._made[ties, pooled] = self._sparse(ties, pooled) or self._dense(ties, pooled)
        return self._made[ties, pooled]

    def _sparse(self, ties: Ties, pooled: bool) -> RankedLists | None:
        """Lists of a run by the places of the documents that the qrels have, where these say enough."""
        by_label = ties not in ("docid", "input") or self.judged.subtopics is not None
        if pooled or by_label or not isinstance(self.judged, RowsOfRun):
            return None
        joined, lengths = self.judged.joined, np.diff(self.judged.joined.offsets)
        names = joined.names if ties == "docid" else None
        places = rank_places(joined.places, self.scores, joined.offsets, self.single, names).down_to(self.depth)
        offsets = joined.offsets if self.depth is None else offsets_of(np.minimum(lengths, self.depth))
        return SparseLists(places, offsets, joined.pool, lambda: self._dense(ties, False))

    def _dense(self, ties: Ties, pooled: bool) -> RankedLists:
        lists = self._ranked(ties, pooled)
        return lists if self.depth is None or pooled else _cut(lists, self.depth)

    def _ranked(self, ties: Ties, pooled: bool) -> RankedLists:
        judged = self.judged
        lists = rank_lists(
            self.scores,
            np.maximum(judged.labels, 0.0) if pooled else judged.labels,
            np.array([0, len(judged.labels)]) if pooled else judged.offsets,
            ties=ties,
            docids=judged.docids,
            weights=judged.sample_weight,
            judged=None if pooled else judged.judged,
            single=self.single,
            n_jobs=self.n_jobs,
        )
        return lists if judged.subtopics is None else replace(lists, subtopics=judged.subtopics)


def _cut(lists: RankedLists, depth: int) -> RankedLists:
    """The same lists down to a rank, as if nothing more had been retrieved."""
    columns: dict[str, Array | None] = {name: getattr(lists, name) for name in ("labels", "tied", "codes")}
    cut: dict[str, Any] = {
        name: heads(values, lists.offsets, depth)[0] for name, values in columns.items() if values is not None
    }
    return replace(lists, offsets=heads(lists.labels, lists.offsets, depth)[1], **cut)
