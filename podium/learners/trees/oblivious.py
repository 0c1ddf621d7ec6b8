"""Oblivious trees: all leaves of a level are cut by the same question, so a tree is a table with one bit a level.

The cut of a level is the one that gains most in all its leaves together. A leaf in which it would leave a side too
light, or values the wrong way round, gains nothing by it, and is cut all the same; leaves may be empty. How many rows a
leaf has plays no part. Categories are put in the order of all leaves together. A leaf without rows has no histogram.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, Views
from podium.learners.trees.features import arrange, fill_sides, read_bins, spread, sum_slots
from podium.learners.trees.histograms import STRIDE, gradient_of, hessian_of
from podium.learners.trees.splitting import (
    BIN,
    CUT,
    GAIN,
    MIDDLE,
    MISSING_LEFT,
    best_feature,
    bounded_worth,
    in_gain,
    value_of,
    worth_at,
)
from podium.learners.trees.team import DECIDED, is_off, meet
from podium.learners.trees.workbench import ONE, ZERO, Bins, Leaves, Limits, Nodes, Room, cut_leaf, subtract_child


@kernel
def grow_oblivious(
    views: Views | None,
    bins: Bins,
    room: Room,
    limits: Limits,
    allowed: np.ndarray,
    scales: np.ndarray,
    nodes: Nodes,
    leaves: Leaves,
    worker: int,
) -> int:
    """Fill the tree, level by level; returns the number of leaves. Every worker of the team runs this."""
    board, workers, cut, sums = room.board, len(room.tiles), np.zeros(CUT), np.zeros((2, STRIDE))
    count, histograms, meeting = ONE, ONE, meet(board, workers, ONE)
    if is_off(board):
        return 0
    meeting = subtract_child(bins, room, leaves, ZERO, ZERO, worker, meeting)
    while 2 * count <= len(leaves.node):
        for f in range(worker, len(allowed), workers):
            room.gains[0, f] = 0.0
            if allowed[f] and bins.n_bins[f] + bins.has_missing[f] > 1:
                _cut_level(views, bins, room, leaves, count, f, scales, worker, sums, cut)
                room.gains[0, f] = cut[GAIN]
        meeting = meet(board, workers, meeting)
        if worker == 0:
            f = best_feature(room.gains[0])
            board[DECIDED] = f if f >= 0 and room.gains[0, f] > limits.min_gain else -ONE
            if board[DECIDED] >= 0:
                used = _cut_level(views, bins, room, leaves, count, f, scales, worker, sums, cut)
                _write_level(views, bins, room, nodes, leaves, count, f, used, cut)
        meeting = meet(board, workers, meeting)
        f = board[DECIDED]
        if f < 0:
            return count
        for leaf in range(count):
            if worker == 0:
                sign = 0.0 if views is None else views.signs[f]
                _price_leaf(bins, room, nodes, leaves, leaf, scales, sign, cut)
            meeting = cut_leaf(views, bins, room, nodes, leaves, leaf, count + leaf, cut, worker, meeting)
            new = count + leaf
            if leaves.start[new] < leaves.stop[new]:  # the smaller child: its sibling has rows too
                if worker == 0:
                    leaves.histogram[new] = histograms
                histograms += 1
        count *= 2
        if 2 * count <= len(leaves.node):
            meeting = meet(board, workers, meeting)  # the numbers of the histograms
            for leaf in range(count // 2):
                new = count // 2 + leaf
                if leaves.start[new] < leaves.stop[new]:
                    meeting = subtract_child(bins, room, leaves, new, leaf, worker, meeting)
    return count


@kernel
def _read_leaf(
    views: Views | None, bins: Bins, room: Room, leaves: Leaves, leaf: int, f: int, used: int, worker: int
) -> np.ndarray:
    """The feature's bins in this leaf, which has rows, in the order in which they are split."""
    histogram, order = room.histograms[leaves.histogram[leaf]], room.order[worker]
    own: np.ndarray = room.scratch[worker, STRIDE : 2 * STRIDE]
    if views is None:
        own = histogram[f * STRIDE : (f + 1) * STRIDE]
        return own
    column = views.column[f]
    slots = histogram[column * STRIDE : (column + 1) * STRIDE]
    total = sum_slots(slots, bins.n_slots[column])
    spread(slots, total, views.offset[f], views.usual[f], bins.n_bins[f], own)
    if views.categorical[f]:
        arrange(own.copy(), order, used, own)
    return own


@kernel
def _cut_level(
    views: Views | None,
    bins: Bins,
    room: Room,
    leaves: Leaves,
    count: int,
    f: int,
    scales: np.ndarray,
    worker: int,
    sums: np.ndarray,
    cut: np.ndarray,
) -> int:
    """The cut of a feature that gains most in leaves 0..count together; returns how many bins were put in order."""
    used, has_missing, sign, scratch = bins.n_bins[f] + ZERO, bins.has_missing[f], 0.0, room.scratch[worker]
    l2, least, all_whole, sides = scales[2], scales[3], 0.0, 2 if has_missing else 1
    if views is not None:
        column, sign = views.column[f], views.signs[f]
        slots = np.zeros_like(scratch[:STRIDE])
        for leaf in range(count):
            if leaves.histogram[leaf] >= 0:
                slots += room.histograms[leaves.histogram[leaf], column * STRIDE : (column + 1) * STRIDE]
        total = sum_slots(slots, bins.n_slots[column])
        offset, usual, categorical, smoothing = (
            views.offset[f],
            views.usual[f],
            views.categorical[f],
            views.smoothing[0],
        )
        used = read_bins(
            slots, total, offset, usual, categorical, smoothing, bins.n_bins[f], scales, scratch, room.order[worker]
        )
    sums[:, :used] = 0.0
    for leaf in range(count):
        if leaves.histogram[leaf] < 0:
            continue
        own, low, high = (
            _read_leaf(views, bins, room, leaves, leaf, f, used, worker),
            leaves.low[leaf],
            leaves.high[leaf],
        )
        missing = own[MISSING] if has_missing else np.int64(0)
        total = missing + own[:used].sum()
        gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
        whole = worth_at(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
        all_whole += whole
        for side in range(sides):  # missing values right, then left
            left = missing if side else np.int64(0)
            for b in range(used):
                left += own[b]
                worth = bounded_worth(left, gradient, hessian, l2, least, sign, low, high)
                sums[side, b] += worth - whole if worth > -np.inf else 0.0
    best = 0.0
    for side in range(sides):
        for b in range(used):
            if sums[side, b] > best:
                best = sums[side, b]
                cut[BIN], cut[MISSING_LEFT] = b, side
    cut[GAIN] = in_gain(best + all_whole, all_whole, scales)
    return int(used)


@kernel
def _write_level(
    views: Views | None,
    bins: Bins,
    room: Room,
    nodes: Nodes,
    leaves: Leaves,
    count: int,
    f: int,
    used: int,
    cut: np.ndarray,
) -> None:
    """Every leaf's node gets the cut. Without missing values to learn from, they go to the heavier side."""
    column = f if views is None else views.column[f]
    if not bins.has_missing[f]:
        left_h, all_h = 0.0, 0.0
        for leaf in range(count):
            if leaves.histogram[leaf] < 0:
                continue
            own = _read_leaf(views, bins, room, leaves, leaf, f, used, ZERO)
            for b in range(used):
                all_h += np.float64(hessian_of(own[b]))
                left_h += np.float64(hessian_of(own[b])) if b <= cut[BIN] else 0.0
        cut[MISSING_LEFT] = 1.0 if 2.0 * left_h >= all_h else 0.0
    for leaf in range(count):
        node = leaves.node[leaf]
        nodes.feature[node], nodes.column[node] = f, column
        fill_sides(
            f, bins.n_bins[f], int(cut[BIN]), cut[MISSING_LEFT] > 0, views, room.order[0], used, nodes.sides[node]
        )


@kernel
def _price_leaf(
    bins: Bins,
    room: Room,
    nodes: Nodes,
    leaves: Leaves,
    leaf: int,
    scales: np.ndarray,
    sign: float,
    cut: np.ndarray,
) -> None:
    """What the level's cut gains in one leaf, and the middle of the values of its sides."""
    low, high, l2 = leaves.low[leaf], leaves.high[leaf], scales[2]
    if leaves.histogram[leaf] < 0:
        cut[GAIN], cut[MIDDLE] = 0.0, min(max(0.0, low), high)
        return
    column, sides = nodes.column[leaves.node[leaf]], nodes.sides[leaves.node[leaf]]
    slots, n_slots = (
        room.histograms[leaves.histogram[leaf], column * STRIDE : (column + 1) * STRIDE],
        bins.n_slots[column],
    )
    total = slots[MISSING]
    left = total if sides[MISSING] == 0 else np.int64(0)
    for slot in range(n_slots):
        total += slots[slot]
        left += slots[slot] if sides[slot] == 0 else np.int64(0)
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    left_g, left_h = np.float64(gradient_of(left)), np.float64(hessian_of(left))
    left_value = value_of(left_g, left_h, l2, low, high)
    cut[MIDDLE] = 0.5 * (left_value + value_of(gradient - left_g, hessian - left_h, l2, low, high))
    whole = worth_at(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
    worth = bounded_worth(left, gradient, hessian, l2, scales[3], sign, low, high)
    cut[GAIN] = in_gain(worth, whole, scales)
