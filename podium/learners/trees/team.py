"""A team of threads that grow one tree: all run the same kernel, and meet before one uses what another has written.

Between two meetings lie microseconds to milliseconds, and a tree has hundreds. So while a tree grows those who arrive
first do not sleep, they look at a board; before and after it they block, and cost nothing. Whoever has looked for a
while in vain lets other threads run first: on a machine that has other things to do nobody is kept waiting by a
spinning one.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from podium._atomic import add, give_way, load
from podium._numba import kernel

# What stands on the board, each on a cache line of its own: how often somebody has come to a meeting, how many pieces
# of work are taken, whether there is no tree to grow after all, and four numbers that the first worker has decided.
_ARRIVED, _TAKEN, _OFF, DECIDED = (cast(int, np.int64(8 * line)) for line in range(4))
_LENGTH = 32
_LOOKS = 2000  # some microseconds
_ALL = 2**62


def make_board() -> np.ndarray:
    return np.zeros(_LENGTH, np.int64)


def clear(board: np.ndarray) -> None:
    """Before a tree, while nobody looks."""
    board[:] = 0


def call_off(board: np.ndarray) -> None:
    """Nobody waits for anybody any more; those who come to the first meeting are told to go home."""
    board[_OFF] = 1
    board[_ARRIVED] = _ALL


@kernel
def is_off(board: np.ndarray) -> bool:
    """To be asked after the first meeting."""
    return bool(board[_OFF])


@kernel
def meet(board: np.ndarray, workers: int, number: int) -> int:
    """Wait until everybody has come to this meeting; its number counts from 1. Returns the next one's."""
    if workers == 1:
        return number
    add(board, _ARRIVED, 1)
    looks = 0
    while load(board, _ARRIVED) < workers * number:
        looks += 1
        if looks > _LOOKS:
            give_way()
    return number + 1


@kernel
def take(board: np.ndarray) -> int:
    """The next piece of work that nobody has taken, counted from 0: a slow worker takes fewer."""
    return int(add(board, _TAKEN, 1))


@kernel
def lay_out(board: np.ndarray) -> None:
    """All pieces are to be had again: between two meetings between which nobody takes one."""
    board[_TAKEN] = 0
