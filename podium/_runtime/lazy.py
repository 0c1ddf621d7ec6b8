"""Lazy names: what a package exports is imported on first use, so that the package itself is cheap to import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any


class _NoFunction(ModuleType):
    """A module that is called like a function says what it has."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        values = {name: value for name, value in vars(self).items() if isinstance(value, FunctionType)}
        functions = [name for name, value in values.items() if value.__module__.startswith(self.__name__)]
        listed = ", ".join(f"{self.__name__}.{name}" for name in functions)
        raise TypeError(f"{self.__name__} is a module; call one of its functions: {listed}.")


def refuse_calls(module: str) -> None:
    """Let calls of this module, which reads like a verb, end in an error that names its functions."""
    sys.modules[module].__class__ = _NoFunction


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose modules `homes` have these names."""
    home_of = {name: f"{package}.{home}" for home, names in homes.items() for name in names}
    exported = sorted([*home_of, *modules])

    def load(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(exported), exported
