"""scikit-learn's HistGradientBoosting, in, from the fitted object: there is no file of it.

A split sends x <= num_threshold left, compared in float64; a split by categories has bits for those that go left, and
sends categories that training has not seen where it sends missing values. Categorical columns come first in the order
of its features, and their values are numbered from 0 in sorted order, before trees see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.nodes import Nodes, forest_of
from podium.exchange.rounding import at_most
from podium.learners.trees.scoring.categories import CategorySets
from podium.models.imported import ImportedForest


def from_sklearn(model: Any) -> ImportedForest:
    """The model of a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier of two classes.

    Its scores have the bits of `decision_function`, or of a regressor's `predict`, for values that float32 holds. Where
    `predict` of a regressor is a function of the sum of the trees (losses "poisson" and "gamma": exp), the scores are
    the sum, in the same order.
    """
    import sklearn
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    name = type(model).__name__
    if not isinstance(model, (HistGradientBoostingRegressor, HistGradientBoostingClassifier)):
        wanted = "a fitted HistGradientBoostingRegressor or HistGradientBoostingClassifier"
        raise TypeError(f"from_sklearn takes {wanted}; got {name}. Pointwise trains any estimator of scikit-learn.")
    if not hasattr(model, "_predictors"):
        raise ValueError(f"{name} is not fitted. Call its fit first.")
    if model.n_trees_per_iteration_ != 1:
        problem = f"{name} has {model.n_trees_per_iteration_} trees per iteration, one score per class"
        raise ValueError(f"{problem}; a ranking needs one score. Train a regressor, or on two classes.")
    columns = _Columns(model)
    trees = [predictors[0] for predictors in model._predictors]
    start = float(np.asarray(model._baseline_prediction).reshape(-1)[0])
    forest = forest_of(_nodes(trees, columns), start, int(model.n_features_in_))
    score = "decision_function" if isinstance(model, HistGradientBoostingClassifier) else _regressor_score(model)
    source = f"{name} of scikit-learn {sklearn.__version__}, {score}"
    return ImportedForest.of(forest, source, names=columns.names, categories=columns.named)


def _regressor_score(model: Any) -> str:
    return "the sum of the trees; predict is exp of it" if model.loss in ("poisson", "gamma") else "predict"


class _Columns:
    """Which column of X a feature of the trees is, and what its categories are."""

    def __init__(self, model: Any) -> None:
        n_features = int(model.n_features_in_)
        names = getattr(model, "feature_names_in_", None)
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        is_categorical = getattr(model, "is_categorical_", None)
        mask = np.zeros(n_features, bool) if is_categorical is None else np.asarray(is_categorical, bool)
        self.order = np.concatenate([np.flatnonzero(mask), np.flatnonzero(~mask)])
        self.values: dict[int, Array] = {}  # by column: category k of the trees is this value of X
        self.named: dict[str, list[Any]] = {}  # by name: category k is this name, and k in X
        if mask.any():
            encoder = model._preprocessor.named_transformers_["encoder"]
            are_places = isinstance(model.categorical_features, str)  # by the type of a table's column
            for column, known in zip(np.flatnonzero(mask).tolist(), encoder.categories_):
                self._add(column, known, are_places)

    def _add(self, column: int, known: Array, are_places: bool) -> None:
        """Numbers are themselves, unless the column was categorical by its type; texts are places in a list."""
        name = f"feature {column + 1}" if self.names is None else repr(self.names[column])
        present: list[Any] = [one for one in known.tolist() if one == one]
        if not all(isinstance(one, (str, int, float)) for one in present):
            wrong = next(one for one in present if not isinstance(one, (str, int, float)))
            raise ValueError(f"{name} has the category {wrong!r}; expected texts or numbers. Turn it into text first.")
        if not are_places and not any(isinstance(one, str) for one in present):
            self.values[column] = _as_singles(present, name)
            return
        if self.names is None:
            problem = f"{name} has texts as categories, and the model has no names of features"
            raise ValueError(f"{problem}. Train it on a DataFrame, or with numbers as categories.")
        self.named[self.names[column]] = present
        self.values[column] = np.arange(len(present), dtype=np.float32)


def _as_singles(present: Sequence[float], name: str) -> Array:
    with np.errstate(over="ignore"):
        singles = np.array(present, np.float64).astype(np.float32)
    if (singles.astype(np.float64) != present).any():
        wrong = next(one for one, single in zip(present, singles.tolist()) if one != single)
        raise ValueError(f"{name} has the category {wrong!r}, which float32 does not hold. Number its categories.")
    return singles


def _nodes(trees: Sequence[Any], columns: _Columns) -> Nodes:
    sizes = np.array([len(tree.nodes) for tree in trees], np.int64)
    all_nodes = np.concatenate([tree.nodes for tree in trees])
    before = np.repeat(np.cumsum(sizes) - sizes, sizes)
    leaf = all_nodes["is_leaf"].astype(bool)
    feature = np.where(leaf, 0, columns.order[np.where(leaf, 0, all_nodes["feature_idx"])])
    categorical = np.flatnonzero(all_nodes["is_categorical"].astype(bool) & ~leaf)
    owner = np.repeat(np.arange(len(trees)), sizes)[categorical]
    bits = [
        trees[tree].raw_left_cat_bitsets[row] for tree, row in zip(owner, all_nodes["bitset_idx"][categorical].tolist())
    ]
    of_set = np.full(len(all_nodes), -1, np.int64)
    of_set[categorical] = np.arange(len(categorical))
    return Nodes(
        sizes=sizes,
        left=np.where(leaf, -1, all_nodes["left"] + before),
        right=np.where(leaf, -1, all_nodes["right"] + before),
        feature=feature,
        threshold=at_most(np.where(leaf, 0.0, all_nodes["num_threshold"])),
        missing_right=all_nodes["missing_go_to_left"] == 0,
        value=all_nodes["value"].astype(np.float64),
        gain=np.maximum(all_nodes["gain"], 0).astype(np.float64),
        count=all_nodes["count"].astype(np.int64),
        of_set=of_set,
        sets=_sets(feature[categorical].tolist(), bits, columns),
    )


def _sets(features: Sequence[int], bits: Sequence[Array], columns: _Columns) -> CategorySets:
    """All known categories with their sides; others follow missing values."""
    parts = []
    for feature, words in zip(features, bits):
        values = columns.values[feature]
        left = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")[: len(values)]
        sides = (1 - left).astype(np.uint8)
        parts.append(CategorySets(np.array([feature]), np.array([0, len(values)]), values, sides))
    return CategorySets.join(parts)
