"""Binning: every feature value becomes a small integer, so that histograms can be built over it.

Up to 255 bins per feature, with edges at quantiles, so that each bin holds about as many rows; a frequent value gets a
bin of its own. Missing values (NaN) have a bin of their own too, number 255. Bin edges are midpoints between
neighbouring values: a value belongs to the first bin whose upper edge is not below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.random import draw_lots, stream_of
from podium._runtime.threads import map_blocks
from podium.data.sharding.selecting import mark_smallest
from podium.data.sharding.shard import Shard
from podium.data.sparse import FeatureMatrix, is_sparse
from podium.learners.trees.scoring.sparse import entries_of
from podium.learners.trees.sharding.binning import Column, SharedColumns, share_features
from podium.learners.trees.training import sparse

MISSING = 255
WORD = 8  # features in a word of 64 bits
LARGEST_SAMPLE = 200_000  # rows; above, quantiles come from a sample
_SAMPLE = 3  # the purpose of its stream
_BLOCK = 16  # features taken out of X in one go: a cache line of float32


class FeatureLayout(NamedTuple):
    """How features lie in columns, where not every column is a feature with ordered bins. `features.py` reads them."""

    column: Array  # (features,) int64
    offset: Array  # (features,) int64: the first of its slots in a bundle
    default_bin: Array  # (features,) int64: the bin without a slot (no missing values); -1: not bundled
    members: Array  # (features,) int64: features, column by column
    starts: Array  # (columns + 1,) int64: where each column's members begin
    categorical: Array  # (features,) bool
    smoothing: Array  # (1,) float64: hessian added to each category's
    signs: Array  # (features,) float64: 1 where a score may not fall with the feature, -1 where not rise, else 0


@dataclass(frozen=True, eq=False)
class BinEdges:
    """Where the bins end. Bin b of feature f holds values in (upper[f, b - 1], upper[f, b]].

    A category has a bin of its own: bin b holds the value upper[f, b], and all other values are missing ones.
    """

    upper: Array  # (features, 255) float32; +inf from the last bin on
    n_bins: Array  # (features,) int32: bins of values, the missing one not counted
    has_missing: Array  # (features,) bool
    categorical: Array  # (features,) bool
    default_share: Array  # (features,) float64: of rows that have the most frequent value, missing ones aside

    @property
    def n_features(self) -> int:
        return len(self.n_bins)


@dataclass(frozen=True, eq=False)
class BinnedRows:
    """The rows as slots, one byte per column, twice: histograms read whole rows, a split reads one column.

    Without layout, columns are features and slots are bins.
    """

    rows: Array  # (n, words) uint64, C order: eight columns per word, the spare ones of the last in slot 0
    columns: Array  # (columns, n) uint8, C order
    n_slots: Array  # (columns,) int32: slots in use, number 255 not counted
    edges: BinEdges
    layout: FeatureLayout | None
    collides: Array  # (features,) bool: written over another feature of its bundle in some row

    @property
    def n_rows(self) -> int:
        return len(self.rows)


def whole_shard(X: FeatureMatrix) -> Shard:
    """All rows of X, where queries do not matter."""
    return Shard.whole(np.array([0, X.shape[0]]))


def draw_sample(X: FeatureMatrix, seed: int, shard: Shard | None = None) -> FeatureMatrix:
    """All rows of X, or LARGEST_SAMPLE of them, in their order: one pass through X, also where it lies in a file.

    Of the rows of a shard, those that are among so many of all ranks.
    """
    shard = shard or whole_shard(X)
    if shard.n_rows <= LARGEST_SAMPLE:
        return X
    lots = draw_lots(stream_of(seed, 0, _SAMPLE), shard.rows)
    return X[np.flatnonzero(mark_smallest(lots, LARGEST_SAMPLE, shard.rows, shard.collective))]


def find_bin_edges(
    X: FeatureMatrix,
    max_bins: int = 255,
    seed: int = 0,
    n_jobs: int | None = None,
    categorical: Array | None = None,
    shard: Shard | None = None,
) -> BinEdges:
    """Quantile bin edges of each column of X (rows, features), float32; the values of `categorical` ones (a mask).

    Ranks find those of the rows of all, each of some of the features (`sharding/binning.py`).
    """
    n_features = X.shape[1]
    named = np.zeros(n_features, dtype=np.bool_) if categorical is None else np.asarray(categorical, dtype=np.bool_)
    sample = draw_sample(X, seed, shard)
    columns = sparse.SparseColumns.of(sample) if is_sparse(sample) else _DenseColumns(readonly(sample))
    edges = BinEdges(
        np.full((n_features, MISSING), np.inf, dtype=np.float32),
        np.ones(n_features, dtype=np.int32),
        np.zeros(n_features, dtype=np.bool_),
        named,
        np.zeros(n_features),
    )
    if shard is None or shard.is_whole:

        def work(block: int) -> None:
            first = block * _BLOCK
            for f, column in enumerate(columns.take(first, min(n_features, first + _BLOCK)), first):
                _bin_column(*column, f, max_bins, edges)

        map_blocks(work, -(-n_features // _BLOCK), n_jobs)
        return edges
    shared = SharedColumns(columns, n_features, shard.collective)
    for features, read in shared.blocks(_BLOCK):
        for f, column in zip(features, read):
            _bin_column(*column, f, max_bins, edges)
    share_features(shared, [edges.upper, edges.n_bins, edges.has_missing, edges.default_share])
    return edges


def _bin_column(values: Array, zeros: int, f: int, max_bins: int, edges: BinEdges) -> None:
    """The edges of one feature, from its values in order, NaN last, and so many zeros more."""
    known = int(np.searchsorted(np.isnan(values), True))
    edges.has_missing[f] = known < len(values)
    choose = _list_categories if edges.categorical[f] else _choose_edges
    distinct, counts = _find_runs(values[:known], zeros)
    edges.n_bins[f] = choose(distinct, counts, max_bins, edges.upper[f])
    edges.default_share[f] = counts.max(initial=0) / max(1, len(values) + zeros)


@dataclass(frozen=True, eq=False)
class _DenseColumns:
    """The columns of a matrix, a few at a time."""

    X: Array

    def take(self, first: int, last: int) -> list[Column]:
        """The values of each column in order, NaN last, and how many zeros there are beside them: none."""
        columns = np.empty((last - first, len(self.X)), dtype=np.float32)
        _take_columns(self.X, first, columns)
        columns.sort(axis=1)
        return [(column, 0) for column in columns]


def _list_categories(values: Array, counts: Array, max_bins: int, upper: Array) -> int:
    """The most frequent values of a column, as many as there may be bins; the others count as missing."""
    frequent = np.sort(np.argsort(-counts, kind="stable")[: min(max_bins, MISSING - 1)])  # one edge stays open
    upper[: len(frequent)] = values[frequent] + np.float32(0)  # -0 is written as 0
    return max(len(frequent), 1)


def bin_rows(
    X: FeatureMatrix,
    edges: BinEdges,
    n_jobs: int | None = None,
    layout: FeatureLayout | None = None,
    shard: Shard | None = None,
) -> BinnedRows:
    """Map every value to its bin, and bins to the slots of the columns that `layout` names.

    Where X is sparse, the default bin of a feature in a bundle must be that of 0. With a shard, a feature misses
    values, or collides, if it does on some rank.
    """
    n, n_features = X.shape
    n_columns = n_features if layout is None else len(layout.starts) - 1
    zeros = np.zeros if shard is None else shard.zeros
    rows = zeros((n, -(-n_columns // WORD) * WORD), dtype=np.uint8)
    columns = zeros((n_columns, n), dtype=np.uint8)
    missing = edges.has_missing.copy()  # the sample that made the bin edges may have missed some
    collides = np.zeros(n_features, dtype=np.bool_)
    upper, categorical = readonly(edges.upper), readonly(edges.categorical)
    size = 16_384
    known, out = (upper, categorical), (rows, columns, missing, collides)
    if is_sparse(X):
        _write_zeros(X, known, layout, out)

    def work(block: int) -> None:
        part = block * size, min(n, (block + 1) * size)
        if is_sparse(X):
            sparse.bin_entries(entries_of(X), known, layout, *part, out)
        else:
            _bin_block(readonly(X), known, layout, *part, out)

    map_blocks(work, -(-n // size), n_jobs)
    if shard is not None:
        missing, collides = shard.any(np.stack([missing, collides]))
    edges = replace(edges, has_missing=missing)
    n_slots = edges.n_bins if layout is None else _count_slots(edges, layout)
    return BinnedRows(rows.view(np.uint64), columns, n_slots, edges, layout, collides)


def _write_zeros(X: FeatureMatrix, known: sparse.Edges, layout: FeatureLayout | None, out: sparse.Slots) -> None:
    """Let every row hold nothing but zeros: slot 0 of a bundle, elsewhere the bin of 0, which may be no category."""
    bins, (rows, columns, missing, _) = sparse.bins_of_zero(*known), out
    lost = bins == MISSING
    if lost.any():
        missing |= lost & (np.bincount(X.indices, minlength=len(lost)) < X.shape[0])
    slots = np.zeros(len(columns), dtype=np.uint8)
    alone = np.arange(len(bins)) if layout is None else np.flatnonzero(layout.default_bin < 0)
    slots[alone if layout is None else layout.column[alone]] = bins[alone]
    for column in np.flatnonzero(slots):
        rows[:, column] = columns[column] = slots[column]


def _count_slots(edges: BinEdges, layout: FeatureLayout) -> Array:
    """The slots of each column: of a bundle, one for the default bins and those of its members."""
    bundled = layout.default_bin >= 0
    sizes = np.where(bundled, edges.n_bins - 1, edges.n_bins)
    counts = np.bincount(layout.column, sizes, minlength=len(layout.starts) - 1)
    counts[layout.column[bundled]] += 1  # once a bundle, however many members
    return counts.astype(np.int32)


@kernel
def _take_columns(X: Array, first: int, columns: Array) -> None:
    """Transpose some columns: each cache line of X is read once."""
    for k in range(len(X)):
        for f in range(columns.shape[0]):
            columns[f, k] = X[k, first + f]


@kernel
def _find_runs(values: Array, zeros: int) -> tuple[Array, Array]:
    """The distinct ones of sorted values and of so many zeros more, rising, and how often each is there.

    [-2, 1, 1], 4 zeros -> [-2, 0, 1], [1, 4, 2].
    """
    distinct, counts, count = np.empty(len(values) + 1, np.float32), np.empty(len(values) + 1, np.int64), 0
    for k in range(len(values)):
        if zeros > 0 and values[k] >= 0:
            distinct[count], counts[count] = 0, zeros
            zeros, count = 0, count + 1
        if count > 0 and values[k] == distinct[count - 1]:
            counts[count - 1] += 1
        else:
            distinct[count], counts[count] = values[k], 1
            count += 1
    if zeros > 0:
        distinct[count], counts[count] = 0, zeros
        count += 1
    return distinct[:count], counts[:count]


@kernel
def _choose_edges(values: Array, counts: Array, max_bins: int, upper: Array) -> int:
    """Split distinct values, each there so many times, into bins of about equal size; returns how many.

    A bin closes when it holds its share of what was left at its start, so a frequent value uses up one bin and the
    others still share the rest evenly. Few distinct values get a bin each.
    """
    distinct, left = len(values), 0
    for k in range(distinct):
        left += counts[k]
    bins, held, share = 0, 0, left / max_bins
    for k in range(distinct - 1):
        held += counts[k]
        left -= counts[k]
        if bins < max_bins - 1 and (distinct <= max_bins or held >= share):
            upper[bins] = _between(values[k], values[k + 1])
            bins += 1
            held = 0
            share = left / (max_bins - bins)
    upper[bins] = np.inf
    return bins + 1


@kernel
def _between(low: np.float32, high: np.float32) -> np.float32:
    """A number m with low <= m < high, the middle if rounding allows."""
    middle = np.float32(0.5) * low + np.float32(0.5) * high
    return middle if low <= middle < high else low


@kernel
def _bin_block(
    X: Array, known: sparse.Edges, layout: FeatureLayout | None, first: int, last: int, out: sparse.Slots
) -> None:
    """rows[i, c] = columns[c, i] = number of bin edges below X[i, f]; NaN -> 255, and missing[f] is noted.

    Eight halvings of the 255 edges, for 64 rows in step: one search alone would wait for each of its loads. Without
    layout, c = f; in a bundle, rows in a feature's default bin leave the slot alone, and the last feature that does not
    wins; that it collides is noted.
    """
    (upper, categorical), (rows, columns, missing, collides) = known, out
    values, low = np.empty(64, np.float32), np.empty(64, np.uint32)
    for start in range(first, last, 64):
        n = min(64, last - start)
        for f in range(X.shape[1]):
            edges = upper[f]
            for k in range(n):
                values[k] = X[start + k, f]
            for k in range(64):
                low[k] = 0
            half = np.uint32(128)
            while half > np.uint32(0):
                for k in range(64):
                    low[k] += half * np.uint32(edges[low[k] + half - np.uint32(1)] < values[k])
                half >>= np.uint32(1)
            named = categorical[f]
            for k in range(n):
                if values[k] != values[k] or (named and edges[low[k]] != values[k]):
                    low[k] = np.uint32(MISSING)
                    missing[f] = True
            if layout is None:
                for k in range(n):
                    rows[start + k, f] = columns[f, start + k] = np.uint8(low[k])
            else:
                column, default_bin, offset = layout.column[f], layout.default_bin[f], layout.offset[f]
                for k in range(n):
                    b = np.int64(low[k])
                    if b != default_bin:
                        slot = b if default_bin < 0 else offset + b - (b > default_bin)
                        if default_bin >= 0 and rows[start + k, column] != 0:
                            collides[f] = True
                        rows[start + k, column] = columns[column, start + k] = np.uint8(slot)
