"""Segments: documents and their postings in one file, which never changes.

Documents are numbered in the order of their ids (by code points), so that a number decides between equal scores and the
order in which documents came cannot matter. Terms are numbered in the same way; all fields share them.

    whole   title and body together: what the document itself says
    body, title, url
    anchor  the words of links to the document; these come from other documents, and are in a file of their own
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, readonly
from podium._runtime.once import once
from podium.data.texts import Texts
from podium.formats.container import Container, MappedArray, open_container, write_container
from podium.formats.kinds import SEGMENT
from podium.search.documents.document import Batch
from podium.search.index import checking
from podium.search.index.postings import Postings, Tokens, invert, merge
from podium.search.index.sorting import sorted_order, taken
from podium.search.index.storing import Store, StoreWriter, stored_text

if TYPE_CHECKING:
    from podium.search.analysis.words import TermNumbers

OWN_FIELDS = ("body", "title", "url")  # that are analysed
FIELDS = ("whole", "body", "title", "anchor", "url")
_STORED_FIELDS = ("whole", *OWN_FIELDS)


@dataclass
class SegmentBuilder:
    """Collects documents; `write` makes a segment of them, and can be called again if it fails."""

    numbers: TermNumbers
    keep_texts: bool
    ids: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    links: dict[int, list[tuple[str, str]]] = field(default_factory=dict)  # of documents that have any
    anchors: dict[int, list[str]] = field(default_factory=dict)
    n_tokens: int = 0

    def __post_init__(self) -> None:
        self._latest: dict[str, int] = {}
        self._words: dict[str, list[Tokens]] = {name: [] for name in OWN_FIELDS}
        self._store = StoreWriter()

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, batch: Batch) -> None:
        """Add documents. What can fail comes first: a batch that is refused changes nothing."""
        stored = zip(batch.ids, batch.stored()) if self.keep_texts else ()
        texts = [stored_text(id, document) for id, document in stored]
        words = {
            name: self._tokens(column) for name, column in zip(OWN_FIELDS, (batch.bodies, batch.titles, batch.urls))
        }
        first = len(self.ids)
        self._latest.update(zip(batch.ids, range(first, first + len(batch))))  # of several with one id, the last counts
        self.ids += batch.ids
        self.urls += batch.urls
        for row, document in batch.others.items():
            if document.links:
                self.links[first + row] = document.links
            if document.anchors:
                self.anchors[first + row] = document.anchors
        for name, tokens in words.items():
            self._words[name].append(tokens)
            self.n_tokens += len(tokens.terms)
        for text in texts:
            self._store.add(text)

    def _tokens(self, texts: Sequence[str]) -> Tokens:
        if any(texts):
            return Tokens(*self.numbers.words(texts))
        return Tokens(np.empty(0, np.int32), np.zeros(len(texts), np.int64))

    def remove(self, id: str) -> bool:
        return self._latest.pop(id, None) is not None

    def write(self, path: Path) -> str:
        """Write the segment, which has `len(self)` documents; returns its digest."""
        names = Texts.of(self._latest)
        by_id = sorted_order(names)
        order = np.fromiter(self._latest.values(), np.int64, len(self._latest))[by_id]
        known, of_words = self._sorted_terms()
        fields = {}
        tokens = {name: Tokens.joined(parts, of_words) for name, parts in self._words.items()}
        if len(tokens["title"].terms):
            whole = tokens["body"].behind(tokens["title"])
            fields["whole"] = invert(whole, order, len(known), positions=False)
        fields |= {name: invert(tokens.pop(name), order, len(known)) for name in OWN_FIELDS}
        fields = _not_empty(fields)
        arrays = (
            _text_arrays("ids", taken(names, by_id)) | _only_used(fields, known) | self._link_arrays(order.tolist())
        )
        if self.keep_texts:
            arrays |= self._store_arrays(path, order)
        return _write_segment(path, len(order), fields, arrays)

    def _store_arrays(self, path: Path, order: Array) -> dict[str, Array]:
        """The texts of these documents; those of replaced and removed ones are left out."""
        arrays, rows = self._store.arrays(), np.arange(len(self.ids))
        if len(order) == len(rows):
            return arrays | {"store.rows": order.astype(np.uint32)}
        writer, live = StoreWriter(), np.sort(order)
        everything = Store(
            path, arrays["store.data"], arrays["store.blocks"], arrays["store.firsts"], rows.astype(np.uint32)
        )
        for text in everything.texts(live):
            writer.add(text)
        return writer.arrays() | {"store.rows": np.searchsorted(live, order).astype(np.uint32)}

    def _sorted_terms(self) -> tuple[Texts, Array]:
        """The terms of the documents, and per word of the writer the place of its term; -1 without."""
        of_words = self.numbers.of_words
        seen = np.zeros(len(of_words), bool)
        for part in (part for parts in self._words.values() for part in parts):
            seen[part.terms] = True
        known, places = sorted_terms(self.numbers.terms, of_words[seen])
        return known, places[of_words]

    def _link_arrays(self, order: list[int]) -> dict[str, Array]:
        if not (self.links or self.anchors or any(self.urls)):
            return {}
        links = [self.links.get(number, []) for number in order]
        anchors = [self.anchors.get(number, []) for number in order]
        return _link_arrays([self.urls[number] for number in order], links, anchors)


def _link_arrays(urls: list[str], links: list[list[tuple[str, str]]], anchors: list[list[str]]) -> dict[str, Array]:
    arrays = _text_arrays("urls", urls) if any(urls) else {}
    if any(links):
        arrays["links.ends"] = np.cumsum([len(targets) for targets in links], dtype=np.int64)
        arrays |= _text_arrays("links.targets", [target for targets in links for target, _ in targets])
        arrays |= _text_arrays("links.texts", [text for targets in links for _, text in targets])
    if any(anchors):
        arrays["anchors.ends"] = np.cumsum([len(targets) for targets in anchors], dtype=np.int64)
        arrays |= _text_arrays("anchors.texts", [text for targets in anchors for text in targets])
    return arrays


def sorted_terms(terms: Texts, used: Array) -> tuple[Texts, Array]:
    """The terms with these numbers, by code points, and per term its place among them; -1 without, and for -1."""
    places = np.full(len(terms) + 1, -1, np.int32)
    seen = np.zeros(len(terms) + 1, bool)
    seen[used] = True  # -1 is the last
    numbers = np.flatnonzero(seen[:-1])
    order = sorted_order(terms if len(numbers) == len(terms) else taken(terms, numbers))
    places[numbers[order]] = np.arange(len(numbers), dtype=np.int32)
    return taken(terms, numbers[order]), places


class Segment:
    """An open segment: arrays stay in the file, and are checked when they are first used."""

    def __init__(self, path: Path, digest: str | None = None) -> None:
        self.path = path
        with open_container(path, SEGMENT, digest) as file:
            self.n_documents, self.has_fields = _checked_facts(path, file)
            self._mapped: dict[str, MappedArray] = {name: file.map(name) for name in file.entries}
        self._arrays: dict[str, Array] = {}
        self._postings: dict[str, Postings] = {}

    def array(self, name: str) -> Array:
        """An array as the file has it, compared with its checksum."""
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = self._mapped[name].verified()
        return array

    def has(self, name: str) -> bool:
        return name in self._mapped

    def texts(self, name: str, ascending: bool = False) -> Texts:
        arrays = self.array(f"{name}.data"), self.array(f"{name}.offsets")
        return checking.checked_texts(self.path, name, *arrays, ascending=ascending)

    @once
    def ids(self) -> Texts:
        return self.texts("ids", ascending=True)

    @once
    def terms(self) -> Texts:
        return self.texts("terms", ascending=True)

    def postings(self, name: str) -> Postings:
        """The postings of a field that is the document's own; whole is body where there are no titles."""
        stored = "body" if name == "whole" and "whole" not in self.has_fields else name
        if stored not in self.has_fields:
            return self._no_postings
        postings = self._postings.get(stored)
        if postings is None:
            arrays = Postings(*(self.array(f"{stored}.{part}") for part in checking.PARTS))
            postings = self._postings[stored] = checking.checked_postings(self.path, stored, arrays)
        return postings

    @once
    def _no_postings(self) -> Postings:
        """Those of a field in which no document has a term."""
        of_terms = readonly(np.zeros(len(self.terms) + 1, np.int64))
        of_documents = readonly(np.zeros(self.n_documents, np.uint32))
        docs, short = readonly(np.empty(0, np.uint32)), readonly(np.empty(0, np.uint16))
        return Postings(of_terms, docs, short, of_documents, of_documents, of_terms, short)

    @once
    def store(self) -> Store | None:
        if not self.has("store.rows"):
            return None
        return Store(self.path, *(self.array(f"store.{name}") for name in ("data", "blocks", "firsts", "rows")))

    def urls(self) -> Texts:
        return self.texts("urls") if self.has("urls.data") else Texts.of([""] * self.n_documents)

    def links(self) -> tuple[Array, Texts, Texts]:
        """Per document where its links end; targets; texts."""
        if not self.has("links.ends"):
            return np.zeros(self.n_documents, np.int64), Texts.of([]), Texts.of([])
        targets, texts = self.texts("links.targets"), self.texts("links.texts")
        if len(targets) != len(texts):
            raise SEGMENT.damaged(self.path, f"{len(targets)} links have {len(texts)} texts")
        return self._ends("links.ends", len(targets)), targets, texts

    def anchors(self) -> tuple[Array, Texts]:
        """Per document where the anchor texts given with it end; the texts."""
        if not self.has("anchors.ends"):
            return np.zeros(self.n_documents, np.int64), Texts.of([])
        texts = self.texts("anchors.texts")
        return self._ends("anchors.ends", len(texts)), texts

    def _ends(self, name: str, last: int) -> Array:
        ends = self.array(name)
        checking.check_rising(self.path, name, ends, last, first=None)
        return ends


def _checked_facts(path: Path, file: Container) -> tuple[int, list[str]]:
    """The number of documents and the fields with postings, after all lengths were compared with them."""
    facts, entries = file.meta, file.entries
    if set(facts) != {"part", "documents", "fields"} or facts["part"] != "segment" or "terms.offsets" not in entries:
        raise SEGMENT.damaged(path, "it is no segment")
    fields = facts["fields"]
    if type(fields) is not list or fields != sorted({name for name in fields if name in _STORED_FIELDS}):
        raise SEGMENT.damaged(path, f"its fields are {fields!r:.60}")
    n_documents = checking.check_number(path, "the number of documents", facts["documents"], checking.MOST_DOCUMENTS)
    n_terms = max(entries["terms.offsets"].shape, default=1) - 1
    checking.check_number(path, "the number of terms", n_terms, checking.MOST_TERMS)
    checking.check_layout(path, entries, *checking.segment_layout(n_documents, n_terms, fields))
    return n_documents, fields


def merge_segments(path: Path, segments: Sequence[Segment], live: Sequence[Array]) -> str:
    """Write the live documents of several segments as one, as if they had been added together; returns its digest."""
    ids = Texts.concat([segment.ids.take(np.flatnonzero(mask)) for segment, mask in zip(segments, live)])
    order = sorted_order(ids)
    documents = _new_numbers(order, live)
    terms, known = _merged_terms(segments)
    n = len(ids)
    names = sorted({name for segment in segments for name in segment.has_fields})
    fields = {
        name: merge([segment.postings(name) for segment in segments], terms, documents, len(known), n) for name in names
    }
    fields = _not_empty(fields)
    arrays = _text_arrays("ids", ids.take(order))
    arrays |= _only_used(fields, known)
    arrays |= _merged_links(segments, live, order)
    if all(segment.store is not None for segment in segments):
        arrays |= _merged_store(segments, live, order)
    return _write_segment(path, n, fields, arrays)


def _write_segment(path: Path, n: int, fields: dict[str, Postings], arrays: dict[str, Array]) -> str:
    return write_container(path, SEGMENT, {"part": "segment", "documents": n, "fields": sorted(fields)}, arrays)


def _not_empty(fields: dict[str, Postings]) -> dict[str, Postings]:
    """The fields in which a document has a term; without titles, body is whole."""
    names = sorted(name for name, part in fields.items() if len(part.docs))
    return {name: fields[name] for name in names if name != "whole" or "title" in names}


def _new_numbers(order: Array, live: Sequence[Array]) -> list[Array]:
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    documents, start = [], 0
    for mask in live:
        numbers = np.full(len(mask), -1, np.int64)
        numbers[mask] = positions[start : start + int(mask.sum())]
        start += int(mask.sum())
        documents.append(numbers)
    return documents


def _merged_terms(segments: Sequence[Segment]) -> tuple[list[Array], Texts]:
    words = [list(segment.terms) for segment in segments]
    known = sorted(set().union(*words))
    number = {term: n for n, term in enumerate(known)}
    return [np.array([number[term] for term in terms], np.int64) for terms in words], Texts.of(known)


def _only_used(fields: dict[str, Postings], known: Texts) -> dict[str, Array]:
    """Terms that no document has are dropped: those of deleted documents, as if these had never been."""
    used = np.zeros(len(known), bool)
    for part in fields.values():
        used |= np.diff(part.starts) > 0
    arrays = _text_arrays("terms", taken(known, np.flatnonzero(used)))
    terms = np.append(np.flatnonzero(used), len(known))
    smaller = {}
    for name, part in fields.items():
        places = part.places[terms] if len(part.places) else part.places
        smaller[name] = Postings(
            part.starts[terms], part.docs, part.tfs, part.lengths, part.uniques, places, part.positions
        )
    return arrays | {f"{name}.{part}": getattr(smaller[name], part) for name in smaller for part in checking.PARTS}


def _merged_links(segments: Sequence[Segment], live: Sequence[Array], order: Array) -> dict[str, Array]:
    urls: list[str] = []
    links: list[list[tuple[str, str]]] = []
    anchors: list[list[str]] = []
    for segment, mask in zip(segments, live):
        chosen = np.flatnonzero(mask).tolist()
        own_urls, (ends, targets, texts) = list(segment.urls()), segment.links()
        anchor_ends, anchor_texts = segment.anchors()
        pairs, words = list(zip(targets, texts)), list(anchor_texts)
        urls += [own_urls[doc] for doc in chosen]
        links += [pairs[ends[doc - 1] if doc else 0 : ends[doc]] for doc in chosen]
        anchors += [words[anchor_ends[doc - 1] if doc else 0 : anchor_ends[doc]] for doc in chosen]
    numbers = order.tolist()
    links, anchors = [links[number] for number in numbers], [anchors[number] for number in numbers]
    return _link_arrays([urls[number] for number in numbers], links, anchors)


def _merged_store(segments: Sequence[Segment], live: Sequence[Array], order: Array) -> dict[str, Array]:
    writer, rows, start = StoreWriter(), [], 0
    for segment, mask in zip(segments, live):
        chosen = np.flatnonzero(mask)
        assert segment.store is not None
        for text in segment.store.texts(chosen):
            writer.add(text)
        rows.append(segment.store.places(chosen) + np.uint32(start))
        start += len(chosen)
    return writer.arrays() | {"store.rows": np.concatenate(rows)[order].astype(np.uint32)}


def _text_arrays(name: str, strings: list[str] | Texts) -> dict[str, Array]:
    try:
        texts = strings if isinstance(strings, Texts) else Texts.of(strings)
    except UnicodeEncodeError:  # halves of surrogate pairs, which JSON can hold
        texts = Texts.of([string.encode("utf-8", "replace").decode() for string in strings])
    return {f"{name}.data": texts.data, f"{name}.offsets": texts.offsets}


def find_text(texts: Texts, word: str) -> int:
    """The place of a string among sorted ones; -1 if it is not there."""
    wanted = np.frombuffer(word.encode("utf-8", "surrogateescape"), np.uint8)
    return int(find_bytes(texts.data, texts.offsets, wanted))


@bare_kernel
def find_bytes(data: Array, offsets: Array, wanted: Array) -> int:
    """Binary search; strings compare by their bytes, as by their code points."""
    low, high = 0, len(offsets) - 1
    while low < high:
        middle = (low + high) >> 1
        start, length = offsets[middle], offsets[middle + 1] - offsets[middle]
        position = 0
        while position < min(length, len(wanted)) and data[start + position] == wanted[position]:
            position += 1
        if position == len(wanted) and position == length:
            return middle
        if position < min(length, len(wanted)):
            below = data[start + position] < wanted[position]
        else:
            below = length < len(wanted)
        if below:
            low = middle + 1
        else:
            high = middle
    return -1
