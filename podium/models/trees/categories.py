"""Categories: whether the splits of a restored forest ask for categories that the columns have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium.learners.trees.scoring.categories import CategorySets


def refuse_unknown_categories(
    sets: CategorySets, column: str, names: Sequence[object], features: Sequence[int]
) -> None:
    """A category in a split is the place of its name in the column's list; features: those made of the column."""
    of_column = np.isin(sets.feature, features)
    values = sets.values[np.repeat(of_column, np.diff(sets.start))]
    if (values < 0).any() or (values >= len(names)).any() or (values != np.floor(values)).any():
        raise ValueError(f"a split asks for a category of {column!r} that is not there")
