"""ApproxNDCG: NDCG of smooth ranks.

The rank of document i is one plus the number of documents above it; put `1 / (1 + exp(alpha (s_i - s_j)))` for "j is
above i" and it becomes a smooth function of the scores, and so does NDCG. Both passes are the pair frame's: ranks are
sums of rho over all pairs, and the gradient of a pair is `rho (1 - rho)` times the difference of their two gains per
step in rank. Work is O(n^2) per query, memory O(n).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from podium._runtime.compiler import Array, fast_kernel, kernel, readonly
from podium.metrics.additive import NDCG
from podium.metrics.lists import RankedLists
from podium.metrics.policies import POLICIES
from podium.objectives.base import (
    BoundLabels,
    BoundObjective,
    Lists,
    Objective,
    Outputs,
    check_positive,
    refuse_negative_labels,
)
from podium.objectives.device import DeviceObjective, PaddedLists, differences
from podium.objectives.kernels import (
    BLOCK,
    PairWorkspace,
    formula_row,
    load_scores,
    make_pair_workspace,
    store_derivatives,
)
from podium.objectives.pair_losses import BELL, LOGISTIC, pair_cost, pair_slopes
from podium.objectives.rankings import longest_of


@dataclass(frozen=True)
class ApproxNDCG(Objective):
    """`1 - sum_i G_i / log2(1 + r_i)` with smooth ranks `r_i = 1 + sum_j rho_ij`, `rho_ij = 1 / (1 + exp(alpha o_ij))`.

    G is the gain of a label over the query's ideal DCG. With `c_i = G_i ln 2 / ((1 + r_i) ln^2(1 + r_i))`, what a step
    in rank costs, `g_i = alpha sum_j rho_ij (1 - rho_ij) (c_j - c_i)`. The cost is not convex: in place of the second
    derivative stands `alpha^2 sum_j rho_ij (1 - rho_ij) |c_i - c_j|`. A document's weight multiplies its gain; a
    larger alpha is nearer to NDCG and flatter between its steps.
    """

    name: ClassVar[str] = "approxndcg"
    hessian: ClassVar[Literal["exact", "surrogate"]] = "surrogate"

    alpha: float = 10.0
    gain: str | None = None
    label_gain: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_positive("approxndcg: alpha", self.alpha)
        if self.label_gain is not None:
            object.__setattr__(self, "label_gain", tuple(float(gain) for gain in self.label_gain))
        _ = self.metric

    @property
    def metric(self) -> NDCG:
        return NDCG(policy=POLICIES["standard"].vary(gain=self.gain, label_gain=self.label_gain))


class BoundApproxNDCG(BoundObjective, of=ApproxNDCG):
    """ApproxNDCG on one data set: the gains of its documents over their ideal DCG."""

    objective: ApproxNDCG

    def __init__(self, objective: ApproxNDCG, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        refuse_negative_labels(objective.name, data.labels)
        form = objective.metric.closed_form(RankedLists(data.labels, data.offsets))
        gains = form.values * np.repeat(form.scales, data.lengths)
        self.gains = readonly(gains * data.weights if len(data.weights) else gains)

    def work(self, lengths: Array) -> Array:
        return np.asarray(lengths + lengths * lengths // 16)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        alpha, lists = float(self.objective.alpha), (scores, self.gains, self.query_weights, self.offsets)
        if out.costs is not None:
            _smooth_costs(alpha, lists, queries, out.costs)
        else:
            workspace = make_pair_workspace(longest_of(self.offsets, queries))
            _smooth_queries(alpha, lists, queries, workspace, out.gradients, out.hessians)

    def on_device(self) -> DeviceObjective:
        queries, settings = {"weight": self.query_weights}, {"alpha": float(self.objective.alpha)}
        return DeviceObjective.of(smooth_gradients, {"gain": self.gains}, queries, settings)


def smooth_gradients(scores: Any, lists: PaddedLists, alpha: float) -> Any:
    import jax.numpy as jnp

    o, others = alpha * differences(scores), ~jnp.eye(scores.shape[1], dtype=bool)
    rank = 1.0 + lists.both(others * pair_slopes(LOGISTIC, o)).sum(axis=2)  # [q, i, j]: j is above i
    step = jnp.where(lists.mask, lists.rows["gain"], 0.0) * jnp.log(2.0) / ((1.0 + rank) * jnp.log(1.0 + rank) ** 2)
    return alpha * lists.both(pair_slopes(BELL, o) * -differences(step)).sum(axis=2)


@fast_kernel
def _smooth_queries(
    alpha: float, lists: Lists, queries: Array, workspace: PairWorkspace, gradients: Array, hessians: Array
) -> None:
    """g and h of `ApproxNDCG` for all documents of these queries; (n,), float64 in, float32 out.

    Documents stay in the order of their rows: this frame only needs each pair once.
    """
    scores, gains, query_weights, offsets = lists
    single, row, gradient_sums, hessian_sums, _, row_gradients, row_hessians = workspace
    steps, places = np.zeros_like(single), np.arange(len(single)).astype(np.uint32)
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        n = stop - start
        if n < 2:
            gradients[start:stop], hessians[start:stop] = 0.0, 0.0
            continue
        query_scores = scores[start:stop]
        load_scores(query_scores, places[:n], query_scores.max(), alpha, False, workspace)
        for i in range(1, n):
            _fill_row(i, row)
            formula_row(LOGISTIC, i, i, single, row, gradient_sums, hessian_sums, row_gradients, row_hessians)
        _price_steps(gains[start:stop], gradient_sums, hessian_sums, steps)
        for i in range(1, n):
            _step_row(i, steps, row)
            formula_row(BELL, i, i, single, row, gradient_sums, hessian_sums, row_gradients, row_hessians)
        first = alpha * query_weights[queries[k]]
        store_derivatives(places[:n], first, first * alpha, workspace, gradients[start:stop], hessians[start:stop])


@fast_kernel
def _fill_row(i: int, row: Array) -> None:
    """One pair with each of 0 .. i - 1."""
    for j in range((i + BLOCK - 1) // BLOCK * BLOCK):
        row[j] = np.float32(1.0 if j < i else 0.0)


@fast_kernel
def _step_row(i: int, steps: Array, row: Array) -> None:
    """Differences of the costs of a step in rank."""
    step = steps[i]
    for j in range(i):
        row[j] = step - steps[j]
    for j in range(i, (i + BLOCK - 1) // BLOCK * BLOCK):
        row[j] = np.float32(0.0)


@kernel
def _price_steps(gains: Array, gradient_sums: Array, hessian_sums: Array, steps: Array) -> None:
    """Ranks from the sums of rho, the cost of a step of each, and sums reset to 0 for the second pass.

    Index i has `sum_(j < i) rho_ij` from its own row and minus `rho_ji` from those of the n - 1 - i after it, each of
    which is above it with `1 - rho_ji`.
    """
    n = len(gains)
    for i in range(n):
        rank = 1.0 + gradient_sums[i] + (n - 1 - i)
        steps[i] = np.float32(gains[i] * math.log(2.0) / ((1.0 + rank) * math.log(1.0 + rank) ** 2))
    gradient_sums[: n + BLOCK], hessian_sums[: n + BLOCK] = 0.0, 0.0


@kernel
def _smooth_costs(alpha: float, lists: Lists, queries: Array, costs: Array) -> None:
    """costs[q] = 1 - sum of gain / log2(1 + rank), all in float64."""
    scores, gains, query_weights, offsets = lists
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        reached = 0.0
        for i in range(start, stop):
            rank = 1.0
            for j in range(start, stop):
                if i != j:
                    rank += pair_cost(BELL, alpha * (scores[i] - scores[j]))
            reached += gains[i] / math.log2(1.0 + rank)
        costs[queries[k]] = query_weights[queries[k]] * (1.0 - reached)
