"""Splitting: the best place to cut a leaf in two, read off its histogram.

For sums G of gradients and H of hessians, a leaf can lower the cost by G^2 / (H + l2), twice over. The gain of a cut is
what both sides can lower it by, less what the whole can:

    gain = GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2)

A row goes left if its bin is at most the split's bin. Missing values go to the side where they gain more.

Every feature of every leaf is asked for its best gain, in a loop that vectorises; where that cut lies is looked up only
when the leaf is cut by it. Sums stay in the histogram's units until the gain is known.
"""

from __future__ import annotations

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, WORD
from podium.learners.trees.histograms import STRIDE, gradient_of, hessian_of

# What `find_cut` finds: gain, bin, whether missing values go left, hessians of the two sides in units.
GAIN, BIN, MISSING_LEFT, LEFT_HESSIAN, RIGHT_HESSIAN = range(5)
CUT = 5

_NOISE = 1e-12  # a gain below this part of what the leaf is worth is rounding

# units a gradient, units a hessian, l2 and least hessian of a side in units
Scales = np.ndarray


@kernel
def _worth(left: np.int64, gradient: float, hessian: float, l2: float, least: float) -> float:
    """GL^2 / (HL + l2) + GR^2 / (HR + l2) with one division; 0 if a side has less than the least hessian."""
    left_h, left_g = np.float64(hessian_of(left)), np.float64(gradient_of(left))
    right_h, right_g = hessian - left_h, gradient - left_g
    below, above = left_h + l2, right_h + l2
    worth = (left_g * left_g * above + right_g * right_g * below) / (below * above)
    return worth if (left_h >= least) & (right_h >= least) else 0.0


@kernel
def _gain(worth: float, gradient: float, hessian: float, l2: float, scales: Scales) -> float:
    """From the worth of both sides, in units, to the gain."""
    gain = worth - gradient * gradient / (hessian + l2)
    return gain * scales[1] / (scales[0] * scales[0]) if gain > _NOISE * worth else 0.0


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
        best = max(best, np.float64(_worth(lefts[b], gradient, hessian, l2, least)).view(np.int64))
    if missing != 0:
        for b in range(n_bins):
            best = max(best, np.float64(_worth(lefts[b] + missing, gradient, hessian, l2, least)).view(np.int64))
    return _gain(np.int64(best).view(np.float64), gradient, hessian, l2, scales)


@kernel
def find_cut(
    histogram: np.ndarray,
    n_bins: int,
    has_missing: bool,
    scales: Scales,
    counts: np.ndarray,
    min_samples: int,
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
            worth = _worth(left, gradient, hessian, l2, least)
            if worth > best:
                best = worth
                left_h = np.float64(hessian_of(left))
                right_h = hessian - left_h
                cut[BIN], cut[LEFT_HESSIAN], cut[RIGHT_HESSIAN] = b, left_h, right_h
                # Without missing values to learn from, the heavier side is the safer guess.
                cut[MISSING_LEFT] = side if missing != 0 else (1.0 if left_h >= right_h else 0.0)
    cut[GAIN] = _gain(best, gradient, hessian, l2, scales)


@kernel
def scan_words(
    child: np.ndarray,
    parent: np.ndarray,
    sibling: bool,
    first: int,
    last: int,
    n_bins: np.ndarray,
    has_missing: np.ndarray,
    allowed: np.ndarray,
    scales: Scales,
    lefts: np.ndarray,
    child_gains: np.ndarray,
    parent_gains: np.ndarray,
) -> None:
    """The best gains of the features of words first..last, in the child and in what it leaves of the parent.

    Each feature is subtracted and scanned in one go, while its bins are in the innermost cache.
    """
    for f in range(first * WORD, min(last * WORD, len(n_bins))):
        bins, missing = n_bins[f], has_missing[f]
        own, rest = child[f * STRIDE : (f + 1) * STRIDE], parent[f * STRIDE : (f + 1) * STRIDE]
        useful = allowed[f] and bins + missing > 1
        if sibling:
            for b in range(bins):
                rest[b] -= own[b]
            if missing:
                rest[MISSING] -= own[MISSING]
            parent_gains[f] = best_gain(rest, bins, missing, scales, lefts) if useful else 0.0
        child_gains[f] = best_gain(own, bins, missing, scales, lefts) if useful else 0.0


@kernel
def best_feature(gains: np.ndarray) -> int:
    """The feature with the largest gain, the first of equals; -1 if none gains."""
    best, gain = -1, 0.0
    for f in range(len(gains)):
        if gains[f] > gain:
            best, gain = f, gains[f]
    return best
