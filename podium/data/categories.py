"""Categories: features whose values are names. The data has a number for each name, its place in a list of names.

Each data set numbers its own names. Before data sets meet, or a model meets data, one of them is brought to the numbers
of the other: `recode`. A name that the other does not know counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.warn import warn
from podium.data.sparse import FeatureMatrix, is_sparse

Categories = Mapping[str, Sequence[Any]]
"""Feature -> its names, text or numbers, in the order of their numbers."""

_EXAMPLES = 3


def check_categories(categories: Categories | None, X: FeatureMatrix, names: Sequence[str] | None) -> Categories | None:
    """Categories with a list of distinct names each, for features of X that hold places in this list, or NaN."""
    if not categories:
        return None
    if is_sparse(X):
        raise ValueError("a sparse X cannot have categories. Give a dense array or a table.")
    checked = {str(column): tuple(known) for column, known in categories.items()}
    for column, known in checked.items():
        if names is None or column not in names:
            raise ValueError(f"categories: {column!r} is not one of feature_names.")
        if not all(isinstance(name, (str, int, float)) for name in known) or len(set(known)) < len(known):
            raise ValueError(f"categories of {column!r} must be distinct texts or numbers.")
        refuse_other_places(X[:, list(names).index(column)], len(known), column)
    return checked


def refuse_other_places(values: Array, n: int, column: str) -> None:
    """Refuse numbers that are not the place of one of n names."""
    present = values[~np.isnan(values)]
    if ((present < 0) | (present >= n) | (present != np.floor(present))).any():
        raise ValueError(f"column {column!r} must hold the places of its {n} categories, from 0, or NaN.")


def sorted_names(column: Any, values: Iterable[Any]) -> list[Any]:
    """In an order that the table has no part in: numbers before text."""
    distinct = set(values)
    for value in distinct:
        if not isinstance(value, (str, int, float)):
            raise ValueError(
                f"column {column!r} has the category {value!r}; expected text or numbers. Turn it into text first."
            )
    return sorted(distinct, key=lambda value: (isinstance(value, str), value))


def united(columns: Sequence[Categories | None]) -> dict[str, list[Any]]:
    """The names of several data sets together."""
    names: dict[str, set[Any]] = {}
    for categories in columns:
        for column, known in (categories or {}).items():
            names.setdefault(column, set()).update(known)
    return {column: sorted_names(column, known) for column, known in names.items()}


def recode(
    X: FeatureMatrix,
    names: Sequence[str] | None,
    categories: Categories | None,
    known: Categories,
    where: str,
    whose: str,
) -> FeatureMatrix:
    """Rows X with the numbers that `known` gives to names; X itself if these are its numbers already.

    `where` and `whose` are what the rows, and those whose numbers are wanted, are called in messages.
    """
    categories = categories or {}
    _refuse_other_kinds(X, names, categories, known, where, whose)
    changed = {column: known[column] for column in categories if list(categories[column]) != list(known[column])}
    if not changed:
        return X
    rows = np.array(X)
    for column, wanted in changed.items():
        at = list(names or ()).index(column)
        places = places_among(categories[column], wanted)
        rows[:, at] = _moved(rows[:, at], places)
        _warn_of_unknown(column, categories[column], places, X[:, at], where, whose)
    return rows


def places_among(names: Sequence[Any], known: Sequence[Any]) -> Array:
    """(names,) float32: the place of each among the known ones, NaN if it is none of them.

    A text file does not tell 7 from "7": a name that is not there as it is may be there as text, or as a number.
    """
    exact = {name: number for number, name in enumerate(known)}
    by_text = {_text(name): number for number, name in enumerate(known)}
    places = [exact[name] if name in exact else by_text.get(_text(name), np.nan) for name in names]
    return np.array(places, dtype=np.float32)


def _text(name: Any) -> str:
    return str(int(name)) if isinstance(name, float) and name.is_integer() else str(name)


def _moved(values: Array, places: Array) -> Array:
    result = np.full(len(values), np.nan, dtype=np.float32)
    present = ~np.isnan(values)
    result[present] = places[values[present].astype(np.int64)]
    return result


def _refuse_other_kinds(
    X: FeatureMatrix,
    names: Sequence[str] | None,
    categories: Categories,
    known: Categories,
    where: str,
    whose: str,
) -> None:
    """Refuse a column that is one of names on one side and one of numbers on the other, unless it is empty."""
    for column in categories:
        if column not in known:
            example = f" such as {categories[column][0]!r}" if len(categories[column]) else ""
            raise ValueError(
                f"{where}: column {column!r} holds categories{example}, and numbers in {whose}. "
                "Read both in the same way: categorical= (--categorical) lists the columns of categories."
            )
    for column in known:
        if column in categories or (names is not None and column in names and _is_empty(X, list(names).index(column))):
            continue
        raise ValueError(
            f"{where} has numbers only, but {whose} has categories in {called(column, names)}. "
            "Give a table with the same columns; categorical= (--categorical) lists the columns of categories."
        )


def called(column: str, names: Sequence[str] | None) -> str:
    """A column of names as a message calls it; one of an array by its number."""
    if names is None and column.isdecimal():
        return f"column {int(column) + 1}, X[:, {column}]"
    return f"column {column!r}"


def _is_empty(X: FeatureMatrix, at: int) -> bool:
    return not is_sparse(X) and bool(np.isnan(X[:, at]).all())


def _warn_of_unknown(column: str, names: Sequence[Any], places: Array, values: Array, where: str, whose: str) -> None:
    counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=len(names))
    unknown = np.flatnonzero(np.isnan(places) & (counts > 0))
    if len(unknown):
        examples = ", ".join(repr(names[number]) for number in unknown[:_EXAMPLES])
        rows = int(counts[unknown].sum())
        warn(
            f"{where}: column {column!r} has categories that {whose} does not know, in {rows:,} of {len(values):,} "
            f"rows ({examples}{', ...' if len(unknown) > _EXAMPLES else ''}); they count as missing."
        )
