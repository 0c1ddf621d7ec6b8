"""Names: columns whose values are names become numbers, the same ones in training and in scoring.

Those are columns of a table whose type says so (categories of pandas and polars), and columns that are asked for if
they hold text, or numbers that float32 does not distinguish (ids of 2**24 and more). A name becomes its place in a list
of all names that training knew; any other value is a missing one. Columns of an array are called by number, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.warn import warn
from podium.data.categories import called, sorted_names
from podium.data.precision import is_large
from podium.data.ranking import RankingData
from podium.data.sparse import is_sparse

if TYPE_CHECKING:
    import narwhals as nw

_USUAL = 0.01  # the share of unknown names that is nothing to warn of

Names = dict[str, list[Any]]
"""Column -> its names, in the order of their numbers."""

_NUMBER = re.compile(r"[+-]?(\d[\d.,_' ]*|[.,]\d+)(e[+-]?\d+)?\s*%?|[+-]?(nan|inf|infinity)", re.IGNORECASE)
_MOST_NAMES = 50  # with more, every second row having its own is no chance


def find_names(X: Any, wanted: Iterable[Any]) -> Names:
    """The names in the columns of X; `wanted`: columns of a table or an array that hold some, by name or number."""
    if isinstance(X, RankingData):
        return {column: list(known) for column, known in (X.categories or {}).items()}
    table = _table_of(X)
    if table is None:
        return _names_of_array(X, wanted)
    import narwhals as nw

    asked = _places(wanted, [str(name) for name in table.columns])
    names_by_column: Names = {}
    for position, name in enumerate(table.columns):
        column = table.get_column(name).drop_nulls()
        typed = isinstance(column.dtype, (nw.Categorical, nw.Enum))
        if not typed and position in asked and column.dtype.is_numeric():
            numbers = _distinct_numbers(column.to_numpy())
            names_by_column |= {} if numbers is None else {str(name): numbers}
        if not typed and not (isinstance(column.dtype, nw.String) and len(column)):
            continue
        if not typed and position not in asked:
            raise ValueError(
                f"column {name!r} holds text such as {column.to_list()[0][:40]!r}. If these are names, say "
                f"categorical=[{str(name)!r}]; otherwise turn the column into numbers or leave it out."
            )
        names_by_column[str(name)] = sorted_names(name, column.unique().to_list())
    return names_by_column


def column_names(column: nw.Series[Any], asked: bool) -> list[Any] | None:
    """The names in a column of a table that becomes ranking data, None if it holds numbers.

    Text is taken for names if none of it is a number: a number among text, or text among numbers, is more likely a
    mistake, unless the column is asked for.
    """
    import narwhals as nw

    typed, text = isinstance(column.dtype, (nw.Categorical, nw.Enum)), isinstance(column.dtype, nw.String)
    present = column.drop_nulls()
    if not (typed or asked or (text and len(present))):
        return None
    values = {plain_name(value) for value in present.unique().to_list()} - {None}
    if text and not asked:
        refuse_numbers_as_names(str(column.name), values)
    names = sorted_names(column.name, values)
    warn_of_ids(str(column.name), len(names), len(present))
    return names


def plain_name(value: Any) -> Any:
    """A name as JSON has it, 3 for 3.0: a column of integers with missing values is one of floats. NaN is None."""
    if isinstance(value, (float, np.floating)):
        return None if value != value else int(value) if float(value).is_integer() else float(value)
    return value.item() if isinstance(value, np.generic) else value


def is_number(text: str) -> bool:
    """Whether a text is a number in any way of writing: `0.5`, `0,5`, `1 000`, `12%`, `inf`."""
    return _NUMBER.fullmatch(text.strip()) is not None


def refuse_numbers_as_names(column: str, names: Iterable[Any]) -> None:
    """Refuse text that is in part numbers."""
    number = min((name for name in names if isinstance(name, str) and is_number(name)), default=None)
    if number is not None:
        other = min((name for name in names if not is_number(str(name))), default=None)
        mixed = f"text such as {number[:40]!r}" + ("" if other is None else f" and {other[:40]!r}")
        advice = f"{LIST_CATEGORIES.format(column)}, else turn it into numbers."
        raise ValueError(f"column {column!r} holds {mixed}; {advice}")


LIST_CATEGORIES = "if its values are categories, say so: categorical=[{0!r}] (--categorical {0})"


def warn_of_ids(column: str, n_names: int, n_values: int) -> None:
    """Warn of a column in which nearly every row has a name of its own: a title or an address, not a category."""
    if n_names > _MOST_NAMES and 2 * n_names > n_values:
        warn(
            f"column {column!r} has {n_names:,} categories in {n_values:,} rows, so there is little to learn from it. "
            f"If it is a title or an id, leave it out: drop=[{column!r}] (--drop {column})."
        )


def numbers_of_names(column: nw.Series[Any], names: Sequence[Any]) -> np.ndarray:
    """The place of every value in the list of all names of the column, NaN for null."""
    places: Mapping[Any, int] = {name: number for number, name in enumerate(names)}
    return np.array([places.get(value, np.nan) for value in column.to_list()], dtype=np.float64)


def refuse_other_types(X: Any) -> None:
    """Refuse dates, times, lists and other objects in the columns of a table: they are neither numbers nor names."""
    table = _table_of(X)
    if table is None:
        return
    for name in table.columns:
        column = table.get_column(name)
        what = _other_type(column)
        if what is not None:
            advice = {
                "dates or times": "Make a number of it, such as days since a date",
                "lists": "Give each entry a column",
            }
            advised = advice.get(what, "Turn it into numbers")
            raise ValueError(f"column {name!r} holds {what}; expected numbers or names. {advised}, or leave it out.")


def _other_type(column: nw.Series[Any]) -> str | None:
    """What the column holds, if that is neither a number nor a name."""
    import narwhals as nw

    if isinstance(column.dtype, (nw.Date, nw.Datetime, nw.Duration, nw.Time)):
        return "dates or times"
    if isinstance(column.dtype, (nw.List, nw.Array, nw.Struct)):
        return "lists" if not isinstance(column.dtype, nw.Struct) else "records"
    if not isinstance(column.dtype, nw.Object):
        return None
    example = next((value for value in column.drop_nulls().to_list()), None)
    if isinstance(example, (date, time, timedelta)):
        return "dates or times"
    return (
        "lists" if isinstance(example, (list, tuple, np.ndarray)) else "records" if isinstance(example, dict) else None
    )


def encode(X: Any, names: Names, columns: Sequence[str] | None = None) -> Any:
    """The table or array with numbers in place of names; `columns` are those of training, where they had names."""
    if not names:
        return X
    table = _table_of(X)
    if table is None:
        return _encode_array(X, names, columns)
    import narwhals as nw

    series = [
        nw.new_series(str(name), _numbers(table.get_column(name), names[str(name)]), backend=table.implementation)
        for name in table.columns
        if str(name) in names
    ]
    return table.with_columns(*series).to_native()


def _places(wanted: Iterable[Any], columns: Sequence[str]) -> set[int]:
    """Columns that are called by their name or counted from 0; what is neither is refused by the model."""
    columns_named = set()
    for name in wanted:
        if isinstance(name, str) and name in columns:
            columns_named.add(columns.index(name))
        elif isinstance(name, Integral) or str(name).isdecimal():
            columns_named.add(int(name))
    return columns_named


def _names_of_array(X: Any, wanted: Iterable[Any]) -> Names:
    """Of the columns of an array that are asked for, those with numbers that float32 does not distinguish."""
    asked = _places(wanted, ())
    if not asked or getattr(X, "ndim", 2) != 2 or not (is_sparse(X) or isinstance(X, (np.ndarray, list, tuple))):
        return {}
    if is_sparse(X):
        _refuse_sparse_names(X, asked)
        return {}
    matrix = np.asarray(X)
    names: Names = {}
    for column in sorted(asked) if matrix.ndim == 2 else ():
        numbers = _distinct_numbers(matrix[:, column]) if column < matrix.shape[1] else None
        names |= {} if numbers is None else {str(column): numbers}
    return names


def _refuse_sparse_names(X: Any, asked: set[int]) -> None:
    entries = X.tocoo()
    for column in sorted(asked):
        if _distinct_numbers(entries.data[entries.col == column]) is not None:
            raise ValueError(
                f"column {column + 1}, X[:, {column}], of the sparse X is categorical and has numbers that float32 "
                "does not distinguish. Number its categories from 0, or give a dense array or a table."
            )


def _distinct_numbers(values: Any) -> list[Any] | None:
    """The distinct numbers of a column, rising; None if float32 distinguishes them, from all integers too."""
    array = np.asarray(values)
    if array.dtype.kind == "O":
        array = np.array([value for value in array.tolist() if value is not None and value == value])
    if array.dtype.kind not in "iuf":
        return None
    present = array[~np.isnan(array)] if array.dtype.kind == "f" else array
    with np.errstate(over="ignore"):
        exact = ~is_large(present) & (present.astype(np.float32) == present)
    if exact.all() or not np.isfinite(present).all():  # infinity is refused later, with its place
        return None
    return list(np.unique(present).tolist())


def _encode_array(X: Any, names: Names, columns: Sequence[str] | None) -> Any:
    """Columns of text categories stay as they are in an array of numbers: the numbers are taken for places."""
    matrix = X if is_sparse(X) else np.asarray(X)
    if matrix.ndim != 2 or is_sparse(X):
        return X
    coded = None
    for name, known in names.items():
        column = _column_of(name, columns, matrix.shape[1])
        if column is None or (matrix.dtype.kind != "O" and any(isinstance(one, str) for one in known)):
            continue
        coded = _copy_for_codes(matrix) if coded is None else coded
        coded[:, column] = _codes(matrix[:, column], known, called(name, columns))
    return X if coded is None else coded


def _column_of(name: str, columns: Sequence[str] | None, width: int) -> int | None:
    """Where an array has the column; None if it is too narrow, or the column was that of a table without such names."""
    if columns is not None:
        column = list(columns).index(name)
    else:
        column = int(name) if name.isdecimal() else width
    return column if column < width else None


def _copy_for_codes(matrix: np.ndarray) -> np.ndarray:
    return matrix.copy() if matrix.dtype.kind in "Of" else matrix.astype(np.float64)


def _codes(values: np.ndarray, known: list[Any], where: str) -> np.ndarray:
    """The place of every number in the list, NaN for others; infinity stays, to be refused."""
    distinct, inverse = (values, None) if values.dtype.kind == "O" else np.unique(values, return_inverse=True)
    places: Mapping[Any, float] = {name: code for code, name in enumerate(known)}
    codes = np.array([places.get(v, v if v in (np.inf, -np.inf) else np.nan) for v in distinct.tolist()], np.float64)
    codes = codes if inverse is None else codes[inverse]
    _warn_if_unknown(codes, values, where)
    return codes


def _warn_if_unknown(codes: np.ndarray, values: np.ndarray, where: str) -> None:
    warn_of_unknown(np.isnan(codes) & np.asarray(values == values, dtype=bool), np.isnan(codes), where)


def _table_of(X: Any) -> nw.DataFrame[Any] | None:
    if not hasattr(X, "columns"):  # an array: nothing to import for
        return None
    import narwhals as nw

    table = nw.from_native(X, eager_only=True, pass_through=True)
    return table if isinstance(table, nw.DataFrame) else None


def _numbers(column: nw.Series[Any], names: list[Any]) -> np.ndarray:
    """The place of every value in the list, NaN for others."""
    places: Mapping[Any, int] = {name: number for number, name in enumerate(names)}
    numbers = np.array([places.get(value, np.nan) for value in column.to_list()], dtype=np.float64)
    missing = np.isnan(numbers)
    if missing.any():
        warn_of_unknown(missing & ~column.is_null().to_numpy().astype(bool), missing, f"column {column.name!r}")
    return numbers


def warn_of_unknown(unknown: np.ndarray, missing: np.ndarray, where: str) -> None:
    """Warn if training knew none of the values, or not all; rare new names (below 1 %) are nothing unusual."""
    if unknown.any() and missing.all():
        warn(f"{where}: training knew none of these values; all count as missing.")
    elif unknown.sum() >= _USUAL * len(unknown) and unknown.any():
        number = f"{unknown.sum():,} of {len(unknown):,} values"
        warn(f"{where}: training did not know {number}; they count as missing.")
