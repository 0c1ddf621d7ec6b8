"""Files: opened through their compression, written whole or not at all."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import IO, Any, cast

FilePath = str | os.PathLike[str]

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
        start: bytes = self._codec.unused_data or self._source.read(_CHUNK)
        while start and not start.lstrip(b"\0"):
            start = self._source.read(_CHUNK)
        return start.lstrip(b"\0")


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
    full disk, the neighbour is removed and the old file stays as it was. A symbolic link is followed and stays; mode
    and owner of a file that is replaced stay too. What is no regular file (a pipe, a device, standard output) is
    written into and never replaced.
    """
    path = Path(path)
    refuse_bad_target(path)
    with (
        _written_into(path) if is_stream(path) else _replaced(path, real_path(path)) as raw,
        _compressor(raw, path.suffix.lower()) as stream,
    ):
        yield stream


@contextmanager
def _replaced(path: Path, target: Path) -> Iterator[IO[bytes]]:
    """A neighbour of the target, which takes its name in the end; `path` is what the user calls it."""
    neighbour = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with _new_file(neighbour, target) as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(neighbour, target)
    except OSError as error:
        unnamed = error.filename is None and error.errno is not None
        if unnamed or str(neighbour) in str(error.filename):  # the user knows only the final name
            raise OSError(error.errno, f"{error.strerror}; nothing was changed", str(path)) from error
        raise
    finally:
        with suppress(FileNotFoundError):
            neighbour.unlink()
    sync_folder(target.parent)


@contextmanager
def _new_file(path: Path, target: Path) -> Iterator[IO[bytes]]:
    """A new file with the mode and owner of the target; without a target, as the system makes new files."""
    old = _status(target)
    mode = 0o666 if old is None else 0o600  # nobody reads it on the way who may not in the end
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as raw:
        if old is not None and hasattr(os, "fchown"):
            _keep_owner(raw.fileno(), old, target)
            if os.fstat(raw.fileno()).st_mode != old.st_mode:  # some file systems have one mode and refuse to set any
                os.fchmod(raw.fileno(), stat.S_IMODE(old.st_mode))
        yield raw


def _keep_owner(handle: int, old: os.stat_result, target: Path) -> None:
    new = os.fstat(handle)
    try:
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(handle, old.st_uid, old.st_gid)
    except PermissionError as error:
        whose = f"user {old.st_uid} and group {old.st_gid}"
        message = f"{target}: belongs to {whose}, which a new file cannot be given. Choose another name, or delete it."
        raise PermissionError(message) from error


@contextmanager
def _written_into(path: Path) -> Iterator[IO[bytes]]:
    number = _descriptor(path)
    if number is not None:
        sys.stdout.flush()
        sys.stderr.flush()
    with open(path if number is None else os.dup(number), "wb") as raw:
        yield raw


def is_stream(path: Path) -> bool:
    """Whether something can be written into that is no file to replace: a pipe, a device, standard output."""
    status = _status(path)
    other = status is not None and not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode)
    return _descriptor(path) is not None or other


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    return _descriptor(path) == 1


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The open file that a name such as /dev/stdout stands for; it may be a regular one that must not be replaced."""
    name = os.path.normpath(os.fspath(path))
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d{1,6})", name)
    return _DESCRIPTORS.get(name) if match is None else int(match.group(1))


_DESCRIPTORS = {os.path.normpath("/dev/stdout"): 1, os.path.normpath("/dev/stderr"): 2}


def real_path(path: str | os.PathLike[str]) -> Path:
    """Where a file lies, behind all symbolic links; it need not be there."""
    return Path(os.path.realpath(path))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse_own_input(what: str, outputs: Sequence[FilePath], inputs: Sequence[FilePath]) -> None:
    """A file that is read may not be written, also not through a link or by another spelling of its name."""
    for out, path in product(outputs, inputs):
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise ValueError(f"{what} {out} would replace {path}, which is read here. Choose another name.")


def remove_left_over(path: Path) -> None:
    """Remove the neighbours of runs that were killed while they wrote this file."""
    path = real_path(path)
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
    """Refuse a name that no file can be written under before long work, not after it."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file to write.")
    if is_stream(path):
        if _descriptor(path) is None and not os.access(path, os.W_OK):
            raise PermissionError(f"{path}: nothing can be written to it. Choose another.")
        return
    target = real_path(path)
    folder = target.parent if path.is_symlink() else path.parent  # as the user calls it
    if not folder.is_dir():
        raise FileNotFoundError(f"{path}: the folder {folder} does not exist. Create it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path}: nothing can be written to the folder {folder}. Choose another.")
    _refuse_owner(target)


def refuse_bad_folder(folder: Path, what: str) -> None:
    """Refuse, before the work, a folder that cannot be made anew; `what` is to be written to it."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise ValueError(f"{folder} is there already. Choose a new folder for {what}, or delete it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"{folder}: the folder {folder.parent} does not exist. Create it first.")
    if not os.access(folder.parent, os.W_OK):
        raise PermissionError(f"{folder}: nothing can be written to the folder {folder.parent}. Choose another.")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Write a folder that is new or empty, wholly or not at all: a neighbour, which takes the name in the end."""
    part = folder.with_name(f".{folder.name[:100]}.{secrets.token_hex(6)}.part")
    part.mkdir()
    try:
        yield part
        if folder.is_dir():
            folder.rmdir()  # it is empty
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    sync_folder(folder.parent)


def _refuse_owner(target: Path) -> None:
    """Whether a new file can be given to the owner of this one is found out by doing it."""
    old = _status(target)
    if old is None or not hasattr(os, "geteuid") or (old.st_uid, old.st_gid) == (os.geteuid(), os.getegid()):
        return
    probe = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with _new_file(probe, target):
            pass
    finally:
        probe.unlink(missing_ok=True)


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
        zstd = zstd_module()
        stream = zstd.ZstdFile(raw, "wb", options={zstd.CompressionParameter.checksum_flag: 1})
    else:
        yield raw
        return
    try:
        yield stream
    finally:
        stream.close()


def zstd_module() -> Any:
    """The standard library's zstd, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lambda raw: _Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)),
    b"BZh": lambda raw: _Streams(raw, bz2.BZ2Decompressor),
    b"\x28\xb5\x2f\xfd": lambda raw: _Streams(raw, zstd_module().ZstdDecompressor),
}


def sync_folder(folder: Path) -> None:
    """Make the new name itself durable; not every system lets a folder be opened for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
