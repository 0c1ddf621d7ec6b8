"""Kernels for a GPU run on the CPU, thread by thread: their own text, compiled by a C++ compiler.

Each block is a thread of the system, and each of its threads a fiber that runs until the next barrier, shuffle or vote.
Shared memory is memory of the block's thread. So barriers, races between blocks that a barrier should keep apart, and
the order of every operation are those of the text.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")
if platform.machine() not in ("x86_64", "AMD64"):  # the threads of a block change places by code for this processor
    COMPILER = None
_SHIM = Path(__file__).with_suffix(".hpp")


class Host:
    """A device of a few blocks whose memory is the host's."""

    def __init__(self, n_blocks: int = 2, n_threads: int = 32) -> None:
        self.n_blocks, self.n_threads = n_blocks, n_threads

    def free_bytes(self) -> int:
        return 2**40

    def empty(self, shape: Any, dtype: Any) -> np.ndarray:
        """Full of ones, so that what is read before it is written is seen."""
        array = np.empty(shape, dtype)
        array.view(np.uint8).fill(0xA5)
        return array

    def zeros(self, shape: Any, dtype: Any) -> np.ndarray:
        return np.zeros(shape, dtype)

    def upload(self, values: np.ndarray) -> np.ndarray:
        return values.copy()

    def write(self, values: np.ndarray, array: np.ndarray) -> None:
        array[...] = values

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def clear(self, array: np.ndarray) -> None:
        array.view(np.uint8).fill(0)

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data

    def kernels(self, source: str, cooperative: bool) -> Any:
        return _Kernels(_compiled(source, self.n_threads))


@lru_cache
def _compiled(source: str, n_threads: int) -> Any:
    names = re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", source)
    shim = _SHIM.read_text()
    wrappers = "".join(f"KERNEL({name})\n" for name in names)
    text = f"#define THREADS {n_threads}\n{shim}\n{source}\n{wrappers}"
    folder = Path(tempfile.gettempdir()) / "podium-kernels-on-host"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / (hashlib.sha256(text.encode()).hexdigest()[:32] + ".so")
    if not library.exists():
        code, made = library.with_suffix(f".{os.getpid()}.cpp"), library.with_suffix(f".{os.getpid()}.so")
        code.write_text(text)
        options = ["-O1", "-std=c++17", "-ffp-contract=off", "-shared", "-fPIC", "-pthread", "-w"]
        subprocess.run([str(COMPILER), *options, "-o", str(made), str(code)], check=True)
        made.replace(library)
        code.unlink()
    return ctypes.CDLL(str(library))


class _Kernels:
    def __init__(self, library: Any) -> None:
        self._library = library

    def launch(self, name: str, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int = 0) -> None:
        threads = min(threads, 64)
        run = getattr(self._library, f"run_{name}")
        run.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
        run(min(blocks, 3), threads, arguments[0].ctypes.data)
