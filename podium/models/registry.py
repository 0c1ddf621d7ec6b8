"""The catalogue: what each model and each of its parameters is, read from the code that runs.

Names and defaults are the fields of a model's class, limits its ranges and choices, words its docstring, learner and
objective the table at the top of `models.py`. Nothing is written down a second time, so nothing here can grow stale.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import NoneType
from typing import Any, get_args, get_type_hints

from podium._runtime.threads import usable_threads
from podium._runtime.words import check_choice
from podium.metrics.registry import METRICS
from podium.models import products as models
from podium.models.products import MODELS
from podium.models.ranker import Ranker
from podium.objectives.registry import OBJECTIVES
from podium.persistence.saving import load


@dataclass(frozen=True)
class Parameter:
    """One parameter of a model."""

    name: str
    default: Any
    allowed: str
    about: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "default": self.default, "allowed": self.allowed, "about": self.about}


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue."""

    name: str  # as on the command line
    kind: type[Ranker]
    learner: str
    objective: str
    about: str

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        words = _parameter_words(self.kind)
        return {
            field.name: Parameter(field.name, field.default, _allowed(self.kind, field.name), words[field.name])
            for field in fields(self.kind)
        }

    def to_json(self, with_parameters: bool = False) -> dict[str, Any]:
        plain = {"name": self.name, "class": self.kind.__name__, "learner": self.learner, "objective": self.objective}
        listed = {"parameters": [parameter.to_json() for parameter in self.parameters.values()]}
        return plain | {"about": self.about} | (listed if with_parameters else {})


@dataclass(frozen=True)
class Plan:
    """A model to be trained, and its parameters as plain values: `init` as the name of a file."""

    model: Ranker
    parameters: dict[str, Any]


def catalogue() -> list[Entry]:
    """All models."""
    rows = re.findall(r"^\| (\w+) \| (.*?) \| (.*?) \|$", models.__doc__ or "", re.MULTILINE)
    products = {name: (learner, objective) for name, learner, objective in rows}
    return [Entry(name.lower(), kind, *products[name], about=_first_line(kind)) for name, kind in MODELS.items()]


def find_model(name: str) -> Entry:
    """The model with this name, in letters of any case."""
    entries = {entry.name: entry for entry in catalogue()}
    check_choice("model", name.lower(), entries)
    return entries[name.lower()]


def plan_model(name: str, settings: Sequence[str] = (), jobs: int | None = None, seed: int | None = None) -> Plan:
    """A model with the settings of the command line (`learning_rate=0.05`), refused here if any of them is wrong."""
    entry = find_model(name)
    given = read_settings(entry, settings)
    for option, parameter, value in (("--jobs", "n_jobs", jobs), ("--seed", "random_state", seed)):
        if value is not None and parameter in given:
            raise ValueError(f"Give {option} or --set {parameter}=..., not both.")
        given |= {} if value is None else {parameter: value}
    loaded = {"init": load(given["init"])} if given.get("init") is not None else {}
    model = entry.kind(**(given | loaded))
    model._check_parameters()
    usable_threads(model.n_jobs)
    return Plan(model, {parameter.name: parameter.default for parameter in entry.parameters.values()} | given)


def read_settings(entry: Entry, settings: Sequence[str]) -> dict[str, Any]:
    """`["n_estimators=50", "metric=map"]` -> `{"n_estimators": 50, "metric": "map"}`, typed as the fields are."""
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ValueError(f"--set takes name=value, such as learning_rate=0.05; got {setting!r}.")
        check_choice(f"{entry.kind.__name__}: a parameter", name, entry.parameters)
        if name in given:
            raise ValueError(f"--set {name}=... is given twice ({given[name]} and {text}); give it once.")
        given[name] = _value(entry, name, text)
    return given


def _value(entry: Entry, name: str, text: str) -> Any:
    """The text as the first of the parameter's types that can read it."""
    types = _types(entry.kind, name)
    if NoneType in types and text.lower() == "none":
        return None
    for kind, read in ({str: json.loads} if name in _STRUCTURED else _READERS).items():
        if kind in types:
            try:
                return read(text)
            except (ValueError, KeyError):
                continue
    raise ValueError(f"{entry.kind.__name__}: {name} must be {entry.parameters[name].allowed}; got {text!r}.")


_READERS: dict[type, Callable[[str], Any]] = {
    bool: lambda text: {"true": True, "false": False}[text.lower()],
    int: int,
    float: float,
    str: str,
}
_TYPE_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "None"}
# What takes a Python value in Python takes a name on the command line.
_NAMED = {
    "init": "the file of a saved model, or None",
    "metric": f"a metric: {', '.join(METRICS)}, with a cutoff or without",
    "eval_metric": "a metric, or None",
    "objective": ", ".join(OBJECTIVES),
    "categorical": 'features such as [3, "colour"], or None',
    "goss": "two shares such as [0.2, 0.1], or None",
    "monotone": 'features and signs such as {"3": 1, "price": -1}, or None',
}
_STRUCTURED = ("goss", "monotone", "categorical")  # written as JSON


def _types(kind: type[Ranker], name: str) -> tuple[Any, ...]:
    hint = get_type_hints(kind)[name]
    if hint is Any:
        return (str, NoneType) if getattr(kind, name) is None else (str,)
    return get_args(hint) or (hint,)


def _allowed(kind: type[Ranker], name: str) -> str:
    model = kind()
    if name in _NAMED:
        return _NAMED[name]
    if name in model._ranges():
        return model._ranges()[name][2]
    if name in model._choices():
        return ", ".join(map(str, model._choices()[name]))
    return " or ".join(_TYPE_WORDS[one] for one in _types(kind, name))


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _parameter_words(kind: type[Ranker]) -> dict[str, str]:
    """`name : words` from the sections "Parameters" of a class and its bases; the class itself has the last word."""
    found = {field.name: "" for field in fields(kind)}
    for owner in reversed(kind.__mro__):
        section = inspect.cleandoc(owner.__doc__ or "").partition("Parameters\n----------\n")[2]
        if issubclass(owner, Ranker):
            for name, words in re.findall(r"^(\w+) : (.*(?:\n +.*)*)", section, re.MULTILINE):
                found[name] = re.sub(r"\s+", " ", words)
    return found
