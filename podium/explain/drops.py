"""Importance drops: by how much a metric is worse without what a feature, or a group of features, knows.

The drop is measured per query, so that its mean has an interval over queries: an interval that holds 0 says
that these queries cannot show that the feature is of use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from podium._runtime.once import once
from podium.evaluation.evaluating import Evaluation
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES, mean_interval
from podium.evaluation.significance import paired_differences
from podium.explain.drawable import Drawable
from podium.metrics.base import Metric

if TYPE_CHECKING:
    from rich.table import Table

LEVEL = 0.95


@dataclass(frozen=True)
class ImportanceDrop:
    """What one feature or group is worth."""

    name: str
    drop: float  # of the mean over queries
    interval: tuple[float, float]  # of that mean; NaN if too few queries change, or it is not a mean over queries

    def as_dict(self) -> dict[str, Any]:
        known = all(map(math.isfinite, self.interval))
        return {"feature": self.name, "drop": self.drop, "interval": list(self.interval) if known else None}


@dataclass(frozen=True, eq=False)
class ImportanceDrops(Drawable):
    """One drop per feature or group. Print it, or take `ranked()`, `table()`, `picture(path)` or `as_dict()`."""

    drawing: ClassVar[str] = "draw_drops"

    what: str  # "when shuffled"
    metric: str
    policy: str
    baseline: float  # the metric of all features as they are
    names: tuple[str, ...]
    means: np.ndarray  # (names,): the drop of the metric
    per_query: np.ndarray  # (names, queries): the same for each query, NaN where the metric is undefined
    weights: np.ndarray | None = None  # of the queries

    @once
    def intervals(self) -> np.ndarray:
        """(names, 2): 95 % intervals over queries, NaN where there is none."""
        return np.array([self._interval(drops) for drops in self.per_query]).reshape(-1, 2)

    def _interval(self, drops: np.ndarray) -> tuple[float, float]:
        defined = ~np.isnan(drops)
        return mean_interval(drops[defined], None if self.weights is None else self.weights[defined], level=LEVEL)

    def ranked(self) -> Sequence[ImportanceDrop]:
        """The largest drop first."""
        order, ends = np.argsort(-self.means, kind="stable"), self.intervals.tolist()
        return [ImportanceDrop(self.names[f], float(self.means[f]), (ends[f][0], ends[f][1])) for f in order]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        rows = [drop.as_dict() for drop in self.ranked()]
        for row in rows:
            row["no_interval"] = self.no_interval if row["interval"] is None else None
        return {"metric": self.metric, "policy": self.policy, "baseline": self.baseline, "features": rows}

    def table(self) -> Table:
        """A table for rich, the largest drop first."""
        from rich.table import Table
        from rich.text import Text

        table = Table("feature")
        table.add_column("drop", justify="right")
        table.add_column("95% interval", justify="right")
        for one in self.ranked():
            table.add_row(Text(one.name), f"{one.drop:+z.4f}", self._words(one))
        return table

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{one.name:<{width}}  {one.drop:+z.4f}  ({self._words(one)})" for one in self.ranked()]
        return "\n".join([self.headline(), *lines])

    @property
    def no_interval(self) -> str:
        """Why a drop may have no interval."""
        return "unknown" if np.isnan(self.per_query).all() else TOO_FEW_DIFFERENCES

    def _words(self, one: ImportanceDrop) -> str:
        low, high = one.interval
        return self.no_interval if math.isnan(low) else f"{low:+z.4f} to {high:+z.4f}"

    def headline(self) -> str:
        return f"{self.metric} {self.baseline:.4f} (policy {self.policy}); drop {self.what}, with 95% interval:"


def metric_drop(before: Evaluation, after: Evaluation, metric: Metric) -> tuple[float, np.ndarray]:
    """By how much the metric is worse: its mean, and (queries,) each query."""
    sign, name = 1.0 if metric.higher_is_better else -1.0, metric.name
    return sign * (before[name] - after[name]), sign * paired_differences(after.per_query[name], before.per_query[name])
