"""A team of threads that grow one tree: the first gives out tasks, all of them work, the first goes on.

A task takes some microseconds to milliseconds, and a tree has hundreds. So while a tree grows the others do not sleep
between tasks, they look at a board; before and after it they block, and cost nothing. Whoever has looked for a while
in vain lets other threads run first: on a machine that has other things to do nobody is kept waiting by a spinning one.
"""

from __future__ import annotations

import numpy as np

from podium._atomic import add, give_way, load, store
from podium._numba import kernel

# What stands on the board: the number of the task, how many are done with it (on cache lines of their own), and the
# task itself: what to do and up to seven numbers.
NUMBER, DONE, TASK = 0, 8, 16
_LENGTH = 24
STOP = np.int64(-1)
_LOOKS = 2000  # some microseconds


def make_board() -> np.ndarray:
    return np.zeros(_LENGTH, np.int64)


def clear(board: np.ndarray) -> None:
    """Before a tree, while nobody looks."""
    board[:] = 0


def call_off(board: np.ndarray) -> None:
    """Send everybody home, whatever became of the one who gives out tasks."""
    board[TASK] = STOP
    board[NUMBER] += 1


@kernel
def give_out(board: np.ndarray) -> None:
    """Everybody starts with the task that was written on the board."""
    board[DONE] = 0
    store(board, NUMBER, board[NUMBER] + 1)


@kernel
def wait_for_all(board: np.ndarray, others: int) -> None:
    _wait_until(board, DONE, others)


@kernel
def wait_for_task(board: np.ndarray, number: int) -> None:
    """Until there is a task with this number, counted from 1."""
    _wait_until(board, NUMBER, number)


@kernel
def say_done(board: np.ndarray) -> None:
    add(board, DONE, 1)


@kernel
def _wait_until(board: np.ndarray, place: int, value: int) -> None:
    looks = 0
    while load(board, place) < value:
        looks += 1
        if looks > _LOOKS:
            give_way()
