"""Parting: the rows of a leaf, those that go left before those that go right, both in the order they had."""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING
from podium.learners.trees.histograms import ZERO


@kernel
def share_of(start: int, stop: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's part of the rows start..stop."""
    return start + worker * (stop - start) // workers, start + (worker + 1) * (stop - start) // workers


@kernel
def part_rows(rows: np.ndarray, column: np.ndarray, at: int, to_left: int, other: np.ndarray) -> np.int64:
    """Left-goers to the front of `rows`, right-goers to `other`. No branch: the processor would guess half of them."""
    n_left, n_right = np.uint32(0), np.uint32(0)
    limit, missing, stray = np.uint8(at), np.uint8(MISSING), np.uint32(to_left)
    for k in range(len(rows)):
        row = rows[k]
        b = column[row]
        goes_left = np.uint32(b <= limit) | (np.uint32(b == missing) & stray)
        rows[n_left] = row
        other[n_right] = row
        n_left += goes_left
        n_right += np.uint32(1) - goes_left
    return np.int64(n_left)


@kernel
def join_parts(rows: np.ndarray, other: np.ndarray, found: np.ndarray, workers: int) -> int:
    """After `part_rows` by each worker for its share: all left-goers to the front of `rows`, the others to `other`.

    found[worker, 0] is the number of its left-goers. One thread does it: copying is the smaller part.
    """
    n_left, n_right = 0, 0
    for worker in range(workers):
        low, high = share_of(ZERO, len(rows), worker, workers)
        own = found[worker, 0]
        for k in range(own):
            rows[n_left + k] = rows[low + k]
        for k in range(high - low - own):
            other[n_right + k] = other[low + k]
        n_left += own
        n_right += high - low - own
    return n_left
