"""Stored documents: what was given of each document, as JSON, in compressed blocks of up to 64 documents or 256 KiB.

Blocks are in the order in which documents came; `rows` says which of them a document is, and `firsts` with which row a
block begins. A longer document has a block of its own, so that reading one decompresses little besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.files import zstd_module
from podium._runtime.words import excerpt
from podium.formats.kinds import SEGMENT
from podium.search.index.checking import check_rising

_ROWS = 64  # documents per block
_BYTES = 1 << 18  # from so many on, a block is full
LARGEST = 64 << 20  # bytes of a document, and so nearly of a block
_BEGINNING = 1 << 20  # bytes of a document that are read for what is shown of it
_LEVEL = 1
_SEPARATOR = b"\n"  # JSON text has none
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_TEXTS = ("title", "url", "body")
_CUT_ESCAPE = re.compile(r"u[0-9a-fA-F]{0,3}\Z")  # behind a backslash


def stored_text(id: str, document: Mapping[str, Any]) -> bytes:
    """A document, which was checked, as JSON text; refused if it is too long."""
    text = _ENCODER.encode(document).encode("utf-8", "surrogatepass")
    if len(text) > LARGEST:
        raise ValueError(f"document {excerpt(id)} has {len(text):,} bytes; at most {LARGEST:,} are stored. Divide it.")
    return text


class StoreWriter:
    """Collects documents; `arrays` are those of the segment. Reading these changes nothing: they may be read again."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._n_bytes = 0
        self._blocks: list[bytes] = []
        self._firsts = [0]

    def add(self, text: bytes) -> None:
        if self._waiting and self._n_bytes + len(text) > _BYTES:
            self._end_block()
        self._waiting.append(text)
        self._n_bytes += len(text) + 1
        if len(self._waiting) == _ROWS or self._n_bytes > _BYTES:
            self._end_block()

    def _end_block(self) -> None:
        self._blocks.append(_compressed(self._waiting))
        self._firsts.append(self._firsts[-1] + len(self._waiting))
        self._waiting, self._n_bytes = [], 0

    def arrays(self) -> dict[str, np.ndarray]:
        blocks, firsts = self._blocks, self._firsts
        if self._waiting:
            blocks, firsts = [*blocks, _compressed(self._waiting)], [*firsts, firsts[-1] + len(self._waiting)]
        return {
            "store.data": np.frombuffer(b"".join(blocks), np.uint8),
            "store.blocks": np.cumsum([0, *map(len, blocks)], dtype=np.int64),
            "store.firsts": np.array(firsts, np.int64),
        }


class Store:
    """Stored documents of a segment, in the arrays of its file, which are checked here."""

    def __init__(self, path: Path, data: np.ndarray, blocks: np.ndarray, firsts: np.ndarray, rows: np.ndarray) -> None:
        n_rows = int(firsts[-1]) if len(firsts) else -1
        check_rising(path, "store.blocks", blocks, len(data))
        check_rising(path, "store.firsts", firsts, n_rows)
        if len(firsts) != len(blocks) or (len(rows) and int(rows.max()) >= n_rows):
            raise SEGMENT.damaged(path, "stored documents are outside of their blocks")
        self._path, self._data, self._blocks, self._firsts, self._rows = path, data, blocks, firsts, rows

    def text(self, doc: int) -> bytes:
        """A document as JSON text."""
        block, row = self._block_and_row(doc)
        return self._block(block)[row]

    def document(self, doc: int) -> dict[str, Any]:
        return self._parsed(doc, self.text(doc))

    def beginning(self, doc: int) -> dict[str, Any]:
        """A document, of which the body may be cut after a mebibyte: what is shown of it costs no more."""
        block, _ = self._block_and_row(doc)
        if self._firsts[block + 1] - self._firsts[block] > 1:
            return self.document(doc)
        text, whole = _decompressed(self._path, self._content(block), _BEGINNING)
        try:
            document = self._parsed(doc, text if whole else _cut_body(text))
        except ValueError:
            document = {}
        return document if whole or "body" in document else self.document(doc)  # the cut may be before the body

    def documents(self, docs: np.ndarray) -> Iterator[tuple[int, dict[str, Any]]]:
        """Several documents with their numbers, in the order they are stored in."""
        by_row = docs[np.argsort(self._rows[docs], kind="stable")]
        for doc, text in zip(by_row.tolist(), self.texts(docs)):
            yield doc, self._parsed(doc, text)

    def _block_and_row(self, doc: int) -> tuple[int, int]:
        """The block of a document, and its row there."""
        row = int(self._rows[doc])
        block = int(np.searchsorted(self._firsts, row, "right")) - 1
        return block, row - int(self._firsts[block])

    def _parsed(self, doc: int, text: bytes) -> dict[str, Any]:
        try:
            document = json.loads(text.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise SEGMENT.damaged(self._path, f"stored document {doc} is no JSON") from error
        if not _is_document(document):
            raise SEGMENT.damaged(self._path, f"stored document {doc} is no document")
        return document  # type: ignore[no-any-return]

    def texts(self, docs: np.ndarray) -> Iterator[bytes]:
        """Several documents, in the order they are stored in; each block is decompressed once."""
        rows = np.sort(self._rows[docs]).astype(np.int64)
        used = np.unique(np.searchsorted(self._firsts, rows, "right") - 1)
        starts, ends = np.searchsorted(rows, self._firsts[used]), np.searchsorted(rows, self._firsts[used + 1])
        for block, start, end in zip(used.tolist(), starts.tolist(), ends.tolist()):
            content = self._block(block)
            yield from (content[row] for row in (rows[start:end] - self._firsts[block]).tolist())

    def places(self, docs: np.ndarray) -> np.ndarray:
        """Where `texts` has each of these documents."""
        places = np.empty(len(docs), np.uint32)
        places[np.argsort(self._rows[docs], kind="stable")] = np.arange(len(docs))
        return places

    def _content(self, block: int) -> bytes:
        return self._data[self._blocks[block] : self._blocks[block + 1]].tobytes()

    def _block(self, block: int) -> list[bytes]:
        content, whole = _decompressed(self._path, self._content(block), LARGEST + 2 * _BYTES)
        texts = content.split(_SEPARATOR)
        if not whole or len(texts) != self._firsts[block + 1] - self._firsts[block]:
            raise SEGMENT.damaged(self._path, f"block {block} of stored documents has not the documents it must have")
        return texts


def _is_document(value: Any) -> bool:
    """Titles, bodies and URLs that are text, and further fields by name."""
    if type(value) is not dict or not set(value) <= {*_TEXTS, "fields"}:
        return False
    return all(type(value.get(name, "")) is str for name in _TEXTS) and type(value.get("fields", {})) is dict


def _compressed(texts: Sequence[bytes]) -> bytes:
    content: bytes = zstd_module().compress(_SEPARATOR.join(texts), _LEVEL)
    return content


def _decompressed(path: Path, content: bytes, most: int) -> tuple[bytes, bool]:
    """At most so many bytes of a block, which bounds the memory whatever the file says; whether that is all of it."""
    zstd = zstd_module()
    try:
        decompressor = zstd.ZstdDecompressor()
        text: bytes = decompressor.decompress(content, most)
    except zstd.ZstdError as error:
        raise SEGMENT.damaged(path, f"stored documents cannot be decompressed: {error}") from error
    if len(text) < most and (not decompressor.eof or decompressor.unused_data):
        raise SEGMENT.damaged(path, "a block of stored documents does not end where it should")
    return text, decompressor.eof


def _cut_body(text: bytes) -> bytes:
    """The beginning of the JSON text of a document as JSON; the body is its last text, and ends earlier."""
    readable = _whole_characters(text)
    unicode_escape = _CUT_ESCAPE.search(readable[-4:])
    before = readable.removesuffix(unicode_escape[0]) if unicode_escape else readable
    n_backslashes = len(before) - len(before.rstrip("\\"))
    return ((before[:-1] if n_backslashes % 2 else readable) + '"}').encode("utf-8", "surrogatepass")


def _whole_characters(text: bytes) -> str:
    """The text without a last character of which bytes are missing."""
    for n_bytes in range(3):
        with suppress(UnicodeDecodeError):
            return text[: len(text) - n_bytes].decode("utf-8", "surrogatepass")
    return text[:-3].decode("utf-8", "surrogatepass")
