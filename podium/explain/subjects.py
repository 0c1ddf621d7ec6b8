"""What is explained: the trees of a model, what its features are called, and the rows it is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium._runtime.words import check_choice
from podium.data.ranking import RankingData, as_feature_names
from podium.models.frame.estimator import check_fitted
from podium.models.frame.inspection import column_names, feature_names
from podium.models.frame.ranker import Ranker
from podium.models.trees.boosted import BoostedTrees


def refuse_other_models(model: Any) -> None:
    """Only trees have splits to count and to draw."""
    if not isinstance(model, BoostedTrees):
        raise ValueError(f"expected a model of trees, such as LambdaMART; got {type(model).__name__}.")
    check_fitted(model)


def refuse_unfitted(model: Any) -> None:
    """Any fitted model of Podium can be asked about its scores."""
    if not isinstance(model, Ranker):
        raise ValueError(f"expected a model of Podium, such as LambdaMART; got {type(model).__name__}.")
    check_fitted(model)


def names_for(model: Ranker, X: Any = None, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """One name per feature: as given, as the model knows them, as the data has them, or their numbers from 1."""
    if names is not None:
        return as_feature_names(names, model.n_features_in_) or ()
    if isinstance(X, RankingData) and X.feature_names is not None and not hasattr(model, "feature_names_in_"):
        return X.feature_names
    return tuple(feature_names(model))


def columns_for(model: Ranker, X: Any = None, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """One name per column that the learner saw: `names_for`, or what the model made of them."""
    return tuple(column_names(model, names_for(model, X, names)))


def find_feature(feature: int | str, names: Sequence[str]) -> int:
    """The column of a feature, given by its name or by its column."""
    if isinstance(feature, str):
        check_choice("feature", feature, names)
        return list(names).index(feature)
    if not 0 <= feature < len(names):
        raise ValueError(f"feature must be a name, or a column from 0 to {len(names) - 1}; got {feature}.")
    return int(feature)
