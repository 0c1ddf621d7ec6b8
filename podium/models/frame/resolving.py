"""Parameters that are `"auto"`, resolved from the training data.

`fit` resolves them once, and the model keeps the values that its trees were grown with; parameters stay as they were
set. Further training of a fitted model has the values of its first one, whatever its data are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from itertools import pairwise
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.data.weights import row_weights
from podium.models.frame.parameters import is_auto, parameters_of, value_of

SizeTable = Mapping[float, Mapping[str, Any]]
"""Values by name, below so many training queries; the last row is below infinity."""

ROWS_PER_QUERY = 20  # what one list of rows is worth: rows without query ids are as many queries of this size


class AutoParameters:
    """What models have some of whose parameters may be `"auto"`."""

    fitted_attributes: ClassVar[Mapping[str, str]] = {
        "resolved_params_": 'Values that training had for the parameters that may be "auto", by name.',
    }

    resolved_params_: dict[str, Any]  # of the parameters that may be "auto", the values that training had

    @staticmethod
    def auto_values(n_queries: int, n_rows: int) -> Mapping[str, Any]:
        """What `"auto"` stands for with training data of so many queries and rows."""
        raise NotImplementedError

    @classmethod
    def auto_parameters(cls) -> list[str]:
        """The names of the parameters that may be `"auto"`."""
        return [name for name, one in parameters_of(cls).items() if one.declaration.auto]

    def resolved_for(self, data: RankingData, shard: Shard | None = None) -> dict[str, Any]:
        """Of all parameters that may be `"auto"`: the values that training on all ranks' data has."""
        sizes = self.auto_values(*_counted(data, shard or Shard.whole(data.offsets)))
        values = {name: value_of(self, name) for name in self.auto_parameters()}
        return {name: sizes[name] if is_auto(value) else _plain(value) for name, value in values.items()}

    def with_resolved(self) -> Self:
        """The model with the values of its first training in place of `"auto"`; parameters that are set stay."""
        names = [name for name in self.auto_parameters() if is_auto(value_of(self, name))]
        if not names:
            return self
        model = copy(self)
        for name in names:
            setattr(model, name, self.resolved_params_[name])
        return model

    def resolved_state(self) -> dict[str, Any]:
        """What a file holds of them: the values that the parameters, which are in the file too, do not say."""
        differing = differing_values(self)
        return {"resolved": differing} if differing else {}

    def restore_resolved(self, facts: Mapping[str, Any]) -> None:
        """Take over what a file says, or refuse it."""
        stored, known = facts.get("resolved", {}), parameters_of(type(self))
        for name, value in stored.items():
            if name not in self.auto_parameters() or is_auto(value) or not known[name].declaration.takes(value):
                raise ValueError(f"the resolved parameters hold {name[:60]!r} as {value!r}, which no training has")
        values = {name: stored.get(name, value_of(self, name)) for name in self.auto_parameters()}
        missing = [name for name, value in values.items() if is_auto(value)]
        if missing:
            raise ValueError(f'{missing[0]} is "auto", and the resolved parameters lack it')
        self.resolved_params_ = {name: _plain(value) for name, value in values.items()}


def row_of(table: SizeTable, n_queries: int, n_rows: int) -> Mapping[str, Any]:
    """The row of a table for training data of so many queries and rows."""
    queries = n_rows / ROWS_PER_QUERY if n_queries == 1 else n_queries
    return next(values for below, values in table.items() if queries < below)


def table_words(table: SizeTable, name: str) -> str:
    """`"auto" is 5 below 150 training queries, 15 below 1,500, 22 below 5,000, and 31 from there on`"""
    rows = [(below, values[name]) for below, values in table.items()]
    ends = [(below, value) for (below, value), (_, after) in pairwise(rows) if value != after]
    if not ends:
        return f'"auto" is {table[inf][name]}'
    first, *others = (f"{value} below {below:,}" for below, value in ends)
    return ", ".join([f'"auto" is {first} training queries', *others, f"and {table[inf][name]} from there on"])


def differing_values(model: Any) -> dict[str, Any]:
    """The values of training that the parameters do not say: those of `"auto"`, and of what was set since."""
    resolved = getattr(model, "resolved_params_", {})
    return {name: value for name, value in resolved.items() if value != value_of(model, name)}


def _counted(data: RankingData, shard: Shard) -> tuple[int, int]:
    """Queries and rows of grouped data; rows whose weight is 0 are as if they were not there."""
    weights = row_weights(data)
    if weights is None:
        return shard.n_queries, shard.n_rows
    rows = weights > 0
    counts = np.array([len(np.unique(data.query_numbers[rows])), int(rows.sum())], np.int64)
    n_queries, n_rows = shard.collective.sum(counts).tolist()
    return (n_queries, n_rows) if n_rows else (shard.n_queries, shard.n_rows)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
