"""Manifest: which files are the index. Replacing it is the commit; a reader keeps the one that it has read.

Segments, lists of deleted documents and links are files of their own, each written once and never changed. They are on
disk before a manifest names them, so that a process that is killed at any moment leaves the last commit as it was.
Files that no manifest names are removed by the next writer, which holds the lock. The manifest has the digest of each
file, so that a part of another index, or of another commit, is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from podium.formats.container import open_container, write_container
from podium.formats.kinds import INDEX

NAME = "index.podium"
_LOCK = "write.lock"
_SUFFIX = ".podium-part"
_FILE_NAME = re.compile(r"(segment|deleted|links)-([0-9]{6,15})\.podium-part", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ANALYSER: dict[str, type] = {"language": str, "stop_words": bool, "version": int, "stemmer": str}
_FACTS = ("analyser", "keeps_texts", "generation", "next", "parts", "links", "digests")  # the fields of Manifest
_PART_FACTS = ("file", "documents", "deleted", "n_deleted")  # those of Part
_LARGEST = 1 << 53  # no number in a manifest is larger


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
    digests: Mapping[str, str] = field(default_factory=dict)  # of each file
    files: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = [name for part in self.parts for name in (part.file, part.deleted)] + [self.links]
        object.__setattr__(self, "files", tuple(name for name in names if name is not None))

    def as_dict(self) -> dict[str, Any]:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["parts"] = [dict(zip(_PART_FACTS, astuple(part))) for part in self.parts]
        return dict(zip(_FACTS, values.values())) | {"digests": dict(self.digests)}


def read_manifest(folder: Path) -> Manifest:
    path = folder / NAME
    if not path.exists():
        raise FileNotFoundError(f"No index at {folder}. Build one with: podium index DOCUMENTS --out {folder}")
    with open_container(path, INDEX) as file:
        facts = file.meta
    try:
        return _checked_manifest(facts)
    except ValueError as error:
        raise INDEX.damaged(path, f"its facts are not understood: {error}") from error


def _checked_manifest(facts: dict[str, Any]) -> Manifest:
    _check_keys("the facts", facts, _FACTS)
    _check_analyser(facts["analyser"])
    if type(facts["keeps_texts"]) is not bool or type(facts["parts"]) is not list:
        raise ValueError("keeps_texts is no truth value, or parts no list")
    parts = tuple(_checked_part(item) for item in facts["parts"])
    links = None if facts["links"] is None else _file_name(facts["links"], "links")
    generation, number = (_number(name, facts[name]) for name in ("generation", "next"))
    manifest = Manifest(
        facts["analyser"], facts["keeps_texts"], generation, number, parts, links, _checked_digests(facts["digests"])
    )
    if len(set(manifest.files)) < len(manifest.files) or set(manifest.digests) != set(manifest.files):
        raise ValueError("a file is named twice, or its digest is missing")
    if any(int(name.partition("-")[2].partition(".")[0]) >= number for name in manifest.files):
        raise ValueError(f"the next file would have the number {number}, which is not above all others")
    return manifest


def _check_keys(what: str, facts: Any, keys: Iterable[str]) -> None:
    if type(facts) is not dict or set(facts) != set(keys):
        raise ValueError(f"{what} must have the keys {', '.join(sorted(keys))}")


def _check_analyser(facts: Any) -> None:
    _check_keys("the analyser", facts, _ANALYSER)
    for name, expected in _ANALYSER.items():
        if type(facts[name]) is not expected:
            raise ValueError(f"{name} of the analyser is {facts[name]!r:.60}")


def _checked_part(facts: Any) -> Part:
    _check_keys("a part", facts, _PART_FACTS)
    n_documents, n_deleted = _number("documents", facts["documents"]), _number("n_deleted", facts["n_deleted"])
    deleted = None if facts["deleted"] is None else _file_name(facts["deleted"], "deleted")
    if n_deleted >= n_documents or (deleted is None) != (n_deleted == 0):
        raise ValueError(f"a part has {n_documents} documents and {n_deleted} deleted ones, listed in {deleted}")
    return Part(_file_name(facts["file"], "segment"), n_documents, deleted, n_deleted)


def _number(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{name} is {value!r:.60}")
    return value


def _checked_digests(facts: Any) -> dict[str, str]:
    if type(facts) is not dict or not all(type(item) is str and _DIGEST.fullmatch(item) for item in facts.values()):
        raise ValueError("the digests are not hexadecimal numbers of 64 digits")
    return facts


def _file_name(name: Any, kind: str) -> str:
    """No file outside the folder is ever opened, and none as what it is not."""
    match = _FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or match[1] != kind:
        raise ValueError(f"{name!r:.60} is no name of a part")
    return match[0]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_container(folder / NAME, INDEX, manifest.as_dict(), {})


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
    handle = _locked_file(folder / _LOCK)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def _locked_file(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not _try_lock(handle):
            writer = os.read(handle, 20).decode("ascii", "replace").strip()
            os.close(handle)
            message = f"{path.parent}: process {writer or '(unknown)'} is writing to this index"
            raise BlockingIOError(f"{message}. Only one writer is allowed; try again when it is done.")
        if _is_at(path, handle):
            return handle
        os.close(handle)  # a writer removed the file, which it had made in vain, before it was locked here


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def remove_new_folder(folder: Path) -> None:
    """Remove a folder that has nothing but the lock file, which the caller holds."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            folder.rmdir()


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
