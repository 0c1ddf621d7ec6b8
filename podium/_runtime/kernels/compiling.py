"""What this process compiles: seconds, kernels, and a sentence to the user where it takes long.

One kernel is compiled at a time; what it calls is compiled inside of it. Kernels that come from the cache are not
compiled.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from podium._runtime.progress import status
from podium._runtime.words import counted

_WORTH_A_SENTENCE = 2.0  # seconds: a user who waits that long wants to know for what
_SENTENCE = (
    "podium: compiling kernels, which takes about 30 seconds, once per machine; "
    "`podium warmup` compiles all of them ahead."
)


def compile_seconds() -> float:
    """Seconds that this process has spent compiling since the first call of this function."""
    timer = _timer()
    return timer.seconds() if timer else 0.0


def compiled_kernels() -> int:
    """How many kernels it has compiled since then."""
    timer = _timer()
    return timer.count if timer else 0


class CompileTimer:
    """Adds up intervals, of which one inside another counts once; one that has not ended counts up to now."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._depth, self._state = clock, 0, (0.0, -1.0)  # seconds, start of the interval or -1
        self.count = 0

    def start(self) -> None:
        self._depth += 1
        self.count += 1
        if self._depth == 1:
            self._state = self._state[0], self._clock()

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._state = self.seconds(), -1.0

    def seconds(self) -> float:
        done, began = self._state  # one read: other threads compile
        return done + (self._clock() - began if began >= 0 else 0.0)

    @property
    def is_running(self) -> bool:
        return self._depth > 0


@contextmanager
def compilation_announced() -> Iterator[None]:
    """While this is active, say once per process that kernels are compiled, and on a terminal how many so far."""
    _announcement.enter()
    try:
        yield
    finally:
        _announcement.leave()


class _Announcement:
    """What all fits of the process share; fits may contain others and run in several threads."""

    def __init__(self) -> None:
        self.is_made, self._fits, self._lock, self._line = False, 0, threading.Lock(), ExitStack()

    def enter(self) -> None:
        _timer()
        with self._lock:
            self._fits += 1

    def leave(self) -> None:
        with self._lock:
            self._fits -= 1
            if self._fits == 0:
                self._line.close()

    def before_kernel(self, timer: CompileTimer) -> None:
        if self.is_made or timer.seconds() < _WORTH_A_SENTENCE:
            return
        with self._lock:
            if self._fits and not self.is_made:
                self.is_made = True
                print(_SENTENCE, file=sys.stderr, flush=True)
                self._line.enter_context(status(lambda: _words(timer)))


_announcement = _Announcement()


def announce_nothing() -> None:
    """For who says it in other words."""
    _announcement.is_made = True


def _words(timer: CompileTimer) -> str:
    return f"compiling: {counted(timer.count, 'kernel')}, {timer.seconds():.0f} s" if timer.is_running else ""


@cache
def _timer() -> CompileTimer | None:
    """Follows what Numba compiles from now on."""
    try:
        from numba.core import event
    except ModuleNotFoundError:
        return None
    timer = CompileTimer()
    # Numba wants a Listener, of which only `notify` is ever called
    event.register("numba:compile", type("CompileListener", (event.Listener,), _listening(timer))())  # type: ignore
    return timer


def _listening(timer: CompileTimer) -> dict[str, Any]:
    def start(_: Any, event: Any) -> None:
        _announcement.before_kernel(timer)
        timer.start()

    return {"on_start": start, "on_end": lambda _, event: timer.end()}
