"""Messages between ranks: a header of plain values and the bytes of arrays, all of it checked before it is used.

    {"generation": 3, "number": 118, "arrays": [["<i8", [255, 2]], ...], "bytes": [...]}

A rank asks for arrays of a known dtype and number of dimensions, often of a known shape. What does not answer this, or
is of an earlier generation or another exchange, is refused: two ranks that disagree about where they are must stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly

DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
MOST_ARRAYS = 64
MOST_DIMENSIONS = 4
LARGEST = 1 << 40  # bytes of one message
_INLINE = 16_384  # bytes up to which an array travels within the header: one write less


class MessageError(RuntimeError):
    """A message that is not what the exchange expects."""


@dataclass(frozen=True)
class Expected:
    """What an array that is received must be; a length of None may be any."""

    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    @classmethod
    def like(cls, array: Array) -> Expected:
        return cls(array.dtype, array.shape)

    def refuse_other(self, dtype: str, shape: Sequence[int]) -> None:
        fits = len(shape) == len(self.shape) and all(n is None or n == m for n, m in zip(self.shape, shape))
        if dtype != self.dtype.str or not fits:
            raise MessageError(f"expected an array of {self.dtype.str} and shape {self.shape}; got {dtype}, {shape}")


def encode(generation: int, number: int, arrays: Sequence[Array], copies: bool = False) -> dict[str, Any]:
    """Arrays as a message that msgpack writes as it is; large ones are not copied unless asked for."""
    from distributed.protocol.serialize import Serialized

    listed, contents = [], []
    for array in arrays:
        whole = np.ascontiguousarray(array)
        if whole.dtype.str not in DTYPES:
            raise ValueError(f"arrays of {whole.dtype} are not sent between workers")
        listed.append([whole.dtype.str, list(whole.shape)])
        flat = whole.reshape(-1).view(np.uint8)
        contents.append(flat.tobytes() if copies or flat.nbytes <= _INLINE else Serialized({}, [flat.data]))
    return {"generation": generation, "number": number, "arrays": listed, "bytes": contents}


def decode(message: Any, generation: int, number: int, expected: Sequence[Expected]) -> list[Array]:
    """The arrays of a message, read-only; MessageError where it is another one than is expected."""
    header = _header(message)
    for name, here in (("generation", generation), ("number", number)):
        if header[name] != here:
            raise MessageError(f"expected a message of {name} {here}; got {header[name]}")
    listed, contents = header["arrays"], header["bytes"]
    if len(listed) != len(expected) or len(contents) != len(expected):
        raise MessageError(f"expected {len(expected)} arrays; got {len(listed)}")
    return [_array(one, content, wanted) for one, content, wanted in zip(listed, contents, expected)]


def is_beat(message: Any) -> bool:
    """Whether a message says only that its sender is at work."""
    return isinstance(message, Mapping) and message.get("beat") is True


BEAT = {"beat": True}


def _header(message: Any) -> Mapping[str, Any]:
    if not isinstance(message, Mapping) or set(message) != {"generation", "number", "arrays", "bytes"}:
        raise MessageError("expected a message of arrays; got something else")
    if any(type(message[name]) is not int for name in ("generation", "number")):
        raise MessageError("the numbers of a message are no integers")
    if any(not isinstance(message[name], (list, tuple)) for name in ("arrays", "bytes")):
        raise MessageError("a message has no list of arrays")
    if len(message["arrays"]) > MOST_ARRAYS:
        raise MessageError(f"a message has at most {MOST_ARRAYS} arrays; got {len(message['arrays'])}")
    return message


def _array(described: Any, content: Any, expected: Expected) -> Array:
    if not isinstance(described, (list, tuple)) or len(described) != 2 or described[0] not in DTYPES:
        raise MessageError(f"an array is described as {described!r:.80}")
    dtype, shape = described
    if not isinstance(shape, (list, tuple)) or len(shape) > MOST_DIMENSIONS:
        raise MessageError(f"an array has the shape {shape!r:.80}")
    if any(type(length) is not int or not 0 <= length <= LARGEST for length in shape):
        raise MessageError(f"an array has the shape {shape!r:.80}")
    expected.refuse_other(dtype, shape)
    buffer = _buffer(content)
    if math.prod(shape) * expected.dtype.itemsize != len(buffer):
        raise MessageError(f"an array of {dtype} and shape {shape} has {len(buffer)} bytes")
    array = np.frombuffer(buffer, expected.dtype) if len(buffer) else np.empty(0, expected.dtype)
    return readonly(array.reshape(shape))


def _buffer(content: Any) -> memoryview:
    """The bytes of an array, which may have come in several frames."""
    frames = getattr(content, "frames", [content])
    if not all(isinstance(frame, (bytes, bytearray, memoryview)) for frame in frames):
        raise MessageError("the content of an array is no bytes")
    whole = frames[0] if len(frames) == 1 else b"".join(frames)
    return memoryview(whole).cast("B")
