"""Reading: an index as it was at a commit. What is committed later is seen by those who open it later.

Any number of threads may search at once.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from podium._runtime.once import once
from podium._runtime.words import check_choice, counted
from podium.search.analysis.analyser import Analyser
from podium.search.index.links import FACTS, open_links
from podium.search.index.manifest import Manifest, read_manifest
from podium.search.index.opening import open_segment, read_deleted
from podium.search.index.segments import FIELDS, find_text
from podium.search.index.storing import Store
from podium.search.retrieval.feedback import make_ranker
from podium.search.retrieval.fields import Field
from podium.search.retrieval.impacts import NO_DELETIONS
from podium.search.retrieval.ranking import BestDocuments, Ranker
from podium.search.retrieval.snippets import Snippet, make_snippet
from podium.search.retrieval.terms import query_terms
from podium.search.retrieval.weightings import Weighting, parse_weighting
from podium.search.searcher import Fields

_TRIES = 10  # a writer may replace files between the reading of a manifest and the opening of its parts
_MOST_RANKERS = 16


@dataclass(frozen=True)
class Hit:
    """A document that was found."""

    id: str
    score: float
    document: int  # its number in the index
    _hits: Hits

    @property
    def stored(self) -> dict[str, Any]:
        """What the index keeps of the document: title, body, url and further fields, if they are not empty."""
        return self._hits.searched.stored(self.document)

    def snippet(self, width: int = 30) -> Snippet:
        """The part of the document's text with the most of the query's terms."""
        return self._hits.searched.snippet(self.document, self._hits.query, width)

    def __repr__(self) -> str:
        return f"Hit(id={self.id!r}, score={self.score:.4f})"


class Hits(Sequence[Hit]):
    """Documents, best first. Equal scores are ranked by id, ascending by code points."""

    __slots__ = ("documents", "ids", "query", "scores", "searched")

    def __init__(self, searched: Index, query: str, ranked: BestDocuments) -> None:
        self.searched, self.query = searched, query
        self.documents, self.scores, self.ids = ranked

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, rank: int) -> Hit: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Hit]: ...
    def __getitem__(self, rank: int | slice) -> Hit | list[Hit]:
        if isinstance(rank, slice):
            return [self[number] for number in range(*rank.indices(len(self)))]
        return Hit(self.ids[rank], self.scores[rank], int(self.documents[rank]), self)

    def as_dicts(self) -> list[dict[str, Any]]:
        return [{"id": id, "score": score} for id, score in zip(self.ids, self.scores)]

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"


class Index:
    """An open index. Documents are numbered from 0 through all segments, deleted ones included."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.analyser = Analyser.from_json(manifest.analyser, str(folder))
        self.segments = [open_segment(folder, part, manifest.digests) for part in manifest.parts]
        self.deleted = [read_deleted(folder, part, manifest.digests) for part in manifest.parts]
        # Compiled code is faster where it need not ask.
        self.deletions = [mask if mask.any() else NO_DELETIONS for mask in self.deleted]
        self.links = open_links(folder, manifest, [segment.n_documents for segment in self.segments])
        self.bases: list[int] = np.cumsum([0, *(segment.n_documents for segment in self.segments)]).tolist()
        self.n_slots = int(self.bases[-1])  # numbers of documents, deleted ones included
        self.n_documents = sum(part.n_live for part in manifest.parts)
        self.only_segment = self.segments[0] if len(self.segments) == 1 else None
        self._fields = {name: Field(self, name) for name in FIELDS}
        self._rankers: dict[Any, Ranker] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.n_documents

    def __repr__(self) -> str:
        size = counted(self.n_documents, "document")
        return f"Index({str(self.folder)!r}, {size}, generation {self.manifest.generation})"

    def search(self, text: str, k: int = 10, *, weighting: str | Weighting = "bm25", fields: Fields = "whole") -> Hits:
        """The k best documents for a query: words, "phrases", +must, -not, field:word.

        `weighting` is one of podium.search.WEIGHTINGS, also with parameters: "bm25(k1=0.9, b=0.4)". `fields` is a
        field, several, or a mapping of fields to weights.
        """
        return Hits(self, text, self.ranker(weighting, fields).search(text, self._checked_k(k)))

    def search_many(
        self,
        texts: Sequence[str],
        k: int = 10,
        *,
        weighting: str | Weighting = "bm25",
        fields: Fields = "whole",
        n_jobs: int | None = None,
    ) -> list[Hits]:
        """`search` for many queries, on all cores."""
        from podium.search.retrieval.many import search_many  # one query needs none of it

        results = search_many(self.ranker(weighting, fields), texts, self._checked_k(k), n_jobs)
        return [Hits(self, text, ranked) for text, ranked in zip(texts, results)]

    def ranker(self, weighting: str | Weighting = "bm25", fields: Fields = "whole") -> Ranker:
        """What scores documents, kept from call to call."""
        key = (weighting, fields if isinstance(fields, str) else tuple(sorted(field_weights(fields).items())))
        ranker = self._rankers.get(key)
        if ranker is None:
            with self._lock:
                ranker = self._rankers.get(key)  # another thread may have been first
                if ranker is None:
                    if len(self._rankers) >= _MOST_RANKERS:
                        self._rankers = {}
                    ranker = self._rankers[key] = make_ranker(self, parse_weighting(weighting), field_weights(fields))
        return ranker

    def _checked_k(self, k: Any) -> int:
        if (type(k) is not int and not isinstance(k, np.integer)) or k < 1:
            raise ValueError(f"k must be an integer from 1; got {k!r}.")
        return int(k) if k <= self.n_slots else max(1, self.n_slots)

    def field(self, name: str) -> Field:
        """Statistics and postings of whole, body, title, anchor or url."""
        check_choice("field", name, FIELDS)
        return self._fields[name]

    def fact(self, name: str) -> np.ndarray:
        """(documents,) pagerank, inlinks, outlinks, slashes, url_length or children."""
        check_choice("fact", name, FACTS)
        if self.links is not None:
            return self.links.fact(name)
        # Without links, a random surfer is at each document equally often.
        live = ~np.concatenate([np.empty(0, bool), *self.deleted])
        return live / self.n_documents if name == "pagerank" and self.n_documents else np.zeros(self.n_slots)

    def id(self, document: int) -> str:
        segment = self._segment_of(document)
        return self.segments[segment].ids[document - self.bases[segment]]

    def number(self, id: str) -> int | None:
        """The number of the document with this id; None if there is none."""
        for segment_number, segment in enumerate(self.segments):
            doc = find_text(segment.ids, id)
            if doc >= 0 and not self.deleted[segment_number][doc]:
                return int(self.bases[segment_number] + doc)
        return None

    def stored(self, document: int) -> dict[str, Any]:
        """What is kept of a document: title, body, url and further fields, if they are not empty."""
        return self._store(document).document(document - self.bases[self._segment_of(document)])

    def _store(self, document: int) -> Store:
        store = self.segments[self._segment_of(document)].store
        if store is None:
            raise ValueError(f"{self.folder} was built with keep_texts=False: it has no texts. Build it with them.")
        return store

    def snippet(self, document: int, query: str, width: int = 30) -> Snippet:
        """The part of a document's body (or title, if it has no body) with the most of the query's terms."""
        clauses = query_terms(query, self.analyser)
        terms = {term for clause in clauses if not clause.clause.must_not for term, _ in clause.terms}
        texts = self._store(document).beginning(document - self.bases[self._segment_of(document)])
        return make_snippet(texts.get("body") or texts.get("title", ""), terms, self.analyser, width)

    def _segment_of(self, document: int) -> int:
        if not 0 <= document < self.n_slots:
            raise ValueError(f"documents are numbered from 0 to {self.n_slots - 1}; got {document}.")
        return bisect_right(self.bases, document) - 1

    @once
    def by_rank(self) -> np.ndarray:
        """Documents by id; with one segment, that is their own order."""
        names = [name.encode("utf-8", "surrogateescape") for segment in self.segments for name in segment.ids]
        return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)

    @once
    def ranks(self) -> list[np.ndarray]:
        """Per segment the place of each document by id; empty for a single segment."""
        if self.only_segment is not None:
            return [np.empty(0, np.int64)]
        places = np.empty(self.n_slots, np.int64)
        places[self.by_rank] = np.arange(len(places))
        return [places[start:end] for start, end in zip(self.bases, self.bases[1:])]


def field_weights(fields: Fields) -> dict[str, float]:
    """Fields to be searched, each with its weight."""
    if isinstance(fields, str):
        weights = {fields: 1.0}
    elif isinstance(fields, Mapping):
        weights = {name: float(weight) for name, weight in fields.items()}
    else:
        weights = dict.fromkeys(fields, 1.0)
    for name, weight in weights.items():
        check_choice("field", name, FIELDS)
        if not 0.0 < weight <= 1e6:
            raise ValueError(f"the weight of field {name} must be above 0 and at most 1e6; got {weight}.")
    if not weights:
        raise ValueError(f"fields must name at least one of {', '.join(FIELDS)}.")
    return weights


def open_index(folder: str | os.PathLike[str]) -> Index:
    """Open an index as it is now; later commits do not change what it shows."""
    folder = Path(folder)
    for left in range(_TRIES - 1, -1, -1):
        manifest = read_manifest(folder)
        try:
            return Index(folder, manifest)
        except FileNotFoundError:
            if left == 0 or read_manifest(folder).generation == manifest.generation:
                raise
    raise AssertionError  # the loop returns or raises
