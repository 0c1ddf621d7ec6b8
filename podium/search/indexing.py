"""Indexing files: what `podium index` does, and what it reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from podium._runtime.progress import NotedReport
from podium._runtime.words import counted
from podium.search.documents.document import Document
from podium.search.index.manifest import NAME
from podium.search.index.writing import IndexWriter
from podium.search.reading import open_index


@dataclass(frozen=True)
class Built:
    """An index, and what was done for it."""

    folder: Path
    read: int  # documents
    documents: int  # in the index now
    replaced: int  # documents with an id that a later one has too
    seconds: float

    def sentence(self) -> str:
        rate = self.read / max(self.seconds, 1e-9)
        replaced = f" {counted(self.replaced, 'document')} replaced by a later one with the same id."
        read = f"{self.read:,} read at {rate:,.0f} per second."
        return f"{counted(self.documents, 'document')}, {read}{replaced if self.replaced else ''}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "index": str(self.folder),
            "documents": self.documents,
            "read": self.read,
            "replaced": self.replaced,
            "seconds": round(self.seconds, 3),
        }


def index_documents(
    sources: Iterable[Iterable[Document]],
    folder: str | os.PathLike[str],
    *,
    update: bool = False,
    language: str | None = None,
    stop_words: bool | None = None,
    keep_texts: bool | None = None,
    report: NotedReport | None = None,
) -> Built:
    """Index the documents of several sources; with `update`, also into an index that is there.

    Sources without any document, and errors, leave no new index and change none.
    """
    folder, started = Path(folder), time.perf_counter()
    if (folder / NAME).exists() and not update:
        raise ValueError(f"{folder} holds an index already. Add --update to add to it, or delete the folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / NAME).exists() and not _is_left_over(folder):
        raise ValueError(f"{folder} is a folder with other files. Choose a new one for the index.")
    documents, before = chain.from_iterable(sources), _size(folder)
    first = next(documents, None)
    if first is None:
        return Built(folder, 0, before, 0, time.perf_counter() - started)
    with (
        _removed_on_error(folder),
        IndexWriter(folder, language=language, stop_words=stop_words, keep_texts=keep_texts) as writer,
    ):
        read = writer.add_all(chain([first], documents), report)
        if not update:
            writer.merge()
    size = _size(folder)
    return Built(folder, read, size, before + read - size, time.perf_counter() - started)


def _size(folder: Path) -> int:
    return len(open_index(folder)) if (folder / NAME).exists() else 0


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    """Folders that are made here are removed if no index comes of it."""
    made = [own for own in (folder, *folder.parents) if not own.exists()]
    try:
        yield
    except BlockingIOError:  # another process writes there
        raise
    except BaseException:
        if made and not (folder / NAME).exists():
            for own in made:
                _remove(own)
        raise


def _remove(folder: Path) -> None:
    """A folder with the files in it; one with folders in it stays."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()
        folder.rmdir()


def _is_left_over(folder: Path) -> bool:
    """Whether a writer was killed here before its first commit."""
    return (folder / "write.lock").exists()
