"""Search spaces: for each parameter the values that tuning may choose from.

    {"max_leaf_nodes": [7, 15, 31]}                                     choices
    {"learning_rate": {"low": 0.01, "high": 0.3, "log": True}}          a range; log: even in the logarithm

Names and limits are those of the model (`podium/models/frame/parameters.py`); a parameter of a model that is a
parameter is called as in scikit-learn, `model__learning_rate`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from podium._runtime.words import check_choice
from podium.data.ranking import RankingData
from podium.models.frame.parameters import AUTO, INTEGER, NUMBER, Declaration, is_auto, parameters_of
from podium.models.frame.ranker import Ranker
from podium.models.frame.resolving import AutoParameters
from podium.models.other_names import refuse_unknown_parameter

_RANGE_KEYS = ("low", "high", "log")


@dataclass(frozen=True)
class Choices:
    """One value out of several."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        return any(_same(value, one) for one in self.values)

    def index_of(self, value: Any) -> int:
        return next(number for number, one in enumerate(self.values) if _same(value, one))

    def draw(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def size(self) -> float:
        return len(self.values)


@dataclass(frozen=True)
class Range:
    """A number from low to high, both included."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def holds(self, value: Any) -> bool:
        return _is_finite(value) and bool(self.low <= value <= self.high)

    def draw(self, rng: np.random.Generator) -> Any:
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        drawn = math.exp(rng.uniform(math.log(low), math.log(high))) if self.log else rng.uniform(low, high)
        return int(min(drawn, self.high)) if self.whole else float(min(max(drawn, self.low), self.high))

    @property
    def size(self) -> float:
        return self.high - self.low + 1 if self.whole else math.inf


@dataclass(frozen=True)
class Space:
    """What may be chosen for each parameter, by name."""

    dimensions: Mapping[str, Choices | Range]

    def __len__(self) -> int:
        return len(self.dimensions)

    @property
    def size(self) -> float:
        """How many different settings there are."""
        return math.prod(dimension.size for dimension in self.dimensions.values())

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        return {name: dimension.draw(rng) for name, dimension in self.dimensions.items()}

    def settings_of(self, model: Ranker, train: RankingData) -> dict[str, Any] | None:
        """The settings that the model has, where all of them lie within the space.

        For "auto" stands what it is for these data, unless it is one of the choices.
        """
        parameters = model.get_params(deep=True)
        settings = {name: parameters[name] for name in self.dimensions}
        for name, dimension in self.dimensions.items():
            if not dimension.holds(settings[name]) and is_auto(settings[name]):
                settings[name] = _resolved(model, name, train)
        return settings if all(self.dimensions[name].holds(value) for name, value in settings.items()) else None


def parse_space(model: Ranker, mapping: Mapping[str, Any]) -> Space:
    """A space as it is written in Python, TOML or JSON, checked against the parameters of the model."""
    owner = type(model).__name__
    if not isinstance(mapping, Mapping) or not mapping:
        raise ValueError(f"{owner}: a space must name at least one parameter, such as max_leaf_nodes; got {mapping!r}.")
    return Space({name: _dimension(model, str(name), values) for name, values in mapping.items()})


def read_space(model: Ranker, texts: Sequence[str]) -> dict[str, Any]:
    """A space as it is written on the command line: `learning_rate=0.01:0.3:log`, `growth=leaf,level`, or JSON.

    A list in JSON is for values with commas: `transform=[["raw"], ["raw", "rank"]]`.
    """
    space: dict[str, Any] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise ValueError(f"--space takes name=low:high, name=low:high:log or name=a,b,c; got {text!r}.")
        if name in space:
            raise ValueError(f"--space {name}=... is given twice; give it once.")
        space[name] = _read_dimension(model, name, values)
    return space


def _read_dimension(model: Ranker, name: str, text: str) -> Any:
    declaration = _declaration(model, name)

    def read(value: str) -> Any:
        try:
            return json.loads(value) if declaration is None else declaration.read(value)
        except (ValueError, KeyError):
            if declaration is None:
                return value
            raise declaration.refuse(type(model).__name__, name, value) from None

    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"--space {name}: expected a list in JSON but found {text!r} ({error}).") from None
    low, *ends = (part.strip() for part in text.split(":"))
    if ends and (len(ends) == 1 or ends[1:] == ["log"]):
        return {"low": read(low), "high": read(ends[0]), "log": len(ends) == 2}
    return [read(part.strip()) for part in text.split(",")]


def _dimension(model: Ranker, name: str, values: Any) -> Choices | Range:
    declaration = _declaration(model, name)
    where = f"{type(model).__name__}: the space of {name}"
    if isinstance(values, Mapping):
        return _range(model, name, declaration, values, where)
    if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
        raise ValueError(f'{where} must be a list of values or {{"low": .., "high": .., "log": ..}}; got {values!r}.')
    for value in values:
        _refuse_value(model, name, declaration, value)
    if any(_same(one, other) for number, one in enumerate(values) for other in values[:number]):
        raise ValueError(f"{where} has a value twice: {list(values)!r}. Give each value once.")
    return Choices(tuple(values))


def _range(model: Ranker, name: str, declaration: Declaration | None, ends: Mapping[str, Any], where: str) -> Range:
    for key in ends:
        check_choice(f"{where}: a key", key, _RANGE_KEYS)
    low: Any = ends.get("low")
    high: Any = ends.get("high")
    log = ends.get("log", False)
    if declaration is not None and declaration.kind.read not in (int, float):
        raise ValueError(f"{where} must be a list of values, because it is not a number; got {dict(ends)!r}.")
    if not _is_finite(low) or not _is_finite(high) or low >= high or not isinstance(log, bool):
        raise ValueError(f"{where} must have numbers low < high, and log true or false; got {dict(ends)!r}.")
    if log and low <= 0:
        raise ValueError(f"{where}: log needs a low above 0; got {low!r}. Give a larger one, or leave log out.")
    for value in (low, high):
        _refuse_value(model, name, declaration, value)
    are_integers = isinstance(low, Integral) and isinstance(high, Integral)
    whole = are_integers if declaration is None else declaration.kind is INTEGER
    return Range(int(low), int(high), log, True) if whole else Range(float(low), float(high), log)


def _declaration(model: Ranker, name: str) -> Declaration | None:
    """What the parameter may be; None for one of scikit-learn's estimators, which check their parameter."""
    refuse_unknown_parameter(type(model).__name__, name, model.get_params(deep=True))
    holder, parameter = _holder(model, name)
    return parameters_of(type(holder))[parameter].declaration if isinstance(holder, Ranker) else None


def _holder(model: Ranker, name: str) -> tuple[Any, str]:
    """The model that has a parameter, and what it is called there: `model__sigma`, `members__0__sigma`."""
    *path, parameter = name.split("__")
    holder: Any = model
    for part in path:
        holder = holder[int(part)] if isinstance(holder, (list, tuple)) else getattr(holder, part)
    return holder, parameter


def _resolved(model: Ranker, name: str, train: RankingData) -> Any:
    """What "auto" stands for; where it is no value that data decide, "auto"."""
    holder, parameter = _holder(model, name)
    return holder.resolved_for(train).get(parameter, AUTO) if isinstance(holder, AutoParameters) else AUTO


def _refuse_value(model: Ranker, name: str, declaration: Declaration | None, value: Any) -> None:
    if declaration is not None and not declaration.takes(value):
        raise declaration.refuse(type(model).__name__, name, value)


def _is_finite(value: Any) -> bool:
    return NUMBER.holds(value) and math.isfinite(value)


def _same(one: Any, other: Any) -> bool:
    """Lists and tuples with the same items are the same choice; 1 and True are not."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return one is other or bool(one == other)
