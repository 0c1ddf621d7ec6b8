"""Reading tables: from the columns of a file to ranking data."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import open_bytes
from podium._runtime.words import check_choice
from podium.data.ranking import RankingData
from podium.formats import LABELS, frames
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath
from podium.formats.parquet_seal import check_seal
from podium.formats.tables.plain import read_plain
from podium.formats.tables.records import (
    DELIMITERS,
    Gathered,
    LargeCells,
    cell_numbers,
    chunks_of,
    joined,
    read_header,
    rows_of,
    table_kind,
)
from podium.formats.tables.text_columns import Record, TextColumns, whole_numbers_or_text

_AMOUNTS = ("label", "sample_weight", "query_weight")


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


def _read_text(path: FilePath, delimiter: str, asked: frames.ColumnNames) -> dict[str, Any]:
    """The keyword arguments of `RankingData.from_arrays` from a text table."""
    records = rows_of(path, delimiter)
    header = read_header(path, records)
    names = {**frames.choose_columns(header, asked), "qid": asked.qid}
    amounts = [kind for kind in _AMOUNTS if names[kind] is not None]
    columns = read_plain(path, delimiter, header, names, [names[kind] for kind in amounts], asked.categorical)
    if columns is None:
        columns = _gather(path, records, header, names, [names[kind] for kind in amounts], asked.categorical)
    columns.large.warn(path)
    weights = dict(zip(amounts, columns.amounts.T))
    query_weight = weights.get("query_weight")
    return {
        "X": columns.X,
        "y": weights.get("label"),
        "qid": columns.qid,
        "docids": columns.docids,
        "feature_names": names["features"],
        "sample_weight": weights.get("sample_weight"),
        "query_weight": None if query_weight is None else frames.one_per_query(query_weight, columns.qid),
        "categories": columns.texts.finish(columns.X),
    }


def _gather(
    path: FilePath,
    records: Iterator[Record],
    header: list[str],
    names: dict[str, Any],
    amounts: list[str],
    categorical: Sequence[str],
) -> Gathered:
    features, numbers, ids, docids, large = [], [], [], [], LargeCells()
    texts = TextColumns(path, header, names["features"], categorical)
    for chunk in chunks_of(path, records, len(header)):
        features.append(_feature_numbers(path, chunk, header, texts, large))
        if amounts:
            numbers.append(_amounts(path, chunk, header, amounts))
        ids += _filled_cells(path, chunk, header, names["qid"])
        if names["docid"] is not None:
            docids += [row[header.index(names["docid"])] for _, row in chunk]
    if not features:
        raise FormatError(path, "has no rows below the header.")
    return Gathered(
        joined(features),
        np.concatenate(numbers) if amounts else np.empty((len(ids), 0)),
        whole_numbers_or_text(ids),
        docids if names["docid"] is not None else None,
        texts,
        large,
    )


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
