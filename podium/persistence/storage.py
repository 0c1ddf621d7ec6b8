"""Storage: a model on disk, `.podium`, as what it is made of: a kind, a few facts, and arrays.

The file is a sealed container: what is loaded is bit for bit what was saved, or an error says where the file is
damaged. Loading runs no code and follows no path, and the arrays take no more memory than the file has bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from podium._runtime.files import COMPRESSIONS, refuse_bad_target
from podium.formats.container import open_container, write_container
from podium.formats.errors import FormatError
from podium.formats.kinds import MODEL
from podium.formats.lines import FilePath

_LONGEST_KIND = 200  # characters


def save_parts(target: FilePath | IO[bytes], kind: str, meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a model's parts as one file, wholly old or wholly new; equal parts give equal bytes.

    A binary file object gets the same bytes in one piece.

    `meta` is plain JSON: text keys, lists, text, whole numbers, finite floats, true, false and null. The arrays are of
    bool, whole numbers or floats of at most 64 bits.
    """
    if not isinstance(target, (str, os.PathLike)):
        with _temporary_file() as copy:
            save_parts(copy, kind, meta, arrays)
            target.write(copy.read_bytes())
        return
    refuse_bad_model_path(target)
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"{os.fspath(target)}: the kind of a model must be its name; got {kind!r}.")
    if not isinstance(meta, dict):
        raise ValueError(f"{os.fspath(target)}: meta must be a dict; got {type(meta).__name__}.")
    ordered = {name: np.asarray(arrays[name]) for name in sorted(arrays, key=str)}
    write_container(target, MODEL, {"kind": kind, "meta": meta}, ordered)


def refuse_bad_model_path(path: FilePath) -> None:
    """What `save_parts` would refuse, for those who train first and save later."""
    if os.fspath(path).lower().endswith(COMPRESSIONS):
        raise ValueError(f"{os.fspath(path)}: a model file cannot be compressed; drop the suffix.")
    refuse_bad_target(Path(path))


@contextmanager
def _temporary_file() -> Iterator[Path]:
    """A name for a file that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="podium-") as folder:
        yield Path(folder) / "model.podium"


def load_parts(source: FilePath | IO[bytes]) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The kind, facts and arrays of a saved model, all of them checked; the arrays are read-only, ordered by name."""
    if not isinstance(source, (str, os.PathLike)):
        with _temporary_file() as copy:
            with open(copy, "xb") as stream:
                shutil.copyfileobj(source, stream)
            return load_parts(copy)
    with open_container(source, MODEL) as container:
        kind, meta = container.meta.get("kind"), container.meta.get("meta")
        named = isinstance(kind, str) and 0 < len(kind) <= _LONGEST_KIND
        if not named or not isinstance(meta, dict) or len(container.meta) > 2:
            raise FormatError(source, f"does not say which model it holds. {MODEL.mend}")
        return str(kind), meta, container.read_all()
