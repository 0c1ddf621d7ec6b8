"""Records: the rows of a text table as Python's csv module reads them, quotes and all, and their cells as numbers.

This reads every table, and finds every fault with its line; `plain.py` is for those that need no such care.
"""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import plain_suffix
from podium._runtime.words import did_you_mean
from podium.data.precision import EXACT, merged_texts, warn_of_merged
from podium.data.texts import Texts
from podium.formats.decimals import round_texts
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, line_blocks
from podium.formats.names import LIST_CATEGORIES, is_number
from podium.formats.tables.text_columns import Record, TextColumns

DELIMITERS = {"csv": ",", "tsv": "\t"}
TABLE_FORMATS = (*DELIMITERS, "parquet")
CELLS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Gathered:
    """The columns of a text table."""

    X: Array  # float32; names by their numbers as they came
    amounts: Array  # (rows, columns) float64: labels and weights
    qid: Any
    docids: Texts | list[str] | None
    texts: TextColumns
    large: LargeCells


def rows_of(path: FilePath, delimiter: str) -> Iterator[Record]:
    """The records of a text table that are not blank, each with the number of its first line."""
    reader = csv_reader(_lines(path), delimiter)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise FormatError(path, f"cannot be read as a table: {error}.", line) from error


def csv_reader(lines: Iterable[str], delimiter: str) -> Any:
    return csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=True)


def read_header(path: FilePath, records: Iterator[Record]) -> list[str]:
    """The names of the columns: the first of the records."""
    _, header = next(records, (1, []))
    if not header:
        raise FormatError(path, "is empty; expected a header line with the names of the columns.")
    if len(set(header)) < len(header):
        raise FormatError(path, f"column names must differ; found {', '.join(header)}.", 1)
    return header


class LargeCells:
    """The texts of numbers that may have more digits than float32 keeps, each once, by column."""

    def __init__(self) -> None:
        self.texts: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, cells: list[str], values: Array, names: list[str]) -> None:
        """The cells of some records, row by row, and what they are as numbers."""
        for cell in np.flatnonzero(np.abs(values) >= EXACT).tolist():
            self.texts[names[cell % len(names)]].add(cells[cell])

    def warn(self, path: FilePath) -> None:
        pairs = {name: merged_texts(texts) for name, texts in self.texts.items()}
        merged = {name: pair for name, pair in pairs.items() if pair is not None}
        warn_of_merged(merged, f"{os.fspath(path)}: ")


def cell_numbers(
    path: FilePath,
    records: list[Record],
    header: list[str],
    names: list[str],
    missing: bool = False,
    large: LargeCells | None = None,
) -> Array:
    """Some columns of some records as numbers: (records, columns) float64, or float32 where values may be missing.

    Numbers that float32 may not keep are noted in `large`.
    """
    columns = {name: number for number, name in enumerate(header)}
    pick = itemgetter(*(columns[name] for name in names))
    picked = (pick(row) for _, row in records)
    cells = list(picked if len(names) == 1 else chain.from_iterable(picked))
    values = _quick_numbers(cells)
    if values is None:
        values = np.array([careful_number(cell) for cell in cells])
    numbers = round_texts(values, cells) if missing else values
    bad = np.flatnonzero(np.isinf(numbers) if missing else ~np.isfinite(numbers))
    if len(bad):
        row, column = divmod(int(bad[0]), len(names))
        expected = "a finite number or an empty cell" if missing else "a finite number"
        message = f"column {names[column]!r}: expected {expected}, found {cells[bad[0]][:60]!r}."
        if missing and not is_number(cells[bad[0]]):
            advice = LIST_CATEGORIES.format(names[column])
            message += f" {advice[0].upper()}{advice[1:]}."
        raise FormatError(path, message, records[row][0])
    if large is not None:
        large.add(cells, values, names)
    return numbers.reshape(len(records), len(names))


def chunks_of(path: FilePath, records: Iterator[Record], width: int) -> Iterator[list[Record]]:
    """Some thousand cells at a time; a record of another width is refused."""
    while chunk := list(islice(records, max(1, CELLS_AT_ONCE // width))):
        for line, row in chunk:
            if len(row) != width:
                raise FormatError(
                    path, f"expected {width} columns, found {len(row)}. Quote texts that hold the separator.", line
                )
        yield chunk


def joined(parts: list[Array]) -> Array:
    """Parts one after the other; each is freed as soon as it is copied, so that memory never holds all twice."""
    result = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    position = 0
    for number in range(len(parts)):
        part, parts[number] = parts[number], parts[number][:0].copy()
        result[position : position + len(part)] = part
        position += len(part)
    return result


def table_kind(path: FilePath, kind: str | None) -> str:
    format = plain_suffix(path).removeprefix(".") if kind is None else kind
    if format not in TABLE_FORMATS:
        what = f"{path}: a table's name ends in .csv, .tsv or .parquet" if kind is None else "kind must be a known one"
        raise ValueError(f"{what} ({', '.join(TABLE_FORMATS)}); got {format!r}.{did_you_mean(format, TABLE_FORMATS)}")
    return format


def _lines(path: FilePath) -> Iterator[str]:
    for first_line, block in line_blocks(path):
        try:
            yield from io.StringIO(block.decode("utf-8"), newline="\n")
        except UnicodeDecodeError as error:
            line = first_line + block.count(b"\n", 0, error.start)
            message = f"byte {block[error.start]:#x} is no UTF-8 text. Save the table as UTF-8."
            raise FormatError(path, message, line) from error


def _quick_numbers(cells: list[str]) -> Array | None:
    """All cells by float(), or None when one needs a closer look: float() alone takes 1_000 and any script's digits."""
    text = "".join(cells)
    if not text.isascii() or "_" in text:
        return None
    filled = [cell or "nan" for cell in cells] if "" in cells else cells
    try:
        return np.fromiter(map(float, filled), np.float64, len(cells))
    except ValueError:
        return None


def careful_number(cell: str) -> float:
    """A cell as a number, NaN when it is blank, infinite when it is no number."""
    try:
        return float(cell.strip() or "nan") if cell.isascii() and "_" not in cell else np.inf
    except ValueError:
        return np.inf
