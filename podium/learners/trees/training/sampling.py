"""Sampling: the rows and features that a tree is grown on.

Draws come from the seed and the number of the tree alone, so a run that was interrupted draws what it would have drawn.

GOSS, gradient-based one-side sampling, keeps the `a n` rows with the largest gradients and draws `b n` of the others,
which then stand for all (1 - a) n of them: their gradients, hessians and weights are multiplied by (1 - a) / b. So the
expected sums are those of all rows. It can also keep and draw whole queries, by the sum of their gradients' sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel


@dataclass(frozen=True)
class SamplingRules:
    """The shares of rows, queries and features; `goss` takes the place of the first two."""

    row_fraction: float = 1.0
    query_fraction: float = 1.0
    feature_fraction: float = 1.0
    goss: tuple[float, float] | None = None
    goss_by: str = "row"
    bootstrap: bool = False  # as many queries as there are, drawn with replacement


def draw_features(rules: SamplingRules, n_features: int, rng: np.random.Generator) -> Array:
    """A mask of the features."""
    allowed = np.ones(n_features, dtype=np.bool_)
    if rules.feature_fraction < 1:
        allowed[rng.permutation(n_features)[max(1, round(rules.feature_fraction * n_features)) :]] = False
    return allowed


def draw_rows(
    rules: SamplingRules,
    offsets: Array,
    gradients: Array,
    hessians: Array,
    rng: np.random.Generator,
    weights: Array | None = None,
) -> Array | None:
    """The rows of a tree, rising, None for all; what rows have that count more than once changes in place."""
    if rules.bootstrap:
        return _draw_bootstrap(offsets, [gradients, hessians, *([] if weights is None else [weights])], rng)
    if rules.goss is not None:
        return draw_by_gradient(rules, offsets, gradients, hessians, rng, weights)
    return _draw_share(rules, offsets, rng)


def _draw_share(rules: SamplingRules, offsets: Array, rng: np.random.Generator) -> Array | None:
    """A share of the queries, and of these a share of the rows; rising, None for all."""
    n_queries = len(offsets) - 1
    if rules.query_fraction >= 1 and rules.row_fraction >= 1:
        return None
    chosen = np.ones(n_queries, dtype=np.bool_)
    if rules.query_fraction < 1:
        chosen[rng.permutation(n_queries)[max(1, round(rules.query_fraction * n_queries)) :]] = False
    rows = np.flatnonzero(np.repeat(chosen, np.diff(offsets)))
    if rules.row_fraction < 1:
        rows = np.sort(rng.permutation(rows)[: max(1, round(rules.row_fraction * len(rows)))])
    return rows


def _draw_bootstrap(offsets: Array, multiplied: list[Array], rng: np.random.Generator) -> Array:
    """Queries drawn with replacement: the rows, rising; one drawn twice counts twice, by what is multiplied."""
    n_queries = len(offsets) - 1
    times = np.bincount(rng.integers(0, n_queries, n_queries), minlength=n_queries)
    counts = np.repeat(times, np.diff(offsets))
    with np.errstate(over="ignore", invalid="ignore"):  # the grower refuses what is not finite
        for values in multiplied:
            values *= counts
    return np.flatnonzero(counts)


def draw_by_gradient(
    rules: SamplingRules,
    offsets: Array,
    gradients: Array,
    hessians: Array,
    rng: np.random.Generator,
    weights: Array | None = None,
) -> Array:
    """GOSS: the rows, rising; derivatives and weights of those that were drawn are multiplied in place."""
    assert rules.goss is not None
    sizes = np.abs(gradients)
    if rules.goss_by == "query":
        sizes = np.add.reduceat(sizes.astype(np.float64), offsets[:-1]).astype(np.float32)
    n = len(sizes)
    n_top = min(round(rules.goss[0] * n), n)
    n_other = min(max(round(rules.goss[1] * n), 1), n - n_top)
    top, drawn = _choose_units(sizes, n_top, n_other, rng)
    if rules.goss_by == "query":
        top, drawn = np.repeat(top, np.diff(offsets)), np.repeat(drawn, np.diff(offsets))
    rows = np.empty(np.count_nonzero(top) + np.count_nonzero(drawn) + 1, dtype=np.uint32)
    _take(top, drawn, np.float32((n - n_top) / max(n_other, 1)), gradients, hessians, weights, rows)
    return rows[:-1]


def _choose_units(sizes: Array, n_top: int, n_other: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two masks: the largest, and those that are drawn from the others. Sizes are not negative.

    Everybody draws a lot of 31 bits, and the smallest lots win. They are the generator's bits as they come, which is
    faster than asking for numbers, and the same in every release of numpy.
    """
    top = _mark_smallest(~sizes.view(np.uint32), n_top)  # the bits of such numbers are in their order
    lots = rng.bit_generator.random_raw(-(-len(sizes) // 2)).view(np.uint32)[: len(sizes)]
    lots = (lots >> np.uint32(1)) | (np.uint32(0) - top.view(np.uint8))  # all ones: not in the draw
    return top, _mark_smallest(lots, n_other)


def _mark_smallest(keys: Array, count: int) -> Array:
    """A mask of the `count` smallest; of equal ones, the first."""
    if count == 0:
        return np.zeros(len(keys), dtype=np.bool_)
    edge = np.partition(keys, count - 1)[count - 1]
    chosen = keys < edge
    chosen[np.flatnonzero(keys == edge)[: count - np.count_nonzero(chosen)]] = True
    return np.asarray(chosen)


@kernel
def _take(
    top: Array,
    drawn: Array,
    factor: np.float32,
    gradients: Array,
    hessians: Array,
    weights: Array | None,
    rows: Array,
) -> None:
    """List the chosen rows and multiply the derivatives, and weights if there are any, of those that were drawn.

    rows: one longer than needed, for writes that the next row overwrites. No branch: it would be mispredicted often.
    """
    count, one = np.uint32(0), np.float32(1.0)
    for row in range(len(top)):
        times = factor if drawn[row] else one
        gradients[row] *= times
        hessians[row] *= times
        if weights is not None:
            weights[row] *= times
        rows[count] = row  # written over by the next one, if this one stays out
        count += np.uint32(top[row] | drawn[row])
