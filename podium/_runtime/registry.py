"""Registry: members of a family by name; plugins add theirs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

Member = TypeVar("Member")


class Registry(MutableMapping[str, Member]):
    """One row per member: itself, or `module:name`, which is imported when it is asked for."""

    def __init__(
        self,
        what: str,
        rows: Mapping[str, Member | str],
        other_names: Mapping[str, str] = MappingProxyType({}),
        *,
        any_name: bool = False,
    ) -> None:
        self.what, self._rows, self.other_names, self.any_name = what, dict(rows), other_names, any_name

    def __getitem__(self, name: str) -> Member:
        row = self._rows[self.other_names.get(name, name)]
        if not isinstance(row, str):
            return row
        module, _, member = row.partition(":")
        loaded: Member = getattr(import_module(module), member)
        return loaded

    def __setitem__(self, name: str, member: Member) -> None:
        self._rows[name] = member

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self.other_names

    def register(self, name: str, member: Member) -> None:
        """Add a member; once more is no error, a name that belongs to another one is."""
        if not isinstance(name, str) or not re.fullmatch(r"(?s).*\S.*" if self.any_name else "[a-z_]+", name):
            rule = "text" if self.any_name else "letters a to z and underscores"
            raise ValueError(f"the name of {self.what} must be {rule}; got {name!r}.")
        if name in self and self[name] != member:
            owner: Any = self[name] if isinstance(self[name], type) else type(self[name])
            owned = f"{name!r} is the name of {self.what} already, {owner.__module__}.{owner.__qualname__}"
            raise ValueError(f"{owned}. Choose another name.")
        self[name] = member


def keyword_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword-only parameters of a function and their defaults; `inspect.Parameter.empty` where there is none."""
    parameters = inspect.signature(function).parameters.values()
    return {item.name: item.default for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY}
