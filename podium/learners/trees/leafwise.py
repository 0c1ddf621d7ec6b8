"""Leaf-wise growth cuts the leaf that gains most; level-wise growth cuts every leaf of a level before the next.

Gains come from histograms that know no row counts. A gain found there is at least the true one, so the smallest leaf
size is checked only when a leaf is about to be cut: if the cut would leave too few rows on a side, its features are
counted exactly, in the order of their gains, until one keeps what it promised, and the leaf competes again with that.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, Views
from podium.learners.trees.features import fill_sides
from podium.learners.trees.histograms import STRIDE, gradient_of
from podium.learners.trees.splitting import BIN, CUT, GAIN, MISSING_LEFT, best_feature, build_heap, find_cut, sift_down
from podium.learners.trees.team import DECIDED, is_off, meet
from podium.learners.trees.workbench import (
    ONE,
    ZERO,
    Bins,
    Leaves,
    Limits,
    Nodes,
    Room,
    cut_leaf,
    lend_histogram,
    look_at,
    sum_rows,
)

_FIRST = cast(int, np.int64(-2))  # from here on down: leaves whose histogram is needed first


@kernel
def grow_leaves(
    views: Views | None,
    bins: Bins,
    room: Room,
    limits: Limits,
    allowed: np.ndarray,
    scales: np.ndarray,
    squares: float,
    largest: np.int64,
    n: int,
    nodes: Nodes,
    leaves: Leaves,
    worker: int,
) -> int:
    """Fill the tree; returns the number of leaves. `largest`: the largest hessian of a row, in units.

    Every worker of the team runs this. The first decides what to cut, and all share the rows and features of it.
    """
    board, workers, cut, impurity = room.board, len(room.tiles), np.zeros(CUT), 0.0
    count, leaf = ONE, ZERO
    meeting = meet(board, workers, ONE)
    if is_off(board):
        return 0
    while True:
        small = count - 1
        meeting = look_at(views, bins, room, allowed, scales, leaves, small, leaf, worker, meeting)
        if count == 1 and worker == 0:
            impurity = _impurity_of_root(room.histograms[0], bins.n_slots[0], scales, squares, n)
        while True:
            if worker == 0:
                board[DECIDED] = _choose(
                    views, bins, room, limits, scales, largest, impurity, nodes, leaves, small, leaf, cut
                )
            meeting = meet(board, workers, meeting)
            chosen = board[DECIDED]
            if chosen >= -ONE:
                break
            meeting = sum_rows(bins, room, leaves, _FIRST - chosen, worker, meeting)
            meeting = meet(board, workers, meeting)
        leaf = chosen
        if leaf < 0:
            return count
        meeting = cut_leaf(views, bins, room, nodes, leaves, leaf, count, cut, worker, meeting)
        impurity -= cut[GAIN] / (2.0 * n)
        count += 1
        if count == len(leaves.node):
            return count


@kernel
def _choose(
    views: Views | None,
    bins: Bins,
    room: Room,
    limits: Limits,
    scales: np.ndarray,
    largest: np.int64,
    impurity: float,
    nodes: Nodes,
    leaves: Leaves,
    small: int,
    large: int,
    cut: np.ndarray,
) -> int:
    """The leaf to cut, -1 if none; writes how it is cut. `small` and `large` are the newest leaves.

    Below -1: the histogram of leaf -2 - this is needed first.
    """
    leaves.best[small], leaves.best[large] = best_feature(room.gains[small]), best_feature(room.gains[large])
    while limits.max_impurity <= 0.0 or impurity > limits.max_impurity:
        leaf = _next_leaf(room.gains, leaves, small + 1, limits)
        if leaf < 0:
            return leaf
        if leaves.histogram[leaf] < 0:
            lend_histogram(room, leaves, small + 1, leaf, leaf)
            return _FIRST - leaf
        f, node = leaves.best[leaf], leaves.node[leaf]
        used = _count_cut(views, bins, room, limits, scales, largest, leaves, leaf, f, cut)
        if cut[GAIN] >= room.gains[leaf, f]:
            nodes.feature[node], nodes.column[node] = f, f if views is None else views.column[f]
            n_bins, at, to_left = bins.n_bins[f], int(cut[BIN]), cut[MISSING_LEFT] > 0
            fill_sides(f, n_bins, at, to_left, views, room.order[0], used, nodes.sides[node])
            lend_histogram(room, leaves, small + 1, small + 1, leaf)
            return leaf
        room.gains[leaf, f] = cut[GAIN]
        leaves.best[leaf] = _count_features(views, bins, room, limits, scales, largest, leaves, leaf, cut)
    return -ONE


@kernel
def _count_cut(
    views: Views | None,
    bins: Bins,
    room: Room,
    limits: Limits,
    scales: np.ndarray,
    largest: np.int64,
    leaves: Leaves,
    leaf: int,
    f: int,
    cut: np.ndarray,
) -> int:
    """`find_cut` of a feature in a leaf."""
    column = f if views is None else views.column[f]
    return find_cut(
        views,
        room.histograms[leaves.histogram[leaf], column * STRIDE : (column + 1) * STRIDE],
        bins.n_slots[column],
        f,
        bins.n_bins[f],
        bins.has_missing[f],
        scales,
        room.sorted[leaves.start[leaf] : leaves.stop[leaf]],
        bins.columns[column],
        limits.min_samples,
        largest,
        leaves.low[leaf],
        leaves.high[leaf],
        room.scratch[0],
        room.order[0],
        cut,
    )


@kernel
def _count_features(
    views: Views | None,
    bins: Bins,
    room: Room,
    limits: Limits,
    scales: np.ndarray,
    largest: np.int64,
    leaves: Leaves,
    leaf: int,
    cut: np.ndarray,
) -> int:
    """The feature of a leaf that gains most with enough rows on both sides, -1 if none does.

    Gains without counts are upper bounds: features are counted from the largest on, until one reaches its bound. A heap
    makes that linear in the features; asking for the best of all after each of them would be quadratic.
    """
    gains, heap = room.gains[leaf], room.heap
    size = build_heap(gains, heap)
    while size > 0:
        f = heap[0]
        _count_cut(views, bins, room, limits, scales, largest, leaves, leaf, f, cut)
        if cut[GAIN] >= gains[f]:
            return int(f)
        gains[f] = cut[GAIN]
        if gains[f] <= 0.0:
            size -= 1
            heap[0] = heap[size]
        sift_down(gains, heap, size, ZERO)
    return -1


@kernel
def _next_leaf(gains: np.ndarray, leaves: Leaves, count: int, limits: Limits) -> int:
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
def _impurity_of_root(histogram: np.ndarray, n_bins: int, scales: np.ndarray, squares: float, n: int) -> float:
    """mean 1/2 (g - mean)^2 over the rows, for unit hessians."""
    total = histogram[MISSING]
    for b in range(n_bins):
        total += histogram[b]
    gradient = gradient_of(total) / scales[0]
    impurity: float = (squares - gradient * gradient / n) / (2.0 * n)
    return impurity
