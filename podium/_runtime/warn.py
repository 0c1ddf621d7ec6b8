"""Warnings that point at the line of the caller, however deep inside the package they arise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


class LossWarning(UserWarning):
    """Something of the data is lost: digits that float32 cannot hold, or parts that a file format has no place for."""


_PACKAGE = __name__.partition(".")[0]
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Warnings of this thread as a list of sentences, each once, for a caller in another process to be warned of."""
    sentences: list[str] = []
    token = _collected.set(sentences)
    try:
        yield sentences
    finally:
        _collected.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning for the first line outside of Podium."""
    collected = _collected.get()
    if collected is not None:
        if message not in collected:
            collected.append(message)
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
