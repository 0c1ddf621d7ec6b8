"""Old names of arguments and values: accepted with a DeprecationWarning that names the new one."""

from __future__ import annotations

import warnings
from typing import TypeVar

Value = TypeVar("Value")


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller of the function that calls this one (`stacklevel=3`)."""
    message = f"{old} is deprecated and will be removed; use {new}."
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed_argument(old: str, old_value: Value, new: str, new_value: Value, stacklevel: int = 4) -> Value:
    """The value of an argument that is passed under its new name or its old one."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"got {new} and {old}, its deprecated name. Pass {new} only.")
    warn_renamed(old, new, stacklevel)
    return old_value
