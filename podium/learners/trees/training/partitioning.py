"""Partitioning: the rows of a leaf, those that go left before those that go right, both in their former order.

Each worker partitions a chunk of the rows into a buffer; after a barrier, when all counts are known, each copies its
chunk to its final place.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel


@kernel
def chunk_of(n: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's range of n rows."""
    return worker * n // workers, (worker + 1) * n // workers


@kernel
def partition_rows(rows: Array, column: Array, sides: Array, partitioned: Array) -> np.int64:
    """Rows that go left from the front of `partitioned`, the others from its end backwards; returns how many go left.

    column: the slot of every row; sides: 1 for each slot that goes right.

    No branch: half of them would be mispredicted. The last row is written twice, where both ends meet.
    """
    n_left, end, one = np.uint32(0), np.uint32(len(rows)), np.uint32(1)
    for k in range(len(rows)):
        row = rows[k]
        goes_right = np.uint32(sides[column[row]])
        partitioned[n_left] = row
        partitioned[end - one] = row
        n_left += one - goes_right
        end -= goes_right
    return np.int64(n_left)


@kernel
def merge_partitions(partitioned: Array, lefts: Array, worker: int, workers: int, rows: Array) -> int:
    """Copy a worker's chunk of `partitioned` to its place in `rows`; returns how many rows go left in total.

    lefts[worker, 0]: how many rows of each worker's chunk go left.
    """
    low, high = chunk_of(len(rows), worker, workers)
    n_own_left = lefts[worker, 0]
    before, n_left = 0, 0
    for other in range(workers):
        before += lefts[other, 0] if other < worker else 0
        n_left += lefts[other, 0]
    for k in range(n_own_left):
        rows[before + k] = partitioned[low + k]
    to = n_left + low - before  # behind the right rows of earlier chunks
    for k in range(high - low - n_own_left):
        rows[to + k] = partitioned[high - 1 - k]
    return n_left


@kernel
def route_rows(columns: Array, first: int, last: int, tree: tuple[Array, ...], scores: Array) -> None:
    """scores[row] += the value of the leaf that the row reaches, for rows first..last.

    Rows are partitioned node by node, as in growing: parents stand before their children. A block of rows stays in the
    L1 cache, and so does its part of each column; descending row by row takes three times as long.
    """
    (feature, column, left, sides, values), n = tree, last - first
    rows, partitioned = np.empty(n, np.uint32), np.empty(n, np.uint32)
    start, stop = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    for k in range(n):
        rows[k] = first + k
    stop[0] = n
    for node in range(len(left)):
        node_rows = rows[start[node] : stop[node]]
        if feature[node] < 0:
            for k in range(len(node_rows)):
                scores[node_rows[k]] += values[node]
            continue
        n_left = partition_rows(node_rows, columns[column[node]], sides[node], partitioned)
        for k in range(n_left):
            node_rows[k] = partitioned[k]
        for k in range(len(node_rows) - n_left):
            node_rows[n_left + k] = partitioned[len(node_rows) - 1 - k]
        child = left[node]
        start[child], stop[child] = start[node], start[node] + n_left
        start[child + 1], stop[child + 1] = start[node] + n_left, stop[node]
