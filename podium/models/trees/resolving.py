"""Parameters that are `"auto"`, resolved from the training data.

`fit` resolves them once, and the model keeps the values that its trees were grown with; parameters stay as they were
set. Further training of a fitted model has the values of its first one, whatever its data are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np

from podium.data.ranking import RankingData
from podium.models.frame.parameters import is_auto, parameters_of, value_of
from podium.models.frame.weights import row_weights
from podium.models.trees.sizes import sizes_for


class AutoParameters:
    """What models of trees have, some of whose parameters may be `"auto"`."""

    resolved_params_: dict[str, Any]  # of the parameters that may be "auto", the values that training had

    @classmethod
    def auto_parameters(cls) -> list[str]:
        """The names of the parameters that may be `"auto"`."""
        return [name for name, one in parameters_of(cls).items() if one.declaration.auto]

    def resolved_for(self, data: RankingData) -> dict[str, Any]:
        """Of all parameters that may be `"auto"`: the values that training on these data has."""
        sizes = sizes_for(*_counted(data))
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


def differing_values(model: Any) -> dict[str, Any]:
    """The values of training that the parameters do not say: those of `"auto"`, and of what was set since."""
    resolved = getattr(model, "resolved_params_", {})
    return {name: value for name, value in resolved.items() if value != value_of(model, name)}


def _counted(data: RankingData) -> tuple[int, int]:
    """Queries and rows of grouped data; rows whose weight is 0 are as if they were not there."""
    weights = row_weights(data)
    if weights is None or weights.all() or not weights.any():
        return data.n_queries, data.n_rows
    rows = weights > 0
    return len(np.unique(data.query_numbers[rows])), int(rows.sum())


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
