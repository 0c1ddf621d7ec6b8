"""Closed forms: a metric on one data set as numbers per document, per rank and per query.

Whoever must know what a change of order is worth reads them: lambda objectives (on the CPU and on a GPU) for the swap
deltas of two documents, the exact line search for the changes where documents cross.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from podium._runtime.compiler import readonly

# What a value is a sum of, per rank (a document's value times the weight of the rank; the precision at a relevant
# document; the inverse rank of the first relevant one; the probability to stop there over the rank), or per pair.
ADDITIVE, PRECISION, FIRST, CASCADE, PAIRS = range(5)

FormArrays = tuple[int, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """What `Metric.closed_form` returns; arrays are contiguous and read-only, as kernels read them."""

    kind: int
    cutoff: int  # ranks that count
    values: np.ndarray  # (n,) float64: gain, relevance 0/1, probability to stop, or label per document
    scales: np.ndarray  # (queries,) float64: what a term counts, 1 / divisor; 0 where no order changes the value
    largest: float = 1.0  # no value of a query is larger
    # Of additive metrics: float64 weights of ranks, and (queries,) int64 where those of a query begin;
    # none: all queries have the same.
    table: np.ndarray = field(default_factory=lambda: np.zeros(0))
    starts: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if not len(self.starts):
            object.__setattr__(self, "starts", np.zeros(len(self.scales)))
        for name in ("values", "scales", "table", "starts"):
            kind = np.int64 if name == "starts" else np.float64
            object.__setattr__(self, name, readonly(np.ascontiguousarray(getattr(self, name), kind)))

    @property
    def arrays(self) -> FormArrays:
        return self.cutoff, self.values, self.table, self.starts, self.scales


def inverse(divisors: np.ndarray) -> np.ndarray:
    """1 / divisor, and 0 where that is 0: nothing can be gained there."""
    inverse: np.ndarray = np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=divisors > 0)
    return inverse
