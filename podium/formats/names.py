"""Names: columns of a table whose values are names become numbers, the same ones in training and in scoring.

Those are columns whose type says so (categories of pandas and polars), and columns of text that are asked for. A name
becomes its place in a list of all names that training knew; any other value is a missing one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import narwhals as nw

Names = dict[str, list[Any]]
"""Column -> its names, in the order of their numbers."""


def find_names(X: Any, wanted: Iterable[Any]) -> Names:
    """The names in the columns of a table; `wanted`: columns of text that hold some. Of anything else, none."""
    table = _table_of(X)
    if table is None:
        return {}
    import narwhals as nw

    asked, found = {str(name) for name in wanted}, {}
    for name in table.columns:
        column = table.get_column(name).drop_nulls()
        typed = isinstance(column.dtype, (nw.Categorical, nw.Enum))
        if not typed and not (isinstance(column.dtype, nw.String) and len(column)):
            continue
        if not typed and str(name) not in asked:
            raise ValueError(
                f"column {name!r} holds text such as {column.to_list()[0][:40]!r}. If these are names, say "
                f"categorical=[{str(name)!r}]; otherwise turn the column into numbers or leave it out."
            )
        found[str(name)] = _sorted(name, set(column.unique().to_list()))
    return found


def encode(X: Any, names: Names) -> Any:
    """The table with numbers in place of names; anything but a table as it is."""
    table = _table_of(X) if names else None
    if table is None:
        return X
    import narwhals as nw

    columns = [
        nw.new_series(str(name), _numbers(table.get_column(name), names[str(name)]), backend=table.implementation)
        for name in table.columns
        if str(name) in names
    ]
    return table.with_columns(*columns).to_native()


def _table_of(X: Any) -> nw.DataFrame[Any] | None:
    if not hasattr(X, "columns"):  # an array: nothing to import for
        return None
    import narwhals as nw

    table = nw.from_native(X, eager_only=True, pass_through=True)
    return table if isinstance(table, nw.DataFrame) else None


def _sorted(column: Any, values: set[Any]) -> list[Any]:
    """In an order that the table has no part in: numbers before text."""
    for value in values:
        if not isinstance(value, (str, int, float)):
            raise ValueError(
                f"column {column!r} has the category {value!r}; expected text or numbers. Turn it into text first."
            )
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _numbers(column: nw.Series[Any], names: list[Any]) -> np.ndarray:
    """The place of every value in the list, NaN for others."""
    places: Mapping[Any, int] = {name: place for place, name in enumerate(names)}
    numbers = np.array([places.get(value, np.nan) for value in column.to_list()], dtype=np.float64)
    if len(numbers) and np.isnan(numbers).all() and not column.is_null().all():
        warnings.warn(
            f"column {column.name!r}: training knew none of these values; all count as missing.",
            UserWarning,
            stacklevel=5,
        )
    return numbers
