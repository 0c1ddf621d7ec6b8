"""Leaf-wise growth splits the leaf with the largest gain; level-wise growth finishes a level before the next.

Histograms hold no row counts, so a gain found there is an upper bound. `min_samples_leaf` is checked only when a leaf
is about to be split: if the split would leave too few rows on a side, rows are counted for one feature after another,
in the order of their gains, until one reaches its bound, and the leaf competes again with that gain.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.training.binning import MISSING, FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, gradient_of
from podium.learners.trees.training.layout import fill_sides, read_bins, reorder, sum_slots, unbundle
from podium.learners.trees.training.splitting import (
    ALL_BINS,
    BIN,
    GAIN,
    LEFT_HESSIAN,
    MISSING_LEFT,
    RIGHT_HESSIAN,
    SPLIT,
    best_feature,
    build_heap,
    draw_bin,
    scan_bins,
    sift_down,
)
from podium.learners.trees.training.workers import DECISION, barrier, is_cancelled
from podium.learners.trees.training.workspace import (
    ONE,
    ZERO,
    Bins,
    Leaves,
    Limits,
    Nodes,
    Workspace,
    acquire_histogram,
    build_histogram,
    evaluate_children,
    split_leaf,
)

_FIRST = cast(int, np.int64(-2))  # this and below: the histogram of a leaf must be built first


@kernel
def grow_leaves(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    limits: Limits,
    allowed: Array,
    scales: Array,
    spread: tuple[float, float],
    largest: np.int64,
    nodes: Nodes,
    leaves: Leaves,
    worker: int,
) -> int:
    """Fill the tree; returns the number of leaves. `spread`: the sum of squared residuals, and the
    weight of all rows; `largest`: the largest hessian of a row, in units; `stream`: of the draws of extremely
    randomised trees.

    All workers run this. The first decides which leaf to split, and all share its rows and features.
    """
    shared, workers, split, impurity = workspace.shared, len(workspace.tiles), np.zeros(SPLIT), 0.0
    count, leaf = ONE, ZERO
    phase = barrier(shared, workers, ONE)
    if is_cancelled(shared):
        return 0
    while True:
        small = count - 1
        phase = evaluate_children(layout, stream, bins, workspace, allowed, scales, leaves, small, leaf, worker, phase)
        if count == 1 and worker == 0:
            impurity = _impurity_of_root(workspace.histograms[0], bins.n_slots[0], scales, spread)
        while True:
            if worker == 0:
                shared[DECISION] = _choose(
                    layout, stream, bins, workspace, limits, scales, largest, impurity, nodes, leaves,
                    small, leaf, split,
                )  # fmt: skip
            phase = barrier(shared, workers, phase)
            chosen = shared[DECISION]
            if chosen >= -ONE:
                break
            phase = build_histogram(bins, workspace, leaves, _FIRST - chosen, worker, phase)
            phase = barrier(shared, workers, phase)
        leaf = chosen
        if leaf < 0:
            return count
        phase = split_leaf(layout, bins, workspace, nodes, leaves, leaf, count, split, worker, phase)
        impurity -= split[GAIN] / (2.0 * spread[1])
        count += 1
        if count == len(leaves.node):
            return count


@kernel
def _choose(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    limits: Limits,
    scales: Array,
    largest: np.int64,
    impurity: float,
    nodes: Nodes,
    leaves: Leaves,
    small: int,
    large: int,
    split: Array,
) -> int:
    """The leaf to split, -1 if none; writes how it is split. `small` and `large` are the newest leaves.

    Below -1: the histogram of leaf -2 - this is needed first.
    """
    leaves.best[small], leaves.best[large] = best_feature(workspace.gains[small]), best_feature(workspace.gains[large])
    while limits.max_impurity <= 0.0 or impurity > limits.max_impurity:
        leaf = _next_leaf(workspace.gains, leaves, small + 1, limits)
        if leaf < 0:
            return leaf
        if leaves.histogram[leaf] < 0:
            acquire_histogram(workspace, leaves, small + 1, leaf, leaf)
            return _FIRST - leaf
        f, node = leaves.best[leaf], leaves.node[leaf]
        used = _find_split(layout, stream, bins, workspace, limits, scales, largest, leaves, leaf, f, split)
        if split[GAIN] >= workspace.gains[leaf, f]:
            nodes.feature[node], nodes.column[node] = f, f if layout is None else layout.column[f]
            n_bins, at, to_left = bins.n_bins[f], int(split[BIN]), split[MISSING_LEFT] > 0
            fill_sides(f, n_bins, at, to_left, layout, workspace.order[0], used, nodes.sides[node])
            acquire_histogram(workspace, leaves, small + 1, small + 1, leaf)
            return leaf
        workspace.gains[leaf, f] = split[GAIN]
        leaves.best[leaf] = _count_features(
            layout, stream, bins, workspace, limits, scales, largest, leaves, leaf, split
        )
    return -ONE


@kernel
def _find_split(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    limits: Limits,
    scales: Array,
    largest: np.int64,
    leaves: Leaves,
    leaf: int,
    f: int,
    split: Array,
) -> int:
    """The split of a feature that leaves enough rows of a leaf on both sides; returns how many bins were ordered.

    The order of categories is left in the first row of `workspace.order`.
    """
    column, n_bins, has_missing, node = f, bins.n_bins[f], bins.has_missing[f], leaves.node[leaf]
    if layout is not None:
        column = layout.column[f]
    slots = workspace.histograms[leaves.histogram[leaf], column * STRIDE : (column + 1) * STRIDE]
    rows, min_samples = workspace.sorted[leaves.start[leaf] : leaves.stop[leaf]], limits.min_samples
    scratch, order, low, high = workspace.scratch[0], workspace.order[0], leaves.low[leaf], leaves.high[leaf]
    counts = np.zeros(MISSING + 1, np.int64)
    leaf_bins, counted_bins, used, sign = slots, counts, n_bins + ZERO, 0.0
    if layout is not None:
        sign, total = layout.signs[f], sum_slots(slots, bins.n_slots[column])
        slot_range = layout.offset[f], layout.default_bin[f], layout.categorical[f], layout.smoothing[0]
        used = read_bins(slots, total, slot_range, n_bins, scales, scratch, order)
        leaf_bins = scratch[STRIDE : 2 * STRIDE]
    only = ALL_BINS
    if stream is not None:
        only = draw_bin(leaf_bins, used, has_missing, stream, node, f)
    for counted in range(2):  # first without counts
        known = counted_bins if counted else counts[:0]
        scan_bins(only, leaf_bins, used, has_missing, scales, known, min_samples, sign, low, high, split)
        # No row has more than the largest hessian, so a heavy side has many rows: no need to count.
        heavy = min(split[LEFT_HESSIAN], split[RIGHT_HESSIAN]) >= np.float64(min_samples) * largest
        if counted or min_samples <= 1 or heavy:
            break
        slot_of_row = bins.columns[column]
        for k in range(len(rows)):
            counts[slot_of_row[rows[k]]] += 1
        if layout is not None:
            counted_bins = np.zeros(MISSING + 1, np.int64)
            unbundle(counts, np.int64(len(rows)), layout.offset[f], layout.default_bin[f], n_bins, counted_bins)
            if layout.categorical[f]:
                reorder(counted_bins.copy(), order, used, counted_bins)
    return int(used)


@kernel
def _count_features(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    limits: Limits,
    scales: Array,
    largest: np.int64,
    leaves: Leaves,
    leaf: int,
    split: Array,
) -> int:
    """The feature of a leaf that gains most with enough rows on both sides, -1 if none does.

    Gains without counts are upper bounds: features are counted from the largest on, until one reaches its bound. A heap
    makes that linear in the features; a search for the best after each of them would be quadratic.
    """
    gains, heap = workspace.gains[leaf], workspace.heap
    size = build_heap(gains, heap)
    while size > 0:
        f = heap[0]
        _find_split(layout, stream, bins, workspace, limits, scales, largest, leaves, leaf, f, split)
        if split[GAIN] >= gains[f]:
            return int(f)
        gains[f] = split[GAIN]
        if gains[f] <= 0.0:
            size -= 1
            heap[0] = heap[size]
        sift_down(gains, heap, size, ZERO)
    return -1


@kernel
def _next_leaf(gains: Array, leaves: Leaves, count: int, limits: Limits) -> int:
    """The leaf to split next: of the largest gain, or, level by level, of the least depth; -1 if none may be."""
    chosen, best, depth = -1, limits.min_gain, leaves.depth
    for leaf in range(count):
        if leaves.best[leaf] < 0 or (limits.max_depth > 0 and depth[leaf] >= limits.max_depth):
            continue
        gain = gains[leaf, leaves.best[leaf]]
        if gain <= limits.min_gain:
            continue
        higher = chosen >= 0 and limits.by_level and depth[leaf] < depth[chosen]
        deeper = chosen >= 0 and limits.by_level and depth[leaf] > depth[chosen]
        if higher or (gain > best and not deeper):
            chosen, best = leaf, gain
    return chosen


@kernel
def _impurity_of_root(histogram: Array, n_bins: int, scales: Array, spread: tuple[float, float]) -> float:
    """mean 1/2 (residual - mean)^2 over the rows; where splits are by hessians, as if these were 1."""
    total = histogram[MISSING]
    for b in range(n_bins):
        total += histogram[b]
    gradient = gradient_of(total) / scales[0]
    squares, weight = spread
    impurity: float = (squares - gradient * gradient / weight) / (2.0 * weight)
    return impurity
