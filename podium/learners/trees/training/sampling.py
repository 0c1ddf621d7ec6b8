"""Sampling: the rows and features that a tree is grown on.

Draws come from the seed, the number of the tree and that of the row or query alone: everybody draws a lot, and the
smallest lots win. So a run that was interrupted draws what it would have drawn, and so do ranks with some of the rows.

GOSS, gradient-based one-side sampling, keeps the `a n` rows with the largest gradients and draws `b n` of the others,
which then stand for all (1 - a) n of them: their gradients, hessians and weights are multiplied by (1 - a) / b. So the
expected sums are those of all rows. It can also keep and draw whole queries, by the sum of their gradients' sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.random import draw_lots, stream_of, uniform
from podium.data.sharding.selecting import mark_smallest
from podium.data.sharding.shard import Shard

_QUERIES, _ROWS = 1, 2  # purposes of streams


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
    shard: Shard,
    gradients: Array,
    hessians: Array,
    seed: int,
    tree: int,
    weights: Array | None = None,
) -> Array | None:
    """The rows of a tree, rising, None for all; what rows have that count more than once changes in place."""
    if rules.bootstrap:
        multiplied = [gradients, hessians, *([] if weights is None else [weights])]
        return _draw_bootstrap(shard, multiplied, stream_of(seed, tree, _QUERIES))
    if rules.goss is not None:
        return draw_by_gradient(rules, shard, gradients, hessians, stream_of(seed, tree, _ROWS), weights)
    return _draw_share(rules, shard, seed, tree)


def _draw_share(rules: SamplingRules, shard: Shard, seed: int, tree: int) -> Array | None:
    """A share of the queries, and of these a share of the rows; rising, None for all."""
    if rules.query_fraction >= 1 and rules.row_fraction >= 1:
        return None
    chosen = np.ones(len(shard.queries), dtype=np.bool_)
    if rules.query_fraction < 1:
        chosen = _draw(rules.query_fraction, shard.n_queries, shard.queries, stream_of(seed, tree, _QUERIES), shard)
    rows = np.flatnonzero(np.repeat(chosen, shard.lengths))
    if rules.row_fraction < 1:
        numbers, stream = shard.rows[rows], stream_of(seed, tree, _ROWS)
        rows = rows[_draw(rules.row_fraction, shard.total(len(rows)), numbers, stream, shard)]
    return rows


def _draw(fraction: float, n: int, numbers: Array, stream: np.uint64, shard: Shard) -> Array:
    """A mask of those of these numbers that are drawn, of n on all ranks."""
    count = min(max(1, round(fraction * n)), n)
    return mark_smallest(draw_lots(stream, numbers), count, numbers, shard.collective)


def _draw_bootstrap(shard: Shard, multiplied: list[Array], stream: np.uint64) -> Array:
    """Queries drawn with replacement: the rows, rising; one drawn twice counts twice, by what is multiplied."""
    times = np.zeros(shard.n_queries, np.int64)
    _count_draws(stream, times)
    counts = np.repeat(times[shard.queries], shard.lengths)
    with np.errstate(over="ignore", invalid="ignore"):  # the grower refuses what is not finite
        for values in multiplied:
            values *= counts
    return np.flatnonzero(counts)


@kernel
def _count_draws(stream: np.uint64, times: Array) -> None:
    """times[k] = how often k is drawn in as many draws as there are places."""
    n = len(times)
    for draw in range(n):
        times[min(int(uniform(stream, draw) * n), n - 1)] += 1


def draw_by_gradient(
    rules: SamplingRules,
    shard: Shard,
    gradients: Array,
    hessians: Array,
    stream: np.uint64,
    weights: Array | None = None,
) -> Array:
    """GOSS: the rows, rising; derivatives and weights of those that were drawn are multiplied in place."""
    assert rules.goss is not None
    sizes, numbers, n = np.abs(gradients), shard.rows, shard.n_rows
    if rules.goss_by == "query":
        sizes = np.add.reduceat(sizes.astype(np.float64), shard.offsets[:-1]).astype(np.float32)
        numbers, n = shard.queries, shard.n_queries
    n_top = min(round(rules.goss[0] * n), n)
    n_other = min(max(round(rules.goss[1] * n), 1), n - n_top)
    # The bits of such numbers, which are not negative, are in their order.
    top = mark_smallest(~sizes.view(np.uint32), n_top, numbers, shard.collective)
    lots = draw_lots(stream, numbers) | (np.uint32(0) - top.view(np.uint8))  # all ones: not in the draw
    drawn = mark_smallest(lots, n_other, numbers, shard.collective)
    if rules.goss_by == "query":
        top, drawn = np.repeat(top, shard.lengths), np.repeat(drawn, shard.lengths)
    rows = np.empty(np.count_nonzero(top) + np.count_nonzero(drawn) + 1, dtype=np.uint32)
    _take(top, drawn, np.float32((n - n_top) / max(n_other, 1)), gradients, hessians, weights, rows)
    return rows[:-1]


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
