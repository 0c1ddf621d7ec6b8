"""CoordinateAscent: one weight at a time, by exact line search of any metric."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium.metrics.line_searching import LineSearcher
from podium.metrics.registry import parse_metric
from podium.models.adarank import TrainingRounds
from podium.models.frame.parameters import (
    TRANSFORM_SPACE,
    MetricParameter,
    SeedParameter,
    parameter,
    parametrized,
    rules_for,
)
from podium.models.frame.plan import TrainingPlan, TrainingRows
from podium.models.linear import LinearScores

if TYPE_CHECKING:
    from podium.learners.linear.coordinate_ascent import CoordinateAscentTraining


@parametrized
class CoordinateAscent(MetricParameter, SeedParameter, TrainingRounds, LinearScores):
    """Moves one weight at a time to its exact optimum for any metric, from several starts.

    Features are standardised, and the sizes of their weights sum to 1; `coef_` and `intercept_` are those of the
    features as they came.
    """

    n_restarts: int = parameter(
        5, "Number of starts: the first from equal weights, others from random ones.", low=1, high=10**6
    )
    min_improvement: float = parameter(
        0.001, "A start ends when a round improves the metric on the training data by no more than this.", low=0, high=1
    )

    step_word: ClassVar[str] = "round"
    steps_parameter: ClassVar[str | None] = "n_rounds"
    search_space: ClassVar[Mapping[str, Any]] = {"metric": ["ndcg@10", "map"], **TRANSFORM_SPACE}

    def training_plan(self) -> TrainingPlan[CoordinateAscentTraining]:
        return TrainingPlan(self._make_learner, self.keep_weights, self.n_rounds, target_metric=self.metric)

    def _make_learner(self, rows: TrainingRows) -> CoordinateAscentTraining:
        from podium.learners.linear.coordinate_ascent import AscentRules, CoordinateAscentTraining

        data, metric = rows.data, parse_metric(self.metric)
        searcher = LineSearcher.of(data, metric, self.n_jobs)
        sign = 1.0 if metric.higher_is_better else -1.0

        def search(scores: np.ndarray, direction: np.ndarray) -> tuple[float, float]:
            best = searcher.search(scores, direction)
            return sign * best.value, best.alpha

        rules = rules_for(AscentRules, self, seed=int(self.random_state))
        return CoordinateAscentTraining(data.X, search, lambda scores: sign * searcher.mean(scores), rules)
