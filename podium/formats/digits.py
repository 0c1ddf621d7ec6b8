"""Digits: numbers in a data file that are different in their text and one in float32.

Only columns with values of 2**24 or more can have some, so a file is read a second time for these alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from podium.data.precision import Pair, merged_texts
from podium.data.ranking import RankingData
from podium.formats import format_of
from podium.formats.frames import merged_in_frame
from podium.formats.lightgbm import table_delimiter
from podium.formats.lines import FilePath, line_blocks
from podium.formats.tables import DELIMITERS, read_parquet, rows_of

_COMMENT = re.compile(rb"#[^\n]*")

Texts = dict[int, set[str]]


def merged_in_file(path: FilePath, data: RankingData, columns: Sequence[int] | np.ndarray) -> dict[int, Pair]:
    """Of some columns of the data that were read from this file: which have numbers that became one, and two of them.

    A cache has float32 only; what it was made of is not known.
    """
    kind = format_of(path).name
    if kind == "cache" or not len(columns):
        return {}
    if kind == "parquet":
        return _of_frame(path, data, columns)
    delimiter = table_delimiter(path) if kind == "lightgbm" else DELIMITERS.get(kind)
    if delimiter is None:
        texts = _texts_of_pairs(path, columns, 0 if kind == "lightgbm" else 1)
    else:
        texts = _texts_of_table(path, delimiter, data, columns)
    pairs = {column: merged_texts(texts[column]) for column in sorted(texts)}
    return {column: pair for column, pair in pairs.items() if pair is not None}


def _texts_of_pairs(path: FilePath, columns: Iterable[int], base: int) -> Texts:
    """`1:value` in every line, for some columns."""
    numbers = b"|".join(b"%d" % (column + base) for column in columns)
    wanted = re.compile(rb"[ \t]0*(" + numbers + rb"):([^ \t\r\n]+)")
    texts: defaultdict[int, set[str]] = defaultdict(set)
    for _, block in line_blocks(path):
        for number, text in wanted.findall(_COMMENT.sub(b"", block)):
            texts[int(number) - base].add(text.decode("ascii", "replace"))
    return texts


def _texts_of_table(path: FilePath, delimiter: str, data: RankingData, columns: Iterable[int]) -> Texts:
    records = rows_of(path, delimiter)
    texts: defaultdict[int, set[str]] = defaultdict(set)
    places = {column: column + 1 for column in columns}  # a table without a header has the label first
    if data.feature_names is not None:
        _, header = next(records)
        places = {column: header.index(data.feature_names[column]) for column in columns}
    for _, cells in records:
        for column, cell in places.items():
            texts[column].add(cells[cell])
    return texts


def _of_frame(path: FilePath, data: RankingData, columns: Iterable[int]) -> dict[int, Pair]:
    names = {(data.feature_names or ())[column]: column for column in columns}
    return {names[name]: pair for name, pair in merged_in_frame(read_parquet(path).select(list(names))).items()}
