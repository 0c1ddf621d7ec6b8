"""Collectives: what the ranks of a training tell each other.

A rank is one of the processes, or threads, that train together; each has some of the rows. All ranks call the same
operations in the same order, and every operation gives all of them the same numbers. Sums are of integers, so that
neither the number of ranks nor the order in which they are heard can change a bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any, Protocol, TypeVar

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.threads import threads_for

Result = TypeVar("Result")

TIMEOUT = 30.0  # seconds that a rank waits for the others


class CollectiveError(RuntimeError):
    """A rank was lost, or has not answered in time, or asked for something else than this one."""


class Collective(Protocol):
    """One rank's end of the connection. Arrays that are passed may be changed afterwards; results are the caller's."""

    rank: int
    size: int

    def sum(self, values: Array) -> Array:
        """The sums over the ranks of int64 arrays of one shape, element by element."""

    def largest(self, values: Array) -> Array:
        """The largest over the ranks of arrays of one shape, float64 or int64, element by element."""

    def scatter_sum(self, values: Array, ends: Array) -> Array:
        """This rank's part of the sum of flat int64 arrays: rank r gets elements ends[r]..ends[r + 1]."""

    def gather(self, values: Array) -> list[Array]:
        """The flat array of each rank, in their order; of one type, but of any length."""


class SoloCollective:
    """One rank alone."""

    rank, size = 0, 1

    def sum(self, values: Array) -> Array:
        return values

    def largest(self, values: Array) -> Array:
        return values

    def scatter_sum(self, values: Array, ends: Array) -> Array:
        return values

    def gather(self, values: Array) -> list[Array]:
        return [values]


class ThreadGroup:
    """Ranks that are threads of one process."""

    def __init__(self, size: int, timeout: float = TIMEOUT) -> None:
        self.size, self.timeout = size, timeout
        self._barrier = threading.Barrier(size)
        # Two places for each rank, used in turn: who writes for the next operation but one has waited for all who read.
        self._places: list[list[Any]] = [[None] * size, [None] * size]

    def collective(self, rank: int) -> ThreadCollective:
        return ThreadCollective(self, rank)

    def run(self, work: Callable[[Collective], Result]) -> list[Result]:
        """`work(collective)` on one thread per rank; if it fails on one, that error ends the others, and is raised."""
        first: list[BaseException] = []

        def run_rank(rank: int) -> Result:
            try:
                return work(self.collective(rank))
            except BaseException as error:
                first.append(error)
                self._barrier.abort()
                raise

        with threads_for(self.size, "podium-rank") as threads:
            futures = [threads.submit(run_rank, rank) for rank in range(self.size)]
            wait(futures)
        if first:
            raise first[0]
        return [future.result() for future in futures]

    def exchange(self, rank: int, turn: int, message: Any) -> list[Any]:
        """The messages of all ranks, once all of them are there."""
        places = self._places[turn % 2]
        places[rank] = message
        try:
            self._barrier.wait(self.timeout)
        except threading.BrokenBarrierError:
            problem = f"rank {rank}: another rank has failed, or has not answered within {self.timeout:g} s"
            raise CollectiveError(f"{problem}.") from None
        return list(places)


class ThreadCollective:
    """A rank that is a thread."""

    def __init__(self, group: ThreadGroup, rank: int) -> None:
        self.rank, self.size = rank, group.size
        self._group, self._turn = group, 0

    def sum(self, values: Array) -> Array:
        return np.asarray(np.add.reduce(self._exchange("sum", values)))

    def largest(self, values: Array) -> Array:
        return np.asarray(np.maximum.reduce(self._exchange("largest", values)))

    def scatter_sum(self, values: Array, ends: Array) -> Array:
        part = slice(int(ends[self.rank]), int(ends[self.rank + 1]))
        return np.asarray(np.add.reduce([array[part] for array in self._exchange("scatter_sum", values)]))

    def gather(self, values: Array) -> list[Array]:
        return self._exchange("gather", values)

    def _exchange(self, operation: str, values: Array) -> list[Array]:
        check_message(operation, values)
        self._turn += 1
        messages = self._group.exchange(self.rank, self._turn, (operation, values.copy()))
        for rank, (theirs, array) in enumerate(messages):
            refuse_other_message(self.rank, (operation, values), rank, (theirs, array))
        return [array for _, array in messages]


_TYPES = {"sum": ("int64",), "scatter_sum": ("int64",), "largest": ("int64", "float64")}


def check_message(operation: str, values: Array) -> None:
    """Refuse an array that the operation does not take."""
    types = _TYPES.get(operation)
    if types is not None and values.dtype.name not in types:
        raise ValueError(f"{operation} takes arrays of {' or '.join(types)}; got {values.dtype}.")
    if operation in ("gather", "scatter_sum") and values.ndim != 1:
        raise ValueError(f"{operation} takes flat arrays; got shape {values.shape}.")


def refuse_other_message(rank: int, ours: tuple[str, Array], other: int, theirs: tuple[str, Array]) -> None:
    """Refuse an array of another rank that does not go with that of this one."""
    (operation, values), (their_operation, their_values) = ours, theirs
    fits = operation == their_operation and values.dtype == their_values.dtype
    if fits and (operation == "gather" or values.shape == their_values.shape):
        return
    described = [f"{name} of {array.dtype} {array.shape}" for name, array in (ours, theirs)]
    raise CollectiveError(f"rank {rank} asks for {described[0]}, rank {other} for {described[1]}: they do not agree.")
