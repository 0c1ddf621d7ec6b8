"""Small tables: the rows of a pandas or polars table of few rows for a fitted model, in a fraction of a millisecond.

A service scores one document or a few at a time, in tables that all have the same columns; general readers of tables,
which look at every column for itself, need milliseconds for that. Here the columns are compared as a whole with those
that were right before. Whatever is not plain (other columns, types without numbers, infinite numbers, categories that
the model does not know) is left to the general readers, which have the words for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_MOST_ROWS = 256  # with more, a general reader is as fast


class SmallTables:
    """Reads tables for one fitted model; any number of threads may use it."""

    def __init__(self, names: Any, categories: Mapping[str, Sequence[Any]]) -> None:
        """The features in their order; of those that are categories, the names in the order of their numbers."""
        self._names, self._categories = names, categories
        self._columns = [str(name) for name in names]
        self._places = {
            self._columns.index(column): {name: float(number) for number, name in enumerate(known)}
            for column, known in categories.items()
        }
        self._types: list[Any] = []  # of the columns of the last table that could be read

    def is_of(self, names: Any, categories: Any) -> bool:
        """Whether the model is still the one that this reader was made for."""
        return self._names is names and self._categories is categories

    def rows(self, X: Any) -> np.ndarray | None:
        """float32 rows in C order, or None: let a general reader look at it."""
        library = type(X).__module__.partition(".")[0]
        if library not in ("pandas", "polars") or type(X).__name__ != "DataFrame" or not 0 < len(X) <= _MOST_ROWS:
            return None
        try:
            values = self._values(X, library)
            numbers = None if values is None else self._encoded(values)
        except (TypeError, ValueError):  # a value that is no number, or has no hash
            return None
        if numbers is None:
            return None
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(numbers.astype(np.float64, copy=False), dtype=np.float32)
        return None if np.isinf(rows).any() else rows

    def _values(self, X: Any, library: str) -> np.ndarray | None:
        """The values as an array, of objects where there are categories."""
        if library == "polars":
            if X.columns != self._columns or not self._are_read(X.dtypes, _is_polars_number):
                return None
            return np.array(X.rows(), dtype=object if self._places else np.float64)
        types = X.dtypes.tolist()
        if X.columns.tolist() != self._columns or not self._are_read(types, _is_numpy_number):
            return None
        has_text = any(_is_text(types[column]) for column in self._places)  # else pandas looks for a type of numbers
        values: np.ndarray = X.values if has_text or not self._places else X.astype(object).values
        return values

    def _are_read(self, types: list[Any], is_number: Any) -> bool:
        """Whether all columns but the categories have numbers."""
        if types is not self._types and types != self._types:
            if not all(column in self._places or is_number(kind) for column, kind in enumerate(types)):
                return False
            self._types = types
        return True

    def _encoded(self, values: np.ndarray) -> np.ndarray | None:
        """Numbers in place of categories; None where a column has values that the model does not know."""
        if not self._places:
            return values
        values = values.copy()
        for column, places in self._places.items():
            names = values[:, column].tolist()
            codes = [places.get(name, np.nan) for name in names]
            if any(code != code and not _is_null(name) for code, name in zip(codes, names)):
                return None
            values[:, column] = codes
        return values


def _is_null(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _is_text(kind: Any) -> bool:
    """Whether a column of pandas has text, or categories that are text."""
    of_values = kind if getattr(kind, "categories", None) is None else kind.categories.dtype
    return bool(of_values.kind == "O")


def _is_numpy_number(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind in "biuf" and kind.itemsize <= 8


def _is_polars_number(kind: Any) -> bool:
    return (kind.is_integer() or kind.is_float()) and "128" not in str(kind)
