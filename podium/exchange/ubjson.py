"""UBJSON: the values of JSON as bytes, each behind a letter that says what it is; arrays of numbers in one piece.

    {  key value key value ... }      keys: a length as an integer, and so many bytes of UTF-8
    [  value value ... ]              or [#n and n values, or [$t#n and n numbers of type t: a NumPy array here
    S n bytes   T F Z                 text, true, false, null
    i U I l L d D                     numbers, big end first

Nothing is recursive, no count is believed before it is compared with the bytes that are left, and values lie in each
other at most `DEEPEST` levels deep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from podium._runtime.compiler import Array

DEEPEST = 64  # levels; XGBoost has 9
_NUMBERS = {
    marker: np.dtype(code)
    for marker, code in zip(b"iUIlLdD", ("int8", "uint8", ">i2", ">i4", ">i8", ">f4", ">f8"), strict=True)
}
_MARKERS = {dtype.newbyteorder("="): bytes([marker]) for marker, dtype in _NUMBERS.items()}
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
_INTEGERS = tuple(b"iUIlL")
_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END = b"{}[]"
_TEXT, _TYPE, _COUNT, _NO_OPERATION = b"S$#N"


@dataclass(eq=False)
class _Open:
    """An object or array whose values are being read."""

    values: Any
    left: int | None  # values to come; None: until its end marker


def loads(content: bytes) -> Any:
    """The value of a document; a ValueError names the byte at which it cannot be one."""
    return _Reader(content).document()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def document(self) -> Any:
        document: list[Any] = []
        waiting = [_Open(document, 1)]
        while waiting:
            inner = waiting[-1]
            if self._ends(inner):
                waiting.pop()
                continue
            key = self._key(inner.values) if isinstance(inner.values, dict) else None
            value, opened = self._value()
            if key is None:
                inner.values.append(value)
            else:
                inner.values[key] = value
            if opened is not None:
                waiting.append(opened)
                if len(waiting) > DEEPEST:
                    self._refuse(f"values lie in each other more than {DEEPEST} levels deep")
        if self._at < len(self._content):
            self._refuse("the document has ended, and there are more bytes")
        return document[0]

    def _refuse(self, problem: str, at: int | None = None) -> NoReturn:
        raise ValueError(f"byte {self._at if at is None else at:,}: {problem}")

    def _ends(self, inner: _Open) -> bool:
        if inner.left is not None:
            inner.left -= 1
            return inner.left < 0
        marker = self._peek()
        while marker == _NO_OPERATION:
            self._at += 1
            marker = self._peek()
        ends = marker == (_OBJECT_END if isinstance(inner.values, dict) else _ARRAY_END)
        self._at += ends
        return ends

    def _peek(self) -> int:
        if self._at >= len(self._content):
            self._refuse("the file ends within a value. Is it cut short?")
        return self._content[self._at]

    def _take(self, size: int) -> bytes:
        """The next bytes, if there are so many."""
        end = self._at + size
        if end > len(self._content):
            self._refuse(f"{size:,} bytes should follow; {len(self._content) - self._at:,} are left")
        piece = self._content[self._at : end]
        self._at = end
        return piece

    def _key(self, values: dict[str, Any]) -> str:
        at = self._at
        key = self._text()
        if key in values:
            self._refuse(f"the key {key!r} stands twice", at)
        return key

    def _value(self) -> tuple[Any, _Open | None]:
        """The next value; of objects and arrays only their beginning, and what is to be read into them."""
        at, marker = self._at, self._peek()
        self._at += 1
        if marker == _OBJECT:
            opened = _Open({}, None)
            return opened.values, opened
        if marker == _ARRAY:
            return self._array()
        if marker == _TEXT:
            return self._text(), None
        if marker in _CONSTANTS:
            return _CONSTANTS[marker], None
        if marker not in _NUMBERS:
            self._refuse(f"no value begins with {chr(marker)!r}", at)
        return self._number(_NUMBERS[marker]), None

    def _array(self) -> tuple[Any, _Open | None]:
        dtype = None
        if self._peek() == _TYPE:
            marker = self._take(2)[1]
            if marker not in _NUMBERS:
                self._refuse(f"arrays of the type {chr(marker)!r} are not supported; expected numbers")
            dtype = _NUMBERS[marker]
            if self._peek() != _COUNT:
                self._refuse("an array of one type must have a count")
        if self._peek() != _COUNT:
            opened = _Open([], None)
            return opened.values, opened
        self._at += 1
        count = self._count(1 if dtype is None else dtype.itemsize)
        if dtype is None:
            opened = _Open([], count)
            return opened.values, opened
        return np.frombuffer(self._take(count * dtype.itemsize), dtype).astype(dtype.newbyteorder("=")), None

    def _count(self, size: int) -> int:
        """A number of things of at least `size` bytes each."""
        at, marker = self._at, self._peek()
        if marker not in _INTEGERS:
            self._refuse(f"expected a length, as an integer; found {chr(marker)!r}")
        self._at += 1
        count = self._number(_NUMBERS[marker])
        if not 0 <= count <= (len(self._content) - self._at) // size:
            self._refuse(f"a length of {count:,} does not fit into the bytes that are left", at)
        return int(count)

    def _number(self, dtype: np.dtype[Any]) -> Any:
        piece = self._take(dtype.itemsize)
        if dtype.kind in "iu":
            return int.from_bytes(piece, "big", signed=dtype.kind == "i")
        return float(np.frombuffer(piece, dtype)[0])

    def _text(self) -> str:
        piece = self._take(self._count(1))
        try:
            return piece.decode()
        except UnicodeDecodeError:
            self._refuse("a text is not UTF-8", self._at - len(piece))


def dumps(document: Any) -> bytes:
    """The bytes of a value of dictionaries, lists, texts, numbers and arrays of numbers, as XGBoost writes them."""
    pieces: list[bytes] = []
    waiting: list[Any] = [document]  # bytes go out as they are
    while waiting:
        value = waiting.pop()
        if isinstance(value, bytes):
            pieces.append(value)
        elif isinstance(value, dict):
            pieces.append(b"{")
            waiting.append(b"}")
            for key, inner in reversed(value.items()):
                waiting += [inner, _text_bytes(key)]
        elif isinstance(value, list):
            pieces.append(b"[#" + _length(len(value)))
            waiting += reversed(value)
        else:
            pieces.append(_scalar(value))
    return b"".join(pieces)


def _scalar(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return _array_bytes(value)
    if isinstance(value, str):
        return b"S" + _text_bytes(value)
    if isinstance(value, int):
        marker = next(one for one in b"iIlL" if abs(value) < 2 ** (8 * _NUMBERS[one].itemsize - 1))
        return bytes([marker]) + value.to_bytes(_NUMBERS[marker].itemsize, "big", signed=True)
    raise TypeError(f"no value of UBJSON: {type(value).__name__}")


def _array_bytes(array: Array) -> bytes:
    return (
        b"[$"
        + _MARKERS[array.dtype]
        + b"#"
        + _length(len(array))
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )


def _text_bytes(text: str) -> bytes:
    content = text.encode()
    return _length(len(content)) + content


def _length(number: int) -> bytes:
    return b"L" + number.to_bytes(8, "big")
