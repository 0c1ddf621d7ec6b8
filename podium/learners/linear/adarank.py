"""AdaRank: boosting of single features, on a distribution over queries.

Each round takes the weak ranker h, a feature, with the largest mean performance r = sum P(q) E(q, h), with
alpha = 1/2 ln((1 + r) / (1 - r)), adds alpha h to the scores f, and gives queries that f ranks badly more weight:
P(q) ~ exp(-E(q, f)). E, from -1 to 1, is what a metric says of the ranking of a query.

References: Xu and Li, AdaRank: a boosting algorithm for information retrieval, SIGIR 2007.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from podium.learners.linear.weighted import WeightedFeatures

_LARGEST_MEAN = 1.0 - 1e-9  # of a weak ranker that makes no error: alpha stays finite

Performance = Callable[[np.ndarray], np.ndarray]  # scores of the training rows -> E of each query, NaN: undefined


class AdaRankTraining(WeightedFeatures):
    """The learner of AdaRank. Performances of weak rankers do not change, so they are computed once."""

    def __init__(
        self, X: np.ndarray, performance: Performance, query_weight: np.ndarray, both_signs: bool, n_jobs: int | None
    ) -> None:
        """`both_signs`: features with the sign turned are weak rankers too."""
        super().__init__(X, n_jobs)
        self.performance = performance
        signs = (1.0, -1.0) if both_signs else (1.0,)
        self.rankers = [(f, sign) for sign in signs for f in range(X.shape[1])]
        performances = np.array([performance(sign * self.column(f)) for f, sign in self.rankers])
        defined = ~np.isnan(performances[0])
        self.query_weight = np.where(defined, query_weight, 0.0)
        if not self.query_weight.any():
            raise ValueError("the metric is undefined for all training queries; there is nothing to boost.")
        self.performances = np.where(defined, performances, 0.0)

    def step(self) -> None:
        means = self.performances @ self._distribution()
        chosen = int(means.argmax())
        feature, sign = self.rankers[chosen]
        mean = min(float(means[chosen]), _LARGEST_MEAN)
        weights = self.weights.copy()
        weights[feature] += sign * 0.5 * np.log((1.0 + mean) / (1.0 - mean))
        self.is_done = mean <= 0  # the best weak ranker is no better than chance
        if not self.is_done:
            self.settle(weights)

    def _distribution(self) -> np.ndarray:
        """P(q) after the rounds so far; in the first round, the weights of queries."""
        if self.n_steps == 0:
            weights = self.query_weight
        else:
            performances = self.performance(self.scores(self.X, self.weights))
            weights = self.query_weight * np.exp(-np.where(self.query_weight > 0, performances, 0.0))
        return np.asarray(weights / weights.sum())
