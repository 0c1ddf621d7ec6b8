"""The likelihood of an order under Plackett-Luce: documents are chosen one after the other, by softmax of those left.

O(n) per call after one sort of the labels, in float64, from the largest score down: gaps of any size are safe. A
document's weight multiplies the term of its own choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.objectives.base import BoundLabels, BoundObjective, Lists, Objective, Outputs
from podium.objectives.device import DeviceObjective, PaddedLists
from podium.objectives.rankings import order_by_label


@dataclass(frozen=True)
class ListMLE(Objective):
    """ListMLE: minus the log likelihood, under Plackett-Luce, of an order of the documents by their labels.

    `sum_i log(sum_(j: y_j <= y_i) exp(s_j)) - s_i` over all documents i better than the query's worst: each is chosen
    among those that are not better. Equal labels are so chosen as if each came first (Breslow's way), whatever the
    order of the rows; with all labels different this is the usual likelihood. With `p_ij` the probability that j is
    chosen where i was, `g_j = sum_i p_ij - 1` (the 1 for documents i that are chosen), `h_j = sum_i p_ij (1 - p_ij)`.
    """

    name: ClassVar[str] = "listmle"


class BoundListMLE(BoundObjective, of=ListMLE):
    """The likelihood of the order by labels."""

    def __init__(self, objective: ListMLE, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        self.order = order_by_label(data, n_jobs)

    def on_device(self) -> DeviceObjective:
        rows = {"label": self.labels, **self._document_weights()}
        return DeviceObjective.of(likelihood_gradients, rows, {"weight": self.query_weights})

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        lists = scores, *self.order, self.data.weights, self.query_weights, self.offsets
        _plackett_luce(lists, queries, *out)


def likelihood_gradients(scores: Any, lists: PaddedLists) -> Any:
    """Each document i that is better than the worst is chosen among those that are not better."""
    import jax
    import jax.numpy as jnp

    label = jnp.where(lists.mask, lists.rows["label"], jnp.inf)
    weight = jnp.where(lists.mask, lists.rows.get("document_weight", jnp.ones_like(scores)), 0.0)
    chosen = weight * (label > label.min(axis=1, keepdims=True))
    among = lists.both(label[:, None, :] <= label[:, :, None])  # [q, i, j]: j is left where i is chosen
    level = jax.nn.logsumexp(jnp.where(among, scores[:, None, :], -jnp.inf), axis=2)
    level = jnp.where(lists.mask, level, 0.0)
    shares = jnp.where(among, jnp.exp(scores[:, None, :] - level[:, :, None]), 0.0)
    return (chosen[:, :, None] * shares).sum(axis=1) - chosen


# --- kernels -----------------------------------------------------------------------------------------------------

# Of one query: its scores, the order of its documents, how many are worse, their weights, and `_levels`, all but the
# scores worst first.
Choices = tuple[Array, Array, Array, Array, Array]


@kernel
def _plackett_luce(lists: Lists, queries: Array, gradients: Array, hessians: Array, costs: Array | None) -> None:
    """The sums of `ListMLE` for all documents of these queries; or `costs[q]`, unless that is None."""
    scores, places, worse, weights, query_weights, offsets = lists
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        n = stop - start
        if n == 0:
            continue
        shifted, order, rank = scores[start:stop] - scores[start:stop].max(), places[start:stop], worse[start:stop]
        share = np.ones(n) if len(weights) == 0 else weights[start:stop][order]
        choices, scale = (shifted, order, rank, share, _levels(shifted, order, rank)), query_weights[queries[k]]
        if costs is not None:
            costs[queries[k]] = scale * _likelihood_cost(choices)
        else:
            _choice_sums(choices, scale, gradients[start:stop], hessians[start:stop])


@kernel
def _levels(scores: Array, order: Array, worse: Array) -> Array:
    """log sum exp of all documents up to the end of each one's run of equal labels, worst first."""
    n = len(order)
    levels = np.empty(n)
    largest, total = -np.inf, 0.0
    for k in range(n):
        score = scores[order[k]]
        if score > largest:
            total, largest = total * math.exp(largest - score), score
        total += math.exp(score - largest)
        levels[k] = largest + math.log(total)
    for k in range(n - 2, -1, -1):
        if worse[k] == worse[k + 1]:
            levels[k] = levels[k + 1]
    return levels


@kernel
def _likelihood_cost(choices: Choices) -> float:
    (scores, order, worse, weights, levels), total = choices, 0.0
    for k in range(len(order)):
        if worse[k] > 0:
            total += weights[k] * (levels[k] - scores[order[k]])
    return total


@kernel
def _choice_sums(choices: Choices, scale: float, gradients: Array, hessians: Array) -> None:
    """From the best label down, with `first` = exp(level) * sum of w exp(-level_i) over the choices i so far.

    Then `sum_i w_i p_ij = first * exp(s_j - level)`, and `second` does the same for squares. Levels fall on the way
    down, so no factor exceeds 1.
    """
    scores, order, worse, weights, levels = choices
    first, second, level, k = 0.0, 0.0, 0.0, len(order) - 1
    while k >= 0:
        begin, chosen = worse[k], 0.0
        for j in range(begin, k + 1):
            chosen += weights[j] if begin > 0 else 0.0
        fall = math.exp(levels[k] - level) if first > 0.0 else 0.0
        first, second, level = first * fall + chosen, second * fall * fall + chosen, levels[k]
        for j in range(begin, k + 1):
            share = math.exp(scores[order[j]] - level)
            taken = weights[j] if begin > 0 else 0.0
            gradients[order[j]] = np.float32(scale * (first * share - taken))
            hessians[order[j]] = np.float32(scale * max(first * share - second * share * share, 0.0))
        k = begin - 1
