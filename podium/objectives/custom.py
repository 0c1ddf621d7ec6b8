"""An objective of the user's own: any function from scores, labels and offsets to gradients and hessians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from podium.objectives.base import BoundObjective, Objective, Outputs

Derivatives = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[Any, Any]]


class FunctionObjective(Objective):
    """`function(scores, labels, offsets) -> (gradients, hessians)`, of a cost to be minimised.

    scores and labels are float64 (n,), offsets int64 (queries + 1,); both results need one finite number per row.
    Sample weights and query weights multiply the results. There is no loss.
    """

    needs_pairs: ClassVar[bool] = False  # not known

    @property
    def has_loss(self) -> bool:
        return False

    @property
    def adds_up(self) -> bool:
        return False  # a function may look at all queries


@dataclass(frozen=True)
class Custom(FunctionObjective):
    """An objective by its function."""

    name: ClassVar[str] = "custom"

    function: Derivatives

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(f"custom: expected a function of scores, labels and offsets; got {self.function!r}.")


@cache
def function_class(function: Derivatives) -> type[Objective]:
    """A class without settings, with the name of the function."""
    name: str = function.__name__
    members = {"name": name, "function": staticmethod(function), "__doc__": function.__doc__}
    return type(name, (FunctionObjective,), members | {"__module__": function.__module__})


class BoundCustom(BoundObjective, of=FunctionObjective):
    """The user's function on one data set; it is called once, on one thread."""

    objective: Any  # of FunctionObjective

    @property
    def total_weight(self) -> float:
        """The sum of the documents' weights, which multiply the results."""
        return self.data.exact_sum(self.data.row_weights)

    def work(self, lengths: np.ndarray) -> np.ndarray:
        return np.zeros_like(lengths)

    def run(self, scores: np.ndarray, queries: np.ndarray, out: Outputs) -> None:
        rows, offsets = self._rows(queries)
        results = self.objective.function(scores[rows], self.labels[rows], offsets)
        if not isinstance(results, (tuple, list)) or len(results) != 2:
            raise ValueError(f"{self._who()} must return two arrays, gradients and hessians; got {_kind(results)}.")
        weights = self.data.row_weights[rows]
        for target, name, result in zip(out[:2], ("gradients", "hessians"), results):
            target[rows] = self._checked(name, result, len(rows)) * weights

    def _rows(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [np.arange(self.offsets[q], self.offsets[q + 1]) for q in queries.tolist()]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(part) for part in parts], dtype=np.int64)])
        return np.concatenate([np.empty(0, np.int64), *parts]), offsets

    def _checked(self, name: str, result: Any, n: int) -> np.ndarray:
        values: np.ndarray = np.asarray(result, dtype=np.float64)
        if values.shape != (n,):
            raise ValueError(f"{self._who()} must return {name} of shape ({n},); got shape {values.shape}.")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise ValueError(f"{self._who()} must return finite {name}; number {bad[0]} is {values[bad[0]]}.")
        return values

    def _who(self) -> str:
        return f"objective {getattr(self.objective.function, '__name__', repr(self.objective.function))}"


def _kind(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__
