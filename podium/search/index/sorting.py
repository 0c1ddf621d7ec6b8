"""Sorting: the order of many strings by their bytes, which is that of their code points.

Strings are sorted by their first 8 bytes as one number each; those that are still equal by their next 8, and so on.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium.data.texts import Texts

_WIDTH, _BITS = 8, np.uint64(8)


def sorted_order(texts: Texts) -> Array:
    """The rows of the texts, ascending; equal ones in the order they are in."""
    lengths = np.diff(texts.offsets)
    order = np.argsort(lengths, kind="stable")  # of two that differ in zeros at the end, the shorter comes first
    places, groups = np.arange(len(texts)), np.zeros(len(texts), np.int64)  # of rows that are equal so far
    for depth in range(0, int(lengths.max(initial=0)), _WIDTH):
        rows, keys = order[places], np.empty(len(places), np.uint64)
        fill_keys(texts.data, texts.offsets, rows, depth, keys)
        by_key = np.lexsort((keys, groups)) if depth else np.argsort(keys, kind="stable")
        order[places], keys = rows[by_key], keys[by_key]
        begins = np.append(True, (keys[1:] != keys[:-1]) | (groups[1:] != groups[:-1]))
        tied = ~(begins & np.append(begins[1:], True))
        groups, places = np.cumsum(begins)[tied], places[tied]
        if not len(places):
            break
    return order


def taken(texts: Texts, rows: Array) -> Texts:
    """`texts.take(rows)`, without an index per byte."""
    rows = np.ascontiguousarray(rows, np.int64)
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.diff(texts.offsets)[rows], out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(texts.data, texts.offsets, rows, data)
    return Texts(data, offsets)


@bare_kernel
def copy_texts(data: Array, offsets: Array, rows: Array, out: Array) -> None:
    """The bytes of these rows, one after the other."""
    position = 0
    for i in range(len(rows)):
        for byte in range(offsets[rows[i]], offsets[rows[i] + 1]):
            out[position] = data[byte]
            position += 1


@bare_kernel
def fill_keys(data: Array, offsets: Array, rows: Array, depth: int, keys: Array) -> None:
    """keys[i]: the 8 bytes of row rows[i] from `depth` on, the first one highest; 0 behind its end."""
    for i in range(len(rows)):
        start, end = offsets[rows[i]] + depth, offsets[rows[i] + 1]
        key = np.uint64(0)
        for position in range(start, start + _WIDTH):
            key <<= _BITS
            if position < end:
                key |= np.uint64(data[position])
        keys[i] = key
