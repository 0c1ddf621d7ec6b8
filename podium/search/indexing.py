"""Indexing files: what `podium index` does, and what it reports."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from podium._runtime.progress import NotedReport
from podium._runtime.words import counted
from podium.search.documents import Document
from podium.search.manifest import NAME
from podium.search.reading import open_index
from podium.search.writing import IndexWriter


@dataclass(frozen=True)
class Built:
    """An index, and what was done for it."""

    folder: Path
    read: int  # documents
    documents: int  # in the index now
    seconds: float

    def sentence(self) -> str:
        rate = self.read / max(self.seconds, 1e-9)
        return f"{counted(self.documents, 'document')}, {self.read:,} read at {rate:,.0f} per second."

    def to_json(self) -> dict[str, Any]:
        return {
            "index": str(self.folder),
            "documents": self.documents,
            "read": self.read,
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
    """Index the documents of several sources; with `update`, also into an index that is there."""
    folder, started = Path(folder), time.perf_counter()
    if (folder / NAME).exists() and not update:
        raise ValueError(f"{folder} holds an index already. Add --update to add to it, or delete the folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / NAME).exists() and not _is_left_over(folder):
        raise ValueError(f"{folder} is a folder with other files. Choose a new one for the index.")
    with IndexWriter(folder, language=language, stop_words=stop_words, keep_texts=keep_texts) as writer:
        read = writer.add_all(chain.from_iterable(sources), report)
        if not update:
            writer.merge()
    return Built(folder, read, len(open_index(folder)), time.perf_counter() - started)


def _is_left_over(folder: Path) -> bool:
    """Whether a writer was killed here before its first commit."""
    return (folder / "write.lock").exists()
