"""Workspace: the state of a tree that grows, and the two steps of growth: split a leaf, evaluate its children.

Only the histogram of the smaller child is built; that of the larger one is the parent's minus it. The rows of a leaf
are a range of `sorted`, in their original order. All workers take each step together.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.training.binning import MISSING, FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, add_rows, add_shares, clear_words, subtract_words
from podium.learners.trees.training.partitioning import chunk_of, merge_partitions, partition_rows
from podium.learners.trees.training.splitting import BIN, GAIN, MIDDLE, MISSING_LEFT, scan_words
from podium.learners.trees.training.workers import barrier, next_chunk, reset_chunks

ZERO, ONE = (cast(int, np.int64(number)) for number in range(2))  # Python literals would compile kernels once more

_MANY_ROWS = 16_384  # from here on, workers share the rows of a leaf; below, its features
_PIECE = 4_096  # so many at a time


class Bins(NamedTuple):
    """The binned rows, as kernels read them."""

    rows: Array
    columns: Array
    n_slots: Array
    n_bins: Array
    has_missing: Array


class Workspace(NamedTuple):
    """Buffers; where the first axis is workers, one for each."""

    sorted: Array  # (rows,) uint32: the rows, leaf after leaf
    partitioned: Array  # (rows,) uint32
    packed: Array  # (rows,) of the histograms' kind
    histograms: Array  # (histograms, slots): a pool, `Leaves.histogram` says whose they are
    gains: Array  # (leaves, features) float64; of oblivious trees, one row for a level
    shares: Array  # (workers, slots) of the histograms' kind
    tiles: Array  # (workers, words of a tile) uint64
    values: Array  # (workers, TILE) of the histograms' kind
    scratch: Array  # (workers, SCRATCH) of the histograms' kind
    order: Array  # (workers, STRIDE) int64: the order of a feature's categories
    heap: Array  # (features,) int64
    n_left: Array  # (workers, a cache line) int64: rows that go left, of a worker's part
    shared: Array  # barriers and decisions
    before: int  # columns that the histograms do not have, the first ones: those of other ranks


class Limits(NamedTuple):
    """`GrowthRules` as numbers."""

    by_level: bool
    max_depth: int
    min_samples: int
    min_gain: float
    max_impurity: float


class Nodes(NamedTuple):
    """The tree so far, as in `GrownTree`."""

    feature: Array
    bin: Array
    missing_left: Array
    column: Array
    sides: Array
    left: Array
    gain: Array
    size: Array


class Leaves(NamedTuple):
    """The leaves so far: node, range of `sorted`, depth, the feature of the best split (-1: none) and its gain, the
    number of the histogram (-1: evicted), and the bounds of the value, in units."""

    node: Array
    start: Array
    stop: Array
    depth: Array
    best: Array
    gain: Array
    histogram: Array
    low: Array
    high: Array


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
    return Leaves(node, start, stop, depth, np.full(count, -1, np.int64), np.zeros(count), histogram, *bounds)


@kernel
def evaluate_children(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    allowed: Array,
    scales: Array,
    leaves: Leaves,
    small: int,
    large: int,
    worker: int,
    phase: int,
) -> int:
    """Fill histograms and gains of two new leaves, of which `large` still has its parent's.

    That of the small one is built and subtracted from the parent's. A root has no sibling: small == large. Returns the
    number of the next barrier.
    """
    phase = build_histogram(bins, workspace, leaves, small, worker, phase)
    words = words_of(0, bins.rows.shape[1], worker, len(workspace.tiles))
    scan_children(layout, stream, bins, workspace, allowed, scales, leaves, small, large, words, worker)
    return barrier(workspace.shared, len(workspace.tiles), phase)


@kernel
def scan_children(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    allowed: Array,
    scales: Array,
    leaves: Leaves,
    small: int,
    large: int,
    words: tuple[int, int],
    worker: int,
) -> None:
    """The gains of the features of a range of words; the histogram of the small leaf is complete."""
    scan_words(
        layout, stream, (leaves.node[small], leaves.node[large]),
        workspace.histograms[leaves.histogram[small]], workspace.histograms[leaves.histogram[large]], small != large,
        workspace.before, words[0], words[1], bins.n_slots, bins.n_bins, bins.has_missing, allowed, scales,
        workspace.scratch[worker], workspace.order[worker],
        (leaves.low[small], leaves.high[small], leaves.low[large], leaves.high[large]),
        workspace.gains[small], workspace.gains[large],
    )  # fmt: skip


@kernel
def subtract_child(
    bins: Bins, workspace: Workspace, leaves: Leaves, small: int, large: int, worker: int, phase: int
) -> int:
    """`evaluate_children` without gains."""
    phase = build_histogram(bins, workspace, leaves, small, worker, phase)
    low, high = words_of(0, bins.rows.shape[1], worker, len(workspace.tiles))
    if small != large:
        child, parent = workspace.histograms[leaves.histogram[small]], workspace.histograms[leaves.histogram[large]]
        subtract_words(child, parent, workspace.before, low, high, bins.n_slots)
    return barrier(workspace.shared, len(workspace.tiles), phase)


@kernel
def words_of(first: int, last: int, worker: int, workers: int) -> tuple[int, int]:
    """A worker's range of these words of a row: whole blocks of 16 features."""
    low, high = chunk_of((last - first + 1) // 2, worker, workers)
    return first + 2 * low, min(first + 2 * high, last)


@kernel
def build_histogram(bins: Bins, workspace: Workspace, leaves: Leaves, leaf: int, worker: int, phase: int) -> int:
    """Fill the histogram of a leaf, every worker its own words of it; returns the number of the next barrier.

    Workers share the features of a leaf; if it has many rows they share those, each with a histogram of its own, which
    are then added up.
    """
    index, histogram = (
        workspace.sorted[leaves.start[leaf] : leaves.stop[leaf]],
        workspace.histograms[leaves.histogram[leaf]],
    )
    workers, words = len(workspace.tiles), bins.rows.shape[1]
    low, high = words_of(0, words, worker, workers)
    by_rows = workers > 1 and len(index) >= _MANY_ROWS
    first, last, size, sums = low, high, len(index), histogram
    if by_rows:
        first, last, size, sums = ZERO, words, _PIECE, workspace.shares[worker]
    clear_words(sums, first, last, bins.n_slots)
    piece = next_chunk(workspace.shared) if by_rows else ZERO
    while piece * size < len(index):
        rows = index[piece * size : (piece + 1) * size]
        tile, values = workspace.tiles[worker], workspace.values[worker]
        add_rows(bins.rows, workspace.packed, rows, first, last, sums, tile, values)
        piece = next_chunk(workspace.shared) if by_rows else piece + 1
    if by_rows:
        phase = barrier(workspace.shared, workers, phase)
        if worker == 0:
            reset_chunks(workspace.shared)
        add_shares(workspace.shares, low, high, bins.n_slots, histogram)
    return phase


@kernel
def column_of(workspace: Workspace, leaves: Leaves, leaf: int, column: int) -> Array:
    """The slots of a column in the histogram of a leaf."""
    first = (column - workspace.before) * STRIDE
    slots: Array = workspace.histograms[leaves.histogram[leaf], first : first + STRIDE]
    return slots


@kernel
def acquire_histogram(workspace: Workspace, leaves: Leaves, count: int, leaf: int, but: int) -> None:
    """Give a leaf a free histogram of the pool, or evict that of the leaf, of `count`, with the smallest gain.

    Should that leaf be split all the same, its histogram is built again. `but`: the leaf whose histogram stays.
    """
    if count < len(workspace.histograms):
        leaves.histogram[leaf] = count
        return
    evicted, least = -1, np.inf
    for other in range(count):
        if leaves.histogram[other] >= 0 and other != but and leaves.gain[other] < least:
            evicted, least = other, leaves.gain[other]
    leaves.histogram[leaf], leaves.histogram[evicted] = leaves.histogram[evicted], -1


@kernel
def split_leaf(
    layout: FeatureLayout | None,
    bins: Bins,
    workspace: Workspace,
    nodes: Nodes,
    leaves: Leaves,
    leaf: int,
    new: int,
    split: Array,
    worker: int,
    phase: int,
) -> int:
    """Partition the rows of a leaf as its node says; the smaller child becomes leaf `new`.

    Returns the number of the next barrier.
    """
    node = leaves.node[leaf]
    n_left, phase = partition_leaf(
        bins, workspace, leaves.start[leaf], leaves.stop[leaf], nodes.column[node], nodes.sides[node], worker, phase
    )
    if worker == 0:
        sign = 0.0 if layout is None else layout.signs[nodes.feature[node]]
        write_node(nodes, node, 2 * new - 1, n_left, split)
        write_children(leaves, leaf, new, 2 * new - 1, n_left, 2 * n_left <= nodes.size[node], sign, split)
    return barrier(workspace.shared, len(workspace.tiles), phase)


@kernel
def partition_leaf(
    bins: Bins, workspace: Workspace, start: int, stop: int, column: int, sides: Array, worker: int, phase: int
) -> tuple[int, int]:
    """Partition a range of rows by the slots of a column; returns how many go left, and the next barrier.

    Workers that go on must meet at that barrier before the rows are read.
    """
    workers, rows, partitioned = len(workspace.tiles), workspace.sorted[start:stop], workspace.partitioned[start:stop]
    low, high = chunk_of(stop - start, worker, workers)
    workspace.n_left[worker, 0] = partition_rows(rows[low:high], bins.columns[column], sides, partitioned[low:high])
    phase = barrier(workspace.shared, workers, phase)
    return merge_partitions(partitioned, workspace.n_left, worker, workers, rows), phase


@kernel
def write_node(nodes: Nodes, node: int, child: int, n_left: int, split: Array) -> None:
    """The node is split, and its children are `child` and the next; so many of its rows go left."""
    nodes.bin[node], nodes.missing_left[node] = int(split[BIN]), split[MISSING_LEFT] > 0
    nodes.gain[node], nodes.left[node] = split[GAIN], child
    nodes.size[child], nodes.size[child + 1] = n_left, nodes.size[node] - n_left


@kernel
def write_children(
    leaves: Leaves, leaf: int, new: int, child: int, n_left: int, small_left: bool, sign: float, split: Array
) -> None:
    """The new leaf takes the smaller child; the old one, which has the parent's histogram, becomes the larger.

    sign: 1 if the right child's values may not be below the left one's, -1 if not above.
    """
    start, stop = leaves.start[leaf], leaves.stop[leaf]
    middle = start + n_left
    if small_left:
        leaves.node[new], leaves.node[leaf] = child, child + 1
        leaves.start[new], leaves.stop[new], leaves.start[leaf] = start, middle, middle
    else:
        leaves.node[new], leaves.node[leaf] = child + 1, child
        leaves.start[new], leaves.stop[new], leaves.stop[leaf] = middle, stop, middle
    leaves.depth[leaf] += 1
    leaves.depth[new] = leaves.depth[leaf]
    leaves.low[new], leaves.high[new] = leaves.low[leaf], leaves.high[leaf]
    left, right = (new, leaf) if small_left else (leaf, new)
    bound_values(leaves, left, right, sign, split)


@kernel
def bound_values(leaves: Leaves, left: int, right: int, sign: float, split: Array) -> None:
    """Values on the two sides of a split on a feature with a sign may not pass the middle of theirs."""
    if sign != 0.0:
        below, above = (left, right) if sign > 0.0 else (right, left)
        leaves.high[below] = leaves.low[above] = split[MIDDLE]
