"""Writing LETOR text: one line per document, each number the shortest that reads back the same."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.files import write_whole
from podium._runtime.warn import LossWarning
from podium.data.ranking import RankingData
from podium.data.sparse import as_dense, is_sparse
from podium.data.texts import Texts
from podium.formats.decimals import LONGEST_FLOAT32, PADDING, power_table
from podium.formats.letor import kernels
from podium.formats.letor.faults import shortened
from podium.formats.letor.names import names_line
from podium.formats.letor.parsing import copied_texts, feature_keys
from podium.formats.letor.pieces import PIECE_BYTES
from podium.formats.lines import FilePath, number_text

_NOT_IN_QID = re.compile(r"[\x00-\x20#]")


def write_letor(data: RankingData, path: FilePath, *, sparse: bool | None = None) -> None:
    """Write a LETOR file, compressed by its suffix, that reads back to the same data.

    `sparse` leaves out features that are 0; None does so if the data are sparse. Names of features are written in a
    comment before the rows. Weights and the names of categories have no place in this format.
    """
    unkept = ("sample_weight", "query_weight", "categories", "init_score")
    lost = [name for name in unkept if getattr(data, name) is not None]
    if lost:
        message = f"{os.fspath(path)}: LETOR text has no place for {', '.join(lost)}; a .podium-data file keeps them."
        warnings.warn(message, LossWarning, stacklevel=2)
    if data.n_rows == 0:
        raise ValueError(f"{os.fspath(path)}: the data have no rows, and LETOR text cannot say so. Nothing is written.")
    with write_whole(path) as stream:
        if data.feature_names is not None:
            stream.write(names_line(data.feature_names))
        for block in lines_of(data, is_sparse(data.X) if sparse is None else sparse):
            stream.write(block)


@dataclass(frozen=True)
class _Column:
    """A text for each row, kept once for all rows that have the same one."""

    texts: Texts
    codes: Array  # (rows,): which text

    def arrays(self, rows: slice) -> tuple[Array, Array, Array]:
        return readonly(self.texts.data), readonly(self.texts.offsets), readonly(self.codes[rows])


def _labels(data: RankingData) -> _Column:
    if data.y is None:
        return _Column(Texts.of([""]), np.zeros(data.n_rows, dtype=np.int64))
    bits, codes = np.unique(data.y.view(np.int64), return_inverse=True)  # bits: -0 is not 0
    return _Column(Texts.of([number_text(label) for label in bits.view(np.float64).tolist()]), codes)


def _queries(data: RankingData) -> _Column:
    blank = "" if data.y is None else " "  # behind the label
    texts = Texts.of([f"{blank}qid:{name}" for name in map(str, data.query_ids.tolist())])
    for name in map(str, data.query_ids.tolist()):
        if not name or _NOT_IN_QID.search(name):
            raise ValueError(
                f"query id {shortened(name)!r}: LETOR text allows no blanks, no '#' and no empty id there."
            )
    return _Column(texts, data.query_numbers)


def _notes(data: RankingData) -> tuple[_Column, Array]:
    """The text after `#` in each row, and the mark before it."""
    docids, comments = data.docid_texts, data.comment_texts
    rows = np.arange(data.n_rows)
    if comments is not None:
        _refuse_bytes(comments, "\n\r\0", "comment", "LETOR text allows no line ends there")
        if docids is not None:
            _refuse_other_docids(comments, docids)
        return _Column(comments, rows), _bytes(" #")
    if docids is not None:
        _refuse_bytes(docids, " \t\n\r\0", "document id", "LETOR text allows no blanks there")
        return _Column(docids, rows), _bytes(" #docid = ")
    return _Column(Texts.of([""]), np.zeros(data.n_rows, dtype=np.int64)), _bytes("")


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _refuse_bytes(texts: Texts, letters: str, what: str, why: str) -> None:
    bad = np.isin(texts.data, _bytes(letters))
    if bad.any():
        row = int(np.searchsorted(texts.offsets, np.argmax(bad), side="right")) - 1
        raise ValueError(f"row {row + 1}: {what} {shortened(texts[row])!r}; {why}.")


def _refuse_other_docids(comments: Texts, docids: Texts) -> None:
    """Document ids are written as part of the comments, so these must name them."""
    padded = np.concatenate([comments.data, np.zeros(PADDING, dtype=np.uint8)])
    spans = np.empty((len(comments), 2), dtype=np.int64)
    kernels.find_docids(padded, readonly(comments.offsets), spans)
    named = copied_texts(padded, spans)
    if named != docids:
        row = next(row for row, (one, other) in enumerate(zip(named, docids)) if one != other)
        raise ValueError(
            f"row {row + 1}: the document id is {shortened(docids[row])!r}, but the comment "
            f"{shortened(comments[row])!r} does not say so, and LETOR text has no other place for it."
        )


def lines_of(data: RankingData, sparse: bool) -> Iterator[memoryview]:
    """The lines of the file, many at a time."""
    X, labels, queries = data.X, _labels(data), _queries(data)
    notes, mark = _notes(data)
    longest = X.shape[1] * (len(str(X.shape[1])) + 2 + LONGEST_FLOAT32) + len(mark) + 2
    longest += sum(int(np.diff(column.texts.offsets).max()) for column in (labels, queries))
    ends = np.cumsum(longest + np.diff(notes.texts.offsets)[notes.codes])  # room for the lines up to each row
    start = 0
    while start < data.n_rows:
        written = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, written + PIECE_BYTES, side="right")))
        rows, room = slice(start, end), int(ends[end - 1]) - written
        features = as_dense(X[rows])
        _refuse_infinite(features, start)
        out = np.empty(room, dtype=np.uint8)
        texts = labels.arrays(rows), queries.arrays(rows), notes.arrays(rows)
        with np.errstate(over="ignore"):
            keys, powers = feature_keys(X.shape[1], 1), power_table()
            size = kernels.write_rows(out, readonly(features), *texts, mark, sparse, start == 0, keys, powers)
        yield out[:size].data
        start = end


def _refuse_infinite(X: Array, start: int) -> None:
    infinite = np.isinf(X)
    if infinite.any():
        row = start + int(np.argmax(infinite.any(axis=1)))
        raise ValueError(f"row {row + 1} has an infinite feature; LETOR text allows finite numbers and nan.")
