"""Permutation importance: how much a metric drops when the values of one feature are shuffled among the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.data.ranking import RankingData, refuse_beside_data
from podium.data.sparse import as_dense, is_sparse
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.explain.drops import ImportanceDrop, ImportanceDrops, metric_drop
from podium.explain.subjects import names_for, refuse_unfitted
from podium.metrics.registry import parse_metric
from podium.models.frame.arguments import rows_for
from podium.models.frame.transforms import queries_of


@dataclass(frozen=True)
class ShuffledDrop(ImportanceDrop):
    """A drop and its standard deviation over the shuffles."""

    deviation: float

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"deviation": self.deviation}


@dataclass(frozen=True, eq=False, kw_only=True)
class PermutationImportance(ImportanceDrops):
    """One drop per feature, averaged over the shuffles; its interval is over queries."""

    drops: np.ndarray  # (features, repeats): by how much the metric is worse

    def ranked(self) -> Sequence[ShuffledDrop]:
        deviations = dict(zip(self.names, self.drops.std(axis=1).tolist()))
        return [ShuffledDrop(one.name, one.drop, one.interval, deviations[one.name]) for one in super().ranked()]

    def sorted(self) -> list[tuple[str, float, float]]:
        """(feature, mean drop, standard deviation over the shuffles), the largest drop first."""
        order = np.argsort(-self.means, kind="stable")
        return [(self.names[f], float(self.means[f]), float(self.drops[f].std())) for f in order]


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
    """How much the metric drops when each feature is shuffled over all rows, for any model.

    X, y, qid: rows with labels, or a RankingData. metric: None takes the model's own. Unlike the importances of trees
    it describes the data it is given, so give held-out data.
    """
    refuse_unfitted(model)
    if isinstance(X, RankingData):
        refuse_beside_data("permutation_importance", y=y, qid=qid)
    data = X if isinstance(X, RankingData) else RankingData.from_arrays(rows_for(model, X), y, qid)
    eval_metric = model.evaluation_metric() if metric is None else parse_metric(metric)
    rows = rows_for(model, data)
    rows = as_dense(rows) if is_sparse(rows) else rows

    def measure(changed: np.ndarray) -> Evaluation:
        scores = model.score_rows(changed, queries_of(data))
        return evaluate(scores, data, metrics=[eval_metric], n_jobs=model.n_jobs)

    baseline, rng = measure(rows), np.random.default_rng(random_state)
    drops, per_query = np.empty((rows.shape[1], repeats)), np.zeros((rows.shape[1], len(baseline.queries)))
    changed = rows.copy()
    for feature in range(rows.shape[1]):
        for repeat in range(repeats):
            changed[:, feature] = rng.permutation(rows[:, feature])
            drops[feature, repeat], by_query = metric_drop(baseline, measure(changed), eval_metric)
            per_query[feature] += by_query / repeats
        changed[:, feature] = rows[:, feature]
    return PermutationImportance(
        what="when shuffled",
        metric=eval_metric.name,
        policy=baseline.policy,
        baseline=float(baseline[eval_metric.name]),
        names=tuple(names_for(model, X, names)),
        means=drops.mean(axis=1),
        per_query=per_query,
        weights=baseline.query_weight,
        drops=drops,
    )
