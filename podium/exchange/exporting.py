"""Exporting: a fitted model as a file of another program, with a report of how equal the scores are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import is_stream, write_whole
from podium.exchange.claims import BITS, Report, Written, as_rows
from podium.exchange.forms import Form, Trees, form_of
from podium.exchange.registry import find_format
from podium.exchange.rows import telling_rows

GOLDEN_ROWS = 200


def export(
    model: Any,
    path: Any,
    to: str,
    *,
    engine: str | None = None,
    complete: bool = False,
    golden: Any = None,
    X: Any = None,
) -> Report:
    """Write a fitted model as a file of another program, and a report beside it, `PATH.report.json`, unless to a pipe.

    to: a format, such as "lightgbm"; engine: the version of the program that will read the file, where it matters.
    complete: whether the rows to be scored have no missing values; then a program may send these where it likes.
    golden: a file for rows and their expected scores, one per line as JSON, for programs that Python cannot ask. The
    rows are those of X (n, features), else 200 at the thresholds of the model. The report says what is claimed, and
    `report.expected(X)` gives the scores of that program.
    """
    form = form_of(model, complete)
    written = _with_distance(write_form(form, to, engine), form)
    report = Report.of(written, path, to, engine, complete, model)
    if golden is not None:
        rows = telling_rows(form, GOLDEN_ROWS, report.n_features) if X is None else as_rows(X, report.n_features)
        write_golden(golden, rows, report.expected(rows))
        report = replace(report, golden=str(golden))
    with write_whole(path) as stream:
        stream.write(written.content)
    if not is_stream(Path(path)):
        report.write(report_path(path))
    return report


def _with_distance(written: Written, form: Form) -> Written:
    """With a note of how far the scores of the trees are from those of the model, where they may be others."""
    if not isinstance(form, Trees) or written.claim.kind == BITS:
        return written
    rows = telling_rows(form, GOLDEN_ROWS, form.forest.n_features)
    largest = np.abs(written.expected(rows) - form.scores(rows)).max()
    where = f"on {GOLDEN_ROWS} rows at the thresholds of the model"
    note = f"{where}, scores are at most {largest:.1e} from those of predict here"
    return replace(written, notes=(*written.notes, note))


def write_form(form: Form, to: str, engine: str | None = None) -> Written:
    """What a format makes of a form."""
    written: Written = find_format(to, writes=True).load().write(form, engine)
    return written


def report_path(path: Any) -> Path:
    """Where the report of an exported file is."""
    return Path(f"{path}.report.json")


def write_golden(path: Any, rows: Array, expected: Array) -> None:
    """One row and its expected score per line; what is missing is null."""
    with write_whole(path) as stream:
        for row, score in zip(rows.tolist(), expected.tolist()):
            values = [None if value != value else value for value in row]
            stream.write(json.dumps({"row": values, "expected": score}).encode() + b"\n")
