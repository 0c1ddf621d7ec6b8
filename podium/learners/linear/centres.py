"""Centres of basis functions as a user writes them: an array, or rows of numbers, `[[0, 1], [2, 0.5]]`.

They are a parameter, so all of them stand in the head of a model file, which is why their number is limited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podium._runtime.compiler import Array

MOST_NUMBERS = 10**5
_LARGEST = float(np.finfo(np.float32).max)


def as_centres(value: Any) -> Array:
    """(centres, columns) float64; a ValueError says what is wrong with anything else."""
    rows = _listed(value)
    if not isinstance(rows, (list, tuple)) or not rows:
        raise ValueError(f"expected one row of numbers per centre, such as [[0, 1], [2, 0.5]]; got {_shown(value)}.")
    rows = [_listed(row) for row in rows]
    for number, row in enumerate(rows):
        _check_row(number, row, rows[0])
    if len(rows) * len(rows[0]) > MOST_NUMBERS:
        size = f"{len(rows):,} centres of {len(rows[0]):,} numbers"
        advice = "Give fewer centres, or let n_centres training rows be the centres"
        raise ValueError(f"{size} are too many; a model file has room for {MOST_NUMBERS:,} numbers. {advice}.")
    return np.array(rows, np.float64)


def are_centres(value: Any) -> bool:
    try:
        as_centres(value)
    except ValueError:
        return False
    return True


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _check_row(number: int, row: Any, first: Any) -> None:
    if not isinstance(row, (list, tuple)) or not row:
        raise ValueError(f"centre {number + 1} must be a row of numbers, one per column; got {_shown(row)}.")
    if len(row) != len(first):
        lengths = f"centre 1 has length {len(first)}, centre {number + 1} has length {len(row)}"
        raise ValueError(f"all centres must have the same length; {lengths}.")
    for column, entry in enumerate(row):
        if not _is_finite(entry):
            raise ValueError(
                f"column {column + 1} of centre {number + 1} must be a finite number; got {_shown(entry)}."
            )


def _is_finite(entry: Any) -> bool:
    """As float32, like the features it is compared with."""
    is_number = isinstance(entry, (int, float, np.integer, np.floating)) and not isinstance(entry, bool)
    return is_number and bool(abs(entry) <= _LARGEST)


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
