"""Terms of closed forms: a value is a sum over ranks, whose terms depend on the document and on what is above it."""

from __future__ import annotations

from podium._runtime.compiler import Array, kernel
from podium.metrics.closed_forms import ADDITIVE, CASCADE, PRECISION


@kernel
def first_above(kind: int) -> float:
    """What is above the first rank: nobody has stopped, or nothing relevant was found."""
    return 1.0 if kind == CASCADE else 0.0


@kernel
def rank_term(kind: int, scale: float, above: float, value: float, rank: int, weights: Array) -> tuple[float, float]:
    """The term of a document at a rank (from 0), and what is above the next one.

    above: the probability to get there (CASCADE) or the relevant documents so far; weights: of ranks, for ADDITIVE.
    """
    if kind == ADDITIVE:
        return scale * (value * weights[rank]), above
    if kind == CASCADE:
        return scale * (above * value) / (rank + 1), above * (1.0 - value)
    if value == 0.0:
        return 0.0, above
    if kind == PRECISION:
        return scale * (above + 1.0) / (rank + 1), above + 1.0
    return scale / (rank + 1) if above == 0.0 else 0.0, above + 1.0


@kernel
def sum_terms(kind: int, values: Array, offsets: Array, out: Array) -> None:
    """out[q]: the sum over the ranks of query q, whose documents have these values, in ranked order."""
    for q in range(len(out)):
        total, above = 0.0, first_above(kind)
        for rank in range(offsets[q + 1] - offsets[q]):
            term, above = rank_term(kind, 1.0, above, values[offsets[q] + rank], rank, values)
            total += term
        out[q] = total
