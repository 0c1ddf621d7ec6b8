"""Tables of behaviour in files: CSV, TSV and Parquet as users have them, and a container in the folder of a cascade.

A row has the text of a query, the id of a document or both, and numbers. Two rows of one key are an error, as is a cell
that is empty or no finite number: only the declaration says what is taken for what was never seen.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, readonly
from podium._runtime.words import counted, excerpt
from podium.data.texts import Texts
from podium.formats.container import Container, MappedArray, open_container, write_container
from podium.formats.decimals import round_texts
from podium.formats.errors import FormatError
from podium.formats.frames import no_column
from podium.formats.kinds import TABLE
from podium.formats.tables import (
    DELIMITERS,
    cell_numbers,
    chunks_of,
    read_header,
    read_parquet,
    rows_of,
    table_kind,
)
from podium.search.documents.document import check_id, id_text
from podium.search.features.behaviour import BY, Keys, Lazy, Table, query_key
from podium.search.index.checking import Column, Layout, check_layout, check_rising, checked_texts, text_layout

SUFFIX = ".podium-table"
MOST_ROWS = 50_000_000
_MOST_COLUMNS = 1000
_ROWS_AT_ONCE = 1 << 16
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Chunk:
    """Some rows: their lines (of Parquet, rows), the texts of their keys, and their values."""

    lines: list[int]
    keys: list[list[str]]  # one list per column of keys
    values: Array  # (rows, columns) float32


def read_behaviour(
    path: str | os.PathLike[str],
    by: str,
    columns: Sequence[str],
    query: str = "query",
    document: str = "document",
) -> Table:
    """The named columns of a table; `query` and `document` are the names of its keys."""
    path = Path(path)
    if path.name.endswith(SUFFIX):
        return open_behaviour(path, by, columns)
    keys = [name for kind, name in (("query", query), ("document", document)) if kind in by.split("_")]
    kind = table_kind(path, None)
    chunks = _parquet_chunks if kind == "parquet" else partial(_text_chunks, delimiter=DELIMITERS[kind])
    gathered = _Gathered(path, by, "row" if kind == "parquet" else "line")
    for chunk in chunks(path, keys, list(columns)):
        gathered.add(chunk)
    return gathered.table(list(columns))


def _text_chunks(path: Path, keys: list[str], columns: list[str], delimiter: str) -> Iterator[Chunk]:
    records = rows_of(path, delimiter)
    header = read_header(path, records)
    _check_columns(path, [*keys, *columns], header)
    for chunk in chunks_of(path, records, len(header)):
        values = np.empty((len(chunk), len(columns)), np.float32)
        for number, name in enumerate(columns):
            position = header.index(name)
            doubles = cell_numbers(path, chunk, header, [name])[:, 0]
            values[:, number] = round_texts(doubles, [row[position] for _, row in chunk])
        texts = [[row[header.index(name)] for _, row in chunk] for name in keys]
        yield Chunk([line for line, _ in chunk], texts, values)


def _parquet_chunks(path: Path, keys: list[str], columns: list[str]) -> Iterator[Chunk]:
    table = read_parquet(path)
    _check_columns(path, [*keys, *columns], table.column_names)
    first = 1
    for batch in table.select([*keys, *columns]).to_batches(max_chunksize=_ROWS_AT_ONCE):
        lines = list(range(first, first + batch.num_rows))
        texts = [_parquet_texts(path, name, batch.column(name).to_pylist(), lines) for name in keys]
        values = [_parquet_numbers(path, name, batch.column(name), lines) for name in columns]
        yield Chunk(lines, texts, np.stack(values, axis=1))
        first += batch.num_rows


def _check_columns(path: Path, names: list[str], header: list[str]) -> None:
    for name in names:
        if name not in header:
            raise FormatError(path, no_column(name, header))


def _parquet_texts(path: Path, name: str, values: list[Any], rows: list[int]) -> list[str]:
    texts = []
    for row, value in zip(rows, values):
        try:
            texts.append(id_text(value))
        except ValueError as error:
            message = f"column {name!r}: expected text or an integer, found {excerpt(value)}."
            raise FormatError(path, message, row, unit="row") from error
    return texts


def _parquet_numbers(path: Path, name: str, column: Any, rows: list[int]) -> Array:
    numbers: Array = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "biuf":
        raise FormatError(path, f"column {name!r} has the type {column.type}; expected numbers in all rows.")
    doubles = numbers.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(doubles))
    if len(bad):
        cell = excerpt(column[int(bad[0])].as_py())
        message = f"column {name!r}: expected a finite number, found {cell}."
        raise FormatError(path, message, rows[bad[0]], unit="row")
    with np.errstate(over="ignore"):
        return doubles.astype(np.float32)  # what is beyond it becomes infinite, and is refused


class _Gathered:
    """The rows of a file, of which each distinct text is kept once."""

    def __init__(self, path: Path, by: str, unit: str) -> None:
        self.path, self.by, self.unit, self.n_rows = path, by, unit, 0
        self.kinds = by.split("_")
        self.known: dict[str, dict[str, int]] = {kind: {} for kind in self.kinds}
        self.raw: dict[str, int] = {}  # queries as they are written
        self.numbers: dict[str, list[Array]] = {kind: [] for kind in self.kinds}
        self.lines: list[Array] = []
        self.values: list[Array] = []

    def add(self, chunk: Chunk) -> None:
        self.n_rows += len(chunk.lines)
        if self.n_rows > MOST_ROWS:
            message = f"has more than {MOST_ROWS:,} rows, which is the most of a table"
            raise FormatError(self.path, f"{message}. Leave out rare queries and documents.")
        if np.isinf(chunk.values).any():
            row, column = np.argwhere(np.isinf(chunk.values))[0].tolist()
            message = f"value {column + 1} is beyond 3.4e38, the largest of float32."
            raise FormatError(self.path, message, chunk.lines[row], unit=self.unit)
        for kind, texts in zip(self.kinds, chunk.keys):
            learn = self._query if kind == "query" else self._document
            self.numbers[kind].append(self._numbered(kind, texts, chunk.lines, learn))
        self.lines.append(np.array(chunk.lines, np.int64))
        self.values.append(chunk.values)

    def _numbered(self, kind: str, texts: list[str], lines: list[int], learn: Callable[[str], int]) -> Array:
        known = self.raw if kind == "query" else self.known[kind]
        numbers = np.empty(len(texts), np.int64)
        for row, text in enumerate(texts):
            number = known.get(text)
            if number is None:
                try:
                    number = known[text] = learn(text)
                except ValueError as error:
                    raise FormatError(self.path, f"{kind}: {error}", lines[row], unit=self.unit) from error
            numbers[row] = number
        return numbers

    def _query(self, text: str) -> int:
        key = query_key(text)
        if not key or "\0" in key:
            raise ValueError(f"expected the text of a query, found {excerpt(text)}.")
        return self.known["query"].setdefault(key, len(self.known["query"]))

    def _document(self, id: str) -> int:
        check_id(id)
        return len(self.known["document"])

    def table(self, columns: list[str]) -> Table:
        if not self.n_rows:
            raise FormatError(self.path, "has no rows below the header.")
        texts, ranks = {}, {}
        for kind in self.kinds:
            texts[kind], rank = _sorted_texts(self.known[kind])
            ranks[kind] = rank[np.concatenate(self.numbers[kind])]
        order = np.lexsort([ranks[kind] for kind in reversed(self.kinds)])
        ranks = {kind: rank[order] for kind, rank in ranks.items()}
        self._refuse_repeated(ranks, order, texts)
        nothing, starts, rows = Texts.of([]), np.empty(0, np.int64), np.empty(0, np.int32)
        if len(self.kinds) == 2:
            starts = np.searchsorted(ranks["query"], np.arange(len(texts["query"]) + 1)).astype(np.int64)
            rows = ranks["document"].astype(np.int32)
        keys = Keys(texts.get("query", nothing), texts.get("document", nothing), readonly(starts), readonly(rows))
        values = np.concatenate(self.values)[order]
        by_name = {name: readonly(values[:, number].copy()) for number, name in enumerate(columns)}
        return _table(self.by, keys, by_name)

    def _refuse_repeated(self, ranks: dict[str, Array], order: Array, texts: dict[str, Texts]) -> None:
        same = np.ones(len(order) - 1, bool)
        for rank in ranks.values():
            same &= rank[1:] == rank[:-1]
        repeated = np.flatnonzero(same)
        if len(repeated):
            first = int(repeated[np.argmin(order[repeated + 1])])
            lines = np.concatenate(self.lines)
            named = " and ".join(f"{kind} {excerpt(texts[kind][int(ranks[kind][first])])}" for kind in self.kinds)
            message = f"{named}: the table has them already, in {self.unit} {lines[order[first]]}"
            advice = "Upper and lower case and spaces make no other query; add such rows up."
            line = int(lines[order[first + 1]])
            raise FormatError(self.path, f"{message}. {advice}", line, unit=self.unit)


def _sorted_texts(known: dict[str, int]) -> tuple[Texts, Array]:
    """The texts, ascending, and where each of the numbers is among them."""
    ascending = sorted(known)  # by code points, as their bytes are
    ranks = np.empty(len(known), np.int64)
    ranks[[known[text] for text in ascending]] = np.arange(len(known))
    texts = Texts.of(ascending)
    return Texts(readonly(texts.data), readonly(texts.offsets)), ranks


def _table(by: str, keys: Keys, columns: dict[str, Array]) -> Table:
    keys_digest = _digest(by.encode(), *_key_arrays(keys).values())
    digests = {name: _digest(keys_digest.encode(), values) for name, values in columns.items()}
    lazy = {name: Lazy(lambda values=values: values) for name, values in columns.items()}  # type: ignore[misc]
    return Table(by, keys_digest, digests, Lazy(lambda: keys), lazy)


def _digest(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        content = memoryview(part) if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _key_arrays(keys: Keys) -> dict[str, Array]:
    return {
        "queries.data": keys.queries.data,
        "queries.offsets": keys.queries.offsets,
        "documents.data": keys.documents.data,
        "documents.offsets": keys.documents.offsets,
        "starts": keys.starts,
        "rows": keys.rows,
    }


def write_behaviour(path: Path, columns: Mapping[str, Table]) -> None:
    """A container of columns, whose tables have the same keys."""
    table = next(iter(columns.values()))
    listed = [{"name": name, "digest": stored.digests[name]} for name, stored in columns.items()]
    values = {f"values.{number}": stored.values(name) for number, (name, stored) in enumerate(columns.items())}
    meta = {"by": table.by, "keys": table.keys_digest, "columns": listed}
    write_container(path, TABLE, meta, _key_arrays(table.keys) | values)


def open_behaviour(path: Path, by: str, columns: Sequence[str]) -> Table:
    """A table of a container; its arrays stay in the file, and are checked when they are first used."""
    with open_container(path, TABLE) as file:
        names, digests = _checked_facts(path, file)
        check_layout(path, file.entries, _layout(file, len(names)), kind=TABLE)
        if not file.entries["values.0"].shape[0]:
            raise TABLE.damaged(path, "it has no rows")
        mapped = {name: file.map(name) for name in file.entries}
        stored_by, keys_digest = file.meta["by"], file.meta["keys"]
    if by != stored_by:
        raise FormatError(path, f"is a table by {stored_by}; the feature is declared by {by}.")
    _check_columns(path, list(columns), names)
    keys = Lazy(partial(_checked_keys, path, by, mapped))
    lazy = {name: Lazy(partial(_checked_values, path, f"values.{number}", mapped)) for number, name in enumerate(names)}
    return Table(by, keys_digest, dict(zip(names, digests)), keys, lazy)


def _checked_facts(path: Path, file: Container) -> tuple[list[str], list[str]]:
    """The names and digests of the columns."""
    facts = file.meta
    try:
        if set(facts) != {"by", "keys", "columns"} or facts["by"] not in BY:
            raise ValueError(f"it is by {facts['by']!r:.60}")
        names, digests = ([column[key] for column in facts["columns"]] for key in ("name", "digest"))
        if not 1 <= len(set(names)) == len(names) <= _MOST_COLUMNS:
            raise ValueError("columns must have different names")
        if not all(isinstance(text, str) and text for text in (*names, *digests, facts["keys"])):
            raise ValueError("names and digests must be text")
    except (KeyError, TypeError, ValueError) as error:
        raise TABLE.damaged(path, f"its facts are not understood: {error}") from error
    return names, digests


def _layout(file: Container, n_columns: int) -> Layout:
    """All arrays of one dimension; how long they must be follows from the first of the values."""
    shape = file.entries["values.0"].shape if "values.0" in file.entries else ()
    n_rows = shape[0] if len(shape) == 1 else 0
    by = file.meta["by"]
    layout = text_layout("queries", n_rows if by == "query" else 0 if by == "document" else None)
    layout |= text_layout("documents", n_rows if by == "document" else 0 if by == "query" else None)
    pairs = by == "query_document"
    layout |= {"starts": Column(("<i8",), None if pairs else 0), "rows": Column(("<i4",), n_rows if pairs else 0)}
    return layout | {f"values.{number}": Column(("<f4",), n_rows) for number in range(n_columns)}


def _checked_keys(path: Path, by: str, mapped: dict[str, MappedArray]) -> Keys:
    queries, documents = (
        checked_texts(
            path,
            name,
            mapped[f"{name}.data"].verified(),
            mapped[f"{name}.offsets"].verified(),
            ascending=True,
            kind=TABLE,
        )
        for name in ("queries", "documents")
    )
    starts, rows = mapped["starts"].verified(), mapped["rows"].verified()
    if by == "query_document":
        check_rising(path, "starts", starts, len(rows), kind=TABLE)
        if len(starts) != len(queries) + 1 or not are_rows(starts, rows, len(documents)):
            raise TABLE.damaged(path, f"rows must ascend per query and be below {counted(len(documents), 'document')}")
    return Keys(queries, documents, starts, rows)


def _checked_values(path: Path, name: str, mapped: dict[str, MappedArray]) -> Array:
    values = mapped[name].verified()
    if not np.isfinite(values).all():
        raise TABLE.damaged(path, f"{name} must be finite")
    return values


@bare_kernel
def are_rows(starts: Array, rows: Array, n_documents: int) -> bool:
    """Whether the documents of each query ascend and exist."""
    for query in range(len(starts) - 1):
        before = -1
        for row in range(starts[query], starts[query + 1]):
            if rows[row] <= before or rows[row] >= n_documents:
                return False
            before = int(rows[row])
    return True
