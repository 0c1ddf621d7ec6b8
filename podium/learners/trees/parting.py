"""Parting: the rows of a leaf, those that go left before those that go right, both in the order they had.

Each worker parts a share of the rows into spare room; when all have, and know where theirs begin, they put them back.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel


@kernel
def share_of(n: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's part of n rows."""
    return worker * n // workers, (worker + 1) * n // workers


@kernel
def part_rows(rows: np.ndarray, column: np.ndarray, sides: np.ndarray, parted: np.ndarray) -> np.int64:
    """Left-goers from the front of `parted` on, right-goers from its end backwards; returns how many go left.

    column: the slot of every row; sides: of every slot, 1 for right.

    No branch: the processor would guess half of them wrong. Where both meet, the last row is written twice.
    """
    n_left, end, one = np.uint32(0), np.uint32(len(rows)), np.uint32(1)
    for k in range(len(rows)):
        row = rows[k]
        goes_right = np.uint32(sides[column[row]])
        parted[n_left] = row
        parted[end - one] = row
        n_left += one - goes_right
        end -= goes_right
    return np.int64(n_left)


@kernel
def put_back(parted: np.ndarray, found: np.ndarray, worker: int, workers: int, rows: np.ndarray) -> int:
    """A worker's share of `parted` to its place in `rows`; returns how many rows go left in all.

    found[worker, 0]: the left-goers of each worker's share.
    """
    low, high = share_of(len(rows), worker, workers)
    own = found[worker, 0]
    before, n_left = 0, 0
    for other in range(workers):
        before += found[other, 0] if other < worker else 0
        n_left += found[other, 0]
    for k in range(own):
        rows[before + k] = parted[low + k]
    to = n_left + low - before  # the right-goers of those before
    for k in range(high - low - own):
        rows[to + k] = parted[high - 1 - k]
    return n_left


@kernel
def route_rows(
    columns: np.ndarray,
    first: int,
    last: int,
    feature: np.ndarray,
    column: np.ndarray,
    left: np.ndarray,
    sides: np.ndarray,
    values: np.ndarray,
    scores: np.ndarray,
) -> None:
    """scores[row] += the value of the leaf that the row comes to, for rows first..last.

    They are parted node by node, as in growing: parents stand before their children. A block of rows stays in the
    innermost caches, and so does its piece of each column; walking down row by row takes three times as long.
    """
    n = last - first
    rows, parted = np.empty(n, np.uint32), np.empty(n, np.uint32)
    start, stop = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    for k in range(n):
        rows[k] = first + k
    stop[0] = n
    for node in range(len(left)):
        own = rows[start[node] : stop[node]]
        if feature[node] < 0:
            for k in range(len(own)):
                scores[own[k]] += values[node]
            continue
        n_left = part_rows(own, columns[column[node]], sides[node], parted)
        for k in range(n_left):
            own[k] = parted[k]
        for k in range(len(own) - n_left):
            own[n_left + k] = parted[len(own) - 1 - k]
        child = left[node]
        start[child], stop[child] = start[node], start[node] + n_left
        start[child + 1], stop[child + 1] = start[node] + n_left, stop[node]
