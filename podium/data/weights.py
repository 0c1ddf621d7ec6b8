"""Weights on a common scale: the mean of the positive ones is 1.

A common factor of all weights means nothing, but penalties, least sums of hessians and float32 would see it. So weights
are scaled before anything else sees them, and no factor changes a model. Weights of 0 do not count in the mean: they
say that something is not to be learned from, and there may be any number of these.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.exact import exact_sum

LARGEST_RATIO = 1e12  # products of two documents' weights, their query's and their pair's stay within float32
_LEAST = (1 - 1e-9) / LARGEST_RATIO  # the ratio itself is allowed, however it is rounded


def scaled_weights(weights: np.ndarray | None, name: str) -> np.ndarray | None:
    """Divided by the largest first, so that no sum of them overflows and equal weights become 1 exactly."""
    if weights is None or not 0 < weights.max(initial=0.0) < np.inf:  # none, or a part of the queries that all have 0
        return weights
    relative = weights / weights.max()
    positive = relative > 0
    _refuse_large_ratio(weights, relative, name)
    mean = exact_sum(relative[positive]) / int(positive.sum())
    return np.asarray(relative / mean)


def _refuse_large_ratio(weights: np.ndarray, relative: np.ndarray, name: str) -> None:
    positive = np.flatnonzero(weights > 0)  # of the weights: a relative one may be too small for float64
    smallest, largest = int(positive[weights[positive].argmin()]), int(weights.argmax())
    if relative[smallest] < _LEAST:
        limit = f"fit: positive weights may differ by a factor of at most {LARGEST_RATIO:g}"
        two = " and ".join(f"{name}[{row}] is {weights[row]:g}" for row in (smallest, largest))
        raise ValueError(f"{limit}; {two}. Set weights that are negligible to 0.")
