"""A LETOR file as one table: pieces parsed on several threads, straight into arrays as large as the file needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from podium._runtime.machine import memory
from podium._runtime.progress import Report
from podium._runtime.threads import threads_for, usable_threads
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.texts import Texts
from podium.formats.errors import FormatError
from podium.formats.letor import kernels
from podium.formats.letor.faults import explain
from podium.formats.letor.names import names_before
from podium.formats.letor.parsing import Rows, Rules, ends_without_features, has_labels, parse_piece
from podium.formats.letor.pieces import LINE_BYTES, LongLine, Piece, Pieces

_SEGMENT_BYTES = 64 << 20  # allocated at a time where the number of rows cannot be estimated from the size of the file
_MEMORY_SHARE = 0.8


class _Matrix:
    """X and y of all rows: allocated at once if the size of the file bounds the number of rows."""

    def __init__(self, rules: Rules, size: int) -> None:
        self.rules = rules
        self.size = size
        self.width = rules.width
        self.rows = 0  # for which room was asked
        self._segments: list[tuple[np.ndarray, np.ndarray]] = []
        self._used = 0  # rows of the last segment
        self._final_rows: deque[tuple[np.ndarray, np.ndarray]] = deque()

    def reserve(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
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
        rows = slice(self._used, self._used + n)
        self._used += n
        return X[rows], y[rows]

    def widen(self, width: int, rows: int) -> None:
        """These rows need more columns: they are reserved again, and all others after them."""
        self.width = max(self.width, width)
        self.rows -= rows

    def keep(self, X: np.ndarray, y: np.ndarray) -> None:
        """These rows are final, in the order of the calls."""
        self._final_rows.append((X, y))

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        n = sum(len(y) for _, y in self._final_rows)
        if len(self._segments) == 1:
            self._final_rows.clear()
            X, y = self._segments.pop()
            X.resize((n, self.width), refcheck=False)  # a thread may still hold views of it, but reads none
            y.resize(n, refcheck=False)
            return X, y
        self._segments.clear()
        X, y = np.empty((n, self.width), dtype=np.float32), np.empty(n)
        end = 0
        while self._final_rows:  # each part is freed when it is copied
            part, labels = self._final_rows.popleft()
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


def _refuse_more_than_memory(rules: Rules, rows: int, width: int) -> None:
    needed, limit = 4 * rows * width, _memory_limit()
    if needed > limit:
        raise ValueError(
            f"{rules.path}: {rows} rows or more with {width} features take {needed / 1e9:.1f} GB as a matrix; this "
            f"machine has room for {limit / 1e9:.1f} GB. Is the index {width - 1 + rules.base} right? "
            "Else number the features without gaps, or split the file."
        )


def _memory_limit() -> int:
    """Bytes that a matrix may take."""
    return int(_MEMORY_SHARE * memory())


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


class Table:
    """A file that is read into arrays: rows are reserved for a piece, parsed, and then collected in order."""

    def __init__(self, rules: Rules, pieces: Pieces, progress: Report | None) -> None:
        self.rules = rules
        self.pieces = pieces
        self.progress = progress
        self.matrix = _Matrix(rules, pieces.size)
        self.runs = _Runs()
        self.lines = 0
        self.rows = 0
        self.widest = 0
        self._bare_end = 0  # the last line, if it has neither features nor a newline
        self._lengths: list[int] = []  # rows of each piece
        self._docids: list[Texts | None] = []
        self._comments: list[Texts | None] = []
        self._before = b""  # the comments before the first row
        self._largest = 0  # numbers that stand for missing values
        self.names: tuple[str, ...] | None = None

    def begin(self, piece: Piece) -> None:
        """Take note of what stands before the first row, and of how it begins; of nothing after that."""
        if self.matrix.rows:
            return
        end = piece.end if not len(piece.lines) else int(piece.lines[0, kernels.START])
        self._before += bytes(piece.buffer[piece.start : end])
        if len(piece.lines):
            self.names = names_before(self.rules.path, self._before)
            self.rules = replace(self.rules, with_label=has_labels(piece, self.rules))
            self.matrix.width = max(self.matrix.width, min(len(self.names or ()), self.rules.limit))

    def room_for(self, piece: Piece) -> tuple[np.ndarray, np.ndarray]:
        self.begin(piece)
        if self.matrix.width == 0 and len(piece.lines) > 0:  # parse once without keeping features, to count columns
            n = len(piece.lines)
            self.matrix.width = parse_piece(piece, np.empty((n, 0), dtype=np.float32), np.empty(n), self.rules).width
        return self.matrix.reserve(piece)

    def collect(self, piece: Piece, parsing: Future[Rows]) -> None:
        rows = parsing.result()
        if rows.width > rows.X.shape[1]:
            self.matrix.widen(rows.width, len(rows.y))
            rows = parse_piece(piece, *self.matrix.reserve(piece), self.rules)
        if rows.fault is not None:
            raise explain(piece, self.rules, self.lines, *rows.fault)
        self.matrix.keep(rows.X, rows.y)
        self.widest = max(self.widest, rows.width)
        self._largest += rows.largest
        self._bare_end = self.lines + piece.n_lines if ends_without_features(piece) else 0
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
        if self._bare_end and self.widest:
            message = (
                "the last line has no features and no newline, and other lines have features. Is the file cut off?"
            )
            raise FormatError(self.rules.path, f"{message} Add a newline if it is whole.", self._bare_end)
        self.X, y = self.matrix.finish()
        self.y = y if self.rules.with_label and self.rules.labels != "ignored" else None
        if self.names is not None and len(self.names) != self.X.shape[1]:
            sizes = f"rows have {counted(self.X.shape[1], 'feature')}, and the comment before them names"
            raise FormatError(
                self.rules.path, f"{sizes} {len(self.names):,}. Name each feature, or remove the comment."
            )
        if self._largest:
            where = f"{self.rules.path}: 1.79769e308, the largest double, stands in {counted(self._largest, 'value')}"
            warn(f"{where}; it is read as missing, as Istella's files mean it.")
        self.docids, self.comments = self._joined(self._docids), self._joined(self._comments)

    def _joined(self, parts: list[Texts | None]) -> Texts | None:
        if all(part is None for part in parts):
            return None
        nothing = np.empty(0, dtype=np.uint8)
        return Texts.concat(
            [Texts(nothing, np.zeros(n + 1)) if part is None else part for part, n in zip(parts, self._lengths)]
        )


def read_whole(rules: Rules, n_jobs: int | None, progress: Report | None) -> Table:
    threads = usable_threads(n_jobs)
    waiting: deque[tuple[Piece, Future[Rows]]] = deque()
    failure: Exception | None = None
    # Not of the shared pool: reading waits for the disk, and this thread for both.
    with (
        _opened(rules.path) as pieces,
        threads_for(1, "podium-reader") as reader,
        threads_for(threads, "podium-parser") as workers,
    ):
        table = Table(rules, pieces, progress)
        ahead = reader.submit(pieces.read)
        while True:
            try:
                piece = ahead.result()
                if piece is None:
                    break
                ahead = reader.submit(pieces.read)
                room = table.room_for(piece)
            except (ValueError, LongLine) as error:  # an earlier line may be bad: that would be the one to report
                failure = error
                break
            waiting.append((piece, workers.submit(parse_piece, piece, *room, table.rules)))
            if len(waiting) > threads:
                table.collect(*waiting.popleft())
        while waiting:
            table.collect(*waiting.popleft())
    if isinstance(failure, LongLine):
        message = f"longer than {LINE_BYTES >> 20} MiB. Is this text, with newlines?"
        raise FormatError(rules.path, message, table.lines + 1)
    if failure is not None:
        raise failure
    table.finish()
    return table


@contextmanager
def _opened(path: str) -> Iterator[Pieces]:
    pieces = Pieces(path)
    try:
        yield pieces
    finally:
        pieces.close()
