"""Stored documents: what was given of each document, as JSON, 64 documents per compressed block.

Blocks are in the order in which documents came; `rows` says which of them a document is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_ROWS = 64  # documents per block
_LEVEL = 1
_SEPARATOR = b"\n"  # JSON text has none
_ENCODER = json.JSONEncoder(separators=(",", ":"))


class StoreWriter:
    """Collects documents; `arrays` are those of the segment."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._blocks: list[bytes] = []

    def add_all(self, documents: Iterable[dict[str, Any]]) -> None:
        for document in documents:
            self.add(_ENCODER.encode(document).encode())

    def add(self, text: bytes) -> None:
        self._waiting.append(text)
        if len(self._waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        self._blocks.append(_zstd().compress(_SEPARATOR.join(self._waiting), _LEVEL))
        self._waiting.clear()

    def arrays(self) -> dict[str, np.ndarray]:
        if self._waiting:
            self._flush()
        ends = np.cumsum([0, *map(len, self._blocks)], dtype=np.int64)
        return {"store.data": np.frombuffer(b"".join(self._blocks), np.uint8), "store.blocks": ends}


class Store:
    """Stored documents of a segment."""

    def __init__(self, data: np.ndarray, blocks: np.ndarray, rows: np.ndarray) -> None:
        self._data, self._blocks, self._rows = data, blocks, rows

    def text(self, doc: int) -> bytes:
        """A document as JSON text."""
        block, row = divmod(int(self._rows[doc]), _ROWS)
        return self._block(block)[row]

    def document(self, doc: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(doc))
        return found

    def texts(self, docs: np.ndarray) -> Iterator[bytes]:
        """Several documents, in the order they are stored in; each block is decompressed once."""
        rows = np.sort(self._rows[docs])
        for block in np.unique(rows // _ROWS).tolist():
            content = self._block(block)
            own = rows[np.searchsorted(rows, block * _ROWS) : np.searchsorted(rows, (block + 1) * _ROWS)]
            yield from (content[row] for row in (own % _ROWS).tolist())

    def places(self, docs: np.ndarray) -> np.ndarray:
        """Where `texts` has each of these documents."""
        places = np.empty(len(docs), np.uint32)
        places[np.argsort(self._rows[docs], kind="stable")] = np.arange(len(docs))
        return places

    def _block(self, block: int) -> list[bytes]:
        content = self._data[self._blocks[block] : self._blocks[block + 1]]
        parts: list[bytes] = _zstd().decompress(content.tobytes()).split(_SEPARATOR)
        return parts


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
