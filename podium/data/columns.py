"""Columns: the features of new data must be those a model was trained on. Others are refused, never reordered.

Named features must have the same names in the same order. Where one side has no names (a LETOR file, an array), the
columns are taken by position, with a warning, as scikit-learn does it, unless the names are `f1`, `f2`, ... and say no
more than that. Their number must be the same in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.ranking import RankingData

SAME_COLUMNS = "Named features must be the same in the same order."


def refuse_other_columns(model: Any, data: RankingData, where: str) -> None:
    """Refuse ranking data with other features than the fitted model's; `where` is what the data are called."""
    trained, names = getattr(model, "feature_names_in_", None), data.feature_names
    if trained is not None and names is not None:
        difference = first_difference(names, trained, "the model")
        if difference:
            raise ValueError(f"{where}: {difference}. {SAME_COLUMNS} model.feature_names_in_ lists those of the model.")
    if data.n_features != model.n_features_in_:
        message = f"{where} has {counted(data.n_features, 'feature')}, the model {model.n_features_in_:,}"
        raise ValueError(f"{message}. Give the features that the model was trained on.")
    refuse_unknown_categories(model, where)
    if (trained is None) != (names is None) and not are_positions(trained if names is None else names):
        has, had = ("no feature names", "with") if names is None else ("feature names", "without")
        message = f"{where} has {has}, but {type(model).__name__} was fitted {had} feature names"
        warn(f"{message}; columns are taken by position.")


def refuse_unknown_categories(model: Any, where: str) -> None:
    """A RankingData has numbers only; a model that numbers categories itself must see what they stand for."""
    coded = list(getattr(model, "categories_", {}))
    if coded:
        raise ValueError(
            f"{where} is a RankingData, but the model numbers the categories of column {coded[0]!r} by itself. "
            "Give a table or an array with the same columns as in training, and y and qid with it."
        )


def are_positions(names: Any) -> bool:
    """Whether the names are `f1`, `f2`, ...: what a table gets that is written from data without names."""
    return all(name == f"f{number}" for number, name in enumerate(names, 1))


def first_difference(names: Sequence[str], wanted: Sequence[str], whose: str) -> str | None:
    """`feature 2 is 'b', that of the model 'a'`, counted from 1; None if there is none in what both have."""
    for number, (name, other) in enumerate(zip(names, wanted), 1):
        if name != other:
            return f"feature {number} is {name!r}, that of {whose} {other!r}"
    return None
