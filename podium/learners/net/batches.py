"""Batches of whole queries, in a new order in every epoch. Imports only NumPy."""

from __future__ import annotations

import numpy as np

_STEPS = 8  # sizes that a batch within its budget can be filled up to
_SMALLEST = 64


def shuffled_batches(offsets: np.ndarray, budget: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Query numbers of each batch: as many queries as have `budget` rows together, and at least one."""
    lengths = np.diff(offsets)
    queries = np.random.default_rng([seed, epoch]).permutation(len(lengths))
    ends = np.cumsum(lengths[queries])
    batches, first = [], 0
    while first < len(queries):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + budget, side="right")), first + 1)
        batches.append(queries[first:last])
        first = last
    return batches


def rows_of(queries: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The rows of these queries, one query after the other."""
    starts, lengths = offsets[queries], offsets[queries + 1] - offsets[queries]
    shifts = np.cumsum(lengths) - lengths
    return np.repeat(starts - shifts, lengths) + np.arange(lengths.sum())


def filled_size(n_rows: int, budget: int) -> int:
    """How many rows a batch is filled up to: one of few sizes, so that few programs are compiled.

    A query that alone exceeds the budget has a power of two.
    """
    if n_rows <= budget:
        step = max(-(-budget // _STEPS), _SMALLEST)
        return -(-n_rows // step) * step
    return 1 << (n_rows - 1).bit_length()
