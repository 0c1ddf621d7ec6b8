"""Rows for a service, float32 in C order, which kernels read without further checks; and scores, which are finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.data.sparse import is_sparse

_SINGLE = np.dtype(np.float32)


def are_scorable(X: Any, n_features: int) -> bool:
    """Whether these are rows that kernels can read as they are."""
    return (
        type(X) is np.ndarray
        and X.dtype == _SINGLE
        and X.ndim == 2
        and X.shape[1] == n_features
        and X.flags.c_contiguous
    )


def describe_unscorable(X: Any, n_features: int) -> str:
    """Why these are not."""
    expected = f"a scorer takes a numpy array of float32 in C order with shape (rows, {n_features})"
    advice = "Use np.ascontiguousarray(rows, dtype=np.float32), or predict, which takes anything."
    if is_sparse(X):
        return f"{expected}; got a sparse matrix. Use rows.toarray(), or predict, which takes it as it is."
    if type(X) is not np.ndarray:
        return f"{expected}; got {type(X).__name__}. {advice}"
    order = "" if X.flags.c_contiguous else " that is not in C order"
    return f"{expected}; got {X.dtype} with shape {X.shape}{order}. {advice}"


def finite_scores(scores: Array, model: str) -> Array:
    """The scores (n,) of a model, or an error that names the model and the first row whose score is not finite."""
    row = _first_infinite(scores)
    if row >= 0:
        advice = "Check the features of this row against those of training; scale or clip them."
        raise ValueError(f"{model}: expected finite scores; that of row {row + 1} is {scores[row]:g}. {advice}")
    return scores


def single_scores(scores: Array, model: str) -> Array:
    """The scores as float32, or an error as above."""
    with np.errstate(over="ignore"):
        single = finite_scores(scores, model).astype(_SINGLE)
    row = _first_infinite(single)
    if row >= 0:
        advice = "Use predict, which returns float64, or smaller features."
        raise ValueError(f"{model}: the score of row {row + 1}, {scores[row]:g}, is too large for float32. {advice}")
    return single


@kernel
def _first_infinite(scores: Array) -> int:
    """The first place with NaN or infinity, or -1. A kernel: numpy takes a good part of the time of a short request."""
    for row in range(len(scores)):
        if not math.isfinite(scores[row]):
            return row
    return -1
