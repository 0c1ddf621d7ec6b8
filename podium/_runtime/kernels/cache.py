"""The files of compiled kernels: one per kernel, digest of what it was made from, types of arguments and processor.

Numba's own cache compares only the file of the function that it loads, and all of it: a change in a function that was
inlined from another file goes unnoticed, and a comment makes every kernel of the file compile anew. It also keeps an
index per function, in which processes that write at the same time can get each other's code. Here the name of a file
says what is in it. It is written whole or not at all, and begins with a digest of its bytes.

The folder is made when the first kernel has been compiled: an import writes nothing. Kernels are also loaded from where
nothing can be written, such as an image that was made with `podium warmup`. A kernel that cannot be kept in the folder
is kept nowhere else, and a warning says so.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import compiler, serialize
from numba.core.caching import _Cache

from podium._runtime.kernels.digest import describe_type, digest_of, versions
from podium._runtime.once import once

_KEPT_FOLDERS = 8
_dumps: Any = serialize.dumps
_rebuild: Any = compiler.CompileResult._rebuild
_ONE_HOUR, _ONE_DAY = 3_600, 86_400
_SEAL = 32  # bytes of a digest before the code


def cache_folder() -> Path:
    """Where compiled kernels are kept: below `NUMBA_CACHE_DIR` or the user's cache, by the versions of libraries."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(chosen) / "podium" if chosen else _user_cache()) / _versions_folder()


def kernels_are_kept() -> bool:
    """Whether compiled kernels outlive this process."""
    return _can_be_written(cache_folder())


class KernelCache(_Cache):
    """What Numba asks for a compiled kernel before it compiles, and hands it to afterwards."""

    def __init__(self, kernel: Any) -> None:
        name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}".removeprefix("podium.")
        self._kernel, self._name = kernel, name.replace("<", "").replace(">", "")[:150]

    @once
    def _prefix(self) -> str:
        """Computed on first use, when all that the kernel names has been defined."""
        return f"{self._name}-{digest_of(self._kernel)[:16]}-"

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        content = _read_sealed(path)
        return None if content is None else _rebuild(target_context, *pickle.loads(content))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled kernel. It is ready, so a disk that has become full is no reason to fail."""
        if data.library.has_dynamic_globals:
            warnings.warn(f"{self._name} reads memory of this process and cannot be kept", UserWarning, stacklevel=2)
            return
        path = self._path(sig, data.codegen)
        if not _can_be_written(path.parent):
            return
        try:
            _write_sealed(path, _dumps(data._reduce()))
            self._forget_old_code(path.parent)
        except OSError as error:
            _report_once(str(path.parent), error.strerror or str(error))

    def enable(self) -> None:
        """Always on."""

    def disable(self) -> None:
        """Always on."""

    def flush(self) -> None:
        """Nothing is held back."""

    def _path(self, sig: Any, codegen: Any) -> Path:
        types_and_processor = f"{[describe_type(kind) for kind in sig]} {codegen.magic_tuple()}"
        return cache_folder() / f"{self._prefix}{hashlib.sha256(types_and_processor.encode()).hexdigest()[:16]}.nbc"

    def _forget_old_code(self, folder: Path) -> None:
        """Drop what was compiled from earlier sources of this kernel, but nothing that was used today."""
        for path in folder.glob(f"{self._name}-*"):
            if not path.name.startswith(self._prefix) or path.suffix == ".part":  # left by a process that was killed
                with suppress(OSError):  # another process may be tidying up
                    if path.stat().st_mtime < time.time() - _ONE_DAY:
                        path.unlink()


def _read_sealed(path: Path) -> bytes | None:
    """What was written; None if there is no such file, or not all of it, because the machine stopped."""
    try:
        with open(path, "rb") as file:
            seal, content = file.read(_SEAL), file.read()
            used = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    if hashlib.sha256(content).digest() != seal:
        return None
    if used < time.time() - _ONE_HOUR:
        with suppress(OSError):  # nothing can be written where kernels are only read
            os.utime(path)
            os.utime(path.parent)
    return content


def _write_sealed(path: Path, content: bytes) -> None:
    """All readers see the whole file or none. It is not flushed to disk: the seal shows what is missing."""
    neighbour = path.with_name(f"{path.name}.{secrets.token_hex(6)}.part")
    try:
        with open(neighbour, "xb") as file:
            file.write(hashlib.sha256(content).digest())
            file.write(content)
        os.replace(neighbour, path)
    finally:
        neighbour.unlink(missing_ok=True)


@cache
def _can_be_written(folder: Path) -> bool:
    """Whether the folder for compiled kernels, which is made now, can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        _report_once(str(folder), error.strerror or str(error))
        return False
    _forget_old_folders(folder)
    return True


@cache
def _report_once(folder: str, reason: str) -> None:
    warnings.warn(
        f"{folder}: compiled kernels cannot be kept there ({reason}), so every process compiles them anew. "
        "Set NUMBA_CACHE_DIR to a folder that can be written to.",
        UserWarning,
        stacklevel=2,
    )


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    return base / "podium"


def _home() -> Path:
    """The user's folder; `/` for a user whom nobody has heard of, as in containers."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.sep)


@cache
def _versions_folder() -> str:
    return f"kernels-{hashlib.sha256(versions().encode()).hexdigest()[:16]}"


def _forget_old_folders(current: Path) -> None:
    """Drop the caches of other versions, but none that a running process may have opened today."""
    with suppress(OSError):  # another process may be tidying up
        os.utime(current)
        others = [folder for folder in current.parent.glob("kernels-*") if folder != current]
        others.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
        for folder in others[_KEPT_FOLDERS:]:
            if folder.stat().st_mtime < time.time() - _ONE_DAY:
                shutil.rmtree(folder, ignore_errors=True)
