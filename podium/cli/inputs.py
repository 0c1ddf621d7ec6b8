"""Files of the command line, and inputs that are none: standard input (`-`), and pipes such as `<(zcat train.gz)`.

Readers look at a file's size and first bytes, and some map it; so what comes through a pipe is first written to a
temporary file, which is gone when the process ends. Messages name it as the user did.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podium.workflows.reading import Reading

_STANDARD_INPUT = ("-", "/dev/stdin")
_NAMES = {
    b"\x93PODIUM\ndata": "standard input.podium-data",
    b"PAR1": "standard input.parquet",
}  # by what they begin with


class Inputs:
    """The inputs of one command; leaving it removes the temporary files."""

    def __init__(self) -> None:
        self._folder: Any = None
        self._read: dict[str, str] = {}  # temporary file -> what the user calls it
        self.options: dict[str, Any] = {}  # how files of data are read

    def __enter__(self) -> None:
        self._read.clear()
        self.options = {}

    def __exit__(self, *error: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None

    @property
    def reading(self) -> Reading:
        """Where files of data are, and how they are read."""
        from podium.workflows.reading import Reading

        return Reading(self.path_of, self.options)

    def path_of(self, path: Path) -> Path:
        """The file itself, or a temporary one with what comes through the pipe."""
        if str(path) in _STANDARD_INPUT:
            if "standard input" in self._read.values():
                raise ValueError(f"{path}: standard input can be read once only. Give a file for the other.")
            return self._copy(sys.stdin.buffer, "standard input", "standard input")
        if path.is_fifo():
            with open(path, "rb") as stream:
                return self._copy(stream, path.name, str(path))
        return path

    def named(self, message: str) -> str:
        """A message with the names that the user knows."""
        for temporary, name in self._read.items():
            message = message.replace(temporary, name)
        return message

    def _copy(self, stream: IO[bytes], file_name: str, called: str) -> Path:
        import tempfile  # most commands need none

        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="podium-")
        start = stream.read(64)
        named = next((name for mark, name in _NAMES.items() if start.startswith(mark)), file_name)
        copy = Path(self._folder.name) / f"{len(self._read)}" / named
        copy.parent.mkdir()
        with open(copy, "xb") as target:
            target.write(start)
            shutil.copyfileobj(stream, target, 1 << 20)
        self._read[str(copy)] = called
        return copy


inputs = Inputs()


def paths(**files: Path | None) -> dict[str, str]:
    """Files for JSON, without those that were not asked for."""
    return {name: str(path) for name, path in files.items() if path is not None}
