"""AdaRank: single features, boosted on a distribution over queries, for any metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium.metrics.query_values import QueryValues
from podium.metrics.registry import parse_metric
from podium.models.frame.holding_out import ValidationParameter
from podium.models.frame.parameters import TRANSFORM_SPACE, MetricParameter, parameter, parametrized
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.linear import LinearScores

if TYPE_CHECKING:
    from podium.learners.linear.adarank import AdaRankTraining

SIGNS = ("positive", "both")


@parametrized
class TrainingRounds(ValidationParameter):
    """How long a model is trained that optimizes a metric directly."""

    n_rounds: int = parameter(100, "Maximum number of rounds.", low=1, high=10**6)


@parametrized
class AdaRank(MetricParameter, TrainingRounds, LinearScores):
    """Boosts single features on a distribution over queries, for any metric.

    Features are standardised before they are added up; `coef_` and `intercept_` are those of the features as they came.
    """

    signs: str = parameter(
        "positive",
        'Weak rankers: each feature, larger values first ("positive"), or also each feature with smaller values first '
        '("both").',
        choices=SIGNS,
    )

    step_word: ClassVar[str] = "round"
    steps_parameter: ClassVar[str | None] = "n_rounds"
    search_space: ClassVar[Mapping[str, Any]] = {"metric": ["ndcg@10", "map"], "signs": list(SIGNS), **TRANSFORM_SPACE}

    def training_plan(self) -> TrainingPlan[AdaRankTraining]:
        return TrainingPlan(self._make_learner, self.keep_weights, self.n_rounds, target_metric=self.metric)

    def _make_learner(self, rows: TrainingRows) -> AdaRankTraining:
        from podium.learners.linear.adarank import AdaRankTraining  # scoring needs neither

        data = rows.data
        values = QueryValues.of(data, parse_metric(self.metric), self.n_jobs)
        weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        return AdaRankTraining(data.X, values.scaled, weight, self.signs == "both", self.n_jobs)

    def check_parameters(self) -> None:
        super().check_parameters()
        if parse_metric(self.metric).pools_queries:
            raise ValueError(f"AdaRank: metric must have one value per query; {self.metric} has one for all of them.")
