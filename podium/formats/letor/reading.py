"""Reading LETOR text.

A file is read ahead in pieces that end at a newline, and several threads parse them straight into the array that
becomes `RankingData.X`. Nothing depends on how the file was cut or on the number of threads; of several bad lines the
first is reported.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from podium._runtime.progress import Report
from podium.data.query_ids import as_query_ids, group_rows, ids_from_objects, object_array, offsets_of
from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.letor.faults import shortened
from podium.formats.letor.names import names_beside, with_names
from podium.formats.letor.parsing import make_rules
from podium.formats.letor.table import Table, read_whole
from podium.formats.lines import FilePath


def read_letor(
    path: FilePath,
    *,
    missing: str = "zero",
    n_features: int | None = None,
    max_features: int = 100_000,
    zero_based: bool = False,
    strict: bool = False,
    labels: str = "required",
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> RankingData:
    """Read a LETOR file, plain or compressed (gz, xz, bz2, zst).

    A feature that a row does not name is 0, or NaN with `missing="nan"`; the value `nan` is NaN. `n_features` sets the
    number of columns, else the highest index does, up to `max_features`. Indices count from 1, or from 0 with
    `zero_based`. Rows of a query may lie anywhere and stay where they are, with a warning if queries are interleaved,
    or an error if `strict`. `labels` is as in `read_data`: rows without them begin with `qid:`. `progress` is called
    with the bytes of the file that were read and with all of them.

    Names of features stand in a comment before the rows, `# features: ["BM25(title)", "PageRank"]`, or in a
    `.features.toml` beside the file.
    """
    rules = make_rules(path, True, missing, n_features, max_features, zero_based, labels)
    return group_by_qid(read_whole(rules, n_jobs, progress), rules.path, strict)


def read_letor_comments(
    path: FilePath,
    *,
    missing: str = "zero",
    n_features: int | None = None,
    max_features: int = 100_000,
    zero_based: bool = False,
    strict: bool = False,
    labels: str = "required",
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> RankingData:
    """Read the same text with the query id behind `#`: `label 1:value 2:value ... # id`, a comment of one word."""
    rules = replace(make_rules(path, False, missing, n_features, max_features, zero_based, labels), in_comment=True)
    return group_by_qid(read_whole(rules, n_jobs, progress), rules.path, strict)


def read_svmlight(
    path: FilePath,
    *,
    group_sizes: Any,
    missing: str = "zero",
    n_features: int | None = None,
    max_features: int = 100_000,
    zero_based: bool = False,
    labels: str = "required",
    n_jobs: int | None = None,
    progress: Report | None = None,
) -> RankingData:
    """Read the same text without `qid:`; `group_sizes` has the number of rows of each query, as LightGBM's `.query`."""
    rules = make_rules(path, False, missing, n_features, max_features, zero_based, labels)
    table = read_whole(rules, n_jobs, progress)
    _, offsets, query_ids = group_rows(as_query_ids(None, group_sizes, table.rows))
    return _data(table, offsets, query_ids, np.arange(table.rows, dtype=np.int64))


def group_by_qid(table: Table, path: str, strict: bool) -> RankingData:
    codes, places = table.runs.joined()
    names = [token.decode("utf-8", "surrogateescape") for token in table.runs.numbers]
    n = table.rows
    lengths, rows = np.diff(np.append(places[:, 0], n)), np.arange(n, dtype=np.int64)
    if len(codes) > len(names):
        _report_interleaved(path, names, codes, places, strict)
        row_codes = np.repeat(codes, lengths)
        rows, lengths = np.argsort(row_codes, kind="stable"), np.bincount(row_codes)
    return _data(table, offsets_of(lengths), _query_ids(names), rows)


def _data(table: Table, offsets: np.ndarray, query_ids: np.ndarray, rows: np.ndarray) -> RankingData:
    texts = table.docids, table.comments
    data = RankingData(table.X, table.y, offsets, query_ids, rows, *texts, feature_names=table.names)
    beside = None if table.names is not None else names_beside(table.rules.path)
    if beside is None:
        return data
    return with_names(data, beside[0], table.rules.path, beside[1], float(table.rules.absent))


def _report_interleaved(path: str, names: list[str], codes: np.ndarray, places: np.ndarray, strict: bool) -> None:
    """Say which query comes back first, and how many do."""
    _, firsts, counts = np.unique(codes, return_index=True, return_counts=True)
    again = int(np.setdiff1d(np.arange(len(codes)), firsts)[0])
    first = int(firsts[codes[again]])
    start, end = int(places[first, 1]), int(places[first, 2])
    lines = f"line {start}" if start == end else f"lines {start}-{end}"
    number = int((counts > 1).sum())
    facts = (
        f'rows of query "{shortened(names[codes[again]])}" are at {lines} and again at line {int(places[again, 1])}; '
        f"{number} {'query is' if number == 1 else 'queries are'} interleaved."
    )
    if strict:
        raise FormatError(
            path, f"{facts} Put the rows of a query together, or pass strict=False to read them as they are."
        )
    advice = "Rows keep their order, and each query has all of its rows; pass strict=True to refuse."
    warnings.warn(f"{path}: {facts} {advice}", stacklevel=4)


def _query_ids(names: list[str]) -> np.ndarray:
    """int64 or uint64 if every name is the usual text of such a number, else strings: no two names become one id."""
    with suppress(ValueError):
        numbers = [int(name) if len(name) <= 20 else 2**64 for name in names]
        if all(str(number) == name for number, name in zip(numbers, names)):
            return ids_from_objects(object_array(numbers))
    return object_array(names)
