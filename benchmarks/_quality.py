"""Differences of quality: the mean over queries with its interval, and p corrected for the number of comparisons.

Values are those of single queries, in parts: the test part of each fold, or a generated set for each seed. Every part
has the same weight, as in LETOR's tables, so a difference is that of the means beside it. Intervals and p know the
spread over queries; that over seeds is averaged before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from podium.evaluation.intervals import TOO_FEW_DIFFERENCES, mean_interval
from podium.evaluation.significance import correct, paired_differences, randomisation_test, weighted_mean

Key = TypeVar("Key")  # a row of a table
Parts = Sequence[np.ndarray]
"""One value per query, an array per part; NaN where a metric is undefined."""


@dataclass(frozen=True)
class Difference:
    """Own minus other, a mean over queries."""

    mean: float
    low: float
    high: float
    p: float  # of the randomisation test
    corrected: float  # by Holm, for all comparisons of the table
    comparisons: int

    def __str__(self) -> str:
        known = not math.isnan(self.low)
        interval = (
            f"95 % over queries: {self.low:+.4f} to {self.high:+.4f}"
            if known
            else f"no interval: {TOO_FEW_DIFFERENCES}"
        )
        correction = f", by Holm over {self.comparisons}: {self.corrected:.2g}" if self.comparisons > 1 else ""
        return f"{self.mean:+.4f} ({interval}; p = {self.p:.2g}{correction})"


def compare_means(pairs: Mapping[Key, tuple[Parts, Parts]]) -> dict[Key, Difference]:
    """Own minus other for every pair of a table: {"what": (own, other)}."""
    found = {name: _compare(own, other) for name, (own, other) in pairs.items()}
    corrected = correct([p for *_, p in found.values()], "holm")
    return {name: Difference(*row, float(p), len(found)) for (name, row), p in zip(found.items(), corrected)}


def mean_of(parts: Parts) -> float:
    """The mean over parts of the mean over queries."""
    return float(np.mean([np.nanmean(part) for part in parts]))


def mean_over_seeds(runs: Sequence[Parts]) -> Parts:
    """Values per query, each the mean over runs with the same queries."""
    return [np.mean(values, axis=0) for values in zip(*runs)]


def _compare(own: Parts, other: Parts) -> tuple[float, float, float, float]:
    """Mean, both ends of the interval, p."""
    gains = [paired_differences(before, after) for before, after in zip(other, own, strict=True)]
    gains = [gain[~np.isnan(gain)] for gain in gains]
    weights = np.concatenate([np.full(len(gain), 1 / max(len(gain), 1)) for gain in gains])
    gain = np.concatenate(gains)
    return weighted_mean(gain, weights), *mean_interval(gain, weights), randomisation_test(gain, weights)
