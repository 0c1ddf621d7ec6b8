"""Registry: a table of names to which a user's module adds rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Row = TypeVar("Row")


def register(table: dict[str, Row], what: str, name: str, row: Row) -> None:
    """Add a row. The same row again changes nothing, as when a module is imported twice; another one is refused."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a {what} needs a name; got {name!r}.")
    if name in table and table[name] != row:
        raise ValueError(f"{what} {name!r} is registered already, for another object. Choose another name.")
    table[name] = row


def keyword_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword-only parameters of a function and their defaults; `inspect.Parameter.empty` where there is none."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY}
