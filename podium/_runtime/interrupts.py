"""Ctrl-C between steps: while a training runs, the first one is noted and noticed when a step is done.

An interrupt that is raised in the middle of a step leaves half of it behind, and one that is raised inside a compiled
function can come out of it as a SystemError. So the handler only takes a note, and `check` raises it between two steps.
Whoever presses Ctrl-C again does not want to wait: the second one is raised at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pressed: list[int] | None = None  # signals noted so far; None: nothing is deferred


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Note Ctrl-C inside this block instead of raising it anywhere. What is left of it at the end is raised there.

    Only where Python's own handler would have raised it: a handler of the user's own stays, and so does SIG_IGN.
    Signals reach the main thread alone, so nothing is done on others. A block inside another one shares its notes.
    """
    global _pressed
    if not _on_main_thread() or _pressed is not None or signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield
        return
    noted: list[int] = []
    _pressed = noted
    error: BaseException | None = None
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        if signal.getsignal(signal.SIGINT) == _note:  # otherwise a callback has set its own
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _pressed = None
        if noted and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from error


@contextmanager
def undisguised_interrupts() -> Iterator[None]:
    """A compiled function can turn a KeyboardInterrupt that is raised inside it into a SystemError; turn it back."""
    try:
        yield
    except SystemError as error:
        if _pressed or isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def check_interrupts() -> None:
    """Raise a Ctrl-C that was noted; to be called where nothing is half done."""
    if _pressed and _on_main_thread():
        raise KeyboardInterrupt


def _note(number: int, frame: FrameType | None) -> None:
    if _pressed is not None:
        _pressed.append(number)
        if len(_pressed) == 1:
            return
    signal.default_int_handler(number, frame)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
