"""Splitting: the best place to cut a leaf in two, read off its histogram.

For sums G of gradients and H of hessians, a leaf can lower the cost by G^2 / (H + l2), twice over. The gain of a cut is
what both sides can lower it by, less what the whole can:

    gain = GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2)

A row goes left if its bin is at most the split's bin. Missing values go to the side where they gain more.

A leaf with value v lowers the cost by -(2 G v + (H + l2) v^2), which is the above for the best v, -G / (H + l2). Where
the value must not fall, or not rise, with a feature, v has bounds, and splits whose sides stand the wrong way round are
refused. Within bounds a leaf may have to raise the cost: its worth, and that of its sides, can be negative, and a split
may still gain.

Every feature of every leaf is asked for its best gain, in a loop that vectorises; where that cut lies is looked up only
when the leaf is cut by it. Sums stay in the histogram's units until the gain is known.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, WORD, Views
from podium.learners.trees.features import arrange, read_bins, spread, sum_slots
from podium.learners.trees.histograms import STRIDE, gradient_of, hessian_of

# What `find_cut` finds: gain, bin, whether missing values go left, hessians of the two sides, and the middle of their
# values, in units.
GAIN, BIN, MISSING_LEFT, LEFT_HESSIAN, RIGHT_HESSIAN, MIDDLE = range(6)
CUT = 6

_NOISE = 1e-12  # a gain below this part of what the leaf is worth is rounding

# units a gradient, units a hessian, l2 and least hessian of a side in units
Scales = np.ndarray


@kernel
def worth_of(left: np.int64, gradient: float, hessian: float, l2: float, least: float) -> float:
    """GL^2 / (HL + l2) + GR^2 / (HR + l2) with one division; 0 if a side has less than the least hessian."""
    left_h, left_g = np.float64(hessian_of(left)), np.float64(gradient_of(left))
    right_h, right_g = hessian - left_h, gradient - left_g
    below, above = left_h + l2, right_h + l2
    worth = (left_g * left_g * above + right_g * right_g * below) / (below * above)
    return worth if (left_h >= least) & (right_h >= least) else 0.0


@kernel
def value_of(gradient: float, hessian: float, l2: float, low: float, high: float) -> float:
    """The best value of a leaf within its bounds, in units."""
    return min(max(-gradient / (hessian + l2), low), high) if hessian > 0.0 else min(max(0.0, low), high)


@kernel
def bounded_worth(
    left: np.int64, gradient: float, hessian: float, l2: float, least: float, sign: float, low: float, high: float
) -> float:
    """`worth_of` where values have bounds, and the right one may not be below (sign 1) or above (-1) the left one.

    It may be negative; -inf refuses the split.
    """
    left_h, left_g = np.float64(hessian_of(left)), np.float64(gradient_of(left))
    right_h, right_g = hessian - left_h, gradient - left_g
    if left_h < least or right_h < least:
        return -np.inf
    left_value, right_value = value_of(left_g, left_h, l2, low, high), value_of(right_g, right_h, l2, low, high)
    if sign * (right_value - left_value) < 0.0:
        return -np.inf
    return worth_at(left_g, left_h + l2, left_value) + worth_at(right_g, right_h + l2, right_value)


@kernel
def worth_at(gradient: float, weight: float, value: float) -> float:
    """By how much a value lowers the cost, twice over."""
    return -(2.0 * gradient + weight * value) * value


@kernel
def in_gain(worth: float, whole: float, scales: Scales) -> float:
    """From what both sides are worth, and the whole, in units, to the gain."""
    gain = worth - whole
    noise = _NOISE * max(abs(worth), abs(whole))
    return gain * scales[1] / (scales[0] * scales[0]) if gain > noise else 0.0


@kernel
def best_gain(histogram: np.ndarray, n_bins: int, has_missing: bool, scales: Scales, lefts: np.ndarray) -> float:
    """The largest gain of all cuts of one feature, 0 if none gains. histogram: its STRIDE slots; lefts: room."""
    total = np.int64(0)
    for b in range(n_bins):
        total += histogram[b]
        lefts[b] = total
    missing = histogram[MISSING] if has_missing else np.int64(0)
    total += missing
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    l2, least = scales[2], scales[3]
    best = np.int64(0)  # a worth is never negative, and such numbers compare as their bits do: that vectorises
    for b in range(n_bins):
        best = max(best, np.float64(worth_of(lefts[b], gradient, hessian, l2, least)).view(np.int64))
    if missing != 0:
        for b in range(n_bins):
            best = max(best, np.float64(worth_of(lefts[b] + missing, gradient, hessian, l2, least)).view(np.int64))
    return in_gain(np.int64(best).view(np.float64), gradient * gradient / (hessian + l2), scales)


@kernel
def cut_bins(
    histogram: np.ndarray,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    counts: np.ndarray,
    min_samples: int,
    sign: float,
    low: float,
    high: float,
    cut: np.ndarray,
) -> None:
    """Where the best cut of one feature lies: fills `cut`.

    `counts`, unless empty, has the number of rows of each bin, and both sides must keep `min_samples` of them.
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
        best, whole = -np.inf, worth_at(gradient, hessian + l2, value_of(gradient, hessian, l2, low, high))
    for k in range(CUT):
        cut[k] = 0.0
    for side in range(2 if missing != 0 else 1):  # missing values right, then left
        left = missing if side else np.int64(0)
        left_count = missing_count if side else 0
        for b in range(n_bins):
            left += histogram[b]
            if len(counts):
                left_count += counts[b]
                if left_count < min_samples or all_count - left_count < min_samples:
                    continue
            if bounded:
                worth = bounded_worth(left, gradient, hessian, l2, least, sign, low, high)
            else:
                worth = worth_of(left, gradient, hessian, l2, least)
            if worth > best:
                best = worth
                left_h = np.float64(hessian_of(left))
                right_h = hessian - left_h
                cut[BIN], cut[LEFT_HESSIAN], cut[RIGHT_HESSIAN] = b, left_h, right_h
                left_g = np.float64(gradient_of(left))
                left_value = value_of(left_g, left_h, l2, low, high)
                cut[MIDDLE] = 0.5 * (left_value + value_of(gradient - left_g, right_h, l2, low, high))
                # Without missing values to learn from, the heavier side is the safer guess.
                cut[MISSING_LEFT] = side if missing != 0 else (1.0 if left_h >= right_h else 0.0)
    cut[GAIN] = in_gain(best, whole, scales)


@kernel
def find_cut(
    views: Views | None,
    slots: np.ndarray,
    n_slots: int,
    f: int,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    rows: np.ndarray,
    column: np.ndarray,
    min_samples: int,
    largest: np.int64,
    low: float,
    high: float,
    scratch: np.ndarray,
    order: np.ndarray,
    cut: np.ndarray,
) -> int:
    """The cut of a feature that leaves `min_samples` rows on both sides; returns how many bins were put in order.

    slots: the leaf's sums in the feature's column; rows: the leaf's; column: the slots of all rows. The order of
    categories is left in `order`.
    """
    counts = np.zeros(MISSING + 1, np.int64)
    bins, counted_bins, used, sign = slots, counts, n_bins, 0.0
    if views is not None:
        sign = views.signs[f]
        offset, usual, categorical = views.offset[f], views.usual[f], views.categorical[f]
        total = sum_slots(slots, n_slots)
        used = read_bins(slots, total, offset, usual, categorical, views.smoothing[0], n_bins, scales, scratch, order)
        bins = scratch[STRIDE : 2 * STRIDE]
    for counted in range(2):  # first without counts
        known = counted_bins if counted else counts[:0]
        cut_bins(bins, used, has_missing, scales, known, min_samples, sign, low, high, cut)
        # No row has more than the largest hessian, so a heavy side has many rows: no need to count.
        heavy = min(cut[LEFT_HESSIAN], cut[RIGHT_HESSIAN]) >= np.float64(min_samples) * largest
        if counted or min_samples <= 1 or heavy:
            break
        for k in range(len(rows)):
            counts[column[rows[k]]] += 1
        if views is not None:
            counted_bins = np.zeros(MISSING + 1, np.int64)
            spread(counts, np.int64(len(rows)), views.offset[f], views.usual[f], n_bins, counted_bins)
            if views.categorical[f]:
                arrange(counted_bins.copy(), order, used, counted_bins)
    return used


@kernel
def scan_words(
    views: Views | None,
    child: np.ndarray,
    parent: np.ndarray,
    sibling: bool,
    first: int,
    last: int,
    n_slots: np.ndarray,
    n_bins: np.ndarray,
    has_missing: np.ndarray,
    allowed: np.ndarray,
    scales: Scales,
    scratch: np.ndarray,
    order: np.ndarray,
    bounds: tuple[float, float, float, float],
    child_gains: np.ndarray,
    parent_gains: np.ndarray,
) -> None:
    """The best gains of the features of words first..last, in the child and in what it leaves of the parent.

    Each column is subtracted and scanned in one go, while its slots are in the innermost cache. Without views, columns
    are features; what is None is not compiled. bounds: least and largest value of the child and of the rest, in units.
    """
    low, high, rest_low, rest_high = bounds
    if views is not None:  # once: taking an array out of a tuple counts references, and threads fight for the count
        members, starts, offset, usual = views.members, views.starts, views.offset, views.usual
        categorical, signs, smoothing = views.categorical, views.signs, views.smoothing[0]
        free = low == rest_low == -np.inf and high == rest_high == np.inf
    for column in range(first * WORD, min(last * WORD, len(n_slots))):
        own, rest = child[column * STRIDE : (column + 1) * STRIDE], parent[column * STRIDE : (column + 1) * STRIDE]
        if sibling:
            for slot in range(n_slots[column]):
                rest[slot] -= own[slot]
            rest[MISSING] -= own[MISSING]
        if views is None:
            bins, missing = n_bins[column], has_missing[column]
            useful = allowed[column] and bins + missing > 1
            if sibling:
                parent_gains[column] = best_gain(rest, bins, missing, scales, scratch) if useful else 0.0
            child_gains[column] = best_gain(own, bins, missing, scales, scratch) if useful else 0.0
        else:
            total, rest_total = sum_slots(own, n_slots[column]), sum_slots(rest, n_slots[column])
            for k in range(starts[column], starts[column + 1]):
                f = members[k]
                child_gains[f] = parent_gains[f] = 0.0
                bins, missing = n_bins[f], has_missing[f]
                if not allowed[f] or bins + missing < 2:
                    continue
                at, common, named, sign = offset[f], usual[f], categorical[f], signs[f]
                if free and sign == 0.0 and bins == 2 and common >= 0:  # one-hot: a thousand of these are no work
                    child_gains[f] = _one_hot_gain(own[at], total, common, scales)
                    if sibling:
                        parent_gains[f] = _one_hot_gain(rest[at], rest_total, common, scales)
                    continue
                child_gains[f] = _gain_of(
                    own, total, at, common, named, smoothing, bins, missing, scales, sign, low, high, scratch, order
                )
                if sibling:
                    parent_gains[f] = _gain_of(
                        rest,
                        rest_total,
                        at,
                        common,
                        named,
                        smoothing,
                        bins,
                        missing,
                        scales,
                        sign,
                        rest_low,
                        rest_high,
                        scratch,
                        order,
                    )


@kernel
def _one_hot_gain(slot: np.int64, total: np.int64, usual: int, scales: Scales) -> float:
    """`best_gain` of a feature of two bins in a bundle: of its one slot against the rest."""
    if slot == 0:
        return 0.0
    gradient, hessian = np.float64(gradient_of(total)), np.float64(hessian_of(total))
    worth = worth_of(slot if usual == 1 else total - slot, gradient, hessian, scales[2], scales[3])
    return in_gain(worth, gradient * gradient / (hessian + scales[2]), scales)


@kernel
def _gain_of(
    slots: np.ndarray,
    total: np.int64,
    offset: int,
    usual: int,
    categorical: bool,
    smoothing: float,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    sign: float,
    low: float,
    high: float,
    scratch: np.ndarray,
    order: np.ndarray,
) -> float:
    """`best_gain` of a feature that is not a column as it stands, or of a leaf with bounds."""
    used = read_bins(slots, total, offset, usual, categorical, smoothing, n_bins, scales, scratch, order)
    bins = scratch[STRIDE : 2 * STRIDE]
    if sign == 0.0 and low == -np.inf and high == np.inf:
        return best_gain(bins, used, has_missing, scales, scratch)
    cut, nothing = np.zeros(CUT), np.empty(0, np.int64)
    cut_bins(bins, used, has_missing, scales, nothing, 0, sign, low, high, cut)
    return float(cut[GAIN])


@kernel
def build_heap(gains: np.ndarray, heap: np.ndarray) -> int:
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
def sift_down(gains: np.ndarray, heap: np.ndarray, size: int, at: int) -> None:
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
def _gains_more(gains: np.ndarray, one: int, two: int) -> bool:
    return bool(gains[one] > gains[two] or (gains[one] == gains[two] and one < two))


@kernel
def best_feature(gains: np.ndarray) -> int:
    """The feature with the largest gain, the first of equals; -1 if none gains."""
    best, gain = -1, 0.0
    for f in range(len(gains)):
        if gains[f] > gain:
            best, gain = f, gains[f]
    return best
