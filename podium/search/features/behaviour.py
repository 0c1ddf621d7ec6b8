"""Behaviour: what was observed of queries, documents and pairs of both, such as clicks, dwell times and purchases.

A table of values by (query, document) is a sparse matrix: distinct queries and documents are sorted, so that each has
a number, and the rows of query q are `starts[q]:starts[q + 1]`, with the numbers of their documents ascending. A lookup
compares whole texts and numbers, never hashes, so that no two keys can be taken for one another. The documents of an
index are numbered once, by one pass over both sorted lists.

Queries are keys by their text, as live searches have nothing else: `NFKC(casefold(NFKC(text)))`, with one space between
words. Documents are keys by their id.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, inlined_bare_kernel
from podium._runtime.once import once
from podium.data.texts import Texts
from podium.search.documents.document import valid_text
from podium.search.index.segments import find_text

if TYPE_CHECKING:
    from podium.search.features.declaring import Feature
    from podium.search.features.extracting import Extractor, QueryDocuments
    from podium.search.features.kinds import Column
    from podium.search.reading import Index

BY = ("query_document", "query", "document")


def query_key(text: str) -> str:
    """`  Running SHOES ` -> `running shoes`. Upper and lower case, width and spaces make no difference."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", valid_text(text)).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of a table, ascending. By query or by document, the other one, `starts` and `rows` are empty."""

    queries: Texts
    documents: Texts
    starts: Array  # (queries + 1,) int64
    rows: Array  # (rows,) int32: the number of a document

    def query(self, text: str) -> int:
        """The number of a query; -1 if it was never seen."""
        return find_text(self.queries, query_key(text))


class Lazy:
    """A value that is read when it is first asked for."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    @once
    def value(self) -> Any:
        return self._read()


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of values with one set of keys. Digests say what keys and columns hold, wherever they were read from."""

    by: str
    keys_digest: str
    digests: Mapping[str, str]  # of keys and values, per column
    stored_keys: Lazy  # -> Keys
    columns: Mapping[str, Lazy]  # -> (rows,) float32

    @property
    def keys(self) -> Keys:
        keys: Keys = self.stored_keys.value
        return keys

    def values(self, column: str) -> Array:
        values: Array = self.columns[column].value
        return values


def table_column(extractor: Extractor, feature: Feature) -> Column:
    return lookup(extractor, feature, float(feature.settings["missing"]))


def lookup(extractor: Extractor, feature: Feature, missing: float) -> Column:
    """The values of a feature of kind table; `missing` where there is no row."""
    table, column = feature.table, feature.settings["column"]
    assert table is not None

    def by_query(asked: QueryDocuments) -> np.ndarray:
        query = table.keys.query(asked.text)
        value = table.values(column)[query] if query >= 0 else missing
        return np.full(len(asked.documents), value, np.float32)

    def by_document(asked: QueryDocuments) -> np.ndarray:
        documents = _table_documents(extractor, table)[asked.documents]
        return np.where(documents >= 0, table.values(column)[documents], np.float32(missing))

    def by_pair(asked: QueryDocuments) -> np.ndarray:
        out = np.full(len(asked.documents), missing, np.float32)
        keys, query = table.keys, table.keys.query(asked.text)
        if query >= 0:
            first, last = int(keys.starts[query]), int(keys.starts[query + 1])
            documents = _table_documents(extractor, table)[asked.documents]
            fill_found(keys.rows[first:last], table.values(column)[first:last], documents, out)
        return out

    return {"query": by_query, "document": by_document, "query_document": by_pair}[table.by]


def _table_documents(extractor: Extractor, table: Table) -> Array:
    """(documents of the index,) int32: their numbers in the table, -1 where it does not have them."""
    key = ("documents of a table", table.keys_digest)
    return extractor.per_document(key, _document_numbers, extractor.index, table.keys.documents)


def _document_numbers(index: Index, documents: Texts) -> Array:
    numbers = np.full(index.n_slots, -1, np.int32)
    for segment, base in zip(index.segments, index.bases):
        out = numbers[base : base + segment.n_documents]
        number_texts(segment.ids.data, segment.ids.offsets, documents.data, documents.offsets, out)
    return numbers


@bare_kernel
def fill_found(rows: Array, values: Array, wanted: Array, out: Array) -> None:
    """out[i] = values[r] where rows[r] = wanted[i]; rows ascend. Where there is none, `out` stays."""
    for i in range(len(wanted)):
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) >> 1
            if rows[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        if low < len(rows) and rows[low] == wanted[i]:
            out[i] = values[low]


@bare_kernel
def number_texts(data: Array, offsets: Array, known: Array, known_offsets: Array, out: Array) -> None:
    """out[i]: the place of string i among the known ones, if it is there; both are ascending.

    The known strings are searched by steps of doubling width, so that neither few nor many cost much.
    """
    low, n_known = 0, len(known_offsets) - 1
    for i in range(len(out)):
        step = 1
        while low + step <= n_known and _below(known, known_offsets, low + step - 1, data, offsets, i):
            low += step
            step *= 2
        high = min(low + step, n_known)  # those before `low` are below string i, that at `high` is not
        while low < high:
            middle = (low + high) >> 1
            if _below(known, known_offsets, middle, data, offsets, i):
                low = middle + 1
            else:
                high = middle
        if low < n_known and not _below(data, offsets, i, known, known_offsets, low):
            out[i] = low


@inlined_bare_kernel
def _below(data: Array, offsets: Array, a: int, other: Array, other_offsets: Array, b: int) -> bool:
    """Whether string a of the first is smaller than string b of the other, by bytes."""
    start, end = offsets[a], offsets[a + 1]
    other_start, other_end = other_offsets[b], other_offsets[b + 1]
    shorter = min(end - start, other_end - other_start)
    for step in range(shorter):
        if data[start + step] != other[other_start + step]:
            return bool(data[start + step] < other[other_start + step])
    return bool(end - start < other_end - other_start)
