"""Files: opened through their compression, written whole or not at all."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

_CHUNK = 1 << 17  # compressed bytes that are read at once

COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")


def plain_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix under the compression: `train.txt.gz` -> `.txt`."""
    path = Path(path)
    return Path(path.stem).suffix.lower() if path.suffix.lower() in COMPRESSIONS else path.suffix.lower()


def open_bytes(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading, decompressing by what its first bytes say (not by its name)."""
    path = Path(path)
    refuse_what_is_no_file(path)
    raw = open(path, "rb", buffering=0)  # noqa: SIM115 (the caller closes what is returned)
    head = raw.read(6)
    raw.seek(0)
    for mark, decompressor in _DECOMPRESSORS.items():
        if head.startswith(mark):
            return _Decompressed(raw, decompressor)
    return cast(IO[bytes], raw)


def place_in_file(stream: IO[bytes]) -> int:
    """How many bytes of the file itself have been read, for progress."""
    return stream.source.raw.tell() if isinstance(stream, _Decompressed) else stream.tell()


class _Streams(io.RawIOBase):
    """Compressed streams one behind the other, as `cat a.xz b.xz` makes them.

    Bytes behind a stream must be another one, or zeros that fill up to a block. Python's own readers take anything else
    for the end, so that a damaged second stream would be missing without a word.
    """

    def __init__(self, source: IO[bytes], codec: Callable[[], Any]) -> None:
        self._source, self._new_codec = source, codec
        self._codec = codec()

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._source.fileno()

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer).cast("B") as room:
            content = self._decompress(len(room)) if len(room) else b""
            room[: len(content)] = content
        return len(content)

    def _decompress(self, most: int) -> bytes:
        """Some bytes, at most so many; none at the end of the last stream."""
        while True:
            if self._codec.eof:
                compressed = self._next_stream()
                if not compressed:
                    return b""
                self._codec = self._new_codec()
            else:
                compressed = self._source.read(_CHUNK) if self._codec.needs_input else b""
                if self._codec.needs_input and not compressed:
                    raise EOFError("it ends inside a compressed stream")
            content: bytes = self._codec.decompress(compressed, most)
            if content:
                return content

    def _next_stream(self) -> bytes:
        found: bytes = self._codec.unused_data or self._source.read(_CHUNK)
        while found and not found.lstrip(b"\0"):
            found = self._source.read(_CHUNK)
        return found.lstrip(b"\0")


class _Decompressed(io.BufferedReader):
    """A decompressing stream that closes its file too."""

    def __init__(self, source: IO[bytes], decompressor: Callable[[IO[bytes]], Any]) -> None:
        self.source = io.BufferedReader(cast(io.RawIOBase, source), 1 << 20)
        super().__init__(decompressor(cast(IO[bytes], self.source)), 1 << 20)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.source.close()


@contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write a file that is wholly old or wholly new, compressed by its suffix.

    The bytes go to a neighbour, which is flushed to disk and then takes the name. On any error, also Ctrl-C and a
    full disk, the neighbour is removed and the old file stays as it was.
    """
    path = Path(path)
    refuse_bad_target(path)
    neighbour = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with open(neighbour, "xb") as raw:
            with _compressor(raw, path.suffix.lower()) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(neighbour, path)
    except OSError as error:
        if error.filename is None or str(neighbour) in str(error.filename):  # the user knows only the final name
            raise OSError(error.errno, f"{error.strerror}; nothing was changed", str(path)) from error
        raise
    finally:
        with suppress(FileNotFoundError):
            neighbour.unlink()
    _sync_folder(path.parent)


def remove_left_over(path: Path) -> None:
    """Remove the neighbours of runs that were killed while they wrote this file."""
    for part in path.parent.glob(f".{glob.escape(path.name[:100])}.{'[0-9a-f]' * 12}.part"):
        part.unlink(missing_ok=True)


def refuse_what_is_no_file(path: Path) -> None:
    """Folders, devices and pipes are no files to read."""
    mode = path.stat().st_mode  # raises FileNotFoundError with the path
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder; expected a file.")
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is not a regular file (a device, pipe or socket); expected a file.")


def refuse_bad_target(path: Path) -> None:
    """A name that no file can be written under is better told before long work than behind it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist. Create it first.")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"{path}: nothing can be written to the folder {path.parent}. Choose another.")


@contextmanager
def _compressor(raw: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    stream: Any
    if suffix == ".gz":  # no name and no date in the header: equal content gives equal bytes
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6)
    elif suffix == ".xz":
        stream = lzma.LZMAFile(raw, "wb")  # noqa: SIM115 (closed below)
    elif suffix == ".bz2":
        stream = bz2.BZ2File(raw, "wb")
    elif suffix == ".zst":
        zstd = _zstd()
        stream = zstd.ZstdFile(raw, "wb", options={zstd.CompressionParameter.checksum_flag: 1})
    else:
        yield raw
        return
    try:
        yield stream
    finally:
        stream.close()


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lambda raw: _Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)),
    b"BZh": lambda raw: _Streams(raw, bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": lambda raw: _Streams(raw, _zstd().ZstdDecompressor),
}


def _sync_folder(folder: Path) -> None:
    """Make the new name itself durable; not every system lets a folder be opened for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
