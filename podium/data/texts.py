"""Texts: one string per row, stored as one array of UTF-8 bytes and the offsets of the strings.

A million document ids are a million Python objects or two arrays; the arrays are filled by the parser without the
interpreter, are copied by index in one step, and lie in a cache file as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np


class Texts(Sequence[str]):
    """An immutable column of strings. `offsets[i]:offsets[i + 1]` are the bytes of row i."""

    __slots__ = ("data", "offsets")

    data: np.ndarray
    offsets: np.ndarray

    def __init__(self, data: np.ndarray, offsets: np.ndarray) -> None:
        self.data = np.ascontiguousarray(data, dtype=np.uint8)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)

    @classmethod
    def of(cls, strings: Iterable[str]) -> Texts:
        encoded = [string.encode("utf-8", "surrogateescape") for string in strings]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)

    @classmethod
    def concat(cls, parts: Sequence[Texts]) -> Texts:
        offsets = np.zeros(1 + sum(map(len, parts)), np.int64)
        row, n_bytes = 0, 0
        for part in parts:
            np.add(part.offsets[1:], n_bytes - part.offsets[0], out=offsets[row + 1 : row + len(part) + 1])
            row, n_bytes = row + len(part), n_bytes + len(part.data)
        return cls(np.concatenate([part.data for part in parts]), offsets)

    def take(self, rows: np.ndarray) -> Texts:
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(starts - offsets[:-1], lengths)
        places += np.arange(len(places))
        return Texts(self.data[places], offsets)

    def to_array(self) -> np.ndarray:
        """An array of Python strings (dtype object)."""
        array = np.empty(len(self), dtype=object)
        array[:] = list(self)
        return array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Texts: ...
    def __getitem__(self, index: int | slice) -> str | Texts:
        if isinstance(index, slice):
            return self.take(np.arange(*index.indices(len(self))))
        row = range(len(self))[index]
        return _decode(self.data[self.offsets[row] : self.offsets[row + 1]].tobytes())

    def __iter__(self) -> Iterator[str]:
        data, ends = self.data.tobytes(), self.offsets.tolist()
        for start, end in pairwise(ends):
            yield _decode(data[start:end])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Texts):
            return NotImplemented
        return np.array_equal(self.offsets, other.offsets) and np.array_equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({len(self)} strings, {len(self.data)} bytes)"


class TextRows:
    """Some rows of a column of strings, which are not copied: row i is `texts[rows[i]]`."""

    __slots__ = ("rows", "texts")

    def __init__(self, texts: Texts, rows: np.ndarray) -> None:
        self.texts, self.rows = texts, rows

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: np.ndarray) -> TextRows:
        return TextRows(self.texts, self.rows[rows])


def _decode(text: bytes) -> str:
    # Bytes that are no UTF-8 survive a round trip instead of stopping the reader at somebody's old comment.
    return text.decode("utf-8", "surrogateescape")
