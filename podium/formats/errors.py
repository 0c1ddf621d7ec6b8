"""FormatError: what is wrong in a file, and where."""

from __future__ import annotations

import os


class FormatError(ValueError):
    """A file that violates its format: `train.txt, line 18: expected ..., found ... .`

    `unit` is what is counted where a file has no lines: "row".
    """

    def __init__(
        self, path: str | os.PathLike[str], message: str, line: int | None = None, *, unit: str = "line"
    ) -> None:
        where = os.fspath(path) if line is None else f"{os.fspath(path)}, {unit} {line}"
        super().__init__(f"{where}: {message}")
        self.path = os.fspath(path)
        self.line = line
