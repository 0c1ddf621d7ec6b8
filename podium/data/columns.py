"""Columns: the features of new data must be those a model was trained on. Others are refused, never reordered.

Named features must have the same names in the same order. Where one side has no names (a LETOR file, an array), the
columns are taken by position, with a warning, as scikit-learn does it, unless the names are `f1`, `f2`, ... and say no
more than that. Their number must be the same in any case. Categories get the numbers that the model gave them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.ranking import RankingData

SAME_COLUMNS = "Named features must be the same in the same order."


def with_columns_of(model: Any, data: RankingData, where: str) -> RankingData:
    """Ranking data with the features of the fitted model, categories in its numbers; `where` is what they are called.

    Other features are refused, and categories that the model does not know are missing, with a warning.
    """
    trained, names = getattr(model, "feature_names_in_", None), data.feature_names
    if trained is not None and names is not None:
        difference = first_difference(names, trained, "the model")
        if difference:
            raise ValueError(f"{where}: {difference}. {SAME_COLUMNS} model.feature_names_in_ lists those of the model.")
    if data.n_features != model.n_features_in_:
        message = f"{where} has {counted(data.n_features, 'feature')}, the model {model.n_features_in_:,}"
        raise ValueError(f"{message}. Give the features that the model was trained on.")
    known = getattr(model, "categories_", {})
    X = data.features_in(known, where, "the model")
    if (trained is None) != (names is None) and not are_positions(trained if names is None else names):
        has, had = ("no feature names", "with") if names is None else ("feature names", "without")
        message = f"{where} has {has}, but {type(model).__name__} was fitted {had} feature names"
        warn(f"{message}; columns are taken by position.")
    return data if X is data.X else replace(data, X=X, categories=known)


def are_positions(names: Any) -> bool:
    """Whether the names are `f1`, `f2`, ...: what a table gets that is written from data without names."""
    return all(name == f"f{number}" for number, name in enumerate(names, 1))


def first_difference(names: Sequence[str], wanted: Sequence[str], whose: str) -> str | None:
    """`feature 2 is 'b', that of the model 'a'`, counted from 1; None if there is none in what both have."""
    for number, (name, other) in enumerate(zip(names, wanted), 1):
        if name != other:
            return f"feature {number} is {name!r}, that of {whose} {other!r}"
    return None
