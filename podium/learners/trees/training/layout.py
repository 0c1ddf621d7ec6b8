"""Feature layout: how the bins of a feature are read from the column that holds them.

A column has one byte per row, its slot. Most columns hold one feature, and slots are bins. Features that are rarely
outside their default bins together share a column, a feature bundle (EFB): slot 0 means that all of them are in their
default bins, and each has a range of slots for its other bins. All remaining rows are in the default bin.

Categories have no order. In every leaf they are put in order of the mean step that their rows ask for, gradient over
hessian; the best parting of the categories in two is then a split of that order, as for numbers. Smoothing draws
categories with few rows to the middle.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.training.binning import MISSING, FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, gradient_of, hessian_of

SCRATCH = 2 * STRIDE  # for sums to the left, and for a feature's own bins
SlotRange = tuple[int, int, bool, float]  # of one feature: offset, default bin and categorical of its layout; smoothing


@kernel
def sum_slots(slots: Array, n_slots: int) -> np.int64:
    """What a column holds in all, if it is a bundle."""
    total = np.int64(0)
    for slot in range(n_slots):
        total += slots[slot]
    return total


@kernel
def unbundle(slots: Array, total: np.int64, offset: int, default_bin: int, n_bins: int, bins: Array) -> None:
    """bins[b] = what the slots of the feature's column hold for bin b, and for missing values at MISSING.

    total: what a bundle's slots hold in all; offset, default_bin: as in `FeatureLayout`.
    """
    if default_bin < 0:
        for b in range(n_bins):
            bins[b] = slots[b]
        bins[MISSING] = slots[MISSING]
        return
    rest, at = total, offset
    for b in range(n_bins):
        if b != default_bin:
            bins[b] = slots[at]
            rest -= slots[at]
            at += 1
    bins[MISSING], bins[default_bin] = 0, rest


@kernel
def read_bins(
    slots: Array, total: np.int64, slot_range: SlotRange, n_bins: int, scales: Array, scratch: Array, order: Array
) -> int:
    """The bins of a feature in the order in which they are split, in the second part of `scratch`; returns how many.

    `order` gets the order itself, if the feature is a category.
    """
    bins, (offset, default_bin, categorical, smoothing) = scratch[STRIDE : 2 * STRIDE], slot_range
    unbundle(slots, total, offset, default_bin, n_bins, bins)
    if not categorical:
        return n_bins
    used = _put_in_order(bins, n_bins, scales, smoothing, order)
    reorder(bins.copy(), order, used, bins)
    return used


@kernel
def _put_in_order(bins: Array, n_bins: int, scales: Array, smoothing: float, order: Array) -> int:
    """Fill `order` with the bins that have rows, by rising gradient over hessian; returns how many."""
    used = 0
    for b in range(n_bins):
        if bins[b] != 0:
            order[used] = b
            used += 1
    gap = 1
    while gap < used // 3:
        gap = 3 * gap + 1
    while gap > 0:  # Shell's sort: equal ratios are put in order of their bins, so any sort gives the same
        for k in range(gap, used):
            moving, to = order[k], k
            while to >= gap and _comes_before(bins, moving, order[to - gap], scales, smoothing):
                order[to] = order[to - gap]
                to -= gap
            order[to] = moving
        gap //= 3
    return used


@kernel
def _comes_before(bins: Array, one: int, two: int, scales: Array, smoothing: float) -> bool:
    more = smoothing * scales[1]
    first = gradient_of(bins[one]) / (hessian_of(bins[one]) + more)
    second = gradient_of(bins[two]) / (hessian_of(bins[two]) + more)
    return first < second or (first == second and one < two)


@kernel
def reorder(bins: Array, order: Array, used: int, sorted_bins: Array) -> None:
    """sorted_bins[k] = bins[order[k]]; missing values stay where they are."""
    for k in range(used):
        sorted_bins[k] = bins[order[k]]
    sorted_bins[MISSING] = bins[MISSING]


@kernel
def fill_sides(
    f: int,
    n_bins: int,
    at: int,
    missing_left: bool,
    layout: FeatureLayout | None,
    order: Array,
    used: int,
    sides: Array,
) -> None:
    """sides[slot] = 1 if rows with this slot of the feature's column go right.

    at: the last bin that goes left; for categories, its place in `order`. Categories without rows go with missing ones.
    """
    stray = np.uint8(0 if missing_left else 1)
    for b in range(MISSING):
        sides[b] = np.uint8(b > at)
    sides[MISSING] = stray
    if layout is None:
        return
    if layout.categorical[f]:
        for b in range(MISSING):
            sides[b] = stray
        for k in range(used):
            sides[order[k]] = np.uint8(k > at)
    default_bin, slot = layout.default_bin[f], layout.offset[f]
    if default_bin >= 0:
        by_bin = sides.copy()
        for other in range(len(sides)):
            sides[other] = by_bin[default_bin]
        for b in range(n_bins):
            if b != default_bin:
                sides[slot] = by_bin[b]
                slot += 1
