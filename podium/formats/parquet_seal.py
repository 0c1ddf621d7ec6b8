"""The seal of a Parquet file: a digest of all its bytes, between the pages and the footer.

Parquet has checksums for its pages, but none for the footer: a flipped bit there gives a column another name, or the
page of another column. Readers find everything by its offset and never look at the gap before the footer, so the file
stays one that every tool reads; a tool that writes it anew leaves the seal out, and then nothing is compared.
"""

from __future__ import annotations

import hashlib
import io
from typing import IO, Any

from podium.formats.errors import FormatError
from podium.formats.lines import FilePath

_MARK = b"podium seal:"
_DIGEST_BYTES = 16
_SEAL_BYTES = len(_MARK) + _DIGEST_BYTES
_END_BYTES = 8  # the length of the footer, and PAR1
_CHUNK = 1 << 20


class SealedSink(io.RawIOBase):
    """Passes bytes on to a stream; what is written from `begin_footer` on is kept until the seal stands before it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._digest = _new_digest()
        self._footer: bytearray | None = None
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, content: Any) -> int:
        with memoryview(content).cast("B") as view:
            self._digest.update(view)
            self._size += len(view)
            if self._footer is None:
                self._stream.write(view)
            else:
                self._footer += view
            return len(view)

    def begin_footer(self) -> None:
        self._footer = bytearray()

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self._stream.write(_MARK + self._digest.digest())
            self._stream.write(self._footer or b"")
        super().__exit__(kind, *rest)


def check_seal(path: FilePath, source: IO[bytes]) -> None:
    """Compare a file with its seal, if it has one; leaves the file at its start."""
    size = source.seek(0, io.SEEK_END)
    source.seek(max(size - _END_BYTES, 0))
    position = size - _END_BYTES - int.from_bytes(source.read(4), "little") - _SEAL_BYTES
    seal = _read_at(source, position, _SEAL_BYTES) if position > 0 else b""
    if seal.startswith(_MARK):
        digest = _new_digest()
        for start, end in ((0, position), (position + _SEAL_BYTES, size)):
            for chunk in range(start, end, _CHUNK):
                digest.update(_read_at(source, chunk, min(_CHUNK, end - chunk)))
        if digest.digest() != seal[len(_MARK) :]:
            raise FormatError(path, "the file is damaged (it does not match its digest). Write or copy it again.")
    source.seek(0)


def _read_at(source: IO[bytes], position: int, length: int) -> bytes:
    source.seek(position)
    return source.read(length)


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)
