"""Given pairs: two documents of a query, the probability that the first one is the better, and a weight.

They take the place of labels. Pairs that follow from labels are never stored; these are, each once, query by query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.words import counted
from podium.data.query_ids import offsets_of
from podium.data.weights import scaled_weights


@dataclass(frozen=True, eq=False)
class GivenPairs:
    """Pairs of documents, by grouped rows and sorted by query; in a query they have the order they were given in."""

    first: Array  # (pairs,) int64: grouped rows
    second: Array  # (pairs,) int64, of the same query
    target: Array  # (pairs,) float64: the probability that the first document is the better one
    weight: Array  # (pairs,) float64, not negative; as it is read, the mean of the positive ones is 1
    starts: Array  # (queries + 1,) int64: query q has pairs starts[q]:starts[q + 1]

    @staticmethod
    def read(pairs: Any, order: Array, offsets: Array) -> GivenPairs:
        """Check (i, j), (i, j, p) or (i, j, p, weight), whose rows are the caller's; p and weights are 1 if left out.

        order (rows,): the caller's row of each grouped row; offsets (queries + 1,) of these.
        """
        first, second, target, weight = _read_lists(pairs, len(order))
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        query = np.searchsorted(offsets, position, side="right") - 1
        bad = np.flatnonzero((query[first] != query[second]) | (first == second))
        if len(bad):
            rows = f"pair {bad[0]} has rows {first[bad[0]]} and {second[bad[0]]}"
            raise ValueError(f"pairs: a pair must be two documents of one query; {rows}. Leave it out.")
        by_query = np.argsort(query[first], kind="stable")
        starts = offsets_of(np.bincount(query[first], minlength=len(offsets) - 1))
        unsorted = GivenPairs(position[first], position[second], target, weight, starts)
        return unsorted._sorted(by_query, starts)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def n_queries(self) -> int:
        return len(self.starts) - 1

    @property
    def queries(self) -> Array:
        """(pairs,) the number of each pair's query."""
        return np.repeat(np.arange(self.n_queries), np.diff(self.starts))

    def take(self, numbers: Array) -> GivenPairs:
        """The pairs with these rising numbers."""
        counts = np.bincount(self.queries[numbers], minlength=self.n_queries)
        return self._sorted(numbers, offsets_of(counts))

    def _sorted(self, numbers: Array, starts: Array) -> GivenPairs:
        names = "first", "second", "target", "weight"
        parts = {name: readonly(np.ascontiguousarray(getattr(self, name)[numbers])) for name in names}
        return GivenPairs(**parts, starts=readonly(starts))

    def weighted(self, sample_weight: Array | None, query_weight: Array | None) -> GivenPairs:
        """Each weight times those of both documents (grouped) and of the query; None: all are 1."""
        weight = self.weight
        if sample_weight is not None:
            weight = weight * sample_weight[self.first] * sample_weight[self.second]
        if query_weight is not None:
            weight = weight * query_weight[self.queries]
        if not weight.any():
            problem = "pairs: times the weights of documents and queries, the weight of every pair is 0"
            raise ValueError(f"{problem}, so there is nothing to learn from. At least one must be above 0.")
        return replace(self, weight=readonly(weight))

    def directed(self) -> tuple[Array, Array, Array, Array]:
        """Rows of the better and of the worse document, weights, starts: each pair in both directions.

        As i above j it has weight p w, as j above i (1 - p) w; what has weight 0 is left out.
        """
        better, worse = _in_turn(self.first, self.second), _in_turn(self.second, self.first)
        weight = _in_turn(self.target * self.weight, (1.0 - self.target) * self.weight)
        counts = np.flatnonzero(weight > 0)
        if not len(counts):
            raise ValueError("pairs: the weight of every pair is 0, so there is nothing to learn from.")
        starts = offsets_of(np.bincount(np.repeat(self.queries, 2)[counts], minlength=self.n_queries))
        return better[counts], worse[counts], weight[counts], starts


def _in_turn(one: Array, other: Array) -> Array:
    """one[0], other[0], one[1], other[1], ..."""
    return np.stack([one, other], axis=1).reshape(-1)


def _read_lists(pairs: Any, n_rows: int) -> tuple[Array, Array, Array, Array]:
    """The lists (i, j, p, weight), each checked alone."""
    if not isinstance(pairs, Sequence) or isinstance(pairs, (str, bytes)) or len(pairs) not in (2, 3, 4):
        expected = "pairs must be (i, j), (i, j, p) or (i, j, p, weight), one list each"
        got = counted(len(pairs), "list") if isinstance(pairs, (tuple, list)) else type(pairs).__name__
        raise ValueError(f"{expected}; got {got}.")
    first, second = (_row_numbers(name, part, n_rows) for name, part in zip("ij", pairs))
    target, weight = np.ones(len(first)), np.ones(len(first))
    if len(pairs) > 2:
        target = _numbers("p", pairs[2], "from 0 to 1", 1.0)
    if len(pairs) > 3:
        weight = _numbers("weight", pairs[3], "finite and not negative", np.finfo(np.float64).max)
    shapes = [part.shape for part in (first, second, target, weight)]
    if len(set(shapes)) > 1:
        raise ValueError(f"pairs: i, j, p and weight must be as long as one another; got shapes {shapes}.")
    if not weight.any():
        number = "the weight of every pair is 0" if len(weight) else "there are 0 pairs"
        raise ValueError(f"pairs: {number}, so there is nothing to learn from. At least one must have a weight.")
    return first, second, target, np.asarray(scaled_weights(weight, "weight"))


def _row_numbers(name: str, part: Any, n_rows: int) -> Array:
    numbers = np.asarray(part)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"pairs: {name} must be a list of row numbers; got {numbers.dtype} of shape {numbers.shape}.")
    bad = np.flatnonzero((numbers < 0) | (numbers >= n_rows))
    if len(bad):
        rows = f"row numbers of X, from 0 to {n_rows - 1} ({counted(n_rows, 'row')})"
        raise ValueError(f"pairs: {name} must be {rows}; {name}[{bad[0]}] is {numbers[bad[0]]}.")
    return numbers.astype(np.int64)


def _numbers(name: str, part: Any, allowed: str, most: float) -> Array:
    try:
        numbers = np.asarray(part)
        if numbers.dtype.kind == "c":
            raise ValueError("complex numbers have no order")
        numbers = numbers.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"pairs: {name} must hold one number per pair; {error}.") from error
    bad = np.flatnonzero(~((numbers >= 0) & (numbers <= most)))
    if len(bad):
        raise ValueError(f"pairs: {name} must be {allowed}; {name}[{bad[0]}] is {numbers.reshape(-1)[bad[0]]}.")
    return np.asarray(numbers)
