"""Serial kernels on several threads, each with its own queries; a query is never shared, so the count cannot matter."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np

from podium._runtime.machine import usable_cores

_NAME = "podium-worker"
_FEWEST_ROWS = 65_536  # below this, handing out work costs more than it saves
_BLOCKS_A_THREAD = 4  # so that one with long lists does not keep the others waiting


def usable_threads(n_jobs: int | None) -> int:
    """`n_jobs` as scikit-learn counts it: None or -1 = all cores this process may use."""
    if n_jobs is None or n_jobs == -1:
        return usable_cores()
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be positive, or -1 for all cores; got {n_jobs}.")
    return n_jobs


def map_blocks(work: Callable[[int], None], n_blocks: int, n_jobs: int | None = None) -> None:
    """Call `work(block)` for every block; each must write to places of its own."""
    threads = min(usable_threads(n_jobs), n_blocks)
    if threads <= 1 or threading.current_thread().name.startswith(_NAME):  # no waiting for each other inside a pool
        for block in range(n_blocks):
            work(block)
        return
    for _ in _pool(threads).map(work, range(n_blocks)):
        pass


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting some for every call would cost as much as a small evaluation."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of its parent's threads


def over_queries(work: Callable[[int, int], None], offsets: np.ndarray, n_jobs: int | None = None) -> None:
    """Call `work(first, last)` for blocks of whole queries, on threads when there are enough rows to share."""
    n_queries, n_rows = len(offsets) - 1, int(offsets[-1])
    threads = usable_threads(n_jobs)
    if threads == 1 or n_rows <= _FEWEST_ROWS:
        work(0, n_queries)
        return
    cuts = np.searchsorted(offsets, np.linspace(0, n_rows, threads * _BLOCKS_A_THREAD + 1)[1:-1])
    borders = np.unique([0, *cuts.tolist(), n_queries]).tolist()
    blocks = list(pairwise(borders))
    map_blocks(lambda block: work(*blocks[block]), len(blocks), threads)
