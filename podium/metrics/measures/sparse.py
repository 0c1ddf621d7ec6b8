"""The ranked lists of a run by the places of the documents that the qrels have.

A run has a thousand documents per query, and the qrels have a few of them. Where these are is all that most measures
need to know, so that they cost little however long the lists are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium.data.query_ids import rows_of
from podium.metrics.lists import Places, RankedLists, order_by_name

_RISES, _TIES = 1, 2


class SparseLists(RankedLists):
    """Ranked lists that have their places; `dense` makes the same lists with columns, if somebody reads one."""

    is_sparse: ClassVar[bool] = True

    def __init__(
        self, places: Places, offsets: Array, judged: tuple[Array, Array], dense: Callable[[], RankedLists]
    ) -> None:
        labels, ends = judged
        vars(self).update(places=places, offsets=offsets, judged=labels, judged_offsets=ends, make_dense=dense)

    make_dense: Callable[[], RankedLists]

    @once
    def dense(self) -> RankedLists:
        return self.make_dense()

    @once
    def labels(self) -> Array:
        return self.dense.labels

    @once
    def codes(self) -> Array | None:
        return self.dense.codes

    @once
    def tied(self) -> Array | None:
        return self.dense.tied

    @once
    def largest_label(self) -> float:
        return 0.0 if self.judged is None else float(self.judged.max(initial=0.0))


def rank_places(
    places: Places, scores: Array, offsets: Array, single: bool, names: Callable[[Array], Any] | None
) -> Places:
    """Documents by their places in the input as documents by their ranks.

    Equal scores rank by falling name, if there are `names`, one per document of some queries, else as in the input.
    """
    flags = np.empty(len(offsets) - 1, np.uint8)
    scores, offsets = readonly(np.ascontiguousarray(scores, np.float64)), readonly(offsets)
    over_queries(lambda first, last: _flag_queries(scores, offsets, single, first, last, flags), offsets)
    queries = np.flatnonzero(flags & (_RISES | (0 if names is None else _TIES)))
    if not len(queries):  # the file of a run is in order, and then sorting would be most of the work
        return places
    rows, ends = rows_of(offsets, queries)
    order = order_by_name(scores[rows], ends, single, None if names is None else names(queries))
    rank_of_row = np.empty(len(rows), np.int32)
    rank_of_row[order] = np.arange(len(rows)) - np.repeat(ends[:-1], np.diff(ends))
    here, few = rows_of(places.ends, queries)
    ranks = rank_of_row[np.repeat(ends[:-1], np.diff(few)) + places.ranks[here]]
    again = np.lexsort((ranks, np.repeat(queries, np.diff(few))))
    all_ranks, codes = places.ranks.copy(), places.codes.copy()
    all_ranks[here], codes[here] = ranks[again], places.codes[here][again]
    return Places(readonly(all_ranks), readonly(codes), places.ends)


@kernel
def _flag_queries(scores: Array, offsets: Array, single: bool, first: int, last: int, flags: Array) -> None:
    """flags[q]: whether a score is above the one before it, and whether two neighbours are equal."""
    for q in range(first, last):
        rises, ties = np.int64(0), np.int64(0)
        if single:
            for k in range(np.uint64(offsets[q] + 1), np.uint64(offsets[q + 1])):
                above, here = np.float32(scores[k - np.uint64(1)]), np.float32(scores[k])
                rises += here > above
                ties += here == above
        else:
            for k in range(np.uint64(offsets[q] + 1), np.uint64(offsets[q + 1])):
                above_it, it = scores[k - np.uint64(1)], scores[k]
                rises += it > above_it
                ties += it == above_it
        flags[q] = (_RISES if rises > 0 else 0) | (_TIES if ties > 0 else 0)
