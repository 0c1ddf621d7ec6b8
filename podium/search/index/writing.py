"""Writing: documents are added, replaced and deleted; a commit makes all of it visible at once.

Documents wait in memory and become a segment when there are many of them, or at a commit. A commit merges segments of
similar size when there are eight, so that the number of segments stays small and every document is copied a few times.

In what is committed, an id is live in one segment at most, so that the order of these means nothing. Segments written
since the last commit are ordered: a later one replaces documents of all others. An addition that fails changes nothing.
A commit that fails has either changed nothing on disk or all; it can be repeated, or the writer closed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np

from podium._runtime.progress import NotedReport
from podium._runtime.threads import threads_for
from podium._runtime.words import counted
from podium.formats.container import write_container
from podium.formats.kinds import SEGMENT
from podium.search.analysis.analyser import Analyser
from podium.search.analysis.words import TermNumbers
from podium.search.documents.document import Batch, Document, Record, as_batch, as_document
from podium.search.index.links import has_links, write_links
from podium.search.index.manifest import (
    NAME,
    Manifest,
    Part,
    new_file,
    read_manifest,
    remove_new_folder,
    remove_unused,
    write_lock,
    write_manifest,
)
from podium.search.index.opening import open_segment, read_deleted
from podium.search.index.segments import Segment, SegmentBuilder, find_text, merge_segments
from podium.search.index.storing import LARGEST, stored_text

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
        self._manifest = self._first_manifest(language, stop_words, keep_texts)  # refused before a folder is made
        is_new = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(write_lock(self.folder))
            if is_new:
                stack.callback(remove_new_folder, self.folder)
            self._manifest = self._first_manifest(language, stop_words, keep_texts)
            remove_unused(self.folder, self._manifest)
            self._analyser = Analyser.from_json(self._manifest.analyser, str(self.folder))
            self._held: ExitStack | None = stack.pop_all()
        self._numbers = TermNumbers(self._analyser)
        self._digests = dict(self._manifest.digests)
        self._written: list[Part] = []  # segments that no manifest names yet, oldest first
        self._deletes: dict[str, int] = {}  # id -> how many segments were written when it was deleted
        self._waiting: list[Document] = []
        self._n_added = 0  # by add_all
        self._opened: dict[str, Segment] = {}
        self._deleted: dict[str, np.ndarray] = {}  # lists of deleted documents that were read
        self._builder = self._new_builder()
        self._changed = not (self.folder / NAME).exists()
        self._commit_failed = False

    def _first_manifest(self, language: str | None, stop_words: bool | None, keep_texts: bool | None) -> Manifest:
        if not (self.folder / NAME).exists():
            analyser = Analyser(language or "english", stop_words is not False)
            return Manifest(analyser.as_dict(), keep_texts is not False)
        manifest = read_manifest(self.folder)
        asked = {"language": language, "stop_words": stop_words, "keep_texts": keep_texts}
        settings = manifest.analyser | {"keep_texts": manifest.keeps_texts}
        for name, value in asked.items():
            if value is not None and value != settings[name]:
                message = f"{self.folder} was built with {name}={settings[name]!r}; got {value!r}"
                raise ValueError(f"{message}. Build a new index for that.")
        return manifest

    def _new_builder(self) -> SegmentBuilder:
        return SegmentBuilder(self._numbers, self._manifest.keeps_texts)

    def _check_open(self, committing: bool = False) -> None:
        if self._held is None:
            raise ValueError(f"{self.folder}: this writer is closed. Open a new IndexWriter.")
        if self._commit_failed and not committing:
            raise ValueError(f"{self.folder}: the last commit failed. Call commit() again, or close().")

    def add(self, document: Record) -> None:
        """Add a document, instead of the one with the same id if there is one."""
        self._check_open()
        checked = self._checked(document)
        if len(self._waiting) >= _BATCH:
            self._analyse()
        self._waiting.append(checked)
        self._changed = True

    def _checked(self, record: Record) -> Document:
        """A document that can be stored, and that no later change of the record changes."""
        document = as_document(record)
        if document is record:
            document = replace(document)
        if self._manifest.keeps_texts:
            fields = stored_text(document.id, document.fields) if document.fields else b""
            if len(document.body) + len(document.title) + len(document.url) + len(fields) > LARGEST // 8:
                stored_text(document.id, next(as_batch([document]).stored()))
        return document

    def add_all(self, documents: Iterable[Record], report: NotedReport | None = None, total: int | None = None) -> int:
        """Add many documents; returns how many. `report` is called with documents done and documents per second.

        One batch is analysed while the next is read, on a thread of its own. If one cannot be added, those before it
        are, as with `add`, and the error has a note that says how many.
        """
        self._check_open()
        before = self._n_added
        try:
            with threads_for(1, "podium-analysis") as pool:
                self._analyse_batches(pool, self._batches(documents), report, total)
        except Exception as error:
            error.add_note(f"{counted(self._n_added - before, 'document')} added before this error.")
            raise
        return self._n_added - before

    def _analyse_batches(
        self, pool: ThreadPoolExecutor, batches: Iterator[Batch], report: NotedReport | None, total: int | None
    ) -> None:
        before, started = self._n_added, time.perf_counter()
        running = pool.submit(self._analyse)
        try:
            for batch in batches:
                running.result()
                running = pool.submit(self._analyse, batch)
                if report is not None:
                    n = self._n_added - before
                    rate = n / max(time.perf_counter() - started, 1e-9)
                    report(n, total or 0, f"{n:,} documents, {rate:,.0f} per second")
        finally:
            running.result()

    def _batches(self, documents: Iterable[Record]) -> Iterator[Batch]:
        """Documents in batches; those before one that cannot be added come first, then the error."""
        records: list[Record] = []
        try:
            for record in documents:
                # A reader may use one object for all its records; pairs of texts never change, and are checked later.
                records.append(record if type(record) is tuple else self._checked(record))
                if len(records) == _BATCH:
                    yield self._batch(records)
                    records = []
            if records:
                yield self._batch(records)
                records = []
        except Exception:
            valid = self._valid(records)
            if valid:
                yield as_batch(valid)
            raise

    def _batch(self, records: Sequence[Record]) -> Batch:
        batch = as_batch(records)
        if max(map(len, batch.bodies)) > LARGEST // 8:
            for record in records:
                self._checked(record)
        return batch

    def _valid(self, records: list[Record]) -> list[Record]:
        """The documents before the first that is none."""
        valid: list[Record] = []
        for record in records:
            try:
                valid.append(self._checked(record))
            except ValueError:
                break
        return valid

    def delete(self, id: str) -> bool:
        """Delete a document; whether there was one (in the last commit or since)."""
        self._check_open()
        self._analyse()
        was_added = self._builder.remove(id)
        if not (self._is_live(id) or was_added):
            return False
        self._deletes[id] = len(self._written)
        self._changed = True
        return True

    def _is_live(self, id: str) -> bool:
        """Whether a segment, written or committed, has the document and nothing deleted it."""
        for number in range(len(self._written) - 1, self._deletes.get(id, 0) - 1, -1):
            if find_text(self._segment(self._written[number]).ids, id) >= 0:
                return True
        if id in self._deletes:
            return False
        for part in self._manifest.parts:
            doc = find_text(self._segment(part).ids, id)
            if doc >= 0 and not self._deleted_of(part)[doc]:
                return True
        return False

    def _segment(self, part: Part) -> Segment:
        """An open segment, of those that are or will be in the index."""
        if part.file not in self._opened:
            self._opened[part.file] = open_segment(self.folder, part, self._digests)
        return self._opened[part.file]

    def _deleted_of(self, part: Part) -> np.ndarray:
        if part.deleted is None:
            return np.zeros(part.n_documents, bool)
        if part.deleted not in self._deleted:
            self._deleted[part.deleted] = read_deleted(self.folder, part, self._digests)
        return self._deleted[part.deleted]

    def _analyse(self, batch: Batch | None = None) -> None:
        """Analyse the documents that wait, then a batch."""
        if self._builder.n_tokens > _MOST_TOKENS:
            self._flush()
        if self._waiting:
            self._builder.add(as_batch(self._waiting))
            self._waiting = []
        if batch is not None:
            self._builder.add(batch)
            self._n_added += len(batch)
            self._changed = True

    def _flush(self) -> None:
        """Write what was analysed as a segment; only a commit makes it part of the index."""
        if len(self._builder):
            name = self._new_file("segment")
            self._digests[name] = self._builder.write(self.folder / name)
            self._written.append(Part(name, len(self._builder)))
        self._builder = self._new_builder()

    def _new_file(self, kind: str) -> str:
        name, self._manifest = new_file(self._manifest, kind)
        return name

    def commit(self) -> None:
        """Make all changes visible to readers that open the index from now on."""
        self._check_open(committing=True)
        self._commit_failed = True
        self._analyse()
        self._flush()
        if self._changed:
            parts = self._with_deletions((*self._manifest.parts, *self._written))
            self._publish(tuple(part for part in parts if part.n_live))
        while same_size := _alike(self._manifest.parts):
            self._merge(same_size)
        self._commit_failed = False

    def merge(self) -> None:
        """Commit, and make one segment of all, without what was deleted."""
        self._check_open()
        self.commit()
        parts = self._manifest.parts
        if len(parts) > 1 or any(part.n_deleted for part in parts):
            self._commit_failed = True
            self._merge(list(range(len(parts))))
            self._commit_failed = False

    def _with_deletions(self, parts: tuple[Part, ...]) -> list[Part]:
        """Mark documents that were deleted, or that a segment written later replaces."""
        n_old = len(self._manifest.parts)
        segments = [self._segment(part) for part in parts]
        gone = [set[int]() for _ in parts]
        for number, segment in enumerate(segments):
            for later in range(max(number + 1, n_old), len(parts)):
                few, many = sorted((segment, segments[later]), key=lambda one: one.n_documents)
                shared = [id for id in few.ids if find_text(many.ids, id) >= 0]
                gone[number].update(find_text(segment.ids, id) for id in shared)
            deleted = [id for id, n_written in self._deletes.items() if number < n_old + n_written]
            gone[number].update(doc for id in deleted if (doc := find_text(segment.ids, id)) >= 0)
        return [self._mark(part, docs) if docs else part for part, docs in zip(parts, gone)]

    def _mark(self, part: Part, docs: set[int]) -> Part:
        deleted = self._deleted_of(part).copy()
        deleted[list(docs)] = True
        if deleted.sum() == part.n_deleted:
            return part
        name = self._new_file("deleted")
        self._digests[name] = write_container(self.folder / name, SEGMENT, {"part": "deleted"}, {"deleted": deleted})
        return replace(part, deleted=name, n_deleted=int(deleted.sum()))

    def _merge(self, numbers: list[int]) -> None:
        parts = self._manifest.parts
        merged = [parts[number] for number in numbers]
        rest = tuple(part for part in parts if part not in merged)
        live = [~self._deleted_of(part) for part in merged]
        name = self._new_file("segment")
        self._digests[name] = merge_segments(self.folder / name, [self._segment(part) for part in merged], live)
        self._publish((Part(name, sum(part.n_live for part in merged)), *rest))

    def _publish(self, parts: tuple[Part, ...]) -> None:
        links = None
        segments = [self._segment(part) for part in parts]
        if any(map(has_links, segments)):
            links = self._new_file("links")
            live = [~self._deleted_of(part) for part in parts]
            self._digests[links] = write_links(self.folder / links, segments, live, self._numbers)
        manifest = replace(self._manifest, parts=parts, links=links, generation=self._manifest.generation + 1)
        manifest = replace(manifest, digests={name: self._digests[name] for name in manifest.files})
        write_manifest(self.folder, manifest)
        self._start_from(manifest)
        remove_unused(self.folder, manifest)

    def _start_from(self, manifest: Manifest) -> None:
        """What was written until now is committed."""
        self._manifest, self._digests = manifest, dict(manifest.digests)
        self._written, self._deletes, self._changed = [], {}, False
        self._opened = {name: segment for name, segment in self._opened.items() if name in manifest.files}
        self._deleted = {name: deleted for name, deleted in self._deleted.items() if name in manifest.files}

    def close(self) -> None:
        """Release the lock. What was not committed is dropped; a new folder that has no index then is removed."""
        if self._held is not None:
            self._held.close()
        self._held = None

    def __enter__(self) -> IndexWriter:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._held is not None:
                self.commit()
        finally:
            self.close()


def _alike(parts: tuple[Part, ...]) -> list[int]:
    """The places of eight or more segments of one order of magnitude; none without."""
    sizes = [part.n_live.bit_length() // 3 for part in parts]
    for size in sorted(set(sizes)):
        places = [number for number, other in enumerate(sizes) if other == size]
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
