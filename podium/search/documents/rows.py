"""Rows: the records of CSV and TSV text. A cell in quotation marks may hold separators and line ends.

A record of several lines that is not proper CSV (a quotation mark is never closed, or is closed within a cell) is read
again line by line: one stray quotation mark loses one line, not the lines behind it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

LONGEST_CELL = 128 << 10  # characters
_LONGEST_RECORD = 64 << 20

Line = tuple[int, str]  # its number, and its text without the line end


def table_rows(lines: Iterable[Line], separator: str) -> Iterator[tuple[int, list[str] | None]]:
    """Per record the number of its first line and its cells; None where a quotation mark is not closed."""
    source = iter(lines)
    for number, line in source:
        if '"' not in line:
            if line:
                yield number, line.split(separator)
            continue
        following = _Following(source)
        cells = _whole(line, separator) or _cells(line, following, separator)
        yield number, cells
        if cells is None:  # what it took for parts of this record are records of their own
            for later, next_line in following.taken:
                if next_line:
                    yield later, _cells(next_line, _Following(iter(())), separator)


def _whole(line: str, separator: str) -> list[str] | None:
    """The cells of a record of one line with nothing odd in it, as nearly always."""
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error:
        return None


class _Following:
    """The lines behind the first one of a record; `taken` are those that the record took."""

    def __init__(self, source: Iterator[Line]) -> None:
        self._source, self._size = source, 0
        self.taken: list[Line] = []

    def take(self) -> str | None:
        line = next(self._source, None) if self._size <= _LONGEST_RECORD else None
        if line is None:
            return None
        self.taken.append(line)
        self._size += len(line[1]) + 1
        return line[1]


def _cells(line: str, following: _Following, separator: str) -> list[str] | None:
    """The cells of a record. Within a line, what follows a closing quotation mark belongs to the cell, as in `csv`."""
    cells, position = [], 0
    while True:
        quoted = _quoted(line, position + 1, following) if line.startswith('"', position) else ("", line, position)
        if quoted is None:
            return None
        text, line, start = quoted
        end = line.find(separator, start)
        rest = line[start:] if end < 0 else line[start:end]
        if rest and following.taken and line[start - 1 : start] == '"':
            return None
        cells.append(text + rest)
        if end < 0:
            return cells
        position = end + 1


def _quoted(line: str, position: int, following: _Following) -> tuple[str, str, int] | None:
    """A quoted text, the line in which it ends, and the place behind it; None if it does not end."""
    parts = []
    while True:
        quote = line.find('"', position)
        if quote < 0:
            parts += [line[position:], "\n"]
            later = following.take()
            if later is None:
                return None
            line, position = later, 0
        elif line.startswith('"', quote + 1):
            parts.append(line[position : quote + 1])
            position = quote + 2
        else:
            parts.append(line[position:quote])
            return "".join(parts), line, quote + 1
