"""Checking: what the arrays of a part must obey before compiled code reads them.

Checksums find damage. They do not find a part that was written with wrong numbers, and a kernel that follows a wrong
number reads or writes foreign memory. Dtypes and lengths are compared when a part is opened, which costs nothing;
ranges and orders when an array is first used, in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podium._runtime.compiler import Array, bare_kernel
from podium._runtime.threads import map_blocks, usable_threads
from podium.data.texts import Texts
from podium.formats.container import ArrayEntry
from podium.formats.kinds import SEGMENT, FileKind
from podium.search.index.postings import MOST, Postings

PARTS = ("starts", "docs", "tfs", "lengths", "uniques", "places", "positions")  # the arrays of postings
MOST_DOCUMENTS = 2**32 - 1  # of a segment: documents are numbered by 32 bits
MOST_TERMS = 2**31 - 1  # numbers of terms are signed while an index is built
_WORTH_THREADS = 1 << 18  # postings


@dataclass(frozen=True)
class Column:
    """What an array must be: one dimension, one of these dtypes, this length (None: any)."""

    dtypes: tuple[str, ...]
    length: int | None = None


Layout = dict[str, Column]


def text_layout(name: str, n: int | None) -> Layout:
    length = None if n is None else n + 1
    return {f"{name}.data": Column(("<u1",)), f"{name}.offsets": Column(("<i8",), length)}


def postings_layout(name: str, n_terms: int, n_documents: int) -> Layout:
    return {
        f"{name}.starts": Column(("<i8",), n_terms + 1),
        f"{name}.docs": Column(("<u4",)),
        f"{name}.tfs": Column(("<u2",)),
        f"{name}.lengths": Column(("<u4",), n_documents),
        f"{name}.uniques": Column(("<u4",), n_documents),
        f"{name}.places": Column(("<i8",)),
        f"{name}.positions": Column(("<u2", "<u4")),
    }


def segment_layout(n: int, n_terms: int, fields: list[str]) -> tuple[Layout, list[Layout]]:
    """The arrays of every segment, and groups of which each is there as a whole or not at all."""
    required = text_layout("ids", n) | text_layout("terms", n_terms)
    for name in fields:
        required |= postings_layout(name, n_terms, n)
    ends = Column(("<i8",), n)
    return required, [
        text_layout("urls", n),
        {"links.ends": ends} | text_layout("links.targets", None) | text_layout("links.texts", None),
        {"anchors.ends": ends} | text_layout("anchors.texts", None),
        {
            "store.data": Column(("<u1",)),
            "store.blocks": Column(("<i8",)),
            "store.firsts": Column(("<i8",)),
            "store.rows": Column(("<u4",), n),
        },
    ]


def check_layout(
    path: Path,
    entries: Mapping[str, ArrayEntry],
    required: Layout,
    optional: list[Layout] | None = None,
    kind: FileKind = SEGMENT,
) -> None:
    """Compare names, dtypes and lengths of all arrays, before any of them is read."""
    columns = dict(required)
    for group in optional or []:
        if any(name in entries for name in group):
            columns |= group
    if set(columns) != set(entries):
        names = ", ".join(sorted(set(columns) ^ set(entries))[:3])
        raise kind.damaged(path, f"arrays are missing or not known: {names:.200}")
    for name, column in columns.items():
        entry = entries[name]
        if entry.dtype not in column.dtypes or len(entry.shape) != 1 or column.length not in (None, *entry.shape):
            raise kind.damaged(path, f"{name} has dtype {entry.dtype} and shape {entry.shape}")


def check_number(path: Path, name: str, value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise SEGMENT.damaged(path, f"{name} is {value!r:.60}")
    return value


def check_rising(
    path: Path, name: str, ends: Array, last: int, first: int | None = 0, kind: FileKind = SEGMENT
) -> None:
    """Ends of pieces that fill something: they never fall, begin with `first` and end with `last`."""
    begins = len(ends) > 0 and (first is None or ends[0] == first) and ends[0] >= 0
    empty = not len(ends) and first is None and last == 0
    if not empty and not (begins and ends[-1] == last and (ends[1:] >= ends[:-1]).all()):
        raise kind.damaged(path, f"{name} must rise to {last}")


def checked_texts(
    path: Path, name: str, data: Array, offsets: Array, *, ascending: bool = False, kind: FileKind = SEGMENT
) -> Texts:
    """Strings; `ascending` ones are sorted, all different, and have no NUL, which separates them in results."""
    check_rising(path, f"{name}.offsets", offsets, len(data), kind=kind)
    if ascending and ((data == 0).any() or not is_ascending(data, offsets)):
        raise kind.damaged(path, f"{name} must be different from one another, ascending and without NUL")
    return Texts(data, offsets)


@bare_kernel
def is_ascending(data: Array, offsets: Array) -> bool:
    """Whether each string is larger than the one before it, by bytes."""
    for row in range(1, len(offsets) - 1):
        before, start, end = offsets[row - 1], offsets[row], offsets[row + 1]
        step, shorter = 0, min(start - before, end - start)
        while step < shorter and data[before + step] == data[start + step]:
            step += 1
        if step < shorter:
            if data[before + step] > data[start + step]:
                return False
        elif end - start <= start - before:
            return False
    return True


def checked_postings(path: Path, name: str, postings: Postings) -> Postings:
    """Postings whose numbers can be followed: documents in range and ascending per term, sums as they are stored."""
    if len(postings.tfs) != len(postings.docs):
        raise SEGMENT.damaged(path, f"{name} has {len(postings.docs)} documents and {len(postings.tfs)} frequencies")
    check_rising(path, f"{name}.starts", postings.starts, len(postings.docs))
    if not _are_postings(postings):
        message = f"documents of {name} must ascend per term, be below {postings.n_documents} and have a frequency"
        raise SEGMENT.damaged(path, f"{message}; lengths and numbers of distinct terms must be those of the postings")
    _check_positions(path, name, postings)
    return postings


def _are_postings(postings: Postings) -> bool:
    """A block of terms per thread, each with counts of its own."""
    bounds = _term_blocks(postings)

    def check(block: int) -> tuple[bool, Array, Array]:
        starts = postings.starts[bounds[block] : bounds[block + 1] + 1]
        uniques, lengths = np.zeros(postings.n_documents, np.uint32), np.zeros(postings.n_documents, np.int64)
        return are_postings(starts, postings.docs, postings.tfs, uniques, lengths), uniques, lengths

    results = map_blocks(check, len(bounds) - 1)
    if not all(valid for valid, _, _ in results):
        return False
    uniques = np.sum([uniques for _, uniques, _ in results], axis=0)
    lengths = np.sum([lengths for _, _, lengths in results], axis=0)
    return np.array_equal(uniques, postings.uniques) and _are_lengths(postings, lengths)


def _term_blocks(postings: Postings) -> list[int]:
    """Where blocks of terms with about as many postings begin, and the last one ends."""
    n_postings = len(postings.docs)
    n_blocks = usable_threads(None) if n_postings > _WORTH_THREADS else 1
    inner = np.searchsorted(postings.starts, np.linspace(0, n_postings, n_blocks + 1)[1:-1]).tolist()
    return [0, *inner, postings.n_terms]


def _are_lengths(postings: Postings, sums: Array) -> bool:
    """Lengths are the sums of frequencies; a frequency that is not counted further leaves a length larger."""
    different = np.flatnonzero(postings.lengths != sums)
    if not len(different):
        return True
    cut = postings.docs[postings.tfs == MOST]
    return bool(np.isin(different, cut).all() and (postings.lengths[different] > sums[different]).all())


def _check_positions(path: Path, name: str, postings: Postings) -> None:
    if not len(postings.places) and not len(postings.positions):
        return
    if len(postings.places) != len(postings.starts):
        raise SEGMENT.damaged(path, f"{name}.places must be as many as {name}.starts")
    bounds = _term_blocks(postings)

    def check(block: int) -> bool:
        terms = slice(bounds[block], bounds[block + 1] + 1)
        return are_positions(postings.starts[terms], postings.tfs, postings.places[terms], postings.positions)

    fill = postings.places[0] == 0 and postings.places[-1] == len(postings.positions)
    if not fill or not all(map_blocks(check, len(bounds) - 1)):
        raise SEGMENT.damaged(path, f"positions of {name} must be as many as its frequencies say, and ascend")


@bare_kernel
def are_postings(starts: Array, docs: Array, tfs: Array, uniques: Array, lengths: Array) -> bool:
    """Whether documents ascend per term and exist, and have frequencies; counts postings and sums per document."""
    n = len(uniques)
    for term in range(len(starts) - 1):
        before = -1
        for posting in range(starts[term], starts[term + 1]):
            doc = np.int64(docs[posting])
            if doc <= before or doc >= n or tfs[posting] == 0:
                return False
            before = int(doc)
            uniques[doc] += np.uint32(1)
            lengths[doc] += np.int64(tfs[posting])
    return True


@bare_kernel
def are_positions(starts: Array, tfs: Array, places: Array, positions: Array) -> bool:
    """Whether each posting has as many positions as its frequency, ascending, behind those of the one before."""
    position = places[0]
    for term in range(len(starts) - 1):
        if places[term] != position:
            return False
        for posting in range(starts[term], starts[term + 1]):
            end = position + np.int64(tfs[posting])
            if position < 0 or end > len(positions):
                return False
            for behind in range(position + 1, end):
                if positions[behind] <= positions[behind - 1]:
                    return False
            position = end
    return bool(position == places[len(starts) - 1])
