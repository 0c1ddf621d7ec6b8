"""Links: anchor texts, attributed to the pages they point to, PageRank, and facts about URLs.

All of this is about the collection as a whole, so it is computed at every commit from the live documents of all
segments and kept in one file. A link counts if its target is the URL or the id of a document; repeated links count
once, and links to the document itself do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from podium._runtime.once import once
from podium.data.texts import Texts
from podium.formats.container import Container, open_container, write_container
from podium.formats.kinds import SEGMENT
from podium.search.index import checking
from podium.search.index.manifest import Manifest
from podium.search.index.postings import Postings, Tokens, invert
from podium.search.index.segments import Segment, sorted_terms

if TYPE_CHECKING:
    from podium.search.analysis.words import TermNumbers

DAMPING = 0.85
_TOLERANCE = 1e-12
_MOST_ROUNDS = 1000
_GAP = np.full(100, -1, np.int32)  # positions between two anchor texts, so that no phrase spans both
FACTS = ("pagerank", "inlinks", "outlinks", "slashes", "url_length", "children")


class Links:
    """The open file. Facts are arrays over all documents of all segments; deleted ones have 0."""

    def __init__(self, path: Path, sizes: Sequence[int], digest: str | None = None) -> None:
        self.path = path
        with open_container(path, SEGMENT, digest) as file:
            _check_facts(path, file, sizes)
            self._mapped = {name: file.map(name) for name in file.entries}

    def fact(self, name: str) -> np.ndarray:
        values = self._mapped[name].verified()
        if len(values) and not (values.min() >= 0 and (name != "pagerank" or values.max() <= 1)):
            raise SEGMENT.damaged(self.path, f"{name} is out of range")
        return values

    @once
    def terms(self) -> Texts:
        arrays = self._mapped["terms.data"].verified(), self._mapped["terms.offsets"].verified()
        return checking.checked_texts(self.path, "terms", *arrays, ascending=True)

    def anchor_postings(self, segment: int) -> Postings:
        postings = Postings(*(self._mapped[f"{segment}.{part}"].verified() for part in checking.PARTS))
        return checking.checked_postings(self.path, f"anchor texts of segment {segment}", postings)


def open_links(folder: Path, manifest: Manifest, sizes: Sequence[int]) -> Links | None:
    if manifest.links is None:
        return None
    return Links(folder / manifest.links, sizes, manifest.digests[manifest.links])


def _check_facts(path: Path, file: Container, sizes: Sequence[int]) -> None:
    if file.meta != {"part": "links"} or "terms.offsets" not in file.entries:
        raise SEGMENT.damaged(path, "it has no links")
    n_terms = max(file.entries["terms.offsets"].shape, default=1) - 1
    layout = {name: checking.Column(("<f8" if name == "pagerank" else "<i4",), sum(sizes)) for name in FACTS}
    checking.check_number(path, "the number of terms", n_terms, checking.MOST_TERMS)
    layout |= checking.text_layout("terms", n_terms)
    for segment, n_documents in enumerate(sizes):
        layout |= checking.postings_layout(str(segment), n_terms, n_documents)
    checking.check_layout(path, file.entries, layout)


def write_links(path: Path, segments: Sequence[Segment], live: Sequence[np.ndarray], numbers: TermNumbers) -> str:
    """Write the links between the live documents of all segments; returns the digest of the file."""
    urls = [url for segment in segments for url in segment.urls()]
    alive, ranks = np.concatenate(live), _ranks(segments)
    sources, targets, texts = _resolve(segments, alive, urls, ranks)
    arrays = graph_facts(sources, targets, alive, ranks) | url_facts(urls, alive)
    arrays |= _anchor_arrays(segments, alive, targets, texts, numbers)
    return write_container(path, SEGMENT, {"part": "links"}, arrays)


def _ranks(segments: Sequence[Segment]) -> np.ndarray:
    """Per document its place by id; of several with one id, all but one are deleted."""
    names = [name.encode("utf-8", "surrogateescape") for segment in segments for name in segment.ids]
    ranks = np.empty(len(names), np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks


def _resolve(
    segments: Sequence[Segment], live: np.ndarray, urls: list[str], ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """All links from live documents to live documents: source, target, text; by the ids of the sources."""
    target_of = _Targets(segments, live, urls, ranks)
    links: list[tuple[int, int, str]] = []
    first = 0
    for segment in segments:
        ends, names, texts = segment.links()
        owners = np.repeat(np.arange(segment.n_documents), np.diff(ends, prepend=0)) + first
        for owner, name, text in zip(owners.tolist(), names, texts):
            target = target_of(name) if live[owner] else None
            if target is not None and target != owner:
                links.append((owner, target, text))
        first += segment.n_documents
    links.sort(key=lambda link: ranks[link[0]])
    sources, targets = (np.array([link[end] for link in links], np.int64) for end in (0, 1))
    return sources, targets, [text for _, _, text in links]


class _Targets:
    """The document that a link points to: the one of this URL, of several the one of the lowest id; or of this id."""

    def __init__(self, segments: Sequence[Segment], alive: np.ndarray, urls: list[str], ranks: np.ndarray) -> None:
        ids = [name for segment in segments for name in segment.ids]
        live = np.flatnonzero(alive)
        by_id = live[np.argsort(ranks[live], kind="stable")].tolist()
        self._by_id = {ids[doc]: doc for doc in by_id}
        self._by_url: dict[str, int] = {}
        for doc in by_id:
            if urls[doc]:
                self._by_url.setdefault(url_key(urls[doc]), doc)

    def __call__(self, name: str) -> int | None:
        key = url_key(name)
        if key in self._by_url:
            return self._by_url[key]
        return self._by_id.get(name, self._by_id.get(key))


def url_key(url: str) -> str:
    """What two spellings of one address share: no scheme, no fragment, no slash at the end, host in lower case."""
    rest = url.partition("#")[0].partition("://")
    address = rest[2] or rest[0]
    host, slash, path = address.partition("/")
    return f"{host.lower() if rest[1] else host}{slash}{path}".rstrip("/")


def graph_facts(sources: np.ndarray, targets: np.ndarray, live: np.ndarray, ranks: np.ndarray) -> dict[str, np.ndarray]:
    """PageRank, and the number of documents that link to a document and that it links to.

    The sums of PageRank are made in the order of ids, `ranks`, and over live documents only, so that neither segments
    nor deletions change a bit of it.
    """
    n = len(live)
    edges = np.unique(sources * n + targets) if len(sources) else np.empty(0, np.int64)
    sources, targets = edges // max(n, 1), edges % max(n, 1)
    outlinks = np.bincount(sources, minlength=n).astype(np.int32)
    inlinks = np.bincount(targets, minlength=n).astype(np.int32)
    alive = np.flatnonzero(live)
    alive = alive[np.argsort(ranks[alive], kind="stable")]
    positions = np.zeros(n, np.int64)
    positions[alive] = np.arange(len(alive))
    pagerank = np.zeros(n)
    pagerank[alive] = page_rank(positions[sources], positions[targets], np.ones(len(alive), bool))
    return {"pagerank": pagerank, "inlinks": inlinks, "outlinks": outlinks}


def page_rank(sources: np.ndarray, targets: np.ndarray, live: np.ndarray, damping: float = DAMPING) -> np.ndarray:
    """Stationary probabilities of a surfer who follows a random link, or else starts anew at a random document.

    A document without links counts as one that links to all. Power iteration on a sparse matrix.
    """
    from scipy.sparse import csr_array

    n, n_kept = len(live), int(live.sum())
    if n_kept == 0:
        return np.zeros(n)
    if not len(sources):  # exactly, as for an index that has no links at all
        return np.asarray(live / n_kept)
    out = np.bincount(sources, minlength=n)
    matrix = csr_array((1.0 / out[sources], (targets, sources)), shape=(n, n))
    start = live / n_kept
    dangling = live & (out == 0)
    ranks = start
    for _ in range(_MOST_ROUNDS):
        spread = matrix @ ranks + start * ranks[dangling].sum()
        new = damping * spread + (1.0 - damping) * start
        change = np.abs(new - ranks).sum()
        ranks = new
        if change < _TOLERANCE:
            break
    return np.asarray(ranks, np.float64)


def url_facts(urls: list[str], live: np.ndarray) -> dict[str, np.ndarray]:
    """Slashes in a URL, its length, and how many documents lie one level below it."""
    live_urls = [url if alive else "" for url, alive in zip(urls, live.tolist())]
    keys = [url_key(url) for url in live_urls]
    parents = Counter(key.rpartition("/")[0] for key in set(keys) if "/" in key)
    return {
        "slashes": np.array([url.count("/") for url in live_urls], np.int32),
        "url_length": np.array([len(url) for url in live_urls], np.int32),
        "children": np.array([parents[key] if key else 0 for key in keys], np.int32),
    }


def _anchor_arrays(
    segments: Sequence[Segment], live: np.ndarray, targets: np.ndarray, texts: list[str], numbers: TermNumbers
) -> dict[str, np.ndarray]:
    """Postings of the anchor texts of each segment's documents: those given with them, then those of links to them."""
    texts_of = _given_texts(segments, live) + list(zip(targets.tolist(), texts))
    texts_of.sort(key=lambda pair: pair[0])
    terms, ends = numbers.numbers([text for _, text in texts_of])
    parts = np.split(terms, ends[:-1])
    words: list[list[np.ndarray]] = [[] for _ in range(len(live))]
    for (target, text), part in zip(texts_of, parts):
        if text:
            words[target] += [part, _GAP]
    known, new = sorted_terms(numbers.terms, terms)
    arrays = {"terms.data": known.data, "terms.offsets": known.offsets}
    first = 0
    for number, segment in enumerate(segments):
        lists = words[first : first + segment.n_documents]
        first += segment.n_documents
        joined = np.concatenate([np.empty(0, np.int32), *(part for parts in lists for part in parts)])
        ends = np.cumsum([sum(map(len, parts)) for parts in lists], dtype=np.int64)
        tokens = Tokens.joined([Tokens(joined, ends)], new)
        postings = invert(tokens, np.arange(len(lists)), len(known))
        arrays |= {f"{number}.{part}": getattr(postings, part) for part in checking.PARTS}
    return arrays


def _given_texts(segments: Sequence[Segment], live: np.ndarray) -> list[tuple[int, str]]:
    anchors: list[tuple[int, str]] = []
    first = 0
    for segment in segments:
        ends, texts = segment.anchors()
        owners = np.repeat(np.arange(segment.n_documents), np.diff(ends, prepend=0)) + first
        anchors += [(owner, text) for owner, text in zip(owners.tolist(), texts) if live[owner]]
        first += segment.n_documents
    return anchors


def has_links(segment: Segment) -> bool:
    return any(segment.has(name) for name in ("urls.data", "links.ends", "anchors.ends"))
