"""Compatibility: how much of the best order is near the top of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.base import KernelMetric, refuse_averaged_ties, refuse_weights
from podium.metrics.lists import RankedLists, heads, sort_descending

Lists = tuple[Array, Array, Array, Array]  # labels in ranked order, their offsets, labels in the best order, offsets


@dataclass(frozen=True)
class Compatibility(KernelMetric):
    """Rank-biased overlap with the best order of documents with a label above 0: `compat(0.95)`.

    Among equal labels the best order is that of the list, documents that it lacks being last. The overlap is divided by
    that of the best order with itself unless `normalize=false`. (Clarke, Vtyurina and Smucker, TOIS 2021.)
    """

    base_name: ClassVar[str] = "compat"
    positional: ClassVar[str] = "persistence"

    persistence: float = 0.95
    normalize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.persistence < 1:
            raise ValueError(f"compat: persistence must be between 0 and 1; got {self.persistence!r}.")

    def values(self, lists: RankedLists) -> Array:
        refuse_averaged_ties(self, lists)
        refuse_weights(self, lists)
        labels, offsets = heads(lists.labels, lists.offsets, self.cutoff)
        ideal, ends = sort_descending(*lists.all_judged)
        arrays: Lists = readonly(labels), readonly(offsets), readonly(ideal), readonly(ends)
        out = np.empty(lists.n_queries)
        over_queries(
            lambda first, last: _overlaps(arrays, self.persistence, self.normalize, first, last, out), readonly(offsets)
        )
        return out


@kernel
def _overlaps(lists: Lists, persistence: float, normalize: bool, first: int, last: int, out: Array) -> None:
    """out[q]: `sum p^(d-1) |best d of both| / d`, over the weights p^(d-1), or over the same of the best order."""
    labels, offsets, ideal, ends = lists
    for q in range(first, last):
        n, graded = offsets[q + 1] - offsets[q], 0
        while ends[q] + graded < ends[q + 1] and ideal[ends[q] + graded] > 0:
            graded += 1
        depth = max(n, graded)
        joins = _joining_depths(labels[offsets[q] : offsets[q + 1]], ideal[ends[q] : ends[q] + graded], depth)
        total, best, weights, weight, both = 0.0, 0.0, 0.0, 1.0, 0
        for d in range(1, depth + 1):
            both += joins[d]
            total += weight * both / d
            best += weight * min(d, graded) / d
            weights += weight
            weight *= persistence
        divisor = best if normalize else weights
        out[q] = total / divisor if divisor > 0 and graded > 0 else 0.0


@kernel
def _joining_depths(labels: Array, ideal: Array, depth: int) -> Array:
    """joins[d]: how many documents are in the first d of both orders, but not in the first d - 1 of both."""
    joins = np.zeros(depth + 1, np.int64)
    start = 0
    while start < len(ideal):  # one level of labels after the other
        end = start
        while end < len(ideal) and ideal[end] == ideal[start]:
            end += 1
        slot = start
        for rank in range(len(labels)):
            if labels[rank] == ideal[start] and slot < end:
                joins[max(rank, slot) + 1] += 1
                slot += 1
        start = end
    return joins
