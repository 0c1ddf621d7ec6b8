"""Cascade metrics: a user reads from the top and stops, with some probability, at each rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium.metrics.base import (
    KernelMetric,
    RelevanceMetric,
    refuse_averaged_ties,
    refuse_labels_above_rmax,
    refuse_weights,
    rmax_note,
)
from podium.metrics.closed_forms import CASCADE, FIRST, ClosedForm
from podium.metrics.lists import RankedLists, heads
from podium.metrics.measures.profiles import Profile
from podium.metrics.terms import sum_terms


@dataclass(frozen=True)
class ReciprocalRank(RelevanceMetric):
    """RR@k: 1 / rank of the first relevant document, 0 if there is none in the first k. Its mean is MRR."""

    base_name: ClassVar[str] = "rr"

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        if lists.is_sparse and self.threshold > 0:
            return Profile.of(lists, self.threshold).of_first(self.cutoff)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        out = np.empty(lists.n_queries)
        sum_terms(FIRST, readonly((labels >= self.threshold).astype(np.float64)), readonly(offsets), out)
        return out

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.average_ties or lists.weights is not None:
            return None
        return ClosedForm(FIRST, self.top(lists.longest), lists.labels >= self.threshold, np.ones(lists.n_queries))


@dataclass(frozen=True)
class ERR(KernelMetric):
    """Expected reciprocal rank: `sum 1/i * R_i * prod_(j < i) (1 - R_j)` with `R = (2^r - 1) / 2^rmax`.

    `rmax` is the largest label of the evaluated data unless given.
    """

    base_name: ClassVar[str] = "err"

    rmax: float | None = None

    def resolve(self, largest_label: float) -> Self:
        return self if self.rmax is not None else replace(self, rmax=largest_label)

    def notes(self) -> tuple[str, ...]:
        return rmax_note(self.rmax)

    def stops(self, labels: Array) -> Array:
        """The probability that the user stops at each label."""
        rmax = float(np.max(labels, initial=0.0)) if self.rmax is None else self.rmax
        refuse_labels_above_rmax(self, labels, rmax)
        return np.subtract(np.exp2(labels - rmax), np.exp2(-rmax))

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        out = np.empty(lists.n_queries)
        sum_terms(CASCADE, readonly(self.stops(labels)), readonly(offsets), out)
        return out

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.average_ties or lists.weights is not None:
            return None
        return ClosedForm(CASCADE, self.top(lists.longest), self.stops(lists.labels), np.ones(lists.n_queries))
