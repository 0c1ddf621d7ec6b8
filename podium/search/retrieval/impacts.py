"""Impacts: what a term adds to the score of each document of its list, computed when the term is first searched for.

A table belongs to a field of a segment and a weighting. Its arrays are as long as the postings, but memory is only used
for the lists that were searched: the system gives an array its memory page by page, when it is first written to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from podium.search.index.postings import Postings
from podium.search.retrieval.topk import BLOCK, END, FACTS, HINTS, RANGE, START, prepare_list

NO_DELETIONS = np.empty(0, bool)


@dataclass
class ImpactTable:
    """The lists of one field of a segment under one weighting. List n_terms is empty, for terms that are not there."""

    docs: np.ndarray
    n_terms: int
    n_documents: int
    facts: np.ndarray = field(init=False)
    impacts: np.ndarray = field(init=False)
    block_maxima: np.ndarray = field(init=False)
    directory: np.ndarray = field(init=False)
    hints: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.docs)
        self.facts = np.zeros((self.n_terms + 1, FACTS), np.int64)
        self.impacts = np.empty(n, np.uint32)
        self.block_maxima = np.empty(n // BLOCK + self.n_terms + 1, np.uint32)
        self.directory = np.empty(n // RANGE + 2 * self.n_terms + 2, np.uint32)
        self.hints = np.empty(n * HINTS + self.n_terms + 1, np.uint8)
        self._used = np.zeros(3, np.int64)
        self._ready = np.zeros(self.n_terms, bool)
        self._lock = threading.Lock()

    def prepare(
        self, term: int, postings: Postings, fill: Callable[[np.ndarray, np.ndarray, np.ndarray], None]
    ) -> None:
        """Compute the impacts of a term, once: `fill(docs, tfs, impacts)`."""
        with self._lock:
            if self._ready[term]:
                return
            start, end = postings.starts[term : term + 2].tolist()
            fill(self.docs[start:end], postings.tfs[start:end], self.impacts[start:end])
            self.set_list(term, start, end)
            self._ready[term] = True

    def set_list(self, term: int, start: int, end: int) -> None:
        """Prepare a list whose impacts are set."""
        self.facts[term, START], self.facts[term, END] = start, end
        prepare_list(
            term, self.docs, self.impacts, self.n_documents, self.facts, self.block_maxima, self.directory, self.hints,
            self._used,
        )  # fmt: skip
