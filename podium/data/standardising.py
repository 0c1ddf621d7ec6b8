"""Standardisation: z = (x - centre) / scale, with the mean and the standard deviation of each feature.

Sums are exact (`_runtime/exact.py`), so that no order of the rows can change a bit. Applying it needs NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROUNDING = 1e-7  # of the mean: a smaller deviation is rounding in float32


@dataclass(frozen=True, eq=False)
class Standardisation:
    """What the features were like in training; a constant one has scale 1, and so z = 0."""

    centre: np.ndarray  # (features,) float64
    scale: np.ndarray  # (features,) float64, above 0

    @classmethod
    def identity(cls, n_features: int) -> Standardisation:
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def fit(cls, X: np.ndarray, weights: np.ndarray | None = None) -> Standardisation:
        """Of the values that are not missing, weighted if rows have weights; 0 and 1 where there are none."""
        from podium._runtime.exact import exact_sum  # Numba, which applying does without

        weights = np.ones(len(X)) if weights is None else weights
        centre, deviation = np.zeros((2, X.shape[1]))
        for f in range(X.shape[1]):
            values = X[:, f].astype(np.float64)
            present = ~np.isnan(values)
            values, counts = values[present], weights[present]
            total = exact_sum(counts) or 1.0
            centre[f] = exact_sum(counts * values) / total
            deviation[f] = np.sqrt(exact_sum(counts * (values - centre[f]) ** 2) / total)
        return cls(centre, _divisors(centre, deviation))

    def apply(self, X: np.ndarray) -> np.ndarray:
        """z, float64; X (rows, features)."""
        return np.asarray((X - self.centre) / self.scale)

    def take(self, features: np.ndarray | slice | int) -> Standardisation:
        """That of some features."""
        return Standardisation(self.centre[features], self.scale[features])

    def unscaled(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (..., features) of z as weights w of x, and what to subtract then: w . centre."""
        raw = weights / self.scale
        return raw, raw @ self.centre


def _divisors(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The standard deviation; 1 if the feature is constant.

    A constant need not be its own mean, and rounding errors of a large one are large: its divisor makes them small.
    """
    constant = deviation <= _ROUNDING * np.abs(mean)
    return np.where(constant, np.maximum(1.0, deviation / _ROUNDING), deviation)
