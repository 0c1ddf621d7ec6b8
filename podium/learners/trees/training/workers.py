"""Workers: threads that grow one tree. All run the same kernel, with a barrier before one reads what another wrote.

Between two barriers lie microseconds to milliseconds, and a tree has hundreds. So a worker that arrives first spins
for a while, which costs less than to sleep and be woken. If the others take longer, they have more to do, or other
processes use their cores: then it sleeps, and leaves its core to whoever needs it. Where that happens all the time, one
worker is faster than several (`Crew`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from podium._runtime.atomic import add, load, sleep, wake
from podium._runtime.compiler import Array, kernel

# The shared state, each entry on a cache line of its own: arrivals at barriers, the last barrier that is open, workers
# that sleep, chunks handed out, whether growth was cancelled, and what the first worker has decided.
_ARRIVED, _OPEN, _SLEEPING, _CHUNKS, _CANCELLED, DECISION = (cast(int, np.int64(8 * line)) for line in range(6))
_LENGTH = 48
_SPINS = 200_000  # some hundred microseconds
_LAST = 2**31 - 1
_BUSY = 0.6  # of the time of all workers, the share that they must have been running
_IN_A_ROW = 3  # trees in which they were not, until one worker is tried
_KEPT = 16  # trees until the other size is tried again


@dataclass
class Crew:
    """How many workers grow the next tree: all of them, or one while other processes use the cores.

    The model does not depend on it. When the workers have waited too much in several trees, one tree is grown by one
    worker, and kept for a while if that took less time than the fastest of those; a single slow tree proves nothing.
    """

    size: int
    _alone: bool = False
    _is_trial: bool = False  # the tree that is grown now is the first by one worker
    _trees_left: int = 0  # until the other size may be tried
    _slow: list[float] = field(default_factory=list)  # times of the last trees in a row that waited too much
    _needed: int = _IN_A_ROW

    @property
    def now(self) -> int:
        return 1 if self._alone else self.size

    def note(self, seconds: float, running: float) -> None:
        """After a tree: how long it took, and the time that its workers ran, added up."""
        self._trees_left -= 1
        if self.size == 1:
            return
        if self._is_trial:
            self._alone, self._is_trial = seconds < min(self._slow), False
            self._trees_left, self._needed = _KEPT, 1 if self._alone else _IN_A_ROW
            self._slow = []
        elif self._alone:
            self._alone = self._trees_left > 0
        else:
            self._slow = [*self._slow, seconds] if running < _BUSY * seconds * self.size else []
            if len(self._slow) >= self._needed and self._trees_left <= 0:
                self._alone = self._is_trial = True


def make_shared_state() -> Array:
    return np.zeros(_LENGTH, np.int64)


def reset(shared: Array) -> None:
    """Before a tree, while no worker runs."""
    shared[:] = 0


def cancel(shared: Array, workers: int) -> None:
    """Open all barriers; workers that arrive at the first one return at once."""
    if workers > 1:
        _cancel(shared)
    else:
        shared[_CANCELLED] = 1  # nobody else looks, and nothing need be compiled


@kernel
def _cancel(shared: Array) -> None:
    """Atomic, so that whoever finds a barrier open also finds that growth was cancelled, on any processor."""
    add(shared, _CANCELLED, 1)
    add(shared, _OPEN, _LAST)
    wake(shared, _OPEN)


@kernel
def is_cancelled(shared: Array) -> bool:
    """Valid after the first barrier, whose atomic load is before this plain one; Python can run it too."""
    return bool(shared[_CANCELLED])


@kernel
def barrier(shared: Array, workers: int, number: int) -> int:
    """Wait until all workers have arrived at this barrier; its number counts from 1. Returns the next number."""
    if workers == 1:
        return number
    if add(shared, _ARRIVED, 1) + 1 == workers * number:  # the last one
        add(shared, _OPEN, 1)
        if load(shared, _SLEEPING) > 0:
            wake(shared, _OPEN)
        return number + 1
    spins = 0
    while load(shared, _OPEN) < number and spins < _SPINS:
        spins += 1
    if spins == _SPINS:
        # before the next look at `_OPEN`: then whoever opens it sees a sleeper, or it is open
        add(shared, _SLEEPING, 1)
        opened = load(shared, _OPEN)
        while opened < number:
            sleep(shared, _OPEN, opened)
            opened = load(shared, _OPEN)
        add(shared, _SLEEPING, -1)
    return number + 1


@kernel
def next_chunk(shared: Array) -> int:
    """The number of the next chunk of work, from 0: a slow worker gets fewer."""
    return int(add(shared, _CHUNKS, 1))


@kernel
def reset_chunks(shared: Array) -> None:
    """Number chunks from 0 again; only between two barriers between which no worker asks for one."""
    shared[_CHUNKS] = 0
