"""The order of a run: falling score, and of equal scores falling document id, compared as bytes as strcmp does.

That is the order of `Run.ranked` and of files that Podium writes, here for all queries at once.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.data.texts import Texts
from podium.metrics.lists import order_by_score


def best_first(
    scores: Array, offsets: Array, ids: Texts, rows: Array | None = None, n_jobs: int | None = None
) -> Array:
    """The rows of each query, best first; row i has the id `ids[rows[i]]`, or `ids[i]`."""
    order = order_by_score(scores, offsets, n_jobs)
    places = np.arange(len(scores)) if rows is None else rows
    texts = readonly(ids.data), readonly(ids.offsets), readonly(places)
    ends, scores = readonly(offsets), readonly(np.ascontiguousarray(scores, np.float64))
    over_queries(lambda first, last: _order_ties(order, scores, ends, texts, first, last), offsets, n_jobs)
    return order


@kernel
def _order_ties(
    order: Array, scores: Array, offsets: Array, texts: tuple[Array, Array, Array], first: int, last: int
) -> None:
    """Merge sort by id, falling, within each run of equal scores of queries first..last."""
    data, ends, places = texts
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        while start < stop:
            end = start + 1
            while end < stop and scores[order[end]] == scores[order[start]]:
                end += 1
            if end - start > 1:
                _sort_by_id(order[start:end], data, ends, places)
            start = end


@kernel
def _sort_by_id(order: Array, data: Array, ends: Array, places: Array) -> None:
    source, target, n, width = order.copy(), order.copy(), len(order), 1
    while width < n:
        for start in range(0, n, 2 * width):
            left, middle = start, min(start + width, n)
            right, stop = middle, min(start + 2 * width, n)
            for k in range(start, stop):
                if left < middle and (
                    right >= stop or not id_below(data, ends, places[source[left]], places[source[right]])
                ):
                    target[k] = source[left]
                    left += 1
                else:
                    target[k] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    order[:] = source


@kernel
def id_below(data: Array, ends: Array, one: int, other: int) -> bool:
    """Whether a text comes before another, byte by byte; a beginning comes before what it begins."""
    start, start_of_other = ends[one], ends[other]
    length, length_of_other = ends[one + 1] - start, ends[other + 1] - start_of_other
    for k in range(min(length, length_of_other)):
        if data[start + k] != data[start_of_other + k]:
            return bool(data[start + k] < data[start_of_other + k])
    return bool(length < length_of_other)
