"""Splitting: the best split of a leaf, from its histogram.

For sums G of gradients and H of hessians, a leaf lowers the cost by half of G^2 / (H + l2). The gain of a split is what
both sides together lower it by, minus what the leaf as a whole does, times two:

    gain = GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2)

A row goes left if its bin is at most the split's bin. Missing values go to the side where they gain more.

A leaf with value v has the gain -(2 G v + (H + l2) v^2), which is G^2 / (H + l2) for the best v, -G / (H + l2). With
monotone constraints v has bounds, and splits whose sides would have values in the wrong order are refused. Within
bounds the gain of a leaf, and that of both sides, can be negative, and the split may still have a positive gain.

The best gain of every feature in every leaf is computed in a loop that vectorises; the position of the split is found
only when the leaf is split by it. Sums stay in the histogram's units until the gain is known.

Extremely randomised trees (`stream` is not None) try one bin per feature and node, drawn evenly from those that have
rows of the node on both sides. The draw depends on the stream of the tree, the node and the feature alone, so it is the
same whenever it is asked for. Missing values still go to the side where they gain more; of categories, it is their
order that is split at a random place.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.random import uniform
from podium.learners.trees.training.binning import MISSING, WORD, FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, gradient_of, hessian_of
from podium.learners.trees.training.layout import SlotRange, read_bins, sum_slots

# What `scan_bins` fills: gain, bin, whether missing values go left, hessians of the two sides, and the middle of their
# values, in units.
GAIN, BIN, MISSING_LEFT, LEFT_HESSIAN, RIGHT_HESSIAN, MIDDLE = range(6)
SPLIT = 6
ALL_BINS = -2  # no bin is drawn: all are tried

_NOISE = 1e-12  # a gain below this share of the leaf's own is rounding

# units per gradient, units per hessian, l2 and the minimum hessian of a side in units
Scales = Array


@kernel
def sides_gain(left: np.int64, gradient: float, hessian: float, l2: float, least: float) -> float:
    """GL^2 / (HL + l2) + GR^2 / (HR + l2) with one division; 0 if a side has less than the minimum hessian."""
    left_h, left_g = np.float64(hessian_of(left)), np.float64(gradient_of(left))
    right_h, right_g = hessian - left_h, gradient - left_g
    below, above = left_h + l2, right_h + l2
    sides = (left_g * left_g * above + right_g * right_g * below) / (below * above)
    return sides if (left_h >= least) & (right_h >= least) else 0.0


@kernel
def value_of(gradient: float, hessian: float, l2: float, low: float, high: float) -> float:
    """The best value of a leaf within its bounds, in units."""
    return min(max(-gradient / (hessian + l2), low), high) if hessian > 0.0 else min(max(0.0, low), high)


@kernel
def bounded_sides_gain(
    left: np.int64, gradient: float, hessian: float, l2: float, least: float, sign: float, low: float, high: float
) -> float:
    """`sides_gain` where values have bounds, and the right one may not be below (sign 1) or above (-1) the left one.

    It may be negative; -inf refuses the split.
    """
    left_h, left_g = np.float64(hessian_of(left)), np.float64(gradient_of(left))
    right_h, right_g = hessian - left_h, gradient - left_g
    if left_h < least or right_h < least:
        return -np.inf
    left_value, right_value = value_of(left_g, left_h, l2, low, high), value_of(right_g, right_h, l2, low, high)
    if sign * (right_value - left_value) < 0.0:
        return -np.inf
    return leaf_gain(left_g, left_h + l2, left_value) + leaf_gain(right_g, right_h + l2, right_value)


@kernel
def leaf_gain(gradient: float, weight: float, value: float) -> float:
    """Twice what a leaf with this value lowers the cost by."""
    return -(2.0 * gradient + weight * value) * value


@kernel
def split_gain(sides: float, whole: float, scales: Scales) -> float:
    """The gain of a split, from the gains of its two sides together and of the leaf as a whole, in units."""
    gain = sides - whole
    noise = _NOISE * max(abs(sides), abs(whole))
    return gain * scales[1] / (scales[0] * scales[0]) if gain > noise else 0.0


@kernel
def best_gain(histogram: Array, n_bins: int, has_missing: bool, scales: Scales, lefts: Array) -> float:
    """The largest gain of all splits of one feature, 0 if none gains. histogram: its STRIDE slots; lefts: a buffer."""
    total = np.int64(0)
    for b in range(n_bins):
        total += histogram[b]
        lefts[b] = total
    missing = histogram[MISSING] if has_missing else np.int64(0)
    total += missing
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    l2, least = scales[2], scales[3]
    best = np.int64(0)  # gains of sides are never negative, and such floats compare as their bits do: that vectorises
    for b in range(n_bins):
        best = max(best, np.float64(sides_gain(lefts[b], gradient, hessian, l2, least)).view(np.int64))
    if missing != 0:
        for b in range(n_bins):
            best = max(best, np.float64(sides_gain(lefts[b] + missing, gradient, hessian, l2, least)).view(np.int64))
    return split_gain(np.int64(best).view(np.float64), gradient * gradient / (hessian + l2), scales)


@kernel
def draw_bin(histogram: Array, n_bins: int, has_missing: bool, stream: np.uint64, node: int, f: int) -> int:
    """The bin after which a feature is split in a node; -1 if no bin has rows on both sides."""
    first, last = 0, n_bins - 1  # from both ends: all but small leaves have rows in the outermost bins
    while first < n_bins and histogram[first] == 0:
        first += 1
    while last > first and histogram[last] == 0:
        last -= 1
    missing = has_missing and histogram[MISSING] != 0  # then all other rows can be one side
    count = last - first + (1 if missing else 0)
    if first == n_bins or count < 1:
        return -1
    return first + min(int(uniform(stream, (node << 32) + f) * count), count - 1)


@kernel
def drawn_gain(
    histogram: Array, n_bins: int, has_missing: bool, scales: Scales, stream: np.uint64, node: int, f: int
) -> float:
    """`best_gain` of the one bin that is drawn."""
    at = draw_bin(histogram, n_bins, has_missing, stream, node, f)
    if at < 0:
        return 0.0
    missing = histogram[MISSING] if has_missing else np.int64(0)
    left, right = np.int64(0), np.int64(0)
    for b in range(at + 1):
        left += histogram[b]
    for b in range(at + 1, n_bins):
        right += histogram[b]
    total = left + right + missing
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    l2, least = scales[2], scales[3]
    best = sides_gain(left, gradient, hessian, l2, least)
    if missing != 0:
        best = max(best, sides_gain(left + missing, gradient, hessian, l2, least))
    return split_gain(best, gradient * gradient / (hessian + l2), scales)


@kernel
def _bins_gain(
    stream: np.uint64 | None,
    node: int,
    f: int,
    histogram: Array,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    lefts: Array,
) -> float:
    """The gain of the best bin, or of the one that is drawn."""
    if stream is None:
        return best_gain(histogram, n_bins, has_missing, scales, lefts)
    return drawn_gain(histogram, n_bins, has_missing, scales, stream, node, f)


@kernel
def scan_bins(
    only: int,
    histogram: Array,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    counts: Array,
    min_samples: int,
    sign: float,
    low: float,
    high: float,
    split: Array,
) -> None:
    """Where the best split of one feature lies: fills `split`.

    only: the one bin to be tried, or ALL_BINS. `counts`, unless empty, has the number of rows of each bin, and both
    sides must keep `min_samples` of them.
    """
    missing = histogram[MISSING] if has_missing else np.int64(0)
    missing_count = counts[MISSING] if len(counts) else 0
    total, all_count = missing, missing_count
    for b in range(n_bins):
        total += histogram[b]
        all_count += counts[b] if len(counts) else 0
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    l2, least, best = scales[2], scales[3], 0.0
    bounded, whole = sign != 0.0 or low > -np.inf or high < np.inf, gradient * gradient / (hessian + l2)
    if bounded:
        best, whole = -np.inf, leaf_gain(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
    for k in range(SPLIT):
        split[k] = 0.0
    for side in range(2 if missing != 0 else 1):  # missing values right, then left
        left = missing if side else np.int64(0)
        left_count = missing_count if side else 0
        for b in range(n_bins):
            left += histogram[b]
            left_count += counts[b] if len(counts) else 0
            if only != ALL_BINS and b != only:
                continue
            if len(counts) and (left_count < min_samples or all_count - left_count < min_samples):
                continue
            if bounded:
                sides = bounded_sides_gain(left, gradient, hessian, l2, least, sign, low, high)
            else:
                sides = sides_gain(left, gradient, hessian, l2, least)
            if sides > best:
                best = sides
                left_h = np.float64(hessian_of(left))
                right_h = hessian - left_h
                split[BIN], split[LEFT_HESSIAN], split[RIGHT_HESSIAN] = b, left_h, right_h
                left_g = np.float64(gradient_of(left))
                left_value = value_of(left_g, left_h, l2, low, high)
                split[MIDDLE] = 0.5 * (left_value + value_of(gradient - left_g, right_h, l2, low, high))
                # Without missing values to learn from, the heavier side is the safer guess.
                split[MISSING_LEFT] = side if missing != 0 else (1.0 if left_h >= right_h else 0.0)
    split[GAIN] = split_gain(best, whole, scales)


@kernel
def scan_words(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    nodes: tuple[int, int],
    child: Array,
    parent: Array,
    sibling: bool,
    before: int,
    first: int,
    last: int,
    n_slots: Array,
    n_bins: Array,
    has_missing: Array,
    allowed: Array,
    scales: Scales,
    scratch: Array,
    order: Array,
    bounds: tuple[float, float, float, float],
    child_gains: Array,
    parent_gains: Array,
) -> None:
    """The best gains of the features of words first..last, in the child and in what it leaves of the parent.

    Each column is subtracted and scanned in one go, while its slots are in the innermost cache. Without layout, columns
    are features; what is None is not compiled. nodes: of the child and of the rest. bounds: least and largest value of
    both, in units. before: columns that the histograms do not have, the first ones.
    """
    node, rest_node = nodes
    low, high, rest_low, rest_high = bounds
    if layout is not None:  # once: taking an array out of a tuple counts references, and threads fight for the count
        members, starts, offset, default_bin = layout.members, layout.starts, layout.offset, layout.default_bin
        categorical, signs, smoothing = layout.categorical, layout.signs, layout.smoothing[0]
        free = low == rest_low == -np.inf and high == rest_high == np.inf
    for column in range(first * WORD, min(last * WORD, len(n_slots))):
        slots = slice((column - before) * STRIDE, (column - before + 1) * STRIDE)
        child_slots, rest = child[slots], parent[slots]
        if sibling:
            for slot in range(n_slots[column]):
                rest[slot] -= child_slots[slot]
            rest[MISSING] -= child_slots[MISSING]
        if layout is None:
            bins, missing = n_bins[column], has_missing[column]
            useful = allowed[column] and bins + missing > 1
            if sibling:
                parent_gains[column] = 0.0
                if useful:
                    parent_gains[column] = _bins_gain(stream, rest_node, column, rest, bins, missing, scales, scratch)
            child_gains[column] = 0.0
            if useful:
                child_gains[column] = _bins_gain(stream, node, column, child_slots, bins, missing, scales, scratch)
        else:
            total, rest_total = sum_slots(child_slots, n_slots[column]), sum_slots(rest, n_slots[column])
            for k in range(starts[column], starts[column + 1]):
                f = members[k]
                child_gains[f] = parent_gains[f] = 0.0
                bins, missing = n_bins[f], has_missing[f]
                if not allowed[f] or bins + missing < 2:
                    continue
                at, common, sign = offset[f], default_bin[f], signs[f]
                if free and sign == 0.0 and bins == 2 and common >= 0:  # one-hot: a thousand of these are no work
                    child_gains[f] = _one_hot_gain(child_slots[at], total, common, scales)
                    if sibling:
                        parent_gains[f] = _one_hot_gain(rest[at], rest_total, common, scales)
                    continue
                slot_range = at, common, categorical[f], smoothing
                child_gains[f] = _gain_of(
                    stream,
                    node,
                    f,
                    child_slots,
                    total,
                    slot_range,
                    bins,
                    missing,
                    scales,
                    (sign, low, high),
                    scratch,
                    order,
                )
                if sibling:
                    limits = sign, rest_low, rest_high
                    parent_gains[f] = _gain_of(
                        stream,
                        rest_node,
                        f,
                        rest,
                        rest_total,
                        slot_range,
                        bins,
                        missing,
                        scales,
                        limits,
                        scratch,
                        order,
                    )


@kernel
def _one_hot_gain(slot: np.int64, total: np.int64, default_bin: int, scales: Scales) -> float:
    """`best_gain` of a feature of two bins in a bundle: of its one slot against the rest."""
    if slot == 0:
        return 0.0
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    sides = sides_gain(slot if default_bin == 1 else total - slot, gradient, hessian, scales[2], scales[3])
    return split_gain(sides, gradient * gradient / (hessian + scales[2]), scales)


@kernel
def _gain_of(
    stream: np.uint64 | None,
    node: int,
    f: int,
    slots: Array,
    total: np.int64,
    slot_range: SlotRange,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    bounds: tuple[float, float, float],
    scratch: Array,
    order: Array,
) -> float:
    """`best_gain` of a feature that is not a column as it stands, or of a leaf with bounds."""
    used = read_bins(slots, total, slot_range, n_bins, scales, scratch, order)
    bins, (sign, low, high) = scratch[STRIDE : 2 * STRIDE], bounds
    if sign == 0.0 and low == -np.inf and high == np.inf:
        return _bins_gain(stream, node, f, bins, used, has_missing, scales, scratch)
    split, nothing, only = np.zeros(SPLIT), np.empty(0, np.int64), ALL_BINS
    if stream is not None:
        only = draw_bin(bins, used, has_missing, stream, node, f)
    scan_bins(only, bins, used, has_missing, scales, nothing, 0, sign, low, high, split)
    return float(split[GAIN])


@kernel
def build_heap(gains: Array, heap: Array) -> int:
    """Fill `heap` with the features that gain, the largest gain first, the first of equals; returns how many."""
    size = 0
    for f in range(len(gains)):
        if gains[f] > 0.0:
            heap[size] = f
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        sift_down(gains, heap, size, at)
    return size


@kernel
def sift_down(gains: Array, heap: Array, size: int, at: int) -> None:
    """Restore the order of a heap below a place whose gain has fallen."""
    feature = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _gains_more(gains, heap[child + 1], heap[child]):
            child += 1
        if not _gains_more(gains, heap[child], feature):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = feature


@kernel
def _gains_more(gains: Array, one: int, two: int) -> bool:
    return bool(gains[one] > gains[two] or (gains[one] == gains[two] and one < two))


@kernel
def best_feature(gains: Array) -> int:
    """The feature with the largest gain, the first of equals; -1 if none gains."""
    best, gain = -1, 0.0
    for f in range(len(gains)):
        if gains[f] > gain:
            best, gain = f, gains[f]
    return best
