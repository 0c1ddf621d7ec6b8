"""Memo: results that are kept for later calls, up to a number of bytes.

What has no room empties the memo first: a cache of words needs no order of use, since common words come back at once.
"""

from __future__ import annotations

import sys
import threading
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

_ENTRY = 128  # bytes of an entry of a dictionary, while it grows


class Memo(Generic[Key, Value]):
    """`values` may be read by any thread, as long as each search reads the attribute anew."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.n_bytes = most_bytes, 0
        self.values: dict[Key, Value] = {}
        self._lock = threading.Lock()

    def keep(self, key: Key, value: Value, n_bytes: int) -> None:
        """Keep a value of this size, if it is below the most that this memo may hold."""
        n_bytes += sys.getsizeof(key) + _ENTRY
        with self._lock:
            if n_bytes > self.most_bytes or key in self.values:
                return
            if self.n_bytes + n_bytes > self.most_bytes:
                self.values, self.n_bytes = {}, 0
            self.values[key] = value
            self.n_bytes += n_bytes
