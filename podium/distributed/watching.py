"""Watching: evaluation sets of which every rank has some queries, with the values that one machine would compute.

Values per query are computed where the query is, gathered, and added up in the order of all queries. So all ranks know
the same curves, and decide alike when training stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard
from podium.learners.monitor import Monitor
from podium.metrics.base import Metric
from podium.metrics.lists import as_scores, rank_lists
from podium.metrics.policies import refuse_fractions


class ShardMonitor(Monitor):
    """A monitor whose evaluation sets are divided among ranks."""

    def __init__(self, shards: Sequence[Shard], *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shards, n_jobs = shards, self.n_jobs
        self._weights = [_query_weights(shard, data) for shard, data in zip(shards, self.eval_sets)]
        self._values = {
            (number, metric.name): _ShardValues(shard, data, metric, n_jobs)
            for number, (shard, data) in enumerate(zip(shards, self.eval_sets))
            for metric in self.metrics
        }

    def _evaluate(self, number: int, metric: Metric) -> float:
        values = self._values[number, metric.name].of(self.learner.followed[number])
        return metric.summarise(in_order(self.shards[number], values), self._weights[number])


class _ShardValues:
    """A metric on the queries of one rank, as it is on those of all ranks."""

    def __init__(self, shard: Shard, data: RankingData, metric: Metric, n_jobs: int | None) -> None:
        self.data, self.labels, self.n_jobs = data, data.labels_for("the metric"), n_jobs
        refuse_fractions(self.labels, metric.policy)
        largest = shard.collective.largest(np.array([self.labels.max(initial=0.0)]))
        self.metric = metric.resolve(float(largest[0]))

    def of(self, scores: Array) -> Array:
        rules = self.metric.policy
        lists = rank_lists(
            as_scores(scores, len(self.labels)),
            self.labels,
            self.data.offsets,
            ties=rules.ties,
            docids=self.data.docids,
            weights=self.data.sample_weight,
            single=rules.single_precision,
            n_jobs=self.n_jobs,
        )
        return np.asarray(self.metric.values(lists), dtype=np.float64)


def in_order(shard: Shard, values: Array) -> Array:
    """(all queries,) the values of the queries of all ranks, in the order of their numbers."""
    together = np.concatenate(shard.collective.gather(np.ascontiguousarray(values, dtype=np.float64)))
    ordered = np.empty_like(together)
    ordered[np.concatenate(shard.collective.gather(shard.queries))] = together
    return ordered


def _query_weights(shard: Shard, data: RankingData) -> Array | None:
    return None if data.query_weight is None else in_order(shard, data.query_weight)
