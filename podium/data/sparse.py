"""Sparse features: for each row its stored entries alone, in columns that rise (CSR). What is not stored is 0.

A stored NaN is a missing value. Any kind of scipy matrix is converted to one kind, and its arrays have
been checked: neither scipy's compiled code nor a kernel looks whether a column is there before it writes to it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly

FeatureMatrix = Any
"""(rows, features) float32, NaN = missing: a numpy array in C order, or what `as_sparse` returns."""

_PIECE = 1 << 20  # entries looked at in one go: no mask as large as the data


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of scipy. Nothing is while scipy.sparse has not been imported."""
    if type(X) is np.ndarray:  # the usual case, asked several times per document
        return False
    # While another thread imports it, the module is there without its functions: nobody has a matrix of it yet.
    issparse = getattr(sys.modules.get("scipy.sparse"), "issparse", None)
    return issparse is not None and bool(issparse(X))


def as_sparse(X: Any) -> Any:
    """X as a `csr_array` of float32, the columns of a row rising and each there once, with read-only arrays.

    X itself stays as it is; arrays that are right already are shared with it.
    """
    from scipy.sparse import csr_array

    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features); got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold real numbers; got a sparse matrix of {X.dtype}.")
    rows = _checked_rows(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    with np.errstate(over="ignore"):
        values = rows.data.astype(np.float32, copy=False)
    _refuse_infinite(rows, values)
    return csr_array((readonly(values), readonly(rows.indices), readonly(rows.indptr)), shape=rows.shape)


def as_dense(X: FeatureMatrix) -> Array:
    """The features as a numpy array; to be asked of few rows at a time."""
    return np.asarray(X.toarray() if is_sparse(X) else X)


def arrays_of(X: FeatureMatrix) -> list[Array]:
    """The arrays that hold the features."""
    return [X.data, X.indices, X.indptr] if is_sparse(X) else [X]


def refuse_sparse(X: FeatureMatrix, what: str) -> None:
    """For what writes or looks at every value."""
    if is_sparse(X):
        n, width = X.shape
        raise ValueError(
            f"{what} takes dense features; these are sparse, {n:,} rows x {width:,} features. "
            f"data.to_dense() makes them dense, with {4 * n * width / 1e9:,.1f} GB."
        )


def _checked_rows(X: Any) -> Any:
    """X as a `csr_array`, in its own type of numbers; entries may still stand in any order."""
    from scipy.sparse import csc_array, csr_array

    if X.format not in ("csr", "csc"):
        X = X.tocoo()
        try:
            return csr_array((_known_to_scipy(X.data), (X.row, X.col)), shape=X.shape)  # looks at rows and columns
        except ValueError as error:
            raise ValueError(f"X is not a valid sparse matrix: {error}.") from error
    arrays = _known_to_scipy(X.data), X.indices, X.indptr
    n, width = X.shape
    if X.format == "csr":
        _check_arrays(X, n, width, "row", "column")
        return csr_array(arrays, shape=X.shape)
    _check_arrays(X, width, n, "column", "row")
    return csc_array(arrays, shape=X.shape).tocsr()


def _known_to_scipy(values: Array) -> Array:
    """scipy adds up no half-precision numbers."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _check_arrays(X: Any, length: int, width: int, line: str, column: str) -> None:
    """Refuse arrays that lead outside of themselves or of the matrix."""
    values, indices, ends = (np.asarray(array) for array in (X.data, X.indices, X.indptr))
    if indices.dtype.kind not in "iu" or ends.dtype.kind not in "iu" or {values.ndim, indices.ndim, ends.ndim} != {1}:
        raise ValueError("X is not a valid sparse matrix: indices and indptr must be integers in one dimension.")
    if len(values) != len(indices):
        raise ValueError(
            f"X is not a valid sparse matrix: it has {len(values)} values but {len(indices)} indices; expected as many."
        )
    if len(ends) != length + 1 or ends[0] != 0 or ends[-1] > len(indices) or (ends[1:] < ends[:-1]).any():
        raise ValueError(
            f"X is not a valid sparse matrix: indptr must have {length + 1} numbers, one more than there are {line}s, "
            f"that rise from 0 to at most {len(indices)}, the number of entries."
        )
    used = indices[: ends[-1]]
    if len(used) and (used.min() < 0 or used.max() >= width):
        at = int(np.flatnonzero((used < 0) | (used >= width))[0])
        raise ValueError(f"X is not a valid sparse matrix: indices[{at}] is {used[at]}, but it has {width} {column}s.")


def _refuse_infinite(rows: Any, values: Array) -> None:
    for start in range(0, len(values), _PIECE):
        infinite = np.flatnonzero(np.isinf(values[start : start + _PIECE]))
        if len(infinite):
            at = start + int(infinite[0])
            row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
            raise ValueError(
                f"X[{row}, {rows.indices[at]}] is {rows.data[at]}; "
                "features must be finite as float32, or NaN for missing."
            )
