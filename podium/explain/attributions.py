"""Attributions: a score as a sum of what each feature adds to it (Shapley values, SHAP).

Score = base + the values of a row. The base is the mean score over the training rows; a value is what knowing the
feature adds to it, averaged over all orders in which the features could become known. In ranking only differences
within a query count, so values can be centred there: they then add up to what a document has over its query's mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium._runtime.words import counted
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData
from podium.data.sparse import FeatureMatrix, as_dense
from podium.explain.drawable import Drawable
from podium.explain.importances import Importance
from podium.explain.shapley import Paths
from podium.explain.subjects import columns_for, refuse_unfitted
from podium.learners.linear.function import LinearFunction
from podium.models.frame.ranker import Ranker

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, eq=False)
class Attributions:
    """`values` (rows, features) and `base`: the score of a row is `base + values[row].sum()`.

    Centred per query, the base is 0 and a row adds up to its score minus the mean score of its query.
    """

    values: np.ndarray
    base: float
    names: tuple[str, ...]
    centred: bool = False

    def top(self, row: int, k: int = 5) -> list[tuple[str, float]]:
        """The k features that move the score of this row most, up or down."""
        values = self.values[row]
        order = np.argsort(-np.abs(values), kind="stable")[:k]
        return [(self.names[f], float(values[f])) for f in order if values[f] != 0]

    def importance(self) -> Importance:
        """How much each feature moves scores: the mean size of its values."""
        return Importance("mean |SHAP|", self.names, np.abs(self.values).mean(axis=0))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        centred = ", centred per query" if self.centred else ""
        rows, features = self.values.shape
        return f"Attributions({counted(rows, 'row')}, {counted(features, 'feature')}, base {self.base:.4g}{centred})"


@dataclass(frozen=True, eq=False)
class ShapSummary(Drawable):
    """How much each feature moves documents within their queries, over a data set.

    `sizes` has one number per feature: the size of its values, centred per query, averaged over the documents of each
    query and then over the queries, so that a query with many documents counts as much as one with few.
    """

    drawing: ClassVar[str] = "draw_summary"

    attributions: Attributions  # centred per query
    rows: np.ndarray  # (rows, features): the values of the features, for pictures
    sizes: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return self.attributions.names

    def importance(self) -> Importance:
        return Importance("mean |SHAP| within queries", self.names, self.sizes)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`; the largest first."""
        rows = [{"feature": name, "size": size} for name, size in self.importance().sorted()]
        return {"kind": self.importance().kind, "features": rows}

    def table(self) -> Table:
        """A table for rich, the largest first."""
        return self.importance().table()

    def headline(self) -> str:
        return f"{self.importance().kind}, {counted(len(self.rows), 'document')}:"

    def __str__(self) -> str:
        return str(self.importance())


def shap_summary(model: Any, data: RankingData, *, names: Sequence[str] | None = None) -> ShapSummary:
    """SHAP values of all rows, centred per query, and their mean size per feature over the queries."""
    attributions = shap_values(model, data, qid=data.qid, names=names)
    columns = as_dense(model.columns(*model.checked_rows(data, data.qid)))
    sizes = np.add.reduceat(np.abs(attributions.values)[data.rows], data.offsets[:-1], axis=0)
    means = sizes / np.diff(data.offsets)[:, None]
    return ShapSummary(attributions, columns, means.mean(axis=0))


def shap_values(model: Any, X: Any, *, qid: Any = None, names: Sequence[str] | None = None) -> Attributions:
    """The contribution of each feature to the score of each row of X: exact Shapley values, as `shap.TreeExplainer`.

    Where a feature is unknown, both children of a split count, weighted by their training rows; in a linear model, the
    feature has its mean. With `qid`, one query id per row, the values are centred per query. Missing values (NaN)
    follow the default direction of a split. Of a model with a transform, the columns that it made are explained. A
    model that is no sum of trees and linear functions is refused.
    """
    refuse_unfitted(model)
    columns = model.columns(*model.checked_rows(X, qid))
    attributions = attribute(model, columns, columns_for(model, X, names))
    if qid is None:
        return attributions
    values = centre(attributions.values, as_query_ids(qid, None, len(attributions)))
    return replace(attributions, values=values, base=0.0, centred=True)


def attribute(model: Ranker, rows: FeatureMatrix, names: tuple[str, ...]) -> Attributions:
    """`shap_values` of rows as the learner sees them: the sum over the model's own parts and its base model's."""
    values, base = np.zeros(rows.shape), 0.0
    for part in model.summands():
        if isinstance(part, LinearFunction):
            values += part.weights * (rows - part.means)
            base += float(part.weights @ part.means) + part.intercept
            continue
        paths = Paths.of(part)
        values += paths.values(rows, model.n_jobs)
        base += paths.expected()
    return Attributions(values, base, names)


def centre(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Each column minus its mean over the rows with the same id."""
    order, offsets, _ = group_rows(ids)
    rows = slice(None) if order is None else order
    sizes, centred = np.diff(offsets), values.copy()
    if len(sizes):
        means = np.add.reduceat(values[rows], offsets[:-1], axis=0) / sizes[:, None]
        centred[rows] -= np.repeat(means, sizes, axis=0)
    return centred
