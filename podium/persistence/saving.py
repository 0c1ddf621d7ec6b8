"""Saving and loading models: parameters, fitted facts and arrays, and children by name, in one checked file.

A model says what it is made of (`Ranker.fitted_state`); a child (an init model, a member of a blend) is saved in the
same way, its arrays under its name. Loading checks every key and array before use, and runs
no code of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np

from podium.formats.errors import FormatError
from podium.formats.kinds import CASCADE, CASCADE_FILE
from podium.formats.lines import FilePath
from podium.models.frame.imputing import IMPUTATION_ARRAYS, Imputation, ImputeParameters
from podium.models.frame.init_model import check_init, unsaved_parameters
from podium.models.frame.ranker import FittedState, Ranker
from podium.models.frame.transforms import TRANSFORM_ARRAYS, Transform
from podium.models.registry import MODELS, is_registered, refuse_unregistered
from podium.persistence.storage import load_parts, save_parts
from podium.persistence.validation import check_parts, fitted_parameters, known_parameters
from podium.persistence.values import plain_parameters, read_parameters, to_plain

_CASCADES = "podium.pipelines.cascades.saving"  # a layer above this one, as the registry names models
_TRANSFORM, _IMPUTE = "transform", "impute"  # their arrays are called so, as those of a child are


def save(model: Ranker, target: FilePath | IO[bytes], score_only: bool = False) -> None:
    """Write a fitted model to a path or a binary file object.

    `score_only` accepts Python functions as parameters: they are not in the file, and the loaded model scores but
    cannot be trained until they are set again.
    """
    kind, meta, arrays = to_parts(model, score_only)
    try:
        from_parts(kind, meta, arrays)  # what could not be loaded is not written
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        where = f"{os.fspath(target)}: " if isinstance(target, (str, os.PathLike)) else ""
        raise ValueError(f"{where}{kind} cannot be saved ({error}). Nothing is written.") from error
    save_parts(target, kind, meta, arrays)


def refuse_unsaved(model: Ranker) -> None:
    """Refuse a model whose parameters are functions or objects that no file holds."""
    plain_parameters(model, [f.name for f in fields(model) if f.name not in ("n_jobs", "init")], False)


def load(source: FilePath | IO[bytes]) -> Any:
    """Read what `save` wrote, from a path or a binary file object, or the folder of a `Cascade`; no code is run."""
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        folder = Path(source)
        if not (folder / CASCADE_FILE).exists():
            raise FormatError(folder, f"is a folder without a {CASCADE_FILE}. {CASCADE.make}")
        return import_module(_CASCADES).load_cascade(folder)
    kind, meta, arrays = load_parts(source)
    try:
        return from_parts(kind, meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        name = source if isinstance(source, (str, os.PathLike)) else getattr(source, "name", "the file")
        raise FormatError(str(name), f"holds no model this version understands ({error}).") from error


def to_parts(model: Any, score_only: bool) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The kind of a fitted model, facts as plain JSON, and arrays."""
    kind = type(model).__name__
    if not is_registered(type(model)):
        advice = f"Register it with podium.models.register_model({kind})."
        raise ValueError(f"{kind} cannot be saved; it is not a model of Podium. {advice}")
    unsaved, state = unsaved_parameters(model), model.fitted_state()
    parameters = plain_parameters(model, [f.name for f in fields(model) if f.name not in unsaved], score_only)
    meta: dict[str, Any] = {
        "parameters": parameters,
        **_fitted_parameters(model, parameters),
        "n_features": int(model.n_features_in_),
        "n_queries": int(model.n_queries_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])] or None,
        "categories": model.categories_,
        "best_iteration": int(model.best_iteration_),
        **({} if model.best_score_ is None else {"best_score": float(model.best_score_)}),
        "evals": _swap_curves(model.evals_, np.isnan, None),
        **state.facts,
    }
    arrays, children = dict(state.arrays), {} if model.init_ is None else {"init": model.init_}
    children |= state.parts
    if model.transform_ is not None:
        meta["n_columns"] = model.transform_.n_columns
        arrays |= {f"{_TRANSFORM}/{name}": array for name, array in model.transform_.arrays().items()}
    if model.imputation_ is not None:
        meta["n_filled"] = len(model.imputation_.values)
        arrays |= {f"{_IMPUTE}/{name}": array for name, array in model.imputation_.arrays().items()}
    if children:
        meta["children"] = {}
    for name, child in children.items():
        inner_kind, inner_meta, inner_arrays = to_parts(child, score_only)
        meta["children"][name] = {"kind": inner_kind, "meta": inner_meta}
        arrays |= {f"{name}/{inner}": array for inner, array in inner_arrays.items()}
    return kind, meta, arrays


def _fitted_parameters(model: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that the fitted model reads, where others were set since."""
    plain = {name: to_plain(model.scoring_parameter(name)) for name in model.scoring_parameters}
    changed = {name: value for name, value in plain.items() if value != parameters[name]}
    return {"fitted": changed} if changed else {}


def from_parts(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Ranker:
    """The model that `to_parts` made these of, all of them checked."""
    refuse_unregistered(kind)
    made: Any = MODELS[kind]
    if not isinstance(meta, Mapping) or not isinstance(meta.get("children", {}), Mapping):
        raise ValueError("meta and its children must have keys")
    children = dict(meta.get("children", {}))
    for name in children.keys() & {_TRANSFORM, _IMPUTE}:
        raise ValueError(f"no part of a model is called {name!r}")
    outer = {name: array for name, array in arrays.items() if name.rpartition("/")[0].partition("/")[0] not in children}
    transformed = [f"{_TRANSFORM}/{name}" for name in TRANSFORM_ARRAYS] if "n_columns" in meta else []
    filled = [f"{_IMPUTE}/{name}" for name in IMPUTATION_ARRAYS] if "n_filled" in meta else []
    check_parts(meta, outer, made.state_facts, [*made.state_arrays, *transformed, *filled])
    parameters = known_parameters(made, read_parameters(meta["parameters"]))
    model: Ranker = made(**parameters)
    model.fitted_parameters_ = fitted_parameters(made, parameters, read_parameters(meta.get("fitted", {})))
    model.n_features_in_, model.n_queries_ = int(meta["n_features"]), int(meta["n_queries"])
    if meta["feature_names"] is not None:
        model.feature_names_in_ = np.array(meta["feature_names"], dtype=object)
    model.categories_ = {str(column): list(names) for column, names in meta["categories"].items()}
    model.best_iteration_ = int(meta["best_iteration"])
    model.best_score_ = None if "best_score" not in meta else float(meta["best_score"])
    model.evals_ = _swap_curves(meta["evals"], lambda value: value is None, np.nan)
    model.transform_ = _read_transform(meta, outer)
    model.imputation_ = _read_imputation(made, meta, outer)
    parts = {name: from_parts(one["kind"], one["meta"], _below(name, arrays)) for name, one in children.items()}
    model.init_ = parts.pop("init", None)
    if model.init_ is not None and "init" not in parameters:  # else that of the next training is another one
        model.init = model.init_
    facts = {name: meta[name] for name in made.state_facts if name in meta}
    model.restore_state(FittedState(facts, {name: outer[name] for name in made.state_arrays}, parts))
    model.check_state()
    check_init(model)
    unknown = parts.keys() - model.fitted_state().parts.keys()
    if unknown:
        raise ValueError(f"{kind} has no part that is called {min(unknown)!r}")
    return model


def _read_transform(meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Transform | None:
    if "n_columns" not in meta:
        return None
    transform = Transform.of_arrays(_below(_TRANSFORM, arrays), meta["n_features"])
    if transform.n_columns != meta["n_columns"]:
        raise ValueError(f"there are {transform.n_columns} columns, not {meta['n_columns']}")
    return transform


def _read_imputation(made: Any, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Imputation | None:
    if "n_filled" not in meta:
        return None
    width = meta.get("n_columns", meta["n_features"])
    if meta["n_filled"] != width or not issubclass(made, ImputeParameters):
        raise ValueError(f"{meta['n_filled']} columns are filled of {width}, which {made.__name__} does not do")
    return Imputation.of_arrays(_below(_IMPUTE, arrays), width)


def _below(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a child, by their own names."""
    return {inner.removeprefix(f"{name}/"): array for inner, array in arrays.items() if inner.startswith(f"{name}/")}


def _swap_curves(evals: Mapping[str, Any], is_old: Callable[[Any], Any], new: float | None) -> dict[str, Any]:
    """The learning curves with one value in place of another: JSON has no NaN."""
    return {
        part: {metric: [new if is_old(value) else value for value in curve] for metric, curve in curves.items()}
        for part, curves in evals.items()
    }
