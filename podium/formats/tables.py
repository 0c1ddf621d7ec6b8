"""Tables in files: CSV, TSV and Parquet with a named column for the label, the query id and each feature.

An empty cell, or `nan`, is a missing feature. CSV and TSV are UTF-8 text with a header line; texts may be quoted. As
such a file has no types, query ids are integers when every one of them is written as one (`7`, not `007`), and a
feature whose cells are no numbers has categories.
"""

from __future__ import annotations

import csv
import io
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.files import open_bytes, plain_suffix, write_whole
from podium._runtime.words import check_choice, did_you_mean
from podium.data.precision import EXACT, merged_texts, warn_of_merged
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, as_dense
from podium.formats import LABELS, frames
from podium.formats.decimals import LONGEST_FLOAT32, PADDING, power_table, round_texts, write_float32, write_integer
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, line_blocks, number_text
from podium.formats.names import LIST_CATEGORIES, is_number
from podium.formats.parquet_seal import SealedSink, check_seal
from podium.formats.text_columns import Record, TextColumns, is_missing, whole_numbers_or_text

DELIMITERS = {"csv": ",", "tsv": "\t"}
TABLE_FORMATS = (*DELIMITERS, "parquet")
_CELLS_AT_ONCE = 1 << 16


def read_table(
    path: FilePath,
    *,
    kind: str | None = None,
    label: str | None = frames.LABEL,
    qid: str = frames.QID,
    docid: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    query_weight: str | None = None,
    labels: str = "required",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
) -> RankingData:
    """Read `.csv`, `.tsv` (compressed or not) or `.parquet`; `kind` overrides the suffix.

    `labels` is as in `read_data`: "required", "optional" or "ignored", which `label=None` means too. Columns named
    docid, sample_weight and query_weight are used as such unless they are listed in `features`; those in `drop` are
    left out. Features that hold text have categories, and so do those in `categorical`, which may hold numbers too.
    """
    kind = table_kind(path, kind)
    check_choice("labels", labels, LABELS)
    asked = frames.ColumnNames(label, qid, docid, features, sample_weight, query_weight, labels, drop, categorical)
    try:
        if kind == "parquet":
            arrays = frames.arrays_from_frame(read_parquet(path), asked)
        else:
            arrays = _read_text(path, DELIMITERS[kind], asked)
        return RankingData.from_arrays(**arrays)
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(path, str(error)) from error


def write_table(data: RankingData, path: FilePath, *, kind: str | None = None) -> None:
    """Write `.csv`, `.tsv` (compressed by its suffix) or `.parquet`: all but comments. Numbers read back exactly."""
    kind = table_kind(path, kind)
    if data.n_features == 0:
        raise ValueError("the data has no features; a table needs at least one.")
    if kind == "parquet":
        _write_parquet(data, path)
        return
    columns, delimiter = frames.columns_of(data), DELIMITERS[kind]
    fronts = _fronts(list(columns.values())[: -data.n_features], delimiter)
    with write_whole(path) as stream:
        stream.write((delimiter.join(_quoted(name, delimiter) for name in columns) + "\n").encode())
        for lines in _lines_with_names(data, delimiter) if data.categories else feature_lines(data.X, delimiter):
            stream.write(b"".join(b"%s%s\n" % row for row in zip(islice(fronts, len(lines)), lines)))


def _lines_with_names(data: RankingData, delimiter: str) -> Iterator[list[bytes]]:
    """Rows of features as text, names in place of their numbers, an empty cell for a missing one."""
    coded = [(data.feature_names or ()).index(name) for name in data.categories or ()]
    texts = {column: _name_cells(data, column, delimiter) for column in coded}
    runs = np.split(np.arange(data.n_features), sorted({at for column in coded for at in (column, column + 1)}))
    separator, step = delimiter.encode(), max(1, _CELLS_AT_ONCE // data.n_features)
    for start in range(0, data.n_rows, step):
        rows = slice(start, min(start + step, data.n_rows))
        cells = [_run_cells(data.X[rows, run], texts.get(run[0]), delimiter) for run in runs if len(run)]
        yield [separator.join(row) for row in zip(*cells)]


def _name_cells(data: RankingData, column: int, delimiter: str) -> list[bytes]:
    """What stands for each number of a column with categories, and last for a missing one."""
    name = (data.feature_names or ())[column]
    cells = [_quoted(str(text), delimiter) for text in (data.categories or {})[name]]
    lost = next((cell for cell in cells if is_missing(cell)), None)
    if lost is not None:
        raise ValueError(f"column {name!r} has the category {lost!r}, which would be read as a missing value.")
    return [cell.encode() for cell in cells] + [b""]


def _run_cells(X: Array, texts: list[bytes] | None, delimiter: str) -> list[bytes]:
    if texts is None:
        return [line for lines in feature_lines(np.ascontiguousarray(X), delimiter) for line in lines]
    places = np.where(np.isnan(X[:, 0]), len(texts) - 1, X[:, 0]).astype(np.int64)
    return [texts[number] for number in places.tolist()]


def rows_of(path: FilePath, delimiter: str) -> Iterator[Record]:
    """The records of a text table that are not blank, each with the number of its first line."""
    reader = csv.reader(_lines(path), delimiter=delimiter, strict=True, skipinitialspace=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise FormatError(path, f"cannot be read as a table: {error}.", line) from error


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
        values = np.array([_careful_number(cell) for cell in cells])
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
    while chunk := list(islice(records, max(1, _CELLS_AT_ONCE // width))):
        for line, row in chunk:
            if len(row) != width:
                raise FormatError(
                    path, f"expected {width} columns, found {len(row)}. Quote texts that hold the separator.", line
                )
        yield chunk


def feature_lines(features: FeatureMatrix, separator: str, numbered: bool = False) -> Iterator[list[bytes]]:
    """Rows of features as text, some thousand cells at a time: `1,0.5,nan`, or numbered `0:1 1:0.5 2:nan`."""
    n_rows, width = features.shape
    step = max(1, _CELLS_AT_ONCE // width)
    out = np.empty(step * width * (LONGEST_FLOAT32 + 12) + PADDING, dtype=np.uint8)
    ends = np.zeros(step + 1, dtype=np.int64)
    for start in range(0, n_rows, step):
        some = readonly(as_dense(features[start : start + step]))
        _write_cells(some, ord(separator), numbered, power_table(), out, ends)
        text = out[: ends[len(some)]].tobytes()
        yield [text[first:last] for first, last in pairwise(ends[: len(some) + 1].tolist())]


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


def _read_text(path: FilePath, delimiter: str, asked: frames.ColumnNames) -> dict[str, Any]:
    """The keyword arguments of `RankingData.from_arrays` from a text table."""
    records = rows_of(path, delimiter)
    header = read_header(path, records)
    names = frames.choose_columns(header, asked)
    columns = _gather(path, records, header, names | {"qid": asked.qid}, asked.categorical)
    query_weight = columns["query_weight"]
    if query_weight is not None:
        columns["query_weight"] = frames.one_per_query(query_weight, columns["qid"])
    return columns


def _gather(
    path: FilePath, records: Iterator[Record], header: list[str], names: dict[str, Any], categorical: Sequence[str]
) -> dict[str, Any]:
    amounts = [kind for kind in ("label", "sample_weight", "query_weight") if names[kind] is not None]
    features, numbers, ids, docids, large = [], [], [], [], LargeCells()
    texts = TextColumns(path, header, names["features"], categorical)
    for chunk in chunks_of(path, records, len(header)):
        features.append(_feature_numbers(path, chunk, header, texts, large))
        if amounts:
            numbers.append(_amounts(path, chunk, header, [names[kind] for kind in amounts]))
        ids += _filled_cells(path, chunk, header, names["qid"])
        if names["docid"] is not None:
            docids += [row[header.index(names["docid"])] for _, row in chunk]
    if not features:
        raise FormatError(path, "has no rows below the header.")
    large.warn(path)
    weights = dict(zip(amounts, np.concatenate(numbers).T)) if amounts else {}
    X = joined(features)
    return {
        "X": X,
        "y": weights.get("label"),
        "qid": whole_numbers_or_text(ids),
        "docids": docids if names["docid"] is not None else None,
        "feature_names": names["features"],
        "sample_weight": weights.get("sample_weight"),
        "query_weight": weights.get("query_weight"),
        "categories": texts.finish(X),
    }


def _feature_numbers(
    path: FilePath, records: list[Record], header: list[str], texts: TextColumns, large: LargeCells
) -> Array:
    """The features of some records; names by their numbers so far."""
    texts.decide(records)
    read = partial(cell_numbers, path, records, header, missing=True, large=large)
    if not texts.numbers:
        return read(texts.features)
    numbers = [name for name in texts.features if name not in texts.numbers]
    result = np.empty((len(records), len(texts.features)), dtype=np.float32)
    if numbers:
        result[:, [texts.features.index(name) for name in numbers]] = read(numbers)
    for name in texts.numbers:
        result[:, texts.features.index(name)] = texts.read(records, name)
    return result


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


def _careful_number(cell: str) -> float:
    """A cell as a number, NaN when it is blank, infinite when it is no number."""
    try:
        return float(cell.strip() or "nan") if cell.isascii() and "_" not in cell else np.inf
    except ValueError:
        return np.inf


def _amounts(path: FilePath, records: list[Record], header: list[str], names: list[str]) -> Array:
    """Labels and weights: numbers that are 0 or larger."""
    numbers = cell_numbers(path, records, header, names)
    if (numbers < 0).any():
        row, column = np.argwhere(numbers < 0)[0]
        message = f"column {names[column]!r}: expected 0 or larger, found {numbers[row, column]}."
        raise FormatError(path, message, records[row][0])
    return numbers


def _filled_cells(path: FilePath, records: list[Record], header: list[str], name: str) -> list[str]:
    column = header.index(name)
    cells = [row[column] for _, row in records]
    if "" in cells:
        raise FormatError(path, f"column {name!r} is empty; every row needs one.", records[cells.index("")][0])
    return cells


def _fronts(columns: list[Array], delimiter: str) -> Iterator[bytes]:
    """What stands before the features in each line, with a delimiter at its end."""
    texts = []
    for column in columns:
        if column.dtype == object:
            texts.append([_quoted(text, delimiter) for text in column])
        else:
            texts.append([number_text(number) for number in column.tolist()])
    for cells in zip(*texts):
        yield (delimiter.join(cells) + delimiter).encode()


def _quoted(text: str, delimiter: str) -> str:
    if "\0" in text:
        raise ValueError(f"{text!r} holds a NUL, which a text table cannot hold.")
    if text.startswith(" ") or any(letter in text for letter in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


@kernel
def _write_cells(features: Array, separator: int, numbered: bool, powers: Array, out: Array, ends: Array) -> None:
    """Write rows of float32 as text into `out` (uint8, large enough); row r ends at `ends[r + 1]`."""
    position = np.uint64(0)
    for row in range(features.shape[0]):
        for column in range(features.shape[1]):
            if column > 0:
                out[position] = separator
                position += np.uint64(1)
            if numbered:
                position = write_integer(out, position, np.uint64(column))
                out[position] = 58  # :
                position += np.uint64(1)
            position = write_float32(out, position, features[row, column], powers)
        ends[row + 1] = position


def read_parquet(path: FilePath) -> Any:
    """The file as a pyarrow table."""
    pyarrow = frames.optional_package("pyarrow")
    from pyarrow import parquet

    with open_bytes(path) as stream:
        # Parquet is read from its end, where a compressed stream cannot begin.
        source = stream if isinstance(stream, io.FileIO) else io.BytesIO(stream.read())
        check_seal(path, source)
        try:
            return parquet.read_table(source, page_checksum_verification=True)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(path, f"cannot be read as Parquet ({error}). Is the file whole?") from error


def _write_parquet(data: RankingData, path: FilePath) -> None:
    table = frames.frame_from_data(data, "pyarrow")
    from pyarrow import parquet

    with (
        write_whole(path) as stream,
        SealedSink(stream) as sink,
        parquet.ParquetWriter(sink, table.schema, write_page_checksum=True) as writer,
    ):
        writer.write_table(table)
        sink.begin_footer()
