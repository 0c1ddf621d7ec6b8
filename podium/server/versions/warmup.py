"""Warm-up requests: those of a file, and the latest that were answered. New versions must answer them first.

{"name": "products", "features": [[0.5, 1.0, null], [0.25, 3.0, 2.0]]}
{"name": "web", "q": "coffee grinder"}
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from podium.formats.errors import FormatError
from podium.server.errors import Refusal
from podium.server.http.bodies import JSON, read_request
from podium.server.versions.registry import Registry
from podium.server.versions.trial import Requests

_KEPT = 16  # of the latest requests, per name
_MOST_CELLS = 200_000  # of a request that is kept
_LONGEST_LINE = 8_000_000
_KEYS = {"name", "features", "q"}


class Warmup:
    """The requests that are replayed, by name."""

    def __init__(self, path: Path | None, registry: Registry, most_rows: int) -> None:
        self._stored: Mapping[str, Requests] = {} if path is None else _read(path, registry, most_rows)
        self._latest_rows: dict[str, deque[np.ndarray]] = {name: deque(maxlen=_KEPT) for name in registry.names}
        self._latest_queries: dict[str, deque[str]] = {name: deque(maxlen=_KEPT) for name in registry.names}
        for name, requests in self._stored.items():
            requests.replay(registry.get(name).live)

    def note_rows(self, name: str, rows: np.ndarray) -> None:
        """Rows that were scored."""
        if rows.size <= _MOST_CELLS:
            self._latest_rows[name].append(rows)

    def note_query(self, name: str, query: str) -> None:
        """A query that was answered."""
        self._latest_queries[name].append(query)

    def requests_of(self, name: str) -> Requests:
        """What a new version under this name has to answer."""
        stored = self._stored.get(name, Requests())
        rows = [*stored.rows, *self._latest_rows[name].copy()]
        return Requests(rows, [*stored.queries, *self._latest_queries[name].copy()])


def _read(path: Path, registry: Registry, most_rows: int) -> dict[str, Requests]:
    stored: dict[str, Requests] = {}
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if line.strip():
                _add(line, stored, registry, most_rows, path, number)
    return stored


def _add(line: bytes, stored: dict[str, Requests], registry: Registry, most_rows: int, path: Path, number: int) -> None:
    try:
        values: Any = orjson.loads(line)
        if not isinstance(values, dict) or not isinstance(values.get("name"), str) or not values.keys() <= _KEYS:
            raise ValueError('expected {"name": ..., "features": [[...]]} or {"name": ..., "q": ...}')
        version = registry.get(values["name"]).live
        requests = stored.setdefault(values["name"], Requests())
        if ("q" in values) == ("features" in values) or ("q" in values) != (version.searcher is not None):
            needed = "q" if version.searcher is not None else "features"
            raise ValueError(f"{values['name']} is a {version.kind}: expected {needed}")
        if "q" in values:
            requests.queries.append(str(values["q"]))
        else:
            body = orjson.dumps({"features": values["features"]})
            requests.rows.append(read_request(JSON, body, version, most_rows).rows)
    except (ValueError, Refusal) as error:
        raise FormatError(path, f"{error}", number) from None
