"""Looks: how often the test parts of an experiment were judged.

A line is added to looks.jsonl before the values are known, so that neither a run that was killed nor one that was
deleted and repeated is forgotten. What is chosen after a look has seen the test part, and only
the number of looks can tell.
"""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

_FILE = "looks.jsonl"


class Look(BaseModel):
    """One time that scores of a model were judged by the labels of a test part."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    time: str  # UTC, to the second
    model: str
    fold: str
    seed: int


def record_look(folder: Path, model: str, fold: str, seed: int) -> None:
    """Add a line, on the disk before this returns. Several processes may add lines at once: each is one write."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line = Look(time=time, model=model, fold=fold, seed=seed).model_dump_json() + "\n"
    file = os.open(folder / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _write_whole(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


def _write_whole(file: int, line: bytes) -> None:
    """A full disk may take a part of the line; that part is removed, as the file would not be readable with it."""
    written = os.write(file, line)
    if written < len(line):
        os.ftruncate(file, os.lseek(file, 0, os.SEEK_CUR) - written)
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}; the look was not recorded", _FILE)


def read_looks(folder: Path) -> tuple[Look, ...]:
    """All looks, the first one first; none where nothing was judged yet."""
    path = folder / _FILE
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return tuple(_look(path, number, line) for number, line in enumerate(lines, 1))


def _look(path: Path, number: int, line: bytes) -> Look:
    try:
        return Look.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        raise ValueError(
            f"{path}, line {number}: expected a look at a test part, with time, model, fold and seed, but found "
            f"{line[:60].decode(errors='replace')!r}. Restore the file: it counts how often the test parts were judged."
        ) from None
