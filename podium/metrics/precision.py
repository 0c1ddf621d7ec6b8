"""Average precision: the mean, over a query's relevant documents, of the precision at their ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.additive import relevant_totals
from podium.metrics.base import RelevanceMetric
from podium.metrics.closed_forms import PRECISION, ClosedForm, inverse
from podium.metrics.lists import RankedLists
from podium.metrics.measures.profiles import Profile


@dataclass(frozen=True)
class AveragePrecision(RelevanceMetric):
    """AP@k; its mean over queries is MAP. Relevant documents that are not found count as precision 0.

    With sample weights it is the weighted mean of the precisions. Under a policy that averages ties, equal scores
    are one threshold, as in scikit-learn's `average_precision_score`.
    """

    base_name: ClassVar[str] = "map"
    cut_by_policy: ClassVar[bool] = True

    empty: float | None = None  # overrides the policy's value of a query with nothing relevant

    def values(self, lists: RankedLists) -> Array:
        if lists.average_ties and self.cutoff is not None:
            raise ValueError(
                f"{self.name}: a cutoff is not supported when ties are averaged (policy {self.policy.name!r})."
            )
        if lists.is_sparse and self.threshold > 0:
            return self._ratio(Profile.of(lists, self.threshold).precisions.down_to(self.cutoff), self.divisors(lists))
        key = AveragePrecision, self.threshold, self.top(lists.longest)
        if key not in lists.memo:
            lists.memo[key] = self._sums(lists)
        sums, totals = lists.memo[key]
        return self._ratio(sums, self.divisors(lists, totals if lists.judged is None else None))

    def _ratio(self, sums: Array, divisors: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(divisors > 0, sums / divisors, self.empty_value())

    def _sums(self, lists: RankedLists) -> tuple[Array, Array]:
        """The sums of precisions, and the weights of the relevant documents of the lists."""
        weights = np.empty(0) if lists.weights is None else lists.weights
        tied = lists.tied if lists.average_ties and lists.tied is not None else np.empty(0, np.bool_)
        arrays = readonly(lists.labels), readonly(weights), readonly(tied), readonly(lists.offsets)
        cutoff, sums, totals = self.top(lists.longest), np.empty(lists.n_queries), np.empty(lists.n_queries)

        def work(first: int, last: int) -> None:
            _precision_sums(arrays, self.threshold, cutoff, lists.judged is None, (first, last), sums, totals)

        over_queries(work, lists.offsets)
        return sums, totals

    def empty_value(self) -> float:
        return self.policy.empty_average_precision if self.empty is None else self.empty

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.average_ties or lists.weights is not None:
            return None
        scales = inverse(self.divisors(lists))
        return ClosedForm(PRECISION, self.top(lists.longest), lists.labels >= self.threshold, scales)

    def divisors(self, lists: RankedLists, totals: Array | None = None) -> Array:
        """What the sum of precisions is divided by, per query; `totals`: the relevant documents, where known."""
        if totals is None:
            totals = relevant_totals(lists, self.threshold)
        if self.policy.average_precision == "cutoff" and self.cutoff is not None:
            totals = np.minimum(totals, self.cutoff)
        return totals


@kernel
def _precision_sums(
    arrays: tuple[Array, ...],
    threshold: float,
    cutoff: int,
    counts: bool,
    queries: tuple[int, int],
    sums: Array,
    totals: Array,
) -> None:
    """Sum of weight x precision over relevant places above the cutoff, and the weight of all that are relevant.

    A run of ties has the precision at its end. Empty `weights` means 1 each, empty `tied` no ties. Unless it `counts`,
    nothing is read below the cutoff, and the weight is not that of all.
    """
    labels, weights, tied, offsets = arrays
    first, last = queries
    for q in range(first, last):
        start, top = offsets[q], min(cutoff, offsets[q + 1] - offsets[q])
        total, relevant, hits, waiting = 0.0, 0.0, 0, 0.0
        for rank in range(offsets[q + 1] - start if counts else top):
            if labels[start + rank] >= threshold:
                hits += 1
                weight = weights[start + rank] if len(weights) else 1.0
                relevant += weight
                waiting += weight
            if waiting > 0 and rank < top and (len(tied) == 0 or rank + 1 == top or not tied[start + rank + 1]):
                total += waiting * hits / (rank + 1)
                waiting = 0.0
        sums[q], totals[q] = total, relevant
