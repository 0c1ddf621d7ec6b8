"""LightGBM's training files: rows without query ids, and next to them `FILE.query` with the number of rows of each
query, `FILE.weight` with one weight per row where rows have weights, and `FILE.init` with one score per row where
training starts from scores.

The data file is SVM-light text (`2 0:0.5 7:1`) or a table whose first column is the label. LightGBM counts the
features of SVM-light text from 0, unlike LETOR files, which count from 1: `0:0.5` is the first column of X here, and
what is written here has the same columns there. A file that counts from 1, as LightGBM's own example does, has a first
column of zeros in LightGBM, and so it has here; `zero_based=False` drops it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from podium._runtime.files import COMPRESSIONS, is_stream, write_whole
from podium._runtime.warn import LossWarning
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.letor import read_svmlight
from podium.formats.lines import FilePath, line_blocks, number_text, read_numbers
from podium.formats.tables import LargeCells, cell_numbers, chunks_of, feature_lines, joined, rows_of
from podium.formats.tables.text_columns import Record

_PAIRS = re.compile(rb"\s*[^\s:]+(\s+\d+:\S*)+\s*(#.*)?")  # a line of SVM-light text with a feature


def read_lightgbm(path: FilePath, *, zero_based: bool = True, labels: str = "required") -> RankingData:
    """Read LightGBM's data file, its `.query` file and, where there are any, its `.weight` and `.init` files.

    A compressed `rank.train.xz` may have `rank.train.query` next to it. The header of a table is found by its words. A
    table has labels; `labels` is as in `read_data` for SVM-light text, whose rows without them begin with a feature.
    """
    sizes, delimiter = _read_sizes(path), table_delimiter(path)
    try:
        if delimiter is None:
            data = read_svmlight(path, group_sizes=sizes, zero_based=zero_based, labels=labels)
        else:
            data = _read_table(path, delimiter, sizes)
    except FormatError:
        raise
    except ValueError as error:  # about the arrays: it has no file's name yet
        raise FormatError(path, f"does not fit {beside(path, '.query')}: {error}") from error
    weights, scores = beside(path, ".weight"), beside(path, ".init")
    if weights is not None:
        data = replace(data, sample_weight=_read_weights(weights, path, data.n_rows))
    if scores is not None:
        advice = "Each line is the score that training starts from, one for ranking."
        values = _one_per_row(read_numbers(scores, advice), "score", scores, path, data.n_rows)
        data = replace(data, init_score=values)
    return data


def write_lightgbm(data: RankingData, path: FilePath) -> None:
    """Write SVM-light text with every value, features counted from 0, and the files next to it.

    All files are written aside and then take their names right after each other. A `.weight` or `.init` file of
    earlier data is removed, because LightGBM would use it. Ids, names and query weights have no place in this layout,
    and neither have interleaved queries: their rows are written query by query.
    """
    if data.n_rows == 0 or data.n_features == 0:
        raise ValueError(f"LightGBM reads no empty data; got {data.n_rows} rows and {data.n_features} features.")
    if is_stream(Path(path)):
        raise ValueError(f"{os.fspath(path)}: LightGBM's layout is several files; give the name of the first.")
    data.labels_for(f"{os.fspath(path)}: LightGBM's format")
    lost = [name for name in ("query_weight", "feature_names", "categories") if getattr(data, name) is not None]
    if lost:
        message = (
            f"{os.fspath(path)}: LightGBM's files have no place for {', '.join(lost)}; a .podium-data file keeps them."
        )
        warnings.warn(message, LossWarning, stacklevel=2)
    if not data.is_contiguous:
        message = "LightGBM's files have the rows of a query contiguous; these rows are written query by query."
        warnings.warn(f"{os.fspath(path)}: {message}", LossWarning, stacklevel=2)
        data = data.grouped()
    query = _plain(path) + ".query"
    beside_rows = {".weight": data.sample_weight, ".init": data.init_score}
    with ExitStack() as stack:  # left in reverse: the large file takes its name first, as the others cannot fail then
        _write_lines(stack, query, data.group.tolist())
        for suffix, numbers in beside_rows.items():
            if numbers is not None:
                _write_lines(stack, _plain(path) + suffix, numbers.tolist())
        _write_rows(data, stack.enter_context(write_whole(path)))
    for suffix, numbers in beside_rows.items():
        if numbers is None:
            with suppress(FileNotFoundError):
                os.unlink(_plain(path) + suffix)


def beside(path: FilePath, suffix: str) -> str | None:
    """The file next to a data file: `rank.train.query` for `rank.train`, also for `rank.train.xz`."""
    names = [os.fspath(path) + suffix, _plain(path) + suffix]
    return next((name for name in names if os.path.isfile(name)), None)


def side_files(path: FilePath) -> list[str]:
    """All names that belong to a data file in this layout."""
    return [name + suffix for name in (os.fspath(path), _plain(path)) for suffix in (".query", ".weight", ".init")]


def _plain(path: FilePath) -> str:
    name = os.fspath(path)
    return name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in COMPRESSIONS else name


def _read_sizes(path: FilePath) -> np.ndarray:
    query = beside(path, ".query")
    if query is None:
        message = f"there is no {_plain(path)}.query next to it; expected one with the number of rows of each query."
        raise FormatError(path, message)
    sizes = read_numbers(query, "Each line is the number of rows of a query.")
    bad = np.flatnonzero((sizes < 1) | (sizes != np.floor(sizes)) | (sizes > 2**53))
    if len(bad):
        message = f"expected the number of rows of a query, 1 or more; found {number_text(float(sizes[bad[0]]))}."
        raise FormatError(query, message, int(bad[0]) + 1)
    return sizes.astype(np.int64)


def _read_weights(weights: str, path: FilePath, n_rows: int) -> np.ndarray:
    values = read_numbers(weights, "Each line is the weight of a row.")
    if (values < 0).any():
        line = int(np.flatnonzero(values < 0)[0]) + 1
        raise FormatError(weights, f"expected a weight, 0 or more; found {values[line - 1]}.", line)
    return _one_per_row(values, "weight", weights, path, n_rows)


def _one_per_row(values: np.ndarray, what: str, file: str, path: FilePath, n_rows: int) -> np.ndarray:
    if len(values) != n_rows:
        raise FormatError(file, f"has {len(values)} {what}s, {os.fspath(path)} has {counted(n_rows, 'row')}.")
    return values


def table_delimiter(path: FilePath) -> str | None:
    """What separates the columns of a table; None for SVM-light text."""
    lines = (line for _, block in line_blocks(path) for line in block.split(b"\n"))
    first = next((line for line in lines if line.strip()), b"")
    if re.search(rb"\sqid:", first):
        message = f'its rows have a qid, and {beside(path, ".query")} gives queries too. Read it with format="letor".'
        raise FormatError(path, message)
    if _PAIRS.fullmatch(first):
        return None
    return next((delimiter for delimiter in ("\t", ",") if delimiter.encode() in first), None)


def _read_table(path: FilePath, delimiter: str, sizes: np.ndarray) -> RankingData:
    records = rows_of(path, delimiter)
    line, cells = next(records)
    named = not all(map(_is_number, cells))
    names = list(cells) if named else [f"column {number}" for number in range(1, len(cells) + 1)]
    if len(set(names)) < len(names):
        raise FormatError(path, f"column names must differ; found {', '.join(names)}.", line)
    if len(names) < 2:
        raise FormatError(path, "expected the label and at least one feature, found one column.", line)
    labels, features = _columns(path, records if named else chain([(line, cells)], records), names)
    return RankingData.from_arrays(features, labels, group=sizes, feature_names=names[1:] if named else None)


def _columns(path: FilePath, records: Iterator[Record], names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    labels, features, large = [np.empty((0, 1))], [np.empty((0, len(names) - 1), np.float32)], LargeCells()
    for chunk in chunks_of(path, records, len(names)):
        labels.append(cell_numbers(path, chunk, names, names[:1]))
        features.append(cell_numbers(path, chunk, names, names[1:], missing=True, large=large))
        if (labels[-1] < 0).any():
            row = int(np.flatnonzero(labels[-1] < 0)[0])
            raise FormatError(path, f"the label must be 0 or larger; found {labels[-1][row, 0]}.", chunk[row][0])
    large.warn(path)
    return np.concatenate(labels)[:, 0], joined(features)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _write_lines(stack: ExitStack, path: str, numbers: list[float]) -> None:
    """Write a small file as far as possible; it takes its name when the stack is left."""
    stream = stack.enter_context(write_whole(path))
    stream.write("".join(f"{number_text(number)}\n" for number in numbers).encode())
    stream.flush()
    os.fsync(stream.fileno())


def _write_rows(data: RankingData, stream: IO[bytes]) -> None:
    labels = map(number_text, data.labels_for("LightGBM's format").tolist())
    for lines in feature_lines(data.X, " ", numbered=True):
        stream.write(b"".join(b"%s %s\n" % (next(labels).encode(), line) for line in lines))
