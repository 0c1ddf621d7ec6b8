"""Bin edges and bundles of the rows of all ranks.

Every rank reads its rows of a sample, and sends a few columns of them at a time to all others. Each then finds the
edges of some of the features, from the values of all ranks, and tells the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from podium._runtime.compiler import Array
from podium.data.sharding.collective import Collective

Column = tuple[Array, int]
"""The values of a column in order, NaN last, and how many zeros there are beside them."""


class Columns(Protocol):
    """The columns of a sample."""

    def take(self, first: int, last: int) -> Sequence[Column]:
        """Columns first..last."""


class SharedColumns:
    """The columns of a sample of which every rank has some rows."""

    def __init__(self, columns: Columns, n_features: int, collective: Collective) -> None:
        self.columns, self.n_features, self.collective = columns, n_features, collective
        self.mine: list[int] = []  # features of this rank so far

    def blocks(self, size: int) -> Iterator[tuple[list[int], list[Column]]]:
        """Blocks of this rank's features, with their columns of all rows. All ranks go through theirs together."""
        step, rank = size * self.collective.size, self.collective.rank
        for start in range(0, self.n_features, step):
            last = min(start + step, self.n_features)
            low, high = (min(start + size * k, last) for k in (rank, rank + 1))
            self.mine += range(low, high)
            yield list(range(low, high)), self._gather(start, last)[low - start : high - start]

    def _gather(self, first: int, last: int) -> list[Column]:
        local = self.columns.take(first, last)
        sizes = np.array([(len(values), zeros) for values, zeros in local], np.int64)
        all_sizes = [ranks.reshape(-1, 2) for ranks in self.collective.gather(sizes.ravel())]
        values = np.concatenate([np.empty(0, np.float32), *(values for values, _ in local)])
        parts = self.collective.gather(values)
        pieces = [np.split(part, np.cumsum(sizes[:, 0])[:-1]) for part, sizes in zip(parts, all_sizes)]
        zeros = np.sum([sizes[:, 1] for sizes in all_sizes], axis=0).tolist()
        return [(np.sort(np.concatenate(column)), zeros[k]) for k, column in enumerate(zip(*pieces))]


def share_features(shared: SharedColumns, arrays: Sequence[Array]) -> None:
    """Fill in what other ranks have computed; the first axis of each array is features."""
    features = np.concatenate(shared.collective.gather(np.array(shared.mine, np.int64)))
    for array in arrays:
        ranks = shared.collective.gather(np.ascontiguousarray(array[shared.mine]).ravel())
        array[features] = np.concatenate(ranks).reshape(-1, *array.shape[1:])


def gather_lists(lists: Sequence[Array], n_rows: int, collective: Collective) -> list[Array]:
    """Lists of rows of a sample, one per feature, with those of all ranks; a rank's rows come behind those before it.

    n_rows: of the sample, on this rank.
    """
    if collective.size == 1:
        return list(lists)
    before = np.cumsum([0, *(int(n[0]) for n in collective.gather(np.array([n_rows], np.int64)))])
    lengths = collective.gather(np.array([len(rows) for rows in lists], np.int64))
    parts = collective.gather(np.concatenate([np.empty(0, np.uint32), *lists]).astype(np.uint32))
    parts = [part + np.uint32(start) for part, start in zip(parts, before)]
    pieces = [np.split(part, np.cumsum(sizes)[:-1]) for part, sizes in zip(parts, lengths)]
    return [np.concatenate(rows) for rows in zip(*pieces)]
