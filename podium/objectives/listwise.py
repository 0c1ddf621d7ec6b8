"""Top-one objectives: the cost of a list, from the probability that its scores give each document to come first.

With `q = softmax(s)` over a query, ListNet and XE-NDCG cost `-sum t_i log q_i` for a target t that the labels give.
They are O(n), in float64, from the largest score down: gaps of any size are safe. A document's weight multiplies its
target. For likelihoods of the entire order see `likelihood.py`.

`smoothing` e mixes a target with the even one, `(1 - e) t_i + e / n`: scores need not run apart without bound to reach
it, and labels that are wrong now and then cost less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.random import check_seed, stream_of, uniform
from podium.metrics.policies import gain_table, gains, known_gain
from podium.objectives.base import (
    BoundLabels,
    BoundObjective,
    Lists,
    Objective,
    Outputs,
    check_fraction,
    refuse_negative_labels,
)
from podium.objectives.device import DeviceObjective, PaddedLists


@dataclass(frozen=True)
class ListNet(Objective):
    """ListNet: cross entropy of the top-one probabilities, `-sum softmax(labels)_i log softmax(scores)_i`.

    `g_i = q_i - p_i`, `h_i = q_i (1 - q_i)` for q and p the two softmaxes (with weights: `g_i = T q_i - w_i p_i`,
    `h_i = T q_i (1 - q_i)`, T the sum of `w p`).
    """

    name: ClassVar[str] = "listnet"

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_fraction("listnet: smoothing", self.smoothing)


@dataclass(frozen=True)
class XENDCG(Objective):
    """XE-NDCG: cross entropy against `t_i = (2^y_i - u_i) / sum (2^y_j - u_j)`, u drawn evenly from [0, 1].

    `g_i = q_i - t_i`, `h_i = q_i (1 - q_i)`. This convex cost bounds NDCG; the draw is new in every iteration (`begin`)
    and depends on `seed`, the iteration and the row alone; `seed=None` puts 1/2 in its place. Other gains: with
    `gain="linear"` or `label_gain=[...]`, t_i is proportional to `gain_i + 1 - u_i`.
    """

    name: ClassVar[str] = "xendcg"

    seed: int | None = 0
    gain: str = "exponential"
    label_gain: Sequence[float] | None = None
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_fraction("xendcg: smoothing", self.smoothing)
        if self.seed is not None:
            check_seed("xendcg", self.seed)
        known_gain(self.gain)
        if self.label_gain is not None:
            object.__setattr__(self, "label_gain", gain_table(self.label_gain))

    @property
    def is_random(self) -> bool:
        return self.seed is not None


class BoundSoftmax(BoundObjective, of=ListNet):
    """Cross entropy against targets (n,), which need not add up to 1."""

    objective: ListNet | XENDCG

    def __init__(self, objective: ListNet | XENDCG, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        self.targets = np.empty(len(data.labels))
        self._set_targets()

    def _set_targets(self) -> None:
        lists, smoothing = (self.labels, self.data.weights, self.offsets), float(self.objective.smoothing)
        self._share_out(self._all_queries, lambda part: _label_softmax(lists, smoothing, part, self.targets))

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        _cross_entropy((scores, readonly(self.targets), self.query_weights, self.offsets), queries, *out)

    def on_device(self) -> DeviceObjective:
        rows, queries = {"target": self.targets}, {"weight": self.query_weights}
        return DeviceObjective.of(softmax_gradients, rows, queries, resampled=isinstance(self, BoundXENDCG))


class BoundXENDCG(BoundSoftmax, of=XENDCG):
    """XE-NDCG at one iteration."""

    objective: XENDCG

    def __init__(self, objective: XENDCG, data: BoundLabels, n_jobs: int | None) -> None:
        refuse_negative_labels(objective.name, data.labels)
        table = objective.label_gain
        self._gains = readonly(gains(data.labels, objective.gain if table is None else tuple(table)))
        self._iteration = 0
        super().__init__(objective, data, n_jobs)

    def begin(self, iteration: int) -> None:
        if iteration != self._iteration and self.objective.seed is not None:
            self._iteration = iteration
            self._set_targets()

    def _set_targets(self) -> None:
        stream = stream_of(self.objective.seed or 0, self._iteration)
        lists, settings = (
            (self._gains, self.data.weights, self.offsets, self.data.first_rows),
            (self.objective.seed is not None, stream),
        )
        smoothing = float(self.objective.smoothing)
        self._share_out(self._all_queries, lambda part: _drawn_targets(lists, *settings, smoothing, part, self.targets))


def softmax_gradients(scores: Any, lists: PaddedLists) -> Any:
    import jax
    import jax.numpy as jnp

    target = jnp.where(lists.mask, lists.rows["target"], 0.0)
    share = jax.nn.softmax(jnp.where(lists.mask, scores, -jnp.inf), axis=1, where=lists.mask)
    return target.sum(axis=1, keepdims=True) * share - target


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def _label_softmax(lists: Lists, smoothing: float, queries: Array, targets: Array) -> None:
    """targets = w softmax(labels) of each query, smoothed."""
    labels, weights, offsets = lists
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        if start == stop:
            continue
        largest, total = labels[start:stop].max(), 0.0
        for row in range(start, stop):
            targets[row] = math.exp(labels[row] - largest)
            total += targets[row]
        _smooth_targets(total, smoothing, start, stop, weights, targets)


@kernel
def _smooth_targets(total: float, smoothing: float, start: int, stop: int, weights: Array, targets: Array) -> None:
    """targets = w ((1 - smoothing) targets / total + smoothing / n), in rows start..stop, which are not none."""
    share, even = (1.0 - smoothing) / total, smoothing / (stop - start)
    for row in range(start, stop):
        targets[row] = (targets[row] * share + even) * (weights[row] if len(weights) else 1.0)


@kernel
def _drawn_targets(
    lists: Lists, drawn: bool, stream: np.uint64, smoothing: float, queries: Array, targets: Array
) -> None:
    """targets = w (gain + 1 - u), divided by the query's sum of gain + 1 - u, and smoothed."""
    label_gains, weights, offsets, first_rows = lists
    for k in range(len(queries)):
        start, stop, total = offsets[queries[k]], offsets[queries[k] + 1], 0.0
        if start == stop:
            continue
        before = first_rows[queries[k]] - start  # rows are counted among those of all ranks
        for row in range(start, stop):
            targets[row] = label_gains[row] + (1.0 - uniform(stream, before + row) if drawn else 0.5)
            total += targets[row]
        _smooth_targets(total, smoothing, start, stop, weights, targets)


@kernel
def _cross_entropy(lists: Lists, queries: Array, gradients: Array, hessians: Array, costs: Array | None) -> None:
    """g = T q - t, h = T q (1 - q), with q = softmax(scores) and T the sum of t; (n,), float64 in, float32 out.

    Or costs[q] = sum of t (log sum exp(s) - s).
    """
    scores, targets, query_weights, offsets = lists
    for k in range(len(queries)):
        start, stop, scale = offsets[queries[k]], offsets[queries[k] + 1], query_weights[queries[k]]
        if start == stop:
            continue
        largest, total, mass, agreed = scores[start:stop].max(), 0.0, 0.0, 0.0
        for row in range(start, stop):
            total += math.exp(scores[row] - largest)
            mass += targets[row]
            if costs is not None:
                agreed += targets[row] * (scores[row] - largest)
        if costs is not None:
            costs[queries[k]] = scale * (mass * math.log(total) - agreed)
            continue
        for row in range(start, stop):
            share = math.exp(scores[row] - largest) / total
            gradients[row] = np.float32(scale * (mass * share - targets[row]))
            hessians[row] = np.float32(scale * mass * share * (1.0 - share))
