"""Judgements, read from the log of the service: of each rater, query and document the latest one.

The log only grows, so it is read on from where it was read last. Queries are numbered in the order in which they were
first judged; a number never changes, as long as the log is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any

import orjson

from podium._runtime.once import once
from podium.server.page.agreeing import krippendorff_alpha

LARGEST_LABEL = 4
ANONYMOUS = "anonymous"
MERGING = "Where several raters judged a document, its label is the median; of an even number, the lower middle one."
_MARK = b'"judgement"'
_AT_ONCE = 1 << 24  # bytes


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """The judgements of one query: label by document and rater."""

    number: int  # from 1
    text: str
    ratings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @once
    def labels(self) -> dict[str, float]:
        """One label per document."""
        return {document: median_low(by_rater.values()) for document, by_rater in self.ratings.items()}

    @once
    def raters(self) -> dict[str, int]:
        """How many documents each rater has judged, the most first."""
        counts: dict[str, int] = {}
        for by_rater in self.ratings.values():
            for rater in by_rater:
                counts[rater] = counts.get(rater, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def units(self) -> list[tuple[float, ...]]:
        """The labels of each document."""
        return [tuple(by_rater.values()) for by_rater in self.ratings.values()]

    @once
    def agreement(self) -> float | None:
        return krippendorff_alpha(self.units)

    @property
    def n_shared(self) -> int:
        """Documents with judgements of several raters."""
        return sum(len(by_rater) > 1 for by_rater in self.ratings.values())


class Judgements:
    """What the log has. Any thread may ask; reading takes as long as what was written since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._position, self.n_off_scale = 0, 0
        self._queries: dict[str, JudgedQuery] = {}

    def of(self, text: str) -> JudgedQuery:
        """Those of a query; its number is 0 if it has none."""
        with self._lock:
            self._read_on()
            known = self._queries.get(normalised(text))
            return JudgedQuery(0, normalised(text)) if known is None else known

    def all(self) -> tuple[int, list[JudgedQuery]]:
        """The position in the log up to which this is true, and all judged queries by number."""
        with self._lock:
            self._read_on()
            return self._position, list(self._queries.values())

    def latest(self, n: int) -> list[str]:
        """The texts of the last queries that were judged for the first time."""
        with self._lock:
            self._read_on()
            return list(self._queries)[: -n - 1 : -1]

    def _read_on(self) -> None:
        with open(self._path, "rb") as file:
            if file.seek(0, 2) < self._position:  # the file is another one
                self._start()
            file.seek(self._position)
            rest = b""
            while chunk := file.read(_AT_ONCE):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                for line in whole.split(b"\n"):
                    if _MARK in line:
                        self._add(orjson.loads(line))
                self._position += len(whole) + len(newline)

    def _add(self, record: dict[str, Any]) -> None:
        if record.get("kind") != "judgement":
            return
        if record["label"] > LARGEST_LABEL:
            self.n_off_scale += 1
            return
        text = normalised(record["query"])
        query = self._queries.setdefault(text, JudgedQuery(len(self._queries) + 1, text))
        document, rater = str(record["document"]), record.get("rater") or ANONYMOUS
        by_rater = {**query.ratings.get(document, {}), rater: float(record["label"])}
        self._queries[text] = JudgedQuery(query.number, text, {**query.ratings, document: by_rater})


def normalised(text: str) -> str:
    """A query with single blanks: what is judged under one is judged under the other."""
    return " ".join(text.split())
