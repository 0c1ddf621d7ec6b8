"""Sampling: which rows and features a tree gets to see.

Draws come from the seed and the number of the tree alone, so a run that was interrupted draws what it would have drawn.

GOSS, gradient-based one-side sampling, keeps the `a n` rows with the largest gradients and draws `b n` of the others,
which then stand for all (1 - a) n of them: their gradients and hessians are multiplied by (1 - a) / b. So the expected
sums are those of all rows. It can also keep and draw whole queries, by the sum of their gradients' sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._numba import kernel


@dataclass(frozen=True)
class SamplingRules:
    """The shares of rows, queries and features; `goss` takes the place of the first two."""

    row_fraction: float = 1.0
    query_fraction: float = 1.0
    feature_fraction: float = 1.0
    goss: tuple[float, float] | None = None
    goss_by: str = "row"
    bootstrap: bool = False  # as many queries as there are, drawn with replacement


def draw_features(rules: SamplingRules, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """A mask of the features."""
    allowed = np.ones(n_features, dtype=np.bool_)
    if rules.feature_fraction < 1:
        kept = max(1, round(rules.feature_fraction * n_features))
        allowed[:] = False
        allowed[rng.permutation(n_features)[:kept]] = True
    return allowed


def draw_rows(rules: SamplingRules, offsets: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """A share of the queries, and of these a share of the rows; rising, None for all."""
    n_queries = len(offsets) - 1
    if rules.query_fraction >= 1 and rules.row_fraction >= 1:
        return None
    chosen = np.ones(n_queries, dtype=np.bool_)
    if rules.query_fraction < 1:
        chosen[:] = False
        chosen[rng.permutation(n_queries)[: max(1, round(rules.query_fraction * n_queries))]] = True
    rows = np.flatnonzero(np.repeat(chosen, np.diff(offsets)))
    if rules.row_fraction < 1:
        rows = np.sort(rng.permutation(rows)[: max(1, round(rules.row_fraction * len(rows)))])
    return rows


def draw_bootstrap(
    offsets: np.ndarray, gradients: np.ndarray, hessians: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Queries drawn with replacement: the rows, rising; one drawn twice counts twice, by its derivatives."""
    n_queries = len(offsets) - 1
    times = np.bincount(rng.integers(0, n_queries, n_queries), minlength=n_queries)
    counts = np.repeat(times, np.diff(offsets))
    gradients *= counts
    hessians *= counts
    return np.flatnonzero(counts)


def draw_by_gradient(
    rules: SamplingRules,
    offsets: np.ndarray,
    gradients: np.ndarray,
    hessians: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """GOSS: the rows, rising; the derivatives of those that were drawn are multiplied in place."""
    assert rules.goss is not None
    top, other = rules.goss
    sizes = np.abs(gradients)
    if rules.goss_by == "query":
        sizes = np.add.reduceat(sizes.astype(np.float64), offsets[:-1]).astype(np.float32)
    n = len(sizes)
    n_top, n_other = min(round(top * n), n), max(round(other * n), 1)
    n_other = min(n_other, n - n_top)
    edge = np.float32(np.inf) if n_top == 0 else np.partition(sizes, n - n_top)[n - n_top]
    # Some are as large as the smallest of the top: the first of them belong to it.
    equals = n_top - int(np.count_nonzero(sizes > edge))
    factor = (n - n_top) / n_other if n_other else 1.0
    # One more than there will be, for those that stay out at the end.
    kept, drawn = np.empty(n_top + n_other + 1, dtype=np.uint32), np.empty(n_top + n_other + 1, dtype=np.bool_)
    _take(sizes, edge, equals, n - n_top, n_other, rng.random(n, dtype=np.float32), kept, drawn)
    kept, drawn = kept[:-1], drawn[:-1]
    rows, more = kept, kept[drawn]
    if rules.goss_by == "query":
        rows, more = _rows_of(offsets, kept), _rows_of(offsets, more)
    gradients[more] *= np.float32(factor)
    hessians[more] *= np.float32(factor)
    return rows


def _rows_of(offsets: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The rows of these queries, which rise."""
    chosen = np.zeros(len(offsets) - 1, dtype=np.bool_)
    chosen[queries] = True
    return np.flatnonzero(np.repeat(chosen, np.diff(offsets)))


@kernel
def _take(
    sizes: np.ndarray,
    edge: np.float32,
    equals: int,
    others: int,
    wanted: int,
    numbers: np.ndarray,
    kept: np.ndarray,
    drawn: np.ndarray,
) -> None:
    """Fill `kept` with all above the edge, the first `equals` at it, and `wanted` of the `others`, each as likely.

    drawn: which of them are of the others. One pass: one of those that are left is taken with probability wanted /
    left, so exactly as many come together. No branch: it would be guessed wrong often.
    """
    count = 0
    for unit in range(len(sizes)):
        at_edge = (sizes[unit] == edge) & (equals > 0)
        top = (sizes[unit] > edge) | at_edge
        by_lot = (not top) & (np.float64(numbers[unit]) * others < wanted)
        equals -= 1 if at_edge else 0
        wanted -= 1 if by_lot else 0
        others -= 0 if top else 1
        kept[count], drawn[count] = unit, by_lot  # written over by the next one, if this one stays out
        count += 1 if top | by_lot else 0
