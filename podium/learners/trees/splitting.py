"""Splitting: the best place to cut a leaf in two, read off its histogram.

For sums G of gradients and H of hessians, a leaf can lower the cost by G^2 / (H + l2), twice over. The gain of a cut is
what both sides can lower it by, less what the whole can:

    gain = GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2)

A row goes left if its bin is at most the split's bin. Missing values go to the side where they gain more.
"""

from __future__ import annotations

import numba
import numpy as np

from podium._numba import kernel, parallel_kernel
from podium.learners.trees.binning import BLOCK, MISSING
from podium.learners.trees.histograms import STRIDE, add_shares, gradient_of, hessian_of

# Columns of a candidate: gain, bin, whether missing values go left.
GAIN, BIN, MISSING_LEFT = 0, 1, 2
CANDIDATE = 3


@kernel
def scan_feature(
    histogram: np.ndarray,
    n_bins: int,
    has_missing: bool,
    scales: np.ndarray,
    l2: float,
    min_hessian: float,
    counts: np.ndarray,
    min_samples: int,
    candidate: np.ndarray,
) -> None:
    """Try every cut of one feature. histogram: its STRIDE slots.

    `counts`, unless empty, has the number of rows of each bin, and both sides must keep `min_samples` of them.
    """
    total = np.int64(0)
    for b in range(n_bins):
        total += histogram[b]
    missing = histogram[MISSING] if has_missing else np.int64(0)
    missing_count = counts[MISSING] if len(counts) else 0
    total += missing
    all_count = missing_count
    for b in range(n_bins if len(counts) else 0):
        all_count += counts[b]
    g_unit, h_unit = 1.0 / scales[0], 1.0 / scales[1]
    gradient, hessian = gradient_of(total) * g_unit, hessian_of(total) * h_unit
    whole = gradient * gradient / (hessian + l2)
    candidate[GAIN], candidate[BIN], candidate[MISSING_LEFT] = 0.0, 0.0, 0.0
    best = 0.0
    for side in range(2 if missing != 0 else 1):  # missing values right, then left
        left = missing if side else np.int64(0)
        left_count = missing_count if side else 0
        for b in range(n_bins if missing != 0 and side == 0 else n_bins - 1):
            left += histogram[b]
            if len(counts):
                left_count += counts[b]
                if left_count < min_samples or all_count - left_count < min_samples:
                    continue
            left_h = hessian_of(left) * h_unit
            right_h = hessian - left_h
            left_g = gradient_of(left) * g_unit
            right_g = gradient - left_g
            gain = left_g * left_g / (left_h + l2) + right_g * right_g / (right_h + l2) - whole
            if gain > best and left_h >= min_hessian and right_h >= min_hessian:
                best = gain
                candidate[GAIN], candidate[BIN] = gain, b
                # Without missing values to learn from, the heavier side is the safer guess.
                candidate[MISSING_LEFT] = side if missing != 0 else (1.0 if left_h >= right_h else 0.0)


@kernel
def scan_block(
    histogram: np.ndarray,
    block: int,
    n_bins: np.ndarray,
    has_missing: np.ndarray,
    allowed: np.ndarray,
    scales: np.ndarray,
    l2: float,
    min_hessian: float,
    candidates: np.ndarray,
) -> None:
    """Candidates of the 16 features of a block."""
    nothing = np.empty(0, np.int64)
    for f in range(block * BLOCK, min((block + 1) * BLOCK, len(n_bins))):
        candidates[f, GAIN] = 0.0
        if allowed[f] and n_bins[f] + has_missing[f] > 1:
            own = histogram[f * STRIDE : (f + 1) * STRIDE]
            scan_feature(own, n_bins[f], has_missing[f], scales, l2, min_hessian, nothing, 0, candidates[f])


@parallel_kernel
def scan_children(
    histograms: np.ndarray,
    partial: np.ndarray,
    shared: bool,
    small: int,
    large: int,
    n_bins: np.ndarray,
    has_missing: np.ndarray,
    allowed: np.ndarray,
    scales: np.ndarray,
    l2: float,
    min_hessian: float,
    candidates: np.ndarray,
) -> None:
    """Subtract the small child from the parent, which leaves the large one, and find the candidates of both.

    histograms: (leaves, slots); the parent stands at `large`. A root has no sibling: small == large. `shared`: the sum
    over the small child's rows still lies in the workers' shares.
    """
    blocks = histograms.shape[1] // (BLOCK * STRIDE)
    for block in numba.prange(blocks):
        low, high = block * BLOCK * STRIDE, (block + 1) * BLOCK * STRIDE
        if shared:
            add_shares(partial, low, high, histograms[small])
        if small != large:
            parent, child = histograms[large, low:high], histograms[small, low:high]
            for k in range(len(parent)):
                parent[k] -= child[k]
            scan_block(
                histograms[small], block, n_bins, has_missing, allowed, scales, l2, min_hessian, candidates[small]
            )
        scan_block(histograms[large], block, n_bins, has_missing, allowed, scales, l2, min_hessian, candidates[large])


@kernel
def best_feature(candidates: np.ndarray) -> int:
    """The feature with the largest gain, the first of equals; -1 if none gains."""
    best, gain = -1, 0.0
    for f in range(len(candidates)):
        if candidates[f, GAIN] > gain:
            best, gain = f, candidates[f, GAIN]
    return best
