"""Lines of text: a file as blocks of whole lines, words as numbers, numbers as words."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np

from podium._runtime.files import open_bytes
from podium.formats.errors import FormatError

FilePath = str | os.PathLike[str]

_BLOCK_BYTES = 1 << 19  # small enough that the words of a block stay in the processor's cache
_NEWLINE = 10
_LONGEST_LINE = 64 << 20  # a file of one endless line must not fill the memory
_NUMBER_BYTES = b"0123456789+-.eE"  # float() alone would also take 1_000 and nan


def line_blocks(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """The lines of a text file, some megabytes at a time: (number of the first line, bytes up to a line's end).

    A byte order mark is dropped. Bytes that are no text, and compressed files that end too early, are refused.
    """
    line, rest = 1, list[bytes]()  # joined once, so that a long line takes time in proportion to its length
    for piece in raw_pieces(path):
        if not rest and line == 1:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        end = piece.rfind(b"\n") + 1
        if end:
            block = _checked_text(path, line, b"".join([*rest, piece[:end]]))
            yield line, block
            line += int(
                np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
            )  # several times as fast as bytes.count
            rest = []
        rest.append(piece[end:])
        if sum(map(len, rest)) > _LONGEST_LINE:
            raise FormatError(path, f"longer than {_LONGEST_LINE >> 20} MiB; is this a text file of lines?", line)
    if any(rest):
        yield line, _checked_text(path, line, b"".join(rest))


def numbered_lines(path: FilePath) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, without its end."""
    for first, block in line_blocks(path):
        for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            yield number, line.rstrip(b"\r")


def read_numbers(path: FilePath, advice: str) -> np.ndarray:
    """One finite number per line, so number i stands in line i + 1; blank lines may follow. `advice` ends messages."""
    parts: list[np.ndarray] = []
    blank: int | None = None  # the first of the blank lines: fine at the end, an error when a number follows
    for first_line, block in line_blocks(path):
        words = [line.strip() for line in block.removesuffix(b"\n").split(b"\n")]
        filled = _without_blank_end(words)
        numbers, bad = parse_numbers(words[:filled])
        if filled and blank is not None:
            raise _bad_line(path, blank, b"", advice)
        if bad is not None:
            raise _bad_line(path, first_line + bad, words[bad], advice)
        if filled < len(words) and blank is None:
            blank = first_line + filled
        parts.append(numbers)
    return np.concatenate(parts) if parts else np.empty(0)


def parse_numbers(words: list[bytes]) -> tuple[np.ndarray, int | None]:
    """Words as float64, and the place of the first that is no finite number (None when all are)."""
    try:
        if b"".join(words).translate(None, _NUMBER_BYTES):
            raise ValueError
        numbers = np.fromiter(map(float, words), np.float64, len(words))
    except ValueError:
        return np.empty(0), next(number for number, word in enumerate(words) if not _is_number(word))
    if not np.isfinite(numbers).all():  # 1e999
        return numbers, int(np.flatnonzero(~np.isfinite(numbers))[0])
    return numbers, None


def number_text(number: float) -> str:
    """The shortest text that reads back as the same float64: 1.0 -> "1"."""
    return repr(number).removesuffix(".0")


def raw_pieces(path: FilePath, size: int | None = None) -> Iterator[bytes]:
    """The bytes of a file, decompressed, so many at a time; compressed files that end too early are refused."""
    with open_bytes(path) as stream:
        while piece := _read_piece(path, stream, size or _BLOCK_BYTES):
            yield piece


def beginning(path: FilePath, size: int) -> bytes:
    """The first bytes of a file, decompressed."""
    parts, length = [], 0
    with open_bytes(path) as stream:
        while length < size and (piece := _read_piece(path, stream, _BLOCK_BYTES)):
            parts.append(piece)
            length += len(piece)
    return b"".join(parts)[:size]


def _read_piece(path: FilePath, stream: IO[bytes], size: int) -> bytes:
    problem: Exception
    try:
        return stream.read(size)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk; damaged gzip and bzip2 have no number
            raise
        problem = error
    except Exception as error:
        if type(error).__name__ != "ZstdError":  # the home of this class depends on the version of Python
            raise
        problem = error
    raise FormatError(path, f"the compressed file is damaged or cut short ({problem}). Get it again.") from problem


def _checked_text(path: FilePath, first_line: int, block: bytes) -> bytes:
    position = block.find(b"\0")
    if position < 0 and not (first_line == 1 and block.startswith((b"\xff\xfe", b"\xfe\xff"))):
        return block
    before = block[: max(position, 0)]
    column = len(before) - before.rfind(b"\n")
    message = f"not plain text (NUL byte or UTF-16 mark at column {column}); is it UTF-16 or binary? Expected UTF-8."
    raise FormatError(path, message, first_line + before.count(b"\n"))


def _without_blank_end(words: list[bytes]) -> int:
    filled = len(words)
    while filled and not words[filled - 1]:
        filled -= 1
    return filled


def _is_number(word: bytes) -> bool:
    try:
        return not word.translate(None, _NUMBER_BYTES) and bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _bad_line(path: FilePath, line: int, word: bytes, advice: str) -> FormatError:
    text = shown(word) if word else "an empty line"
    return FormatError(path, f"expected one finite number, found {text}. {advice}", line)


def shown(word: bytes) -> str:
    """A word of a file for a message: short, quoted, printable."""
    text = repr(word[:60].decode("utf-8", "backslashreplace"))
    return text if len(text) < 80 and len(word) <= 60 else f"{text[:77]}..."
