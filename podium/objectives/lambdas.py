"""Lambda: RankNet's pairs, each weighted by how much a metric would change if the two swapped places.

With i better than j, `o = s_i - s_j` and `rho = 1 / (1 + exp(sigma o))`:

    g_i -= sigma |dZ| rho        g_j += sigma |dZ| rho        both h += sigma^2 |dZ| rho (1 - rho)

dZ is the change of the metric when i and j swap places in the current order (falling scores, equal scores in the order
of the rows). It is held fixed in the derivative, so the loss is `sum |dZ| log(1 + exp(-sigma o))`. Only the first
`cutoff` places open a row: two places beyond the cutoff can swap without a change. Work is O(n cutoff), memory O(n).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.numeric.portable import log2_64
from podium._runtime.words import check_choice
from podium.metrics.base import Metric
from podium.metrics.closed_forms import ADDITIVE, FormArrays
from podium.metrics.policies import Policy
from podium.objectives.base import (
    NORMALIZATIONS,
    BoundLabels,
    BoundObjective,
    Objective,
    Outputs,
    PairTable,
    check_fraction,
    check_positive,
    refuse_negative_labels,
)
from podium.objectives.cuda.form import CudaObjective
from podium.objectives.cuda.lambdas import cuda_lambdas
from podium.objectives.device import DeviceObjective, PaddedLists, differences
from podium.objectives.kernels import (
    BLOCK,
    PairWorkspace,
    cost_row,
    load_powers,
    load_scores,
    logistic_row,
    make_pair_workspace,
    store_derivatives,
)
from podium.objectives.pair_losses import FLATTEST, LOGISTIC, pair_arrays, pair_slopes
from podium.objectives.pairwise import pair_factors
from podium.objectives.rankings import SHORT_TOP, longest_of, order_by_label, order_of, place_queries, rows_of
from podium.objectives.swap_deltas import (
    DROPS,
    DeltaWorkspace,
    additive_row,
    closed_form_of,
    closed_form_row,
    load_deltas,
    load_gains,
    load_weights,
    make_delta_workspace,
    metric_under,
    ranks_of,
)

_LONGEST_SORTED = 10_000  # documents of a list that a warp of a GPU sorts, by as many comparisons as their square
_NEAREST = 0.01  # LightGBM's and XGBoost's, so that equal scores do not divide by 0

# sigma, whether pairs and queries are normalised, the factor of the hessians
Options = tuple[float, bool, float]
# document weights (or none), query weights, offsets
Lists = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Lambda(Objective):
    """Lambdas of a metric: `Lambda("ndcg@10")`, `Lambda("map", sigma=2.0)`, `Lambda(MyMetric())`.

    The metric follows `policy` ("standard" unless given; a Metric keeps its own), varied by `gain="linear"` or
    `label_gain=[...]`; ties of scores always fall to the order of the rows.

    normalize:
      None: the lambdas of the papers.
      "lightgbm": every pair is divided by `0.01 + |s_i - s_j|` (unless all scores of the query are equal); then
        everything of the query is multiplied by `log2(1 + S) / S`, where S is twice the sum of its pairs' lambdas. dZ
        stays the metric's own: LightGBM itself keeps the full discount beyond its truncation level.
      "xgboost": the same two steps and hessians twice as large, as XGBoost 3 does by default for `rank:ndcg`
        (`lambdarank_score_normalization`, `lambdarank_normalization` with top-k pairs). It also divides the weights of
        queries by their mean; give such weights where that matters.
    With either, there is no formula for the cost: `has_loss` is False. S is taken before the query's weight.

    pair_exponent: everything of a query is multiplied by `n_pairs**-pair_exponent`, as in pairwise objectives; only
    with `normalize=None`, as the other ways scale the queries themselves.
    """

    name: ClassVar[str] = "lambda"

    metric: str | Metric = "ndcg@10"
    sigma: float = 1.0
    normalize: Literal["lightgbm", "xgboost"] | None = None
    policy: str | Policy | None = None
    gain: str | None = None
    label_gain: Sequence[float] | None = None
    pair_exponent: float = 0.0

    def __post_init__(self) -> None:
        check_positive("lambda: sigma", self.sigma)
        check_fraction("lambda: pair_exponent", self.pair_exponent)
        if self.pair_exponent and self.normalize is not None:
            raise ValueError(
                f"lambda: pair_exponent={self.pair_exponent:g} needs normalize=None; got {self.normalize!r}, which "
                "scales the queries itself."
            )
        if self.normalize is not None:
            check_choice("lambda: normalize", self.normalize, NORMALIZATIONS)
        if self.label_gain is not None:  # a tuple, so that the value can be compared and hashed
            object.__setattr__(self, "label_gain", tuple(float(gain) for gain in self.label_gain))
        _ = self.target  # a misspelt metric is answered here, not in the middle of a fit

    @property
    def has_loss(self) -> bool:
        return self.normalize is None

    @property
    def is_smooth(self) -> bool:
        return False  # where two scores cross, dZ jumps

    @property
    def target(self) -> Metric:
        """The metric as a value, under its policy."""
        return metric_under(self.metric, self.policy, self.gain, self.label_gain)


class BoundLambda(BoundObjective, of=Lambda):
    """Lambdas on one data set: the metric resolved, and its closed form."""

    objective: Lambda

    def __init__(self, objective: Lambda, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        refuse_negative_labels(objective.name, data.labels)
        self.metric = objective.target.resolve(data.largest_label)
        _warn_if_rank_is_ignored(self.metric, data.grades)
        self.form = closed_form_of(self.metric, data)
        normalised = objective.normalize is not None
        self._options: Options = (float(objective.sigma), normalised, 2.0 if objective.normalize == "xgboost" else 1.0)
        self._places = rows_of(data.offsets)  # of the last call: the next one's are much the same
        if objective.pair_exponent:
            factors = pair_factors(data, order_by_label(data, n_jobs), objective.pair_exponent)
            self.query_weights = readonly(data.query_weights * factors)
        self._lists: Lists = (data.weights, self.query_weights, data.offsets)

    @property
    def total_weight(self) -> float:
        """As of listwise objectives, with the mean weight squared: a pair counts by the product of two."""
        return self.data.exact_sum(self.query_weights * self.data.mean_weights**2)

    def on_device(self) -> DeviceObjective | None:
        """Of metrics that have a closed form; weights of ranks that differ from query to query lie at its rows."""
        form = self.form
        if form is None:
            return None
        rows, table = {"value": form.values, **self._document_weights()}, form.table
        if form.kind == ADDITIVE and form.starts.any():
            rows["place_weight"], table = form.table, np.empty(0)
        sigma, normalised, _ = self._options
        settings = {"kind": form.kind, "cutoff": int(form.cutoff), "sigma": sigma, "normalised": normalised}
        queries = {"weight": self.query_weights, "scale": form.scales}
        return DeviceObjective.of(lambda_gradients, rows, queries, settings, table)

    def on_cuda(self) -> CudaObjective | None:
        """Of metrics that have a closed form."""
        form = self.form
        if form is None or (form.cutoff > SHORT_TOP and self.data.longest > _LONGEST_SORTED):
            return None
        sigma, normalised, hessian_factor = self._options
        return cuda_lambdas(
            form, sigma, normalised, hessian_factor, self.data.offsets, self.query_weights, self.data.weights
        )

    def work(self, lengths: Array) -> Array:
        if self.form is None:  # Python holds the interpreter lock: one thread
            return np.zeros_like(lengths)
        return np.asarray(4 * lengths + lengths * np.minimum(lengths, self.form.cutoff) // 16)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        """Costs where there is room for them, derivatives otherwise."""
        if self.form is None:
            for query in queries.tolist():
                self._ask_metric(scores, query, out)
            return
        place_queries(scores, self.form.cutoff, self.offsets, queries, self._places)
        longest, weights = longest_of(self.offsets, queries), self._lists[0]
        _lambda_queries(
            None if self.form.kind == ADDITIVE else self.form.kind,
            weights if len(weights) else None,
            self.form.arrays,
            self._options,
            self._lists,
            scores,
            readonly(self._places),
            queries,
            make_pair_workspace(longest),
            np.zeros(longest + BLOCK, np.float32),
            make_delta_workspace(longest),
            *out,
        )

    def _ask_metric(self, scores: Array, query: int, out: Outputs) -> None:
        """One query by the metric's own `swaps`; the rest is what `_lambda_queries` does."""
        start, stop = int(self.offsets[query]), int(self.offsets[query + 1])
        n = stop - start
        scores, weights = scores[start:stop], self._lists[0][start:stop]
        places = order_of(scores)
        ranked = self.labels[start:stop][places[::-1]]
        workspace, total, divided = make_pair_workspace(n), 0.0, self._options[1] and bool(np.ptp(scores) > 0)
        single, row, exact = workspace[0], workspace[1], workspace[4]
        powers, (nearest, inverse) = np.zeros_like(single), _distances(self._options, divided)
        if n > 1:
            load_scores(scores, places, float(scores.max()), self._options[0], True, workspace)
        for rank in range(min(self.metric.top(n), n - 1)):
            i = n - 1 - rank
            deltas = self._swap_deltas(ranked, rank)
            row[:i] = (np.sign(ranked[rank] - ranked[rank + 1 :]) * deltas)[::-1]
            row[i : i + BLOCK] = 0.0
            if len(weights):
                _weigh_row(i, places, weights, row)
            if out.costs is not None:
                total += cost_row(LOGISTIC, i, i, exact, row)
            else:
                total += _metric_row(self._options[1], i, workspace, powers, nearest, inverse)
        _close_query(query, places, 1.0, total, self._options, self._lists, workspace, *out)

    def _swap_deltas(self, ranked: Array, rank: int) -> Array:
        """|dZ| of a rank and each later one."""
        deltas = np.abs(self.metric.swaps(ranked, rank))
        return np.asarray(np.nan_to_num(deltas))  # NaN: undefined, so nothing to gain

    def pair_table(self, scores: Array, query: int) -> PairTable:
        """Pairs of different labels, in the order of their ranks."""
        numbers, labels, weights = self._rows_of_query(scores, query)
        sigma, normalised, hessian_factor = self._options
        places = order_of(numbers)[::-1].astype(np.int64)
        ranks, delta = self._pairs_of_ranks(labels[places])
        first, second = places[ranks]
        upper = np.where(labels[first] > labels[second], first, second)
        lower = first + second - upper
        o = sigma * (numbers[upper] - numbers[lower])
        slope, bend = pair_arrays(LOGISTIC, o)
        nearest, inverse = _distances(self._options, normalised and bool((numbers != numbers[:1]).any()))
        factor = sigma * weights[upper] * weights[lower] / (nearest + inverse * np.abs(o))
        if normalised:
            factor *= _query_factor(2.0 * float(np.sum(factor * delta * slope)))
        factor *= self.query_weights[query]
        return PairTable(upper, lower, slope, delta, factor, hessian_factor * sigma * factor * delta * bend)

    def _pairs_of_ranks(self, ranked: Array) -> tuple[Array, Array]:
        """(2, pairs) ranks from 0 of documents with different labels, and (pairs,) |dZ|."""
        n = len(ranked)
        deltas = np.zeros((n, n))
        for rank in range(min(self.metric.top(n), n - 1)):
            deltas[rank, rank + 1 :] = self._swap_deltas(ranked, rank)
        ranks = np.stack(np.triu_indices(n, 1))
        ranks = ranks[:, ranked[ranks[0]] != ranked[ranks[1]]]
        return ranks, deltas[ranks[0], ranks[1]]


def lambda_gradients(scores: Any, lists: PaddedLists, kind: int, cutoff: int, sigma: float, normalised: bool) -> Any:
    import jax.numpy as jnp

    drop = DROPS[kind](ranks_of(scores, lists.mask), lists, cutoff)
    deltas = lists.both(differences(lists.rows["value"]) * jnp.abs(drop))  # positive where i is better
    o, scale = differences(scores), lists.queries["scale"]
    lambdas = lists.pair_weights * (deltas * pair_slopes(LOGISTIC, sigma * jnp.sign(deltas) * o))
    if normalised:
        most = jnp.where(lists.mask, scores, -jnp.inf).max(axis=1)
        least = jnp.where(lists.mask, scores, jnp.inf).min(axis=1)
        lambdas = lambdas / jnp.where((least < most)[:, None, None], _NEAREST + jnp.abs(o), 1.0)
        total = sigma * scale * jnp.abs(lambdas).sum(axis=(1, 2))
        scale = scale * jnp.where(total > 0, jnp.log2(1.0 + total) / jnp.where(total > 0, total, 1.0), 1.0)
    return -sigma * scale[:, None] * lambdas.sum(axis=2)


def _warn_if_rank_is_ignored(metric: Metric, grades: Array) -> None:
    """Warn of metrics whose swap deltas do not depend on ranks, or only at the cutoff."""
    reason = metric.lambda_advice()
    if reason is None and _never_changes(metric, grades):
        reason = "is the same for every order of a list, so there is nothing to learn from it; give it a cutoff"
    if reason is not None:
        warnings.warn(f"lambda: {metric.name} {reason}.", UserWarning, stacklevel=5)


def _never_changes(metric: Metric, grades: Array) -> bool:
    """Try every swap in lists of good documents, one of each grade, and bad ones after.

    There are 1, 2, ... good documents, as many as ranks can count: one more than a metric asks for hides every swap.
    """
    grades = grades[::-1]
    if len(grades) < 2:
        return False
    few = grades[np.linspace(0, len(grades) - 1, min(len(grades), 5)).astype(np.int64)]
    edge = min(metric.cutoff or 20, 20)
    mixed = [np.concatenate([np.full(edge, few[0]), few, np.full(edge, few[-1])])]
    good = [np.concatenate([np.full(n, few[0]), np.full(edge + 1, few[-1])]) for n in range(1, edge + 1)]
    return not any(_changes(metric, probe) for probe in (*mixed, *good))


def _changes(metric: Metric, probe: Array) -> bool:
    return any(np.any(np.nan_to_num(metric.swaps(probe, i))) for i in range(len(probe) - 1))


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def _lambda_queries(
    closed: int | None,
    weights: Array | None,
    form: FormArrays,
    options: Options,
    lists: Lists,
    scores: Array,
    orders: Array,
    queries: Array,
    workspace: PairWorkspace,
    powers: Array,
    delta_workspace: DeltaWorkspace,
    gradients: Array,
    hessians: Array,
    costs: Array | None,
) -> None:
    """The sums at the top of this module for all documents of these queries; or `costs[q]`, if there is room for them.

    closed: the kind of the metric's closed form; None: it adds up. scores (n,) float64; orders (n,) uint32, each
    query's documents worst first; gradients, hessians (n,) float32; costs (queries,) float64. What is None is not
    compiled: a first training waits for nothing it does not use.

    Rows are copied into the loop, and none that has a copy of another in it: references to its arrays would be counted
    in every turn, which costs as much as a third of a row.
    """
    cutoff, values, table, table_starts, scales = form
    offsets = lists[2]
    single, row, gradient_sums, hessian_sums, exact, row_gradients, row_hessians = workspace
    gains, place_weights, one, two, three, four = delta_workspace
    for k in range(len(queries)):
        query = queries[k]
        start, stop, total = offsets[query], offsets[query + 1], 0.0
        n, top = stop - start, min(cutoff, stop - start)
        query_scores, places = scores[start:stop], orders[start:stop]
        if n > 1 and scales[query] > 0.0:
            largest, least = query_scores[places[n - 1]], _least(query_scores)
            wide = (largest - least) * options[0] > 2.0 * FLATTEST
            nearest, inverse = _distances(options, least < largest)
            load_scores(query_scores, places, largest, options[0], costs is not None, workspace)
            if not wide:
                load_powers(n, np.float32((least - largest) * options[0] * 0.5), single, powers)
            if closed is None:
                load_gains(places, values[start:stop], gains)
                load_weights(n, table[table_starts[query] :], place_weights)
                rows = top
            else:
                rows = load_deltas(closed, top, places, values[start:stop], delta_workspace)
            for i in range(n - 1, max(n - 1 - rows, 0), -1):
                if closed is None:
                    additive_row(i, gains, place_weights, row)
                else:
                    closed_form_row(closed, i, gains, one, two, three, four, row)
                if weights is not None:
                    _weigh_row(i, places, weights[start:stop], row)
                if costs is not None:
                    total += cost_row(LOGISTIC, i, i, exact, row)
                    continue
                if wide:
                    load_powers(i + 1, single[i], single, powers)
                if options[1]:
                    total += float(
                        logistic_row(
                            True, i, single, powers, row, gradient_sums, hessian_sums, row_gradients, row_hessians,
                            nearest, inverse,
                        )
                    )  # fmt: skip
                else:
                    logistic_row(
                        False, i, single, powers, row, gradient_sums, hessian_sums, row_gradients, row_hessians,
                        nearest, inverse,
                    )  # fmt: skip
        _close_query(query, places, scales[query], total, options, lists, workspace, gradients, hessians, costs)


@kernel
def _least(scores: Array) -> float:
    least = np.inf
    for k in range(len(scores)):
        least = min(least, scores[k])
    return least


@kernel
def _metric_row(
    normalised: bool, i: int, workspace: PairWorkspace, powers: Array, nearest: np.float32, inverse: np.float32
) -> float:
    """One row of `_lambda_queries`, for swap deltas that came from Python."""
    scores, row, gradient_sums, hessian_sums, _, row_gradients, row_hessians = workspace
    load_powers(i + 1, scores[i], scores, powers)
    if normalised:
        return float(
            logistic_row(
                True, i, scores, powers, row, gradient_sums, hessian_sums, row_gradients, row_hessians, nearest, inverse
            )
        )
    logistic_row(
        False, i, scores, powers, row, gradient_sums, hessian_sums, row_gradients, row_hessians, nearest, inverse
    )
    return 0.0


@kernel
def _distances(options: Options, divided: bool) -> tuple[np.float32, np.float32]:
    """What normalised pairs are divided by: `nearest + inverse |o|`, and the scores lie sigma times as far apart here.

    Where all scores of a list are equal they are not divided: by 1.
    """
    if divided:
        return np.float32(_NEAREST), np.float32(1.0 / options[0])
    return np.float32(1.0), np.float32(0.0)


@kernel
def _weigh_row(i: int, places: Array, weights: Array, row: Array) -> None:
    """Multiply a row by the documents' weights."""
    weight = weights[places[i]]
    for j in range(i):
        row[j] *= np.float32(weight * weights[places[j]])


@kernel
def _query_factor(lambdas: float) -> float:
    """What everything of a normalised query is multiplied by: lambdas is twice the sum of those of its pairs."""
    return log2_64(1.0 + lambdas) / lambdas if lambdas > 0.0 else 1.0


@kernel
def _close_query(
    query: int,
    places: Array,
    scale: float,
    total: float,
    options: Options,
    lists: Lists,
    workspace: PairWorkspace,
    gradients: Array,
    hessians: Array,
    costs: Array | None,
) -> None:
    """Write what the query's rows came to: total is the sum of its costs or forces before the metric's divisor."""
    sigma, normalised, hessian_factor = options
    _, query_weights, offsets = lists
    factor = scale * query_weights[query]
    if costs is not None:
        costs[query] = factor * total
        return
    own_gradients = gradients[offsets[query] : offsets[query + 1]]
    own_hessians = hessians[offsets[query] : offsets[query + 1]]
    if len(places) < 2 or scale == 0.0:
        for k in range(len(places)):
            own_gradients[k], own_hessians[k] = np.float32(0.0), np.float32(0.0)
        return
    lambdas = 2.0 * sigma * scale * total
    if normalised:
        factor *= _query_factor(lambdas)
    second = factor * sigma * sigma * hessian_factor
    store_derivatives(places, factor * sigma, second, workspace, own_gradients, own_hessians)
