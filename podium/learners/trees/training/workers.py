"""Workers: threads that grow one tree. All run the same kernel, with a barrier before one reads what another wrote.

Between two barriers lie microseconds to milliseconds, and a tree has hundreds. So while a tree grows, workers that
arrive first spin on the shared state; before and after it they block. A worker that has spun for a while yields the
processor, so that other threads are not kept from it.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from podium._atomic import add, give_way, load
from podium._numba import kernel

# The shared state, each entry on a cache line of its own: arrivals at barriers, chunks handed out, whether growth was
# cancelled, and what the first worker has decided.
_ARRIVED, _CHUNKS, _CANCELLED, DECISION = (cast(int, np.int64(8 * line)) for line in range(4))
_LENGTH = 32
_SPINS = 2000  # a few microseconds
_ALL = 2**62


def make_shared_state() -> np.ndarray:
    return np.zeros(_LENGTH, np.int64)


def reset(shared: np.ndarray) -> None:
    """Before a tree, while no worker runs."""
    shared[:] = 0


def cancel(shared: np.ndarray) -> None:
    """Open all barriers; workers that arrive at the first one return at once."""
    shared[_CANCELLED] = 1
    shared[_ARRIVED] = _ALL


@kernel
def is_cancelled(shared: np.ndarray) -> bool:
    """Valid after the first barrier."""
    return bool(shared[_CANCELLED])


@kernel
def barrier(shared: np.ndarray, workers: int, number: int) -> int:
    """Wait until all workers have arrived at this barrier; its number counts from 1. Returns the next number."""
    if workers == 1:
        return number
    add(shared, _ARRIVED, 1)
    spins = 0
    while load(shared, _ARRIVED) < workers * number:
        spins += 1
        if spins > _SPINS:
            give_way()
    return number + 1


@kernel
def next_chunk(shared: np.ndarray) -> int:
    """The number of the next chunk of work, from 0: a slow worker gets fewer."""
    return int(add(shared, _CHUNKS, 1))


@kernel
def reset_chunks(shared: np.ndarray) -> None:
    """Number chunks from 0 again; only between two barriers between which no worker asks for one."""
    shared[_CHUNKS] = 0
