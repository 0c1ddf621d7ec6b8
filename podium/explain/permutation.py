"""Permutation importance: how much a metric falls when the values of one feature are shuffled among the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import as_dense, is_sparse
from podium.evaluation.evaluating import evaluate
from podium.explain.subjects import names_for, refuse_unfitted
from podium.metrics.registry import parse_metric
from podium.models.transforms import queries_of


@dataclass(frozen=True, eq=False)
class PermutationImportance:
    """One row per feature: the fall of the metric, averaged over the shuffles, and its standard deviation."""

    metric: str
    baseline: float  # the metric of the rows as they are
    names: tuple[str, ...]
    falls: np.ndarray  # (features, repeats): by how much the metric is worse

    @property
    def means(self) -> np.ndarray:
        return np.asarray(self.falls.mean(axis=1))

    def sorted(self) -> list[tuple[str, float, float]]:
        """(feature, mean fall, standard deviation), the largest fall first."""
        order = np.argsort(-self.means, kind="stable")
        return [(self.names[f], float(self.means[f]), float(self.falls[f].std())) for f in order]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        rows = [{"feature": name, "fall": fall, "deviation": spread} for name, fall, spread in self.sorted()]
        return {"metric": self.metric, "baseline": self.baseline, "features": rows}

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{name:<{width}}  {fall:+.4f} +- {spread:.4f}" for name, fall, spread in self.sorted()]
        return "\n".join([f"{self.metric} {self.baseline:.4f}; fall when shuffled:", *lines])


def permutation_importance(
    model: Any,
    X: Any,
    y: Any = None,
    qid: Any = None,
    *,
    metric: Any = None,
    repeats: int = 5,
    random_state: int = 0,
    names: Sequence[str] | None = None,
) -> PermutationImportance:
    """How much the metric falls when each feature is shuffled over all rows, for any model.

    X, y, qid: rows with labels, or a RankingData. metric: None takes the model's own. Unlike the importances of trees
    it describes the data it is given, so give held-out data.
    """
    refuse_unfitted(model)
    if isinstance(X, RankingData):
        refuse_beside_data("permutation_importance", y=y, qid=qid)
    data = X if isinstance(X, RankingData) else RankingData.from_arrays(model._rows(X), y, qid)
    judge = model._judging_metric() if metric is None else parse_metric(metric)
    rows, sign = model._rows(data), 1 if judge.higher_is_better else -1
    rows = as_dense(rows) if is_sparse(rows) else rows

    def measure(changed: np.ndarray) -> float:
        scores = model._score_rows(changed, queries_of(data))
        return float(evaluate(scores, data, metrics=[judge], n_jobs=model.n_jobs)[judge.name])

    baseline, rng = measure(rows), np.random.default_rng(random_state)
    falls = np.empty((rows.shape[1], repeats))
    changed = rows.copy()
    for feature in range(rows.shape[1]):
        for repeat in range(repeats):
            changed[:, feature] = rng.permutation(rows[:, feature])
            falls[feature, repeat] = sign * (baseline - measure(changed))
        changed[:, feature] = rows[:, feature]
    return PermutationImportance(judge.name, baseline, tuple(names_for(model, X, names)), falls)
