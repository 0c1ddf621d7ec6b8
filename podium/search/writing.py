"""Writing: documents are added, replaced and deleted; a commit makes all of it visible at once.

Documents wait in memory and become a segment when there are many of them, or at a commit. A commit merges segments of
similar size when there are eight, so that the number of segments stays small and every document is copied a few times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np

from podium._runtime.progress import NotedReport
from podium._runtime.threads import threads_for
from podium.formats.container import open_container, write_container
from podium.formats.kinds import SEGMENT
from podium.search.analysis import Analyser
from podium.search.documents import Batch, Document, Record, as_batch, as_document
from podium.search.links import has_links, write_links
from podium.search.manifest import (
    NAME,
    Manifest,
    Part,
    new_file,
    read_manifest,
    remove_unused,
    write_lock,
    write_manifest,
)
from podium.search.segments import Segment, SegmentBuilder, find_text, merge_segments
from podium.search.words import TermNumbers

_BATCH = 2048  # documents that are analysed at once
_MOST_TOKENS = 100_000_000  # of a segment in memory: 400 MB
_SAME_SIZE = 8  # segments of one size that are merged


class IndexWriter:
    """The one writer of an index folder; leaving its `with` block without an error commits."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        language: str | None = None,
        stop_words: bool | None = None,
        keep_texts: bool | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(write_lock(self.folder))
            self._manifest = self._first_manifest(language, stop_words, keep_texts)
            remove_unused(self.folder, self._manifest)
            self._held = stack.pop_all()
        self._analyser = Analyser.from_json(self._manifest.analyser, str(self.folder))
        self._numbers = TermNumbers(self._analyser)
        self._written: list[Part] = []  # segments that no manifest names yet
        self._deletes: dict[str, int] = {}  # id -> how many of the segments, old and written, it was deleted from
        self._waiting: list[Document] = []
        self._opened: dict[str, Segment] = {}
        self._builder = self._new_builder()
        self._changed = not (self.folder / NAME).exists()

    def _first_manifest(self, language: str | None, stop_words: bool | None, keep_texts: bool | None) -> Manifest:
        if not (self.folder / NAME).exists():
            analyser = Analyser(language or "english", stop_words is not False)
            return Manifest(analyser.to_json(), keep_texts is not False)
        found = read_manifest(self.folder)
        asked = {"language": language, "stop_words": stop_words}
        has = {name: found.analyser[name] for name in asked} | {"keep_texts": found.keeps_texts}
        for name, value in (asked | {"keep_texts": keep_texts}).items():
            if value is not None and value != has[name]:
                raise ValueError(
                    f"{self.folder} was built with {name}={has[name]!r}; got {value!r}. Build a new index for that."
                )
        return found

    def _new_builder(self) -> SegmentBuilder:
        return SegmentBuilder(self._numbers, self._manifest.keeps_texts)

    def add(self, document: Record) -> None:
        """Add a document, instead of the one with the same id if there is one."""
        self._waiting.append(as_document(document))
        self._changed = True
        if len(self._waiting) >= _BATCH:
            self._analyse()

    def add_all(self, documents: Iterable[Record], report: NotedReport | None = None, total: int | None = None) -> int:
        """Add many documents; returns how many. `report` is called with documents done and documents per second.

        One batch is analysed while the next is read, on a thread of its own.
        """
        n, started, source = 0, time.perf_counter(), iter(documents)
        with threads_for(1, "podium-analysis") as pool:
            running = pool.submit(self._analyse)
            while records := list(islice(source, _BATCH)):
                batch = as_batch(records)
                running.result()
                self._changed = True
                running = pool.submit(self._analyse, batch)
                n += len(batch)
                if report is not None:
                    rate = n / max(time.perf_counter() - started, 1e-9)
                    report(n, total or 0, f"{n:,} documents, {rate:,.0f} per second")
            running.result()
        return n

    def delete(self, id: str) -> bool:
        """Delete a document; whether there was one (in the last commit or since)."""
        self._analyse()
        there = self._builder.remove(id)
        parts = (*self._manifest.parts, *self._written)
        there = self._is_live(id, parts) or there
        if there:
            self._deletes[id] = len(parts)
            self._changed = True
        return there

    def _is_live(self, id: str, parts: tuple[Part, ...]) -> bool:
        """Whether the newest segment that has the id has it alive."""
        for place in range(len(parts) - 1, -1, -1):
            if self._deletes.get(id, 0) > place:
                return False
            doc = find_text(self._segment(parts[place]).ids, id)
            if doc >= 0:
                return not read_deleted(self.folder, parts[place])[doc]
        return False

    def _segment(self, part: Part) -> Segment:
        """An open segment, of those that are or will be in the index."""
        if part.file not in self._opened:
            self._opened[part.file] = Segment(self.folder / part.file)
        return self._opened[part.file]

    def _analyse(self, batch: Batch | None = None) -> None:
        """Analyse the documents that wait, then a batch."""
        self._analyse_rest()
        if batch is not None:
            self._builder.add(batch)
        if self._builder.n_tokens > _MOST_TOKENS:
            self._flush()

    def _flush(self) -> None:
        """Write what waits as a segment; only a commit makes it part of the index."""
        self._analyse_rest()
        if len(self._builder):
            name, self._manifest = new_file(self._manifest, "segment")
            self._written.append(Part(name, self._builder.write(self.folder / name)))
        self._builder = self._new_builder()

    def _analyse_rest(self) -> None:
        if self._waiting:
            self._builder.add(as_batch(self._waiting))
            self._waiting = []

    def commit(self) -> None:
        """Make all changes visible to readers that open the index from now on."""
        self._flush()
        if not self._changed:
            return
        parts = self._with_deletions((*self._manifest.parts, *self._written), len(self._manifest.parts))
        self._publish(tuple(part for part in parts if part.n_live))
        self._written, self._deletes, self._changed = [], {}, False
        while same_size := _alike(self._manifest.parts):
            self._merge(same_size)

    def merge(self) -> None:
        """Commit, and make one segment of all, without what was deleted."""
        self.commit()
        parts = self._manifest.parts
        if len(parts) > 1 or any(part.n_deleted for part in parts):
            self._merge(list(range(len(parts))))

    def _with_deletions(self, parts: tuple[Part, ...], n_old: int) -> list[Part]:
        """Mark documents that were deleted, or that a later segment replaces."""
        segments = [self._segment(part) for part in parts]
        gone = [set[int]() for _ in parts]
        for place, segment in enumerate(segments):
            for later in range(max(place + 1, n_old), len(parts)):
                few, many = sorted((segment, segments[later]), key=lambda one: one.n_documents)
                shared = [id for id in few.ids if find_text(many.ids, id) >= 0]
                gone[place].update(find_text(segment.ids, id) for id in shared)
            found = (find_text(segment.ids, id) for id, before in self._deletes.items() if place < before)
            gone[place].update(doc for doc in found if doc >= 0)
        return [self._mark(part, docs) if docs else part for part, docs in zip(parts, gone)]

    def _mark(self, part: Part, docs: set[int]) -> Part:
        deleted = read_deleted(self.folder, part).copy()
        deleted[list(docs)] = True
        if deleted.sum() == part.n_deleted:
            return part
        name, self._manifest = new_file(self._manifest, "deleted")
        write_container(self.folder / name, SEGMENT, {"part": "deleted"}, {"deleted": deleted})
        return replace(part, deleted=name, n_deleted=int(deleted.sum()))

    def _merge(self, places: list[int]) -> None:
        parts = self._manifest.parts
        chosen = [parts[place] for place in places]
        name, self._manifest = new_file(self._manifest, "segment")
        segments = [self._segment(part) for part in chosen]
        live = [~read_deleted(self.folder, part) for part in chosen]
        merged = Part(name, merge_segments(self.folder / name, segments, live))
        rest = [part for place, part in enumerate(parts) if place not in places]
        self._publish((merged, *rest) if merged.n_documents else tuple(rest))

    def _publish(self, parts: tuple[Part, ...]) -> None:
        links = None
        segments = [self._segment(part) for part in parts]
        manifest = self._manifest
        if any(map(has_links, segments)):
            links, manifest = new_file(manifest, "links")
            live = [~read_deleted(self.folder, part) for part in parts]
            write_links(self.folder / links, segments, live, self._numbers)
        manifest = replace(manifest, parts=parts, links=links, generation=manifest.generation + 1)
        write_manifest(self.folder, manifest)
        self._manifest = manifest
        self._opened = {name: segment for name, segment in self._opened.items() if name in manifest.files}
        remove_unused(self.folder, manifest)

    def close(self) -> None:
        """Release the lock. What was not committed is dropped."""
        self._held.close()

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()


def read_deleted(folder: Path, part: Part) -> np.ndarray:
    """Per document of a segment whether it is deleted."""
    if part.deleted is None:
        return np.zeros(part.n_documents, bool)
    with open_container(folder / part.deleted, SEGMENT) as file:
        return file.read("deleted")


def _alike(parts: tuple[Part, ...]) -> list[int]:
    """The places of eight or more segments of one order of magnitude; none without."""
    sizes = [part.n_live.bit_length() // 3 for part in parts]
    for size in sorted(set(sizes)):
        places = [place for place, own in enumerate(sizes) if own == size]
        if len(places) >= _SAME_SIZE:
            return places
    return []


def build_index(
    documents: Iterable[Record],
    folder: str | os.PathLike[str],
    *,
    language: str = "english",
    stop_words: bool = True,
    keep_texts: bool = True,
    report: NotedReport | None = None,
) -> Path:
    """Index documents in a new folder: Documents, mappings with the keys id, title, body, url, ..., or (id, body).

    `keep_texts=False` leaves out the texts themselves, which snippets need.
    """
    folder = Path(folder)
    if (folder / NAME).exists():
        raise FileExistsError(
            f"{folder} holds an index already. Add to it with podium.search.IndexWriter, or delete it."
        )
    with IndexWriter(folder, language=language, stop_words=stop_words, keep_texts=keep_texts) as writer:
        writer.add_all(documents, report)
        writer.merge()
    return folder
