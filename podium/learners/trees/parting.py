"""Parting: the rows of a leaf, those that go left before those that go right, both in the order they had.

Each worker parts a share of the rows into spare room; when all have, and know where theirs begin, they put them back.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel

_LANES = 16


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
    slots: np.ndarray,
    n_columns: int,
    first: int,
    last: int,
    column: np.ndarray,
    left: np.ndarray,
    sides: np.ndarray,
    depth: int,
    values: np.ndarray,
    scores: np.ndarray,
) -> None:
    """scores[row] += the value of the leaf that the row's slots lead to, for rows first..last.

    slots: (rows, columns) uint8, flat; sides: (nodes, 256), flat. Leaves are their own left child, and all their sides
    are left: sixteen rows walk in step, without a branch. Unsigned indices need no guard.
    """
    node, base = np.empty(_LANES, np.uint32), np.empty(_LANES, np.uint64)
    for start in range(first, last, _LANES):
        rows = min(_LANES, last - start)
        for k in range(_LANES):  # the last lanes of a short group walk with its last row
            base[k], node[k] = np.uint64(start + min(k, rows - 1)) * np.uint64(n_columns), 0
        for _ in range(depth):
            for k in range(_LANES):
                at = np.uint64(node[k])
                slot = np.uint64(slots[base[k] + np.uint64(column[at])])
                node[k] = left[at] + np.uint32(sides[(at << np.uint64(8)) + slot])
        for k in range(rows):
            scores[start + k] += values[np.uint64(node[k])]
