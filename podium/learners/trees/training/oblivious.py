"""Oblivious trees: all leaves of a level have the same split, so a tree is a table indexed by one bit per level.

The split of a level is the one with the largest gain summed over its leaves. A leaf in which it would leave too small a
hessian on a side, or values in the wrong order, contributes no gain and is split all the same; leaves may be empty. The
number of rows of a leaf plays no part. Categories are ordered by all leaves together. An empty leaf has no histogram.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.training.binning import MISSING, FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, gradient_of, hessian_of
from podium.learners.trees.training.layout import fill_sides, read_bins, reorder, sum_slots, unbundle
from podium.learners.trees.training.splitting import (
    ALL_BINS,
    BIN,
    GAIN,
    MIDDLE,
    MISSING_LEFT,
    SPLIT,
    best_feature,
    bounded_sides_gain,
    draw_bin,
    leaf_gain,
    split_gain,
    value_of,
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
    column_of,
    split_leaf,
    subtract_child,
)


@kernel
def grow_oblivious(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    limits: Limits,
    allowed: Array,
    scales: Array,
    nodes: Nodes,
    leaves: Leaves,
    worker: int,
) -> int:
    """Fill the tree, level by level; returns the number of leaves. All workers run this."""
    shared, workers, split, sums = workspace.shared, len(workspace.tiles), np.zeros(SPLIT), np.zeros((2, STRIDE))
    count, histograms, phase = ONE, ONE, barrier(shared, workers, ONE)
    if is_cancelled(shared):
        return 0
    phase = subtract_child(bins, workspace, leaves, ZERO, ZERO, worker, phase)
    while 2 * count <= len(leaves.node):
        for f in range(worker, len(allowed), workers):
            workspace.gains[0, f] = 0.0
            if allowed[f] and bins.n_bins[f] + bins.has_missing[f] > 1:
                find_level_split(layout, stream, bins, workspace, leaves, count, f, scales, worker, sums, split)
                workspace.gains[0, f] = split[GAIN]
        phase = barrier(shared, workers, phase)
        if worker == 0:
            f = best_feature(workspace.gains[0])
            shared[DECISION] = f if f >= 0 and workspace.gains[0, f] > limits.min_gain else -ONE
            if shared[DECISION] >= 0:
                used = find_level_split(layout, stream, bins, workspace, leaves, count, f, scales, worker, sums, split)
                sides = nodes.sides[leaves.node[0]]
                fill_level(layout, bins, workspace, leaves, count, f, used, sides, split)
                write_level(layout, nodes, leaves, count, f, sides)
        phase = barrier(shared, workers, phase)
        f = shared[DECISION]
        if f < 0:
            return count
        for leaf in range(count):
            if worker == 0:
                sides = nodes.sides[leaves.node[leaf]]
                evaluate_leaf(layout, bins, workspace, leaves, leaf, f, sides, scales, split)
            phase = split_leaf(layout, bins, workspace, nodes, leaves, leaf, count + leaf, split, worker, phase)
            new = count + leaf
            if leaves.start[new] < leaves.stop[new]:  # the smaller child: its sibling has rows too
                if worker == 0:
                    leaves.histogram[new] = histograms
                histograms += 1
        count *= 2
        if 2 * count <= len(leaves.node):
            phase = barrier(shared, workers, phase)  # the numbers of the histograms
            for leaf in range(count // 2):
                new = count // 2 + leaf
                if leaves.start[new] < leaves.stop[new]:
                    phase = subtract_child(bins, workspace, leaves, new, leaf, worker, phase)
    return count


@kernel
def _read_leaf(
    layout: FeatureLayout | None,
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    leaf: int,
    f: int,
    used: int,
    worker: int,
) -> Array:
    """The feature's bins in this leaf, which has rows, in the order in which they are split."""
    leaf_bins: Array = workspace.scratch[worker, STRIDE : 2 * STRIDE]
    if layout is None:
        leaf_bins = column_of(workspace, leaves, leaf, f)
        return leaf_bins
    column, order = layout.column[f], workspace.order[worker]
    slots = column_of(workspace, leaves, leaf, column)
    total = sum_slots(slots, bins.n_slots[column])
    unbundle(slots, total, layout.offset[f], layout.default_bin[f], bins.n_bins[f], leaf_bins)
    if layout.categorical[f]:
        reorder(leaf_bins.copy(), order, used, leaf_bins)
    return leaf_bins


@kernel
def _sum_leaves(workspace: Workspace, leaves: Leaves, count: int, column: int) -> Array:
    """What the histograms of leaves 0..count hold of a column, together."""
    slots = np.zeros_like(workspace.histograms[0, :STRIDE])
    for leaf in range(count):
        if leaves.histogram[leaf] >= 0:
            slots += column_of(workspace, leaves, leaf, column)
    return slots


@kernel
def find_level_split(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    count: int,
    f: int,
    scales: Array,
    worker: int,
    sums: Array,
    split: Array,
) -> int:
    """The split of a feature that gains most in leaves 0..count together; returns how many bins were ordered."""
    used, has_missing, sign, scratch = bins.n_bins[f] + ZERO, bins.has_missing[f], 0.0, workspace.scratch[worker]
    l2, least, all_whole, sides = scales[2], scales[3], 0.0, 2 if has_missing else 1
    if layout is not None:
        column, sign = layout.column[f], layout.signs[f]
        slots = _sum_leaves(workspace, leaves, count, column)
        total = sum_slots(slots, bins.n_slots[column])
        slot_range = layout.offset[f], layout.default_bin[f], layout.categorical[f], layout.smoothing[0]
        used = read_bins(slots, total, slot_range, bins.n_bins[f], scales, scratch, workspace.order[worker])
    only = ALL_BINS
    if stream is not None:  # one draw for the level: of bins that have rows on both sides in all leaves together
        if layout is None:
            only = draw_bin(_sum_leaves(workspace, leaves, count, f), used, has_missing, stream, count, f)
        else:
            only = draw_bin(scratch[STRIDE : 2 * STRIDE], used, has_missing, stream, count, f)
    sums[:, :used] = 0.0
    for leaf in range(count):
        if leaves.histogram[leaf] < 0:
            continue
        leaf_bins = _read_leaf(layout, bins, workspace, leaves, leaf, f, used, worker)
        low, high = leaves.low[leaf], leaves.high[leaf]
        missing = leaf_bins[MISSING] if has_missing else np.int64(0)
        total = missing + leaf_bins[:used].sum()
        gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
        whole = leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
        all_whole += whole
        for side in range(sides):  # missing values right, then left
            left = missing if side else np.int64(0)
            for b in range(used):
                left += leaf_bins[b]
                if only != ALL_BINS and b != only:
                    continue
                both = bounded_sides_gain(left, gradient, hessian, l2, least, sign, low, high)
                sums[side, b] += both - whole if both > -np.inf else 0.0
    best = 0.0
    for side in range(sides):
        for b in range(used):
            if sums[side, b] > best:
                best = sums[side, b]
                split[BIN], split[MISSING_LEFT] = b, side
    split[GAIN] = split_gain(best + all_whole, all_whole, scales)
    return int(used)


@kernel
def fill_level(
    layout: FeatureLayout | None,
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    count: int,
    f: int,
    used: int,
    sides: Array,
    split: Array,
) -> None:
    """The side of every slot. Without missing values to learn from, they go to the heavier side."""
    if not bins.has_missing[f]:
        left_h, all_h = 0.0, 0.0
        for leaf in range(count):
            if leaves.histogram[leaf] < 0:
                continue
            leaf_bins = _read_leaf(layout, bins, workspace, leaves, leaf, f, used, ZERO)
            for b in range(used):
                all_h += np.float64(hessian_of(leaf_bins[b]))
                left_h += np.float64(hessian_of(leaf_bins[b])) if b <= split[BIN] else 0.0
        split[MISSING_LEFT] = 1.0 if 2.0 * left_h >= all_h else 0.0
    at, to_left, order = int(split[BIN]), split[MISSING_LEFT] > 0, workspace.order[0]
    fill_sides(f, bins.n_bins[f], at, to_left, layout, order, used, sides)


@kernel
def write_level(layout: FeatureLayout | None, nodes: Nodes, leaves: Leaves, count: int, f: int, sides: Array) -> None:
    """Every leaf's node gets the split."""
    column = f if layout is None else layout.column[f]
    for leaf in range(count):
        node = leaves.node[leaf]
        nodes.feature[node], nodes.column[node], nodes.sides[node] = f, column, sides


@kernel
def evaluate_leaf(
    layout: FeatureLayout | None,
    bins: Bins,
    workspace: Workspace,
    leaves: Leaves,
    leaf: int,
    f: int,
    sides: Array,
    scales: Array,
    split: Array,
) -> None:
    """What the level's split gains in one leaf, and the middle of the values of its sides."""
    low, high, l2 = leaves.low[leaf], leaves.high[leaf], scales[2]
    if leaves.histogram[leaf] < 0:
        split[GAIN], split[MIDDLE] = 0.0, min(max(0.0, low), high)
        return
    column, sign = f, 0.0
    if layout is not None:
        column, sign = layout.column[f], layout.signs[f]
    slots = column_of(workspace, leaves, leaf, column)
    total = slots[MISSING]
    left = total if sides[MISSING] == 0 else np.int64(0)
    for slot in range(bins.n_slots[column]):
        total += slots[slot]
        left += slots[slot] if sides[slot] == 0 else np.int64(0)
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    left_g, left_h = np.float64(gradient_of(left)), np.float64(hessian_of(left))
    left_value = value_of(left_g, left_h, l2, low, high)
    split[MIDDLE] = 0.5 * (left_value + value_of(gradient - left_g, hessian - left_h, l2, low, high))
    whole = leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
    both = bounded_sides_gain(left, gradient, hessian, l2, scales[3], sign, low, high)
    split[GAIN] = split_gain(both, whole, scales)
