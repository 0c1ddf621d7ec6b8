"""Rows for a service: a float32 array in C order, which kernels read without further checks."""

from __future__ import annotations

from typing import Any

import numpy as np

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
