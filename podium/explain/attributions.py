"""Attributions: a score as a sum of what each feature adds to it (Shapley values, SHAP).

Score = base + the values of a row. The base is the mean score over the training rows; a value is what knowing the
feature adds to it, averaged over all orders in which the features could become known. In ranking only differences
within a query count, so values can be centred there: they then add up to what a document has over its query's mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium.data.ranking import as_query_ids, group_rows
from podium.data.sparse import Features
from podium.explain.importances import Importance
from podium.explain.shapley import Paths
from podium.explain.subjects import names_for, refuse_unfitted
from podium.learners.linear.function import LinearFunction
from podium.models.ranker import Ranker


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
        own = self.values[row]
        order = np.argsort(-np.abs(own), kind="stable")[:k]
        return [(self.names[place], float(own[place])) for place in order if own[place] != 0]

    def importance(self) -> Importance:
        """How much each feature moves scores: the mean size of its values."""
        return Importance("mean |SHAP|", self.names, np.abs(self.values).mean(axis=0))

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        centred = ", centred per query" if self.centred else ""
        return (
            f"Attributions({self.values.shape[0]} rows, {self.values.shape[1]} features, base {self.base:.4g}{centred})"
        )


def shap_values(model: Any, X: Any, *, qid: Any = None, names: Sequence[str] | None = None) -> Attributions:
    """The contribution of each feature to the score of each row of X: exact Shapley values, as `shap.TreeExplainer`.

    Where a feature is unknown, both children of a split count, weighted by their training rows; in a linear model, the
    feature has its mean. With `qid`, one query id per row, the values are centred per query. Missing values (NaN)
    follow the default direction of a split. A model that is no sum of trees and linear functions is refused.
    """
    refuse_unfitted(model)
    rows = model._rows(X)
    found = attribute(model, rows, names_for(model, X, names))
    if qid is None:
        return found
    return replace(found, values=centre(found.values, as_query_ids(qid, None, len(found))), base=0.0, centred=True)


def attribute(model: Ranker, rows: Features, names: tuple[str, ...]) -> Attributions:
    """`shap_values` of rows that the model has checked already: the sum over its own parts and its base model's."""
    values, base = np.zeros(rows.shape), 0.0
    for part in model._summands():
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
    grouped = values if order is None else values[order]
    sizes = np.diff(offsets)
    means = np.add.reduceat(grouped, offsets[:-1], axis=0) / sizes[:, None] if len(sizes) else grouped
    centred: np.ndarray = grouped - np.repeat(means, sizes, axis=0)
    if order is None:
        return centred
    result = np.empty_like(values)
    result[order] = centred
    return result
