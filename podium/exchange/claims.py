"""Claims: how equal the scores of another program are to ours, and when; and reports, which carry them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import write_whole
from podium.models.frame.ranker import Ranker

BITS, DOUBLE, SINGLE, ROUNDED, TOLERANCE = "bits", "double", "single", "rounded", "tolerance"
_WORDS = {
    BITS: "the same bits as Podium's predict",
    DOUBLE: "the same bits as the sum from left to right in float64",
    SINGLE: "the same bits as the sum from left to right in float32, of numbers that are rounded to float32 first",
    ROUNDED: "the same bits as the sum from left to right in float64, rounded to float32 at the end",
    TOLERANCE: "within the tolerance",
}


@dataclass(frozen=True)
class Claim:
    """What is claimed of the scores of a program, and when."""

    kind: str  # BITS, DOUBLE, SINGLE, ROUNDED or TOLERANCE
    engine: str  # the program, its versions and how it is called
    conditions: tuple[str, ...] = ()
    tolerance: float = 0.0  # |theirs - expected| <= tolerance * max(1, |expected|)

    def sentence(self) -> str:
        return "; ".join(line.strip() for line in self.lines())

    def lines(self) -> list[str]:
        """What is claimed, and below it the conditions."""
        words = _WORDS[self.kind] + (f" ({self.tolerance:g}, relative)" if self.kind == TOLERANCE else "")
        return [f"{self.engine}: {words}", *(f"  {condition}" for condition in self.conditions)]

    def holds(self, scores: Array, expected: Array) -> Array:
        """Row by row."""
        if self.kind == TOLERANCE:
            return np.asarray(np.abs(scores - expected) <= self.tolerance * np.maximum(1.0, np.abs(expected)))
        return np.asarray(scores == expected)


@dataclass(frozen=True, eq=False)
class Written:
    """What a format makes of a model: the bytes of the file, what is claimed, and the scores that are expected."""

    content: bytes
    claim: Claim
    expected: Callable[[Array], Array]  # float32 rows -> float64 scores, as the program gives them
    notes: tuple[str, ...] = ()  # what the file does not keep


@dataclass(frozen=True, eq=False)
class Imported:
    """What a format's reader makes of a file."""

    model: Ranker
    claim: Claim  # how equal our scores are to those of the program
    notes: tuple[str, ...] = ()  # what the model does not keep
    format: str = ""  # as in "LightGBM's text"


@dataclass(frozen=True)
class Report:
    """What was exported, and how equal its scores are."""

    format: str
    path: str
    model: str
    n_features: int
    engine: str | None  # the version of the program that was asked for
    complete: bool  # whether rows with missing values were ruled out
    digest: str  # SHA-256 of the file
    n_bytes: int
    claim: Claim
    notes: tuple[str, ...] = ()
    golden: str | None = None  # the file of golden rows
    _expected: Callable[[Array], Array] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, written: Written, path: Any, format: str, engine: str | None, complete: bool, model: Any) -> Report:
        digest, name, n_features = (
            hashlib.sha256(written.content).hexdigest(),
            os.fspath(path),
            int(model.n_features_in_),
        )
        facts = (format, name, type(model).__name__, n_features, engine, complete, digest, len(written.content))
        return cls(*facts, written.claim, written.notes, _expected=written.expected)

    def expected(self, X: Any) -> Array:
        """The scores that the other program will give to these rows (n, features), as float64."""
        assert self._expected is not None
        return self._expected(as_rows(X, self.n_features))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        claim = {
            "kind": self.claim.kind,
            "engine": self.claim.engine,
            "conditions": list(self.claim.conditions),
            "tolerance": self.claim.tolerance,
            "sentence": self.claim.sentence(),
        }
        facts = {"format": self.format, "path": self.path, "model": self.model, "n_features": self.n_features}
        facts |= {} if self.engine is None else {"engine": self.engine}
        facts |= {"complete": True} if self.complete else {}
        facts |= {"sha256": self.digest, "bytes": self.n_bytes, "claim": claim, "notes": list(self.notes)}
        return facts | ({} if self.golden is None else {"golden": self.golden})

    def write(self, path: Any) -> None:
        """Write the report as JSON."""
        with write_whole(path) as stream:
            stream.write(json.dumps(self.as_dict(), indent=1).encode() + b"\n")

    def __str__(self) -> str:
        first = f"{self.path}: {self.model} as {self.format}, {self.n_bytes:,} bytes"
        return "\n".join([first, *self.claim.lines(), *(f"  {note}" for note in self.notes)])


def as_rows(X: Any, n_features: int) -> Array:
    """Rows as other programs get them: (n, features), float32."""
    rows = np.ascontiguousarray(X, dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise ValueError(f"expected rows of {n_features} features; got an array of shape {rows.shape}.")
    return rows
