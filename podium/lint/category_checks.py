"""Categories of several data sets: what differs between them, and the data with one number per category in all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from podium.data.categories import united
from podium.data.ranking import RankingData
from podium.data.sparse import as_dense

_EXAMPLES = 3


def category_differences(parts: Mapping[str, RankingData]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Columns with categories in some data only, and categories that the first does not have: code, file, details."""
    for column in sorted({column for data in parts.values() for column in data.categories or ()}):
        holders = [name for name, data in parts.items() if column in (data.categories or {})]
        others = [name for name, data in parts.items() if name not in holders and not _lacks(data, column)]
        if others:
            details = {"column": column, "holders": ", ".join(holders), "others": ", ".join(others)}
            yield "different-kinds", ", ".join(parts), details
            continue
        first, *rest = holders
        for name in rest:
            known = (parts[first].categories or {})[column]
            new = [str(value) for value in (parts[name].categories or {})[column] if value not in known]
            if new:
                some = ", ".join(new[:_EXAMPLES]) + (", ..." if len(new) > _EXAMPLES else "")
                yield "other-categories", f"{first}, {name}", {"column": column, "count": len(new), "some": some}


def in_same_numbers(parts: Mapping[str, RankingData]) -> dict[str, RankingData]:
    """The data with the same number for a category in all of them."""
    known = united([data.categories for data in parts.values()])
    if not known:
        return dict(parts)
    made = {}
    for name, data in parts.items():
        categories = {column: known[column] for column in data.categories or {}}
        made[name] = replace(data, X=data.features_in(categories, name, "check"), categories=categories or None)
    return made


def _lacks(data: RankingData, column: str) -> bool:
    """Whether the data has no such column, or no value in it."""
    names = data.feature_names or ()
    return column not in names or bool(np.isnan(as_dense(data.X[:, [names.index(column)]])).all())
