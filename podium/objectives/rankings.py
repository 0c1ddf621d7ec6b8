"""Rankings of the documents of a query, worst first, as the pair kernels take them.

A ranking is an array of places: unsigned numbers counted from the query's first row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.sorting import SortWorkspace, make_sort_workspace, sort_places
from podium.objectives.base import BoundLabels

SHORT_TOP = 32  # up to so many places, picking them out beats sorting the list


class LabelOrder(NamedTuple):
    """The documents of each query by label. Labels do not change, so this is found once, when an objective is bound."""

    places: Array  # (n,) uint32, worst first
    worse: Array  # (n,) int64: how many documents of the query have a smaller label


def order_by_label(data: BoundLabels, n_jobs: int | None) -> LabelOrder:
    """Sort the documents of each query; the order of equal labels is arbitrary."""
    labels, offsets, all_of_them = data.labels, data.offsets, max(data.longest, 1)
    places, worse = rows_of(offsets), np.empty(len(labels), dtype=np.int64)

    def work(first: int, last: int) -> None:
        queries = readonly(np.arange(first, last))
        place_queries(labels, all_of_them, offsets, queries, places)
        _count_worse(labels, places, offsets, queries, worse)

    over_queries(work, offsets, n_jobs)
    return LabelOrder(readonly(places), readonly(worse))


def rows_of(offsets: Array) -> Array:
    """The rows of each query, counted from 0: an initial ranking."""
    return np.asarray(np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets)), dtype=np.uint32)


def order_of(scores: Array) -> Array:
    """The places of one query's scores, worst first."""
    places = np.arange(len(scores), dtype=np.uint32)
    one, ends = readonly(np.zeros(1, np.int64)), readonly(np.array([0, len(scores)]))
    place_queries(readonly(scores), max(len(scores), 1), ends, one, places)
    return readonly(places)


@kernel
def _count_worse(labels: Array, places: Array, offsets: Array, queries: Array, worse: Array) -> None:
    """The start of each run of equal labels."""
    for q in range(len(queries)):
        start, stop = offsets[queries[q]], offsets[queries[q] + 1]
        query_labels, order = labels[start:stop], places[start:stop]
        for k in range(stop - start):
            same = k > 0 and query_labels[order[k]] == query_labels[order[k - 1]]
            worse[start + k] = worse[start + k - 1] if same else k


def longest_of(offsets: Array, queries: Array) -> int:
    """The length of the longest list."""
    return int((offsets[queries + 1] - offsets[queries]).max(initial=0))


def place_queries(scores: Array, cutoff: int, offsets: Array, queries: Array, places: Array) -> None:
    """`place_worst_first` for the rows of these queries; places (n,) uint32, which holds some order of each query.

    Two kernels, so that a training that only picks does not wait for the sorting to be compiled.
    """
    if cutoff <= SHORT_TOP:
        _pick_queries(scores, cutoff, offsets, queries, np.empty(cutoff), np.empty(cutoff, np.uint32), places)
    else:
        _sort_queries(scores, cutoff, offsets, queries, make_sort_workspace(longest_of(offsets, queries)), places)


@kernel
def _pick_queries(
    scores: Array, cutoff: int, offsets: Array, queries: Array, best: Array, rows: Array, places: Array
) -> None:
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        if start < stop:
            _pick_top(scores[start:stop], min(cutoff, stop - start), best, rows, places[start:stop])


@kernel
def _sort_queries(
    scores: Array, cutoff: int, offsets: Array, queries: Array, workspace: SortWorkspace, places: Array
) -> None:
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        if start < stop:
            place_worst_first(scores[start:stop], min(cutoff, stop - start), workspace, places[start:stop])


@kernel
def place_worst_first(scores: Array, top: int, workspace: SortWorkspace, places: Array) -> None:
    """Places of one query by rising score, later rows first among equals: sorted at least for the best `top` of them.

    No metric depends on the order beyond its cutoff, and picking ten of a hundred costs half of sorting them.
    """
    n = len(scores)
    if top <= SHORT_TOP and top < n:
        _pick_top(scores, top, workspace[0].view(np.float64), workspace[4], places)
        return
    best_first = sort_places(scores, workspace, False)
    for k in range(n):
        places[k] = best_first[n - 1 - k]


@kernel
def _pick_top(scores: Array, top: int, best: Array, rows: Array, places: Array) -> None:
    """The best `top` rows in order at the end of `places`, the others before them as they come.

    best, rows: room for `top` scores, falling, and whose they are.

    `places` holds some order already. It does not change the result, but if it is the one of the last step of a
    training, the best rows come first, almost sorted, and all others need one comparison.
    """
    n = len(scores)
    for k in range(n):
        row = places[n - 1 - k]
        score = scores[row]
        if k >= top and (score < best[top - 1] or (score == best[top - 1] and row > rows[top - 1])):
            continue
        hole = min(k, top - 1)
        while hole > 0 and (best[hole - 1] < score or (best[hole - 1] == score and rows[hole - 1] > row)):
            best[hole], rows[hole] = best[hole - 1], rows[hole - 1]
            hole -= 1
        best[hole], rows[hole] = score, row
    least, last, others = best[top - 1], rows[top - 1], np.uint32(0)
    for k in range(n):
        places[others] = k  # written over by the next one, if it is among the best
        others += np.uint32((scores[k] < least) | ((scores[k] == least) & (k > last)))
    for k in range(top):
        places[n - 1 - k] = rows[k]
