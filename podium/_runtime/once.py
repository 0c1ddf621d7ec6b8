"""Once: an attribute that is computed when it is first read, by one thread, and kept in the object.

From Python 3.12 on, `functools.cached_property` has no lock: threads that read it at the same time each compute a value
of their own, and what one of them writes into its value is lost for the others. Here each object and attribute has a
lock of its own, which exists only while somebody computes or waits, so that objects hold no lock and can be pickled.
Attributes may read one another: a thread only waits for a value that its own value needs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value", covariant=True)


class once(Generic[Value]):
    """A property that is computed once per object, by one thread; the others wait for it."""

    _turns: dict[tuple[int, str], threading.RLock] = {}  # noqa: RUF012 - shared by all

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> once[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> once[Value] | Value:
        """Called only while the object's dictionary does not have the value."""
        if instance is None:
            return self
        key, values = (id(instance), self._name), vars(instance)
        while self._name not in values:
            # One step, without a lock of its own: Ctrl-C can leave a block without releasing its lock.
            turn = self._turns.setdefault(key, threading.RLock())
            with turn:
                if self._turns.get(key) is turn:  # else it ended while this thread waited
                    self._take_turn(key, instance, values)
        value: Value = values[self._name]
        return value

    def _take_turn(self, key: tuple[int, str], instance: object, values: dict[str, Any]) -> None:
        """Compute the value, unless it is there by now. The turn ends after an error too: others may try again."""
        try:
            if self._name not in values:
                values[self._name] = self._compute(instance)
        finally:
            self._turns.pop(key, None)

    @classmethod
    def _forget_turns(cls) -> None:
        cls._turns = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=once._forget_turns)  # a child process has none of the threads that compute
