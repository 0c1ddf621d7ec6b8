"""Pairwise objectives: of two documents of a query with different labels, the better one should score higher.

Each member is a formula of the margin `o = s_i - s_j`, with i the better document; the pair loop is in `kernels.py`.
With C the cost of a pair, `g_i += dC/do`, `g_j -= dC/do`, and both hessians grow by `d2C/do2`. Labels do not change, so
documents are sorted by label when the objective is bound: a row is then a document and all that are worse, pairs of
equal labels are skipped, and no pair is stored.

A query has as many pairs as the square of its length allows, so long queries dominate the sum. `pair_exponent` e
multiplies everything of a query by `n_pairs**-e`, where n_pairs counts its pairs of different labels (of documents
whose weights are not 0): 0 is the plain sum over pairs, 1 the sum of the means of the queries, 1/2 between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, kernel, readonly
from podium.objectives.base import (
    BoundLabels,
    BoundObjective,
    Lists,
    Objective,
    Outputs,
    PairTable,
    check_fraction,
    check_positive,
)
from podium.objectives.cuda.form import CudaObjective
from podium.objectives.device import DeviceObjective, PaddedLists, differences
from podium.objectives.kernels import (
    BLOCK,
    PairWorkspace,
    cost_row,
    load_scores,
    make_pair_workspace,
    pair_row,
    store_derivatives,
)
from podium.objectives.pair_losses import (
    EVEN,
    EXPONENTIAL,
    HINGE,
    LOGISTIC,
    SQUARED_HINGE,
    pair_arrays,
    pair_slopes,
)
from podium.objectives.rankings import LabelOrder, longest_of, order_by_label

Settings = tuple[int, float, bool]  # pair loss, slope, whether equal labels make pairs


@dataclass(frozen=True)
class PairwiseObjective(Objective):
    """The frame: a member names its formula and may set the slope and whether equal labels make pairs."""

    pair_loss: ClassVar[int] = LOGISTIC

    pair_exponent: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        check_fraction(f"{self.name}: pair_exponent", self.pair_exponent)

    @property
    def takes_pairs(self) -> bool:
        """Unless a subclass binds labels in a way of its own, which pairs would not follow."""
        return self.bound_class is BoundPairwise

    @property
    def slope(self) -> float:
        return 1.0

    @property
    def even_pairs(self) -> bool:
        return False


@dataclass(frozen=True)
class RankNet(PairwiseObjective):
    """RankNet: the cross entropy of `P(i above j) = 1 / (1 + exp(-sigma o))`.

    `C = 1/2 (1 - S) sigma o + log(1 + exp(-sigma o))`, so `dC/ds_i = sigma ((1 - S)/2 - rho)` and
    `d2C/ds_i2 = sigma^2 rho (1 - rho)` with `rho = 1 / (1 + exp(sigma o))`. S is 1 for i better than j; with `ties`,
    pairs of equal labels count too, with S = 0 (target 0.5), and draw scores together.
    """

    name: ClassVar[str] = "ranknet"
    pair_loss: ClassVar[int] = LOGISTIC

    sigma: float = 1.0
    ties: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("ranknet: sigma", self.sigma)

    @property
    def slope(self) -> float:
        return float(self.sigma)

    @property
    def even_pairs(self) -> bool:
        return bool(self.ties)


@dataclass(frozen=True)
class Hinge(PairwiseObjective):
    """Hinge: `max(0, 1 - o)`, RankSVM's slack. `dC/do = -1` inside the margin.

    The second derivative is 0; 1 stands in for every pair inside the margin, so that a Newton step is a mean gradient.
    """

    name: ClassVar[str] = "hinge"
    hessian: ClassVar[Literal["exact", "surrogate"]] = "surrogate"
    pair_loss: ClassVar[int] = HINGE


@dataclass(frozen=True)
class SquaredHinge(PairwiseObjective):
    """Squared hinge: `max(0, 1 - o)^2`, with `dC/do = -2 max(0, 1 - o)` and second derivative 2 inside the margin."""

    name: ClassVar[str] = "squared_hinge"
    pair_loss: ClassVar[int] = SQUARED_HINGE


@dataclass(frozen=True)
class Exponential(PairwiseObjective):
    """Exponential: `exp(-o)`, RankBoost's cost, with `dC/do = -exp(-o)` and second derivative `exp(-o)`.

    Where -o is larger than 60 the cost goes on as a straight line, so that no sum overflows.
    """

    name: ClassVar[str] = "exponential"
    pair_loss: ClassVar[int] = EXPONENTIAL


class BoundPairwise(BoundObjective, of=PairwiseObjective):
    """Pairs of one data set: its documents in order of their labels."""

    objective: PairwiseObjective

    def __init__(self, objective: PairwiseObjective, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        self.order = order_by_label(data, n_jobs)
        if objective.pair_exponent:
            self.query_weights = readonly(data.query_weights * pair_factors(data, self.order, objective.pair_exponent))

    @property
    def total_weight(self) -> float:
        """The sum of the pairs' weights: of pairs of different labels, and of all others where these count."""
        sums = np.zeros((2, self.n_queries))
        _sum_pairs(self.order.places, self.order.worse, self.data.weights, self.offsets, sums)
        return self.data.exact_sum(self.query_weights * (sums[0] + sums[1] * self.objective.even_pairs))

    def pair_table(self, scores: Array, query: int) -> PairTable:
        """Pairs of different labels and, where these count, of equal ones, which raise the lower of two scores."""
        numbers, labels, weights = self._rows_of_query(scores, query)
        first, second = np.triu_indices(len(numbers), 1)
        even, sigma = labels[first] == labels[second], self.objective.slope
        swapped = np.where(even, numbers[first] > numbers[second], labels[first] < labels[second])
        upper, lower = np.where(swapped, second, first), np.where(swapped, first, second)
        o = sigma * (numbers[upper] - numbers[lower])
        terms = zip(pair_arrays(EVEN, o), pair_arrays(self.objective.pair_loss, o))
        slope, bend = (np.where(even, *both) for both in terms)
        factor = sigma * self.query_weights[query] * weights[upper] * weights[lower]
        table = PairTable(upper, lower, slope, np.ones(len(o)), factor, sigma * factor * bend)
        return table if self.objective.even_pairs else PairTable(*(column[~even] for column in table))

    def on_device(self) -> DeviceObjective:
        kind, rows = self.objective, {"label": self.labels, **self._document_weights()}
        settings = {"loss": kind.pair_loss, "slope": float(kind.slope), "even": bool(kind.even_pairs)}
        return DeviceObjective.of(pair_gradients, rows, {"weight": self.query_weights}, settings)

    def on_cuda(self) -> CudaObjective:
        arrays = {"order": self.order.places, "worse": self.order.worse, "offsets": self.offsets}
        arrays |= {"query_weights": self.query_weights, **self._document_weights()}
        kind = self.objective
        choices = f"#define LOSS {kind.pair_loss}\n#define TIES {int(kind.even_pairs)}\n"
        weighted = f"#define WEIGHTED {int(len(self.data.weights) > 0)}\n"
        return CudaObjective(choices + weighted + _PAIRS_CUDA, arrays, {"sigma": float(kind.slope)}, self.n_queries)

    def work(self, lengths: Array) -> Array:
        return np.asarray(lengths + lengths * lengths // 32)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        settings = self.objective.pair_loss, self.objective.slope, self.objective.even_pairs
        lists = scores, *self.order, self.data.weights, self.query_weights, self.offsets
        arguments = settings, lists, queries, make_pair_workspace(longest_of(self.offsets, queries))
        if out.costs is not None:
            _pair_costs(*arguments, out.costs)
        else:
            _pair_queries(*arguments, out.gradients, out.hessians)


def pair_gradients(scores: Any, lists: PaddedLists, loss: int, slope: float, even: bool) -> Any:
    import jax.numpy as jnp

    sign = lists.both(jnp.sign(differences(lists.rows["label"])))
    o = slope * differences(scores)
    slopes = sign * pair_slopes(loss, sign * o)
    if even:
        slopes += lists.both(jnp.where(sign == 0.0, pair_slopes(EVEN, o), 0.0))
    return -slope * (lists.pair_weights * slopes).sum(axis=2)


# On an NVIDIA GPU: `_pair_queries` by a warp.
_PAIRS_CUDA = r"""
// (-dC/do, d2C/do2), as `pair_terms`.
__device__ float2 pair_terms(int loss, float o) {
    if (loss == 2) { float inside = o < 1.0f ? 1.0f : 0.0f; return make_float2(inside, inside); }
    if (loss == 3) {
        float gap = o < 1.0f ? 1.0f - o : 0.0f, inside = o < 1.0f ? 1.0f : 0.0f;
        return make_float2(gap + gap, inside + inside);
    }
    if (loss == 4) {
        float x = -o < 60.0f ? -o : 60.0f, cost = exp32(x > -87.0f ? x : -87.0f);
        return make_float2(cost, cost);
    }
    float rise = exp32(flat(o)), rho = 1.0f / (1.0f + rise), rest = rho * rise;
    return make_float2(loss == 1 ? rho - 0.5f : rho, rho * rest);
}

// The pairs of document i with documents first .. last - 1.
__device__ void pair_row(
    const Objective& o, const Query& q, const unsigned int* order, i64 start, int loss, int i, int first, int last
) {
    float score = q.single[i], gradient_sum = 0.0f, hessian_sum = 0.0f;
    for (int j = lane_of(); j < last; j += 32) {
        if (j < first) continue;
        float distance = score - q.single[j], weight = 1.0f;
#if WEIGHTED
        weight = (float)(o.document_weight[start + order[i]] * o.document_weight[start + order[j]]);
#endif
        float2 terms = pair_terms(loss, weight > 0.0f ? distance : -distance);
        float gradient = weight * terms.x, hessian = fabsf(weight) * terms.y;
        q.gradient_sums[j] -= gradient;
        q.hessian_sums[j] += hessian;
        gradient_sum += gradient;
        hessian_sum += hessian;
    }
    gradient_sum = fold(gradient_sum);
    hessian_sum = fold(hessian_sum);
    __syncwarp();
    if (lane_of() == 0) { q.gradient_sums[i] += gradient_sum; q.hessian_sums[i] += hessian_sum; }
    __syncwarp();
}

extern "C" __global__ void derivatives(const Objective* objective) {
    const Objective o = *objective;
    i64 warps = blockDim.x >> 5, all = gridDim.x * warps;
    for (i64 number = blockIdx.x * warps + (threadIdx.x >> 5); number < o.n_queries; number += all) {
        Query q = query_of(o, o.offsets, number);
        if (q.n < 2) { write_zeros(q); continue; }
        i64 start = o.offsets[number];
        const unsigned int* order = o.order + start;
        double least = FARTHEST * 1e270;
        for (int k = lane_of(); k < q.n; k += 32) least = -q.scores[k] < least ? -q.scores[k] : least;
        load_scores(q, order, -warp_least(least), o.sigma);
        for (int i = 1; i < q.n; i++) {
            int count = (int)o.worse[start + i];
            if (count > 0) pair_row(o, q, order, start, LOSS, i, 0, count);
            if (TIES && count < i) pair_row(o, q, order, start, 1, i, count, i);
        }
        double scale = o.query_weights[number] * o.sigma;
        store_derivatives(q, order, scale, scale * o.sigma);
    }
}
"""


def pair_factors(data: BoundLabels, order: LabelOrder, exponent: float) -> Array:
    """(queries,) `n_pairs**-exponent`; 1 where there are no pairs."""
    present = readonly((data.weights > 0).astype(np.float64))
    counts = np.zeros((2, data.n_queries))
    _sum_pairs(order.places, order.worse, present, data.offsets, counts)
    return np.asarray(np.maximum(counts[0], 1.0) ** -float(exponent))


@kernel
def _sum_pairs(places: Array, worse: Array, weights: Array, offsets: Array, sums: Array) -> None:
    """sums[0, q] = sum of w_i w_j over the pairs of query q with different labels, sums[1, q] over the other pairs.

    O(n): of each document, its weight times what all that are worse weigh.
    """
    for q in range(len(offsets) - 1):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        before, run = 0.0, 0.0  # weights of all worse documents, and of those before it with the same label
        for k in range(n):
            weight = weights[start + places[start + k]] if len(weights) else 1.0
            if worse[start + k] == k:
                before, run = before + run, 0.0
            sums[0, q] += weight * before
            sums[1, q] += weight * run
            run += weight


@bare_kernel
def _weigh_pairs(i: int, first: int, last: int, start: int, places: Array, weights: Array, row: Array) -> None:
    """Weights of the pairs of i with documents first .. last - 1; 0 before them and to the end of the block."""
    for j in range(first):
        row[j] = np.float32(0.0)
    for j in range(last, (last + BLOCK - 1) // BLOCK * BLOCK):
        row[j] = np.float32(0.0)
    if len(weights) == 0:
        for j in range(first, last):
            row[j] = np.float32(1.0)
        return
    weight = weights[start + places[i]]
    for j in range(first, last):
        row[j] = np.float32(weight * weights[start + places[j]])


@kernel
def _pair_queries(
    settings: Settings, lists: Lists, queries: Array, workspace: PairWorkspace, gradients: Array, hessians: Array
) -> None:
    """g_i = sum over pairs of w dC/ds_i, h_i = sum of w d2C/ds_i2, for all documents of these queries.

    scores (n,) float64; gradients, hessians (n,) float32. Two loops over pairs at most, O(longest) memory.
    """
    (loss, sigma, ties), (scores, places, worse, weights, query_weights, offsets) = settings, lists
    single, row, gradient_sums, hessian_sums, _, row_gradients, row_hessians = workspace
    turns = 2 if ties else 1
    for k in range(len(queries)):
        start, stop = offsets[queries[k]], offsets[queries[k] + 1]
        gradients[start:stop], hessians[start:stop] = 0.0, 0.0
        if stop - start < 2:
            continue
        documents, query_scores = places[start:stop], scores[start:stop]
        load_scores(query_scores, documents, query_scores.max(), sigma, False, workspace)
        filled = 0
        for i in range(1, stop - start):
            count = worse[start + i]
            for turn in range(turns):  # worse documents, then equal ones
                first, last = (0, count) if turn == 0 else (count, i)
                if first == last:
                    continue
                if turns > 1 or len(weights) > 0 or last != filled:
                    _weigh_pairs(i, first, last, start, documents, weights, row)
                    filled = last
                kind = loss if turn == 0 else EVEN
                pair_row(kind, i, last, single, row, gradient_sums, hessian_sums, row_gradients, row_hessians)
        scale = query_weights[queries[k]] * sigma
        store_derivatives(documents, scale, scale * sigma, workspace, gradients[start:stop], hessians[start:stop])


@kernel
def _pair_costs(settings: Settings, lists: Lists, queries: Array, workspace: PairWorkspace, costs: Array) -> None:
    """costs[q] = sum over pairs of w C(o), times the query's weight."""
    (loss, sigma, ties), (scores, places, worse, weights, query_weights, offsets) = settings, lists
    row, exact = workspace[1], workspace[4]
    for k in range(len(queries)):
        start, stop, total = offsets[queries[k]], offsets[queries[k] + 1], 0.0
        documents, query_scores = places[start:stop], scores[start:stop]
        if stop - start > 1:
            load_scores(query_scores, documents, query_scores.max(), sigma, True, workspace)
        for i in range(1, stop - start):
            count = worse[start + i]
            _weigh_pairs(i, 0, count, start, documents, weights, row)
            total += cost_row(loss, i, count, exact, row)
            if ties:
                _weigh_pairs(i, count, i, start, documents, weights, row)
                total += cost_row(EVEN, i, i, exact, row)
        costs[queries[k]] = total * query_weights[queries[k]]
