"""Cascade metrics: a user reads from the top and stops, with some probability, at each rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from podium._runtime.compiler import kernel, readonly
from podium.metrics.base import KernelMetric, refuse_averaged_ties, refuse_labels_above_rmax, refuse_weights, rmax_note
from podium.metrics.closed_forms import CASCADE, FIRST, ClosedForm
from podium.metrics.lists import RankedLists, heads


@dataclass(frozen=True)
class ReciprocalRank(KernelMetric):
    """RR@k: 1 / rank of the first relevant document, 0 if there is none in the first k. Its mean is MRR."""

    spelling: ClassVar[str] = "rr"

    relevant: float | None = None

    @property
    def threshold(self) -> float:
        return self.policy.relevant if self.relevant is None else self.relevant

    def values(self, lists: RankedLists) -> np.ndarray:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        out = np.empty(lists.n_queries)
        _first_places(readonly(labels >= self.threshold), readonly(offsets), out)
        return out

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.average_ties or lists.weights is not None:
            return None
        return ClosedForm(FIRST, self.top(lists.longest), lists.labels >= self.threshold, np.ones(lists.n_queries))

    def swaps(self, ranked_labels: np.ndarray, i: int) -> np.ndarray:
        """Only the first relevant place counts: it changes when i is it, or comes to be it."""
        relevant = np.asarray(ranked_labels) >= self.threshold
        n, top = len(relevant), self.top(len(relevant))
        value = np.where(np.arange(1, n + 2) <= top, 1.0 / np.arange(1, n + 2), 0.0)  # of each first place; none = n
        places = np.append(np.flatnonzero(relevant), [n, n])
        first, second, later = places[0], places[1], np.arange(i + 1, n)
        if i > first:
            return np.zeros(n - i - 1)
        if i == first:  # it falls to j, unless j is relevant too; the second relevant place may now come first
            return np.where(relevant[later], 0.0, value[np.minimum(second, later)] - value[first])
        return np.where(relevant[later], value[i] - value[first], 0.0)


@dataclass(frozen=True)
class ERR(KernelMetric):
    """Expected reciprocal rank: `sum 1/i * R_i * prod_(j < i) (1 - R_j)` with `R = (2^r - 1) / 2^rmax`.

    `rmax` is the largest label of the evaluated data unless given.
    """

    spelling: ClassVar[str] = "err"

    rmax: float | None = None

    def resolve(self, largest_label: float) -> Self:
        return self if self.rmax is not None else replace(self, rmax=largest_label)

    def notes(self) -> tuple[str, ...]:
        return rmax_note(self.rmax)

    def stops(self, labels: np.ndarray) -> np.ndarray:
        """The probability that the user stops at each label."""
        rmax = float(np.max(labels, initial=0.0)) if self.rmax is None else self.rmax
        refuse_labels_above_rmax(self, labels, rmax)
        return np.subtract(np.exp2(labels - rmax), np.exp2(-rmax))

    def values(self, lists: RankedLists) -> np.ndarray:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        out = np.empty(lists.n_queries)
        _expected_reciprocal(readonly(self.stops(labels)), readonly(offsets), out)
        return out

    def closed_form(self, lists: RankedLists) -> ClosedForm | None:
        if lists.average_ties or lists.weights is not None:
            return None
        return ClosedForm(CASCADE, self.top(lists.longest), self.stops(lists.labels), np.ones(lists.n_queries))

    def swaps(self, ranked_labels: np.ndarray, i: int) -> np.ndarray:
        """The probability of reaching ranks between i and j changes by one factor; beyond j it is unchanged."""
        labels = np.asarray(ranked_labels, dtype=np.float64)
        n, top = len(labels), self.top(len(labels))
        stop = self.stops(labels)
        inverse_rank = np.where(np.arange(n) < top, 1.0 / np.arange(1, n + 1), 0.0)
        reach = np.concatenate([[1.0], np.cumprod(1.0 - stop)[:-1]])
        terms = np.cumsum(reach * stop * inverse_rank)
        later = slice(i + 1, n)
        factor = (1.0 - stop[later]) / (1.0 - stop[i])  # stop < 1 always: 2^r - 1 < 2^rmax
        own_i = reach[i] * (stop[later] - stop[i]) * inverse_rank[i]
        own_j = reach[later] * (factor * stop[i] - stop[later]) * inverse_rank[later]
        between = terms[i : n - 1] - terms[i]
        changes: np.ndarray = own_i + (factor - 1.0) * between + own_j
        return changes


@kernel
def _first_places(relevant: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    for q in range(len(out)):
        out[q] = 0.0
        for place in range(offsets[q + 1] - offsets[q]):
            if relevant[offsets[q] + place]:
                out[q] = 1.0 / (place + 1)
                break


@kernel
def _expected_reciprocal(stops: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    for q in range(len(out)):
        reach, total = 1.0, 0.0
        for place in range(offsets[q + 1] - offsets[q]):
            stop = stops[offsets[q] + place]
            total += reach * stop / (place + 1)
            reach *= 1.0 - stop
        out[q] = total
