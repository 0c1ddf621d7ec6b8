"""Plain tables: CSV and TSV whose cells are not quoted, read by kernels on all cores.

A table is plain if no row of it has a quote, every row has as many cells as the header, and the cells hold what their
columns do: numbers, names, ids. What is read is the same, bit for bit, as `records.py` reads. All other tables are left
to that, faulty ones too: this reader gives up wherever it is in a file, and has no errors of its own.
"""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.threads import threads_for, usable_threads
from podium.data.precision import EXACT
from podium.data.query_ids import as_query_ids
from podium.data.texts import Texts
from podium.formats.decimals import PADDING, Whole, power_table, round_texts
from podium.formats.errors import FormatError
from podium.formats.letor.parsing import copied_texts
from podium.formats.lines import FilePath, raw_pieces
from podium.formats.tables import kernels
from podium.formats.tables.records import (
    Gathered,
    LargeCells,
    careful_number,
    chunks_of,
    csv_reader,
    joined,
    read_header,
    rows_of,
)
from podium.formats.tables.text_columns import TextColumns, whole_numbers_or_text

_FEWEST_BYTES = 1 << 18  # a smaller file is read before the kernels are loaded
_BLOCK_BYTES = 1 << 20  # small enough for a processor's own cache
_BLOCKS_PER_THREAD = 2  # read ahead
_LONGEST_LINE = 4 << 20


class NotPlain(Exception):
    """The table is one for `records.py`."""


@dataclass(frozen=True)
class _Plan:
    """What is done with the columns of a table."""

    delimiter: str
    targets: Array  # as in `kernels.read_rows`
    features: list[str]
    amounts: int
    coded: list[str]  # the features that are names; they are text columns 1, 2, ...
    with_docid: bool  # the last text column

    @property
    def n_texts(self) -> int:
        return 1 + len(self.coded) + self.with_docid


@dataclass(frozen=True)
class _Rows:
    """The content of the rows of a block."""

    X: Array
    amounts: Array
    codes: list[Array]  # of the query ids and of each feature of names: which of these texts each row has
    texts: list[list[str]]
    docids: Texts | None
    large: list[tuple[int, str]]  # numbers that may have more digits than float32 keeps, with their columns of X


def read_plain(
    path: FilePath,
    delimiter: str,
    header: list[str],
    names: dict[str, Any],
    amounts: list[str],
    categorical: Sequence[str],
) -> Gathered | None:
    """The columns of a plain table; None if it is none, or so small that it is read as soon without kernels."""
    if os.stat(path).st_size < _FEWEST_BYTES:
        return None
    texts = TextColumns(path, header, names["features"], categorical)
    try:
        records = rows_of(path, delimiter)
        read_header(path, records)
        texts.decide(next(chunks_of(path, records, len(header)), []))
        plan = _make_plan(delimiter, header, names, amounts, texts)
        room = _Room(len(plan.features), os.stat(path).st_size)
        return _read_blocks(_row_blocks(path, delimiter, header), room, _Table(plan, texts, room))
    except (FormatError, NotPlain):
        return None


def _make_plan(
    delimiter: str, header: list[str], names: dict[str, Any], amounts: list[str], texts: TextColumns
) -> _Plan:
    features, docid = names["features"], [] if names["docid"] is None else [names["docid"]]
    coded = [name for name in features if name in texts.numbers]
    text_columns, numbers = [names["qid"], *coded, *docid], [*features, *amounts]
    if len({names["qid"], *docid, *numbers}) < 1 + len(docid) + len(numbers):
        raise NotPlain  # a column of two uses
    targets = dict.fromkeys(header, kernels.SKIPPED)
    targets |= {name: number for number, name in enumerate(numbers)}
    targets |= {name: kernels.TEXT - number for number, name in enumerate(text_columns)}
    return _Plan(delimiter, np.array(list(targets.values())), features, len(amounts), coded, bool(docid))


def _row_blocks(path: FilePath, delimiter: str, header: list[str]) -> Iterator[bytes]:
    """The lines below the header: blocks of whole lines that end in a newline, with `PADDING` bytes after."""
    lines = _line_blocks(path)
    first = next(lines, b"").removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    line, _, rest = first.partition(b"\n")
    try:
        if list(csv_reader([line.decode("utf-8")], delimiter)) != [header]:
            raise NotPlain
    except (UnicodeDecodeError, csv.Error) as error:
        raise NotPlain from error
    yield rest
    yield from lines


def _line_blocks(path: FilePath) -> Iterator[bytes]:
    rest = b""
    for piece in raw_pieces(path, _BLOCK_BYTES):
        end = piece.rfind(b"\n") + 1
        if end:
            yield b"".join((rest, memoryview(piece)[:end], bytes(PADDING)))
            rest = b""
        rest += piece[end:]
        if len(rest) > _LONGEST_LINE:
            raise NotPlain
    if rest:
        yield rest + b"\n" + bytes(PADDING)


def _read_blocks(blocks: Iterator[bytes], room: _Room, table: _Table) -> Gathered:
    threads = usable_threads(None)
    waiting: deque[Future[_Rows]] = deque()
    with threads_for(threads, "podium-parser") as workers:
        for block in blocks:
            X = room.reserve(_most_rows(block, len(table.plan.targets)), len(block))
            waiting.append(workers.submit(_parse, block, table.plan, X))
            if len(waiting) > threads * _BLOCKS_PER_THREAD:
                table.add(waiting.popleft().result())
        while waiting:
            table.add(waiting.popleft().result())
    return table.finish()


def _most_rows(block: bytes, width: int) -> int:
    """The rows of a block and its blank lines; a row has a byte or more per cell, but for a last one that is short."""
    newlines, special, beyond_ascii = kernels.survey(np.frombuffer(block, dtype=np.uint8), len(block) - PADDING)
    if special or (beyond_ascii and not _is_text(block)):
        raise NotPlain
    return min(int(newlines), len(block) // width + 1)


class _Room:
    """Rows of X for the blocks to be parsed into, one after the other in an array for the whole file."""

    def __init__(self, width: int, size: int) -> None:
        self._width, self._size = width, size
        self._all = np.empty((0, width), dtype=np.float32)
        self._used = 0

    def reserve(self, n: int, n_bytes: int) -> Array:
        if self._used == 0:  # room that is not touched costs address space only, so the guess may be generous
            with suppress(MemoryError):
                self._all = np.empty((n + int(1.1 * n * self._size / n_bytes), self._width), dtype=np.float32)
        first, self._used = self._used, self._used + n
        if self._used > len(self._all):  # a compressed file, or shorter rows than at its beginning
            return np.empty((n, self._width), dtype=np.float32)
        return self._all[first : self._used]

    def put_together(self, parts: list[Array]) -> Array:
        n = sum(map(len, parts))
        if n < self._used or n > len(self._all):
            return joined(parts)
        parts.clear()
        self._all.resize((n, self._width), refcheck=False)  # a thread may still hold views of it, but reads none
        return self._all


class _Table:
    """The rows of a table, put together in their order."""

    def __init__(self, plan: _Plan, texts: TextColumns, room: _Room) -> None:
        self.plan, self._texts, self._room = plan, texts, room
        self._features: list[Array] = []
        self._amounts: list[Array] = []
        self._queries: dict[str, int] = {}
        self._ids: list[Array] = []
        self._docids: list[Texts] = []
        self._large = LargeCells()

    def add(self, rows: _Rows) -> None:
        numbers = [self._queries.setdefault(text, len(self._queries)) for text in rows.texts[kernels.QUERY]]
        self._ids.append(np.array(numbers, dtype=np.int64)[rows.codes[kernels.QUERY]])
        for name, codes, texts in zip(self.plan.coded, rows.codes[1:], rows.texts[1:]):
            rows.X[:, self.plan.features.index(name)] = self._texts.number(name, texts, [0] * len(texts))[codes]
        self._features.append(rows.X)
        self._amounts.append(rows.amounts)
        if rows.docids is not None:
            self._docids.append(rows.docids)
        for column, text in rows.large:
            self._large.texts[self.plan.features[column]].add(text)

    def finish(self) -> Gathered:
        if not self._queries:
            raise NotPlain  # no rows
        ids = as_query_ids(whole_numbers_or_text(self._queries), None, len(self._queries))
        docids = Texts.concat(self._docids) if self.plan.with_docid else None
        qid = ids[np.concatenate(self._ids)]
        return Gathered(
            self._room.put_together(self._features),
            np.concatenate(self._amounts),
            qid,
            docids,
            self._texts,
            self._large,
        )


@np.errstate(over="ignore")  # numbers wrap in kernels; uncompiled ones warn of it
def _parse(block: bytes, plan: _Plan, X: Array) -> _Rows:
    """Parse the rows of a block into X. The kernels release the interpreter: many threads may do this."""
    text, stop, most = np.frombuffer(block, dtype=np.uint8), len(block) - PADDING, len(X)
    amounts = np.empty((most, plan.amounts))
    spans, longest = np.empty((plan.n_texts, most, 2), dtype=np.int64), csv.field_size_limit()
    reading = partial(
        kernels.read_rows, text, stop, np.uint8(ord(plan.delimiter)), plan.targets, longest, power_table(), X
    )
    n: Whole = kernels.LIST_FULL
    waiting = stop // 64 + 16
    while n == kernels.LIST_FULL:
        noted, counts = np.empty((waiting, 4), dtype=np.int64), np.zeros(1, dtype=np.int64)
        n = reading(amounts, spans, noted, counts)
        waiting *= 4
    if n == kernels.NOT_PLAIN:
        raise NotPlain
    X, amounts = X[:n], amounts[:n]
    large = _settle(block, X, amounts, noted[: counts[0]])
    numbered = [_numbered(text, spans[number, :n]) for number in range(1 + len(plan.coded))]
    docids = copied_texts(text, spans[-1, :n]) if plan.with_docid else None
    return _Rows(X, amounts, [codes for codes, _ in numbered], [texts for _, texts in numbered], docids, large)


def _is_text(block: bytes) -> bool:
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _settle(block: bytes, X: Array, amounts: Array, noted: Array) -> list[tuple[int, str]]:
    """Read the numbers that the kernel left; those features among them that are large, with their columns."""
    rows, columns = noted[:, 0], noted[:, 1]
    cells = [block[start:end].decode("utf-8") for start, end in noted[:, 2:].tolist()]
    values = np.array([careful_number(cell) for cell in cells], dtype=np.float64)
    narrow, of_X = round_texts(values, cells), columns < X.shape[1]
    if (np.isinf(narrow) & of_X).any() or not (np.isfinite(values) & (values >= 0) | of_X).all():
        raise NotPlain
    X[rows[of_X], columns[of_X]] = narrow[of_X]
    amounts[rows[~of_X], columns[~of_X] - X.shape[1]] = values[~of_X]
    large = np.flatnonzero(of_X & (np.abs(values) >= EXACT)).tolist()
    return [(int(columns[cell]), cells[cell]) for cell in large]


def _numbered(text: Array, spans: Array) -> tuple[Array, list[str]]:
    """Which of the distinct texts each row has, and these."""
    n = len(spans)
    slots = np.full(1 << (2 * n).bit_length(), -1, dtype=np.int64)
    codes, firsts = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    count = kernels.number_texts(text, spans, slots, codes, firsts)
    return codes, list(copied_texts(text, spans[firsts[:count]]))
