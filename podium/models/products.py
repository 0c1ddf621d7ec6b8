"""The named models, each a product of a learner and an objective.

| model | learner | objective |
| --- | --- | --- |
| RegressionTree | one tree | squared error |
| MART | boosted trees | squared error, logistic or ordinal, or any other |
| LambdaMART | boosted trees | lambda of a metric |
| LambdaSMART | boosted trees on top of a base model's scores | lambda of a metric |
| MatrixNet | boosted oblivious trees | Plackett-Luce likelihood, lambda or any other |
| RandomForest | the mean of trees, each from a draw of the queries | squared error or any other of single documents |
| Boosted | boosted trees | any |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from podium._runtime.words import check_choice
from podium.formats.errors import FormatError
from podium.learners.trees.scoring.forest import FOREST_ARRAYS, Forest
from podium.learners.trees.training.boosting import BoostingRules
from podium.models.boosted import BoostedTrees
from podium.models.ranker import Ranker
from podium.objectives import Objective, parse_objective
from podium.objectives.lambdas import NORMALIZATIONS
from podium.persistence.storage import load_parts, save_parts
from podium.persistence.validation import INNER, check_model, check_parts, known_parameters
from podium.persistence.values import plain_parameters, read_parameters


@dataclass(eq=False, repr=False, kw_only=True)
class Boosted(BoostedTrees):
    """Boosted trees x any objective, by name, by value or as a Python callable.

    Parameters
    ----------
    objective : what the trees fit the derivatives of.
    metric : what the objective "lambda" steers by.
    """

    objective: Any = "lambda"
    metric: Any = "ndcg@10"

    def _objective(self) -> Any:
        if self.objective == "lambda":
            return parse_objective("lambda", metric=self.metric, normalize="lightgbm")
        return parse_objective(self.objective)

    def _aim(self) -> Any:
        return super()._aim() if isinstance(self.objective, Objective) else self.metric


@dataclass(eq=False, repr=False, kw_only=True)
class MART(BoostedTrees):
    """Multiple additive regression trees: boosted trees x squared error (or "logistic", "ordinal", any objective).

    Parameters
    ----------
    objective : what the trees fit the derivatives of.
    """

    objective: Any = "squared"

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class RegressionTree(BoostedTrees):
    """One least-squares tree: the mean label of the leaf a document falls into."""

    n_estimators: int = 1
    learning_rate: float = 1.0

    def _objective(self) -> Any:
        return parse_objective("squared")

    def _needs_pairs(self) -> bool:
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class LambdaMART(BoostedTrees):
    """Boosted trees x lambda of a metric. With `init=` a fitted model or its scores this is LambdaSMART.

    Parameters
    ----------
    metric : steers the lambdas; its cutoff bounds the pairs.
    sigma : the slope of the logistic.
    normalize : scales the lambdas: None as in the papers, "lightgbm" or "xgboost" as those libraries do.
    """

    metric: Any = "ndcg@10"
    sigma: float = 1.0
    normalize: str | None = "lightgbm"

    def _objective(self) -> Any:
        return parse_objective("lambda", metric=self.metric, sigma=self.sigma, normalize=self.normalize)

    def _aim(self) -> Any:
        return self.metric

    def _choices(self) -> dict[str, tuple[str | None, ...]]:
        return super()._choices() | {"normalize": (None, *NORMALIZATIONS)}

    def _ranges(self) -> dict[str, tuple[float, float, str]]:
        return super()._ranges() | {"sigma": (1e-12, 1e12, "above 0")}


@dataclass(eq=False, repr=False, kw_only=True)
class LambdaSMART(LambdaMART):
    """LambdaMART that starts from a base model: `init` is required."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.init is None:
            message = "LambdaSMART: init must be a fitted model or one score a training row; got None."
            raise ValueError(f"{message} On the command line, name a model's file: --set init=FILE.")


@dataclass(eq=False, repr=False, kw_only=True)
class MatrixNet(Boosted):
    """Boosted oblivious trees x Plackett-Luce likelihood (or "lambda" with a metric, or any objective)."""

    objective: Any = "listmle"
    growth: str = "oblivious"
    max_depth: int | None = 6


@dataclass(eq=False, repr=False, kw_only=True)
class RandomForest(BoostedTrees):
    """The mean of many trees, each from as many queries as there are, drawn with replacement, and from some features.

    Parameters
    ----------
    objective : what each tree fits from the start: "squared", "logistic", or another one of single documents.
    """

    objective: Any = "squared"
    learning_rate: float = 1.0
    max_leaf_nodes: int = 100
    min_samples_leaf: int = 5
    feature_fraction: float = 0.3

    def _objective(self) -> Any:
        return parse_objective(self.objective)

    def _needs_pairs(self) -> bool:
        return False

    def _rules(self) -> BoostingRules:
        rules = super()._rules()
        return replace(rules, average=True, sampling=replace(rules.sampling, bootstrap=True))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("init", "goss", "drop_rate", "row_fraction", "query_fraction"):
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:
                raise ValueError(f"RandomForest: {name} has no meaning here: its trees do not see each other.")

    def fit_more(self, X: Any, y: Any = None, qid: Any = None, *, n_estimators: int, **options: Any) -> BoostedTrees:
        raise ValueError("RandomForest: fit_more has no meaning here; fit with a larger n_estimators.")


MODELS: dict[str, type[BoostedTrees]] = {
    model.__name__: model for model in (RegressionTree, MART, LambdaMART, LambdaSMART, MatrixNet, RandomForest, Boosted)
}


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
