"""Stored values: what a checkpoint holds, checked before training continues with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def refuse_other_names(expected: Iterable[str], names: Iterable[str]) -> None:
    """An error if a name is missing, or not known."""
    wrong = set(expected) ^ set(names)
    if wrong:
        raise ValueError(f"{min(wrong)[:60]!r} is missing, or not known")


def named_scores(followed: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The scores of evaluation sets, as a state has them."""
    return {f"eval_{number}/scores": scores for number, scores in enumerate(followed)}


def read_scores(arrays: Mapping[str, np.ndarray], followed: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [read_numbers(arrays, name, len(scores)) for name, scores in named_scores(followed).items()]


def read_count(meta: Mapping[str, Any], key: str, most: int) -> int:
    value = meta[key]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{key} must be an integer from 0 to {most}")
    return value


def read_numbers(arrays: Mapping[str, np.ndarray], name: str, length: int, unset: float | None = None) -> np.ndarray:
    """A copy of stored float64 numbers that training can change; all are finite, or `unset`."""
    array = arrays[name]
    if array.dtype != np.float64 or array.shape != (length,):
        raise ValueError(f"{name} has dtype {array.dtype} and shape {array.shape}, not float64 and ({length},)")
    other = array[~np.isfinite(array)]
    if len(other) and (unset is None or not np.array_equal(other, np.full(len(other), unset), equal_nan=True)):
        raise ValueError(f"{name} holds a number that is not finite")
    return array.copy()
