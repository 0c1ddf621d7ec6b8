"""Workbench: what a tree is grown on, and the two steps of growing: cut a leaf, look at its children.

Only the smaller child of a cut is added up; the larger one is what is left of the parent. The rows of a leaf are a
stretch of `sorted`, kept in their first order, so every sum over them has a fixed order too. All workers of a team take
each step together.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, Views
from podium.learners.trees.histograms import add_rows, add_shares, clear_words, subtract_words
from podium.learners.trees.parting import part_rows, put_back, share_of
from podium.learners.trees.splitting import BIN, GAIN, MIDDLE, MISSING_LEFT, scan_words
from podium.learners.trees.team import lay_out, meet, take

ZERO, ONE = (cast(int, np.int64(number)) for number in range(2))  # plain ones are types, and compile functions, apart

_MANY_ROWS = 16_384  # from here on, workers share the rows of a leaf; below, its features
_PIECE = 4_096  # so many at a time


class Bins(NamedTuple):
    """The binned rows, as kernels read them."""

    rows: np.ndarray
    columns: np.ndarray
    n_slots: np.ndarray
    n_bins: np.ndarray
    has_missing: np.ndarray


class Room(NamedTuple):
    """Working memory; where there are workers, one piece for each."""

    sorted: np.ndarray  # (rows,) uint32: the rows, leaf after leaf
    parted: np.ndarray  # (rows,) uint32
    packed: np.ndarray  # (rows,) of the histograms' kind
    histograms: np.ndarray  # (histograms, slots): a pool, `Leaves.histogram` says whose they are
    gains: np.ndarray  # (leaves, features) float64; of oblivious trees, one row for a level
    shares: np.ndarray  # (workers, slots) of the histograms' kind
    tiles: np.ndarray  # (workers, words of a tile) uint64
    values: np.ndarray  # (workers, TILE) of the histograms' kind
    scratch: np.ndarray  # (workers, SCRATCH) of the histograms' kind
    order: np.ndarray  # (workers, STRIDE) int64: the order of a feature's categories
    heap: np.ndarray  # (features,) int64
    n_left: np.ndarray  # (workers, a cache line) int64: rows that go left, of a worker's part
    board: np.ndarray  # the team's


class Limits(NamedTuple):
    """`GrowthRules` as numbers."""

    by_level: bool
    max_depth: int
    min_samples: int
    min_gain: float
    max_impurity: float


class Nodes(NamedTuple):
    """The tree so far, as in `GrownTree`."""

    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    column: np.ndarray
    sides: np.ndarray
    left: np.ndarray
    gain: np.ndarray
    size: np.ndarray


class Leaves(NamedTuple):
    """The leaves so far: node, stretch of `sorted`, depth, the feature that would cut each (-1: none), the number of
    its histogram (-1: it has been given away), least and largest value it may have, in units."""

    node: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    depth: np.ndarray
    best: np.ndarray
    histogram: np.ndarray
    low: np.ndarray
    high: np.ndarray


def make_nodes(count: int, n_rows: int) -> Nodes:
    """Nothing but a root."""
    nodes = Nodes(
        np.full(count, -1, np.int32),
        np.zeros(count, np.uint8),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int32),
        np.zeros((count, MISSING + 1), np.uint8),
        np.arange(count, dtype=np.int32),
        np.zeros(count),
        np.zeros(count, np.int64),
    )
    nodes.size[0] = n_rows
    return nodes


def make_leaves(count: int, n_rows: int) -> Leaves:
    """The root is the only leaf."""
    node, start, stop, depth = np.zeros((4, count), np.int64)
    stop[0] = n_rows
    bounds = np.full(count, -np.inf), np.full(count, np.inf)
    histogram = np.full(count, -1, np.int64)
    histogram[0] = 0
    return Leaves(node, start, stop, depth, np.full(count, -1, np.int64), histogram, *bounds)


@kernel
def look_at(
    views: Views | None,
    bins: Bins,
    room: Room,
    allowed: np.ndarray,
    scales: np.ndarray,
    leaves: Leaves,
    small: int,
    large: int,
    worker: int,
    meeting: int,
) -> int:
    """Fill histograms and gains of two new leaves, of which `large` still has its parent's; returns the next meeting.

    The small one is summed up and subtracted from the parent. A root has no sibling: small == large.
    """
    meeting = sum_rows(bins, room, leaves, small, worker, meeting)
    low, high = _words_of(bins.rows.shape[1], worker, len(room.tiles))
    scan_words(
        views,
        room.histograms[leaves.histogram[small]],
        room.histograms[leaves.histogram[large]],
        small != large,
        low,
        high,
        bins.n_slots,
        bins.n_bins,
        bins.has_missing,
        allowed,
        scales,
        room.scratch[worker],
        room.order[worker],
        (leaves.low[small], leaves.high[small], leaves.low[large], leaves.high[large]),
        room.gains[small],
        room.gains[large],
    )
    return meet(room.board, len(room.tiles), meeting)


@kernel
def subtract_child(bins: Bins, room: Room, leaves: Leaves, small: int, large: int, worker: int, meeting: int) -> int:
    """`look_at` without gains."""
    meeting = sum_rows(bins, room, leaves, small, worker, meeting)
    low, high = _words_of(bins.rows.shape[1], worker, len(room.tiles))
    if small != large:
        child, parent = room.histograms[leaves.histogram[small]], room.histograms[leaves.histogram[large]]
        subtract_words(child, parent, low, high, bins.n_slots)
    return meet(room.board, len(room.tiles), meeting)


@kernel
def _words_of(words: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's part of the words of a row: whole blocks of 16 features."""
    low, high = share_of((words + 1) // 2, worker, workers)
    return 2 * low, min(2 * high, words)


@kernel
def sum_rows(bins: Bins, room: Room, leaves: Leaves, leaf: int, worker: int, meeting: int) -> int:
    """Fill the histogram of a leaf, every worker its own words of it; returns the next meeting.

    Workers share the features of a leaf; if it has many rows they share those, each with a histogram of its own, which
    are then added up.
    """
    index, own = room.sorted[leaves.start[leaf] : leaves.stop[leaf]], room.histograms[leaves.histogram[leaf]]
    workers, words = len(room.tiles), bins.rows.shape[1]
    low, high = _words_of(words, worker, workers)
    by_rows = workers > 1 and len(index) >= _MANY_ROWS
    first, last, size, sums = low, high, len(index), own
    if by_rows:
        first, last, size, sums = ZERO, words, _PIECE, room.shares[worker]
    clear_words(sums, first, last, bins.n_slots)
    piece = take(room.board) if by_rows else ZERO
    while piece * size < len(index):
        rows = index[piece * size : (piece + 1) * size]
        add_rows(bins.rows, room.packed, rows, first, last, sums, room.tiles[worker], room.values[worker])
        piece = take(room.board) if by_rows else piece + 1
    if by_rows:
        meeting = meet(room.board, workers, meeting)
        if worker == 0:
            lay_out(room.board)
        add_shares(room.shares, low, high, bins.n_slots, own)
    return meeting


@kernel
def lend_histogram(room: Room, leaves: Leaves, count: int, leaf: int, but: int) -> None:
    """Give a leaf the next histogram of the pool, or that of the leaf, of `count`, that is the last in line to be cut.

    Where that one's turn comes all the same, its rows are added up again. `but`: not this one's.
    """
    if count < len(room.histograms):
        leaves.histogram[leaf] = count
        return
    victim, least = -1, np.inf
    for other in range(count):
        best = leaves.best[other]
        gain = room.gains[other, best] if best >= 0 else -1.0
        if leaves.histogram[other] >= 0 and other != but and gain < least:
            victim, least = other, gain
    leaves.histogram[leaf], leaves.histogram[victim] = leaves.histogram[victim], -1


@kernel
def cut_leaf(
    views: Views | None,
    bins: Bins,
    room: Room,
    nodes: Nodes,
    leaves: Leaves,
    leaf: int,
    new: int,
    cut: np.ndarray,
    worker: int,
    meeting: int,
) -> int:
    """Part the rows of a leaf as its node says; the smaller child becomes leaf `new`. Returns the next meeting."""
    workers, node, start, stop = len(room.tiles), leaves.node[leaf], leaves.start[leaf], leaves.stop[leaf]
    rows, parted = room.sorted[start:stop], room.parted[start:stop]
    low, high = share_of(stop - start, worker, workers)
    column, sides = bins.columns[nodes.column[node]], nodes.sides[node]
    room.n_left[worker, 0] = part_rows(rows[low:high], column, sides, parted[low:high])
    meeting = meet(room.board, workers, meeting)
    n_left = put_back(parted, room.n_left, worker, workers, rows)
    if worker == 0:
        sign = 0.0 if views is None else views.signs[nodes.feature[node]]
        _write_split(nodes, leaves, leaf, new, n_left, sign, cut)
    return meet(room.board, workers, meeting)


@kernel
def _write_split(nodes: Nodes, leaves: Leaves, leaf: int, new: int, n_left: int, sign: float, cut: np.ndarray) -> None:
    """The new leaf takes the smaller child; the old one, which has the parent's histogram, becomes the larger.

    sign: 1 if the right child's values may not be below the left one's, -1 if not above.
    """
    node, child, start, stop = leaves.node[leaf], 2 * new - 1, leaves.start[leaf], leaves.stop[leaf]
    nodes.bin[node], nodes.missing_left[node] = int(cut[BIN]), cut[MISSING_LEFT] > 0
    nodes.gain[node], nodes.left[node] = cut[GAIN], child
    middle = start + n_left
    nodes.size[child], nodes.size[child + 1] = n_left, stop - middle
    small_left = middle - start <= stop - middle
    if small_left:
        leaves.node[new], leaves.node[leaf] = child, child + 1
        leaves.start[new], leaves.stop[new], leaves.start[leaf] = start, middle, middle
    else:
        leaves.node[new], leaves.node[leaf] = child + 1, child
        leaves.start[new], leaves.stop[new], leaves.stop[leaf] = middle, stop, middle
    leaves.depth[leaf] += 1
    leaves.depth[new] = leaves.depth[leaf]
    leaves.low[new], leaves.high[new] = leaves.low[leaf], leaves.high[leaf]
    if sign != 0.0:
        left, right = (new, leaf) if small_left else (leaf, new)
        below, above = (left, right) if sign > 0.0 else (right, left)
        leaves.high[below] = leaves.low[above] = cut[MIDDLE]
