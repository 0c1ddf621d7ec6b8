"""Sums over the first documents of each list: one pass over documents serves every cutoff."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import over_queries
from podium.metrics.lists import Places


@dataclass(frozen=True, eq=False)
class PrefixSums:
    """Sums over some documents of each list."""

    places: Places
    sums: Array  # one per place: values down to it

    @classmethod
    def of_weighted(cls, values: Array, weights: Array, places: Places) -> PrefixSums:
        """Sums of values, each times the weight of its rank."""
        values, weights, sums = readonly(values), readonly(weights), np.empty(len(values))
        ranks, ends = places.ranks, places.ends
        over_queries(
            lambda first, last: _add_weighted(values, weights, ranks, ends, first, last, sums), ends, cheap=True
        )
        return cls(places, readonly(sums))

    @classmethod
    def of_precisions(cls, places: Places) -> PrefixSums:
        """Sums of precisions at the places of relevant documents."""
        ranks, ends, sums = places.ranks, places.ends, np.empty(len(places.ranks))
        over_queries(lambda first, last: _add_precisions(ranks, ends, first, last, sums), ends, cheap=True)
        return cls(places, readonly(sums))

    def down_to(self, cutoff: int | None) -> Array:
        """The sums over ranks down to the cutoff, one per query."""
        counts = np.diff(self.places.ends) if cutoff is None else self.places.below(cutoff)
        out, some = np.zeros(len(counts)), counts > 0
        out[some] = self.sums[(self.places.ends[:-1] + counts - 1)[some]]
        return out


@kernel
def _add_weighted(values: Array, weights: Array, ranks: Array, ends: Array, first: int, last: int, sums: Array) -> None:
    for q in range(first, last):
        total = 0.0
        for k in range(np.uint64(ends[q]), np.uint64(ends[q + 1])):
            total += values[k] * weights[np.uint64(ranks[k])]
            sums[k] = total


@kernel
def _add_precisions(ranks: Array, ends: Array, first: int, last: int, sums: Array) -> None:
    for q in range(first, last):
        total = 0.0
        for k in range(ends[q], ends[q + 1]):
            total += (k - ends[q] + 1) / (ranks[k] + 1)
            sums[k] = total
