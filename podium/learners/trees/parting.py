"""Parting: the rows of a leaf, those that go left before those that go right, both in the order they had.

Each worker parts a share of the rows into spare room; when all have, and know where theirs begin, they put them back.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING


@kernel
def share_of(n: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's part of n rows."""
    return worker * n // workers, (worker + 1) * n // workers


@kernel
def part_rows(rows: np.ndarray, column: np.ndarray, at: int, to_left: int, parted: np.ndarray) -> np.int64:
    """Left-goers from the front of `parted` on, right-goers from its end backwards; returns how many go left.

    No branch: the processor would guess half of them wrong. Where both meet, the last row is written twice.
    """
    n_left, end, one = np.uint32(0), np.uint32(len(rows)), np.uint32(1)
    limit, missing, stray = np.uint8(at), np.uint8(MISSING), np.uint32(to_left)
    for k in range(len(rows)):
        row = rows[k]
        b = column[row]
        goes_left = np.uint32(b <= limit) | (np.uint32(b == missing) & stray)
        parted[n_left] = row
        parted[end - one] = row
        n_left += goes_left
        end -= one - goes_left
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
