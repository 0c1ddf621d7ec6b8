"""Mapped memory: arrays as large as the data, kept in files that the system writes and reads as memory is short.

Dask counts what is mapped and in memory at the moment as memory of the worker, and ends workers that have too much.
So where a worker has a limit, a thread hands pages back to the system before that happens: they stay in its cache as
long as there is room, and come back when they are used.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.machine import read
from podium._runtime.threads import start_thread

_SHARE = 0.6  # of the memory limit, from which on pages are handed back; Dask pauses a worker at 0.8
_SECONDS = 0.1
_LARGE = 1 << 22  # bytes from which on an array lies in a file


class MappedMemory:
    """Room for the arrays of one rank, in a folder of the worker's scratch space."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        """limit: bytes of memory that the worker may have; None for no limit."""
        self.folder, self._maps = folder, weakref.WeakSet[mmap.mmap]()
        self._closed = threading.Event()
        if limit and hasattr(mmap, "MADV_DONTNEED") and resident_memory():
            start_thread(lambda: self._watch(int(limit * _SHARE)), "podium-pages")

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Array:
        """As `np.zeros`; the file is gone when the array is."""
        dtype, shape = np.dtype(dtype), tuple(int(n) for n in np.atleast_1d(shape))
        size = math.prod(shape) * dtype.itemsize
        if size < _LARGE:
            return np.zeros(shape, dtype)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            os.truncate(file.fileno(), size)
            mapped = mmap.mmap(file.fileno(), size)
        self._maps.add(mapped)
        return np.frombuffer(mapped, dtype).reshape(shape)

    def release(self) -> None:
        """Hand all pages back to the system; their content stays."""
        for mapped in list(self._maps):
            mapped.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        self._closed.set()

    def _watch(self, limit: int) -> None:
        while not self._closed.wait(_SECONDS):
            if resident_memory() > limit:
                self.release()


def resident_memory() -> int:
    """Bytes of this process in memory, with what is mapped; 0 where the system does not say so."""
    words = read(Path("/proc/self/statm")).split()
    return int(words[1]) * mmap.PAGESIZE if len(words) > 1 else 0
