"""Closed forms: a metric on one data set as numbers per document, per rank and per query.

Whoever must know what a change of order is worth reads them: lambda objectives (on the CPU and on a GPU) for the swap
deltas of two documents, the exact line search for the deltas where documents cross.

The formulas of swap deltas are written here once, for numbers and for arrays: kernels compile them, NumPy and JAX call
them. So this module imports neither Numba nor JAX.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
            array = np.ascontiguousarray(getattr(self, name), kind).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def arrays(self) -> FormArrays:
        return self.cutoff, self.values, self.table, self.starts, self.scales


def inverse(divisors: np.ndarray) -> np.ndarray:
    """1 / divisor, and 0 where that is 0: nothing can be gained there."""
    inverse: np.ndarray = np.divide(1.0, divisors, out=np.zeros(len(divisors)), where=divisors > 0)
    return inverse


# --- swap deltas ---------------------------------------------------------------------------------------------------
# Swapping a document u with a lower one l loses `(value_u - value_l) drop`: nothing but the drop depends on the kind.
# Of additive metrics it is `weight_u - weight_l`, of their ranks; of RR `1 / rank_u` minus that of who is first then.


def precision_weights(hits: Any, passed: Any, inverse: Any) -> tuple[Any, Any]:
    """AP is additive for one document u: the weights of ranks if u is relevant, and if it is not.

    inverse: 1 / rank down to the cutoff; hits: the relevant documents so far; passed: the sum of `inverse` over them.
    A relevant u that falls to l loses its precision at u, gets that at l (the hits there are what they were), and takes
    one hit from each relevant document between. One that is not relevant lets l rise, with one hit more.
    """
    falling = hits * inverse - passed
    return falling, falling + inverse


def cascade_sums(here: Any, stop: Any, before: Any) -> tuple[Any, Any]:
    """ERR down to a rank, and the same if everyone stopped there; here: the probability to get there, over the rank."""
    return before + here * stop, before + here


def cascade_drop(here: Any, stay: Any, total: Any, full: Any) -> Any:
    """Of ERR: u has `here`, `stay = 1 / (1 - stop)` and the sum `total`, l the sum `full` (everyone stops there).

    With l at u the user stops there by `stop_u - stop_l` less, and gets to what is between and to l by the factor
    `(1 - stop_l) / (1 - stop_u)` more often.
    """
    return here - (full - total) * stay


def swap_deltas(form: ClosedForm, i: int) -> np.ndarray:
    """What the value of one list, in its order, changes by if rank i (from 0) is swapped with i + 1, i + 2, ..."""
    value, ranks = form.values, np.arange(1, len(form.values) + 1)
    inverse = np.where(ranks <= form.cutoff, 1.0 / ranks, 0.0)
    drop = _DROPS[form.kind](form, i, inverse) if i < form.cutoff else 0.0
    return np.asarray(form.scales[0] * (value[i + 1 :] - value[i]) * drop)


def _additive_drop(form: ClosedForm, i: int, inverse: np.ndarray) -> np.ndarray:
    return np.asarray(form.table[i] - form.table[i + 1 : len(inverse)])


def _precision_drop(form: ClosedForm, i: int, inverse: np.ndarray) -> np.ndarray:
    relevant = form.values
    falling, rising = precision_weights(np.cumsum(relevant), np.cumsum(relevant * inverse), inverse)
    weights = falling if relevant[i] else rising
    return np.asarray(weights[i] - weights[i + 1 :])


def _first_drop(form: ClosedForm, i: int, inverse: np.ndarray) -> np.ndarray:
    """Only the first relevant document counts: u is it and may fall behind the second, or stands above it."""
    relevant = form.values > 0
    first, second = np.append(inverse[relevant], [0.0, 0.0])[:2]
    if relevant[:i].any():
        return np.zeros(len(relevant) - i - 1)
    return np.asarray(inverse[i] - (np.maximum(inverse[i + 1 :], second) if relevant[i] else first))


def _cascade_drop(form: ClosedForm, i: int, inverse: np.ndarray) -> np.ndarray:
    stop = form.values
    here = inverse * np.append(1.0, np.cumprod(1.0 - stop)[:-1])
    total, full = cascade_sums(here, stop, np.append(0.0, np.cumsum(here * stop)[:-1]))
    return np.asarray(cascade_drop(here[i], 1.0 / (1.0 - stop[i]), total[i], full[i + 1 :]))


_DROPS = {ADDITIVE: _additive_drop, PRECISION: _precision_drop, FIRST: _first_drop, CASCADE: _cascade_drop}
