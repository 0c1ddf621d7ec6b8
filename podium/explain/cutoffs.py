"""Cutoffs: a metric of several rankings at k = 1, 2, ..., as NDCG@k curves are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from podium.data.ranking import RankingData
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.explain.drawable import Drawable
from podium.metrics.base import Metric
from podium.metrics.policies import Policy
from podium.metrics.registry import parse_metric, policy_of

_LARGEST = 20


@dataclass(frozen=True, eq=False)
class CutoffCurves(Drawable):
    """The mean of a metric at each cutoff. Print it, or take `values`, `to_frame()`, `plot()` or `as_dict()`."""

    drawing: ClassVar[str] = "draw_cutoffs"

    metric: str
    policy: str
    names: tuple[str, ...]  # of the rankings
    cutoffs: tuple[int, ...]
    values: np.ndarray  # (rankings, cutoffs)

    @classmethod
    def of(cls, evaluations: Mapping[str, Evaluation], names: Sequence[str]) -> CutoffCurves:
        """From evaluations that have the metrics of `names_at`."""
        metrics = [parse_metric(name, runs=True) for name in names]
        values = [[evaluation[name] for name in names] for evaluation in evaluations.values()]
        policy = next(iter(evaluations.values())).policy
        base = metrics[0].name.replace(f"@{metrics[0].cutoff}", "", 1)
        cutoffs = tuple(metric.cutoff or 0 for metric in metrics)
        return cls(base, policy, tuple(evaluations), cutoffs, np.array(values))

    def to_frame(self, backend: str = "pandas") -> Any:
        """A table with one row per cutoff and one column per ranking; "pandas", "polars" or "pyarrow"."""
        from podium.formats.frames import make_frame

        return make_frame({"cutoff": list(self.cutoffs)} | dict(zip(self.names, self.values)), backend)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`; an undefined mean is None."""
        rankings = {
            name: [None if np.isnan(value) else value for value in row.tolist()]
            for name, row in zip(self.names, self.values)
        }
        return {"metric": self.metric, "policy": self.policy, "cutoffs": list(self.cutoffs), "rankings": rankings}

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [
            f"{self.metric}@k (policy {self.policy})",
            f"{'k':<{width}}" + "".join(f"{k:>9}" for k in self.cutoffs),
        ]
        rows = zip(self.names, self.values)
        return "\n".join([*lines, *(f"{name:<{width}}" + "".join(f"{v:>9.4f}" for v in row) for name, row in rows)])


def cutoff_curves(
    rankings: Mapping[str, Any],
    data: RankingData,
    *,
    metric: str | Metric = "ndcg",
    cutoffs: Sequence[int] = range(1, _LARGEST + 1),
    policy: str | Policy | None = None,
) -> CutoffCurves:
    """The metric of several rankings of the same data at each cutoff.

    `cutoff_curves({"bm25": scores, "mart": model}, test).plot()` draws NDCG@1 to NDCG@20, one line per ranking.
    A ranking is an array with one score per row, or a fitted model, which scores the data. A cutoff of the metric
    itself does not count.
    """
    if not isinstance(rankings, Mapping) or not rankings:
        raise ValueError('rankings must name each ranking: {"bm25": scores, "mart": model}.')
    rules = policy_of([metric], policy, "standard")
    base = parse_metric(metric, rules)
    if not len(cutoffs):
        raise ValueError("cutoffs must be a list of ranks, such as range(1, 21); it is empty.")
    at = [replace(base, cutoff=int(k)) for k in cutoffs]
    evaluations = {}
    for name, ranking in rankings.items():
        scores = ranking.predict(data) if hasattr(ranking, "predict") else ranking
        evaluations[str(name)] = evaluate(scores, data, metrics=at, policy=rules)
    return CutoffCurves.of(evaluations, [one.name for one in at])


def names_at(metric: str, cutoffs: Sequence[int] = range(1, _LARGEST + 1)) -> list[str]:
    """The names of a metric at each cutoff, whatever its own: `ndcg@10` -> `ndcg@1`, `ndcg@2`, ..."""
    base = parse_metric(metric, runs=True)
    return [replace(base, cutoff=k).name for k in cutoffs]
