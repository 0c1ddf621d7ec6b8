"""Lines of TREC files as arrays: a kernel takes each block of lines apart without making a Python object per word."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, inlined_bare_kernel, kernel, readonly
from podium._runtime.threads import threads_for, usable_threads
from podium.formats.decimals import PADDING, READ, power_table, read_decimal
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, line_blocks

_U = np.uint64
_MOST_WORDS = 6
_COMMENT, _NEWLINE = 35, 10
_BLANK = np.zeros(256, dtype=np.bool_)
_BLANK[list(b" \t\n\r\x0b\x0c")] = True  # what bytes.split takes for blanks
NO_RANK = -1
_BLOCKS_PER_THREAD = 2  # read ahead


@dataclass(frozen=True, eq=False)
class Block:
    """The filled lines of a block of text; comments, which begin with #, and blank lines are skipped."""

    text: bytes
    lines: Array  # (rows,) int64: their numbers within the block, from 0
    queries: Array  # (rows, 2) int64: where the query id begins and ends; begins at -1: that of the row before
    documents: Array  # uint8: all document ids
    ends: Array  # (rows,) int64: where each of them ends
    values: Array  # (rows,) float64; NaN: left to Python
    words: Array  # (rows, 2) int64: where the text of the value begins and ends
    ranks: Array  # (rows,) float64; NaN: no number
    tag: tuple[int, int]  # where the last word of the last row begins and ends; (0, 0) without one
    wrong: tuple[int, int]  # the first line with too few or too many words, and how many; (-1, 0): none


def scan_lines(path: FilePath, columns: tuple[int, int, int, int]) -> Iterator[tuple[int, Block]]:
    """The lines of a file, taken apart on all cores: (number of the first line, block); columns: as in `scan_block`.

    A fault in the text of a block is reported after the blocks before it.
    """
    threads, waiting, fault = usable_threads(None), deque[tuple[int, Future[Block]]](), None
    with threads_for(threads, "podium-parser") as workers:
        try:
            for first_line, text in line_blocks(path):
                waiting.append((first_line, workers.submit(scan_block, text, *columns)))
                if len(waiting) > threads * _BLOCKS_PER_THREAD:
                    first_line, block = waiting.popleft()
                    yield first_line, block.result()
        except FormatError as error:
            fault = error
        for first_line, block in waiting:
            yield first_line, block.result()
    if fault is not None:
        raise fault


def scan_block(text: bytes, fewest: int, most: int, value: int, rank: int) -> Block:
    """Take lines apart. value, rank: columns of these numbers, from 0; a rank of NO_RANK is not read."""
    letters = np.full(len(text) + PADDING, _NEWLINE, np.uint8)
    letters[: len(text)] = np.frombuffer(text, np.uint8)
    n = int(np.count_nonzero(letters == _NEWLINE)) - PADDING + 1  # NumPy counts without the interpreter's lock
    lines, ends = np.empty(n, np.int64), np.empty(n, np.int64)
    queries, words = np.empty((n, 2), np.int64), np.empty((n, 2), np.int64)
    documents, numbers = np.empty(len(text), np.uint8), np.empty((2, n))
    out = lines, queries, documents, ends, words
    columns = fewest, most, value, rank
    rows, line, count, tag, tag_end = _scan(readonly(letters), len(text), columns, power_table(), out, numbers)
    used = documents[: ends[rows - 1] if rows else 0]
    parts = lines[:rows], queries[:rows], used, ends[:rows], numbers[0, :rows], words[:rows], numbers[1, :rows]
    return Block(text, *parts, (int(tag), int(tag_end)), (int(line), int(count)))


@kernel
def _scan(
    text: Array,
    length: int,
    columns: tuple[int, int, int, int],
    powers: Array,
    out: tuple[Array, Array, Array, Array, Array],
    numbers: Array,
) -> tuple[int, int, int, int, int]:
    """Fill the arrays of a Block: (rows, wrong line or -1, its words, begin and end of the tag of the last row)."""
    fewest, most, value_column, rank_column = columns
    lines, queries, documents, ends, words = out
    starts, stops = np.zeros(_MOST_WORDS, np.int64), np.zeros(_MOST_WORDS, np.int64)
    row, line, here, filled, before, before_end, tag, tag_end = 0, 0, 0, 0, 0, 0, 0, 0
    while here < length:
        count = 0
        while text[here] != _NEWLINE:
            if _BLANK[text[here]]:
                here += 1
                continue
            start = here
            while not _BLANK[text[here]]:
                here += 1
            if count < _MOST_WORDS:
                starts[count], stops[count] = start, here
            count += 1
            if count == 1 and text[start] == _COMMENT:
                count = 0
                while text[here] != _NEWLINE:
                    here += 1
        here += 1
        line += 1
        if count == 0:
            continue
        if count < fewest or count > most:
            return row, line - 1, count, 0, 0
        lines[row] = line - 1
        same = row > 0 and _equal(text, starts[0], stops[0], before, before_end)
        queries[row, 0], queries[row, 1] = -1 if same else starts[0], stops[0]
        before, before_end = starts[0], stops[0]
        for k in range(starts[2], stops[2]):
            documents[filled] = text[k]
            filled += 1
        ends[row] = filled
        words[row, 0], words[row, 1] = starts[value_column], stops[value_column]
        numbers[0, row] = _whole_number(text, starts[value_column], stops[value_column], powers)
        numbers[1, row] = 0.0
        if rank_column >= 0:
            numbers[1, row] = _whole_number(text, starts[rank_column], stops[rank_column], powers)
        tag, tag_end = (starts[5], stops[5]) if count == _MOST_WORDS else (0, 0)
        row += 1
    return row, -1, 0, tag, tag_end


@kernel
def _whole_number(text: Array, start: int, stop: int, powers: Array) -> float:
    """The number that a word is, or NaN where that is not sure."""
    number, end, how = read_decimal(text, _U(start), powers)
    return number if how == READ and end == _U(stop) and np.isfinite(number) else np.nan


@inlined_bare_kernel
def _equal(text: Array, start: int, stop: int, other: int, other_stop: int) -> bool:
    if stop - start != other_stop - other:
        return False
    k = 0
    while k < stop - start and text[start + k] == text[other + k]:
        k += 1
    return bool(k == stop - start)
