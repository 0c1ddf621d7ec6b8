"""Text columns: features of a text table whose cells are names, found while its rows are read.

The first filled cell of a column decides whether it holds names or numbers; a cell of the other kind is refused, unless
the column is asked for as one of names. Names are numbered as they come, and in their order in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.categories import sorted_names
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath
from podium.formats.names import LIST_CATEGORIES, is_number, warn_of_ids

Record = tuple[int, list[str]]  # the number of a line, and its cells


class TextColumns:
    """The features of a text table that hold names."""

    def __init__(self, path: FilePath, header: Sequence[str], features: list[str], asked: Sequence[str]) -> None:
        self.path, self.features, self._asked = path, features, asked
        self._places = {name: at for at, name in enumerate(header)}
        self._undecided = [name for name in features if name not in asked]
        self.numbers: dict[str, dict[str, int]] = {name: {} for name in features if name in asked}

    def decide(self, records: Sequence[Record]) -> None:
        """Look at the first filled cell of each column that had none yet."""
        for name in self._undecided[:]:
            at = self._places[name]
            first = next((row[at] for _, row in records if not is_missing(row[at])), None)
            if first is not None:
                self._undecided.remove(name)
                if not is_number(first):
                    self.numbers[name] = {}

    def read(self, records: Sequence[Record], name: str) -> Array:
        """The numbers of the names in a column of some records, as they came; NaN for an empty cell."""
        at = self._places[name]
        return self.number(name, [cells[at] for _, cells in records], [line for line, _ in records])

    def number(self, name: str, cells: Sequence[str], lines: Sequence[int]) -> Array:
        """The same for some cells of the column; lines: where they are."""
        numbers, asked = self.numbers[name], name in self._asked
        codes = np.full(len(cells), np.nan, dtype=np.float32)
        for row, cell in enumerate(cells):
            if cell not in numbers:
                if is_missing(cell):
                    continue
                if not asked and is_number(cell):
                    raise self._refuse_number(name, cell, lines[row])
                numbers[cell] = len(numbers)
            codes[row] = numbers[cell]
        return codes

    def finish(self, X: Array) -> dict[str, list[Any]]:
        """The names of each column in their order, in which its numbers in X are from now on."""
        categories = {}
        for column, numbers in self.numbers.items():
            at = self.features.index(column)
            names = whole_numbers_or_text(numbers)
            categories[column] = sorted_names(column, names)
            places = {name: number for number, name in enumerate(categories[column])}
            present = ~np.isnan(X[:, at])
            moved = np.array([places[name] for name in names], dtype=np.float32)
            X[present, at] = moved[X[present, at].astype(np.int64)]
            warn_of_ids(column, len(names), int(present.sum()))
        return categories

    def _refuse_number(self, name: str, cell: str, line: int) -> FormatError:
        first = next(iter(self.numbers[name]), "text")[:60]
        expected = f"expected text as above, such as {first!r}, found {cell[:60]!r}"
        advice = LIST_CATEGORIES.format(name)
        return FormatError(self.path, f"column {name!r}: {expected}. {advice[0].upper()}{advice[1:]}.", line)


def is_missing(cell: str) -> bool:
    text = cell.strip().strip("+-")
    return not text or (len(text) == 3 and text.lower() == "nan")


def whole_numbers_or_text(ids: Iterable[str]) -> list[Any]:
    """Integers if every text is written as one, `7` and not `007`; else the texts."""
    ids = list(ids)
    distinct = set(ids)
    if all(text.isascii() and len(text) < 25 and text.removeprefix("-").isdigit() for text in distinct):
        numbers = {text: int(text) for text in distinct}
        if all(str(number) == text for text, number in numbers.items()):
            return [numbers[text] for text in ids]
    return ids
