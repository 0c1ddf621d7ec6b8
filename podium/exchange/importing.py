"""Importing: a file of another program, recognised by its content, as a model of ours."""

from __future__ import annotations

import os
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import Any

from podium._runtime.files import open_bytes
from podium.exchange.claims import Imported
from podium.exchange.registry import MODEL_FORMATS, ModelFormat, find_format
from podium.formats.errors import FormatError
from podium.formats.lines import beginning
from podium.models.frame.ranker import Ranker

LARGEST = 2**32  # bytes of a file
_HEAD = 4096  # bytes by which a format is recognised


def import_model(path: Any, format: str | None = None) -> Ranker:
    """The model of a file of another program, such as LightGBM's; it scores, explains and saves like any other.

    format: the name of the format; None recognises it by the content. `podium.exchange.read` also returns how equal
    the scores are to those of the program.
    """
    return read(path, format).model


def read(path: Any, format: str | None = None) -> Imported:
    """The model of a file, what is claimed of its scores, and what it does not keep."""
    content = content_of(path)
    chosen = recognise(path, content) if format is None else find_format(format, reads=True)
    try:
        imported: Imported = chosen.load().read(content)
    except ValueError as error:
        raise FormatError(Path(path), f"is no model in {chosen.about}: {error}") from error
    return replace(imported, format=chosen.about)


def content_of(path: Any) -> bytes:
    """The bytes of a file, decompressed."""
    with open_bytes(path) as stream:
        if isinstance(stream, FileIO) and os.fstat(stream.fileno()).st_size <= LARGEST:
            return stream.read()  # at once
    content = beginning(path, LARGEST + 1)
    if len(content) > LARGEST:
        raise FormatError(Path(path), f"is larger than {LARGEST:,} bytes, the largest model that is read.")
    return content


def recognise(path: Any, content: bytes, *, to_write: bool = False) -> ModelFormat:
    """The format that a file begins as; to_write: of those that are written, for `verify`."""
    head = content[:_HEAD]
    able = {one.name: one.writes if to_write else one.reads for one in MODEL_FORMATS.values()}
    others = None
    for one in MODEL_FORMATS.values():
        if one.load().looks_like(head):
            if able[one.name]:
                return one
            others = one
    done, not_done = ("written", "read") if to_write else ("read", "written")
    if others is not None:
        raise FormatError(Path(path), f"begins as {others.about}, which is {not_done} here and not {done}.")
    known = ", ".join(one.about for one in MODEL_FORMATS.values() if able[one.name])
    raise FormatError(Path(path), f"begins as none of the models that are {done}: {known}.")
