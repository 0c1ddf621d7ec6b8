"""Old names of arguments and values: accepted with a DeprecationWarning that names the new one."""

from __future__ import annotations

from typing import TypeVar

from podium._runtime.warn import warn

Value = TypeVar("Value")


def warn_renamed(old: str, new: str) -> None:
    warn(f"{old} is deprecated and will be removed; use {new}.", DeprecationWarning)


def renamed_argument(old: str, old_value: Value, new: str, new_value: Value) -> Value:
    """The value of an argument that is passed under its new name or its old one."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"got {new} and {old}, its deprecated name. Pass {new} only.")
    warn_renamed(old, new)
    return old_value
