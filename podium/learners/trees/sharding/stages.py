"""Stages: the steps of growth that ranks take together, each with its own rows, on all of its threads.

A rank builds the histogram of its rows in all columns; their sums are then divided among the ranks by columns, so that
each keeps, subtracts and scans the histograms of its own columns only. The kernels are those of a single machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.data.sharding.shard import Shard
from podium.learners.trees.training.binning import MISSING, WORD, FeatureLayout
from podium.learners.trees.training.histograms import PACKED, STRIDE
from podium.learners.trees.training.layout import fill_sides
from podium.learners.trees.training.leafwise import count_slots, split_feature
from podium.learners.trees.training.splitting import BIN, GAIN, MISSING_LEFT, SPLIT, best_feature
from podium.learners.trees.training.workers import barrier, is_cancelled
from podium.learners.trees.training.workspace import (
    ONE,
    Bins,
    Leaves,
    Limits,
    Workspace,
    build_histogram,
    column_of,
    partition_leaf,
    scan_children,
    words_of,
)

_MESSAGE = 2**25  # bytes of histograms
_RECORD = 2 + SPLIT + (MISSING + 1) // 8  # of a candidate as int64: feature, bound, split, sides


class Columns:
    """Which columns each rank has, in whole words of a row, and where their slots lie in a message."""

    def __init__(self, n_slots: Array, words: int, size: int) -> None:
        widths = np.zeros(words * WORD, np.int64)
        widths[: len(n_slots)] = n_slots + 1  # one for missing values
        ends = np.concatenate([[0], np.cumsum(widths)])
        shares = np.searchsorted(ends[::WORD], np.arange(1, size) * int(ends[-1]) / size)
        self.words = np.concatenate([[0], np.minimum(shares, words), [words]]).astype(np.int64)  # (ranks + 1,)
        self.ends = ends[WORD * self.words]  # (ranks + 1,) of the slots of a rank's columns
        owner = np.repeat(np.arange(size), np.diff(WORD * self.words))
        first, length = self.ends[owner], np.diff(self.ends)[owner]
        self.places = first, length, ends[:-1] - first  # of each column: where its rank's begin, how many, where there


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best split of each of some leaves."""

    feature: Array  # (leaves,) int64; -1: none
    bound: Array  # (leaves,) float64: its gain, as scans have found it
    split: Array  # (leaves, SPLIT) float64
    sides: Array  # (leaves, 256) uint8

    @classmethod
    def make(cls, count: int) -> Candidates:
        sides = np.zeros((count, MISSING + 1), np.uint8)
        return cls(np.full(count, -1, np.int64), np.zeros(count), np.zeros((count, SPLIT)), sides)

    def put(self, leaves: Sequence[int], others: Candidates) -> None:
        """Replace those of some leaves."""
        self.feature[leaves], self.bound[leaves] = others.feature, others.bound
        self.split[leaves], self.sides[leaves] = others.split, others.sides

    def better(self, others: Candidates) -> Candidates:
        """Of this one candidate and several more the best."""
        both = [(c, k) for c in (self, others) for k in range(len(c.feature)) if c.feature[k] >= 0]
        if not both:
            return Candidates.make(1)
        c, k = min(both, key=lambda item: (-item[0].bound[item[1]], item[0].feature[item[1]]))
        return Candidates(c.feature[[k]], c.bound[[k]], c.split[[k]], c.sides[[k]])

    def first(self, shard: Shard) -> Candidates:
        """Of each leaf the best of all ranks: of the largest gain, and of equal ones that of the first feature."""
        count, best = len(self.feature), Candidates.make(len(self.feature))
        message = np.empty((count, _RECORD), np.int64)
        pack_candidates(self.feature, self.bound, self.split, self.sides, message)
        ranks = np.concatenate(shard.collective.gather(message.reshape(-1))).reshape(-1, count, _RECORD)
        choose_candidates(ranks, best.feature, best.bound, best.split, best.sides)
        return best


class Stages:
    """The steps. `run_workers(work)` calls `work(worker)` on every thread of this rank."""

    def __init__(
        self,
        shard: Shard,
        bins: Bins,
        layout: FeatureLayout | None,
        workspace: Workspace,
        limits: Limits,
        run_workers: Callable[[Callable[[int], Any]], None],
    ) -> None:
        """workspace: with room for one histogram of all columns."""
        self.shard, self.bins, self.layout, self.limits, self.run_workers = shard, bins, layout, limits, run_workers
        words = bins.rows.shape[1]
        self.columns = columns = Columns(bins.n_slots, words, shard.collective.size)
        self.local, rank = workspace, shard.collective.rank
        first, last = columns.words[rank : rank + 2].tolist()
        self.words, self.n_slots = (first, last), (last - first) * WORD * STRIDE
        self.shared = workspace._replace(before=first * WORD)
        self._parts = 1 if workspace.packed.dtype == PACKED else 2  # integers per slot
        self._number = np.int64 if self._parts == 1 else np.float64
        self._message = np.empty(0, np.int64)
        self.batch = max(1, _MESSAGE // (8 * self._parts * int(columns.ends[-1])))  # histograms in one message

    def give_pool(self, pool: int, rows_of_gains: int) -> None:
        """Room for so many histograms of this rank's columns, and for gains; those of other features stay 0."""
        histograms = np.zeros((pool, self.n_slots), self.local.packed.dtype)
        self.shared = self.shared._replace(
            histograms=histograms, gains=np.zeros((rows_of_gains, len(self.bins.n_bins)))
        )

    def build(self, leaves: Leaves, chosen: Sequence[int], places: Sequence[int]) -> None:
        """The histograms of some leaves, of the rows of all ranks in this rank's columns, to places of the pool."""
        for start in range(0, len(chosen), self.batch):
            part = slice(start, start + self.batch)
            self._build(leaves, chosen[part], places[part])

    def _build(self, leaves: Leaves, chosen: Sequence[int], places: Sequence[int]) -> None:
        count, ends, parts = len(chosen), self.columns.ends, self._parts
        message = self._message_of(count * parts * int(ends[-1]))
        numbers, local = np.array(chosen, np.int64), leaves._replace(histogram=np.zeros_like(leaves.histogram))
        flat = self.local.histograms.view(self._number)

        def work(worker: int) -> None:
            places = self.columns.places
            build_and_pack(self.bins, self.local, local, numbers, flat, parts, places, message, worker)

        self.run_workers(work)
        sums = self.shard.collective.scatter_sum(message, count * parts * ends)
        pool = self.shared.histograms.view(self._number)
        unpack_columns(sums, np.array(places, np.int64), parts, self.words, self.bins.n_slots, pool)

    def _message_of(self, length: int) -> Array:
        """Room for a message, the same for all: new memory costs as much as filling it."""
        if len(self._message) < length:
            self._message = np.empty(length, np.int64)
        return self._message[:length]

    def scan(
        self, stream: np.uint64 | None, allowed: Array, scales: Array, leaves: Leaves, pairs: Sequence[tuple[int, int]]
    ) -> None:
        """Gains of this rank's features in pairs of a new leaf and its sibling, from which it is subtracted."""
        numbers, bins, words = np.array(pairs, np.int64).reshape(-1, 2), self.bins, self.words

        def work(worker: int) -> None:
            scan_pairs(self.layout, stream, bins, self.shared, allowed, scales, leaves, numbers, words, worker)

        self.run_workers(work)

    def find_best(self, stream: np.uint64 | None, scales: Array, leaves: Leaves, chosen: Sequence[int]) -> Candidates:
        """The best splits of some leaves, without counting rows."""
        numbers, here = np.array(chosen, np.int64), Candidates.make(len(chosen))
        fields = here.feature, here.bound, here.split, here.sides
        describe_best(self.layout, stream, self.bins, self.shared, scales, leaves, numbers, *fields)
        return here.first(self.shard)

    def partition(self, leaves: Leaves, chosen: Sequence[int], candidates: Candidates) -> tuple[Array, Array]:
        """Partition the rows of some leaves; how many go left of this rank's rows, and of all."""
        numbers, n_left = np.array(chosen, np.int64), np.zeros(len(chosen), np.int64)
        columns = candidates.feature
        if self.layout is not None:
            columns = np.where(columns >= 0, self.layout.column[columns], -1)

        def work(worker: int) -> None:
            partition_leaves(self.bins, self.shared, leaves, numbers, columns, candidates.sides, n_left, worker)

        self.run_workers(work)
        return n_left, self.shard.collective.sum(n_left)

    def columns_of(self, features: Array) -> Array:
        """The columns of features."""
        return features if self.layout is None else self.layout.column[features]

    def has_feature(self, features: Array) -> Array:
        """Whether this rank has the columns of features."""
        words = self.columns_of(features) // WORD
        return np.asarray((words >= self.words[0]) & (words < self.words[1]))

    def count_rows(self, leaves: Leaves, leaf: int, features: Array) -> Array:
        """(features, 256) how many rows of a leaf, of all ranks, have each slot of the features' columns."""
        columns, counts = self.columns_of(features), np.zeros((len(features), MISSING + 1), np.int64)
        start, stop = int(leaves.start[leaf]), int(leaves.stop[leaf])

        def work(worker: int) -> None:
            for k in range(worker, len(columns), len(self.local.tiles)):
                count_slots(self.bins.columns[columns[k]], self.local.sorted[start:stop], counts[k])

        self.run_workers(work)
        return self.shard.collective.sum(counts)

    def split_counted(
        self, stream: np.uint64 | None, scales: Array, leaves: Leaves, leaf: int, features: Array, counts: Array
    ) -> Candidates:
        """The best splits of these of this rank's features that leave enough rows of a leaf on both sides."""
        these = Candidates.make(len(features))
        these.feature[:] = features
        arguments = scales, leaves, leaf, self.limits.min_samples, counts
        describe_counted(
            self.layout, stream, self.bins, self.shared, *arguments, these.feature, these.split, these.sides
        )
        these.bound[:] = these.split[:, GAIN]
        these.feature[these.bound <= 0.0] = -1
        return these


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def pack_candidates(feature: Array, bound: Array, split: Array, sides: Array, message: Array) -> None:
    """message: (leaves, _RECORD) int64, the bits of all fields."""
    bounds, splits, words = bound.view(np.int64), split.view(np.int64), sides.view(np.int64)
    for leaf in range(len(feature)):
        message[leaf, 0], message[leaf, 1] = feature[leaf], bounds[leaf]
        message[leaf, 2 : 2 + SPLIT], message[leaf, 2 + SPLIT :] = splits[leaf], words[leaf]


@kernel
def choose_candidates(ranks: Array, feature: Array, bound: Array, split: Array, sides: Array) -> None:
    """The best candidate for each leaf, of those of all ranks: (ranks, leaves, _RECORD)."""
    bounds, splits, words = bound.view(np.int64), split.view(np.int64), sides.view(np.int64)
    gains = ranks.view(np.float64)[:, :, 1]
    for leaf in range(len(feature)):
        best = -1
        for rank in range(len(ranks)):
            if ranks[rank, leaf, 0] < 0:
                continue
            if (
                best < 0
                or gains[rank, leaf] > gains[best, leaf]
                or (gains[rank, leaf] == gains[best, leaf] and ranks[rank, leaf, 0] < ranks[best, leaf, 0])
            ):
                best = rank
        if best >= 0:
            feature[leaf], bounds[leaf] = ranks[best, leaf, 0], ranks[best, leaf, 1]
            splits[leaf], words[leaf] = ranks[best, leaf, 2 : 2 + SPLIT], ranks[best, leaf, 2 + SPLIT :]


@kernel
def build_and_pack(
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    chosen: Array,
    flat: Array,
    parts: int,
    places: tuple[Array, Array, Array],
    message: Array,
    worker: int,
) -> None:
    """The histograms of some leaves, one after the other, into a message: rank by rank, leaf by leaf, column by column.

    flat: the workspace's one histogram as numbers, so many parts for each slot.
    """
    workers, words = len(workspace.tiles), bins.rows.shape[1]
    phase = barrier(workspace.shared, workers, ONE)
    if is_cancelled(workspace.shared):
        return
    (first, length, offset), count = places, len(chosen)
    low, high = words_of(0, words, worker, workers)
    for k in range(count):
        phase = build_histogram(bins, workspace, leaves, chosen[k], worker, phase)
        for column in range(low * WORD, min(high * WORD, len(bins.n_slots))):
            at = parts * (count * first[column] + k * length[column] + offset[column])
            slots, used = flat[0, parts * column * STRIDE :], parts * bins.n_slots[column]
            for j in range(used):
                message[at + j] = np.int64(slots[j])
            for j in range(parts):
                message[at + used + j] = np.int64(slots[parts * MISSING + j])
        phase = barrier(workspace.shared, workers, phase)


@kernel
def unpack_columns(
    values: Array, places: Array, parts: int, words: tuple[int, int], n_slots: Array, pool: Array
) -> None:
    """The part of a rank of the sum of such messages, as histograms of its columns."""
    at = 0
    for k in range(len(places)):
        for column in range(words[0] * WORD, min(words[1] * WORD, len(n_slots))):
            slots, used = pool[places[k], parts * (column - words[0] * WORD) * STRIDE :], parts * n_slots[column]
            for j in range(used):
                slots[j] = values[at + j]
            for j in range(parts):
                slots[parts * MISSING + j] = values[at + used + j]
            at += used + parts


@kernel
def scan_pairs(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    allowed: Array,
    scales: Array,
    leaves: Leaves,
    pairs: Array,
    words: tuple[int, int],
    worker: int,
) -> None:
    """`scan_children` of pairs of leaves, every worker its own words of those of the rank.

    The last barrier is for a late worker: once the first one returns, the others are cancelled.
    """
    phase = barrier(workspace.shared, len(workspace.tiles), ONE)
    if is_cancelled(workspace.shared):
        return
    mine = words_of(words[0], words[1], worker, len(workspace.tiles))
    for k in range(len(pairs)):
        small, large = pairs[k, 0], pairs[k, 1]
        scan_children(layout, stream, bins, workspace, allowed, scales, leaves, small, large, mine, worker)
    barrier(workspace.shared, len(workspace.tiles), phase)


@kernel
def describe_best(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    scales: Array,
    leaves: Leaves,
    chosen: Array,
    features: Array,
    bounds: Array,
    splits: Array,
    sides: Array,
) -> None:
    """The feature of this rank with the largest gain in each leaf, and how it splits."""
    nothing = np.empty(0, np.int64)
    for k in range(len(chosen)):
        f = best_feature(workspace.gains[chosen[k]])
        features[k] = f
        if f >= 0:
            bounds[k] = workspace.gains[chosen[k], f]
            _describe(layout, stream, bins, workspace, scales, leaves, chosen[k], f, nothing, 0, splits[k], sides[k])


@kernel
def describe_counted(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    scales: Array,
    leaves: Leaves,
    leaf: int,
    min_samples: int,
    counts: Array,
    features: Array,
    splits: Array,
    sides: Array,
) -> None:
    """How features of this rank split a leaf and leave enough rows on both sides. counts: (features, 256) of slots."""
    for k in range(len(features)):
        f = features[k]
        _describe(layout, stream, bins, workspace, scales, leaves, leaf, f, counts[k], min_samples, splits[k], sides[k])


@kernel
def _describe(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    scales: Array,
    leaves: Leaves,
    leaf: int,
    f: int,
    counts: Array,
    min_samples: int,
    split: Array,
    sides: Array,
) -> None:
    column, order = f if layout is None else layout.column[f], workspace.order[0]
    slots, about = column_of(workspace, leaves, leaf, column), (leaves.node[leaf], leaves.low[leaf], leaves.high[leaf])
    scratch = workspace.scratch[0]
    used = split_feature(layout, stream, bins, f, slots, about, counts, min_samples, scales, scratch, order, split)
    at, to_left = int(split[BIN]), split[MISSING_LEFT] > 0
    fill_sides(f, bins.n_bins[f], at, to_left, layout, order, used, sides)


@kernel
def partition_leaves(
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    chosen: Array,
    columns: Array,
    sides: Array,
    n_left: Array,
    worker: int,
) -> None:
    """Partition the rows of some leaves, unless their column is -1; n_left: how many of each go left."""
    workers = len(workspace.tiles)
    phase = barrier(workspace.shared, workers, ONE)
    if is_cancelled(workspace.shared):
        return
    for k in range(len(chosen)):
        if columns[k] < 0:
            continue
        start, stop = leaves.start[chosen[k]], leaves.stop[chosen[k]]
        left, phase = partition_leaf(bins, workspace, start, stop, columns[k], sides[k], worker, phase)
        if worker == 0:
            n_left[k] = left
        phase = barrier(workspace.shared, workers, phase)
