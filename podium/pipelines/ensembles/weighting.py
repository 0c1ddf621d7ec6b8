"""Weights of a blend, chosen on validation data: the metric itself is maximised, along one line at a time.

Scores are (members, rows), normalized. Along the line (1 - alpha) s + alpha s2 the best alpha is exact
(`podium.metrics.line_search`), so there is no grid and no step size.

- greedy: begin with the best member; add the member that helps most, at its best alpha, until none helps;
- coordinate: begin with equal weights; set the weight of one member after the other to its best, until none helps.
"""

from __future__ import annotations

import numpy as np

from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.metrics.base import Metric
from podium.metrics.line_searching import line_search

_LEAST_GAIN = 1e-9
_MOST_CYCLES = 20


def weighted_sum(weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(rows,) from scores (members, rows), added in the order of the members: the same bits for any number of rows."""
    total = np.zeros(scores.shape[1])
    for weight, of_member in zip(weights, scores):
        total += weight * of_member
    return total


def greedy_weights(scores: np.ndarray, data: RankingData, metric: Metric, n_jobs: int | None) -> np.ndarray:
    """Weights that add up to 1; those of members that do not help are 0."""
    units = np.eye(len(scores))
    values = [_value(of_member, data, metric, n_jobs) for of_member in scores]
    best = int(np.argmax(values))
    weights, value, left = units[best], values[best], [k for k in range(len(scores)) if k != best]
    while left:
        options = [_search(weighted_sum(weights, scores), scores[k], data, metric, n_jobs) for k in left]
        best_left = int(np.argmax([gained for _, gained in options]))
        alpha, gained = options[best_left]
        if gained <= value + _LEAST_GAIN:
            break
        weights, value = (1 - alpha) * weights + alpha * units[left.pop(best_left)], gained
    return np.asarray(weights)


def coordinate_weights(scores: np.ndarray, data: RankingData, metric: Metric, n_jobs: int | None) -> np.ndarray:
    """Weights that add up to 1, from which no change of a single one leads to a better value."""
    weights = np.full(len(scores), 1 / len(scores))
    value = _value(weighted_sum(weights, scores), data, metric, n_jobs)
    for _ in range(_MOST_CYCLES):
        before = value
        for k in range(len(scores)):
            others = np.where(np.arange(len(scores)) == k, 0.0, weights)
            if others.sum() == 0:
                continue
            others = others / others.sum()
            alpha, gained = _search(weighted_sum(others, scores), scores[k], data, metric, n_jobs)
            if gained > value + _LEAST_GAIN:
                weights, value = (1 - alpha) * others + alpha * np.eye(len(scores))[k], gained
        if value <= before + _LEAST_GAIN:
            break
    return weights


def _search(
    s: np.ndarray, s2: np.ndarray, data: RankingData, metric: Metric, n_jobs: int | None
) -> tuple[float, float]:
    """The best alpha and its value, more being better."""
    line = line_search(s, s2, data, metric=metric, n_jobs=n_jobs)
    return line.alpha, _signed(line.value, metric)


def _value(scores: np.ndarray, data: RankingData, metric: Metric, n_jobs: int | None) -> float:
    return _signed(evaluate(scores, data, metrics=[metric], n_jobs=n_jobs)[metric.name], metric)


def _signed(value: float, metric: Metric) -> float:
    if np.isnan(value):
        raise ValueError(f"Blend: {metric.name} is undefined for all queries of the evaluation set.")
    return value if metric.higher_is_better else -value
