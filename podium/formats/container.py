"""The container: one file of plain facts and arrays, in which nothing is believed before it is checked.

    64 bytes    magic, kind, format, length of the header, length of the file, digest of these and of the header
    header      JSON: `meta`, the facts of this kind of file; for each array its name, dtype, shape, place, and a CRC-32
                for each block of 4 MiB; in a sealed kind also one digest of all arrays
    arrays      little-endian, one after the other, each filled up with zeros to a multiple of 64 bytes

Nothing in the file depends on when, where or by whom it was written: equal content gives equal bytes. Every length and
place is compared with the size of the file before memory is asked for; reading runs no code and follows no path.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.files import refuse_what_is_no_file, write_whole
from podium._runtime.once import once
from podium._runtime.threads import map_blocks
from podium.formats.errors import FormatError
from podium.formats.kinds import MAGIC, FileKind, check_kind
from podium.formats.lines import FilePath

_PREAMBLE = struct.Struct("<8s8sIIQ")  # magic, kind, format, header bytes, file bytes; then the digest
_DIGEST_BYTES = 32
_START = 64  # where the header begins
_ALIGNMENT = 64
_BLOCK = 4 << 20
_WORTH_THREADS = 16 << 20
_LONGEST_HEADER = 16 << 20
_LARGEST = 1 << 48  # no length, place or number of elements is larger
_MOST_ARRAYS = 10_000
_MOST_DIMENSIONS = 8
_DEEPEST = 100  # lists within lists: readers may call themselves once for each
_DTYPES = ("<b1", "<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")


@dataclass(frozen=True)
class ArrayEntry:
    """Where an array lies in the file, and what its blocks must add up to."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # from the end of the header
    checksums: tuple[int, ...]

    @property
    def padded(self) -> int:
        return _padded(math.prod(self.shape) * np.dtype(self.dtype).itemsize)


def write_container(path: FilePath, kind: FileKind, meta: dict[str, Any], arrays: Mapping[str, Array]) -> str:
    """Write a file whole or not at all; returns its digest. `meta` is plain JSON; the arrays keep their order."""
    stored = {name: _stored(path, name, array) for name, array in arrays.items()}
    _check_meta(path, meta)
    header = _header(kind, meta, stored)
    size = _START + len(header) + sum(_padded(array.nbytes) for array in stored.values())
    for number, limit, what in (
        (len(stored), _MOST_ARRAYS, "arrays"),
        (len(header), _LONGEST_HEADER, "bytes of facts"),
        (size, kind.largest, "bytes"),
    ):
        if number > limit:
            raise ValueError(f"{os.fspath(path)}: a {kind.name} has at most {limit} {what}; this one has {number}.")
    preamble = _preamble(kind, header, size)
    with write_whole(path) as stream:
        stream.write(preamble)
        stream.write(header)
        for array in stored.values():
            for block in _blocks(array):
                stream.write(block)
    return _digest_in(preamble)


@contextmanager
def open_container(path: FilePath, kind: FileKind, digest: str | None = None) -> Iterator[Container]:
    """Open a file and check all of it but the arrays, which are checked as they are read.

    With a `digest`, only the file that `write_container` returned it for is taken: it covers the checksums of all
    arrays.
    """
    refuse_what_is_no_file(Path(path))
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        preamble, header = _read_header(path, kind, stream, size)
        if digest is not None and _digest_in(preamble) != digest:
            raise kind.damaged(path, "it is not the file that belongs here, but another one of the same kind")
        start = _START + len(header)
        try:
            meta, seal, listed = _parsed(header, kind)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise kind.damaged(path, f"the header is not understood: {error}") from error
        entries = _placed(path, kind, listed, size - start)
        yield Container(os.fspath(path), kind, meta, seal, entries, start, size, stream)


@dataclass(frozen=True)
class Container:
    """An open file: its facts, and its arrays for the asking."""

    path: str
    kind: FileKind
    meta: dict[str, Any]
    seal: str
    entries: dict[str, ArrayEntry]
    start: int
    size: int
    stream: IO[bytes]

    def read(self, name: str) -> Array:
        """One array, checked, in memory, read-only."""
        return self._as_array(self.entries[name], self._content(self.entries[name]))

    def read_all(self) -> dict[str, Array]:
        """All arrays, checked each and (in a sealed kind) together."""
        seal, arrays = _new_digest(), {}
        for name, entry in self.entries.items():
            content = self._content(entry)
            if self.kind.sealed:
                seal.update(content)
            arrays[name] = self._as_array(entry, content)
        if self.kind.sealed and seal.hexdigest() != self.seal:
            raise self.kind.damaged(self.path, "the arrays do not match their digest")
        return arrays

    def map(self, name: str) -> MappedArray:
        """One array, left in the file; it may be used after the file is closed."""
        return MappedArray(self.path, self.kind, self._mapping, self.start, self.entries[name])

    @once
    def _mapping(self) -> mmap.mmap:
        """The file in memory, once for all its arrays: each mapping keeps a file descriptor open."""
        return mmap.mmap(self.stream.fileno(), self.size, access=mmap.ACCESS_READ)

    def _content(self, entry: ArrayEntry) -> bytes:
        self.stream.seek(self.start + entry.offset)
        content = self.stream.read(entry.padded)
        if len(content) < entry.padded:  # cut short since it was opened
            raise self.kind.damaged(self.path, f"it ends inside {entry.name}")
        _check_blocks(self.path, self.kind, entry, np.frombuffer(content, dtype=np.uint8))
        return content

    def _as_array(self, entry: ArrayEntry, content: bytes) -> Array:
        array = np.frombuffer(content, entry.dtype, math.prod(entry.shape)).reshape(entry.shape)
        if array.dtype == bool and (array.view(np.uint8) > 1).any():  # no truth value for NumPy: anything could follow
            raise self.kind.damaged(self.path, f"{entry.name} has truth values other than 0 and 1")
        return array


@dataclass(frozen=True)
class MappedArray:
    """An array in a mapped file, not yet looked at."""

    path: str
    kind: FileKind
    mapped: mmap.mmap
    start: int
    entry: ArrayEntry

    def verified(self) -> Array:
        """The array in place, after every block was compared with its checksum."""
        start = self.start + self.entry.offset
        content = Array(self.entry.padded, np.uint8, self.mapped, start)
        _check_blocks(self.path, self.kind, self.entry, content)
        return readonly(Array(self.entry.shape, self.entry.dtype, self.mapped, start))


def _stored(path: FilePath, name: str, array: Array) -> Array:
    """The array as it goes into the file: little-endian, rows one after the other."""
    dtype = "<" + array.dtype.str[1:]
    if not _is_name(name):
        raise ValueError(f"{os.fspath(path)}: the name of an array must be 1 to 200 ASCII characters; got {name!r}.")
    if dtype not in _DTYPES:
        raise ValueError(f"{os.fspath(path)}: array {name} has dtype {array.dtype}; only numbers and bool are stored.")
    if array.ndim > _MOST_DIMENSIONS or _elements(array.shape) > _LARGEST:
        raise ValueError(f"{os.fspath(path)}: array {name} has too large a shape: {array.shape}.")
    if array.dtype == bool:  # memory that was never set can hold other bytes than 0 and 1
        array = np.asarray(array, order="C").view(np.uint8) != 0
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _check_meta(path: FilePath, meta: dict[str, Any]) -> None:
    """Refuse what JSON cannot keep exactly: tuples and keys that are no text come back as something else."""
    try:
        if _from_json(_to_json(meta)) != meta:
            raise ValueError("it holds a tuple, or a key that is no text; use lists and text")
        _refuse_odd_facts(meta)
    except (TypeError, ValueError, RecursionError) as error:
        message = f"meta must be plain JSON without NaN and infinity: {error}."
        raise ValueError(f"{os.fspath(path)}: {message}") from error


def _refuse_odd_facts(meta: dict[str, Any]) -> None:
    """JSON has any depth, and text that no terminal and no file can be given: halves of surrogate pairs."""
    level: list[Any] = [meta]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in level if isinstance(inner, (dict, list))]
    if level:
        raise ValueError(f"it holds lists or mappings within one another more than {_DEEPEST} deep")
    json.dumps(meta, ensure_ascii=False).encode()


def _header(kind: FileKind, meta: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    seal, entries, offset = _new_digest(), [], 0
    for name, array in arrays.items():
        checksums = _checksums(array)
        if kind.sealed:
            for block in _blocks(array):
                seal.update(block)
        dtype = "<" + array.dtype.str[1:]
        entries.append({"name": name, "dtype": dtype, "shape": array.shape, "offset": offset, "checksums": checksums})
        offset += _padded(array.nbytes)
    text = _to_json({"arrays": entries, "meta": meta} | ({"digest": seal.hexdigest()} if kind.sealed else {}))
    return text.ljust(_padded(len(text)))


def _checksums(array: Array) -> list[int]:
    """The CRC-32 of every block, on all cores (zlib works without the interpreter lock)."""
    blocks = list(_blocks(array))
    threads = 1 if array.nbytes < _WORTH_THREADS else None
    return map_blocks(lambda block: zlib.crc32(blocks[block]), len(blocks), threads)


def _blocks(array: Array) -> Iterator[Any]:
    """The bytes of an array in blocks; the last one filled up with zeros."""
    content = array.reshape(-1).view(np.uint8)
    whole = len(content) // _BLOCK * _BLOCK
    for start in range(0, whole, _BLOCK):
        yield content[start : start + _BLOCK]
    if whole < len(content):
        yield content[whole:].tobytes().ljust(_padded(len(content) - whole), b"\0")


def _preamble(kind: FileKind, header: bytes, size: int) -> bytes:
    front = _PREAMBLE.pack(MAGIC, kind.mark, kind.format, len(header), size)
    return front + _new_digest(front + header).digest()


def _digest_in(preamble: bytes) -> str:
    return preamble[_PREAMBLE.size :].hex()


def _read_header(path: FilePath, kind: FileKind, stream: IO[bytes], size: int) -> tuple[bytes, bytes]:
    """The first 64 bytes, compared with the file, and the header behind them."""
    start = stream.read(_START)
    check_kind(path, kind, start)
    if len(start) < _START:
        raise kind.damaged(path, f"it has only {size} bytes")
    _, _, version, length, expected = _PREAMBLE.unpack_from(start)
    if version != kind.format:
        raise FormatError(path, f"uses format {version}; this version reads {kind.format}. {kind.upgrade or kind.mend}")
    if size > kind.largest:
        raise FormatError(path, f"has {size} bytes; a {kind.name} has at most {kind.largest}. {kind.make}")
    if expected != size:
        raise kind.damaged(path, f"it has {size} bytes instead of {expected}")
    if length > min(_LONGEST_HEADER, size - _START):
        raise kind.damaged(path, f"its header would have {length} bytes")
    header = stream.read(length)
    if start != _preamble(kind, header, size):
        raise kind.damaged(path, "the header does not match its checksum")
    return start, header


def _parsed(header: bytes, kind: FileKind) -> tuple[dict[str, Any], str, list[ArrayEntry]]:
    facts = _from_json(header)
    meta, seal, items = facts["meta"], facts["digest"] if kind.sealed else "", facts["arrays"]
    if not isinstance(meta, dict) or not isinstance(items, list) or len(items) > _MOST_ARRAYS:
        raise ValueError(f"expected facts and a list of at most {_MOST_ARRAYS} arrays")
    _refuse_odd_facts(meta)
    return meta, seal, [_entry(item) for item in items]


def _placed(path: FilePath, kind: FileKind, listed: list[ArrayEntry], room: int) -> dict[str, ArrayEntry]:
    """The arrays by name, after it is sure that they lie one after the other and fill the file."""
    end = 0
    for entry in listed:
        if entry.offset != end or len(entry.checksums) != -(-entry.padded // _BLOCK):
            raise kind.damaged(path, f"the place of {entry.name} is wrong")
        end += entry.padded
    entries = {entry.name: entry for entry in listed}
    if end != room or len(entries) < len(listed):
        raise kind.damaged(path, "the arrays do not fill the file")
    return entries


def _entry(item: Any) -> ArrayEntry:
    name, dtype, shape, offset, checksums = (item[key] for key in ("name", "dtype", "shape", "offset", "checksums"))
    if not _is_name(name):
        raise ValueError("the name of an array is no name")
    if dtype not in _DTYPES or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{name} has an unknown dtype or too many dimensions")
    if any(type(number) is not int or not 0 <= number < _LARGEST for number in (*shape, offset, *checksums)):
        raise ValueError(f"{name} has a length or checksum that is not an integer")
    if _elements(shape) > _LARGEST:
        raise ValueError(f"{name} is too large")
    return ArrayEntry(name, dtype, tuple(shape), offset, tuple(checksums))


def _check_blocks(path: FilePath, kind: FileKind, entry: ArrayEntry, content: Array) -> None:
    """Compare every block with its checksum, on all cores."""

    def matches(block: int) -> bool:
        return zlib.crc32(content.data[block * _BLOCK : (block + 1) * _BLOCK]) == entry.checksums[block]

    results = map_blocks(matches, len(entry.checksums), 1 if entry.padded < _WORTH_THREADS else None)
    if not all(results):
        wrong = results.index(False) + 1
        raise kind.damaged(path, f"block {wrong} of {entry.name} does not match its checksum")


def _to_json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _from_json(text: bytes) -> Any:
    return json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # 1e999
        raise ValueError(f"{text} is not finite")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= 200 and name.isascii() and name.isprintable()


def _elements(shape: tuple[int, ...]) -> int:
    """Lengths of 0 count as 1: NumPy refuses shapes whose other lengths are too large."""
    return math.prod(max(length, 1) for length in shape)


def _new_digest(content: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
