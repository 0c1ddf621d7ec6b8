"""Pieces of a LETOR file: read ahead in one thread, through its compression, each ending at the end of a line."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.files import open_bytes, place_in_file
from podium.formats.decimals import PADDING
from podium.formats.errors import FormatError
from podium.formats.letor import kernels

_FIRST_BYTES = 1 << 20  # the first piece is small: columns and rows are estimated from it
PIECE_BYTES = 2 << 20  # small enough for a processor's own cache
LINE_BYTES = 64 << 20  # a line must fit into memory as a whole: longer ones are an error


@dataclass(frozen=True)
class Piece:
    """Whole lines of a file, in memory."""

    buffer: bytearray
    start: int
    end: int
    unterminated: bool  # the last line has no newline in the file
    lines: np.ndarray  # where the rows are, for the kernels
    n_lines: int
    bad_comment: int  # where a comment after all these rows has a byte that no text has, or -1
    position: int  # how much of the file was read by then, as it lies on the disk

    @property
    def text(self) -> np.ndarray:
        return np.frombuffer(self.buffer, dtype=np.uint8)


class LongLine(Exception):
    """A line is longer than `LINE_BYTES`; the caller, who counts lines, adds its number."""


class Pieces:
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

    def read(self) -> Piece | None:
        """The next piece, or None at the end of the file."""
        buffer, filled, end = self._fill()
        if end == 0:
            if self._error is not None:
                raise self._error
            return None
        self._rest = bytes(memoryview(buffer)[end:filled])
        unterminated = buffer[end - 1] != 10
        if unterminated:
            buffer[end] = 10
            end += 1
        start = 3 if not self._started and buffer.startswith(b"\xef\xbb\xbf") else 0
        self._started = True
        lines, n_lines, bad_comment = find_rows(np.frombuffer(buffer, dtype=np.uint8), start, end)
        return Piece(buffer, start, end, unterminated, lines, n_lines, bad_comment, place_in_file(self.stream))

    def release(self, piece: Piece) -> None:
        """Return the memory of a parsed piece for the next one."""
        if len(piece.buffer) == PIECE_BYTES + PADDING:
            self._free.append(piece.buffer)

    def close(self) -> None:
        self.stream.close()

    def _fill(self) -> tuple[bytearray, int, int]:
        """A buffer, how many bytes it holds, and where its last whole line ends (0: nothing is left)."""
        wanted = PIECE_BYTES if self._started else min(_FIRST_BYTES, PIECE_BYTES)
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
            if filled >= LINE_BYTES:
                raise LongLine
            wanted = min(2 * wanted, LINE_BYTES)
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


@np.errstate(over="ignore")  # numbers wrap in kernels; uncompiled ones warn of it
def find_rows(text: np.ndarray, start: int, end: int) -> tuple[np.ndarray, int, int]:
    for bytes_per_row in (64, 2):  # most files need no more room than the first number gives, none more than the second
        lines = np.empty(((end - start) // bytes_per_row + 16, 6), dtype=np.int32)
        rows, n_lines, bad_comment = kernels.find_rows(text, start, end, lines)
        if rows >= 0:
            break
    return lines[:rows], int(n_lines), int(bad_comment)
