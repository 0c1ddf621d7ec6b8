"""The only place that sets compiler options.

Every kernel is a serial function without the interpreter lock: any number of Python threads may call it at once. None
uses Numba's own threads, which abort the process when two Python threads enter them, spin between two calls and keep
the processor from others, and take seconds to compile.

Compiled code is cached in a folder of its own, named after the sources it came from. Numba compares only the file of
the function it loads; a change in a function that was inlined from another file would go unnoticed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config

Function = TypeVar("Function", bound=Callable[..., Any])

# numpy's rules for division (no exception inside a loop); NaN keeps its meaning, so no fast-math here. Nobody calls
# kernels from C, and a door for that would be compiled too.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# One thread adds up a query in one order, so regrouping its sums still gives the same bits for any number of threads.
_REGROUPED = {"reassoc", "contract", "nsz"}
_KEPT_FOLDERS = 8
_ONE_DAY = 86_400


def kernel(function: Function) -> Function:
    """Compile a serial kernel on first call."""
    return _compile(function, {})


def fast_kernel(function: Function) -> Function:
    """Compile a serial kernel whose sums may be regrouped, so that they vectorise; NaN and infinity keep meaning.

    How they are regrouped is the compiler's choice, made anew for every copy of a function. So no other kernel may call
    one that adds up: which of the copies runs would depend on what was compiled and what came from the cache. Sums
    inside other kernels are `inlined_kernel`s.
    """
    return _compile(function, {"fastmath": _REGROUPED})


def inlined_kernel(function: Function) -> Function:
    """A `fast_kernel` copied into its callers: an argument that is a constant there selects its branch for good."""
    return _compile(function, {"fastmath": _REGROUPED, "inline": "always"})


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels see one kind of input, so each is compiled once (memory maps are read-only too)."""
    view = array.view()
    view.flags.writeable = False
    return view


def cache_folder() -> Path:
    """Where compiled kernels are kept: `NUMBA_CACHE_DIR`, or a folder for these sources below the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else _user_cache() / _source_stamp()


def _compile(function: Function, options: dict[str, Any]) -> Function:
    with _cache_in(_FOLDER):
        try:
            return numba.njit(cache=True, **_OPTIONS, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # no folder can be written to: compile in every process
            return numba.njit(**_OPTIONS, **options)(function)  # type: ignore[no-any-return]


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    # Numba asks for the folder when a function is decorated; the user's own functions keep theirs.
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        settings.CACHE_DIR = before


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "podium"


def _source_stamp() -> str:
    package = Path(__file__).parent
    digest = hashlib.sha256(f"{package} {sys.version} {numba.__version__} {np.__version__}".encode())
    for source in sorted(package.rglob("*.py")):
        status = source.stat()
        digest.update(f"{source.relative_to(package)} {status.st_size} {status.st_mtime_ns}".encode())
    return f"kernels-{digest.hexdigest()[:16]}"


def _forget_old_folders(current: Path) -> None:
    """Drop the caches of sources that are gone, but none that a running process may have opened today."""
    try:
        current.mkdir(parents=True, exist_ok=True)
        os.utime(current)
        others = [folder for folder in current.parent.glob("kernels-*") if folder != current]
        others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in others[_KEPT_FOLDERS:]:
            if folder.stat().st_mtime < time.time() - _ONE_DAY:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        return  # a read-only home is no reason to fail: Numba then looks for another place


_FOLDER = cache_folder()
if not os.environ.get("NUMBA_CACHE_DIR"):
    _forget_old_folders(_FOLDER)
