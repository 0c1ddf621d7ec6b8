"""Writing tables: CSV, TSV and Parquet, in which numbers have the shortest text that reads back to the same float32."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.files import write_whole
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, as_dense
from podium.formats import frames
from podium.formats.decimals import LONGEST_FLOAT32, PADDING, power_table, write_float32, write_integer
from podium.formats.lines import FilePath, number_text
from podium.formats.parquet_seal import SealedSink
from podium.formats.tables.records import CELLS_AT_ONCE, DELIMITERS, table_kind
from podium.formats.tables.text_columns import is_missing


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


def feature_lines(features: FeatureMatrix, separator: str, numbered: bool = False) -> Iterator[list[bytes]]:
    """Rows of features as text, some thousand cells at a time: `1,0.5,nan`, or numbered `0:1 1:0.5 2:nan`."""
    n_rows, width = features.shape
    step = max(1, CELLS_AT_ONCE // width)
    out = np.empty(step * width * (LONGEST_FLOAT32 + 12) + PADDING, dtype=np.uint8)
    ends = np.zeros(step + 1, dtype=np.int64)
    for start in range(0, n_rows, step):
        some = readonly(as_dense(features[start : start + step]))
        _write_cells(some, ord(separator), numbered, power_table(), out, ends)
        text = out[: ends[len(some)]].tobytes()
        yield [text[first:last] for first, last in pairwise(ends[: len(some) + 1].tolist())]


def _lines_with_names(data: RankingData, delimiter: str) -> Iterator[list[bytes]]:
    """Rows of features as text, names in place of their numbers, an empty cell for a missing one."""
    coded = [(data.feature_names or ()).index(name) for name in data.categories or ()]
    texts = {column: _name_cells(data, column, delimiter) for column in coded}
    runs = np.split(np.arange(data.n_features), sorted({at for column in coded for at in (column, column + 1)}))
    separator, step = delimiter.encode(), max(1, CELLS_AT_ONCE // data.n_features)
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
