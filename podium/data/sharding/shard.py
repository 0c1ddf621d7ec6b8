"""Shard: the training rows of one rank, by their numbers among the rows of all ranks.

Rows are numbered as in the grouped data of a single machine: queries in the order of their first rows, the rows of a
query in their order. A query belongs to one rank as a whole, and a rank has its queries in this order too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.exact import exact_sum, on_grid, units_for
from podium._runtime.once import once
from podium.data.sharding.collective import Collective, SoloCollective


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows of one rank; `whole` is the shard of all rows, `join` agrees with the other ranks on the numbers."""

    collective: Collective
    offsets: Array  # (local queries + 1,) int64: as in grouped data, of the local rows
    queries: Array  # (local queries,) int64, rising: the number of each query among all
    first_rows: Array  # (local queries,) int64, rising: the number of its first row among all rows
    n_queries: int  # of all ranks
    n_rows: int
    zeros: Callable[..., Array] = np.zeros  # makes arrays that are as large as the data

    @classmethod
    def whole(cls, offsets: Array) -> Shard:
        """All rows, on one rank."""
        offsets = np.asarray(offsets, dtype=np.int64)
        n_queries = len(offsets) - 1
        return cls(SoloCollective(), offsets, np.arange(n_queries), offsets[:-1], n_queries, int(offsets[-1]))

    @classmethod
    def join(cls, collective: Collective, offsets: Array, queries: Array) -> Shard:
        """The shards of ranks that know their queries' numbers; an error on all of them where these do not fit."""
        offsets, queries = np.asarray(offsets, dtype=np.int64), np.asarray(queries, dtype=np.int64)
        numbers = collective.gather(queries)
        lengths = np.concatenate(collective.gather(np.diff(offsets)))
        everywhere = np.concatenate(numbers)
        if len(everywhere) != len(lengths):
            raise ValueError(f"{len(everywhere)} numbers of queries and {len(lengths)} lengths: one of each per query.")
        if any((np.diff(queries_of_rank) <= 0).any() for queries_of_rank in numbers):
            raise ValueError("the queries of a rank must stand in the order of their numbers.")
        owners = np.bincount(everywhere[everywhere >= 0], minlength=len(everywhere))
        if (everywhere < 0).any() or len(owners) != len(everywhere) or (owners != 1).any():
            raise ValueError(f"the {len(everywhere)} queries of all ranks must be numbered from 0, each on one rank.")
        ends = np.zeros(len(lengths) + 1, np.int64)
        ends[everywhere + 1] = lengths
        ends = np.cumsum(ends)
        return cls(collective, offsets, queries, ends[queries], len(lengths), int(ends[-1]))

    def of_rows(self, mask: Array) -> Shard:
        """The shard of some of the rows, which are numbered as if the others were not there."""
        counts = np.concatenate([[0], np.cumsum(mask)])[self.offsets]
        return Shard.whole(counts) if self.is_whole else Shard.join(self.collective, counts, self.queries)

    @property
    def is_whole(self) -> bool:
        return self.collective.size == 1

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    @once
    def rows(self) -> Array:
        """(local rows,) int64, rising: the number of each row among all rows."""
        return np.asarray(np.arange(self.offsets[-1]) + np.repeat(self.first_rows - self.offsets[:-1], self.lengths))

    def exact_sum(self, values: Array) -> float:
        """`exact_sum` of the values of all ranks, float64."""
        if self.is_whole:
            return exact_sum(values)
        size = np.array([np.abs(values).max(initial=0.0)])
        size[np.isnan(size)] = np.inf  # as a sum would say in its own way
        largest, n = float(self.collective.largest(size)[0]), self.total(len(values))
        if largest == np.inf:
            return np.inf
        units = units_for(largest, n)
        return self.total(int(_sum_on_grid(values, units))) / units

    def total(self, count: int) -> int:
        """The sum of a number of each rank."""
        return int(self.collective.sum(np.array([count], np.int64))[0])

    def any(self, mask: Array) -> Array:
        """Where a mask is True on some rank."""
        return np.asarray(self.collective.largest(np.asarray(mask).astype(np.int64)) > 0)

    def gather_rows(self, values: Array) -> Array:
        """(all rows,) the values of the rows of all ranks, in the order of their numbers; on every rank."""
        if self.is_whole:
            return values
        together = np.concatenate(self.collective.gather(values))
        result = np.empty_like(together)
        result[self._all_rows] = together
        return result

    @once
    def _all_rows(self) -> Array:
        return np.concatenate(self.collective.gather(self.rows))


@kernel
def _sum_on_grid(values: Array, units: float) -> np.int64:
    total = np.int64(0)
    for k in range(len(values)):
        total += on_grid(values[k], units)
    return total
