"""Bundling: features that are rarely outside their default bins together share one column.

Exclusive feature bundling: on one-hot and other sparse data a histogram then costs rows x bundles instead of rows x
features. Which features go together is found greedily, those with most non-default values first, each into the first
bundle where it conflicts with few enough rows; for sparse data also in the order of the columns, and whichever makes
fewer bundles is used. Where two features conflict, the later one wins and the earlier one counts as being in its
default bin: without conflicts nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.learners.trees.sharding.binning import gather_lists
from podium.learners.trees.training import sparse
from podium.learners.trees.training.binning import (
    BinEdges,
    BinnedRows,
    FeatureLayout,
    bin_rows,
    draw_sample,
    whole_shard,
)

_SLOTS = 255  # of a column; the last one of a byte is for missing values
_MOST_NON_DEFAULT = 0.5  # a feature that is outside its default bin more often is left alone
_NEARLY, _FEWEST = 0.9, 32  # of a dense matrix, what share of rows and how many columns make bundling pay
_MOST_TRIED = 200  # bundles that a feature tries: the last ones


Bundle = tuple[Array, Array]
"""Features that share a column, int64, and the default bin of each."""


@dataclass(frozen=True)
class LayoutRules:
    """Bundles, categories and monotone constraints: what makes a feature more than a column of ordered bins."""

    bundle_features: bool | None = None  # None: where X is sparse, or nearly so
    max_conflicts: float = 0.0  # of a bundle, as a share of the rows
    categorical: tuple[int, ...] = ()
    category_smoothing: float = 10.0
    signs: tuple[int, ...] = ()  # one per feature; empty: all 0


def bin_bundled(
    X: FeatureMatrix,
    edges: BinEdges,
    rules: LayoutRules,
    seed: int,
    n_jobs: int | None,
    shard: Shard | None = None,
) -> BinnedRows:
    """Bin X, with bundles where they are wanted.

    They come from a sample of the rows. Where no collision is allowed, features that collide in some other row get
    columns of their own: what is left collides nowhere. Ranks decide it together, by the rows of all.
    """
    shard = shard or whole_shard(X)
    groups = find_bundles(X, edges, rules, seed, n_jobs, shard)
    binned = bin_rows(X, edges, n_jobs, make_layout(groups, edges, rules), shard)
    if rules.max_conflicts > 0 or not binned.collides.any():
        return binned
    unharmed = [~binned.collides[members] for members, _ in groups]
    groups = [(members[mask], default[mask]) for (members, default), mask in zip(groups, unharmed) if mask.sum() > 1]
    return bin_rows(X, edges, n_jobs, make_layout(groups, edges, rules), shard)


def find_bundles(
    X: FeatureMatrix, edges: BinEdges, rules: LayoutRules, seed: int, n_jobs: int | None, shard: Shard | None = None
) -> list[Bundle]:
    """Bundles of two features or more, where they are wanted."""
    shard = shard or whole_shard(X)
    wanted = rules.bundle_features
    if wanted is None:
        wanted = is_sparse(X) or _is_nearly_sparse(edges)
    if not wanted:
        return []
    # A constant needs no column, and sparse data may have any number of them: there they go with a bundle.
    misses_values = shard.any(_miss_values(X))
    candidates = np.flatnonzero(~edges.categorical & ~misses_values & ((edges.n_bins > 1) | is_sparse(X)))
    if len(candidates) < 2:
        return []
    sample = draw_sample(X, seed, shard)
    n = shard.total(sample.shape[0])
    features, default_bin, rows = _rarely_non_default(sample, edges, candidates, n_jobs, shard, n)
    sizes = edges.n_bins[features].astype(np.int64) - 1
    groups = _group_exclusive(rows, sizes, n, int(rules.max_conflicts * n), by_column=is_sparse(X))
    return [(features[members], default_bin[members]) for members in groups if len(members) > 1]


def _rarely_non_default(
    sample: FeatureMatrix, edges: BinEdges, features: Array, n_jobs: int | None, shard: Shard, n: int
) -> tuple[Array, Array, list[Array]]:
    """The features that are outside their default bins in no more than half of n rows, these bins, and those rows."""
    sum_ranks = shard.collective.sum
    if is_sparse(sample):
        default_bin, rows = sparse.find_non_default(sample, edges.upper, features)
        lengths = sum_ranks(np.array([len(those) for those in rows], np.int64))
    else:
        columns = bin_rows(sample, edges, n_jobs).columns[features]
        counts = sum_ranks(np.array([np.bincount(column, minlength=256) for column in columns], np.int64))
        default_bin, lengths = counts.argmax(axis=1), n - counts.max(axis=1)
        rows = [np.flatnonzero(column != b).astype(np.uint32) for column, b in zip(columns, default_bin)]
    chosen = np.flatnonzero(lengths <= _MOST_NON_DEFAULT * n)
    rows = gather_lists([rows[k] for k in chosen], sample.shape[0], shard.collective)
    return features[chosen], default_bin[chosen], rows


def _is_nearly_sparse(edges: BinEdges) -> bool:
    """Whether bundling pays, in a dense matrix: most columns, and not few, have one value nearly everywhere."""
    constant = int((edges.default_share >= _NEARLY).sum())
    return constant >= max(_FEWEST, edges.n_features / 2)


def make_layout(groups: list[Bundle], edges: BinEdges, rules: LayoutRules) -> FeatureLayout | None:
    """How the features are to lie in columns; None: each in its own, as it is."""
    if not groups and not edges.categorical.any() and not any(rules.signs):
        return None
    return _arrange_columns(groups, edges, rules)


def _group_exclusive(non_default: list[Array], sizes: Array, n: int, most: int, by_column: bool) -> list[Array]:
    """Groups of features with few collisions, as few as were found; `by_column` tries their own order too."""
    lengths = np.array([len(rows) for rows in non_default], dtype=np.int64)
    ends = readonly(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]))
    rows = readonly(np.concatenate([np.empty(0, np.uint32), *non_default]))
    orders = [np.argsort(-lengths, kind="stable")]
    if by_column:
        orders.append(np.arange(len(non_default)))  # one-hot columns of one variable stand side by side
    owners = [_fill_greedily(rows, ends, readonly(sizes), readonly(order), n, most) for order in orders]
    return _gather(min(owners, key=lambda owner: int(owner.max(initial=-1))))


def _gather(owner: Array) -> list[Array]:
    """The features that have the same owner: [0, 1, 0] -> [0, 2], [1]."""
    features = np.argsort(owner, kind="stable")
    return np.split(features, np.flatnonzero(np.diff(owner[features])) + 1)


def _miss_values(X: FeatureMatrix) -> Array:
    """Which features miss values in some row: they keep a column of their own."""
    missing = np.zeros(X.shape[1], dtype=np.bool_)
    if is_sparse(X):
        missing[X.indices[np.isnan(X.data)]] = True
        return missing
    for start in range(0, len(X), 4096):
        missing |= np.isnan(X[start : start + 4096]).any(axis=0)
    return missing


@kernel
def _fill_greedily(rows: Array, ends: Array, sizes: Array, order: Array, n: int, most: int) -> Array:
    """owner[k] = the bundle of feature k. A bundle holds no more than `most` collisions and 255 slots.

    rows[ends[k]:ends[k + 1]]: those of n in which feature k is outside its default bin; sizes[k]: its other bins;
    order: of the features. Only bundles that may still be tried are kept in memory, in turn in the same places.
    """
    owner = np.empty(len(sizes), np.int64)
    taken = np.zeros((_MOST_TRIED, n // 64 + 1), np.uint64)  # one bit per row: some member has a non-default value
    free, collisions = np.zeros(_MOST_TRIED, np.int64), np.zeros(_MOST_TRIED, np.int64)
    count = 0
    for k in order:
        feature_rows = rows[ends[k] : ends[k + 1]]
        for bundle in range(max(0, count - _MOST_TRIED), count + 1):
            at = bundle % _MOST_TRIED
            if bundle == count:
                taken[at] = 0
                free[at], collisions[at], count = _SLOTS - 1, 0, count + 1
            if free[at] < sizes[k]:
                continue
            allowed = most - collisions[at]
            both = _count_taken(taken[at], feature_rows, allowed)
            if both <= allowed:
                owner[k] = bundle
                free[at] -= sizes[k]
                collisions[at] += both
                for row in feature_rows:
                    taken[at, row >> 6] |= np.uint64(1) << np.uint64(row & 63)
                break
    return owner


@kernel
def _count_taken(taken: Array, rows: Array, allowed: int) -> np.int64:
    """How many of the rows are taken; one more than are allowed is enough."""
    both = np.int64(0)
    for row in rows:
        both += np.int64((taken[row >> 6] >> np.uint64(row & 63)) & np.uint64(1))
        if both > allowed:
            break
    return both


def _arrange_columns(groups: list[Bundle], edges: BinEdges, rules: LayoutRules) -> FeatureLayout:
    """Bundles first, then every other feature in a column of its own."""
    n = edges.n_features
    column, offset, default_bin = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.full(n, -1, np.int64)
    for number, (members, default_bins) in enumerate(groups):
        sizes = edges.n_bins[members].astype(np.int64) - 1
        column[members], default_bin[members] = number, default_bins
        offset[members] = 1 + np.cumsum(sizes) - sizes
    alone = column < 0
    column[alone] = len(groups) + np.arange(int(alone.sum()))
    by_column = np.argsort(column, kind="stable").astype(np.int64)
    starts = np.searchsorted(column[by_column], np.arange(int(column.max(initial=-1)) + 2)).astype(np.int64)
    arrays = (column, offset, default_bin, by_column, starts)
    signs = np.array(rules.signs, dtype=np.float64) if rules.signs else np.zeros(n)
    return FeatureLayout(*arrays, edges.categorical, np.array([rules.category_smoothing]), signs)
