"""Scores files: one number per line, in the order of the data file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from podium._runtime.files import write_whole
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, number_text, read_numbers


def read_scores(path: FilePath, n_rows: int | None = None) -> np.ndarray:
    """Read one finite number per line (float64); with `n_rows`, exactly that many are expected."""
    scores = read_numbers(path, "Scores files have one number per line.")
    if n_rows is not None and len(scores) != n_rows:
        message = (
            f"has {len(scores)} scores, the data has {n_rows} rows; expected one number per row, in the data's order."
        )
        raise FormatError(path, message)
    if n_rows is None and len(scores) == 0:
        raise FormatError(path, "is empty; expected one number per line.")
    return scores


def write_scores(scores: Any, path: FilePath) -> None:
    """Write one number per line, each as the shortest text that reads back as the same float64."""
    with write_whole(path) as stream:
        stream.writelines(score_lines(scores))


def score_lines(scores: Any) -> Iterator[bytes]:
    """The text of a scores file, some thousand lines at a time."""
    numbers = np.asarray(scores, dtype=np.float64)
    if numbers.ndim != 1:
        raise ValueError(f"scores must have one dimension; got shape {numbers.shape}.")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(f"scores[{row}] is {numbers[row]}; scores must be finite numbers.")
    for start in range(0, len(numbers), 100_000):
        lines = map(number_text, numbers[start : start + 100_000].tolist())
        yield "".join(f"{line}\n" for line in lines).encode()
