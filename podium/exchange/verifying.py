"""Verifying: the scores of an exported file, by the program itself where it is installed, beside those expected.

The program runs in a process of its own: a file may end it. Where no program can be asked here, golden rows stand in
its place: lines that `export` wrote, to which another machine added what its program gave, as "score".
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.words import counted
from podium.exchange.claims import Written, as_rows
from podium.exchange.exporting import GOLDEN_ROWS, write_form
from podium.exchange.forms import form_of
from podium.exchange.importing import content_of, recognise
from podium.exchange.registry import ModelFormat, find_format
from podium.exchange.rows import telling_rows
from podium.formats.errors import FormatError

TIMEOUT = 600.0  # seconds that a program may take


@dataclass(frozen=True)
class Verification:
    """How the scores of a file compare with what is claimed of it."""

    program: str  # who gave the scores
    n_rows: int
    n_equal: int  # rows whose score is within the claim
    largest_difference: float
    claim: str
    is_same_file: bool  # whether the model is exported as this file, byte by byte

    @property
    def holds(self) -> bool:
        return self.n_equal == self.n_rows

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"holds": self.holds}

    def __str__(self) -> str:
        rows = f"{self.n_equal:,} of {counted(self.n_rows, 'row')}"
        lines = [f"{self.program}: {rows} as expected, largest difference {self.largest_difference:.3g}"]
        lines.append(f"claimed: {self.claim}")
        return "\n".join(lines if self.is_same_file else [*lines, "The model is exported as other bytes today."])


def verify(
    model: Any,
    path: Any,
    X: Any = None,
    *,
    to: str | None = None,
    engine: str | None = None,
    complete: bool = False,
    golden: Any = None,
) -> Verification:
    """Compare the scores of an exported file with what is expected of it.

    path: what `export` wrote; to, engine and complete: as there; else those of the report beside the file. X: rows (n,
    features); None takes some at the thresholds of the model. golden: a file of golden rows, each with the "score" that
    the program gave elsewhere, to be compared in place of asking the program here.
    """
    content = content_of(path)
    chosen, version, complete = _format_of(path, content, to, engine, complete)
    form = form_of(model, complete)
    written, n_features = write_form(form, chosen.name, version), int(model.n_features_in_)
    if golden is not None:
        rows, scores = read_golden(golden, n_features)
        program = f"golden rows of {golden}"
    else:
        rows = telling_rows(form, GOLDEN_ROWS, n_features, seed=1) if X is None else as_rows(X, n_features)
        scores, program = run_program(chosen, content, rows)
    return _compared(written, content, rows, scores, program)


def _compared(written: Written, content: bytes, rows: Array, scores: Array, program: str) -> Verification:
    expected = written.expected(rows)
    within = written.claim.holds(scores, expected)
    with np.errstate(invalid="ignore"):
        largest = float(np.max(np.abs(scores - expected), initial=0.0))
    same = content == written.content
    return Verification(program, len(rows), int(within.sum()), largest, written.claim.sentence(), same)


def _format_of(
    path: Any, content: bytes, to: str | None, engine: str | None, complete: bool
) -> tuple[ModelFormat, str | None, bool]:
    """What is asked for, else what the report beside the file says, else the format by its content."""
    report = Path(f"{path}.report.json")
    if to is None and report.exists():
        try:
            noted = json.loads(report.read_text(encoding="utf-8"))
            to, engine = str(noted["format"]), engine if engine is not None else noted.get("engine")
            complete = complete or noted.get("complete") is True
        except (ValueError, KeyError, TypeError, RecursionError):
            raise FormatError(report, "is no report of an export. Give the format: to=... (--to).") from None
    chosen = recognise(path, content, to_write=True) if to is None else find_format(to, writes=True)
    return chosen, engine, complete


def run_program(format: ModelFormat, content: bytes, rows: Array) -> tuple[Array, str]:
    """Scores of a file by the program of a format, in a process of its own; and what it is called."""
    if not format.runtime:
        advice = 'Export with golden rows (golden=..., --golden), add what it gives as "score", and verify these.'
        raise ValueError(f"no program for {format.about} can be asked from Python. {advice}")
    with tempfile.TemporaryDirectory() as folder:
        file, sent, received = (Path(folder) / name for name in ("model", "rows.npy", "scores.npy"))
        file.write_bytes(content)
        np.save(sent, rows)
        command = [sys.executable, "-m", "podium.exchange.running", format.name, str(file), str(sent), str(received)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode or not received.exists():
            said = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
            raise ValueError(f"{format.runtime} gave no scores: {said}")
        return np.load(received, allow_pickle=False), done.stdout.strip()


def read_golden(path: Any, n_features: int) -> tuple[Array, Array]:
    """Rows and the scores that a program gave, of a file of golden rows."""
    rows, scores = [], []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            one = json.loads(line)
            row, score = one["row"], one["score"]
            rows.append(np.array([np.nan if value is None else value for value in row], np.float32))
            scores.append(float(score))
        except (ValueError, KeyError, TypeError, RecursionError):
            expected = '{"row": [...], "expected": ..., "score": what the program gave}'
            raise FormatError(Path(path), f"line {number}: expected {expected}.") from None
        if rows[-1].shape != (n_features,):
            raise FormatError(Path(path), f"line {number}: expected {n_features} values; found {rows[-1].size}.")
    if not rows:
        raise FormatError(Path(path), "has no rows.")
    return np.stack(rows), np.array(scores)
