"""What a choice maximises: a metric, or a sum such as "map+meanndcg", under a policy.

LETOR's tables have two columns, MAP and MeanNDCG; a model that is chosen for one of them alone pays with the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.metrics.base import Metric
from podium.metrics.lists import RankedLists
from podium.metrics.policies import Policy, get_policy
from podium.metrics.registry import parse_metric


@dataclass(frozen=True)
class MetricSum(Metric):
    """The sum of metrics of one list."""

    parts: tuple[Metric, ...] = ()

    @property
    def name(self) -> str:
        return "+".join(part.name for part in self.parts)

    def value(self, ranked_labels: np.ndarray, judged: np.ndarray | None = None) -> float:
        return sum(part.value(ranked_labels, judged) for part in self.parts)

    def values(self, lists: RankedLists) -> np.ndarray:
        return np.asarray(np.sum([part.values(lists) for part in self.parts], axis=0))

    def resolve(self, largest_label: float) -> Self:
        return replace(self, parts=tuple(part.resolve(largest_label) for part in self.parts))

    def under(self, policy: Policy) -> Self:
        return replace(self, policy=policy, parts=tuple(part.under(policy) for part in self.parts))


def parse_criterion(text: str | Metric, policy: str | Policy = "standard") -> Metric:
    """`"ndcg@10"`, or metrics to be added up: `"map+meanndcg"`."""
    rules = get_policy(policy)
    if isinstance(text, Metric) or not isinstance(text, str) or "+" not in text:
        return parse_metric(text, rules)
    parts = tuple(parse_metric(name, rules) for name in text.split("+"))
    for part in parts:
        if not part.higher_is_better or part.pools_queries:
            raise ValueError(f"{text!r}: {part.name} cannot be part of a sum. Choose by one metric, or by others.")
    return MetricSum(policy=rules, parts=parts)


def criterion_value(scores: np.ndarray, data: RankingData, metric: Metric, n_jobs: int | None = None) -> float:
    """The value of scores; more is better, so a metric that is better when lower comes negated."""
    value = evaluate(scores, data, metrics=[metric], n_jobs=n_jobs)[metric.name]
    if np.isnan(value):
        raise ValueError(f"{metric.name} is undefined for all queries of the validation data.")
    return value if metric.higher_is_better else -value


def criterion_words(metric: Metric) -> str:
    """`"map+meanndcg (letor4)"`"""
    return f"{metric.name} ({metric.policy.name})"
