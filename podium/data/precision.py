"""Single precision: features are float32, which distinguishes all integers up to 2**24 only.

Timestamps in seconds and long ids are larger, and neighbours become one value. A column is reported if different
integers of it become one or, where it has fractions too, if half of its values or more are lost: rounding alone is
no harm to an ordinary decimal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from podium._runtime.warn import LossWarning, warn

EXACT = 2**24  # integers below it are all different in float32
_PIECE = 1 << 19  # values looked at in one go: they stay in the cache

Pair = tuple[Any, Any]
"""Two numbers that become one."""


def columns_where(test: Callable[[np.ndarray], np.ndarray], matrix: np.ndarray) -> np.ndarray:
    """The columns with a value for which the test is true, in one pass."""
    holds = np.zeros(matrix.shape[1], dtype=bool)
    step = max(1, _PIECE // max(1, matrix.shape[1]))
    for start in range(0, len(matrix), step):
        true = test(matrix[start : start + step])
        if true.any():
            holds |= true.any(axis=0)
    return np.flatnonzero(holds)


def is_large(values: np.ndarray) -> np.ndarray:
    """Where values are 2**24 or more, or -2**24 or less."""
    if values.dtype.kind == "f":
        return np.asarray(np.abs(values) >= EXACT)
    return np.asarray((values >= EXACT) | (values <= -EXACT))  # the smallest int64 has no absolute value


def keeps_all(dtype: np.dtype[Any]) -> bool:
    """Whether float32 holds every number of this type."""
    return dtype.kind == "b" or (dtype.kind in "iuf" and np.can_cast(dtype, np.float32))


def merged_pair(values: np.ndarray) -> Pair | None:
    """Two numbers of a column that float32 makes one, or None where that is nothing to report."""
    large = values[is_large(values)]
    distinct = np.unique(large[np.isfinite(large)])
    whole = distinct.dtype.kind in "iu" or bool((distinct == np.floor(distinct)).all())
    with np.errstate(over="ignore"):
        return _first_pair(distinct, distinct.astype(np.float32), whole)


_LARGEST = Decimal("1e39")  # what is larger is no float32, and stands for a missing value where it is allowed


def merged_texts(texts: Iterable[str]) -> Pair | None:
    """The same of numbers written as text, which may have more digits than a double keeps."""
    exact = set()
    for text in texts:
        try:
            number = Decimal(text.strip() or "nan")
        except InvalidOperation:
            continue
        if number.is_finite() and EXACT <= abs(number) < _LARGEST:
            exact.add(number)
    distinct = np.array(sorted(exact), dtype=object)
    whole = all(number == number.to_integral_value() for number in exact)
    with np.errstate(over="ignore"):
        pair = _first_pair(distinct, distinct.astype(np.float64).astype(np.float32), whole)
    return None if pair is None else (f"{pair[0]:f}", f"{pair[1]:f}")


def _first_pair(distinct: np.ndarray, single: np.ndarray, whole: bool) -> Pair | None:
    same = np.flatnonzero(single[1:] == single[:-1])
    if not len(same) or (not whole and 2 * len(same) < len(distinct)):
        return None
    first = int(same[0])
    return distinct[first], distinct[first + 1]


def merged_columns(X: Any, among: np.ndarray | None = None) -> dict[int, Pair]:
    """What float32 merges in each column of a matrix of numbers, dense or sparse; of anything else, nothing.

    `among`: of a dense one, the columns with large numbers, where they are known.
    """
    if getattr(X, "ndim", 0) != 2 or X.dtype.kind not in "iuf" or keeps_all(X.dtype):
        return {}
    if isinstance(X, np.ndarray):
        columns = {int(column): X[:, column] for column in (columns_where(is_large, X) if among is None else among)}
    else:
        entries = X.tocoo()
        large = is_large(entries.data)
        values, places = entries.data[large], entries.col[large]
        columns = {int(column): values[places == column] for column in np.unique(places)}
    pairs = {column: merged_pair(values) for column, values in columns.items()}
    return {column: pair for column, pair in pairs.items() if pair is not None}


def warn_of_merged(merged: Mapping[Any, Pair], where: str = "") -> None:
    """One warning for all columns, called by their name or number; `where` stands before it."""
    if not merged:
        return
    column, (one, other) = next(iter(merged.items()))
    called = f"column {column!r}" if isinstance(column, str) else f"column {column + 1}, X[:, {column}]"
    more = f" The same holds for {len(merged) - 1} more: {_listed(list(merged)[1:])}." if len(merged) > 1 else ""
    warn(
        f"{where}{called}: {one} and {other} become one number in float32, which distinguishes integers "
        f"up to {EXACT:,} only.{more} Subtract a start, so that the numbers get smaller; if they are ids, give fit the "
        "array or table itself and list the column in categorical=.",
        LossWarning,
    )


def _listed(columns: list[Any]) -> str:
    called = [repr(column) if isinstance(column, str) else f"X[:, {column}]" for column in columns[:5]]
    return ", ".join(called) + (", ..." if len(columns) > 5 else "")
