"""Reranking: the ranked lists of a query along a line, for metrics that only their own `values` can tell.

Each cluster of crossings that moves different documents gives two lists, at it and behind it. They are written in
batches of bounded size and evaluated many at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.metrics.base import Metric
from podium.metrics.crossings import (
    Crossings,
    Workspace,
    count_crossings,
    end_of_cluster,
    fill_crossings,
    make_workspace,
    move_cluster,
    settle_cluster,
    sorted_documents,
    start_order,
    unpack_pair,
)
from podium.metrics.lists import RankedLists
from podium.metrics.sorting import make_sort_workspace, sort_places

_BATCH = 1 << 20  # documents in a batch of lists

Lists = tuple[Array, Array, Array]  # alpha of each cluster; documents by rank, and ties, at it and behind it


@dataclass(frozen=True, eq=False)
class Line:
    """One query: scores at both ends, labels and weights, documents in the order that ties have."""

    s: Array
    s2: Array
    labels: Array
    weights: Array | None

    def values(self, metric: Metric, documents: Array, tied: Array) -> Array:
        """One value per row of documents by rank."""
        n_lists, n = documents.shape
        flat = documents.reshape(-1)
        offsets = np.arange(0, n_lists * n + 1, n)
        weights = None if self.weights is None else self.weights[flat]
        average = metric.policy.ties == "average"
        lists = RankedLists(self.labels[flat], offsets, tied.reshape(-1), weights, average_ties=average)
        return np.asarray(metric.values(lists), dtype=np.float64)


def values_along(line: Line, metric: Metric, high: float) -> Iterator[tuple[Array, Array, Array]]:
    """Batches of (alpha, value at it, value behind it), alpha rising from 0; at `high` = 1 the last one is 1."""
    n = len(line.s)
    work, sort_workspace, rows = make_workspace(n), make_sort_workspace(n), max(2, _BATCH // n)
    start_order(line.s, line.s2, sort_workspace, work)
    by_rank = line.s[work[0]], line.s2[work[0]]
    most = count_crossings(*by_rank) + 1
    falling, pairs = np.empty(most), np.empty(most, np.int64)
    count = fill_crossings(*by_rank, work[0], high, falling, pairs)
    places = sort_places(falling[:count], make_sort_workspace(count), False).astype(np.int64)

    def at_end(s: Array, alpha: float) -> tuple[Array, Array, Array]:
        documents, tied = np.empty((2, n), np.int64), np.empty((2, n), np.bool_)
        documents[0] = np.argsort(-s, kind="stable")
        documents[1] = work[0]
        tied[0] = np.append(False, s[documents[0, 1:]] == s[documents[0, :-1]])
        _tie(work[0], line.s, line.s2, tied[1])
        values = line.values(metric, documents, tied)
        return np.array([alpha]), values[:1], values[1:]

    yield at_end(line.s, 0.0)
    weights, every = np.empty(0) if line.weights is None else line.weights, metric.policy.ties == "average"
    arrays, crossings = (line.s, line.s2, line.labels, weights), (falling, pairs, places)
    alpha, documents, tied = np.empty(rows // 2), np.empty((rows, n), np.int64), np.empty((rows, n), np.bool_)
    ends = np.array([0, 0])  # the next crossing, clusters written
    while ends[0] < count and -falling[places[ends[0]]] <= high:
        _write_lists(arrays, every, crossings, high, work, (alpha, documents, tied), ends)
        values = line.values(metric, documents[: 2 * ends[1]], tied[: 2 * ends[1]])
        yield alpha[: ends[1]].copy(), values[0::2], values[1::2]
    if high >= 1.0:
        yield at_end(line.s2, 1.0)


@kernel
def _tie(order: Array, s: Array, s2: Array, tied: Array) -> None:
    """Which documents tie with the one above them along the whole line."""
    tied[0] = False
    for r in range(1, len(order)):
        upper, lower = order[r - 1], order[r]
        tied[r] = s[upper] == s[lower] and s2[upper] == s2[lower]


@kernel
def _write_lists(
    line: tuple[Array, ...], every: bool, crossings: Crossings, high: float, work: Workspace, lists: Lists, ends: Array
) -> None:
    """Lists at and behind clusters from crossing ends[0] on, until there is no more room; ends[1] of them.

    Unless `every`, clusters that move only documents with equal labels and weights are passed without a list.
    """
    (s, s2, labels, weights), (falling, pairs, places), (alpha, documents, tied) = line, crossings, lists
    order, rank, after, shift, n = work[0], work[1], work[2], work[3], len(s)
    k, written = ends[0], 0
    while k < len(places) and -falling[places[k]] <= high and written < len(alpha):
        stop, matters = end_of_cluster(falling, places, k), every
        for e in range(k, stop):
            upper, lower = unpack_pair(pairs[places[e]])
            matters |= labels[upper] != labels[lower] or (len(weights) > 0 and weights[upper] != weights[lower])
        low, high_rank = move_cluster(pairs, places[k:stop], order, rank, after, shift)
        if matters:
            at, at_tied, start, reach = documents[2 * written], tied[2 * written], low, -1
            for r in range(n):
                at[r] = order[r]
            _tie(order, s, s2, at_tied)
            for r in range(low, high_rank + 1):
                reach = max(reach, r + shift[order[r]])
                if reach == r:
                    block = sorted_documents(order[start : r + 1], n)
                    for m in range(len(block)):
                        at[start + m] = block[m]
                        if m > 0:
                            at_tied[start + m] = True
                    start = r + 1
        settle_cluster(low, high_rank, order, rank, after, shift)
        if matters:
            behind = documents[2 * written + 1]
            for r in range(n):
                behind[r] = order[r]
            _tie(order, s, s2, tied[2 * written + 1])
            alpha[written] = -falling[places[k]]
            written += 1
        k = stop
    ends[0], ends[1] = k, written
