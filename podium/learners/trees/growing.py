"""Growing: one tree from binned rows and their derivatives, by a team of threads.

How the tree grows, leaf by leaf (`leafwise.py`) or a level at a time by one cut (`oblivious.py`), is a kernel that all
threads run.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from podium._numba import kernel
from podium.learners.trees.binning import MISSING, WORD, BinnedRows
from podium.learners.trees.features import SCRATCH
from podium.learners.trees.histograms import BLOCK, STRIDE, TILE, pack_rows
from podium.learners.trees.leafwise import grow_leaves
from podium.learners.trees.oblivious import grow_oblivious
from podium.learners.trees.team import call_off, clear, make_board
from podium.learners.trees.workbench import Bins, Leaves, Limits, Nodes, Room, make_leaves, make_nodes

POOL = 2**30  # bytes of histograms; leaves beyond that give theirs away, and are added up again when they are cut


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
    bin: np.ndarray  # (nodes,) uint8: rows with at most this bin go left, unless the feature is a category
    missing_left: np.ndarray  # (nodes,) bool
    column: np.ndarray  # (nodes,) int32: where the feature's slots are
    sides: np.ndarray  # (nodes, 256) uint8: of every slot of that column, 1 for right
    left: np.ndarray  # (nodes,) int32; leaves are their own
    gain: np.ndarray  # (nodes,) float64
    count: np.ndarray  # (nodes,) int64: rows
    leaf_node: np.ndarray  # (leaves,) int32: the node of each leaf
    leaf_start: np.ndarray  # (leaves + 1,) int64: its stretch of `index`, leaves in order of their stretches
    low: np.ndarray  # (leaves,) float64: the least value a leaf may have
    high: np.ndarray  # (leaves,) float64: the largest


class TreeGrower:
    """Grows trees over the same rows, holding the working memory between them."""

    def __init__(self, binned: BinnedRows, rules: GrowthRules, n_threads: int, pool_bytes: int = POOL) -> None:
        self.binned, self.rules = binned, rules
        n, words = binned.rows.shape
        slots, n_features = words * WORD * STRIDE, binned.borders.n_features
        # No more leaves than rows can fill.
        self._most = leaves = _round_leaves(max(2, min(rules.max_leaf_nodes, n // rules.min_samples_leaf)), rules)
        pool = leaves if rules.growth == "oblivious" else min(leaves, max(3, pool_bytes // (8 * slots)))
        borders = binned.borders
        self._bins = Bins(binned.rows, binned.columns, binned.n_slots, borders.n_bins, borders.has_missing)
        self._room = Room(
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.int64),
            np.empty((pool, slots), dtype=np.int64),
            np.empty((leaves, n_features)),
            np.empty((n_threads, slots if n_threads > 1 else 0), dtype=np.int64),
            np.empty((n_threads, -(-words * WORD // BLOCK) * TILE * BLOCK // WORD), dtype=np.uint64),
            np.empty((n_threads, TILE), dtype=np.int64),
            np.empty((n_threads, SCRATCH), dtype=np.int64),
            np.empty((n_threads, 8), dtype=np.int64),
            make_board(),
        )
        self._can_be_cut = None if binned.views is None else _can_be_cut(binned, rules.min_samples_leaf)
        self._others, self._tried = n_threads - 1, False
        self._threads = ThreadPoolExecutor(max(1, self._others), "podium-tree")  # starts them when asked to
        self._limits = Limits(
            rules.growth == "level",
            rules.max_depth,
            rules.min_samples_leaf,
            float(rules.min_gain),
            float(rules.max_impurity),
        )

    @property
    def index(self) -> np.ndarray:
        """The rows of the last tree, leaf after leaf."""
        return self._room.sorted

    def grow(
        self, gradients: np.ndarray, hessians: np.ndarray, sample: np.ndarray | None, allowed: np.ndarray
    ) -> GrownTree:
        """One tree. gradients, hessians: float32, one a row; `sample`: the rows to use, rising; `allowed`: features.

        Afterwards `index[leaf_start[k]:leaf_start[k + 1]]` are the rows of leaf k.
        """
        n = self.binned.n_rows if sample is None else len(sample)
        self.index[:n] = np.arange(n, dtype=np.uint32) if sample is None else sample
        scales, squares = _scales(gradients, hessians, self.index[:n])
        scales[2] = self.rules.l2_regularization * scales[1]
        scales[3] = max(self.rules.min_hessian * scales[1], 1.0)  # a side with rows has at least one unit
        largest = pack_rows(gradients, hessians, scales, self._room.packed)
        if self._can_be_cut is not None and self.rules.growth != "oblivious":
            allowed = allowed & self._can_be_cut
        nodes, leaves = make_nodes(2 * self._most - 1, n), make_leaves(self._most, n)
        count = self._run(allowed, scales, squares, largest, n, nodes, leaves)
        order = np.lexsort((leaves.stop[:count], leaves.start[:count]))  # a leaf without rows before its neighbour
        units = scales[1] / scales[0]
        used = slice(0, 2 * count - 1)
        return GrownTree(
            nodes.feature[used],
            nodes.bin[used],
            nodes.missing_left[used],
            nodes.column[used],
            nodes.sides[used],
            nodes.left[used],
            nodes.gain[used],
            nodes.size[used],
            leaves.node[order].astype(np.int32),
            np.append(leaves.start[order], n),
            leaves.low[order] * units,
            leaves.high[order] * units,
        )

    def _run(
        self,
        allowed: np.ndarray,
        scales: np.ndarray,
        squares: float,
        largest: np.int64,
        n: int,
        nodes: Nodes,
        leaves: Leaves,
    ) -> int:
        """The kernel of the growth on this thread and on the others."""
        board, numbers = self._room.board, range(1, self._others + 1)

        def work(worker: int) -> int:
            views, bins, room, limits = self.binned.views, self._bins, self._room, self._limits
            if self.rules.growth == "oblivious":
                return grow_oblivious(views, bins, room, limits, allowed, scales, nodes, leaves, worker)
            return grow_leaves(views, bins, room, limits, allowed, scales, squares, largest, n, nodes, leaves, worker)

        if not self._tried:
            # Whatever could go wrong goes wrong here, where nobody waits for it.
            call_off(board)
            work(0)
            self._tried = True
        clear(board)
        helpers: list[Future[int]] = []
        try:
            helpers.extend(self._threads.submit(work, number) for number in numbers)
            return work(0)
        finally:
            call_off(board)
            for helper in helpers:
                helper.result()


def _can_be_cut(binned: BinnedRows, min_samples_leaf: int) -> np.ndarray:
    """Which features leave enough rows on both sides of a cut, in all rows.

    Of sparse features, many do not, and a histogram, which knows no counts, would show large gains for them.
    """
    views, n_bins, fewer = binned.views, binned.borders.n_bins, np.zeros(binned.borders.n_features, dtype=np.int64)
    assert views is not None
    for column, slots in enumerate(binned.columns):
        counts = np.bincount(slots, minlength=MISSING + 1)
        members = views.members[views.starts[column] : views.starts[column + 1]]
        _count_fewer(counts, members, views.offset, views.usual, n_bins, fewer)
    return np.asarray(fewer >= min_samples_leaf)


@kernel
def _count_fewer(
    counts: np.ndarray,
    members: np.ndarray,
    offset: np.ndarray,
    usual: np.ndarray,
    n_bins: np.ndarray,
    fewer: np.ndarray,
) -> None:
    """fewer[f] = the rows outside of the most frequent bin: one side of a cut has no more.

    counts: of the slots of one column, of which `members` are the features; offset, usual: as in `Views`.
    """
    n = counts.sum()
    for f in members:
        first, last = (0, len(counts)) if usual[f] < 0 else (offset[f], offset[f] + n_bins[f] - 1)
        away, most = np.int64(0), np.int64(0)
        for slot in range(first, last):
            away += counts[slot]
            most = max(most, counts[slot])
        fewer[f] = n - most if usual[f] < 0 else min(n - most, away)


def _round_leaves(most: int, rules: GrowthRules) -> int:
    """An oblivious tree has two to the power of its levels."""
    return 2 ** (most.bit_length() - 1) if rules.growth == "oblivious" else most


@kernel
def _scales(gradients: np.ndarray, hessians: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, float]:
    """(units a gradient, units a hessian, room for two more) so that no sum can leave its 32 bits; sum of squares."""
    total_g, total_h, squares = 0.0, 0.0, 0.0
    for k in range(len(index)):
        gradient = np.float64(gradients[index[k]])
        total_g += abs(gradient)
        total_h += np.float64(hessians[index[k]])
        squares += gradient * gradient
    room = 2.0**31 - 2.0 * len(index) - 2.0  # rounding may add one unit a row
    scales = np.zeros(4)
    scales[0] = room / total_g if total_g > 0 else 1.0
    scales[1] = room / total_h if total_h > 0 else 1.0
    return scales, squares
