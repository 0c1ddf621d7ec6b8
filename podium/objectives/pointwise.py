"""Pointwise objectives: the loss of a document does not depend on the scores of the others, unless centred.

Squared error fits the label. Logistic and ordinal losses fit the side of thresholds: with F the score, the loss of a
document that belongs between two of them is

    softplus(slope (F - upper)) + softplus(slope (lower - F)),        softplus(x) = log(1 + e^x)

where the uppermost class has no upper and the lowest no lower threshold. The logistic loss is the case of one threshold
at 0. Gradients of a query do not add up to 0 here, and a shift of the scores matters: hence `start`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.objectives.base import BoundLabels, BoundObjective, Lists, Objective, Outputs, check_positive
from podium.objectives.cuda.form import CudaObjective
from podium.objectives.device import DeviceObjective, PaddedLists
from podium.objectives.pair_losses import sigmoid, softplus

_MOST_CLASSES = 255
_SMALLEST_STEP = 1e-3  # between two thresholds: a grade that (almost) no document has still needs some room
_FAR = 40.0  # from a threshold: there the sigmoid is 0 or 1
_RAREST = 1e-6  # a share of documents is kept this far from 0 and 1, where its logit is infinite


@dataclass(frozen=True)
class Squared(Objective):
    """Squared error: `1/2 (y - F)^2`, so `g = F - y` and `h = 1`, times the document's weight. Starts at the mean."""

    name: ClassVar[str] = "squared"
    needs_pairs: ClassVar[bool] = False


@dataclass(frozen=True)
class Logistic(Objective):
    """Logistic loss: `log(1 + exp(-2 alpha y F))` with y = 1 for labels from `relevant` on and -1 below.

    `g = -r`, `h = |r| (2 alpha - |r|)` for `r = 2 alpha y / (1 + exp(2 alpha y F))`. Starts at half the log odds over
    alpha, with the share of relevant documents kept between 1e-6 and 1 - 1e-6.
    """

    name: ClassVar[str] = "logistic"
    needs_pairs: ClassVar[bool] = False

    alpha: float = 1.0
    relevant: float = 1.0

    def __post_init__(self) -> None:
        check_positive("logistic: alpha", self.alpha)

    def bound(self, data: BoundLabels, n_jobs: int | None) -> BoundThresholds:
        classes = (data.labels >= self.relevant).astype(np.int64)
        return BoundThresholds(self, data, n_jobs, classes, np.zeros(1), 2.0 * self.alpha)


@dataclass(frozen=True)
class Ordinal(Objective):
    """Ordinal regression (proportional odds): `P(label <= grade k) = 1 / (1 + exp(F - t_k))` with rising thresholds.

    The cost is minus the logarithm of the probability of the document's own grade, which is the form at the top of this
    module up to a constant. Thresholds are held, not trained: by default `t_k` is the log odds of the documents (by
    weight) with a label up to the k-th grade, the best ones while all scores are 0, so training starts at 0.
    `thresholds=[...]` gives others: one fewer than the data has grades.
    """

    name: ClassVar[str] = "ordinal"
    needs_pairs: ClassVar[bool] = False

    thresholds: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.thresholds is None:
            return
        thresholds = tuple(float(threshold) for threshold in self.thresholds)
        if not np.isfinite(thresholds).all() or any(np.diff(thresholds) <= 0):
            raise ValueError(f"ordinal: thresholds must be finite and rise; got {list(thresholds)}.")
        object.__setattr__(self, "thresholds", thresholds)  # a tuple, so that the value can be compared and hashed

    def bound(self, data: BoundLabels, n_jobs: int | None) -> BoundThresholds:
        grades = data.grades
        if len(grades) > _MOST_CLASSES:
            raise ValueError(
                f"ordinal: expected grades, at most {_MOST_CLASSES} different labels; found {len(grades)}. "
                "Round the labels, or use objective 'squared'."
            )
        classes = np.searchsorted(grades, data.labels)
        return BoundThresholds(self, data, n_jobs, classes, self._thresholds(grades, classes, data), 1.0)

    def _thresholds(self, grades: Array, classes: Array, data: BoundLabels) -> Array:
        if self.thresholds is None:
            amounts = _sum_classes(classes, data, len(grades))
            steps = _SMALLEST_STEP * np.arange(len(grades) - 1)
            odds = _log_odds(np.cumsum(amounts)[:-1], amounts.sum())
            return np.asarray(np.maximum.accumulate(odds - steps) + steps)
        if len(self.thresholds) != max(len(grades) - 1, 0):
            raise ValueError(
                f"ordinal: {len(grades)} grades need {len(grades) - 1} thresholds; got {len(self.thresholds)}."
            )
        return np.array(self.thresholds)


class BoundPointwise(BoundObjective):
    """Each document with one or two numbers that its score is compared with; weights of documents add up."""

    slope: Any = None  # of sigmoids, a float; None: squared error

    def __init__(self, objective: Objective, data: BoundLabels, n_jobs: int | None) -> None:
        super().__init__(objective, data, n_jobs)
        self.row_weights = data.row_weights
        self.lower = self.upper = self.labels

    @property
    def total_weight(self) -> float:
        return self.data.exact_sum(self.row_weights)

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        lists = scores, self.lower, self.upper, self.row_weights, self.offsets
        _point_queries(self.slope, lists, queries, *out)


class BoundSquared(BoundPointwise, of=Squared):
    """Squared error on one data set."""

    def start(self) -> float:
        total = self.total_weight
        with np.errstate(over="ignore"):  # an infinite start is refused by the caller
            return self.data.exact_sum(self.labels * self.row_weights) / total if total > 0 else 0.0

    def on_device(self) -> DeviceObjective:
        rows = {"label": self.labels, "row_weight": self.row_weights}
        return DeviceObjective.of(squared_gradients, rows, {})

    def on_cuda(self) -> CudaObjective:
        arrays = {"labels": self.labels, "row_weights": self.row_weights}
        return CudaObjective(_SQUARED_CUDA, arrays, {}, self.n_queries, per_row=True)


class BoundThresholds(BoundPointwise):
    """Documents between thresholds: `lower` and `upper` of each, infinite where there is none."""

    def __init__(
        self,
        objective: Objective,
        data: BoundLabels,
        n_jobs: int | None,
        classes: Array,
        thresholds: Array,
        slope: float,
    ) -> None:
        super().__init__(objective, data, n_jobs)
        self.thresholds, self.slope = readonly(thresholds), slope
        bounds = np.concatenate([[-np.inf], thresholds, [np.inf]])
        self.lower, self.upper = readonly(bounds[classes]), readonly(bounds[classes + 1])
        self._classes = _sum_classes(classes, data, len(thresholds) + 1)

    def start(self) -> float:
        """The constant at which the (rising) sum of gradients is 0; log odds for a single threshold."""
        if len(self.thresholds) == 0 or self._classes.sum() == 0:
            return 0.0
        if len(self.thresholds) == 1:
            share = _log_odds(self._classes[:1], self._classes.sum())
            return float(self.thresholds[0] - share[0] / self.slope)
        low, high = float(self.thresholds[0]) - _FAR, float(self.thresholds[-1]) + _FAR
        if self._slope_at(low) >= 0:  # all documents are of the lowest class
            return low
        if self._slope_at(high) <= 0:
            return high
        from scipy.optimize import brentq  # slow to import, and few models start here

        return float(brentq(self._slope_at, low, high, xtol=1e-14))

    def _slope_at(self, score: float) -> float:
        below = 1.0 / (1.0 + np.exp(self.slope * (self.thresholds - score)))  # gradients towards each upper threshold
        return float(self._classes[:-1] @ below - self._classes[1:] @ (1.0 - below))

    def on_device(self) -> DeviceObjective:
        rows = {"lower": self.lower, "upper": self.upper, "row_weight": self.row_weights}
        return DeviceObjective.of(threshold_gradients, rows, {}, {"slope": float(self.slope)})

    def on_cuda(self) -> CudaObjective:
        arrays = {"lower": self.lower, "upper": self.upper, "row_weights": self.row_weights}
        return CudaObjective(_THRESHOLDS_CUDA, arrays, {"slope": float(self.slope)}, self.n_queries, per_row=True)


def _sum_classes(classes: Array, data: BoundLabels, n_classes: int) -> Array:
    """The weight of each class, the same for any order of rows."""
    weights = data.row_weights
    return np.array([data.exact_sum(weights[classes == number]) for number in range(n_classes)])


def _log_odds(amounts: Array, total: float) -> Array:
    share = np.clip(amounts / total if total > 0 else np.full(len(amounts), 0.5), _RAREST, 1.0 - _RAREST)
    odds: Array = np.log(share / (1.0 - share))
    return odds


def squared_gradients(scores: Any, lists: PaddedLists) -> Any:
    return lists.rows["row_weight"] * (scores - lists.rows["label"])


def threshold_gradients(scores: Any, lists: PaddedLists, slope: float) -> Any:
    from jax.nn import sigmoid

    down, up = sigmoid(slope * (scores - lists.rows["upper"])), sigmoid(slope * (lists.rows["lower"] - scores))
    return lists.rows["row_weight"] * slope * (down - up)


# --- on an NVIDIA GPU --------------------------------------------------------------------------------------------

_SQUARED_CUDA = r"""
extern "C" __global__ void derivatives(const Objective* objective) {
    const Objective o = *objective;
    for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < o.n; row += (i64)gridDim.x * blockDim.x) {
        o.gradients[row] = (float)(o.row_weights[row] * (o.scores[row] - o.labels[row]));
        o.hessians[row] = (float)o.row_weights[row];
    }
}
"""

_THRESHOLDS_CUDA = r"""
__device__ double sigmoid(double x) { return x > -700.0 ? 1.0 / (1.0 + exp64(-x)) : 0.0; }

extern "C" __global__ void derivatives(const Objective* objective) {
    const Objective o = *objective;
    for (i64 row = blockIdx.x * (i64)blockDim.x + threadIdx.x; row < o.n; row += (i64)gridDim.x * blockDim.x) {
        double down = sigmoid(o.slope * (o.scores[row] - o.upper[row]));
        double up = sigmoid(o.slope * (o.lower[row] - o.scores[row]));
        double second = down * (1.0 - down) + up * (1.0 - up);
        o.gradients[row] = (float)(o.row_weights[row] * o.slope * (down - up));
        o.hessians[row] = (float)(o.row_weights[row] * o.slope * o.slope * second);
    }
}
"""

# The running mean is one chain of operations: one lane makes it.
_CENTRED_CUDA = r"""
extern "C" __global__ void derivatives(const Objective* objective) {
    const Objective o = *objective;
    int warps = blockDim.x >> 5;
    for (i64 q = blockIdx.x * (i64)warps + (threadIdx.x >> 5); q < o.n_queries; q += (i64)gridDim.x * warps) {
        double mean = 0.0, total = 0.0;
        if (lane_of() == 0)
            for (i64 row = o.offsets[q]; row < o.offsets[q + 1]; row++) {
                double weight = o.row_weights[row];
                total += weight;
                if (total > 0.0) mean += (o.scores[row] - o.labels[row] - mean) * (weight / total);
            }
        mean = __shfl_sync(FULL, mean, 0);
        total = __shfl_sync(FULL, total, 0);
        for (i64 row = o.offsets[q] + lane_of(); row < o.offsets[q + 1]; row += 32) {
            double weight = o.row_weights[row], share = total > 0.0 ? weight / total : 1.0;
            o.gradients[row] = (float)(weight * (o.scores[row] - o.labels[row] - mean));
            o.hessians[row] = (float)(weight * (1.0 - share));
        }
    }
}
"""

# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def _point_queries(
    slope: float | None, lists: Lists, queries: Array, gradients: Array, hessians: Array, costs: Array | None
) -> None:
    """Squared error: g = w (F - y), h = w. Else g = w slope (down - up), h = w slope^2 (down (1 - down) + up (1 - up)).

    down = sigmoid(slope (F - upper)), up = sigmoid(slope (lower - F)); all (n,), float64 in, float32 out. Or the costs.
    """
    scores, lower, upper, weights, offsets = lists
    for k in range(len(queries)):
        total = 0.0
        for row in range(offsets[queries[k]], offsets[queries[k] + 1]):
            if costs is not None:
                total += _point_cost(slope, weights[row], scores[row], lower[row], upper[row])
            elif slope is None:
                gradients[row] = np.float32(weights[row] * (scores[row] - lower[row]))
                hessians[row] = np.float32(weights[row])
            else:
                down, up = sigmoid(slope * (scores[row] - upper[row])), sigmoid(slope * (lower[row] - scores[row]))
                second = down * (1.0 - down) + up * (1.0 - up)
                gradients[row] = np.float32(weights[row] * slope * (down - up))
                hessians[row] = np.float32(weights[row] * slope * slope * second)
        if costs is not None:
            costs[queries[k]] = total


@kernel
def _point_cost(slope: float | None, weight: float, score: float, lower: float, upper: float) -> float:
    """The constant `-log(1 - exp(-slope (upper - lower)))` makes it minus the logarithm of a probability."""
    if slope is None:
        return 0.5 * weight * (score - lower) ** 2
    above = softplus(slope * (score - upper)) if upper < np.inf else 0.0
    below = softplus(slope * (lower - score)) if lower > -np.inf else 0.0
    return weight * (above + below - math.log(-math.expm1(slope * (lower - upper))))


# --- centred per query: only differences within a query count


@dataclass(frozen=True)
class QueryRMSE(Objective):
    """Squared error of scores and labels that are centred per query: that of the best constant for each query.

    With `r_i = F_i - y_i` and their mean `m = sum w_i r_i / sum w_i` over the query, `g_i = w_i (r_i - m)` and
    `h_i = w_i (1 - w_i / sum w)`. Starts at 0. CatBoost calls it QueryRMSE.
    """

    name: ClassVar[str] = "query_rmse"


class BoundQueryRMSE(BoundPointwise, of=QueryRMSE):
    """Centred squared error on one data set; weights of documents add up as those of squared error do."""

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        _centred((scores, self.labels, self.row_weights, self.offsets), queries, *out)

    def on_device(self) -> DeviceObjective:
        rows = {"label": self.labels, "row_weight": self.row_weights}
        return DeviceObjective.of(centred_gradients, rows, {})

    def on_cuda(self) -> CudaObjective:
        arrays = {"labels": self.labels, "row_weights": self.row_weights, "offsets": self.offsets}
        return CudaObjective(_CENTRED_CUDA, arrays, {}, self.n_queries)


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
