"""The only place that sets compiler options.

Every kernel is a serial function without the interpreter lock: any number of Python threads may call it at once. None
uses Numba's own threads, which abort the process when two Python threads enter them, spin between two calls and keep
the processor from others, and take seconds to compile.

Compiled code is cached in a folder of its own, named after the sources it came from. Numba compares only the file of
the function it loads; a change in a function that was inlined from another file would go unnoticed. The folder is made
when the first kernel is compiled or loaded: an import writes nothing. Where it cannot be written to, nothing is kept
anywhere else, and a warning says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from podium._runtime.once import once

try:
    import numba
    from numba.core import config
    from numba.core.caching import FunctionCache, NullCache, _Cache

    _HAS_NUMBA = True
except ModuleNotFoundError:  # the JAX half of an objective runs without; kernels are Python then
    _HAS_NUMBA, _Cache = False, object  # type: ignore[assignment, misc]

Array: TypeAlias = np.ndarray  # a short name, for signatures of kernels
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


def bare_kernel(function: Function) -> Function:
    """Compile a serial kernel that counts no references to arrays, and so may make no array; views of arrays are fine.

    Numba counts a reference for each array that a function gets or slices, with an atomic instruction each. A function
    of many arrays that is called for one document at a time spends most of its time there.
    """
    return _compile(function, {"_nrt": False})


def inlined_bare_kernel(function: Function) -> Function:
    """A `bare_kernel` that LLVM copies into its callers: a call would pass seven numbers per array."""
    return _compile(function, {"_nrt": False, "forceinline": True})


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels see one kind of input, so each is compiled once (memory maps are read-only too)."""
    view = array.view()
    view.flags.writeable = False
    return view


def cache_folder() -> Path:
    """Where compiled kernels are kept: `NUMBA_CACHE_DIR`, or a folder for these sources below the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen else _user_cache() / _source_stamp()


def kernels_are_kept() -> bool:
    """Whether compiled kernels outlive this process."""
    return _usable_folder(cache_folder()) is not None


def compile_seconds() -> float:
    """Seconds that this process has spent compiling since the first call of this function.

    One kernel is compiled at a time; what it calls is compiled inside of it, and counts once. Kernels that come from
    the cache are not compiled.
    """
    return _compile_timer().seconds() if _HAS_NUMBA else 0.0


@cache
def _compile_timer() -> Any:
    from numba.core import event

    timer = _CompileTimer()
    # Numba wants a Listener, of which only `notify` is ever called
    event.register("numba:compile", type("CompileListener", (event.Listener,), _listening(timer))())  # type: ignore
    return timer


def _listening(timer: _CompileTimer) -> dict[str, Any]:
    return {"on_start": lambda _, event: timer.start(), "on_end": lambda _, event: timer.end()}


class _CompileTimer:
    """Adds up intervals, of which one inside another counts once; one that has not ended counts up to now."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._depth, self._state = clock, 0, (0.0, -1.0)  # seconds, start of the interval or -1

    def start(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._state = self._state[0], self._clock()

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._state = self.seconds(), -1.0

    def seconds(self) -> float:
        done, began = self._state  # one read: other threads compile
        return done + (self._clock() - began if began >= 0 else 0.0)


def _compile(function: Function, options: dict[str, Any]) -> Function:
    if not _HAS_NUMBA:
        return function
    compiled: Any = numba.njit(**_OPTIONS, **options)(function)
    if hasattr(compiled, "enable_caching"):  # otherwise nothing is compiled: NUMBA_DISABLE_JIT
        compiled._cache = _KernelCache(function)
    return compiled  # type: ignore[no-any-return]


class _KernelCache(_Cache):
    """Numba's cache of a function, made when it is first asked for and not, as Numba does, when it is decorated."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._named = cache_folder()  # the sources may be others by the time the function is compiled

    @once
    def _numba_cache(self) -> Any:
        folder = _usable_folder(self._named)
        if folder is not None:
            with suppress(RuntimeError), _cache_in(folder):  # Numba found no place at all
                cache: Any = FunctionCache(self._function)  # type: ignore[no-untyped-call]
                if Path(cache.cache_path).is_relative_to(folder):  # it looks on where it cannot write: `__pycache__`
                    return cache
            _report_once(str(folder), "Numba refuses it")
        return NullCache()

    @property
    def cache_path(self) -> str | None:
        return self._numba_cache.cache_path  # type: ignore[no-any-return]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._numba_cache.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel. It is ready, so a disk that has become full is no reason to fail."""
        try:
            self._numba_cache.save_overload(sig, data)
        except OSError as error:
            _report_once(str(self._named), error.strerror or str(error))

    def enable(self) -> None:
        self._numba_cache.enable()

    def disable(self) -> None:
        self._numba_cache.disable()

    def flush(self) -> None:
        self._numba_cache.flush()


@cache
def _usable_folder(folder: Path) -> Path | None:
    """The folder for compiled kernels, made now; None if it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        _report_once(str(folder), error.strerror or str(error))
        return None
    if not os.environ.get("NUMBA_CACHE_DIR"):
        _forget_old_folders(folder)
    return folder


@cache
def _report_once(folder: str, reason: str) -> None:
    warnings.warn(
        f"{folder}: compiled kernels cannot be kept there ({reason}), so every process compiles them anew. "
        "Set NUMBA_CACHE_DIR to a folder that can be written to.",
        UserWarning,
        stacklevel=2,
    )


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    # Numba asks for the folder when a cache is made; the user's own functions keep theirs.
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


@cache
def _source_stamp() -> str:
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{package} {sys.version} {numba.__version__} {np.__version__}".encode())
    for source in sorted(package.rglob("*.py")):
        status = source.stat()
        digest.update(f"{source.relative_to(package)} {status.st_size} {status.st_mtime_ns}".encode())
    return f"kernels-{digest.hexdigest()[:16]}"


def _forget_old_folders(current: Path) -> None:
    """Drop the caches of sources that are gone, but none that a running process may have opened today."""
    with suppress(OSError):  # another process may be tidying up
        os.utime(current)
        others = [folder for folder in current.parent.glob("kernels-*") if folder != current]
        others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in others[_KEPT_FOLDERS:]:
            if folder.stat().st_mtime < time.time() - _ONE_DAY:
                shutil.rmtree(folder, ignore_errors=True)
