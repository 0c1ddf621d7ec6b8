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


class _Turn:
    """The lock of an attribute of an object, and how many threads compute it or wait."""

    __slots__ = ("lock", "threads")

    def __init__(self) -> None:
        self.lock, self.threads = threading.RLock(), 0


class once(Generic[Value]):
    """A property that is computed once per object, by one thread; the others wait for it."""

    _turns: dict[tuple[int, str], _Turn] = {}  # noqa: RUF012 - shared by all
    _lock = threading.Lock()  # of the turns

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
        turn = self._enter(key)
        try:
            with turn.lock:
                if self._name not in values:
                    values[self._name] = self._compute(instance)
                value: Value = values[self._name]
                return value
        finally:
            self._leave(key, turn)

    @classmethod
    def _enter(cls, key: tuple[int, str]) -> _Turn:
        with cls._lock:
            turn = cls._turns.setdefault(key, _Turn())
            turn.threads += 1
        return turn

    @classmethod
    def _leave(cls, key: tuple[int, str], turn: _Turn) -> None:
        with cls._lock:
            turn.threads -= 1
            if not turn.threads and cls._turns.get(key) is turn:
                del cls._turns[key]

    @classmethod
    def _forget_turns(cls) -> None:
        cls._turns, cls._lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=once._forget_turns)  # a child process has none of the threads that compute
