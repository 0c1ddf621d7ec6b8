"""Judged rows, and the ranked lists that a set of scores makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array
from podium.metrics.base import Metric
from podium.metrics.lists import RankedLists, heads, rank_lists
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
            lists = self._ranked(ties, pooled)
            self._made[ties, pooled] = lists if self.depth is None or pooled else _cut(lists, self.depth)
        return self._made[ties, pooled]

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
