"""Falls: by how much a metric is worse without what a feature, or a group of features, knows.

The fall is measured per query, so that its mean has an interval over queries: an interval that holds 0 says
that these queries cannot show that the feature is of use.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.once import once
from podium.evaluation.evaluating import Evaluation
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES, mean_interval
from podium.evaluation.significance import paired_differences
from podium.metrics.base import Metric

if TYPE_CHECKING:
    from rich.table import Table

LEVEL = 0.95


@dataclass(frozen=True)
class Fall:
    """What one feature or group is worth."""

    name: str
    fall: float  # of the mean over queries
    interval: tuple[float, float]  # of that mean; NaN if too few queries fall, or it is not a mean over queries

    def as_dict(self) -> dict[str, Any]:
        known = all(map(math.isfinite, self.interval))
        return {"feature": self.name, "fall": self.fall, "interval": list(self.interval) if known else None}


@dataclass(frozen=True, eq=False)
class Falls:
    """One fall per feature or group. Print it, or take `ranked()`, `table()`, `picture(path)` or `as_dict()`."""

    what: str  # "when shuffled"
    metric: str
    policy: str
    baseline: float  # the metric of all features as they are
    names: tuple[str, ...]
    means: np.ndarray  # (names,): the fall of the metric
    per_query: np.ndarray  # (names, queries): the same for each query, NaN where the metric is undefined
    weights: np.ndarray | None = None  # of the queries

    @once
    def intervals(self) -> np.ndarray:
        """(names, 2): 95 % intervals over queries, NaN where there is none."""
        return np.array([self._interval(own) for own in self.per_query]).reshape(-1, 2)

    def _interval(self, own: np.ndarray) -> tuple[float, float]:
        kept = ~np.isnan(own)
        return mean_interval(own[kept], None if self.weights is None else self.weights[kept], level=LEVEL)

    def ranked(self) -> list[Fall]:
        """The largest fall first."""
        order = np.argsort(-self.means, kind="stable")
        ends = self.intervals.tolist()
        return [Fall(self.names[f], float(self.means[f]), (ends[f][0], ends[f][1])) for f in order]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, unrounded, for `json.dumps`."""
        rows = [fall.as_dict() for fall in self.ranked()]
        for row in rows:
            row["no_interval"] = self.no_interval if row["interval"] is None else None
        return {"metric": self.metric, "policy": self.policy, "baseline": self.baseline, "features": rows}

    def table(self) -> Table:
        """A table for rich, the largest fall first."""
        from rich.table import Table
        from rich.text import Text

        table = Table("feature")
        table.add_column("fall", justify="right")
        table.add_column("95% interval", justify="right")
        for fall in self.ranked():
            table.add_row(Text(fall.name), f"{fall.fall:+z.4f}", self._words(fall))
        return table

    def picture(self, path: str | os.PathLike[str]) -> None:
        """Draw the falls with their intervals to an SVG or PNG file. Needs matplotlib."""
        from podium.explain.drawings import draw_falls

        draw_falls(self, path)

    def __str__(self) -> str:
        width = max(map(len, self.names), default=0)
        lines = [f"{fall.name:<{width}}  {fall.fall:+z.4f}  ({self._words(fall)})" for fall in self.ranked()]
        return "\n".join([self.headline(), *lines])

    @property
    def no_interval(self) -> str:
        """Why a fall may have no interval."""
        return "unknown" if np.isnan(self.per_query).all() else TOO_FEW_DIFFERENCES

    def _words(self, fall: Fall) -> str:
        low, high = fall.interval
        return self.no_interval if math.isnan(low) else f"{low:+z.4f} to {high:+z.4f}"

    def headline(self) -> str:
        return f"{self.metric} {self.baseline:.4f} (policy {self.policy}); fall {self.what}, with 95% interval:"


def query_falls(before: Evaluation, after: Evaluation, metric: Metric) -> np.ndarray:
    """(queries,): by how much each query is worse."""
    sign = 1.0 if metric.higher_is_better else -1.0
    return sign * -paired_differences(before.per_query[metric.name], after.per_query[metric.name])
