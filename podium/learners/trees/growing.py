"""Growing: one tree, split by split, from binned rows and their derivatives.

Leaf-wise growth cuts the leaf that gains most; level-wise growth cuts every leaf of a level before the next. Only the
smaller child of a split is added up; the larger one is what is left of the parent. The rows of a leaf are a stretch of
`index`, kept in their first order, so every sum over them has a fixed order too.

Gains come from histograms that know no row counts. A gain found there is at least the true one, so the smallest leaf
size is checked only when a leaf is about to be cut: if the cut would leave too few rows on a side, its feature is
counted exactly, and the leaf competes again with what remains.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, WORD, BinnedRows
from podium.learners.trees.histograms import (
    BLOCK,
    STRIDE,
    TILE,
    add_rows,
    add_shares,
    clear_words,
    gradient_of,
    pack_rows,
)
from podium.learners.trees.parting import part_rows, put_back, share_of
from podium.learners.trees.splitting import (
    BIN,
    CUT,
    GAIN,
    LEFT_HESSIAN,
    MISSING_LEFT,
    RIGHT_HESSIAN,
    best_feature,
    find_cut,
    scan_words,
)
from podium.learners.trees.team import DECIDED, call_off, clear, is_off, lay_out, make_board, meet, take

ZERO, ONE = (cast(int, np.int64(number)) for number in range(2))  # plain ones are types, and compile functions, apart

_MANY_ROWS = 16_384  # from here on, workers share the rows of a leaf; below, its features
_PIECE = 4_096  # so many at a time


@dataclass(frozen=True)
class GrowthRules:
    """When a tree stops and what shape it takes."""

    max_leaf_nodes: int = 31
    max_depth: int = 0  # 0: no limit
    min_samples_leaf: int = 20
    min_hessian: float = 1e-3
    min_gain: float = 0.0
    max_impurity: float = 0.0  # stop once sum |S_i|/|S| * mean 1/2 (y - mean)^2 is not above this; 0: never
    l2_regularization: float = 0.0
    growth: str = "leaf"


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree over bins: node 0 is the root, children of a split stand side by side (left, then left + 1)."""

    feature: np.ndarray  # (nodes,) int32; -1 in leaves
    bin: np.ndarray  # (nodes,) uint8: rows with at most this bin go left
    missing_left: np.ndarray  # (nodes,) bool
    left: np.ndarray  # (nodes,) int32
    gain: np.ndarray  # (nodes,) float64
    count: np.ndarray  # (nodes,) int64: rows
    leaf_node: np.ndarray  # (leaves,) int32: the node of each leaf
    leaf_start: np.ndarray  # (leaves + 1,) int64: its stretch of `index`, leaves in order of their stretches


class _Bins(NamedTuple):
    """The binned rows, as kernels read them."""

    rows: np.ndarray
    columns: np.ndarray
    n_bins: np.ndarray
    has_missing: np.ndarray


class _Room(NamedTuple):
    """Working memory; where there are workers, one piece for each."""

    sorted: np.ndarray  # (rows,) uint32: the rows, leaf after leaf
    parted: np.ndarray  # (rows,) uint32
    packed: np.ndarray  # (rows,) int64
    histograms: np.ndarray  # (leaves, slots) int64: leaf k owns number k, and gains[k]
    gains: np.ndarray  # (leaves, features) float64
    shares: np.ndarray  # (workers, slots) int64
    tiles: np.ndarray  # (workers, words of a tile) uint64
    values: np.ndarray  # (workers, TILE) int64
    lefts: np.ndarray  # (workers, bins) int64
    n_left: np.ndarray  # (workers, a cache line) int64: rows that go left, of a worker's part
    board: np.ndarray  # the team's


class _Limits(NamedTuple):
    """`GrowthRules` as numbers."""

    by_level: bool
    max_depth: int
    min_samples: int
    min_gain: float
    max_impurity: float


class _Nodes(NamedTuple):
    """The tree so far, as in `GrownTree`."""

    feature: np.ndarray
    bin: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray
    gain: np.ndarray
    size: np.ndarray


class _Leaves(NamedTuple):
    """The leaves so far: node, stretch of `index`, depth, and the feature that would cut each (-1: none)."""

    node: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    depth: np.ndarray
    best: np.ndarray


class TreeGrower:
    """Grows trees over the same rows, holding the working memory between them."""

    def __init__(self, binned: BinnedRows, rules: GrowthRules, n_threads: int) -> None:
        self.binned, self.rules = binned, rules
        n, words = binned.rows.shape
        slots, n_features = words * WORD * STRIDE, binned.borders.n_features
        # No more leaves than rows can fill: each has a histogram.
        self._most = leaves = max(2, min(rules.max_leaf_nodes, n // rules.min_samples_leaf))
        self._bins = _Bins(binned.rows, binned.columns, binned.borders.n_bins, binned.borders.has_missing)
        self._room = _Room(
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.int64),
            np.empty((leaves, slots), dtype=np.int64),
            np.empty((leaves, n_features)),
            np.empty((n_threads, slots if n_threads > 1 else 0), dtype=np.int64),
            np.empty((n_threads, -(-words * WORD // BLOCK) * TILE * BLOCK // WORD), dtype=np.uint64),
            np.empty((n_threads, TILE), dtype=np.int64),
            np.empty((n_threads, MISSING), dtype=np.int64),
            np.empty((n_threads, 8), dtype=np.int64),
            make_board(),
        )
        self._others, self._tried = n_threads - 1, False
        self._threads = ThreadPoolExecutor(max(1, self._others), "podium-tree")  # starts them when asked to
        self._limits = _Limits(
            rules.growth == "level",
            rules.max_depth,
            rules.min_samples_leaf,
            float(rules.min_gain),
            float(rules.max_impurity),
        )

    @property
    def index(self) -> np.ndarray:
        """The rows of the last tree, leaf after leaf."""
        return self._room.sorted

    def grow(
        self, gradients: np.ndarray, hessians: np.ndarray, sample: np.ndarray | None, allowed: np.ndarray
    ) -> GrownTree:
        """One tree. gradients, hessians: float32, one a row; `sample`: the rows to use, rising; `allowed`: features.

        Afterwards `index[leaf_start[k]:leaf_start[k + 1]]` are the rows of leaf k.
        """
        n = self.binned.n_rows if sample is None else len(sample)
        self.index[:n] = np.arange(n, dtype=np.uint32) if sample is None else sample
        scales, squares = _scales(gradients, hessians, self.index[:n])
        scales[2] = self.rules.l2_regularization * scales[1]
        scales[3] = max(self.rules.min_hessian * scales[1], 1.0)  # a side with rows has at least one unit
        largest = pack_rows(gradients, hessians, scales, self._room.packed)
        nodes, leaves = _make_nodes(2 * self._most - 1, n), _make_leaves(self._most, n)
        count = self._run(allowed, scales, squares, largest, n, nodes, leaves)
        order = np.argsort(leaves.start[:count])
        used = slice(0, 2 * count - 1)
        return GrownTree(
            nodes.feature[used],
            nodes.bin[used],
            nodes.missing_left[used],
            nodes.left[used],
            nodes.gain[used],
            nodes.size[used],
            leaves.node[order].astype(np.int32),
            np.append(leaves.start[order], n),
        )

    def _run(
        self,
        allowed: np.ndarray,
        scales: np.ndarray,
        squares: float,
        largest: np.int64,
        n: int,
        nodes: _Nodes,
        leaves: _Leaves,
    ) -> int:
        """`_grow` on this thread and on the others."""
        board, numbers = self._room.board, range(1, self._others + 1)

        def work(worker: int) -> int:
            return _grow(
                self._bins, self._room, self._limits, allowed, scales, squares, largest, n, nodes, leaves, worker
            )

        if not self._tried:
            # Whatever could go wrong goes wrong here, where nobody waits for it.
            call_off(board)
            work(0)
            self._tried = True
        clear(board)
        helpers: list[Future[int]] = []
        try:
            helpers.extend(self._threads.submit(work, number) for number in numbers)
            return work(0)
        finally:
            call_off(board)
            for helper in helpers:
                helper.result()


def _make_nodes(count: int, n_rows: int) -> _Nodes:
    """Nothing but a root."""
    nodes = _Nodes(
        np.full(count, -1, np.int32),
        np.zeros(count, np.uint8),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int32),
        np.zeros(count),
        np.zeros(count, np.int64),
    )
    nodes.size[0] = n_rows
    return nodes


def _make_leaves(count: int, n_rows: int) -> _Leaves:
    """The root is the only leaf."""
    node, start, stop, depth = np.zeros((4, count), np.int64)
    stop[0] = n_rows
    return _Leaves(node, start, stop, depth, np.full(count, -1, np.int64))


@kernel
def _scales(gradients: np.ndarray, hessians: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float]:
    """(units a gradient, units a hessian, room for two more) so that no sum can leave its 32 bits; sum of squares."""
    total_g, total_h, squares = 0.0, 0.0, 0.0
    for k in range(len(index)):
        gradient = np.float64(gradients[index[k]])
        total_g += abs(gradient)
        total_h += np.float64(hessians[index[k]])
        squares += gradient * gradient
    room = 2.0**31 - 2.0 * len(index) - 2.0  # rounding may add one unit a row
    scales = np.zeros(4)
    scales[0] = room / total_g if total_g > 0 else 1.0
    scales[1] = room / total_h if total_h > 0 else 1.0
    return scales, squares


@kernel
def _grow(
    bins: _Bins,
    room: _Room,
    limits: _Limits,
    allowed: np.ndarray,
    scales: np.ndarray,
    squares: float,
    largest: np.int64,
    n: int,
    nodes: _Nodes,
    leaves: _Leaves,
    worker: int,
) -> int:
    """Fill the tree; returns the number of leaves. `largest`: the largest hessian of a row, in units.

    Every worker of the team runs this. The first decides what to cut, and all share the rows and features of it.
    """
    board, workers, cut, impurity = room.board, len(room.tiles), np.zeros(CUT), 0.0
    decided = board[DECIDED:]
    count, leaf = ONE, ZERO
    meeting = meet(board, workers, ONE)
    if is_off(board):
        return 0
    while True:
        small = count - 1
        meeting = _look_at(bins, room, allowed, scales, leaves, small, leaf, worker, meeting)
        if worker == 0:
            if count == 1:
                impurity = _impurity_of_root(room.histograms[0], bins.n_bins[0], scales, squares, n)
            leaf = _choose(bins, room, limits, scales, largest, impurity, leaves, small, leaf, cut)
            decided[0], decided[1], decided[2] = leaf, int(cut[BIN]), int(cut[MISSING_LEFT])
            lay_out(board)
        meeting = meet(board, workers, meeting)
        leaf = decided[0]
        if leaf < 0:
            return count
        f, start, stop = leaves.best[leaf], leaves.start[leaf], leaves.stop[leaf]
        rows, parted = room.sorted[start:stop], room.parted[start:stop]
        low, high = share_of(stop - start, worker, workers)
        room.n_left[worker, 0] = part_rows(rows[low:high], bins.columns[f], decided[1], decided[2], parted[low:high])
        meeting = meet(board, workers, meeting)
        n_left = put_back(parted, room.n_left, worker, workers, rows)
        if worker == 0:
            _write_split(nodes, leaves, leaf, count, n_left, f, cut)
            impurity -= cut[GAIN] / (2.0 * n)
        meeting = meet(board, workers, meeting)
        count += 1
        if count == len(leaves.node):
            return count


@kernel
def _look_at(
    bins: _Bins,
    room: _Room,
    allowed: np.ndarray,
    scales: np.ndarray,
    leaves: _Leaves,
    small: int,
    large: int,
    worker: int,
    meeting: int,
) -> int:
    """Fill histograms and gains of two new leaves, of which `large` still has its parent's; returns the next meeting.

    The small one is summed up and subtracted from the parent. A root has no sibling: small == large. Workers share the
    features of a leaf; if it has many rows they share those, each with a histogram of its own, which are then added up.
    """
    index, own = room.sorted[leaves.start[small] : leaves.stop[small]], room.histograms[small]
    workers, words = len(room.tiles), bins.rows.shape[1]
    low, high = share_of((words + 1) // 2, worker, workers)  # whole blocks of 16 features
    low, high = 2 * low, min(2 * high, words)
    by_rows = workers > 1 and len(index) >= _MANY_ROWS
    first, last, size, sums = low, high, len(index), own
    if by_rows:
        first, last, size, sums = ZERO, words, _PIECE, room.shares[worker]
    clear_words(sums, first, last, bins.n_bins)
    piece = take(room.board) if by_rows else ZERO
    while piece * size < len(index):
        rows = index[piece * size : (piece + 1) * size]
        add_rows(bins.rows, room.packed, rows, first, last, sums, room.tiles[worker], room.values[worker])
        piece = take(room.board) if by_rows else piece + 1
    if by_rows:
        meeting = meet(room.board, workers, meeting)
        add_shares(room.shares, low, high, bins.n_bins, own)
    scan_words(
        own,
        room.histograms[large],
        small != large,
        low,
        high,
        bins.n_bins,
        bins.has_missing,
        allowed,
        scales,
        room.lefts[worker],
        room.gains[small],
        room.gains[large],
    )
    return meet(room.board, workers, meeting)


@kernel
def _choose(
    bins: _Bins,
    room: _Room,
    limits: _Limits,
    scales: np.ndarray,
    largest: np.int64,
    impurity: float,
    leaves: _Leaves,
    small: int,
    large: int,
    cut: np.ndarray,
) -> int:
    """The leaf to cut, -1 if none; fills `cut`. `small` and `large` are the newest leaves."""
    leaves.best[small], leaves.best[large] = best_feature(room.gains[small]), best_feature(room.gains[large])
    while limits.max_impurity <= 0.0 or impurity > limits.max_impurity:
        leaf = _next_leaf(room.gains, leaves, small + 1, limits)
        if leaf < 0:
            return leaf
        f = leaves.best[leaf]
        rows, column = room.sorted[leaves.start[leaf] : leaves.stop[leaf]], bins.columns[f]
        own = room.histograms[leaf, f * STRIDE : (f + 1) * STRIDE]
        _cut_by(own, bins.n_bins[f], bins.has_missing[f], scales, rows, column, limits.min_samples, largest, cut)
        if cut[GAIN] >= room.gains[leaf, f]:
            return leaf
        room.gains[leaf, f] = cut[GAIN]  # fewer rows than hoped for: the leaf competes again with what remains
        leaves.best[leaf] = best_feature(room.gains[leaf])
    return -ONE


@kernel
def _write_split(
    nodes: _Nodes, leaves: _Leaves, leaf: int, new: int, n_left: int, feature: int, cut: np.ndarray
) -> None:
    """The new leaf takes the smaller child; the old one, which has the parent's histogram, becomes the larger."""
    node, child, start, stop = leaves.node[leaf], 2 * new - 1, leaves.start[leaf], leaves.stop[leaf]
    nodes.feature[node], nodes.bin[node], nodes.missing_left[node] = feature, int(cut[BIN]), cut[MISSING_LEFT] > 0
    nodes.gain[node], nodes.left[node] = cut[GAIN], child
    middle = start + n_left
    nodes.size[child], nodes.size[child + 1] = n_left, stop - middle
    if middle - start <= stop - middle:
        leaves.node[new], leaves.node[leaf] = child, child + 1
        leaves.start[new], leaves.stop[new], leaves.start[leaf] = start, middle, middle
    else:
        leaves.node[new], leaves.node[leaf] = child + 1, child
        leaves.start[new], leaves.stop[new], leaves.stop[leaf] = middle, stop, middle
    leaves.depth[leaf] += 1
    leaves.depth[new] = leaves.depth[leaf]


@kernel
def _impurity_of_root(histogram: np.ndarray, n_bins: int, scales: np.ndarray, squares: float, n: int) -> float:
    """mean 1/2 (g - mean)^2 over the rows, for unit hessians."""
    total = histogram[MISSING]
    for b in range(n_bins):
        total += histogram[b]
    gradient = gradient_of(total) / scales[0]
    impurity: float = (squares - gradient * gradient / n) / (2.0 * n)
    return impurity


@kernel
def _next_leaf(gains: np.ndarray, leaves: _Leaves, count: int, limits: _Limits) -> int:
    """The leaf to cut next: of the largest gain, or, level by level, of the least depth; -1 if none may be."""
    chosen, best, depth = -1, limits.min_gain, leaves.depth
    for leaf in range(count):
        if leaves.best[leaf] < 0 or (limits.max_depth > 0 and depth[leaf] >= limits.max_depth):
            continue
        own = gains[leaf, leaves.best[leaf]]
        if own <= limits.min_gain:
            continue
        higher = chosen >= 0 and limits.by_level and depth[leaf] < depth[chosen]
        deeper = chosen >= 0 and limits.by_level and depth[leaf] > depth[chosen]
        if higher or (own > best and not deeper):
            chosen, best = leaf, own
    return chosen


@kernel
def _cut_by(
    histogram: np.ndarray,
    n_bins: int,
    has_missing: bool,
    scales: np.ndarray,
    rows: np.ndarray,
    column: np.ndarray,
    min_samples: int,
    largest: np.int64,
    cut: np.ndarray,
) -> None:
    """Find the cut of a feature that leaves `min_samples` rows on both sides. column: the feature's bins."""
    counts = np.zeros(MISSING + 1, np.int64)
    for counted in range(2):  # first without counts
        find_cut(histogram, n_bins, has_missing, scales, counts if counted else counts[:0], min_samples, cut)
        # No row has more than the largest hessian, so a heavy side has many rows: no need to count.
        heavy = min(cut[LEFT_HESSIAN], cut[RIGHT_HESSIAN]) >= np.float64(min_samples) * largest
        if counted or min_samples <= 1 or heavy:
            return
        for k in range(len(rows)):
            counts[column[rows[k]]] += 1
