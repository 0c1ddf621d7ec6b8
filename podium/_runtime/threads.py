"""Threads: serial work on several of them, and threads for work that waits.

Blocks of work that need nothing of each other, such as whole queries, go to one pool that stays (`map_blocks`); a query
is never shared, so the number of threads cannot matter. Work that waits for other work has threads of its own
(`make_threads`): in the pool it could hold the thread that it waits for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from podium._runtime.machine import usable_cores

Result = TypeVar("Result")

_NAME = "podium-worker"
_FEWEST_ROWS = 65_536  # below this, handing out work costs more than it saves
_BLOCKS_PER_THREAD = 4  # so that one with long lists does not keep the others waiting


def usable_threads(n_jobs: int | None) -> int:
    """`n_jobs` as scikit-learn counts it: None or -1 = all cores this process may use."""
    if n_jobs is None or n_jobs == -1:
        return usable_cores()
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be positive, or -1 for all cores; got {n_jobs}.")
    return n_jobs


def map_blocks(work: Callable[[int], Result], n_blocks: int, n_jobs: int | None = None) -> list[Result]:
    """`work(block)` of every block, in order; each must write to places of its own."""
    threads = min(usable_threads(n_jobs), n_blocks)
    if threads <= 1 or threading.current_thread().name.startswith(_NAME):  # no waiting for each other inside a pool
        return [work(block) for block in range(n_blocks)]
    pool = _pool(threads)
    waiting = [pool.submit(work, block) for block in range(n_blocks)]
    try:
        return [_result(future, work, block) for block, future in enumerate(waiting)]
    finally:
        for future in waiting:  # after an error, those that have not begun
            future.cancel()


def map_slices(work: Callable[[slice], Result], n_rows: int, size: int, n_jobs: int | None = None) -> list[Result]:
    """`work(part)` of slices of so many rows, in order: `map_blocks` of blocks of rows."""
    parts = [slice(start, min(n_rows, start + size)) for start in range(0, n_rows, size)]
    return map_blocks(lambda block: work(parts[block]), len(parts), n_jobs)


def _result(future: Future[Result], work: Callable[[int], Result], block: int) -> Result:
    """The result of a block. One that has not begun is computed here: the pool's threads may all be waiting for a value
    that the caller computes (`once.py`), and would never begin."""
    return work(block) if future.cancel() else future.result()


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting some for every call would cost as much as a small evaluation."""
    return make_threads(threads, _NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of its parent's threads


def over_queries(work: Callable[[int, int], None], offsets: np.ndarray, n_jobs: int | None = None) -> None:
    """Call `work(first, last)` for blocks of whole queries, on threads when there are enough rows to share."""
    n_queries, n_rows = len(offsets) - 1, int(offsets[-1])
    threads = usable_threads(n_jobs)
    if threads == 1 or n_rows <= _FEWEST_ROWS:
        work(0, n_queries)
        return
    inner = np.searchsorted(offsets, np.linspace(0, n_rows, threads * _BLOCKS_PER_THREAD + 1)[1:-1])
    bounds = np.unique([0, *inner.tolist(), n_queries]).tolist()
    blocks = list(pairwise(bounds))
    map_blocks(lambda block: work(*blocks[block]), len(blocks), threads)


def make_threads(threads: int, name: str) -> ThreadPoolExecutor:
    """Threads of the caller's own; each starts when there is work for it."""
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


def start_thread(work: Callable[[], Any], name: str) -> None:
    """Work that goes on beside everything else and ends with the process, if not before."""
    threading.Thread(target=work, name=name, daemon=True).start()


@contextmanager
def threads_for(threads: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """`make_threads` for a block of code. At its end, or when it fails, what has not begun is cancelled."""
    pool = make_threads(threads, name)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_blas_lock = threading.Lock()
_blas_users: list[Any] = []  # one entry per caller inside `serial_blas`; the first one holds what to restore


@contextmanager
def serial_blas() -> Iterator[None]:
    """Matrix products of NumPy on the caller's thread only, for work that has threads of its own.

    BLAS's threads meet at the end of every product and spin until then: on a busy machine, many products of moderate
    size take many times as long as on one thread. The limit is the process's; it ends when the last caller leaves.
    """
    with _blas_lock:
        _blas_users.append(_blas().limit(limits=1, user_api="blas") if not _blas_users else None)
    try:
        yield
    finally:
        with _blas_lock:
            limit = _blas_users.pop(0)
            if _blas_users:
                _blas_users[0] = limit
            else:
                limit.restore_original_limits()


@lru_cache(maxsize=1)
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
