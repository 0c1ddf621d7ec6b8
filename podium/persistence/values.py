"""Parameters as plain JSON values and back: what a model file holds of them, without a line of code.

Numbers, text, None and lists are themselves. Everything else is an object with a "type": tuples, sets, ranges and
mappings with their items, and metrics, objectives and policies with a name and all their fields:

    (0.2, 0.1)           {"type": "tuple", "items": [0.2, 0.1]}
    {0: 1}               {"type": "mapping", "items": [[0, 1]]}
    inf                  {"type": "infinity"}
    RankNet(sigma=2.0)   {"type": "objective", "name": "ranknet", "fields": {"sigma": 2.0, "ties": false}}
    Ridge(alpha=2.0)     {"type": "estimator", "name": "ridge", "fields": {"alpha": 2.0, ...}}

Reading makes these values again and nothing else: names are looked up in the registries, fields must have the types
that the classes declare, and each class then checks its own ranges.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from podium._runtime.words import check_choice
from podium.metrics.base import Metric
from podium.metrics.policies import POLICIES, Policy
from podium.metrics.registry import KNOWN_METRICS, parse_metric
from podium.models.estimators import ESTIMATORS, make_estimator, name_of
from podium.models.frame.estimator import is_fitted
from podium.models.frame.parameters import UNSAVED
from podium.models.frame.ranker import Ranker
from podium.models.registry import MODELS, is_registered, refuse_unregistered
from podium.objectives.base import Objective
from podium.objectives.registry import OBJECTIVES
from podium.persistence.validation import known_parameters

# Models of models, objective, metric, policy, table of gains; and what a crafted file can make of it ends here.
_DEEPEST = 16


@dataclass(frozen=True)
class NotSaved:
    """Stands for a parameter that was code, in a model that was saved to score only."""

    about: str

    def __repr__(self) -> str:
        return f"<not saved: {self.about}>"


def plain_parameters(model: Any, names: Sequence[str], score_only: bool = False) -> dict[str, Any]:
    """The parameters of a model with these names, for its file; what only code could say is refused, or left out."""
    return {name: _plain_parameter(model, name, score_only) for name in names}


def read_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What `plain_parameters` wrote, or a ValueError."""
    return _checked({name: from_plain(value, name) for name, value in plain.items()})


def _checked(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a model; an init model among them is one that is to be trained, and all names are known."""
    for name, value in parameters.items():
        with _perhaps_of_a_plugin():
            if name == "objective" and isinstance(value, str) and value.isidentifier():
                check_choice("objective", value.strip().lower(), OBJECTIVES)
            elif name in ("metric", "eval_metric"):
                for one in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(one, str):
                        parse_metric(one)
    base = parameters.get("init")
    if base is not None and not isinstance(base, (Ranker, NotSaved)):
        raise ValueError(f"init must be null or a model, not {_short(base)}")
    return parameters


def _plain_parameter(model: Any, name: str, score_only: bool) -> Any:
    value = getattr(model, name, None)
    try:
        return to_plain(value)
    except ValueError as error:
        if score_only:
            return {"type": "not saved", "about": _short(value)}
        default = repr(type(model).__dataclass_fields__[name].default)
        advice = f"Set another one first, such as model.set_params({name}={default}), or save(..., score_only=True)."
        raise ValueError(f"{type(model).__name__}: {name} cannot be saved: {error}. {advice}") from error


def to_plain(value: Any) -> Any:
    """A parameter as a JSON value that `from_plain` reads back as an equal one."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value == math.inf:  # JSON has no number for it
        return {"type": "infinity"}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, NotSaved):
        return {"type": "not saved", "about": value.about}
    if isinstance(value, Policy) and POLICIES.get(value.name) == value:
        return {"type": "policy", "name": value.name}
    if isinstance(value, (Metric, Objective, Policy)):
        return _plain_fields(value)
    if isinstance(value, type) and issubclass(value, Objective) and OBJECTIVES.get(value.name) is value:
        return {"type": "objective class", "name": value.name}
    if is_dataclass(value) and is_registered(type(value)):
        return _plain_model(value)
    if name_of(value) is not None:
        plain = {name: to_plain(item) for name, item in value.get_params(deep=False).items()}
        return {"type": "estimator", "name": name_of(value), "fields": plain}
    if isinstance(value, range):
        return {"type": "range", "items": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {"type": "mapping", "items": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"type": "tuple", "items": [to_plain(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"type": "set", "items": sorted(map(to_plain, value), key=lambda item: (str(type(item)), item))}
    if np.iterable(value) and not isinstance(value, (bytes, type)) and not callable(value):  # a list, array or index
        return [to_plain(item) for item in value]
    what = "is a Python function" if callable(value) else f"is a {type(value).__name__}"
    raise ValueError(f"{_short(value)} {what}, and a model file holds no code")


def from_plain(plain: Any, where: str = "value", depth: int = 0) -> Any:
    """The value that `to_plain` made this of; anything else is a ValueError that names where it was."""
    if depth > _DEEPEST:
        raise ValueError(f"{where}: values are nested more than {_DEEPEST} deep")
    if isinstance(plain, list):
        return [from_plain(item, where, depth + 1) for item in plain]
    if not isinstance(plain, dict):
        return plain
    kind = str(plain.get("type"))
    check_choice(f"{where}: a type", kind, _READERS)
    keys, read = _READERS[kind]
    expected = _NAME if kind == "policy" and "fields" not in plain else keys
    if set(plain) != expected | {"type"}:
        raise ValueError(f"{where}: a {kind} must have {' and '.join(sorted(expected))}; got {sorted(plain)}")
    return read(plain, where, depth + 1)


def _plain_fields(value: Metric | Objective | Policy) -> dict[str, Any]:
    kind, name = _kind(value)
    if kind is None:
        what = "a metric" if isinstance(value, Metric) else "an objective"
        raise ValueError(f"{_short(value)} is {what} of your own, and a model file holds no code")
    settings = {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    plain = {"type": kind, "name": name, "fields": settings}
    if from_plain(plain) != value:
        raise ValueError(f"{_short(value)} has fields of other types than its class declares")
    return plain


def _plain_model(value: Any) -> dict[str, Any]:
    """A model that is to be trained, a parameter of another one: its own parameters, without those of the machine."""
    names = [one.name for one in fields(value) if one.name not in UNSAVED]
    parameters = {name: to_plain(getattr(value, name, None)) for name in names if name != "init"}
    init = getattr(value, "init", None)
    if init is not None:
        if not isinstance(init, Ranker) or is_fitted(init):  # what a fitted one has learned is not a parameter
            start = f"{type(value).__name__} starts from a fitted model or from scores (init)"
            raise ValueError(f"{start}, which parameters do not hold; an init model that is not fitted can be saved")
        parameters["init"] = to_plain(init)
    return {"type": "model", "name": type(value).__name__, "parameters": parameters}


def _kind(value: Metric | Objective | Policy) -> tuple[str | None, str]:
    """What it is called in a file, if it is one of Podium's own."""
    if isinstance(value, Policy):
        return ("policy" if type(value) is Policy else None), value.name
    if isinstance(value, Metric):
        return ("metric" if KNOWN_METRICS.get(value.base_name) is type(value) else None), value.base_name
    return ("objective" if OBJECTIVES.get(value.name) is type(value) else None), value.name


def _items(plain: Mapping[str, Any], where: str, depth: int) -> list[Any]:
    if not isinstance(plain["items"], list):
        raise ValueError(f"{where}: items must be a list; got {type(plain['items']).__name__}")
    return [from_plain(item, where, depth) for item in plain["items"]]


def _read_not_saved(plain: Mapping[str, Any], where: str, depth: int) -> NotSaved:
    if not isinstance(plain["about"], str):
        raise ValueError(f"{where}: about must be text")
    return NotSaved(plain["about"])


def _read_set(plain: Mapping[str, Any], where: str, depth: int) -> set[Any]:
    items = _items(plain, where, depth)
    if not all(isinstance(item, (int, float, str)) for item in items):
        raise ValueError(f"{where}: a set must hold numbers and names only")
    return set(items)


def _read_range(plain: Mapping[str, Any], where: str, depth: int) -> range:
    items = _items(plain, where, depth)
    if len(items) != 3 or not all(_fits(item, int) for item in items) or items[2] == 0:
        raise ValueError(f"{where}: a range must have a start, a stop and a step; got {items}")
    return range(*items)


def _read_mapping(plain: Mapping[str, Any], where: str, depth: int) -> dict[Any, Any]:
    items = _items(plain, where, depth)
    if not all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], (int, float, str)) for item in items):
        raise ValueError(f"{where}: a mapping must have pairs of a number or name and its value; got {items}")
    return dict(items)


def _read_policy(plain: Mapping[str, Any], where: str, depth: int) -> Policy:
    if "fields" in plain:
        policy: Policy = _made(Policy, plain, where, depth)
        if policy.name != plain["name"]:
            raise ValueError(f"{where}: policy {plain['name']!r} has the name {policy.name!r} in its fields")
        return policy
    known: Policy = _named(POLICIES, plain, where)
    return known


def _read_model(plain: Mapping[str, Any], where: str, depth: int) -> Any:
    refuse_unregistered(str(plain["name"]))
    kind: Any = MODELS[plain["name"]]
    if not isinstance(plain["parameters"], dict):
        raise ValueError(f"{where}: parameters must be an object; got {type(plain['parameters']).__name__}")
    parameters = {name: from_plain(item, f"{where}: {name}", depth) for name, item in plain["parameters"].items()}
    return kind(**known_parameters(kind, _checked(parameters)))


def _read_estimator(plain: Mapping[str, Any], where: str, depth: int) -> Any:
    _named(ESTIMATORS, plain, where)
    made = make_estimator(plain["name"])
    parameters = plain["fields"]
    if not isinstance(parameters, dict) or not set(parameters) <= set(made.get_params(deep=False)):
        raise ValueError(f"{where}: the parameters of {plain['name']} are not those of its class")
    return made.set_params(**{name: from_plain(item, f"{where}: {name}", depth) for name, item in parameters.items()})


_NAME, _FIELDS, _ITEMS = {"name"}, {"name", "fields"}, {"items"}
_READERS: dict[str, tuple[set[str], Callable[[Mapping[str, Any], str, int], Any]]] = {  # keys besides "type", reader
    "tuple": (_ITEMS, lambda plain, where, depth: tuple(_items(plain, where, depth))),
    "set": (_ITEMS, _read_set),
    "range": (_ITEMS, _read_range),
    "infinity": (set(), lambda plain, where, depth: math.inf),
    "mapping": (_ITEMS, _read_mapping),
    "metric": (_FIELDS, lambda plain, where, depth: _made(_named(KNOWN_METRICS, plain, where), plain, where, depth)),
    "objective": (_FIELDS, lambda plain, where, depth: _made(_named(OBJECTIVES, plain, where), plain, where, depth)),
    "objective class": (_NAME, lambda plain, where, depth: _named(OBJECTIVES, plain, where)),
    "policy": (_FIELDS, _read_policy),
    "estimator": (_FIELDS, _read_estimator),
    "not saved": ({"about"}, _read_not_saved),
    "model": ({"name", "parameters"}, _read_model),
}


def _named(registry: Mapping[str, Any], plain: Mapping[str, Any], where: str) -> Any:
    name = plain.get("name")
    with _perhaps_of_a_plugin():
        check_choice(f"{where}: {plain['type']}", name if isinstance(name, str) else repr(name), registry)
    return registry[plain["name"]]


@contextmanager
def _perhaps_of_a_plugin() -> Iterator[None]:
    """A name that is not known may be one that a plugin registers."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error} If a plugin registers it, import that module first.") from error


def _made(kind: Any, plain: Mapping[str, Any], where: str, depth: int) -> Any:
    """A metric, objective or policy: its fields are those of its class, each of the type it declares."""
    if not isinstance(plain["fields"], dict):
        raise ValueError(f"{where}: fields must be an object; got {type(plain['fields']).__name__}")
    hints, known = get_type_hints(kind), [field.name for field in fields(kind)]
    settings = {}
    for name, item in plain["fields"].items():
        check_choice(f"{where}: a field of {plain['name']}", name, known)
        settings[name] = from_plain(item, f"{where}: {name}", depth)
        if not _fits(settings[name], hints[name]):
            raise ValueError(f"{where}: {name} of {plain['name']} has a value of the wrong type: {_short(item)}")
    try:
        return kind(**settings)
    except (TypeError, ValueError) as error:  # out of its range
        raise ValueError(f"{where}: {error}") from error


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type; whole numbers are numbers too, truth values are none."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is not None:  # a sequence or tuple of numbers
        return isinstance(value, (tuple, list)) and all(_fits(item, arguments[0]) for item in value)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
