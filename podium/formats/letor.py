"""LETOR text, the common language of ranking data: `label qid:id 1:value 2:value ... #comment`, a document a line.

A file is read ahead in pieces that end at a newline, and several threads parse them straight into the array that
becomes `RankingData.X`. Nothing depends on how the file was cut or on the number of threads; of several bad lines the
first is reported.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from podium._files import open_bytes, place_in_file, write_whole
from podium._numba import readonly
from podium._progress import Report
from podium._threads import usable_threads
from podium.data import RankingData, as_query_ids, group_rows
from podium.formats import letor_kernels as kernels
from podium.formats.decimals import LONGEST_FLOAT32, PADDING, power_table
from podium.formats.errors import FormatError
from podium.texts import Texts

FilePath = str | os.PathLike[str]

_FIRST_BYTES = 1 << 20  # the first piece is small: it tells how many columns and rows to expect
_PIECE_BYTES = 2 << 20  # small enough for a processor's own cache
_LINE_BYTES = 64 << 20  # a line must fit into memory as a whole: longer ones are an error
_SEGMENT_BYTES = 64 << 20  # how much room is made at a time where the size of the file does not tell
_MEMORY_SHARE = 0.8
_MOST_FEATURES = 10_000_000  # a row of so many takes 40 MB
_FLOAT32_END = 2.0**128 - 2.0**103  # from here on a number is infinite as float32


def read_letor(
    path: FilePath,
    *,
    missing: str = "zero",
    n_features: int | None = None,
    max_features: int = 100_000,
    zero_based: bool = False,
    strict: bool = False,
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> RankingData:
    """Read a LETOR file, plain or compressed (gz, xz, bz2, zst).

    A feature that a row does not name is 0, or NaN with `missing="nan"`; the value `nan` is NaN. `n_features` sets the
    number of columns, else the highest index does, up to `max_features`. Indices count from 1, or from 0 with
    `zero_based`. Rows of a query may lie anywhere: they are grouped, with a warning if queries are interleaved, or an
    error if `strict`. `progress` is called with the bytes of the file that were read and with all of them.
    """
    rules = _rules(path, True, missing, n_features, max_features, zero_based)
    return _group_by_qid(_read(rules, n_jobs, progress), rules.path, strict)


def read_svmlight(
    path: FilePath,
    *,
    group_sizes: Any,
    missing: str = "zero",
    n_features: int | None = None,
    max_features: int = 100_000,
    zero_based: bool = False,
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> RankingData:
    """Read the same text without `qid:`; `group_sizes` has the number of rows of each query, as LightGBM's `.query`."""
    rules = _rules(path, False, missing, n_features, max_features, zero_based)
    table = _read(rules, n_jobs, progress)
    _, offsets, query_ids = group_rows(as_query_ids(None, group_sizes, len(table.y)))
    rows = np.arange(len(table.y), dtype=np.int64)
    return RankingData(table.X, table.y, offsets, query_ids, rows, table.docids, table.comments)


def write_letor(data: RankingData, path: FilePath, *, sparse: bool = False) -> None:
    """Write a LETOR file, compressed by its suffix, that reads back to the same data.

    `sparse` leaves out features that are 0. Weights and feature names have no place in this format.
    """
    lost = [name for name in ("document_weight", "query_weight", "feature_names") if getattr(data, name) is not None]
    if lost:
        message = f"{os.fspath(path)}: LETOR text has no place for {', '.join(lost)}; a .podium-data file keeps them."
        warnings.warn(message, stacklevel=2)
    if data.n_rows == 0:
        raise ValueError(f"{os.fspath(path)}: the data have no rows, and LETOR text cannot say so. Nothing is written.")
    with write_whole(path) as stream:
        for block in _lines(data, sparse):
            stream.write(block)


# ------------------------------------------------------------------------------------------------------ reading ahead


@dataclass(frozen=True)
class _Piece:
    """Whole lines of a file, in memory."""

    buffer: bytearray
    start: int
    end: int
    cut: bool  # the last line has no newline in the file
    lines: np.ndarray  # where the rows are, for the kernels
    n_lines: int
    bad_comment: int  # where a comment behind all these rows has a byte that no text has, or -1
    position: int  # how much of the file was read by then, as it lies on the disk

    @property
    def text(self) -> np.ndarray:
        return np.frombuffer(self.buffer, dtype=np.uint8)


class _LongLine(Exception):
    """A line is longer than `_LINE_BYTES`. Which one, only he knows who counts the lines."""


class _Pieces:
    """A file, read piece by piece, by one thread at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stream = open_bytes(path)
        self.size = os.fstat(self.stream.fileno()).st_size
        self._plain = isinstance(self.stream, io.FileIO)
        self._free: list[bytearray] = []
        self._rest = b""
        self._bytes = 0
        self._started = False
        self._ended = False
        self._error: FormatError | None = None

    def read(self) -> _Piece | None:
        """The next piece, or None at the end of the file."""
        buffer, filled, end = self._fill()
        if end == 0:
            if self._error is not None:
                raise self._error
            return None
        self._rest = bytes(memoryview(buffer)[end:filled])
        cut = buffer[end - 1] != 10
        if cut:
            buffer[end] = 10
            end += 1
        start = 3 if not self._started and buffer.startswith(b"\xef\xbb\xbf") else 0
        self._started = True
        lines, n_lines, bad_comment = _find_rows(np.frombuffer(buffer, dtype=np.uint8), start, end)
        return _Piece(buffer, start, end, cut, lines, n_lines, bad_comment, place_in_file(self.stream))

    def release(self, piece: _Piece) -> None:
        """The piece is done with; its memory serves the next one."""
        if len(piece.buffer) == _PIECE_BYTES + PADDING:
            self._free.append(piece.buffer)

    def close(self) -> None:
        self.stream.close()

    def _fill(self) -> tuple[bytearray, int, int]:
        """A buffer, how many bytes it holds, and where its last whole line ends (0: nothing is left)."""
        wanted = _PIECE_BYTES if self._started else min(_FIRST_BYTES, _PIECE_BYTES)
        filled = len(self._rest)
        if self._plain:  # a small file needs no large buffer
            wanted = min(wanted, max(self.size - self._bytes, 0) + filled + 1)
        buffer = self._free.pop() if self._free else bytearray(max(wanted, filled) + PADDING)
        if filled + PADDING > len(buffer):
            buffer = bytearray(filled + PADDING)
        buffer[:filled] = self._rest
        while True:
            filled = self._read_into(buffer, filled, wanted)
            if self._ended and self._error is None:
                return buffer, filled, filled  # the last line may lack its newline
            end = buffer.rfind(b"\n", 0, filled) + 1
            if end or self._ended:
                return buffer, filled, end
            if filled >= _LINE_BYTES:
                raise _LongLine
            wanted = min(2 * wanted, _LINE_BYTES)
            buffer = buffer + bytearray(max(0, wanted + PADDING - len(buffer)))

    def _read_into(self, buffer: bytearray, filled: int, wanted: int) -> int:
        view = memoryview(buffer)
        # Where compressed data break off, readinto loses what came before; the codec's own readinto1 gives it out.
        source: Any = getattr(self.stream, "raw", self.stream)
        read = getattr(source, "readinto1", None) or source.readinto
        while filled < wanted and not self._ended:
            try:
                count = read(view[filled:wanted]) or 0
            except Exception as error:  # every codec has an error class of its own
                if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
                    raise
                self._error = FormatError(self.path, f"the compressed data cannot be read ({error}). Is it cut off?")
                count = 0
            filled += count
            self._bytes += count
            self._ended = count == 0
        if self._ended and self._plain and self._bytes < self.size:
            message = f"the file ended after {self._bytes} of {self.size} bytes: it was changed while it was read."
            self._error = FormatError(self.path, message)
        return filled


@np.errstate(over="ignore")  # numbers wrap in kernels; uncompiled ones say so
def _find_rows(text: np.ndarray, start: int, end: int) -> tuple[np.ndarray, int, int]:
    for bytes_a_row in (64, 2):  # most files need no more room than the first number gives, none more than the second
        lines = np.empty(((end - start) // bytes_a_row + 16, 6), dtype=np.int32)
        rows, n_lines, bad_comment = kernels.find_rows(text, start, end, lines)
        if rows >= 0:
            break
    return lines[:rows], int(n_lines), int(bad_comment)


# ------------------------------------------------------------------------------------------------------------ parsing


@dataclass(frozen=True)
class _Rules:
    """How to read a file."""

    path: str
    with_qid: bool
    base: int  # the index of column 0
    limit: int  # columns that the file may have
    limit_name: str
    width: int  # columns that X has at least
    absent: np.float32


@dataclass(frozen=True)
class _Rows:
    """What the rows of a piece say."""

    X: np.ndarray
    y: np.ndarray
    width: int  # columns that X should have had
    tokens: list[bytes]  # the query id of each run
    runs: np.ndarray  # (runs, 3): first row, first line, last line
    docids: Texts | None
    comments: Texts | None
    fault: tuple[int, int, int] | None  # row, fault, place


class _Scratch:
    """Arrays that the kernels fill for a piece, and that are gone with it."""

    def __init__(self, n: int, waiting: int) -> None:
        self.runs = np.empty((n, 5), dtype=np.int64)
        self.notes = np.zeros((n, 4), dtype=np.int64)  # rows behind a fault are not filled
        self.undecided = np.empty((waiting, 4), dtype=np.int64)
        self.counts = np.zeros(5, dtype=np.int64)


def _rules(
    path: FilePath, with_qid: bool, missing: str, n_features: int | None, max_features: int, zero_based: bool
) -> _Rules:
    if missing not in ("zero", "nan"):
        raise ValueError(f'missing must be "zero" or "nan"; got {missing!r}.')
    name, limit = ("max_features", max_features) if n_features is None else ("n_features", n_features)
    if not isinstance(limit, int | np.integer) or not 1 <= limit <= _MOST_FEATURES:
        raise ValueError(f"{name} must be a whole number from 1 to {_MOST_FEATURES}; got {limit!r}.")
    absent = np.float32(np.nan if missing == "nan" else 0.0)
    base = 0 if zero_based else 1
    return _Rules(os.fspath(path), with_qid, base, int(limit), f"{name}={limit}", int(n_features or 0), absent)


def _parse(piece: _Piece, X: np.ndarray, y: np.ndarray, rules: _Rules) -> _Rows:
    """Parse a piece into X and y. The kernels release the interpreter: many threads may do this."""
    fault, waiting = kernels.LIST_FULL, (piece.end - piece.start) // 64 + 16
    while fault == kernels.LIST_FULL:
        scratch = _Scratch(len(y), waiting)
        row, fault, place = _run_kernels(piece, X, y, rules, scratch)
        waiting *= 4
    row, fault, place = _settle(piece, X, y, scratch, (row, fault, place))
    if fault == kernels.FINE and piece.bad_comment >= 0:
        fault, place = kernels.BAD_COMMENT, piece.bad_comment
    runs = scratch.runs[: scratch.counts[kernels.RUNS]]
    return _Rows(
        X=X,
        y=y,
        width=int(scratch.counts[kernels.WIDEST]),
        tokens=_tokens(_copied(piece.text, np.ascontiguousarray(runs[:, 1:3]))),
        runs=runs[:, [0, 3, 4]],
        docids=_gather(piece, scratch, 2),
        comments=_gather(piece, scratch, 0),
        fault=None if fault == kernels.FINE else (row, fault, place),
    )


@np.errstate(over="ignore")
def _run_kernels(piece: _Piece, X: np.ndarray, y: np.ndarray, rules: _Rules, scratch: _Scratch) -> tuple[int, int, int]:
    """Run the steps one after the other, each on the rows that were fine so far; (row, fault, place) of the end."""
    text, lines, base, limit = piece.text, piece.lines, rules.base, rules.limit
    counts, undecided, powers = scratch.counts, scratch.undecided, power_table()
    end = kernels.read_heads(text, lines, rules.with_qid, powers, y, scratch.runs, undecided, counts)
    keys = _keys(X.shape[1], base)
    later = kernels.read_features(text, lines[: end[0]], keys, base, limit, rules.absent, powers, X, undecided, counts)
    end = end if later[1] == kernels.FINE else later
    if counts[kernels.ANY_UNSORTED]:
        later = kernels.refuse_twice(text, lines[: end[0]], base, limit, np.zeros(X.shape[1], dtype=np.int64))
        end = end if later[1] == kernels.FINE else later
    later = kernels.read_endings(text, lines[: end[0]], scratch.notes, counts)
    row, fault, place = end if later[1] == kernels.FINE else later
    return int(row), int(fault), int(place)


@lru_cache(maxsize=4)
def _keys(columns: int, base: int) -> np.ndarray:
    keys = np.empty((columns + 1, 4), dtype=np.uint64)
    kernels.fill_keys(keys, base)
    return keys.reshape(-1)


def _settle(
    piece: _Piece, X: np.ndarray, y: np.ndarray, scratch: _Scratch, end: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Let Python read the few numbers that the kernels left undecided; the first fault, theirs or of such a number."""
    for row, column, start, stop in scratch.undecided[: scratch.counts[kernels.WAITING]].tolist():
        value = float(piece.buffer[start:stop])
        if column == kernels.LABEL:
            fault, good = kernels.LABEL_RANGE, 0.0 <= value < np.inf
            y[row] = value
        else:
            fault, good = kernels.VALUE_RANGE, abs(value) < _FLOAT32_END
            if good and column < X.shape[1]:
                X[row, column] = value
        if not good and (row < end[0] or (row == end[0] and end[1] == kernels.FINE)):
            end = row, fault, start
    return end


def _gather(piece: _Piece, scratch: _Scratch, first: int) -> Texts | None:
    """The comments (first=0) or the document ids (first=2) of all rows; None when no row has one."""
    if scratch.counts[kernels.NOTED] == 0:
        return None
    texts = _copied(piece.text, np.ascontiguousarray(scratch.notes[:, first : first + 2]))
    return texts if len(texts.data) else None


def _tokens(texts: Texts) -> list[bytes]:
    data = texts.data.tobytes()
    return [data[start:end] for start, end in pairwise(texts.offsets.tolist())]


def _copied(text: np.ndarray, spans: np.ndarray) -> Texts:
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(spans[:, 1] - spans[:, 0], out=offsets[1:])
    data = np.empty(offsets[-1], dtype=np.uint8)
    kernels.copy_spans(text, spans, data)
    return Texts(data, offsets)


# ----------------------------------------------------------------------------------------------------- the whole file


class _Matrix:
    """X and y of all rows: one array from the start if the size of the file tells how long it will be."""

    def __init__(self, rules: _Rules, size: int) -> None:
        self.rules = rules
        self.size = size
        self.width = rules.width
        self.rows = 0  # for which room was asked
        self._segments: list[tuple[np.ndarray, np.ndarray]] = []
        self._used = 0  # rows of the last segment
        self._kept: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def reserve(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
        """Room for the rows of a piece."""
        n = len(piece.lines)
        if n == 0:
            return np.empty((0, self.width), dtype=np.float32), np.empty(0)
        self.rows += n
        _refuse_more_than_memory(self.rules, self.rows, self.width)
        if not self._segments or self._segments[-1][0].shape[1] != self.width or self._room() < n:
            self._segments.append(self._new_segment(n, piece.position))
            self._used = 0
        X, y = self._segments[-1]
        place = slice(self._used, self._used + n)
        self._used += n
        return X[place], y[place]

    def widen(self, width: int, rows: int) -> None:
        """These rows had too little room: they will ask again, and all others after them."""
        self.width = max(self.width, width)
        self.rows -= rows

    def keep(self, X: np.ndarray, y: np.ndarray) -> None:
        """These rows are final, in the order of the calls."""
        self._kept.append((X, y))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        n = sum(len(y) for _, y in self._kept)
        if len(self._segments) == 1:
            self._kept.clear()
            X, y = self._segments.pop()
            X.resize((n, self.width), refcheck=False)  # a thread may still hold views of it, but looks at none
            y.resize(n, refcheck=False)
            return X, y
        self._segments.clear()
        X, y = np.empty((n, self.width), dtype=np.float32), np.empty(n)
        end = 0
        while self._kept:  # each part is freed when it is copied
            part, labels = self._kept.popleft()
            start, end, columns = end, end + len(labels), part.shape[1]
            y[start:end], X[start:end, :columns], X[start:end, columns:] = labels, part, self.rules.absent
        return X, y

    def _room(self) -> int:
        return len(self._segments[-1][1]) - self._used

    def _new_segment(self, n: int, position: int) -> tuple[np.ndarray, np.ndarray]:
        # Room that is not touched costs address space only, so the first guess may be generous.
        expected = n + int(1.25 * self.rows * self.size / max(position, 1)) - self.rows
        most = _SEGMENT_BYTES if self._segments else _memory_limit()
        room = max(n, min(expected, most // (4 * self.width + 8)))
        with suppress(MemoryError):
            return np.empty((room, self.width), dtype=np.float32), np.empty(room)
        return np.empty((n, self.width), dtype=np.float32), np.empty(n)


def _refuse_more_than_memory(rules: _Rules, rows: int, width: int) -> None:
    needed, limit = 4 * rows * width, _memory_limit()
    if needed > limit:
        raise ValueError(
            f"{rules.path}: {rows} rows or more with {width} features take {needed / 1e9:.1f} GB as a matrix; this "
            f"machine has room for {limit / 1e9:.1f} GB. Is the index {width - 1 + rules.base} right? "
            "Else number the features without gaps, or split the file."
        )


@lru_cache(maxsize=1)
def _memory_limit() -> int:
    """Bytes that a matrix may take: most of the machine, or of the container that it runs in."""
    sizes = [2**62]
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as limit:
        sizes.append(int(limit.read()))
    return int(_MEMORY_SHARE * min(sizes))


class _Runs:
    """Runs of rows with one query id, in the order of the file."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # of the ids, by first appearance
        self._codes: list[np.ndarray] = []
        self._places: list[np.ndarray] = []

    def add(self, tokens: list[bytes], places: np.ndarray) -> None:
        """places: (runs, 3), first row, first line and last line."""
        numbers = self.numbers
        self._codes.append(np.array([numbers.setdefault(token, len(numbers)) for token in tokens], dtype=np.int64))
        self._places.append(places)

    def joined(self) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the ids, and places; runs that lay in two pieces are one again."""
        codes, places = np.concatenate(self._codes), np.concatenate(self._places)
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        ends = np.append(starts[1:], len(codes)) - 1
        return codes[starts], np.column_stack([places[starts, :2], places[ends, 2]])


class _Table:
    """A file on its way into arrays: a piece is given room, parsed, and then collected in its turn."""

    def __init__(self, rules: _Rules, pieces: _Pieces, progress: Report | None) -> None:
        self.rules = rules
        self.pieces = pieces
        self.progress = progress
        self.matrix = _Matrix(rules, pieces.size)
        self.runs = _Runs()
        self.lines = 0
        self.rows = 0
        self._lengths: list[int] = []  # rows of each piece
        self._docids: list[Texts | None] = []
        self._comments: list[Texts | None] = []

    def room_for(self, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
        if self.matrix.width == 0 and len(piece.lines) > 0:  # parse once without keeping features, to count columns
            n = len(piece.lines)
            self.matrix.width = _parse(piece, np.empty((n, 0), dtype=np.float32), np.empty(n), self.rules).width
        return self.matrix.reserve(piece)

    def collect(self, piece: _Piece, parsing: Future[_Rows]) -> None:
        rows = parsing.result()
        if rows.width > rows.X.shape[1]:
            self.matrix.widen(rows.width, len(rows.y))
            rows = _parse(piece, *self.matrix.reserve(piece), self.rules)
        if rows.fault is not None:
            raise _explain(piece, self.rules, self.lines, *rows.fault)
        self.matrix.keep(rows.X, rows.y)
        self.runs.add(rows.tokens, rows.runs + np.array([self.rows, self.lines + 1, self.lines + 1]))
        self._docids.append(rows.docids)
        self._comments.append(rows.comments)
        self._lengths.append(len(rows.y))
        self.rows += len(rows.y)
        self.lines += piece.n_lines
        if self.progress is not None:
            self.progress(piece.position, self.pieces.size)
        self.pieces.release(piece)

    def finish(self) -> None:
        if self.rows == 0:
            what = f"all {self.lines} lines are blank or comments" if self.lines else "the file is empty"
            raise FormatError(self.rules.path, f"no rows: {what}. Expected lines such as '2 qid:10 1:0.5 2:3'.")
        self.X, self.y = self.matrix.finish()
        self.docids, self.comments = self._joined(self._docids), self._joined(self._comments)

    def _joined(self, parts: list[Texts | None]) -> Texts | None:
        if all(part is None for part in parts):
            return None
        nothing = np.empty(0, dtype=np.uint8)
        return Texts.concat(
            [Texts(nothing, np.zeros(n + 1)) if part is None else part for part, n in zip(parts, self._lengths)]
        )


def _read(rules: _Rules, n_jobs: int | None, progress: Report | None) -> _Table:
    threads = usable_threads(n_jobs)
    waiting: deque[tuple[_Piece, Future[_Rows]]] = deque()
    failure: Exception | None = None
    with _opened(rules.path) as pieces, _pool(1) as reader, _pool(threads) as workers:
        table = _Table(rules, pieces, progress)
        ahead = reader.submit(pieces.read)
        while True:
            try:
                piece = ahead.result()
                if piece is None:
                    break
                ahead = reader.submit(pieces.read)
                room = table.room_for(piece)
            except (ValueError, _LongLine) as error:  # an earlier line may be bad: that would be the one to report
                failure = error
                break
            waiting.append((piece, workers.submit(_parse, piece, *room, rules)))
            if len(waiting) > threads:
                table.collect(*waiting.popleft())
        while waiting:
            table.collect(*waiting.popleft())
    if isinstance(failure, _LongLine):
        message = f"longer than {_LINE_BYTES >> 20} MiB. Is this text, with newlines?"
        raise FormatError(rules.path, message, table.lines + 1)
    if failure is not None:
        raise failure
    table.finish()
    return table


@contextmanager
def _opened(path: str) -> Iterator[_Pieces]:
    pieces = _Pieces(path)
    try:
        yield pieces
    finally:
        pieces.close()


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    pool = ThreadPoolExecutor(threads, thread_name_prefix="podium-letor")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


# ----------------------------------------------------------------------------------------------------------- grouping


def _group_by_qid(table: _Table, path: str, strict: bool) -> RankingData:
    codes, places = table.runs.joined()
    names = [token.decode("utf-8", "surrogateescape") for token in table.runs.numbers]
    X, y, docids, comments, n = table.X, table.y, table.docids, table.comments, len(table.y)
    lengths = np.diff(np.append(places[:, 0], n))
    rows = np.arange(n, dtype=np.int64)
    if len(codes) > len(names):
        _report_interleaved(path, names, codes, places, strict)
        row_codes = np.repeat(codes, lengths)
        rows = np.argsort(row_codes, kind="stable")
        lengths = np.bincount(row_codes)
        X, y = X[rows], y[rows]
        docids = None if docids is None else docids.take(rows)
        comments = None if comments is None else comments.take(rows)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
    return RankingData(X, y, offsets, _query_ids(names), rows, docids, comments)


def _report_interleaved(path: str, names: list[str], codes: np.ndarray, places: np.ndarray, strict: bool) -> None:
    """Say which query comes back first, and how many do."""
    _, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    again = int(np.setdiff1d(np.arange(len(codes)), firsts)[0])
    first = int(firsts[codes[again]])
    start, end = int(places[first, 1]), int(places[first, 2])
    lines = f"line {start}" if start == end else f"lines {start}-{end}"
    number = int((counts > 1).sum())
    facts = (
        f'rows of query "{_shortened(names[codes[again]])}" are at {lines} and again at line {int(places[again, 1])}; '
        f"{number} {'query is' if number == 1 else 'queries are'} interleaved."
    )
    if strict:
        raise FormatError(path, f"{facts} Put the rows of a query together, or pass strict=False to have them grouped.")
    warnings.warn(f"{path}: {facts} They were grouped; pass strict=True to refuse.", stacklevel=4)


def _query_ids(names: list[str]) -> np.ndarray:
    """int64 if every name is the usual text of such a number, else Python strings: no two names become one id."""
    with suppress(ValueError):
        numbers = [int(name) if len(name) <= 20 else 2**63 for name in names]
        if all(-(2**63) <= number < 2**63 and str(number) == name for number, name in zip(numbers, names)):
            return np.array(numbers, dtype=np.int64)
    ids = np.empty(len(names), dtype=object)
    ids[:] = names
    return ids


# ------------------------------------------------------------------------------------------------- what is wrong where


_BLANKS = re.compile(rb"[ \t\r]*")
_FIELD = re.compile(rb"[^ \t\r#]*")


def _explain(piece: _Piece, rules: _Rules, lines_before: int, row: int, fault: int, place: int) -> FormatError:
    """Put a fault into words: what was expected, what was found, what to do."""
    if row < len(piece.lines):
        number, newline = int(piece.lines[row, kernels.NUMBER]), int(piece.lines[row, kernels.NEWLINE])
    else:  # a comment behind all rows
        number, newline = piece.n_lines, piece.buffer.find(b"\n", place)
    start = max(piece.buffer.rfind(b"\n", 0, place) + 1, piece.start)
    line = lines_before + number + 1
    message = _not_text(piece.buffer, start, newline)
    if message is None:
        found, last = _field_at(piece.buffer, start, newline, place)
        message = _words(rules, fault, found, cut=last and piece.cut and newline == piece.end - 1)
    return FormatError(rules.path, message, line)


def _not_text(buffer: bytearray, start: int, newline: int) -> str | None:
    """Bytes that no text has, wherever the line became unreadable."""
    nul = buffer.find(b"\0", start, newline)
    if nul >= 0:
        return f"not LETOR text (NUL byte at column {nul - start + 1}); is it UTF-16 or compressed?"
    carriage_return = buffer.find(b"\r", start, newline - 1)
    if carriage_return >= 0:
        column = carriage_return - start + 1
        return f"not LETOR text (carriage return at column {column}, not at the end); write newlines between lines."
    first = buffer[start]
    if first >= 128 or (first < 32 and first != 9):
        return f"not LETOR text (byte 0x{first:02x} at column 1); is it compressed or binary?"
    return None


def _field_at(buffer: bytearray, start: int, newline: int, place: int) -> tuple[bytes, bool]:
    """The field at `place`, which may lie behind its colon, and whether it is the last of its line."""
    if buffer[place - 1 : place] == b":":
        place = max(start, buffer.rfind(b" ", start, place) + 1, buffer.rfind(b"\t", start, place) + 1)
    end = _end_of(_FIELD, buffer, place, newline)
    return bytes(buffer[place:end]), _end_of(_BLANKS, buffer, end, newline) == newline


def _end_of(pattern: re.Pattern[bytes], buffer: bytearray, start: int, end: int) -> int:
    found = pattern.match(buffer, start, end)
    return start if found is None else found.end()


def _words(rules: _Rules, fault: int, found: bytes, cut: bool) -> str:
    shown = _shown(found)
    index, _, value = found.partition(b":")
    feature = f"feature {_shortened(index.decode('ascii', 'backslashreplace'))}"
    if fault == kernels.BAD_LABEL:
        return f"expected a label (a number, 0 or larger) as 1st field, found {shown}."
    if fault == kernels.LABEL_RANGE:
        return f"label {shown}; labels must be finite numbers, 0 or larger."
    if fault == kernels.NO_QID and found:
        return f"expected 'qid:<id>' as 2nd field, found {shown}. Every line needs its query there."
    if fault in (kernels.NO_QID, kernels.BAD_QID):
        return f"expected 'qid:<id>' as 2nd field, found {shown if found else 'the end of the line'}. Name the query."
    if cut and fault in (kernels.NO_FIELD, kernels.BAD_VALUE):
        return f"the line ends inside 'feature:value', with {shown}. Is the file cut off?"
    if fault == kernels.NO_FIELD:
        return f"expected 'feature:value', found {shown}. Comments start with '#'."
    if fault == kernels.LOW_INDEX and rules.base == 1 and not index.startswith(b"-"):
        return f"{feature}: indices count from 1. Pass zero_based=True if those of this file count from 0."
    if fault == kernels.LOW_INDEX:
        return f"{feature}: indices count from {rules.base}."
    if fault == kernels.HIGH_INDEX:
        return f"feature index {feature[8:]} exceeds {rules.limit_name}. Pass a larger number if the file is right."
    if fault == kernels.TWICE:
        return f"{feature} is in this row twice. Keep one value."
    if fault == kernels.BAD_VALUE and not value:
        return f"{feature} has no value: found {shown}, expected 'feature:value'."
    if fault == kernels.BAD_VALUE and value.lower().lstrip(b"+-") not in (b"inf", b"infinity"):
        return f"{feature}: cannot read {_shown(value)} as a number."
    return f"{feature}: {_shown(value)} is not finite as float32. Write nan for a missing value."


def _shown(token: bytes) -> str:
    """A token between quotes, shortened, with everything that does not print escaped."""
    return repr(_shortened(token.decode("utf-8", "backslashreplace")))


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}...{text[-10:]}"


# ------------------------------------------------------------------------------------------------------------ writing


_NOT_IN_QID = re.compile(r"[\x00-\x20#]")


@dataclass(frozen=True)
class _Column:
    """A text for each row, kept once for all rows that have the same one."""

    texts: Texts
    codes: np.ndarray  # (rows,): which text

    def arrays(self, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return readonly(self.texts.data), readonly(self.texts.offsets), readonly(self.codes[rows])


def _labels(data: RankingData) -> _Column:
    bits, codes = np.unique(data.y.view(np.int64), return_inverse=True)  # bits: -0 is not 0
    return _Column(Texts.of([_label_text(label) for label in bits.view(np.float64).tolist()]), codes)


def _label_text(label: float) -> str:
    text = repr(label)
    return text.removesuffix(".0")


def _queries(data: RankingData) -> _Column:
    texts = Texts.of([f" qid:{name}" for name in map(str, data.query_ids.tolist())])
    for name in map(str, data.query_ids.tolist()):
        if not name or _NOT_IN_QID.search(name):
            raise ValueError(
                f"query id {_shortened(name)!r}: LETOR text allows no blanks, no '#' and no empty id there."
            )
    return _Column(texts, np.repeat(np.arange(data.n_queries), data.group))


def _notes(data: RankingData) -> tuple[_Column, np.ndarray]:
    """What stands behind `#` in each row, and the mark before it."""
    docids, comments = data.docid_texts, data.comment_texts
    rows = np.arange(data.n_rows)
    if comments is not None:
        _refuse_bytes(comments, "\n\r\0", "comment", "LETOR text allows no line ends there")
        if docids is not None:
            _refuse_other_docids(comments, docids)
        return _Column(comments, rows), _bytes(" #")
    if docids is not None:
        _refuse_bytes(docids, " \t\n\r\0", "document id", "LETOR text allows no blanks there")
        return _Column(docids, rows), _bytes(" #docid = ")
    return _Column(Texts.of([""]), np.zeros(data.n_rows, dtype=np.int64)), _bytes("")


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _refuse_bytes(texts: Texts, letters: str, what: str, why: str) -> None:
    bad = np.isin(texts.data, _bytes(letters))
    if bad.any():
        row = int(np.searchsorted(texts.offsets, np.argmax(bad), side="right")) - 1
        raise ValueError(f"row {row}: {what} {_shortened(texts[row])!r}; {why}.")


def _refuse_other_docids(comments: Texts, docids: Texts) -> None:
    """Document ids are written as part of the comments, so these must name them."""
    padded = np.concatenate([comments.data, np.zeros(PADDING, dtype=np.uint8)])
    spans = np.empty((len(comments), 2), dtype=np.int64)
    kernels.find_docids(padded, readonly(comments.offsets), spans)
    named = _copied(padded, spans)
    if named != docids:
        row = next(row for row, (one, other) in enumerate(zip(named, docids)) if one != other)
        raise ValueError(
            f"row {row}: the document id is {_shortened(docids[row])!r}, but the comment {_shortened(comments[row])!r} "
            "does not say so, and LETOR text has no other place for it."
        )


def _lines(data: RankingData, sparse: bool) -> Iterator[memoryview]:
    """The lines of the file, many at a time."""
    X, labels, queries = data.X, _labels(data), _queries(data)
    notes, mark = _notes(data)
    longest = X.shape[1] * (len(str(X.shape[1])) + 2 + LONGEST_FLOAT32) + len(mark) + 2
    longest += sum(int(np.diff(column.texts.offsets).max()) for column in (labels, queries))
    ends = np.cumsum(longest + np.diff(notes.texts.offsets)[notes.codes])  # room for the lines up to each row
    start = 0
    while start < len(X):
        written = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, written + _PIECE_BYTES, side="right")))
        rows, room = slice(start, end), int(ends[end - 1]) - written
        _refuse_infinite(X[rows], start)
        out = np.empty(room, dtype=np.uint8)
        texts = labels.arrays(rows), queries.arrays(rows), notes.arrays(rows)
        with np.errstate(over="ignore"):
            keys, powers = _keys(X.shape[1], 1), power_table()
            size = kernels.write_rows(out, X[rows], *texts, mark, sparse, start == 0, keys, powers)
        yield out[:size].data
        start = end


def _refuse_infinite(X: np.ndarray, start: int) -> None:
    infinite = np.isinf(X)
    if infinite.any():
        row = start + int(np.argmax(infinite.any(axis=1)))
        raise ValueError(f"row {row} has an infinite feature; LETOR text allows finite numbers and nan.")
