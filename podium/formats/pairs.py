"""Pair files: two documents of a query per line, and the probability that the first one is the better.

Lines are `qid docA docB probability weight`; the last two columns may be left out and are then 1. Columns are separated
by blanks or tabs, so ids hold no blanks; a word that begins with `#` begins a comment, to the end of the line.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from podium._runtime.compiler import Array
from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, numbered_lines, parse_numbers, shown

_FORM = "qid docA docB probability weight"
_REPEATED = -1


def read_pairs(path: FilePath, data: RankingData) -> tuple[Array, Array, Array, Array]:
    """Read a pair file, compressed or not: `(i, j, p, weight)` for `fit(data, pairs=)`, i and j rows of the data.

    Documents are named by their query's id and their own, which the data must have.
    """
    documents = _Documents(path, data)
    first, second, lines = list[int](), list[int](), list[int]()
    words: tuple[list[bytes], list[bytes]] = [], []  # of probabilities and weights
    for line, (query, one, other, *numbers) in _lines(path):
        rows = documents.row(line, query, one), documents.row(line, query, other)
        if rows[0] == rows[1]:
            raise FormatError(path, f"expected two documents, found {shown(one)} twice. Leave the line out.", line)
        first.append(rows[0])
        second.append(rows[1])
        lines.append(line)
        for column, word in zip(words, [*numbers, b"1", b"1"]):
            column.append(word)
    if not lines:
        raise FormatError(path, f"has no pairs; expected lines of {_FORM!r}.")
    target, weight = _numbers(path, words[0], lines, "probability"), _numbers(path, words[1], lines, "weight")
    if not weight.any():
        raise FormatError(path, "the weight of every pair is 0, so there is nothing to learn from.")
    return np.array(first, np.int64), np.array(second, np.int64), target, weight


def _lines(path: FilePath) -> Iterator[tuple[int, list[bytes]]]:
    """The words of each line that has any, without comments: three to five."""
    for line, text in numbered_lines(path):
        words = text.split()
        if b"#" in text:
            words = words[: next((k for k, word in enumerate(words) if word.startswith(b"#")), len(words))]
        if words and not 3 <= len(words) <= 5:
            message = f"expected 3 to 5 columns ({_FORM}), found {len(words)}: {shown(text.strip())}."
            raise FormatError(path, f"{message} Ids must not hold blanks.", line)
        if words:
            yield line, words


def _numbers(path: FilePath, words: list[bytes], lines: list[int], name: str) -> Array:
    numbers, wrong = parse_numbers(words)
    allowed = "a number from 0 to 1" if name == "probability" else "a finite number, 0 or larger"
    if wrong is None:
        bad = np.flatnonzero(~((numbers >= 0) & (numbers <= (1.0 if name == "probability" else np.inf))))
        wrong = int(bad[0]) if len(bad) else None
    if wrong is not None:
        message = f"the {name} (column {4 + (name == 'weight')} of {_FORM!r}) must be {allowed}"
        raise FormatError(path, f"{message}; found {shown(words[wrong])}.", lines[wrong])
    return numbers


class _Documents:
    """The rows of documents by query id and document id; a query is indexed when the file first names it."""

    def __init__(self, path: FilePath, data: RankingData) -> None:
        if data.docid_texts is None:
            problem = "names documents by their ids, and the data have none"
            raise FormatError(path, f"{problem}. Read them from a file that has some, or give docids to from_arrays.")
        self.path, self.data, self.texts = path, data, data.docid_texts
        self.queries = {str(name): number for number, name in enumerate(data.query_ids.tolist())}
        self.has_numbers = data.query_ids.dtype.kind in "iu"
        self._rows: dict[bytes, dict[str, int]] = {}

    def row(self, line: int, query: bytes, document: bytes) -> int:
        rows = self._rows.get(query)
        if rows is None:
            rows = self._rows[query] = self._rows_of(self._number(line, query))
        row = rows.get(_text(document))
        if row is None:
            raise self._unknown(line, query, document)
        if row == _REPEATED:
            message = f"document {shown(document)} is more than once in query {shown(query)} of the data"
            raise FormatError(
                self.path, f"{message}, so it is not clear which one is meant. Make its ids differ.", line
            )
        return row

    def _number(self, line: int, query: bytes) -> int:
        name = _text(query)
        if self.has_numbers and name.isascii() and name.isdecimal():
            name = str(int(name)) if len(name) < 30 else name  # 007 is 7, as in data
        number = self.queries.get(name)
        if number is None:
            advice = "Check that the pairs belong to this file of data."
            raise FormatError(self.path, f"there is no query {shown(query)} in the data. {advice}", line)
        return number

    def _rows_of(self, number: int) -> dict[str, int]:
        begin, end = self.data.offsets[number], self.data.offsets[number + 1]
        rows: dict[str, int] = {}
        of_query = self.data.rows[begin:end]
        for row, name in zip(of_query.tolist(), self.texts.take(of_query)):
            rows[name] = _REPEATED if name in rows else row
        return rows

    def _unknown(self, line: int, query: bytes, document: bytes) -> FormatError:
        """Where a document of another query is named, that one is told."""
        name, message = _text(document), f"there is no document {shown(document)} in query {shown(query)} of the data"
        row = next((row for row, other in enumerate(self.texts) if other == name), None)
        if row is not None:
            message += f"; it is of query {str(self.data.qid[row])!r}, and pairs are two documents of one query"
        return FormatError(self.path, f"{message}.", line)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")
