"""BayesRank: the expected metric of a random ranking, instead of the sorted one.

Under Plackett-Luce the first document is drawn by the softmax of the scores, the next by the softmax of those left, and
so on. The expected value of a metric over all orders is smooth in the scores, but it is a sum over n! orders. Lists of
up to 4 documents are summed over all of theirs; longer ones over `samples` orders, drawn by a seed.

Write theta_x for the weight of place x, G_d for the gain of document d, p_x(d) for the probability that d is drawn at
place x from those left there, and m_x = sum_d p_x(d) G_d for the expected gain at x. Given the places above, the
expected gain from x on is `theta_x m_x + B_x`, where `B_x = sum_(z > x) theta_z m_z` is that of later places. The
derivative of the expected metric by s_d is then the mean over orders of

    sum_(x <= place of d) p_x(d) (theta_x (G_d - m_x) - (B_x - b_x)) + (B_x - b_x at the place of d)

for any b that does not depend on the order: we take the B of the order that sorting gives, which steadies the mean.
Each order's part sums to 0 over the list, so the mean over few orders does too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.random import check_seed, stream_of, uniform
from podium.metrics.additive import AdditiveMetric
from podium.metrics.base import Metric
from podium.metrics.closed_forms import ADDITIVE
from podium.metrics.policies import Policy
from podium.metrics.registry import METRICS
from podium.metrics.sorting import SortWorkspace, make_sort_workspace
from podium.objectives.base import (
    BoundLabels,
    BoundObjective,
    Objective,
    Outputs,
    check_positive,
    refuse_negative_labels,
)
from podium.objectives.rankings import longest_of, place_worst_first
from podium.objectives.swap_deltas import closed_form_of, metric_under

LONGEST_EXACT = 4
_NEAR = 600.0  # exponentials of scores this far below the largest can still be added and divided


@dataclass(frozen=True)
class BayesRank(Objective):
    """One minus the expected metric under Plackett-Luce: `sum_orders P(order | scores) (1 - metric(order))`.

    The metric must add up over places (ndcg, dcg, rbp, p, recall, meanndcg), `policy`, `gain` and `label_gain` as for
    lambdas. Exact up to 4 documents; above, the mean over `samples` orders that depend on `seed`, the iteration
    (`begin`) and the rows alone: an unbiased gradient that sums to 0. A document's weight multiplies its gain.

    The cost is not convex. In place of the second derivative stands that of a likelihood of the orders, each draw
    weighted by what it can gain: the mean of `sum_x p_x(d) (1 - p_x(d)) (theta_x max G + B_x)`.
    """

    name: ClassVar[str] = "bayesrank"
    hessian: ClassVar[Literal["exact", "surrogate"]] = "surrogate"

    metric: str | Metric = "ndcg@10"
    samples: int = 16
    seed: int = 0
    policy: str | Policy | None = None
    gain: str | None = None
    label_gain: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_positive("bayesrank: samples", self.samples)
        check_seed("bayesrank", self.seed)
        if self.label_gain is not None:
            object.__setattr__(self, "label_gain", tuple(float(gain) for gain in self.label_gain))
        if not isinstance(self.target, AdditiveMetric):
            raise ValueError(
                f"bayesrank: {self.target.name} does not add up over places. Take one of "
                f"{', '.join(name for name, kind in METRICS.items() if issubclass(kind, AdditiveMetric))}."
            )

    @property
    def is_smooth(self) -> bool:
        return False  # the mean over a sample of orders jumps where one of them changes

    @property
    def is_random(self) -> bool:
        return True

    @property
    def target(self) -> Metric:
        """The metric as a value, under its policy."""
        return metric_under(self.metric, self.policy, self.gain, self.label_gain)


class BoundBayesRank(BoundObjective, of=BayesRank):
    """BayesRank on one data set at one iteration."""

    objective: BayesRank

    def __init__(self, objective: BayesRank, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        refuse_negative_labels(objective.name, data.labels)
        metric = objective.target.resolve(data.largest_label)
        form = closed_form_of(metric, data)
        if form is None or form.kind != ADDITIVE:
            raise ValueError(f"bayesrank: {metric.name} has swaps of its own, so it does not add up over places.")
        gains = form.values * np.repeat(form.scales, data.lengths)
        self.gains = readonly(gains * data.weights if len(data.weights) else gains)
        self._places = form.cutoff, form.table, form.starts
        self._iteration = 0

    def begin(self, iteration: int) -> None:
        self._iteration = iteration

    def work(self, lengths: Array) -> Array:
        return np.asarray(lengths * int(self.objective.samples) * 8)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        stream, samples = stream_of(int(self.objective.seed), self._iteration), int(self.objective.samples)
        lists = self.gains, self.data.query_weights, self.offsets, self.data.first_rows
        workspace = make_sort_workspace(longest_of(self.offsets, queries))
        _expect_queries(stream, samples, self._places, lists, scores, queries, workspace, *out)


# --- kernels -----------------------------------------------------------------------------------------------------

# A number per place of one order: log sum exp of the scores left, the expected gain, and that of all later places;
# the last without noise too.
Outlook = tuple[Array, Array, Array, Array]
Sums = tuple[Array, Array]  # of gradients and hessians
# Of one query: scores below the largest, their exponentials, gains. `near` scores have exponentials without underflow.
Documents = tuple[Array, Array, Array]


@kernel
def _expect_queries(
    stream: np.uint64,
    samples: int,
    place_weights: tuple[int, Array, Array],
    lists: tuple[Array, Array, Array, Array],
    scores: Array,
    queries: Array,
    sort_workspace: SortWorkspace,
    gradients: Array,
    hessians: Array,
    costs: Array | None,
) -> None:
    """The means of `BayesRank` for all documents of these queries; or `costs[q]`, unless that is None.

    lists are gains (n,) over the query's divisor, query weights, offsets and the numbers of first rows; place_weights
    the cutoff, a table and where each query's part of it begins.
    """
    cutoff, table, table_starts = place_weights
    gains, query_weights, offsets, first_rows = lists
    longest = len(sort_workspace[0])
    outlook = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    places, noisy, sums = np.empty(longest, np.uint32), np.empty(longest), (np.empty(longest), np.empty(longest))
    gradient_sums, hessian_sums = sums
    for k in range(len(queries)):
        query = queries[k]
        start, stop = offsets[query], offsets[query + 1]
        n, few = stop - start, stop - start <= LONGEST_EXACT
        if n == 0:
            continue
        shifted, order, theta = scores[start:stop] - scores[start:stop].max(), places[:n], table[table_starts[query] :]
        documents, near = (shifted, np.exp(shifted), gains[start:stop]), shifted.min() > -_NEAR
        top = n if few else min(cutoff, n)
        for row in range(n):  # an order to begin with
            order[row] = row
        gradient_sums[:n], hessian_sums[:n], expected = 0.0, 0.0, 0.0
        for number in range(-1, _factorial(n) if few else samples):  # -1: without noise
            if few and number >= 0:
                _write_order(number, order)
            else:
                _add_noise(
                    documents, near, stream, first_rows[query] * samples + number, samples, number < 0, noisy[:n]
                )
                place_worst_first(noisy[:n], top, sort_workspace, order)
            worth = _look_ahead(documents, near, theta, top, order, outlook)
            if number < 0:
                outlook[3][:top] = outlook[2][:top]
                continue
            share = _probability(shifted, order, outlook[0]) if few else 1.0 / samples
            expected += share * worth
            if costs is None:
                _add_order(documents, near, theta, top, share, order, outlook, sums)
        if costs is not None:
            costs[query] = query_weights[query] * (1.0 - expected)
        for d in range(n if costs is None else 0):
            gradients[start + d] = np.float32(-query_weights[query] * gradient_sums[d])
            hessians[start + d] = np.float32(query_weights[query] * max(hessian_sums[d], 0.0))


@kernel
def _add_noise(
    documents: Documents, near: bool, stream: np.uint64, first: int, step: int, still: bool, noisy: Array
) -> None:
    """Numbers whose falling order is a draw from Plackett-Luce: minus the times of a race with rates exp(score).

    For scores far apart, the logarithms of those times: scores plus Gumbel noise. `still` leaves the scores alone.
    """
    scores, odds, _ = documents
    for d in range(len(noisy)):
        if still:
            noisy[d] = scores[d]
        elif near:
            noisy[d] = math.log(uniform(stream, first + d * step)) / odds[d]
        else:
            noisy[d] = scores[d] - math.log(-math.log(uniform(stream, first + d * step)))


@kernel
def _look_ahead(documents: Documents, near: bool, theta: Array, top: int, places: Array, outlook: Outlook) -> float:
    """Fill the expected gains of an order (places, worst first) from its end; returns that of the entire order."""
    scores, all_odds, gains = documents
    levels, means, later, _ = outlook
    largest, total, gained, worth = 0.0 if near else -np.inf, 0.0, 0.0, 0.0
    n = len(places)
    for k in range(n):
        d = places[k]
        if not near and scores[d] > largest:
            fall = math.exp(largest - scores[d])
            total, gained, largest = total * fall, gained * fall, scores[d]
        odds = all_odds[d] if near else math.exp(scores[d] - largest)
        total, gained = total + odds, gained + odds * gains[d]
        x = n - 1 - k
        if x < top:
            levels[x], means[x], later[x] = largest + math.log(total), gained / total, worth
            worth += theta[x] * means[x]
    return worth


@kernel
def _add_order(
    documents: Documents, near: bool, theta: Array, top: int, share: float, places: Array, outlook: Outlook, sums: Sums
) -> None:
    """Add one order's part of the derivative and of the surrogate of the second one, O(n).

    Sums over the places so far are kept times `exp(level)` of the last of them: levels fall, so no factor exceeds 1,
    and `p_x(d) = exp(s_d - level_x)` turns them into sums of probabilities.
    """
    scores, odds, gains = documents
    levels, means, later, baseline = outlook
    (gradient_sums, hessian_sums), n, most = sums, len(places), gains.max()
    own_sum, price, bend, bend_squares, level, lift = 0.0, 0.0, 0.0, 0.0, levels[0], 1.0
    for x in range(n):
        d, surplus = places[n - 1 - x], 0.0
        if x < top:
            fall, surplus = math.exp(levels[x] - level), later[x] - baseline[x]
            stake = theta[x] * most + later[x]
            own_sum, price = own_sum * fall + theta[x], price * fall + theta[x] * means[x] + surplus
            bend, bend_squares = bend * fall + stake, bend_squares * fall * fall + stake
            level = levels[x]
            lift = math.exp(-level) if near else 1.0
        chance = odds[d] * lift if near else math.exp(scores[d] - level)
        gradient_sums[d] += share * (chance * (gains[d] * own_sum - price) + surplus)
        hessian_sums[d] += share * (chance * bend - chance * chance * bend_squares)


@kernel
def _probability(scores: Array, places: Array, levels: Array) -> float:
    """The probability of an order under Plackett-Luce."""
    total, n = 0.0, len(places)
    for x in range(n):
        total += scores[places[n - 1 - x]] - levels[x]
    return math.exp(total)


@kernel
def _factorial(n: int) -> int:
    product = 1
    for k in range(2, n + 1):
        product *= k
    return product


@kernel
def _write_order(number: int, places: Array) -> None:
    """Order `number` of all n!: its digits, of bases 1 to n, say where each document is put in."""
    for k in range(len(places)):
        hole = number % (k + 1)
        number //= k + 1
        for j in range(k, hole, -1):
            places[j] = places[j - 1]
        places[hole] = k
