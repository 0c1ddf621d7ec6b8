"""Hash tables of texts, for kernels: rows of a column of strings found by their bytes.

Tables have open addressing: at least twice as many slots as rows, a row in the slot of its hash or behind it. One table
is used for one query after the other, so that it stays in the processor's cache.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel, readonly
from podium.formats.decimals import word_at

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
                if same_text(ids, table[slot], ids, row):
                    return row, table[slot]
                slot = (slot + 1) & (size - 1)
            table[slot] = row
    return -1, -1


@kernel
def empty_table(rows: int) -> Array:
    """A table for so many rows, 0 in empty slots. Most texts looked up are not there: an empty slot says so at once."""
    size = 16
    while size < 16 * rows:
        size *= 2
    return np.zeros(size, np.int32)


@inlined_bare_kernel
def fill_table(table: Array, ids: Ids, start: int, end: int, slots: Array) -> None:
    """Enter rows start..end, counted from 1; slots: to be filled with the slot of each."""
    mask = _U(len(table) - 1)
    for row in range(start, end):
        slot = _U(hash_of(ids, row)) & mask
        while table[slot]:
            slot = (slot + _U(1)) & mask
        table[slot] = row - start + 1
        slots[row - start] = slot


@inlined_bare_kernel
def may_have(table: Array, others: Ids, row: int) -> np.uint64:
    """1 if the table may have the id of a row of `others`, 0 if it has not: to be counted without a branch."""
    return _U(table[_U(hash_of(others, row)) & _U(len(table) - 1)] != 0)


@inlined_bare_kernel
def find_row(table: Array, ids: Ids, start: int, others: Ids, row: int) -> int:
    """The row of `ids`, of which the table has those from `start` on, with the id of a row of `others`, or -1."""
    mask = _U(len(table) - 1)
    slot = _U(hash_of(others, row)) & mask
    while table[slot]:
        entry = start + table[slot] - 1
        if same_text(ids, entry, others, row):
            return int(entry)
        slot = (slot + _U(1)) & mask
    return -1


@inlined_bare_kernel
def hash_of(ids: Ids, row: int) -> np.int64:
    """A hash of eight bytes at a time; never negative.

    A product has no bit of a byte below that byte: the last one brings those of all bytes to the low ones of the hash.
    """
    data, starts = ids
    here, end, mixed = _U(starts[row]), _U(starts[row + 1]), _U(starts[row + 1] - starts[row])
    while here < end:
        mixed = (mixed ^ _word(data, here, end)) * _U(0x9E3779B97F4A7C15)
        mixed ^= mixed >> _U(32)
        here += _U(8)
    return np.int64((mixed * _U(0x9E3779B97F4A7C15)) >> _U(33))


@inlined_bare_kernel
def _word(data: Array, here: np.uint64, end: np.uint64) -> np.uint64:
    """Up to eight bytes of a text as one number, with zeros behind its end."""
    if here + _U(8) <= _U(len(data)):
        word = word_at(data, here)
        return word if here + _U(8) <= end else word & ((_U(1) << ((end - here) << _U(3))) - _U(1))
    word = _U(0)
    for k in range(end - here):
        word |= _U(data[here + _U(k)]) << (_U(k) << _U(3))
    return word


@inlined_bare_kernel
def same_text(ids: Ids, row: int, others: Ids, other: int) -> bool:
    data, starts = ids
    other_data, other_starts = others
    here, end = _U(starts[row]), _U(starts[row + 1])
    there, other_end = _U(other_starts[other]), _U(other_starts[other + 1])
    if end - here != other_end - there:
        return False
    while here < end:
        if _word(data, here, end) != _word(other_data, there, other_end):
            return False
        here += _U(8)
        there += _U(8)
    return True
