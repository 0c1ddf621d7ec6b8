"""Selecting: the rows, or queries, with the smallest keys among those of all ranks, and of equal ones the first.

One rank alone partitions its keys. Several find the last key that is chosen digit by digit: each counts its keys by
their next digit, and the sums of these counts say which digit the last one has. So 32 bits take three messages of
16 kB, however many keys there are.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array
from podium.data.sharding.collective import Collective

_DIGIT = 11  # bits
_KEY = 32


def mark_smallest(keys: Array, count: int, numbers: Array, collective: Collective) -> Array:
    """A mask of this rank's keys, uint32, that are among the `count` smallest of all ranks.

    numbers, int64 and rising: of the rows or queries that have the keys; of equal keys, the smallest numbers win.
    """
    if count == 0:
        return np.zeros(len(keys), dtype=np.bool_)
    if collective.size == 1:
        edge = np.partition(keys, count - 1)[count - 1]
        chosen = keys < edge
        chosen[np.flatnonzero(keys == edge)[: count - np.count_nonzero(chosen)]] = True
        return np.asarray(chosen)
    edge, rest, n_equal = _find_edge(keys.astype(np.uint64), _KEY, count, collective)
    chosen, equal = keys < edge, np.flatnonzero(keys == edge)
    if rest < n_equal:
        those = numbers[equal].astype(np.uint64)
        largest = int(collective.largest(np.array([those.max(initial=0)], np.int64))[0])
        last, _, _ = _find_edge(those, max(largest.bit_length(), 1), rest, collective)
        equal = equal[those <= last]
    chosen[equal] = True
    return np.asarray(chosen)


def _find_edge(keys: Array, bits: int, count: int, collective: Collective) -> tuple[np.uint64, int, int]:
    """The largest of the `count` smallest keys, how many of its equals are chosen, and how many there are."""
    edge, there = 0, 0
    while bits > 0:
        width = min(_DIGIT, bits)
        bits -= width
        digits = (keys >> np.uint64(bits)) & np.uint64(2**width - 1)
        counts = collective.sum(np.bincount(digits.astype(np.int64), minlength=2**width))
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, count))
        there = int(counts[digit])
        count -= int(ends[digit]) - there
        keys, edge = keys[digits == digit], edge << width | digit
    return np.uint64(edge), count, there
