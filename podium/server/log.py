"""The log: one file of JSON lines that only grows. What is acknowledged is on the disk.

A thread takes everything that waits, writes it with one call, and waits once until the disk has it (fsync); then all
of it is acknowledged. A line without its end was never acknowledged (the process was killed while it wrote): it is
removed when the log is opened again. If a write fails, for example on a full disk, the file is cut back to the
last whole line and nobody is told that a record is safe.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from podium._runtime.files import refuse_bad_target, sync_folder
from podium._runtime.warn import warn
from podium.formats.errors import FormatError

HEADER = {"podium": "feedback", "format": 1}
_HEAD = orjson.dumps(HEADER) + b"\n"
_MOST_AT_ONCE = 1_000
_LONGEST_LINE = 64_000_000
_CHUNK = 1 << 16


class Log:
    """An open log; one process writes it, any thread of it may append."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        refuse_bad_target(path)
        self.path, self._most_bytes = path, most_bytes
        is_new = not path.exists() or path.stat().st_size == 0
        self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 (closed by close)
        try:
            self._lock_file()
            self._size = self._recover(is_new)
        except BaseException:
            self._file.close()
            raise
        self._waiting: queue.Queue[tuple[bytes, Future[None]] | None] = queue.Queue()
        self._writer = threading.Thread(target=self._write_all, name="podium-log", daemon=True)
        self._writer.start()

    def append(self, records: Sequence[Mapping[str, Any]]) -> Future[None]:
        """Write these records, all or none of them; the future is done when the disk has them."""
        done: Future[None] = Future()
        lines = [orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n" for record in records]
        self._waiting.put((b"".join(lines), done))
        return done

    @property
    def waiting(self) -> int:
        """Records that the disk does not have yet."""
        return self._waiting.qsize()

    def close(self) -> None:
        """Write what waits, and close."""
        self._waiting.put(None)
        self._writer.join()
        self._file.close()

    def _lock_file(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"{self.path} is written by another process. Give each service a log of its own."
            ) from None

    def _recover(self, is_new: bool) -> int:
        """The size up to the last whole line, to which the file is cut."""
        if is_new:
            self._file.write(_HEAD)
            self._sync()
            sync_folder(self.path.absolute().parent)
            return len(_HEAD)
        self._file.seek(0)
        if self._file.read(len(_HEAD)) != _HEAD:
            raise FormatError(self.path, "holds something else than a log of podium serve. Give another file.")
        size = self._file.seek(0, os.SEEK_END)
        whole = _end_of_last_line(self._file, size)
        if whole < size:
            warn(f"{self.path}: the last record was not complete ({size - whole:,} bytes) and was never acknowledged.")
            os.ftruncate(self._file.fileno(), whole)
            self._sync()
        return whole

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            batch = [self._waiting.get()]
            with suppress(queue.Empty):
                while len(batch) < _MOST_AT_ONCE:
                    batch.append(self._waiting.get_nowait())
            is_open = None not in batch
            self._write_batch([item for item in batch if item is not None])

    def _write_batch(self, batch: list[tuple[bytes, Future[None]]]) -> None:
        error = self._write(b"".join(line for line, _ in batch)) if batch else None
        for _, done in batch:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def _write(self, content: bytes) -> OSError | None:
        if self._size + len(content) > self._most_bytes:
            return OSError(f"{self.path} has reached its limit of {self._most_bytes:,} bytes")
        try:
            written = 0
            while written < len(content):
                written += self._file.write(content[written:])
            self._sync()
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), self._size)
            return error
        self._size += len(content)
        return None

    def _sync(self) -> None:
        os.fsync(self._file.fileno())


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a log, in the order in which they came; a last line without its end is left out."""
    with open(path, "rb") as file:
        if file.readline(len(_HEAD) + 1) != _HEAD:
            raise FormatError(path, "is no log of podium serve.", 1)
        number = 1
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) == _LONGEST_LINE:
                    raise FormatError(path, f"expected lines of at most {_LONGEST_LINE:,} bytes.", number)
                return
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise FormatError(path, f"expected a record in JSON; {error}.", number) from None
            if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
                raise FormatError(path, f"expected a record with a kind; got {line[:60]!r}.", number)
            yield record


def _end_of_last_line(file: Any, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
        end = start
    return 0
