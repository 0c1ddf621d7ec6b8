"""Squared error of scores and labels that are centred per query: only differences within a query count.

With `r_i = F_i - y_i` and their mean `m = sum w_i r_i / sum w_i` over the query, the cost is `1/2 sum w_i (r_i - m)^2`:
that of the best constant for each query. CatBoost calls it QueryRMSE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.objectives.base import Lists, Objective, Outputs
from podium.objectives.device import DeviceObjective, PaddedLists
from podium.objectives.pointwise import BoundPointwise


@dataclass(frozen=True)
class QueryRMSE(Objective):
    """Centred squared error: `g_i = w_i (r_i - m)`, `h_i = w_i (1 - w_i / sum w)`. Starts at 0."""

    name: ClassVar[str] = "query_rmse"


class BoundQueryRMSE(BoundPointwise, of=QueryRMSE):
    """Centred squared error on one data set; weights of documents add up as those of squared error do."""

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        _centred((scores, self.labels, self.row_weights, self.offsets), queries, *out)

    def on_device(self) -> DeviceObjective:
        rows = {"label": self.labels, "row_weight": self.row_weights}
        return DeviceObjective.of(centred_gradients, rows, {})


def centred_gradients(scores: Any, lists: PaddedLists) -> Any:
    import jax.numpy as jnp

    weight, distance = jnp.where(lists.mask, lists.rows["row_weight"], 0.0), scores - lists.rows["label"]
    total = weight.sum(axis=1, keepdims=True)
    return weight * (distance - (weight * distance).sum(axis=1, keepdims=True) / jnp.where(total > 0, total, 1.0))


@kernel
def _mean_distance(scores: Array, labels: Array, weights: Array) -> tuple[float, float]:
    """The weighted mean of F - y over one query, and the sum of the weights."""
    mean, total = 0.0, 0.0
    for row in range(len(scores)):  # a running mean: the sum of large scores could overflow
        total += weights[row]
        if total > 0.0:
            mean += (scores[row] - labels[row] - mean) * (weights[row] / total)
    return mean, total


@kernel
def _centred(lists: Lists, queries: Array, gradients: Array, hessians: Array, costs: Array | None) -> None:
    """g = w (F - y - m), h = w (1 - w / sum w); or the costs. All (n,), float64 in, float32 out."""
    scores, labels, weights, offsets = lists
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        mean, total = _mean_distance(scores[start:stop], labels[start:stop], weights[start:stop])
        cost = 0.0
        for row in range(start, stop):
            distance = scores[row] - labels[row] - mean
            if costs is not None:
                cost += 0.5 * weights[row] * distance**2
            else:
                share = weights[row] / total if total > 0.0 else 1.0
                gradients[row] = np.float32(weights[row] * distance)
                hessians[row] = np.float32(weights[row] * (1.0 - share))
        if costs is not None:
            costs[queries[k]] = cost
