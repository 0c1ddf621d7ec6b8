"""Exact sums of a model: its trees are rounded when training ends, and trained further as they were before.

So training does not notice, and 50 trees and 50 more are the same model as 100. A file holds the trees as they were
trained, and that they are rounded; what they are rounded to follows from them.
"""

from __future__ import annotations

from typing import Any

from podium.learners.trees.scoring.exact import with_exact_sums
from podium.learners.trees.scoring.forest import Forest
from podium.models.frame.parameters import parameter


def exact_sums_parameter() -> Any:
    """Whether trees are rounded."""
    return parameter(
        True,
        "Round leaf values when training ends, so that they add up to the same bits in any order, also in other "
        "programs. No value changes by more than 2**-52 of the largest score that the trees can give.",
    )


def rounding_of(trained: Forest, exact: bool) -> tuple[Forest, tuple[Forest, Forest]]:
    """Of trained trees `forest_`, which scores, rounded or as it is; and `_rounding`: it and what it is made of."""
    forest = with_exact_sums(trained) if exact else trained
    return forest, (forest, trained)


def trained_forest(model: Any) -> Forest:
    """The trees as they were trained; those that score, unless these were made of them."""
    rounded, trained = model._rounding
    result: Forest = trained if rounded is model.forest_ else model.forest_
    return result


def is_rounded(model: Any) -> bool:
    """Whether the trees that score are those that were trained, rounded."""
    return trained_forest(model) is not model.forest_
