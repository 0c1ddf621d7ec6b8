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
    column_of,
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
    set_best(workspace.gains, leaves, small, best_feature(workspace.gains[small]))
    set_best(workspace.gains, leaves, large, best_feature(workspace.gains[large]))
    while limits.max_impurity <= 0.0 or impurity > limits.max_impurity:
        leaf = next_leaf(leaves.gain, leaves.depth, small + 1, limits)
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
        f = _count_features(layout, stream, bins, workspace, limits, scales, largest, leaves, leaf, split)
        set_best(workspace.gains, leaves, leaf, f)
    return -ONE


@kernel
def set_best(gains: Array, leaves: Leaves, leaf: int, f: int) -> None:
    """The best split of a leaf is on feature f; -1: there is none."""
    leaves.best[leaf], leaves.gain[leaf] = f, gains[leaf, f] if f >= 0 else 0.0


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
    column = f if layout is None else layout.column[f]
    slots = column_of(workspace, leaves, leaf, column)
    scratch, order, nothing = workspace.scratch[0], workspace.order[0], np.empty(0, np.int64)
    about, min_samples = (leaves.node[leaf], leaves.low[leaf], leaves.high[leaf]), limits.min_samples
    used = split_feature(layout, stream, bins, f, slots, about, nothing, min_samples, scales, scratch, order, split)
    # No row has more than the largest hessian, so a heavy side has many rows: no need to count.
    heavy = min(split[LEFT_HESSIAN], split[RIGHT_HESSIAN]) >= np.float64(min_samples) * largest
    if min_samples <= 1 or heavy:
        return used
    counts = np.zeros(MISSING + 1, np.int64)
    count_slots(bins.columns[column], workspace.sorted[leaves.start[leaf] : leaves.stop[leaf]], counts)
    return split_feature(layout, stream, bins, f, slots, about, counts, min_samples, scales, scratch, order, split)


@kernel
def count_slots(slot_of_row: Array, rows: Array, counts: Array) -> None:
    """Add to counts how many of the rows have each slot of a column."""
    for k in range(len(rows)):
        counts[slot_of_row[rows[k]]] += 1


@kernel
def split_feature(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    f: int,
    slots: Array,
    leaf: tuple[int, float, float],
    counts: Array,
    min_samples: int,
    scales: Array,
    scratch: Array,
    order: Array,
    split: Array,
) -> int:
    """Where the best split of one feature of a leaf lies; returns how many bins were ordered, of categories in `order`.

    slots: of the feature's column; leaf: its node and the bounds of its value; counts: how many rows of the leaf have
    each slot, and both sides must keep `min_samples` of them, or empty.
    """
    (node, low, high), n_bins, has_missing = leaf, bins.n_bins[f], bins.has_missing[f]
    leaf_bins, counted, used, sign, only = slots, counts, n_bins + ZERO, 0.0, ALL_BINS
    if layout is not None:
        column, sign = layout.column[f], layout.signs[f]
        slot_range = layout.offset[f], layout.default_bin[f], layout.categorical[f], layout.smoothing[0]
        used = read_bins(slots, sum_slots(slots, bins.n_slots[column]), slot_range, n_bins, scales, scratch, order)
        leaf_bins = scratch[STRIDE : 2 * STRIDE]
        if len(counts):
            counted = np.zeros(MISSING + 1, np.int64)
            unbundle(counts, counts.sum(), layout.offset[f], layout.default_bin[f], n_bins, counted)
            if layout.categorical[f]:
                reorder(counted.copy(), order, used, counted)
    if stream is not None:
        only = draw_bin(leaf_bins, used, has_missing, stream, node, f)
    scan_bins(only, leaf_bins, used, has_missing, scales, counted, min_samples, sign, low, high, split)
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
def next_leaf(gains: Array, depth: Array, count: int, limits: Limits) -> int:
    """The leaf to split next, of so many: of the largest gain, or, level by level, of the least depth; -1: none may be.

    gains: of the best split of each leaf, 0 where there is none.
    """
    chosen, best = -1, limits.min_gain
    for leaf in range(count):
        if limits.max_depth > 0 and depth[leaf] >= limits.max_depth:
            continue
        gain = gains[leaf]
        if gain <= limits.min_gain:
            continue
        higher = chosen >= 0 and limits.by_level and depth[leaf] < depth[chosen]
        deeper = chosen >= 0 and limits.by_level and depth[leaf] > depth[chosen]
        if higher or (gain > best and not deeper):
            chosen, best = leaf, gain
    return chosen


@kernel
def _impurity_of_root(histogram: Array, n_bins: int, scales: Array, spread: tuple[float, float]) -> float:
    """`impurity_of` all rows that a histogram counts."""
    total = histogram[MISSING]
    for b in range(n_bins):
        total += histogram[b]
    return impurity_of(gradient_of(total) / scales[0], spread)


@kernel
def impurity_of(gradient: float, spread: tuple[float, float]) -> float:
    """mean 1/2 (residual - mean)^2 over the rows; where splits are by hessians, as if these were 1."""
    squares, weight = spread
    impurity: float = (squares - gradient * gradient / weight) / (2.0 * weight)
    return impurity
