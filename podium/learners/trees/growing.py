"""Growing: one tree, split by split, from binned rows and their derivatives.

Leaf-wise growth cuts the leaf that gains most; level-wise growth cuts every leaf of a level before the next. Only the
smaller child of a split is added up; the larger one is what is left of the parent. The rows of a leaf are a stretch of
`index`, kept in their first order, so every sum over them has a fixed order too.

Gains come from histograms that know no row counts. A gain found there is at least the true one, so the smallest leaf
size is checked only when a leaf is about to be cut: if the cut would leave too few rows on a side, its feature is
counted out exactly, and the leaf competes again with what remains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from podium._numba import kernel, parallel_kernel
from podium.learners.trees.binning import MISSING, BinnedRows
from podium.learners.trees.histograms import STRIDE, TILE, fill_histogram, hessian_of, pack_rows
from podium.learners.trees.splitting import (
    BIN,
    CANDIDATE,
    GAIN,
    MISSING_LEFT,
    best_feature,
    scan_children,
    scan_feature,
)

_WORTH_SHARING = 8192


@dataclass(frozen=True)
class GrowthRules:
    """When a tree stops and what shape it takes."""

    max_leaf_nodes: int = 31
    max_depth: int = 0  # 0: no limit
    min_samples_leaf: int = 20
    min_hessian: float = 1e-3
    min_gain: float = 0.0
    max_impurity: float = 0.0  # stop once sum |S_i|/|S| * mean 1/2 (y - mean)^2 is not above this; 0: never
    l2_regularization: float = 0.0
    growth: str = "leaf"


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree over bins: node 0 is the root, children of a split stand side by side (left, then left + 1)."""

    feature: np.ndarray  # (nodes,) int32; -1 in leaves
    bin: np.ndarray  # (nodes,) uint8: rows with at most this bin go left
    missing_left: np.ndarray  # (nodes,) bool
    left: np.ndarray  # (nodes,) int32
    gain: np.ndarray  # (nodes,) float64
    count: np.ndarray  # (nodes,) int64: rows
    leaf_node: np.ndarray  # (leaves,) int32: the node of each leaf
    leaf_start: np.ndarray  # (leaves + 1,) int64: its stretch of `index`, leaves in order of their stretches


class TreeGrower:
    """Grows trees over the same rows, holding the working memory between them."""

    def __init__(self, binned: BinnedRows, rules: GrowthRules, n_threads: int) -> None:
        self.binned, self.rules, self.n_threads = binned, rules, n_threads
        n, width = binned.rows.shape
        slots, leaves, n_features = width * STRIDE, rules.max_leaf_nodes, binned.borders.n_features
        self.index = np.empty(n, dtype=np.uint32)
        self._packed = np.zeros(n, dtype=np.int64)
        self._other = np.empty(n, dtype=np.uint32)
        self._goes_left = np.empty(n, dtype=np.uint8)
        self._histograms = np.empty((leaves, slots), dtype=np.int64)
        self._partial = np.empty((n_threads, slots if n_threads > 1 else 0), dtype=np.int64)
        self._tiles = np.empty((n_threads, TILE * width // 8), dtype=np.uint64)
        self._values = np.empty((n_threads, TILE), dtype=np.int64)
        self._candidates = np.empty((leaves, n_features, CANDIDATE))

    def grow(
        self, gradients: np.ndarray, hessians: np.ndarray, sample: np.ndarray | None, allowed: np.ndarray
    ) -> GrownTree:
        """One tree. gradients, hessians: float32, one a row; `sample`: the rows to use, rising; `allowed`: features.

        Afterwards `index[leaf_start[k]:leaf_start[k + 1]]` are the rows of leaf k.
        """
        binned, rules = self.binned, self.rules
        rows = np.arange(binned.n_rows, dtype=np.uint32) if sample is None else sample.astype(np.uint32)
        index = self.index[: len(rows)]
        index[:] = rows
        scales, squares = _scales(gradients, hessians, index)
        pack_rows(gradients, hessians, index, scales, self._packed)
        nodes = 2 * rules.max_leaf_nodes - 1
        feature, left = np.full(nodes, -1, np.int32), np.zeros(nodes, np.int32)
        split_bin, missing_left = np.zeros(nodes, np.uint8), np.zeros(nodes, np.bool_)
        gain, count = np.zeros(nodes), np.zeros(nodes, np.int64)
        leaf_node, leaf_start, leaf_stop = (np.zeros(rules.max_leaf_nodes, np.int64) for _ in range(3))
        n_leaves = _grow(
            binned.rows.view(np.uint64),
            binned.rows,
            self._packed,
            index,
            self._other,
            self._goes_left,
            self._histograms,
            self._partial,
            self._tiles,
            self._values,
            self._candidates,
            binned.borders.n_bins,
            binned.borders.has_missing,
            allowed,
            scales,
            squares,
            rules.growth == "level",
            rules.max_depth,
            rules.min_samples_leaf,
            rules.min_hessian,
            rules.min_gain,
            rules.max_impurity,
            rules.l2_regularization,
            feature,
            split_bin,
            missing_left,
            left,
            gain,
            count,
            leaf_node,
            leaf_start,
            leaf_stop,
        )
        used = 2 * n_leaves - 1
        order = np.argsort(leaf_start[:n_leaves])
        return GrownTree(
            feature[:used],
            split_bin[:used],
            missing_left[:used],
            left[:used],
            gain[:used],
            count[:used],
            leaf_node[order].astype(np.int32),
            np.append(leaf_start[order], len(index)),
        )


@kernel
def _scales(gradients: np.ndarray, hessians: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float]:
    """(units a gradient, units a hessian) so that no sum can leave its 32 bits; and the sum of squared gradients."""
    total_g, total_h, squares = 0.0, 0.0, 0.0
    for k in range(len(index)):
        gradient = np.float64(gradients[index[k]])
        total_g += abs(gradient)
        total_h += np.float64(hessians[index[k]])
        squares += gradient * gradient
    room = 2.0**31 - 2.0 * len(index) - 2.0  # rounding may add one unit a row
    scales = np.empty(2)
    scales[0] = room / total_g if total_g > 0 else 1.0
    scales[1] = room / total_h if total_h > 0 else 1.0
    return scales, squares


@kernel
def _grow(
    rows: np.ndarray,
    bins: np.ndarray,
    packed: np.ndarray,
    index: np.ndarray,
    other: np.ndarray,
    goes_left: np.ndarray,
    histograms: np.ndarray,
    partial: np.ndarray,
    tiles: np.ndarray,
    values: np.ndarray,
    candidates: np.ndarray,
    n_bins: np.ndarray,
    has_missing: np.ndarray,
    allowed: np.ndarray,
    scales: np.ndarray,
    squares: float,
    by_level: bool,
    max_depth: int,
    min_samples: int,
    min_hessian: float,
    min_gain: float,
    max_impurity: float,
    l2: float,
    feature: np.ndarray,
    split_bin: np.ndarray,
    missing_left: np.ndarray,
    left: np.ndarray,
    gain: np.ndarray,
    count: np.ndarray,
    leaf_node: np.ndarray,
    leaf_start: np.ndarray,
    leaf_stop: np.ndarray,
) -> int:
    """Fill the arrays of a tree; returns the number of leaves. Leaf k owns histograms[k] and candidates[k]."""
    max_leaves = len(leaf_node)
    best = np.full(max_leaves, -1, np.int64)  # the feature each leaf would be cut by
    depth = np.zeros(max_leaves, np.int64)
    largest = np.int64(1)
    for k in range(len(index)):
        largest = max(largest, hessian_of(packed[index[k]]))
    n = len(index)
    leaf_stop[0], count[0] = n, n
    shared = fill_histogram(rows, packed, index, histograms[0], partial, tiles, values)
    scan_children(histograms, partial, shared, 0, 0, n_bins, has_missing, allowed, scales, l2, min_hessian, candidates)
    best[0] = best_feature(candidates[0])
    impurity = _impurity_of_root(histograms[0], n_bins[0], scales, squares, n)
    leaves, nodes = 1, 1
    while leaves < max_leaves and (max_impurity <= 0.0 or impurity > max_impurity):
        leaf = _next_leaf(candidates, best, depth, leaves, by_level, max_depth, min_gain)
        if leaf < 0:
            break
        start, stop, f = leaf_start[leaf], leaf_stop[leaf], best[leaf]
        own, column = index[start:stop], bins[:, f]
        if _too_few(candidates[leaf, f], histograms[leaf], f, has_missing[f], min_samples, largest, own, column):
            _count_out(candidates[leaf, f], histograms[leaf], f, n_bins[f], has_missing[f], own, column,
                       scales, l2, min_hessian, min_samples)  # fmt: skip
            best[leaf] = best_feature(candidates[leaf])
            continue
        at, to_left = int(candidates[leaf, f, BIN]), candidates[leaf, f, MISSING_LEFT] > 0
        middle = start + _partition(own, column, at, to_left, other[start:stop], goes_left[start:stop], len(partial))
        node, new = leaf_node[leaf], leaves
        feature[node], split_bin[node], missing_left[node] = f, at, to_left
        gain[node], left[node] = candidates[leaf, f, GAIN], nodes
        impurity -= gain[node] / (2.0 * n)
        # The new leaf slot takes the smaller child, the old one, with the parent's histogram, becomes the larger.
        small_left = middle - start <= stop - middle
        small, large = nodes if small_left else nodes + 1, nodes + 1 if small_left else nodes
        leaf_node[new], leaf_node[leaf] = small, large
        if small_left:
            leaf_start[new], leaf_stop[new], leaf_start[leaf] = start, middle, middle
        else:
            leaf_start[new], leaf_stop[new], leaf_stop[leaf] = middle, stop, middle
        for child in (new, leaf):
            count[leaf_node[child]] = leaf_stop[child] - leaf_start[child]
            depth[child] = depth[leaf] if child == leaf else depth[leaf] + 1
        depth[leaf] += 1
        leaves += 1
        nodes += 2
        if leaves < max_leaves:
            piece = index[leaf_start[new] : leaf_stop[new]]
            shared = fill_histogram(rows, packed, piece, histograms[new], partial, tiles, values)
            scan_children(
                histograms,
                partial,
                shared,
                new,
                leaf,
                n_bins,
                has_missing,
                allowed,
                scales,
                l2,
                min_hessian,
                candidates,
            )
            best[new], best[leaf] = best_feature(candidates[new]), best_feature(candidates[leaf])
    return leaves


@kernel
def _impurity_of_root(histogram: np.ndarray, n_bins: int, scales: np.ndarray, squares: float, n: int) -> float:
    """mean 1/2 (g - mean)^2 over the rows, for unit hessians."""
    total = histogram[MISSING]
    for b in range(n_bins):
        total += histogram[b]
    gradient = (total >> np.int64(32)) / scales[0]
    impurity: float = (squares - gradient * gradient / n) / (2.0 * n)
    return impurity


@kernel
def _next_leaf(
    candidates: np.ndarray,
    best: np.ndarray,
    depth: np.ndarray,
    leaves: int,
    by_level: bool,
    max_depth: int,
    min_gain: float,
) -> int:
    """The leaf to cut next: of the largest gain, or, level by level, of the least depth; -1 if none may be."""
    chosen = -1
    for leaf in range(leaves):
        if best[leaf] < 0 or (max_depth > 0 and depth[leaf] >= max_depth):
            continue
        own = candidates[leaf, best[leaf], GAIN]
        if own <= min_gain:
            continue
        if chosen < 0:
            chosen = leaf
        elif by_level and depth[leaf] != depth[chosen]:
            chosen = leaf if depth[leaf] < depth[chosen] else chosen
        elif own > candidates[chosen, best[chosen], GAIN]:
            chosen = leaf
    return chosen


@kernel
def _too_few(
    candidate: np.ndarray,
    histogram: np.ndarray,
    f: int,
    has_missing: bool,
    min_samples: int,
    largest: np.int64,
    index: np.ndarray,
    column: np.ndarray,
) -> bool:
    """Whether a side would keep fewer than `min_samples` rows. `largest`: the largest hessian of a row, in units."""
    if min_samples <= 1:
        return False
    own, at, to_left = histogram[f * STRIDE : (f + 1) * STRIDE], int(candidate[BIN]), candidate[MISSING_LEFT] > 0
    left, total = np.int64(0), np.int64(0)
    for b in range(MISSING):
        total += own[b]
        left += own[b] if b <= at else np.int64(0)
    if has_missing:
        total += own[MISSING]
        left += own[MISSING] if to_left else np.int64(0)
    # No row has more than the largest hessian, so a heavy side has many rows: no need to count.
    least = np.int64(min_samples) * largest
    if hessian_of(left) >= least and hessian_of(total) - hessian_of(left) >= least:
        return False
    n_left = 0
    for k in range(len(index)):
        b = column[index[k]]
        n_left += 1 if (to_left if b == MISSING else b <= at) else 0
    return n_left < min_samples or len(index) - n_left < min_samples


@kernel
def _count_out(
    candidate: np.ndarray,
    histogram: np.ndarray,
    f: int,
    n_bins: int,
    has_missing: bool,
    index: np.ndarray,
    column: np.ndarray,
    scales: np.ndarray,
    l2: float,
    min_hessian: float,
    min_samples: int,
) -> None:
    """Look for the best cut of a feature again, now with the exact number of rows in each bin."""
    counts = np.zeros(MISSING + 1, np.int64)
    for k in range(len(index)):
        counts[column[index[k]]] += 1
    own = histogram[f * STRIDE : (f + 1) * STRIDE]
    scan_feature(own, n_bins, has_missing, scales, l2, min_hessian, counts, min_samples, candidate)


@kernel
def _partition(
    index: np.ndarray,
    column: np.ndarray,
    at: int,
    to_left: bool,
    other: np.ndarray,
    goes_left: np.ndarray,
    workers: int,
) -> int:
    """Put the rows that go left before the others, both in their order; returns how many go left."""
    if workers > 1 and len(index) >= _WORTH_SHARING:
        return _partition_shared(index, column, at, to_left, other, goes_left, workers)
    n_left, n_right = 0, 0
    for k in range(len(index)):
        row = index[k]
        b = column[row]
        if to_left if b == MISSING else b <= at:
            index[n_left] = row
            n_left += 1
        else:
            other[n_right] = row
            n_right += 1
    for k in range(n_right):
        index[n_left + k] = other[k]
    return n_left


@parallel_kernel
def _partition_shared(
    index: np.ndarray,
    column: np.ndarray,
    at: int,
    to_left: bool,
    other: np.ndarray,
    goes_left: np.ndarray,
    workers: int,
) -> int:
    """The same in shares: decide and count, then each worker writes to places that are known to be its own."""
    n = len(index)
    lefts = np.zeros(workers + 1, np.int64)
    for worker in numba.prange(workers):
        low, high = worker * n // workers, (worker + 1) * n // workers
        found = 0
        for k in range(low, high):
            b = column[index[k]]
            goes = to_left if b == MISSING else b <= at
            goes_left[k] = goes
            found += 1 if goes else 0
        lefts[worker + 1] = found
    for worker in range(workers):
        lefts[worker + 1] += lefts[worker]
    n_left: int = lefts[workers]
    for worker in numba.prange(workers):
        low, high = worker * n // workers, (worker + 1) * n // workers
        to_l, to_r = lefts[worker], n_left + low - lefts[worker]
        for k in range(low, high):
            if goes_left[k]:
                other[to_l] = index[k]
                to_l += 1
            else:
                other[to_r] = index[k]
                to_r += 1
    for k in range(n):  # one thread copies faster than several wake up
        index[k] = other[k]
    return n_left
