"""Registry: members of a family by name; plugins add theirs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Generic, TypeVar

Member = TypeVar("Member")
Row = TypeVar("Row")


class Registry(Mapping[str, Member], Generic[Member]):
    """One row per member: itself, or `module:name`, which is imported when it is asked for."""

    def __init__(
        self, what: str, rows: Mapping[str, Member | str], other_names: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.what, self._rows, self.other_names = what, dict(rows), dict(other_names)

    def __getitem__(self, name: str) -> Member:
        row = self._rows[self.other_names.get(name, name)]
        if not isinstance(row, str):
            return row
        module, _, member = row.partition(":")
        loaded: Member = getattr(import_module(module), member)
        return loaded

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self.other_names

    def register(self, name: str, member: Member, *other_names: str) -> None:
        """Add a member; once more is no error, a name that belongs to another one is."""
        for one in (name, *other_names):
            if not re.fullmatch("[a-z_]+", one):
                raise ValueError(f"the name of {self.what} must be letters a to z and underscores; got {one!r}.")
            if one in self and self[one] is not member:
                owner = f"{getattr(self[one], '__module__', '')}.{getattr(self[one], '__qualname__', self[one])}"
                raise ValueError(f"{one!r} is the name of {self.what} already, {owner}. Choose another name.")
        self._rows[name] = member
        self.other_names |= dict.fromkeys(other_names, name)


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
