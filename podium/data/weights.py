"""Weights on a common scale: the mean of the positive ones is 1.

A common factor of all weights means nothing, but penalties, least sums of hessians and float32 would see it. So weights
are scaled before anything else sees them, and no factor changes a model. Weights of 0 do not count in the mean: they
say that something is not to be learned from, and there may be any number of these.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from podium._runtime.exact import exact_sum
from podium.data.ranking import RankingData
from podium.data.sharding.shard import Shard

LARGEST_RATIO = 1e12  # products of two documents' weights, their query's and their pair's stay within float32
_LEAST = (1 - 1e-9) / LARGEST_RATIO  # the ratio itself is allowed, however it is rounded


def scaled_weights(weights: np.ndarray | None, name: str, shard: Shard | None = None) -> np.ndarray | None:
    """Divided by the largest first, so that no sum of them overflows and equal weights become 1 exactly.

    shard: whose rows or queries these weights are of, where other ranks have the others.
    """
    largest = _largest(weights, shard)
    if weights is None or not 0 < largest < np.inf:  # none, or a part of the queries that all have 0
        return weights
    relative = weights / largest
    positive = relative > 0
    _refuse_large_ratio(weights, relative, name)
    mean = _sum(relative[positive], shard) / _count(positive, shard)
    return np.asarray(relative / mean)


def _largest(weights: np.ndarray | None, shard: Shard | None) -> float:
    largest = np.array([0.0 if weights is None else weights.max(initial=0.0)])
    return float(largest[0] if shard is None else shard.collective.largest(largest)[0])


def _sum(values: np.ndarray, shard: Shard | None) -> float:
    return float(exact_sum(values) if shard is None else shard.exact_sum(values))


def _count(mask: np.ndarray, shard: Shard | None) -> int:
    return int(mask.sum()) if shard is None else shard.total(int(mask.sum()))


def _refuse_large_ratio(weights: np.ndarray, relative: np.ndarray, name: str) -> None:
    positive = np.flatnonzero(weights > 0)  # of the weights: a relative one may be too small for float64
    if not len(positive):
        return
    smallest, largest = int(positive[weights[positive].argmin()]), int(weights.argmax())
    if relative[smallest] < _LEAST:
        limit = f"fit: positive weights may differ by a factor of at most {LARGEST_RATIO:g}"
        two = " and ".join(f"{name}[{row}] is {weights[row]:g}" for row in (smallest, largest))
        raise ValueError(f"{limit}; {two}. Set weights that are negligible to 0.")


def with_scaled_weights(data: RankingData, shard: Shard | None = None) -> RankingData:
    """The data with scaled weights; the same data where it has none."""
    if data.sample_weight is None and data.query_weight is None:
        return data
    return replace(
        data,
        sample_weight=scaled_weights(data.sample_weight, "sample_weight", shard),
        query_weight=scaled_weights(data.query_weight, "query_weight", shard),
    )


def row_weights(data: RankingData) -> np.ndarray | None:
    """(rows,) float64: a document's weight times its query's, or None where all are 1."""
    if data.query_weight is None:
        return data.sample_weight
    of_query = data.query_weight[data.query_numbers]
    return np.asarray(of_query if data.sample_weight is None else data.sample_weight * of_query)
