"""The named models, each a product of a learner and an objective; `registry.py` lists them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from podium._runtime.words import check_choice
from podium.formats.errors import FormatError
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest
from podium.learners.trees.training.boosting import BoostingRules
from podium.models.boosted import BoostedTrees, BoostingParameters, GrowthParameters
from podium.models.parameters import LambdaParameters, MetricParameter, ObjectiveParameter, parameter, parametrized
from podium.models.ranker import Ranker
from podium.models.registry import MODELS
from podium.objectives import Objective, parse_objective
from podium.persistence.storage import load_parts, save_parts
from podium.persistence.validation import INNER, check_model, check_parts, known_parameters
from podium.persistence.values import plain_parameters, read_parameters


@parametrized
class _AnyObjective(ObjectiveParameter, MetricParameter, BoostedTrees):
    """Boosted trees with any objective; "lambda" takes the metric."""

    def _objective(self) -> Any:
        if self.objective == "lambda":
            return parse_objective("lambda", metric=self.metric, normalize="lightgbm")
        return parse_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric


@parametrized
class Boosted(BoostingParameters, GrowthParameters, _AnyObjective):
    """Boosted trees with any objective: a name, an Objective or a Python function."""


@parametrized
class MART(ObjectiveParameter, BoostingParameters, GrowthParameters, BoostedTrees):
    """Multiple additive regression trees.

    They fit squared error, "logistic", "ordinal" or any other objective.
    """

    objective: Any = "squared"

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False


@parametrized
class RegressionTree(BoostingParameters, GrowthParameters, BoostedTrees):
    """One least-squares tree: the score of a document is the mean label of its leaf."""

    n_estimators: int = 1
    learning_rate: float = 1.0

    def _objective(self) -> Any:
        return parse_objective("squared")

    def _needs_pairs(self) -> bool:
        return False


@parametrized
class LambdaMART(LambdaParameters, BoostingParameters, GrowthParameters, BoostedTrees):
    """Boosted trees that optimize a ranking metric by lambda gradients.

    With `init=` a fitted model or its scores this is LambdaSMART.
    """

    def _objective(self) -> Any:
        return parse_objective("lambda", metric=self.metric, sigma=self.sigma, normalize=self.normalize)

    def _aim(self) -> Any:
        return self.metric


@parametrized
class LambdaSMART(LambdaMART):
    """LambdaMART that starts from the scores of a base model; init is required."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is None:
            message = "LambdaSMART: init must be a fitted model or one score per training row; got None."
            raise ValueError(f"{message} On the command line, name a model's file: --set init=FILE.")


@parametrized
class MatrixNet(BoostingParameters, _AnyObjective):
    """Boosted trees with one split per level.

    They fit the Plackett-Luce likelihood, "lambda" with a metric, or any other objective.
    """

    objective: Any = "listmle"
    max_depth: int = parameter(6, "Maximum depth of a tree; no tree has more than 16 levels.", low=1, high=2**16)

    growth = "oblivious"
    _fixed = ("growth",)
    _unused = ("max_leaf_nodes", "min_samples_leaf", "max_impurity")


@parametrized
class RandomForest(ObjectiveParameter, GrowthParameters, BoostedTrees):
    """Each tree is grown on a bootstrap sample of the queries and on a fraction of the features.

    The score of a document is the mean over the trees.
    """

    objective: Any = "squared"
    max_leaf_nodes: int = 100
    min_samples_leaf: int = 5
    feature_fraction: float = 0.3

    _fixed = ("learning_rate", "row_fraction", "query_fraction", "goss", "drop_rate")
    _unused = ("goss_by", "skip_drop", "max_drop")

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False

    def _rules(self) -> BoostingRules:
        rules = super()._rules()
        return replace(rules, average=True, sampling=replace(rules.sampling, bootstrap=True))

    def fit_more(self, X: Any, y: Any = None, qid: Any = None, *, n_estimators: int, **options: Any) -> BoostedTrees:
        raise ValueError("RandomForest: fit_more is not supported; fit with a larger n_estimators.")


def save(model: Ranker, path: str | os.PathLike[str]) -> None:
    """Write a fitted model."""
    kind, meta, arrays = _to_parts(model)
    try:
        _from_parts(kind, meta, arrays)  # what could not be loaded is not written
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{os.fspath(path)}: {kind} cannot be saved ({error}). Nothing is written.") from error
    save_parts(path, kind, meta, arrays)


def load(path: str | os.PathLike[str]) -> Ranker:
    """Read a model that `save` wrote. Nothing in the file is run."""
    kind, meta, arrays = load_parts(path)
    try:
        return _from_parts(kind, meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(path, f"holds no model this version understands ({error}).") from error


def _to_parts(model: Any) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    if type(model).__name__ not in MODELS:
        raise ValueError(f"{type(model).__name__} cannot be saved; it is no model of Podium.")
    forest = model.forest_
    meta: dict[str, Any] = {
        "parameters": plain_parameters(model, [f.name for f in fields(model) if f.name not in ("n_jobs", "init")]),
        "n_features": int(model.n_features_in_),
        "n_queries": int(model.n_queries_),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])] or None,
        "categories": model.categories_,
        "best_iteration": int(model.best_iteration_),
        "evals": _swap_curves(model.evals_, np.isnan, None),
        "start": forest.start,
        "bundles": model.bundles_,
    }
    arrays = {name: getattr(forest, name) for name in FOREST_ARRAYS}
    if model._base_model() is not None:
        kind, inner, inner_arrays = _to_parts(model.init)
        meta["init"] = {"kind": kind, "meta": inner}
        arrays |= {f"{INNER}{name}": array for name, array in inner_arrays.items()}
    return type(model).__name__, meta, arrays


def _swap_curves(evals: Mapping[str, Any], is_old: Callable[[Any], Any], new: float | None) -> dict[str, Any]:
    """The learning curves with one value in place of another: JSON has no NaN."""
    return {
        part: {metric: [new if is_old(value) else value for value in curve] for metric, curve in curves.items()}
        for part, curves in evals.items()
    }


def _renamed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they are spelt today; older files may hold other spellings."""
    return {**parameters, "step": "tree"} if parameters.get("step") == "length" else dict(parameters)


def _from_parts(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Ranker:
    check_choice("model", kind, MODELS)
    check_parts(meta, arrays)
    model = MODELS[kind](**known_parameters(MODELS[kind], _renamed(read_parameters(meta["parameters"]))))
    model.n_features_in_, model.n_queries_ = int(meta["n_features"]), int(meta["n_queries"])
    if meta["feature_names"] is not None:
        model.feature_names_in_ = np.array(meta["feature_names"], dtype=object)
    model.categories_ = {str(column): list(names) for column, names in meta["categories"].items()}
    model.best_iteration_ = int(meta["best_iteration"])
    model.bundles_ = [[int(f) for f in bundle] for bundle in meta["bundles"]]
    model.evals_ = _swap_curves(meta["evals"], lambda value: value is None, np.nan)
    own = {name: arrays[name] for name in FOREST_ARRAYS}
    model.forest_ = Forest(**own, start=float(meta["start"]), n_features=model.n_features_in_)
    if "init" in meta:
        inner = {name.removeprefix(INNER): array for name, array in arrays.items() if name.startswith(INNER)}
        model.init = _from_parts(meta["init"]["kind"], meta["init"]["meta"], inner)
    check_model(model)
    return model
