"""Hash tables of texts, for kernels: rows of a column of strings found by their bytes.

Tables have open addressing: at least twice as many slots as rows, a row in the slot of its hash or behind it.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly

Ids = tuple[Array, Array]  # bytes of all strings, and where each begins (and the last ends)
_U = np.uint64


def first_repeat(data: Array, starts: Array, offsets: Array) -> tuple[int, int] | None:
    """The first row whose text is in an earlier row of the same query, and that row; `offsets`: rows of queries."""
    row, earlier = _first_repeat((readonly(data), readonly(starts)), readonly(offsets))
    return None if row < 0 else (int(row), int(earlier))


@kernel
def _first_repeat(ids: Ids, offsets: Array) -> tuple[int, int]:
    """(row, earlier row), or (-1, -1)."""
    table = np.full(4, -1, np.int64)
    for q in range(len(offsets) - 1):
        start, end = offsets[q], offsets[q + 1]
        size = 4
        while size < 2 * (end - start):
            size *= 2
        if size > len(table):
            table = np.full(size, -1, np.int64)
        table[:size] = -1
        for row in range(start, end):
            slot = hash_of(ids, row) & (size - 1)
            while table[slot] >= 0:
                if _same(ids, table[slot], ids, row):
                    return row, table[slot]
                slot = (slot + 1) & (size - 1)
            table[slot] = row
    return -1, -1


@kernel
def hash_table(ids: Ids, start: int, end: int) -> Array:
    """A table of the rows start..end, -1 in empty slots."""
    size = 4
    while size < 2 * (end - start):
        size *= 2
    table = np.full(size, -1, np.int64)
    for row in range(start, end):
        slot = hash_of(ids, row) & (size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = row
    return table


@kernel
def find_row(table: Array, ids: Ids, others: Ids, row: int) -> int:
    """The row of `ids` with the same id as a row of `others`, or -1."""
    slot = hash_of(others, row) & (len(table) - 1)
    while table[slot] >= 0:
        if _same(ids, table[slot], others, row):
            return int(table[slot])
        slot = (slot + 1) & (len(table) - 1)
    return -1


@kernel
def hash_of(ids: Ids, row: int) -> int:
    """FNV-1a, whose upper bits are folded into the lower ones; never negative."""
    data, starts = ids
    mixed = _U(0xCBF29CE484222325)
    for k in range(starts[row], starts[row + 1]):
        mixed = (mixed ^ _U(data[k])) * _U(0x100000001B3)
    return np.int64((mixed ^ (mixed >> _U(29))) & _U(0x7FFFFFFF))


@kernel
def _same(ids: Ids, row: int, others: Ids, other: int) -> bool:
    data, starts = ids
    other_data, other_starts = others
    length = starts[row + 1] - starts[row]
    if length != other_starts[other + 1] - other_starts[other]:
        return False
    k = 0
    while k < length and data[starts[row] + k] == other_data[other_starts[other] + k]:
        k += 1
    return bool(k == length)
