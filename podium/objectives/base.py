"""Objective: scores, labels and queries in, gradients and hessians of a loss out, one of each per document.

The loss is to be minimised: a document that should rise has a negative gradient (papers write lambda for minus the
gradient and w for the hessian). An objective is an immutable value; `bind` makes the object that knows one data set and
holds what can be computed once. Query q owns rows `offsets[q]:offsets[q + 1]`, and nothing ever pairs two queries.

To add one, subclass `Objective` (a name and settings) and `BoundObjective` (`run`), and register the former.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.exact import exact_sum
from podium._runtime.once import once
from podium._runtime.threads import over_queries
from podium.data.sharding.shard import Shard

if TYPE_CHECKING:
    from podium.objectives.cuda.form import CudaObjective
    from podium.objectives.device import DeviceObjective

NORMALIZATIONS = ("lightgbm", "xgboost")  # of lambdas, per query


@dataclass(frozen=True)
class Objective:
    """The frame of all objectives: a name, settings as fields, and `bind`."""

    name: ClassVar[str] = ""
    # "exact": the second derivative of the loss; "surrogate": a positive number in its place where it is 0 or negative
    hessian: ClassVar[Literal["exact", "surrogate"]] = "exact"
    needs_pairs: ClassVar[bool] = True  # whether a query with a single label teaches nothing
    bound_class: ClassVar[type[BoundObjective]]  # declared there, by `of=`

    @property
    def takes_pairs(self) -> bool:
        """Whether given pairs can take the place of labels."""
        return False

    @property
    def has_loss(self) -> bool:
        """Whether there is a `loss` with these derivatives."""
        return True

    @property
    def is_smooth(self) -> bool:
        """Whether the gradients are the derivatives of `loss` at all scores, so that losses can be compared."""
        return self.has_loss

    @property
    def is_random(self) -> bool:
        """Whether random numbers are drawn anew in every iteration (`begin`)."""
        return False

    @property
    def adds_up(self) -> bool:
        """Whether the derivatives of a query are the same whatever other queries there are."""
        return True

    def bind(
        self,
        labels: Any,
        offsets: Any,
        weights: Any = None,
        query_weights: Any = None,
        n_jobs: int | None = None,
        shard: Shard | None = None,
    ) -> BoundObjective:
        """The objective on one data set.

        labels (n,), offsets (queries + 1,). `weights` (n,) are document weights: they multiply a document's own terms,
        and a pair counts by the product of its two. `query_weights` (queries,) multiply everything of a query.
        `shard`: these are some of the queries; all ranks bind theirs, and call what depends on all of them together.
        """
        return self.bound(bind_labels(labels, offsets, weights, query_weights, shard), n_jobs)

    def bound(self, data: BoundLabels, n_jobs: int | None) -> BoundObjective:
        """What `bind` returns, for labels that are checked."""
        return self.bound_class(self, data, n_jobs)


@dataclass(frozen=True, eq=False)
class BoundLabels:
    """What an objective is bound to, checked and read-only."""

    labels: Array  # (n,) float64
    offsets: Array  # (queries + 1,) int64
    weights: Array  # (n,) float64, or (0,) where all are 1
    query_weights: Array  # (queries,) float64
    shard: Shard | None = None  # of which queries these are, where other ranks have the others

    @property
    def n_queries(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    @property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def row_weights(self) -> Array:
        """(n,): the weight of each document times that of its query."""
        of_query = np.repeat(self.query_weights, self.lengths)
        return readonly(of_query * self.weights if len(self.weights) else of_query)

    @property
    def mean_weights(self) -> Array:
        """(queries,) the mean weight of a query's documents; 0 for a query without any."""
        if len(self.weights) == 0:
            return (self.lengths > 0).astype(np.float64)
        query = np.repeat(np.arange(self.n_queries), self.lengths)
        sums = np.bincount(query, weights=self.weights, minlength=self.n_queries)
        return np.asarray(sums / np.maximum(self.lengths, 1))

    # What depends on all queries is the same number on every rank.

    def exact_sum(self, values: Array) -> float:
        """The sum of values of rows, queries or pairs, over all of them."""
        return exact_sum(values) if self.shard is None else self.shard.exact_sum(values)

    @once
    def first_rows(self) -> Array:
        """(queries,) the number of each query's first row among all rows: what random draws are counted by."""
        return readonly(self.offsets[:-1] if self.shard is None else self.shard.first_rows)

    @once
    def grades(self) -> Array:
        """All different labels, rising."""
        grades = np.unique(self.labels)
        return grades if self.shard is None else np.unique(np.concatenate(self.shard.collective.gather(grades)))

    @property
    def largest_label(self) -> float:
        return float(self.grades.max(initial=0.0))


class Outputs(NamedTuple):
    """What a bound objective fills: gradients and hessians (n,) float32, or costs (queries,), unless they are None."""

    gradients: Array
    hessians: Array
    costs: Array | None


class PairTable(NamedTuple):
    """The pairs of one query, and what each adds to the derivatives: arrays (pairs,), rows counted in the query.

    `lambda = factor delta slope` is subtracted from the gradient of `upper`, the document that the pair raises, and
    added to that of `lower`; both hessians grow by `hessian`.
    """

    upper: Array
    lower: Array
    slope: Array  # -dC/do of the pair loss; rho = 1 / (1 + exp(sigma o)) if it is logistic
    delta: Array  # |dZ|: how much the metric changes when the two swap ranks; 1 where there is no metric
    factor: Array  # sigma, weights and normalisations
    hessian: Array

    @property
    def lambdas(self) -> Array:
        return np.asarray(self.factor * self.delta * self.slope)


Lists = tuple[Array, ...]  # what a kernel reads of the rows and the queries: scores first, offsets last


class BoundObjective:
    """An objective on one data set; a subclass names its class: `class BoundPoisson(BoundObjective, of=Poisson)`."""

    def __init_subclass__(cls, of: type[Objective] | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if of is not None:
            of.bound_class = cls

    def __init__(self, objective: Objective, data: BoundLabels, n_jobs: int | None = None) -> None:
        self.objective, self.data, self.n_jobs = objective, data, n_jobs
        self.labels, self.offsets, self.query_weights = data.labels, data.offsets, data.query_weights
        self.n_queries = data.n_queries
        self._all_queries = readonly(np.arange(self.n_queries, dtype=np.int64))
        self.has_loss, self.is_smooth, self.is_random = objective.has_loss, objective.is_smooth, objective.is_random
        self.adds_up = objective.adds_up

    @property
    def total_weight(self) -> float:
        """What the loss is divided by to become a mean, so that no multiple of the weights changes it.

        Of listwise objectives, the sum of the queries' weights, each times the mean weight of its documents; of
        pointwise objectives the sum of the documents' weights, of pairwise ones that of the pairs'.
        """
        return self.data.exact_sum(self.data.query_weights * self.data.mean_weights)

    def derivatives(self, scores: Array, gradients: Array, hessians: Array, queries: Array | None = None) -> None:
        """Fill the float32 arrays `gradients` and `hessians` (n,); with `queries` only the rows of those queries."""
        scores, chosen = self._scores(scores), self._chosen(queries)
        self._refuse_bad_scores(scores, chosen)
        for name, array in (("gradients", gradients), ("hessians", hessians)):
            self._check_output(name, array)
        out = Outputs(gradients, hessians, None)
        self._share_out(chosen, lambda part: self.run(scores, part, out))

    def loss(self, scores: Array) -> float:
        """The loss that these are the derivatives of, summed over all queries."""
        if not self.has_loss:
            raise ValueError(f"{self.objective} has derivatives but no loss. Check has_loss first.")
        scores, costs, none = self._scores(scores), np.zeros(self.n_queries), np.empty(0, np.float32)
        out = Outputs(none, none, costs)
        self._refuse_bad_scores(scores, self._all_queries)
        self._share_out(self._all_queries, lambda part: self.run(scores, part, out))
        return self.data.exact_sum(costs)

    def pair_table(self, scores: Array, query: int) -> PairTable | None:
        """The pairs whose lambdas add up to minus the gradients of a query; None: the gradients are no such sums.

        Every pair is written out, so this is for a few documents, and to be read.
        """
        return None

    def on_device(self) -> DeviceObjective | None:
        """The gradients at the current iteration for another device; None: they are computed on the host only."""
        return None

    def on_cuda(self) -> CudaObjective | None:
        """The derivatives as a kernel for an NVIDIA GPU, with the bits of `run`; None: there is no such kernel."""
        return None

    def _document_weights(self) -> dict[str, Array]:
        return {"document_weight": self.data.weights} if len(self.data.weights) else {}

    def start(self) -> float:
        """The constant score to start from: the best one for pointwise losses, 0 where only differences count."""
        return 0.0

    def begin(self, iteration: int) -> None:
        """Set the number of the next iteration; only objectives that draw random numbers use it.

        What is drawn depends on the seed and this number alone, so training can be resumed anywhere.
        """
        return None

    def run(self, scores: Array, queries: Array, out: Outputs) -> None:
        """Write the rows of these queries; called from several threads at once, each with other queries."""
        raise NotImplementedError(f"{type(self).__name__} must define run(scores, queries, out)")

    def work(self, lengths: Array) -> Array:
        """About how long lists of these lengths take, counted in rows: it decides how threads share them."""
        return lengths

    def effort(self, queries: Array) -> Array:
        """About how long these queries take."""
        return self.work(self.data.lengths[queries])

    def _share_out(self, queries: Array, work: Callable[[Array], None]) -> None:
        effort = self.effort(queries)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(effort, dtype=np.int64)])
        over_queries(lambda first, last: work(queries[first:last]), ends, self.n_jobs)

    def _rows_of_query(self, scores: Array, query: int) -> tuple[Array, Array, Array]:
        """Scores, labels and document weights of one query."""
        rows, checked = slice(int(self.offsets[query]), int(self.offsets[query + 1])), self._scores(scores)
        self._refuse_bad_scores(checked, self._chosen(np.array([query])))
        weights = self.data.weights[rows] if len(self.data.weights) else np.ones(rows.stop - rows.start)
        return checked[rows], self.labels[rows], weights

    def _scores(self, scores: Array) -> Array:
        numbers = np.ascontiguousarray(scores, dtype=np.float64)
        if numbers.shape != self.labels.shape:
            raise ValueError(
                f"scores must have one number per row, shape {self.labels.shape}; got shape {numbers.shape}."
            )
        return readonly(numbers)

    def _chosen(self, queries: Array | None) -> Array:
        if queries is None:
            return self._all_queries
        chosen = np.ascontiguousarray(queries)
        if chosen.size == 0:
            return self._all_queries[:0]
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise ValueError(f"queries must be a list of query numbers; got {chosen.dtype} of shape {chosen.shape}.")
        if chosen.min() < 0 or chosen.max() >= self.n_queries:
            raise ValueError(f"queries must be in 0..{self.n_queries - 1}; got {chosen.min()}..{chosen.max()}.")
        return readonly(chosen.astype(np.int64, copy=False))

    def _refuse_bad_scores(self, scores: Array, queries: Array) -> None:
        row = int(_first_bad_row(scores, self.offsets, queries))
        if row >= 0:
            raise ValueError(
                f"scores must be finite; that of row {row + 1} is {scores[row]}. "
                "If they come from training, it diverged: use a smaller learning rate."
            )

    def _check_output(self, name: str, array: Array) -> None:
        fits = isinstance(array, np.ndarray) and array.dtype == np.float32 and array.shape == self.labels.shape
        if not (fits and array.flags.c_contiguous and array.flags.writeable):
            described = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise ValueError(
                f"{name} is filled in place: expected a writeable, contiguous float32 array of shape "
                f"{self.labels.shape}; got {described}."
            )


def bind_labels(
    labels: Any, offsets: Any, weights: Any = None, query_weights: Any = None, shard: Shard | None = None
) -> BoundLabels:
    """Check and freeze what an objective is bound to."""
    labels = _numbers("labels", labels)
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    _check_offsets(offsets, len(labels))
    n_queries = len(offsets) - 1
    documents = np.empty(0) if weights is None else _weights("weights", weights, len(labels), "document")
    queries = np.ones(n_queries)
    if query_weights is not None:
        queries = _weights("query_weights", query_weights, n_queries, "query")
    labels, offsets, documents, queries = map(readonly, (labels, offsets, documents, queries))
    return BoundLabels(labels, offsets, documents, queries, shard)


def check_positive(what: str, value: Any) -> None:
    """Refuse a setting that must be a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise ValueError(f"{what} must be a positive number; got {value!r}.")


def check_fraction(what: str, value: Any) -> None:
    """Refuse a setting that must be a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ValueError(f"{what} must be a number from 0 to 1; got {value!r}.")


def refuse_negative_labels(name: str, labels: Array) -> None:
    """For objectives with gains: a label below 0 would gain less than nothing."""
    if labels.min(initial=0.0) < 0:
        row = int(labels.argmin())
        raise ValueError(
            f"{name}: labels must not be negative; labels[{row}] is {labels[row]:g}. Add a constant to all of them."
        )


def _check_offsets(offsets: Array, n: int) -> None:
    if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        ends = f"go from {offsets[0]} to {offsets[-1]}" if offsets.ndim == 1 and len(offsets) else "are not a list"
        raise ValueError(f"offsets must rise from 0 to the number of labels, {n}; they {ends}.")
    falls = np.flatnonzero(np.diff(offsets) < 0)
    if len(falls):
        q = int(falls[0])
        raise ValueError(f"offsets must rise; they fall from {offsets[q]} to {offsets[q + 1]} at query {q}.")


def _numbers(name: str, values: Any) -> Array:
    array: Array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat list of numbers; got shape {array.shape}.")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise ValueError(f"{name} must be finite; {name}[{bad[0]}] is {array[bad[0]]}.")
    return array


def _weights(name: str, values: Any, n: int, owner: str) -> Array:
    array = _numbers(name, values)
    if len(array) != n:
        raise ValueError(f"{name} must have one number per {owner}, {n}; got {len(array)}.")
    if array.min(initial=0.0) < 0:
        worst = int(array.argmin())
        raise ValueError(f"{name} must not be negative; {name}[{worst}] is {array[worst]:g}.")
    return array


@kernel
def _first_bad_row(scores: Array, offsets: Array, queries: Array) -> int:
    """The first row of these queries whose score is not finite, or -1."""
    for k in range(len(queries)):
        for row in range(offsets[queries[k]], offsets[queries[k] + 1]):
            if not np.isfinite(scores[row]):
                return row
    return -1
