"""Manifest: which files are the index. Replacing it is the commit; a reader keeps the one that it has read.

Segments, lists of deleted documents and links are files of their own, each written once and never changed. They are on
disk before a manifest names them, so that a process that is killed at any moment leaves the last commit as it was.
Files that no manifest names are removed by the next writer, which holds the lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from podium.formats.container import open_container, write_container
from podium.formats.kinds import INDEX

NAME = "index.podium"
_LOCK = "write.lock"
_SUFFIX = ".podium-part"


@dataclass(frozen=True)
class Part:
    """A segment, and the file that lists its deleted documents."""

    file: str
    n_documents: int
    deleted: str | None = None
    n_deleted: int = 0

    @property
    def n_live(self) -> int:
        return self.n_documents - self.n_deleted


@dataclass(frozen=True)
class Manifest:
    """The state of an index after a commit."""

    analyser: dict[str, Any]
    keeps_texts: bool
    generation: int = 0  # commits so far
    next_number: int = 1  # of the next file
    parts: tuple[Part, ...] = ()
    links: str | None = None
    files: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = [name for part in self.parts for name in (part.file, part.deleted)] + [self.links]
        object.__setattr__(self, "files", tuple(name for name in names if name is not None))

    def to_json(self) -> dict[str, Any]:
        parts = [
            {"file": part.file, "documents": part.n_documents, "deleted": part.deleted, "n_deleted": part.n_deleted}
            for part in self.parts
        ]
        return {
            "analyser": self.analyser,
            "keeps_texts": self.keeps_texts,
            "generation": self.generation,
            "next": self.next_number,
            "parts": parts,
            "links": self.links,
        }


def read_manifest(folder: Path) -> Manifest:
    path = folder / NAME
    if not path.exists():
        raise FileNotFoundError(f"No index at {folder}. Build one with: podium index DOCUMENTS --out {folder}")
    with open_container(path, INDEX) as file:
        facts = file.meta
    try:
        parts = tuple(
            Part(_file_name(item["file"]), int(item["documents"]), item["deleted"], int(item["n_deleted"]))
            for item in facts["parts"]
        )
        found = Manifest(
            facts["analyser"], facts["keeps_texts"], facts["generation"], facts["next"], parts, facts["links"]
        )
        for name in found.files:
            _file_name(name)
    except (KeyError, TypeError, ValueError) as error:
        raise INDEX.damaged(path, f"its facts are not understood: {error}") from error
    return found


def _file_name(name: Any) -> str:
    """No file outside the folder is ever opened."""
    if not isinstance(name, str) or not name.endswith(_SUFFIX) or os.path.basename(name) != name:
        raise ValueError(f"{name!r} is no name of a part")
    return name


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_container(folder / NAME, INDEX, manifest.to_json(), {})


def new_file(manifest: Manifest, kind: str) -> tuple[str, Manifest]:
    """A name that no file of the index has had, and the manifest that remembers it."""
    name = f"{kind}-{manifest.next_number:06d}{_SUFFIX}"
    return name, replace(manifest, next_number=manifest.next_number + 1)


def remove_unused(folder: Path, manifest: Manifest) -> None:
    """Remove the parts of earlier commits and what killed writers left. Open files keep their content for readers."""
    for path in folder.iterdir():
        unused = path.suffix == _SUFFIX and path.name not in manifest.files
        half_written = path.name.startswith(".") and path.suffix == ".part"
        if unused or half_written:
            with suppress(OSError):  # Windows removes no open file; the next commit tries again
                path.unlink()


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Only one process writes to an index. The system releases the lock of a process that is killed."""
    path = folder / _LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _try_lock(handle):
            other = os.read(handle, 20).decode("ascii", "replace").strip()
            message = f"{folder}: process {other or '(unknown)'} is writing to this index"
            raise BlockingIOError(f"{message}. Only one writer is allowed; try again when it is done.")
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())  # nothing was read yet: this is the front of the file
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
