"""Sorting by falling score, stable: equal scores keep the order of the input.

A score becomes an unsigned integer that rises as the score falls. The leading 33 bits in which a list's keys differ
and the place in the list are packed into one 64-bit word, and the words are sorted: by `np.sort`, or inside kernels by
counting digits (three of 11 bits, or three of 8 and then the runs that share them). Where all 33 bits agree and the
others do not, the run is sorted again by the at most 31 bits that are left. The result is exact, no input is slow.

Counts and places are unsigned: Numba guards signed indices against being negative, which costs a third of the time.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel

_PLACE_BITS = 31
_SHORT_LIST = 24  # up to this, insertion beats counting
_USUAL_LIST = 4096  # up to this, small tables beat fewer collisions
LONG_LIST = 128  # from this on, NumPy's vectorised sort of words beats ours, also when called once per list

SortWorkspace = tuple[Array, Array, Array, Array, Array]


@kernel
def make_sort_workspace(longest: int) -> SortWorkspace:
    """Working arrays for lists of up to `longest` scores: (keys, packed, other packed, counts, places)."""
    return (
        np.empty(longest, np.uint64),
        np.empty(longest, np.uint64),
        np.empty(longest, np.uint64),
        np.empty((3, 2048), np.uint32),
        np.empty(longest, np.uint32),
    )


@kernel
def sort_places(scores: Array, workspace: SortWorkspace, single: bool) -> Array:
    """The places of the scores, largest score first; `single` compares them as float32.

    The result is valid in `workspace` until the next call, as are the keys: places with equal keys have equal scores.
    """
    keys, packed, other, counts, places = workspace
    n = len(scores)
    shift = pack(scores, single, keys, packed)
    _sort_packed(packed, other, n, counts)
    unpack(keys, packed[:n], shift, workspace)
    return places[:n]


@kernel
def pack(scores: Array, single: bool, keys: Array, packed: Array) -> np.uint64:
    """Fill `keys`, and `packed` with words to sort. Returns how many low bits of the keys the words leave out."""
    n = len(scores)
    if n == 0:
        return np.uint64(0)
    falling_keys(scores, single, keys)
    low = high = keys[0]
    for k in range(n):
        low, high = min(low, keys[k]), max(high, keys[k])
    shift = np.uint64(0)
    while (high - low) >> shift >> np.uint64(64 - _PLACE_BITS):
        shift += np.uint64(1)
    for k in range(n):
        packed[k] = ((keys[k] - low) >> shift) << np.uint64(_PLACE_BITS) | np.uint64(k)
    return shift


@kernel
def unpack(keys: Array, packed: Array, shift: np.uint64, workspace: SortWorkspace) -> None:
    """Fill the places of `workspace` from sorted words; runs that share all bits that were kept are mended."""
    other, counts, places = workspace[2], workspace[3], workspace[4]
    n, mask = len(packed), (np.uint64(1) << np.uint64(_PLACE_BITS)) - np.uint64(1)
    for k in range(n):
        places[k] = np.uint32(packed[k] & mask)
    if shift:
        _mend_runs(keys, packed, other, counts, places, n)


@kernel
def sort_short(words: Array, workspace: SortWorkspace) -> None:
    _sort_packed(words, workspace[2], len(words), workspace[3])


@kernel
def falling_keys(scores: Array, single: bool, keys: Array) -> None:
    """Unsigned keys that rise as the score falls. -0.0 becomes 0.0 first: they are equal scores."""
    numbers = keys[: len(scores)].view(np.float64)
    if single:
        for k in range(len(scores)):
            numbers[k] = np.float64(np.float32(scores[k])) + 0.0
    else:
        for k in range(len(scores)):
            numbers[k] = scores[k] + 0.0
    sign = np.uint64(1) << np.uint64(63)
    for k in range(len(scores)):
        keys[k] = keys[k] if keys[k] & sign else ~(keys[k] | sign)


@kernel
def _mend_runs(keys: Array, packed: Array, other: Array, counts: Array, places: Array, n: int) -> None:
    """Sort runs of places whose leading bits agree by the rest of their keys."""
    bits, mask = np.uint64(_PLACE_BITS), (np.uint64(1) << np.uint64(_PLACE_BITS)) - np.uint64(1)
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and packed[stop] >> bits == packed[start] >> bits:
            stop += 1
        if stop - start > 1:
            run = packed[start:stop].copy()
            low = keys[run[0] & mask]
            for k in range(len(run)):
                low = min(low, keys[run[k] & mask])
            for k in range(len(run)):
                run[k] = (keys[run[k] & mask] - low) << bits | (run[k] & mask)
            _sort_packed(run, other, len(run), counts)
            for k in range(len(run)):
                places[start + k] = np.uint32(run[k] & mask)
        start = stop


@kernel
def _sort_packed(packed: Array, other: Array, n: int, counts: Array) -> None:
    """Sort words by their upper bits; the place in the lower ones keeps equal keys in order."""
    if n <= _SHORT_LIST:
        _insertion_sort(packed, n)
    elif n <= _USUAL_LIST:
        _radix_sort(packed, other, n, counts, np.uint64(40), np.uint64(8))
        _sort_runs(packed, other, n, counts)
    else:
        _radix_sort(packed, other, n, counts, np.uint64(_PLACE_BITS), np.uint64(11))


@kernel
def _insertion_sort(packed: Array, n: int) -> None:
    for k in range(1, n):
        key, hole = packed[k], k
        while hole > 0 and packed[hole - 1] > key:
            packed[hole] = packed[hole - 1]
            hole -= 1
        packed[hole] = key


@kernel
def _sort_runs(packed: Array, other: Array, n: int, counts: Array) -> None:
    """Finish words that are in order of their upper 24 bits."""
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and packed[stop] >> np.uint64(40) == packed[start] >> np.uint64(40):
            stop += 1
        if stop - start > _SHORT_LIST:
            _radix_sort(packed[start:stop], other, stop - start, counts, np.uint64(_PLACE_BITS), np.uint64(11))
        elif stop - start > 1:
            _insertion_sort(packed[start:stop], stop - start)
        start = stop


@kernel
def _radix_sort(packed: Array, other: Array, n: int, counts: Array, low: np.uint64, bits: np.uint64) -> None:
    """Sort by the 3 x `bits` bits from `low` on, least digit first, stable; the result ends in `packed`."""
    table, mask = 1 << int(bits), (np.uint64(1) << bits) - np.uint64(1)
    middle, high = low + bits, low + bits + bits
    for digit in range(table):  # loops, not slices: assigning to a slice takes Numba seconds to compile
        counts[0, digit] = counts[1, digit] = counts[2, digit] = 0
    for k in range(n):
        counts[0, (packed[k] >> low) & mask] += np.uint32(1)
        counts[1, (packed[k] >> middle) & mask] += np.uint32(1)
        counts[2, packed[k] >> high] += np.uint32(1)
    for d in range(3):
        total = np.uint32(0)
        for digit in range(table):
            total, counts[d, digit] = total + counts[d, digit], total
    _scatter(packed, other, n, low, mask, counts[0])
    _scatter(other, packed, n, middle, mask, counts[1])
    _scatter(packed, other, n, high, mask, counts[2])
    for k in range(n):
        packed[k] = other[k]


@kernel
def _scatter(source: Array, target: Array, n: int, shift: np.uint64, mask: np.uint64, next_place: Array) -> None:
    for k in range(n):
        digit = (source[k] >> shift) & mask
        target[next_place[digit]] = source[k]
        next_place[digit] += np.uint32(1)
