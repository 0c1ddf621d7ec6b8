"""Weak rankers: functions of one feature with values from 0 to 1, and the scores of a weighted sum of them.

    h(x) = 0 for x <= low, 1 for x >= high, (x - low) / (high - low) between, `default` where x is missing

With low = high this is a threshold: 1 where x > low, else 0; low = high = -inf asks whether x is there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_slices

_BLOCK_ROWS = 8192
RANKER_ARRAYS = ("feature", "low", "high", "default", "alpha", "z")
_TYPES = {"feature": np.uint32, "low": np.float32, "high": np.float32, "default": np.uint8}


@dataclass(frozen=True, eq=False)
class WeakRanker:
    """One function of one feature."""

    feature: int
    low: float
    high: float
    default: int

    def values(self, column: Array) -> Array:
        """One value per row; column (n,) float32."""
        values = np.empty(len(column))
        _rank_column(readonly(column), np.float32(self.low), np.float32(self.high), float(self.default), values)
        return values


@dataclass(frozen=True, eq=False)
class WeakRankers:
    """Rankers with their weights, in the order of the rounds."""

    feature: Array  # (rounds,) uint32
    low: Array  # (rounds,) float32
    high: Array  # (rounds,) float32
    default: Array  # (rounds,) uint8: 0 or 1
    alpha: Array  # (rounds,) float64
    z: Array  # (rounds,) float64: sum D exp(-alpha u), above 0 and at most 1

    def __len__(self) -> int:
        return len(self.alpha)

    @classmethod
    def of(cls, rounds: Sequence[tuple[WeakRanker, float, float]]) -> WeakRankers:
        """From (ranker, alpha, z) of each round."""
        columns = zip(*((one.feature, one.low, one.high, one.default, alpha, z) for one, alpha, z in rounds))
        arrays = zip(RANKER_ARRAYS, columns if rounds else [[]] * len(RANKER_ARRAYS))
        return cls(**{name: np.array(column, _TYPES.get(name, np.float64)) for name, column in arrays})

    def rounds(self) -> list[tuple[WeakRanker, float, float]]:
        """What `of` takes."""
        columns = (self.arrays()[name].tolist() for name in RANKER_ARRAYS)
        return [(WeakRanker(*one[:4]), one[4], one[5]) for one in zip(*columns)]

    def arrays(self) -> dict[str, Array]:
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def log_bound(self) -> float:
        """The logarithm of the product of all Z."""
        return float(np.log(self.z).sum())

    def add_to(self, scores: Array, X: Array, n_jobs: int | None = None) -> None:
        """scores (n,) float64 += sum alpha h(X), one ranker after the other."""
        X = readonly(X)
        feature, low, high, default, alpha = (readonly(getattr(self, name)) for name in RANKER_ARRAYS[:-1])

        def work(part: slice) -> None:
            _add_scores(X[part], feature, low, high, default, alpha, scores[part])

        map_slices(work, len(X), _BLOCK_ROWS, n_jobs)

    def check(self, n_features: int) -> None:
        """Refuse arrays that are not those of weak rankers of so many features."""
        for name, array in self.arrays().items():
            expected = np.dtype(_TYPES.get(name, np.float64))
            if array.dtype != expected or array.shape != (len(self.alpha),):
                raise ValueError(f"{name} must have dtype {expected} and one number per round")
        if (self.feature >= n_features).any():
            raise ValueError(f"a weak ranker uses a feature that is not one of {n_features}")
        if not (self.low <= self.high).all() or not (self.high < np.inf).all():
            raise ValueError("low and high of a weak ranker must be numbers, in this order")
        if ((self.low == -np.inf) & (self.high > -np.inf)).any() or (self.default > 1).any():
            raise ValueError("a weak ranker must have a finite slope, and the default 0 or 1")
        if not np.isfinite(np.abs(self.alpha).sum()):
            raise ValueError("alpha must be finite, also in sum")
        if not ((self.z > 0) & (self.z <= 1)).all():
            raise ValueError("z must be above 0 and at most 1")


@kernel
def rank_value(x: np.float32, low: np.float32, high: np.float32, default: float) -> float:
    """h(x)."""
    if x != x:
        return default
    if x <= low:
        return 0.0
    if x >= high:
        return 1.0
    return (np.float64(x) - np.float64(low)) / (np.float64(high) - np.float64(low))


@kernel
def _rank_column(column: Array, low: np.float32, high: np.float32, default: float, values: Array) -> None:
    for k in range(len(column)):
        values[k] = rank_value(column[k], low, high, default)


@kernel
def _add_scores(X: Array, feature: Array, low: Array, high: Array, default: Array, alpha: Array, scores: Array) -> None:
    """scores[i] += alpha[m] h_m(X[i, feature[m]]), m rising: in training, rounds are added in this order too."""
    for i in range(len(X)):
        total = scores[i]
        for m in range(len(alpha)):
            total += alpha[m] * rank_value(X[i, feature[m]], low[m], high[m], np.float64(default[m]))
        scores[i] = total
