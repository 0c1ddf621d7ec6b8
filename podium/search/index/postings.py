"""Postings: for each term the documents that contain it, ascending, how often, and at which positions.

starts      (terms + 1,) postings of term t are starts[t]:starts[t + 1]
docs, tfs   per posting the document and the number of occurrences, 1 to 65,535: what is more is not counted
places      (terms + 1,) where the positions of a term begin; those of a posting follow those of the one before
positions   per occurrence; ascending within a posting
lengths     (documents,) terms; stop words are not counted
uniques     (documents,) distinct terms
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium._runtime.threads import map_blocks, usable_threads

MOST = 65_535  # occurrences of a term in a document that are counted
LATEST = 0  # column of counters: the document last seen with the term, plus 1
TIMES, DOCUMENTS, OCCURRENCES = 1, 2, 3  # of counts: in this document; in all
POSTING, PLACE = 1, 2  # of cursors
_COUNTERS = 10  # numbers of 32 bits that a thread keeps per term
_WORTH_THREADS = 1 << 16  # tokens


@dataclass(frozen=True)
class Postings:
    """The postings of one field of a segment."""

    starts: Array  # int64
    docs: Array  # uint32
    tfs: Array  # uint16
    lengths: Array  # uint32
    uniques: Array  # uint32
    places: Array  # int64; empty where no positions are kept
    positions: Array  # uint16, or uint32 where one does not fit

    @property
    def n_terms(self) -> int:
        return len(self.starts) - 1

    @property
    def n_documents(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True)
class Tokens:
    """Term numbers of a field, -1 for a stop word: document d has ends[d - 1]:ends[d], and gaps are positions."""

    terms: Array  # int32
    ends: Array  # int64

    @classmethod
    def joined(cls, parts: Sequence[Tokens], numbers: Array) -> Tokens:
        """Documents one after the other; number t becomes numbers[t]."""
        sizes = np.cumsum([0, *(len(part.terms) for part in parts)], dtype=np.int64).tolist()
        terms = np.empty(sizes[-1], np.int32)

        def write(number: int) -> None:  # -1 is the last; by default NumPy would make a copy first
            np.take(numbers, parts[number].terms, out=terms[sizes[number] : sizes[number + 1]], mode="wrap")

        if len(numbers):
            map_blocks(write, len(parts), None if len(terms) > _WORTH_THREADS else 1)
        ends = [part.ends + size for part, size in zip(parts, sizes)]
        return cls(terms, _concatenated(ends, np.int64))

    def behind(self, other: Tokens) -> Tokens:
        """Each document's tokens behind those of the same document in `other`."""
        terms = np.empty(len(self.terms) + len(other.terms), np.int32)
        interleave(other.terms, other.ends, self.terms, self.ends, terms)
        return Tokens(terms, self.ends + other.ends)


def _concatenated(arrays: list[Array], dtype: type) -> Array:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def invert(tokens: Tokens, order: Array, n_terms: int, positions: bool = True) -> Postings:
    """Postings of the documents order[0], order[1], ...

    Each thread has a block of these, with counters of its own: the postings of a block follow those of the one before.
    """
    n, blocks = len(order), _blocks_for(len(tokens.terms), n_terms)
    bounds = np.linspace(0, n, blocks + 1).astype(np.int64).tolist()
    counts = np.zeros((blocks, n_terms, 4), np.int32)
    lengths, uniques = np.zeros(n, np.uint32), np.zeros(n, np.uint32)

    def documents(block: int) -> tuple[Array, Array, Array, int, int]:
        return tokens.terms, tokens.ends, order, bounds[block], bounds[block + 1]

    def count(block: int) -> None:
        count_terms(*documents(block), counts[block], lengths, uniques)

    map_blocks(count, blocks)
    starts, next_postings = _starts(counts[:, :, DOCUMENTS])
    places, next_places = _starts(counts[:, :, OCCURRENCES])
    docs, tfs = np.empty(starts[-1], np.uint32), np.empty(starts[-1], np.uint16)
    longest = int(np.diff(tokens.ends, prepend=0).max(initial=0))
    term_positions = np.empty(places[-1] if positions else 0, np.uint16 if longest <= MOST else np.uint32)
    cursors = np.zeros((blocks, n_terms, 3), np.int64)
    cursors[:, :, POSTING], cursors[:, :, PLACE] = next_postings, next_places

    def fill(block: int) -> None:
        fill_postings(*documents(block), cursors[block], docs, tfs, term_positions)

    map_blocks(fill, blocks)
    if not positions:
        places = np.empty(0, np.int64)
    return Postings(starts, docs, tfs, lengths, uniques, places, _narrow(term_positions))


def _narrow(positions: Array) -> Array:
    """Positions in 16 bits where all of them fit, whatever the documents were that are left out."""
    fits = positions.dtype == np.uint16 or positions.max(initial=0) <= MOST
    return positions.astype(np.uint16, copy=False) if fits else positions


def _blocks_for(n_tokens: int, n_terms: int) -> int:
    """As many as there are threads, but so few that their counters take no more memory than the tokens."""
    return max(1, min(usable_threads(None), n_tokens // _WORTH_THREADS, n_tokens // max(1, _COUNTERS * n_terms)))


def _starts(counts: Array) -> tuple[Array, Array]:
    """Of (blocks, terms) counts: where each term begins, and where each block of it does."""
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0, dtype=np.int64))])
    before = np.cumsum(counts, axis=0, dtype=np.int64) - counts
    return starts, before + starts[:-1]


@bare_kernel
def interleave(first: Array, first_ends: Array, second: Array, second_ends: Array, out: Array) -> None:
    """Per document the tokens of `first`, then those of `second`."""
    row, a, b = 0, 0, 0
    for doc in range(len(first_ends)):
        while a < first_ends[doc]:
            out[row] = first[a]
            row += 1
            a += 1
        while b < second_ends[doc]:
            out[row] = second[b]
            row += 1
            b += 1


@bare_kernel
def count_terms(
    terms: Array, ends: Array, order: Array, first: int, last: int, counts: Array, lengths: Array, uniques: Array
) -> None:
    """Documents first:last: per term its documents and positions; per document its length and distinct terms.

    counts: (terms, 4) zeros. The columns of a term are in one line of the processor's cache.
    """
    for doc in range(first, last):
        old, length, unique = order[doc], 0, 0
        for token in range(ends[old - 1] if old > 0 else 0, ends[old]):
            term = terms[token]
            if term < 0:
                continue
            length += 1
            if counts[term, LATEST] != doc + 1:
                counts[term, LATEST], counts[term, TIMES] = doc + 1, 0
                counts[term, DOCUMENTS] += 1
                unique += 1
            if counts[term, TIMES] < MOST:
                counts[term, TIMES] += 1
                counts[term, OCCURRENCES] += 1
        lengths[doc], uniques[doc] = length, unique


@bare_kernel
def fill_postings(
    terms: Array,
    ends: Array,
    order: Array,
    first: int,
    last: int,
    cursors: Array,
    docs: Array,
    tfs: Array,
    positions: Array,
) -> None:
    """Write the postings of documents first:last; they come in order, so each goes behind the one before.

    cursors: (terms, 3) 0, the next posting and the next position of each term.
    """
    for doc in range(first, last):
        old = order[doc]
        begin = ends[old - 1] if old > 0 else 0
        for token in range(begin, ends[old]):
            term = terms[token]
            if term < 0:
                continue
            if cursors[term, LATEST] != doc + 1:
                cursors[term, LATEST] = doc + 1
                posting = cursors[term, POSTING]
                docs[posting], tfs[posting] = doc, 0
                cursors[term, POSTING] = posting + 1
            posting = cursors[term, POSTING] - 1
            if tfs[posting] < MOST:
                tfs[posting] += 1
                if len(positions):
                    positions[cursors[term, PLACE]] = token - begin
                    cursors[term, PLACE] += 1


def merge(
    parts: Sequence[Postings], terms: Sequence[Array], documents: Sequence[Array], n_terms: int, n: int
) -> Postings:
    """Postings of several segments as one. terms, documents: per segment the new numbers; -1 drops a document.

    The documents of a segment must keep their order. Those of different segments may alternate, so that the new
    postings of a term are sorted once more; runs in order make that cheap.
    """
    keys, tfs, starts_of, sources = [], [], [], []
    for number, (part, new_terms, new_docs) in enumerate(zip(parts, terms, documents)):
        term = np.repeat(new_terms, np.diff(part.starts))
        doc = new_docs[part.docs]
        live = doc >= 0
        keys.append((term.astype(np.int64) << 32 | np.maximum(doc, 0))[live])
        tfs.append(part.tfs[live])
        places = np.concatenate([[0], np.cumsum(part.tfs, dtype=np.int64)])[:-1] if len(part.places) else None
        starts_of.append(None if places is None else places[live])
        sources.append(np.full(int(live.sum()), number))
    key, tf, source = (_concatenated(arrays, np.int64) for arrays in (keys, tfs, sources))
    order = np.argsort(key, kind="stable")
    key, tf = key[order], tf[order].astype(np.uint16)
    dfs = np.bincount(key >> 32, minlength=n_terms) if len(key) else np.zeros(n_terms, np.int64)
    starts = np.concatenate([[0], np.cumsum(dfs)]).astype(np.int64)
    lengths, uniques = np.zeros(n, np.uint32), np.zeros(n, np.uint32)
    for part, new_docs in zip(parts, documents):
        lengths[new_docs[new_docs >= 0]] = part.lengths[new_docs >= 0]
        uniques[new_docs[new_docs >= 0]] = part.uniques[new_docs >= 0]
    docs = (key & 0xFFFFFFFF).astype(np.uint32)
    if not all(len(part.places) for part in parts):
        return Postings(starts, docs, tf, lengths, uniques, np.empty(0, np.int64), np.empty(0, np.uint16))
    occurrences = np.concatenate([[0], np.cumsum(tf, dtype=np.int64)])
    wide = any(part.positions.dtype == np.uint32 for part in parts)
    positions = np.empty(occurrences[-1], np.uint32 if wide else np.uint16)
    begins = np.concatenate([begin for begin in starts_of if begin is not None])[order]
    source = source[order]
    for number, part in enumerate(parts):
        rows = np.flatnonzero(source == number)
        copy_runs(part.positions, begins[rows], tf[rows], occurrences[rows], positions)
    return Postings(starts, docs, tf, lengths, uniques, occurrences[starts], _narrow(positions))


@bare_kernel
def copy_runs(source: Array, begins: Array, sizes: Array, targets: Array, out: Array) -> None:
    """out[targets[i] :][:sizes[i]] = source[begins[i] :][:sizes[i]]."""
    for run in range(len(begins)):
        for step in range(sizes[run]):
            out[targets[run] + step] = source[begins[run] + step]
