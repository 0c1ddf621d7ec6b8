"""Warnings that point at the line of the caller, however deep inside the package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


class LossWarning(UserWarning):
    """Something of the data is lost: digits that float32 cannot hold, or parts that a file format has no place for."""


_PACKAGE = __name__.partition(".")[0]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning for the first line outside of Podium."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
