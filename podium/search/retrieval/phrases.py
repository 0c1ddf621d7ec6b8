"""Phrases: documents in which terms stand next to one another, in their order, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium.search.index.postings import Postings


def phrase_postings(postings: Postings, terms: Sequence[int], offsets: Sequence[int]) -> tuple[Array, Array]:
    """(documents, frequencies) of a phrase whose i-th term stands offsets[i] positions behind the first."""
    starts, ends = postings.starts[list(terms)], postings.starts[[term + 1 for term in terms]]
    rarest = int((ends - starts).min())
    docs, tfs = np.empty(rarest, np.uint32), np.empty(rarest, np.uint16)
    places = postings.places[list(terms)].copy()
    n = count_phrases(
        starts.copy(), ends, places, np.asarray(offsets, np.int64), postings.docs, postings.tfs, postings.positions,
        docs, tfs, np.empty(len(starts), np.int64),
    )  # fmt: skip
    return docs[:n], tfs[:n]


@bare_kernel
def count_phrases(
    cursors: Array,
    ends: Array,
    places: Array,
    offsets: Array,
    docs: Array,
    tfs: Array,
    positions: Array,
    out_docs: Array,
    out_tfs: Array,
    inner: Array,
) -> int:
    """Walk all lists in step; cursors and places are where each list is, in postings and in positions."""
    n, n_terms = 0, len(cursors)
    while cursors[0] < ends[0]:
        doc, agreed, j = docs[cursors[0]], True, 1
        while j < n_terms:
            while cursors[j] < ends[j] and docs[cursors[j]] < doc:
                places[j] += tfs[cursors[j]]
                cursors[j] += 1
            if cursors[j] == ends[j]:
                return n
            if docs[cursors[j]] != doc:
                agreed = False
                break
            j += 1
        if agreed:
            count = _occurrences(cursors, places, offsets, tfs, positions, inner)
            if count > 0:
                out_docs[n], out_tfs[n] = doc, count
                n += 1
        places[0] += tfs[cursors[0]]
        cursors[0] += 1
    return n


@bare_kernel
def _occurrences(cursors: Array, places: Array, offsets: Array, tfs: Array, positions: Array, inner: Array) -> int:
    """How often the phrase is in one document: positions of the first term, each with the others behind it."""
    count = 0
    inner[:] = 0
    for i in range(tfs[cursors[0]]):
        begin, whole = np.int64(positions[places[0] + i]), True
        for j in range(1, len(cursors)):
            wanted = begin + offsets[j]
            while inner[j] < tfs[cursors[j]] and positions[places[j] + inner[j]] < wanted:
                inner[j] += 1
            if inner[j] == tfs[cursors[j]] or positions[places[j] + inner[j]] != wanted:
                whole = False
                break
        if whole:
            count += 1
    return count
