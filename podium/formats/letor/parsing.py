"""Parsing: one piece of a LETOR file becomes rows of the final arrays; errors are reported by position."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from podium._runtime.words import check_choice
from podium.data.texts import Texts
from podium.formats import LABELS
from podium.formats.decimals import power_table, round_texts
from podium.formats.letor import kernels
from podium.formats.letor.pieces import Piece
from podium.formats.lines import FilePath

_MOST_FEATURES = 10_000_000  # a row of so many takes 40 MB


@dataclass(frozen=True)
class Rules:
    """How to read a file."""

    path: str
    with_qid: bool
    base: int  # the index of column 0
    limit: int  # columns that the file may have
    limit_name: str
    width: int  # columns that X has at least
    absent: np.float32
    in_comment: bool = False  # whether the query id is the comment, in the place of `qid:`
    labels: str = "required"  # as in `read_data`
    with_label: bool = True  # whether rows begin with one


@dataclass(frozen=True)
class Rows:
    """The content of the rows of a piece."""

    X: np.ndarray
    y: np.ndarray
    width: int  # columns that X should have had
    tokens: list[bytes]  # the query id of each run
    runs: np.ndarray  # (runs, 3): first row, first line, last line
    docids: Texts | None
    comments: Texts | None
    largest: int  # numbers that stand for missing values
    fault: tuple[int, int, int] | None  # row, fault, place


class _Scratch:
    """Arrays that the kernels fill for a piece, and that are gone with it."""

    def __init__(self, n: int, waiting: int) -> None:
        self.runs = np.empty((n, 5), dtype=np.int64)
        self.notes = np.zeros((n, 4), dtype=np.int64)  # rows after a fault are not filled
        self.undecided = np.empty((waiting, 4), dtype=np.int64)
        self.counts = np.zeros(6, dtype=np.int64)


def make_rules(
    path: FilePath,
    with_qid: bool,
    missing: str,
    n_features: int | None,
    max_features: int,
    zero_based: bool,
    labels: str,
) -> Rules:
    check_choice("labels", labels, LABELS)
    if missing not in ("zero", "nan"):
        raise ValueError(f'missing must be "zero" or "nan"; got {missing!r}.')
    name, limit = ("max_features", max_features) if n_features is None else ("n_features", n_features)
    if not isinstance(limit, int | np.integer) or not 1 <= limit <= _MOST_FEATURES:
        raise ValueError(f"{name} must be an integer from 1 to {_MOST_FEATURES}; got {limit!r}.")
    absent = np.float32(np.nan if missing == "nan" else 0.0)
    base = 0 if zero_based else 1
    width, named = int(n_features or 0), f"{name}={limit}"
    return Rules(os.fspath(path), with_qid, base, int(limit), named, width, absent, labels=labels)


def has_labels(piece: Piece, rules: Rules) -> bool:
    """Whether the first row of a piece begins with a label, which is all that another kind of field has no colon of."""
    if rules.labels == "required":
        return True  # a row without one is a fault
    start, newline = piece.lines[0, kernels.START], piece.lines[0, kernels.NEWLINE]
    return b":" not in (bytes(piece.buffer[start:newline]).split() or [b""])[0]


def parse_piece(piece: Piece, X: np.ndarray, y: np.ndarray, rules: Rules) -> Rows:
    """Parse a piece into X and y. The kernels release the interpreter: many threads may do this."""
    fault, waiting = kernels.LIST_FULL, (piece.end - piece.start) // 64 + 16
    while fault == kernels.LIST_FULL:
        scratch = _Scratch(len(y), waiting)
        row, fault, position = _run_kernels(piece, X, y, rules, scratch)
        waiting *= 4
    row, fault, position = _settle(piece, X, y, scratch, (row, fault, position))
    if fault == kernels.FINE and piece.bad_comment >= 0:
        fault, position = kernels.BAD_COMMENT, piece.bad_comment
    runs = scratch.runs[: scratch.counts[kernels.RUNS]]
    return Rows(
        X=X,
        y=y,
        width=int(scratch.counts[kernels.WIDEST]),
        tokens=_tokens(copied_texts(piece.text, np.ascontiguousarray(runs[:, 1:3]))),
        runs=runs[:, [0, 3, 4]],
        docids=None if rules.in_comment else _gather(piece, scratch, 2),
        comments=None if rules.in_comment else _gather(piece, scratch, 0),
        largest=int(scratch.counts[kernels.LARGEST]),
        fault=None if fault == kernels.FINE else (row, fault, position),
    )


def ends_without_features(piece: Piece) -> bool:
    """Whether a parsed piece ends in a row without features, comment and newline: `2 qid:1`, maybe cut off there."""
    if not piece.unterminated or not len(piece.lines) or piece.lines[-1, kernels.NUMBER] != piece.n_lines - 1:
        return False
    start, newline = piece.lines[-1, kernels.FEATURES], piece.lines[-1, kernels.NEWLINE]
    return not piece.buffer[start:newline].strip()


@np.errstate(over="ignore")
def _run_kernels(piece: Piece, X: np.ndarray, y: np.ndarray, rules: Rules, scratch: _Scratch) -> tuple[int, int, int]:
    """Run the steps one after the other, each on the rows that were fine so far; (row, fault, place) of the end."""
    text, lines, base, limit = piece.text, piece.lines, rules.base, rules.limit
    counts, undecided, powers = scratch.counts, scratch.undecided, power_table()
    heads = rules.with_label, rules.with_qid
    end = kernels.read_heads(text, lines, *heads, powers, y, scratch.runs, undecided, counts)
    keys = feature_keys(X.shape[1], base)
    later = kernels.read_features(text, lines[: end[0]], keys, base, limit, rules.absent, powers, X, undecided, counts)
    end = end if later[1] == kernels.FINE else later
    if counts[kernels.ANY_UNSORTED]:
        later = kernels.refuse_twice(text, lines[: end[0]], base, limit, np.zeros(X.shape[1], dtype=np.int64))
        end = end if later[1] == kernels.FINE else later
    later = kernels.read_endings(text, lines[: end[0]], scratch.notes, counts)
    if rules.in_comment:
        end = end if later[1] == kernels.FINE else later
        later = kernels.read_comment_ids(text, lines[: end[0]], scratch.notes, scratch.runs, counts)
    row, fault, position = end if later[1] == kernels.FINE else later
    return int(row), int(fault), int(position)


@lru_cache(maxsize=4)
def feature_keys(columns: int, base: int) -> np.ndarray:
    keys = np.empty((columns + 1, 4), dtype=np.uint64)
    kernels.fill_keys(keys, base)
    return keys.reshape(-1)


def _settle(
    piece: Piece, X: np.ndarray, y: np.ndarray, scratch: _Scratch, end: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Let Python read the few numbers that the kernels left undecided; the first fault, theirs or of such a number."""
    for row, column, start, stop in scratch.undecided[: scratch.counts[kernels.WAITING]].tolist():
        value = float(piece.buffer[start:stop])
        if column == kernels.LABEL:
            fault, good = kernels.LABEL_RANGE, 0.0 <= value < np.inf
            y[row] = value
        else:
            narrow = round_texts(np.array([value]), [bytes(piece.buffer[start:stop])])[0]
            if kernels.LARGEST_DOUBLE <= value < np.inf:
                narrow = np.float32(np.nan)
                scratch.counts[kernels.LARGEST] += 1
            fault, good = kernels.VALUE_RANGE, not np.isinf(narrow)
            if good and column < X.shape[1]:
                X[row, column] = narrow
        if not good and (row < end[0] or (row == end[0] and end[1] == kernels.FINE)):
            end = row, fault, start
    return end


def _gather(piece: Piece, scratch: _Scratch, first: int) -> Texts | None:
    """The comments (first=0) or the document ids (first=2) of all rows; None when no row has one."""
    if scratch.counts[kernels.NOTED] == 0:
        return None
    texts = copied_texts(piece.text, np.ascontiguousarray(scratch.notes[:, first : first + 2]))
    return texts if len(texts.data) else None


def _tokens(texts: Texts) -> list[bytes]:
    data = texts.data.tobytes()
    return [data[start:end] for start, end in pairwise(texts.offsets.tolist())]


def copied_texts(text: np.ndarray, spans: np.ndarray) -> Texts:
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(spans[:, 1] - spans[:, 0], out=offsets[1:])
    data = np.empty(offsets[-1], dtype=np.uint8)
    kernels.copy_spans(text, spans, data)
    return Texts(data, offsets)
