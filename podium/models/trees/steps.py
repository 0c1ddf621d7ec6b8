"""Step rules: how far to go along a new tree, by the metric on the training data."""

from __future__ import annotations

import numpy as np

from podium.data.ranking import RankingData
from podium.learners.trees.training.boosting import StepRule
from podium.metrics.base import Metric
from podium.metrics.line_searching import LineSearcher

LARGEST_ALPHA = 0.9  # a step of at most nine times the tree: beyond, the scores so far hardly count


def metric_steps(data: RankingData, metric: Metric, n_jobs: int | None) -> StepRule:
    """beta = alpha / (1 - alpha), alpha the middle of the best plateau from the scores to the tree; 0 for no gain."""
    searcher = LineSearcher.of(data, metric, n_jobs)

    def size(scores: np.ndarray, direction: np.ndarray, largest: float) -> float:
        high = min(LARGEST_ALPHA, largest / (1.0 + largest)) if np.isfinite(largest) else LARGEST_ALPHA
        best = searcher.search(scores, direction, high)
        return best.beta if best.improves else 0.0

    return size
