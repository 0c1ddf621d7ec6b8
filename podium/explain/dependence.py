"""Partial dependence: how the score moves with one feature while all others stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium.data.sparse import FeatureMatrix, as_dense, is_sparse
from podium.explain.drawable import Drawable
from podium.explain.subjects import find_feature, names_for, refuse_unfitted

_POINTS = 20


@dataclass(frozen=True, eq=False)
class Dependence(Drawable):
    """The scores of all rows with the feature set to each value of a grid: each row's own curve, and their mean."""

    drawing: ClassVar[str] = "draw_dependence"

    feature: str
    grid: np.ndarray  # (points,) float64, rising
    curves: np.ndarray  # (rows, points) float64: the score of each row

    @property
    def mean(self) -> np.ndarray:
        """Partial dependence: the mean over the rows, one value per grid point."""
        return np.asarray(self.curves.mean(axis=0))

    def as_dict(self) -> dict[str, Any]:
        return {"feature": self.feature, "grid": self.grid.tolist(), "mean": self.mean.tolist()}

    def __str__(self) -> str:
        lines = [f"{value:>12.4g}  {score:.4f}" for value, score in zip(self.grid, self.mean)]
        return "\n".join([f"mean score by {self.feature}:", *lines])


def partial_dependence(
    model: Any, X: Any, feature: int | str, *, grid: Any = _POINTS, names: Sequence[str] | None = None, qid: Any = None
) -> Dependence:
    """The scores of the rows of X with one feature, by name or column, set to the values of a grid.

    The grid is a list of values, or how many quantiles of the feature to take; equal ones count once. A model that
    compares the documents of a query needs `qid`: all rows are set to the same value, so a transform within the query
    sees a constant.
    """
    refuse_unfitted(model)
    (rows, queries), known = model.checked_rows(X, qid), names_for(model, X, names)
    column = find_feature(feature, known)
    points = _points(as_dense(rows[:, [column]]).ravel(), grid, known[column])
    changed, values, where = _open_column(rows, column)
    curves = np.empty((rows.shape[0], len(points)))
    for point, value in enumerate(points):
        values[where] = value
        curves[:, point] = model.score_rows(changed, queries)
    return Dependence(known[column], points, curves)


def _open_column(rows: FeatureMatrix, column: int) -> tuple[FeatureMatrix, np.ndarray, Any]:
    """A copy of the rows, the array of its values, and the positions of the entries of one column in it."""
    if not is_sparse(rows):
        changed = rows.copy()
        return changed, changed, (slice(None), column)
    from scipy.sparse import csr_array

    n, other = rows.shape[0], rows.indices != column
    ends = np.concatenate([[0], np.cumsum(other)])[rows.indptr]
    rest = csr_array((rows.data[other], rows.indices[other], ends), shape=rows.shape)
    everywhere = csr_array((np.ones(n, np.float32), np.full(n, column), np.arange(n + 1)), shape=rows.shape)
    changed = rest + everywhere
    return changed, changed.data, np.flatnonzero(changed.indices == column)


def _points(values: np.ndarray, grid: Any, name: str) -> np.ndarray:
    if not isinstance(grid, int):
        return np.unique(np.asarray(grid, dtype=np.float32)).astype(np.float64)
    if grid < 2:
        raise ValueError(f"grid must be a list of values, or a number of quantiles from 2; got {grid}.")
    present = values[~np.isnan(values)]
    if not len(present):
        raise ValueError(f"{name} is missing in all rows, so it has no quantiles. Give the values: grid=[...].")
    # Values that occur, so that a grid of few distinct ones has no points between them.
    return np.unique(np.quantile(present, np.linspace(0, 1, grid), method="nearest")).astype(np.float64)
