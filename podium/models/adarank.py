"""AdaRank: single features, boosted on a distribution over queries, for any metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.metrics.query_values import QueryValues
from podium.metrics.registry import parse_metric
from podium.models.frame.parameters import TRANSFORM_SPACE, MetricParameter, parameter, parametrized
from podium.models.linear import LinearScores

if TYPE_CHECKING:
    from podium.learners.linear.adarank import AdaRankTraining

SIGNS = ("positive", "both")


@parametrized
class TrainingRounds:
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
    search_space: ClassVar[Mapping[str, Any]] = {
        "metric": ["ndcg@10", "map"],
        "signs": list(SIGNS),
        **TRANSFORM_SPACE,
    }

    def _aim(self) -> Any:
        return self.metric

    def _learner(self, data: RankingData, continued: bool) -> AdaRankTraining:
        from podium.learners.linear.adarank import AdaRankTraining  # scoring needs neither

        data = data.grouped()
        values = QueryValues.of(data, parse_metric(self.metric), self.n_jobs)
        weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        return AdaRankTraining(data.X, values.scaled, weight, self.signs == "both", self.n_jobs)

    def _n_steps(self) -> int:
        return self.n_rounds

    def _set_fitted(self, learner: AdaRankTraining) -> None:
        self.coef_, self.intercept_ = learner.coefficients
        self.feature_means_ = learner.scaling.centre

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._judging_metric()
        if parse_metric(self.metric).pools_queries:
            raise ValueError(f"AdaRank: metric must have one value per query; {self.metric} has one for all of them.")
