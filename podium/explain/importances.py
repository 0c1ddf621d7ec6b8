"""Importance: how much a model uses each feature, counted in its splits.

- gain: what the splits of the feature gained in training, added up;
- split: how many there are;
- cover: how many training rows came by them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium._runtime.words import check_choice
from podium.explain.drawable import Drawable
from podium.explain.subjects import columns_for, refuse_other_models
from podium.learners.trees.scoring.forest import Forest
from podium.models.trees.boosted import BoostedTrees

if TYPE_CHECKING:
    from rich.table import Table

KINDS = ("gain", "split", "cover")
_ROWS_PRINTED = 20


@dataclass(frozen=True, eq=False)
class Importance(Drawable):
    """One number per feature, in the order of the features. Print it, or take `sorted()`, `top(k)` or `as_dict()`."""

    drawing: ClassVar[str] = "draw_importance"

    kind: str
    names: tuple[str, ...]
    values: np.ndarray

    def sorted(self) -> Importance:
        """The same, the largest first; equal ones keep their order."""
        order = np.argsort(-self.values, kind="stable")
        return Importance(self.kind, tuple(self.names[f] for f in order), self.values[order])

    def top(self, k: int = 10) -> list[tuple[str, float]]:
        """The k features with the largest values, without those that are 0."""
        return [(name, value) for name, value in list(self.sorted())[:k] if value > 0]

    def as_dict(self) -> dict[str, float]:
        return dict(self)

    def table(self, k: int | None = None) -> Table:
        """A table for rich, the largest first."""
        from rich.table import Table
        from rich.text import Text

        table = Table("feature")
        table.add_column(self.kind, justify="right")
        for name, value in self.top(len(self.names) if k is None else k):
            table.add_row(Text(name), f"{value:,.4g}")
        return table

    def __iter__(self) -> Iterator[tuple[str, float]]:
        return iter(zip(self.names, self.values.tolist()))

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        shown = self.top(_ROWS_PRINTED)
        width = max((len(name) for name, _ in shown), default=0)
        lines = [f"{name:<{width}}  {value:,.4g}" for name, value in shown]
        left = int((self.values > 0).sum()) - len(shown)
        return "\n".join([f"importance by {self.kind}:", *lines, *([f"and {left} more"] if left else [])])


def importance(model: Any, kind: str = "gain", *, normalize: bool = False) -> Importance:
    """How much the model's own trees use each feature; with `normalize`, as shares that add up to 1.

    Of a model with a transform, each column that it made. The trees of a model it started from (`init=`) are not
    counted: they may have gained something else.
    """
    check_choice("importance: kind", kind, KINDS)
    refuse_other_models(model)
    trees: BoostedTrees = model
    values = _counted(trees.forest_, kind)
    total = values.sum()
    return Importance(kind, columns_for(trees), values / total if normalize and total > 0 else values)


def _counted(forest: Forest, kind: str) -> np.ndarray:
    if kind != "cover":
        return forest.importances(kind)
    splits = forest.left != np.arange(len(forest.left))
    return np.bincount(forest.owner[splits], forest.count[splits], minlength=forest.n_features)
