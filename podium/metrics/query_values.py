"""The values that a metric has for the queries of one data set, for many sets of scores."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from podium._runtime.once import once
from podium.data.ranking import RankingData
from podium.metrics.base import Metric
from podium.metrics.lists import rank_lists
from podium.metrics.policies import refuse_fractions


class QueryValues:
    """A metric, by its own policy, on labels that are grouped by query."""

    def __init__(
        self,
        labels: np.ndarray,
        offsets: np.ndarray,
        metric: Metric,
        *,
        docids: Any = None,
        query_weight: np.ndarray | None = None,
        sample_weight: np.ndarray | None = None,
        n_jobs: int | None = None,
    ) -> None:
        refuse_fractions(labels, metric.policy)
        self.metric, self.n_jobs = metric.resolve(float(labels.max(initial=0.0))), n_jobs
        pooled = metric.pools_queries  # one list of all documents
        self.offsets = np.array([0, len(labels)]) if pooled else np.asarray(offsets, np.int64)
        self.labels, self.docids, self.sample_weight = np.asarray(labels, np.float64), docids, sample_weight
        self.query_weight = np.ones(len(self.offsets) - 1) if query_weight is None or pooled else query_weight

    @classmethod
    def of(cls, data: RankingData, metric: Metric, n_jobs: int | None) -> Self:
        """On grouped data, with its weights and document ids."""
        weights = {"query_weight": data.query_weight, "sample_weight": data.sample_weight}
        return cls(data.labels_for("the metric"), data.offsets, metric, docids=data.docids, **weights, n_jobs=n_jobs)

    def values(self, scores: np.ndarray) -> np.ndarray:
        """One number per query (one for all, if the metric pools them); NaN where it is undefined."""
        rules = self.metric.policy
        lists = rank_lists(
            scores,
            self.labels,
            self.offsets,
            ties=rules.ties,
            docids=self.docids,
            weights=self.sample_weight,
            single=rules.single_precision,
            n_jobs=self.n_jobs,
        )
        return np.asarray(self.metric.values(lists), dtype=np.float64)

    def mean(self, scores: np.ndarray) -> float:
        """The mean over queries where the metric is defined; NaN if there are none."""
        values = self.values(scores)
        weight = np.where(np.isnan(values), 0.0, self.query_weight)
        counted = weight > 0
        return float((values[counted] * weight[counted]).sum() / weight.sum()) if counted.any() else np.nan

    def scaled(self, scores: np.ndarray) -> np.ndarray:
        """One number from -1 to 1 per query, more is better.

        These are the values where none can leave that range, else they are divided by the largest that the best and the
        worst order of any query have; where less is better, 1 minus that.
        """
        share = self.values(scores) / self._largest
        return np.asarray(np.clip(share if self.metric.higher_is_better else 1.0 - share, -1.0, 1.0))

    @once
    def _largest(self) -> float:
        ends = [np.abs(self.values(order)) for order in (self.labels, -self.labels)]
        return max(1.0, float(np.nanmax(ends, initial=0.0)))
