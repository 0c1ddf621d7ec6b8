"""Parameters that models of trees share: the shape of trees, and how they are added up; and their search spaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from podium.models.frame.init_model import InitParameter
from podium.models.frame.parameters import (
    ABOVE_0,
    AUTO,
    INTEGER,
    LARGE,
    NUMBER,
    STRUCTURE,
    SWITCH,
    TRANSFORM_SPACE,
    parameter,
    parametrized,
)
from podium.models.trees.sizes import size_words

GROWTHS = ("leaf", "level", "oblivious")
STEPS = ("newton", "mean", "exact", "tree", "line_search")
SPLITS = ("newton", "gradients")
GOSS_UNITS = ("row", "query")
LEAF_SPACE: dict[str, Any] = {
    "max_leaf_nodes": {"low": 4, "high": 127, "log": True},
    "min_samples_leaf": {"low": 5, "high": 200, "log": True},
}
BOOSTED_SPACE: dict[str, Any] = {
    "learning_rate": {"low": 0.02, "high": 0.3, "log": True},
    **LEAF_SPACE,
    "feature_fraction": {"low": 0.3, "high": 1.0},
    "l2_regularization": [0.0, 1.0, 10.0],
    **TRANSFORM_SPACE,
}


class TreeAttributes:
    """What fitted models of trees have."""

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "forest_": "The trees in flat arrays; forest_.n_trees is their number, forest_.split() has them one by one.",
        "bundles_": "Features that shared a histogram, a list of numbers from 0 per bundle.",
        "feature_importances_": "Share of each feature in the total gain of all splits, one per column.",
    }


def _is_goss_pair(value: Any) -> bool:
    try:
        pair = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return pair.shape == (2,) and bool((pair >= 0).all() and pair[1] > 0 and pair.sum() <= 1)


def is_feature_list(value: Any) -> bool:
    return not isinstance(value, str) and bool(np.iterable(value))


def is_sign_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(sign in (1, -1) for sign in value.values())


_SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "max_leaf_nodes": ("Maximum number of leaves per tree", {"kind": INTEGER, "low": 2, "high": 2**16}),
    "min_samples_leaf": ("Minimum number of documents per leaf", {"kind": INTEGER, "low": 1, "high": 2**40}),
    "learning_rate": (
        "Factor for the values of each tree (shrinkage)",
        {"kind": NUMBER, "low": ABOVE_0, "high": 1e3},
    ),
    "feature_fraction": ("Fraction of the features sampled per tree", {"kind": NUMBER, "low": ABOVE_0, "high": 1}),
    "extra_trees": (
        "Extremely randomized trees: one random threshold per feature and node is tried instead of all",
        {"kind": SWITCH},
    ),
    "max_depth": (
        "Maximum depth of a tree; no tree has more than 16 levels",
        {"kind": INTEGER, "low": 1, "high": 2**16},
    ),
}


def size_parameter(name: str, default: Any = AUTO) -> Any:
    """A parameter that the number of training queries decides; with another default it may not be "auto"."""
    about, limits = _SIZES[name]
    auto = default == AUTO
    return parameter(default, f"{about}; {size_words(name)}" if auto else f"{about}.", auto=auto, **limits)


@parametrized
class GrowthParameters:
    """The shape of trees that are not always oblivious."""

    max_leaf_nodes: Any = size_parameter("max_leaf_nodes")
    min_samples_leaf: Any = size_parameter("min_samples_leaf")
    max_impurity: float = parameter(
        0.0, "A tree stops growing once its impurity is not above this; 0 for no limit.", low=0, high=LARGE
    )
    growth: str = parameter(
        "leaf",
        '"leaf" splits the leaf with the largest gain, "level" all leaves of a level before those of the next, '
        '"oblivious" all leaves of a level by the same split: then max_depth is the depth of the tree (None: as '
        "max_leaf_nodes allows), and min_samples_leaf and max_impurity are not used.",
        choices=GROWTHS,
    )


@parametrized
class BoostingParameters(InitParameter):
    """Trees that are added to the scores of earlier ones, and the samples they are grown on."""

    learning_rate: Any = size_parameter("learning_rate")
    feature_fraction: Any = size_parameter("feature_fraction")
    extra_trees: Any = size_parameter("extra_trees")
    row_fraction: float = parameter(1.0, "Fraction of the documents sampled per tree.", low=ABOVE_0, high=1)
    query_fraction: float = parameter(1.0, "Fraction of the queries sampled per tree.", low=ABOVE_0, high=1)
    goss: Any = parameter(
        None,
        "Gradient-based one-side sampling (a, b): each tree is grown on the fraction a of the documents with the "
        "largest gradients and on a random fraction b, which stands for all others. None uses all documents.",
        kind=STRUCTURE,
        holds=_is_goss_pair,
        words="two fractions such as [0.2, 0.1], the second above 0, together at most 1, or None",
    )
    goss_by: str = parameter(
        "row", 'What GOSS keeps and samples: single documents, "row", or whole queries, "query".', choices=GOSS_UNITS
    )
    drop_rate: float = parameter(
        0.0, "DART: fraction of the trees that is dropped while the next one is grown; 0 for no DART.", low=0, high=1
    )
    skip_drop: float = parameter(0.5, "DART: probability that no tree is dropped in a step.", low=0, high=1)
    max_drop: int = parameter(50, "DART: maximum number of trees dropped per step.", low=1, high=10**6)


def check_goss(model: Any) -> None:
    """Refuse parameters that GOSS does not go with."""
    if model.goss is None:
        return
    if model.row_fraction < 1 or model.query_fraction < 1:
        raise ValueError(f"{type(model).__name__}: goss draws the rows; leave row_fraction and query_fraction at 1.")
    if model.step in ("exact", "tree"):
        raise ValueError(f"{type(model).__name__}: goss goes with step 'newton' or 'mean'; got {model.step!r}.")
