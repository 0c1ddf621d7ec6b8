"""Plain values of TOML and JSON as records: dataclasses whose annotations say what may stand where.

    @dataclass(frozen=True)
    class Budget:
        trials: Annotated[int, Limits(low=1)] = 20

    read(Budget, {"trials": 0})  ->  trials: input should be greater than or equal to 1; got 0.

All problems of a value are reported at once, each with its path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from podium._runtime.words import did_you_mean

Record = TypeVar("Record")
Path = tuple[str | int, ...]
_UNIONS = (Union, UnionType)
_WORDS = {str: "a valid string", int: "a valid integer", float: "a valid number", bool: "a valid boolean"}
_SCALARS = (str, int, float, float | None)  # long lists of these are checked as a whole


@dataclass(frozen=True)
class Limits:
    """What an annotation says of a number; or of a list, that it is not empty."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    not_empty: bool = False

    def expected(self, value: Any) -> str | None:
        """What the value should be, where it is not."""
        if self.not_empty:
            return None if value else "at least one"
        if not value >= self.low:
            return f"greater than or equal to {self.low}"
        if not value <= self.high:
            return f"less than or equal to {self.high}"
        return None if value > self.above else f"greater than {self.above}"


NOT_EMPTY = Limits(not_empty=True)


@dataclass(frozen=True)
class Problem:
    path: Path
    expected: str
    sentence: str


class SchemaError(ValueError):
    """Values that a record does not take."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(problem.sentence for problem in self.problems))


def read(kind: type[Record], value: Any, *, closed: bool = True) -> Record:
    """The record; SchemaError has everything that is wrong. `closed`: without keys that the record does not have."""
    reader = _Reader(closed)
    record: Record = reader.read(kind, value, ())
    reader.refuse_problems()
    return record


def read_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """What a record of this kind is made of."""
    reader = _Reader(closed=True)
    contents = reader.fields(kind, values, ())
    reader.refuse_problems()
    return contents


class Part:
    """A record that is written as it was read."""


def plain(value: Any) -> Any:
    """A record as TOML and JSON have it: tables and lists."""
    if isinstance(value, Part):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@cache
def _annotations(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: hints[one.name] for one in fields(kind)}


class _Reader:
    def __init__(self, closed: bool) -> None:
        self.closed = closed
        self.problems: list[Problem] = []

    def refuse_problems(self) -> None:
        if self.problems:
            raise SchemaError(self.problems)

    def read(self, kind: Any, value: Any, path: Path) -> Any:
        origin, inner = get_origin(kind), get_args(kind)
        if kind is Any or (origin in _UNIONS and value is None):
            return value
        if origin in _UNIONS:
            return self.read(next(one for one in inner if one is not NoneType), value, path)
        if origin is Annotated:
            return self._limited(inner, value, path)
        if origin is Literal:
            return value if isinstance(value, str) and value in inner else self._refuse_choice(inner, value, path)
        if origin in (list, tuple):
            return self._list(origin, inner[0], value, path)
        if origin is dict or is_dataclass(kind):
            if not isinstance(value, Mapping):
                return self._refuse("an object", value, path)
            if origin is dict:
                return {self.read(str, key, path): self.read(inner[1], one, (*path, key)) for key, one in value.items()}
            values = self.fields(kind, value, path)
            return None if self.problems else kind(**values)
        return self._scalar(kind, value, path)

    def fields(self, kind: type, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
        known = _annotations(kind)
        for key in values if self.closed else ():
            if key not in known:
                guess = did_you_mean(key, known) or f" Known: {', '.join(known)}."
                self.problems.append(Problem((*path, key), "no such key", f"unknown key.{guess}"))
        for one in fields(kind):
            if one.name not in values and one.default is MISSING and one.default_factory is MISSING:
                self.problems.append(Problem((*path, one.name), "a value", "expected a value but found none. Add it."))
        return {key: self.read(known[key], one, (*path, key)) for key, one in values.items() if key in known}

    def _list(self, origin: type, kind: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, (list, tuple)):
            return self._refuse("a list", value, path)
        if kind in _SCALARS and set(map(type, value)) <= {*(get_args(kind) or (kind,))} and _are_finite(value):
            return origin(value)
        return origin(self.read(kind, item, (*path, number)) for number, item in enumerate(value))

    def _limited(self, inner: tuple[Any, ...], value: Any, path: Path) -> Any:
        before = len(self.problems)
        made = self.read(inner[0], value, path)
        expected = inner[1].expected(made) if len(self.problems) == before and made is not None else None
        if expected == "at least one":
            self.problems.append(Problem(path, expected, "expected at least one but found none."))
        return made if expected in (None, "at least one") else self._refuse(expected, value, path)

    def _scalar(self, kind: Any, value: Any, path: Path) -> Any:
        if kind is float and type(value) in (int, float):
            number = _as_float(value)
            return number if math.isfinite(number) else self._refuse("a finite number", value, path)
        return value if type(value) is kind else self._refuse(_WORDS[kind], value, path)

    def _refuse_choice(self, choices: tuple[str, ...], value: Any, path: Path) -> None:
        *most, last = map(repr, choices)
        expected = f"{', '.join(most)} or {last}"
        return self._refuse(expected, value, path, did_you_mean(value, choices))

    def _refuse(self, expected: str, value: Any, path: Path, guess: str = "") -> None:
        self.problems.append(Problem(path, expected, f"input should be {expected}; got {value!r}.{guess}"))


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _are_finite(values: Iterable[Any]) -> bool:
    return all(math.isfinite(value) for value in values if type(value) is float)
