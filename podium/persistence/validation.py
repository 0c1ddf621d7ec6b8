"""Validation: what a model file may say, key by key, checked before anything is made of it.

A checksum says that a file is as it was written, not that it was written by Podium. So every key of `meta` has its
exact type and range here, keys and arrays that are not known are refused, and lengths are compared with one another.
Each model declares its facts and arrays (`Ranker.state_facts`, `Ranker.state_arrays`) and checks what they hold.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from podium.models.frame.parameters import UNSAVED

_MOST_FEATURES = 2**31 - 1
_LARGEST_COUNT = 2**62


@dataclass(frozen=True)
class Fact:
    """What stands behind a key: in words, and as a test."""

    expected: str
    holds: Callable[[Any], bool]
    required: bool = True


def _is_count(value: Any, most: int = _LARGEST_COUNT) -> bool:
    return type(value) is int and 0 <= value <= most


def is_number(value: Any) -> bool:
    """Finite as float64; an integer of JSON may have any length."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_size(value: Any) -> bool:
    return isinstance(value, bool) or is_number(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mapping(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(_is_text(key) and holds(inner) for key, inner in value.items())


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(holds, value))


def _is_child(value: Any) -> bool:
    return _is_mapping(value, lambda inner: True) and value.keys() == {"kind", "meta"}


def _are_names(value: Any) -> bool:
    """Categories of a column: all different, text or numbers."""
    are_valid = _is_list(value, lambda name: isinstance(name, (str, bool)) or is_number(name))
    return are_valid and len(set(value)) == len(value)


def _is_curve(value: Any) -> bool:
    return _is_list(value, lambda point: point is None or (isinstance(point, float) and math.isfinite(point)))


META: dict[str, Fact] = {
    "parameters": Fact("parameters by name", lambda value: _is_mapping(value, lambda inner: True)),
    "fitted": Fact("parameters by name", lambda value: _is_mapping(value, lambda inner: True), required=False),
    "n_features": Fact(f"an integer from 0 to {_MOST_FEATURES}", lambda value: _is_count(value, _MOST_FEATURES)),
    "n_columns": Fact("an integer, 0 or larger", _is_count, required=False),  # where the model has a transform
    "n_filled": Fact("an integer, 0 or larger", _is_count, required=False),  # where the model fills missing values
    "n_queries": Fact("an integer, 0 or larger", _is_count),
    "feature_names": Fact("null or a list of names", lambda value: value is None or _is_list(value, _is_text)),
    "categories": Fact("different categories by column", lambda value: _is_mapping(value, _are_names)),
    "best_iteration": Fact("an integer, 0 or larger", _is_count),
    "best_score": Fact("a finite number", is_number, required=False),  # where there were evaluation sets
    "evals": Fact(
        "finite numbers or null, by set and metric",
        lambda value: _is_mapping(value, lambda curves: _is_mapping(curves, _is_curve)),
    ),
    "children": Fact("models by name", lambda value: _is_mapping(value, _is_child), required=False),
}
RESOLVED = Fact("numbers by parameter", lambda value: _is_mapping(value, _is_size), required=False)
TREE_FACTS: dict[str, Fact] = {
    "start": Fact("a finite number", is_number),
    "bundles": Fact("lists of features", lambda value: _is_list(value, lambda one: _is_list(one, _is_count))),
    "resolved": RESOLVED,
    "exact_sums": Fact("true or false", lambda value: isinstance(value, bool), required=False),
}


def check_parts(
    meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray], own_facts: Mapping[str, Fact], own_arrays: Sequence[str]
) -> None:
    """Refuse facts that are not of the right type or do not fit together, and arrays that are missing or not known.

    own_facts, own_arrays: those that only this kind of model has; arrays of its children are not among `arrays`.
    """
    if not isinstance(meta, Mapping):
        raise ValueError("meta must have keys")
    facts = META | dict(own_facts)
    _refuse_other_keys("meta", meta, {key for key, fact in facts.items() if fact.required}, set(facts))
    for key, fact in facts.items():
        if key in meta and not fact.holds(meta[key]):
            raise ValueError(f"{key} must be {fact.expected}, not {_shown(meta[key])}")
    _refuse_other_keys("the arrays", arrays, set(own_arrays), set(own_arrays))
    _check_features(meta)


def _refuse_other_keys(what: str, values: Mapping[str, Any], required: set[str], known: set[str]) -> None:
    missing, unknown = sorted(required - values.keys()), sorted(values.keys() - known)
    if missing or unknown:
        problem = f"lack {missing[0]}" if missing else f"hold {unknown[0][:60]!r}, which is not known"
        raise ValueError(f"{what} {problem}")


def _check_features(meta: Mapping[str, Any]) -> None:
    """All that names or numbers features, against how many there are."""
    n, names = meta["n_features"], meta["feature_names"]
    if names is not None and len(names) != n:
        raise ValueError(f"there are {len(names)} feature names for {n} features")
    bundled = [feature for bundle in meta.get("bundles", []) for feature in bundle]
    if any(feature >= meta.get("n_columns", n) for feature in bundled) or len(set(bundled)) < len(bundled):
        raise ValueError("a bundle holds a feature that is not there, or one that is in a bundle already")


def known_parameters(model: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a file, all of which the model has; how many threads to use is not the file's affair."""
    _refuse_other_keys("the parameters", parameters, set(), {one.name for one in fields(model)} - UNSAVED)
    return dict(parameters)


def fitted_parameters(model: Any, parameters: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a fitted model reads: as given, or where others were set after the training, as `changed`."""
    declared = {one.name: one for one in fields(model)}
    _refuse_other_keys("the fitted parameters", changed, set(), set(model.scoring_parameters))
    values = {name: parameters.get(name, declared[name].default) for name in model.scoring_parameters} | dict(changed)
    for name, value in changed.items():
        declaration = declared[name].metadata["parameter"]
        if not declaration.takes(value):
            raise declaration.refuse(model.__name__, name, value)
    return values


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**60 else "a huge integer"
    return text if len(text) <= 60 else f"{text[:57]}..."
