"""Leaf-wise and level-wise growth by several ranks: the tree of `training/leafwise.py`, in fewer and larger messages.

What costs is the number of messages. So leaves that are likely to be split soon are expanded together with the one that
is split next: their children's histograms are summed in one message, the best splits of all of these are exchanged in
the next, and a third has the rows that each would send left. The tree is then grown as on one machine, by what is known
by now. A leaf that is expanded and in the end not split has cost time, and changes nothing.

`min_samples_leaf` needs no counting at first: all rows of a leaf are partitioned by its best split anyway. Where that
leaves too few rows on a side, rows are counted for the features with the largest gains, some of each rank at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.sharding.stages import Candidates, Stages
from podium.learners.trees.training.histograms import gradient_of
from podium.learners.trees.training.leafwise import next_leaf
from podium.learners.trees.training.splitting import GAIN
from podium.learners.trees.training.workspace import Leaves, Limits, Nodes, bound_values, make_leaves, write_node

_AHEAD = 1.0  # of the splits that are left, how many are looked ahead
_COUNTED, _MOST_COUNTED = 8, 512  # features of each rank that are counted at a time: at first, and in the end


@dataclass(eq=False)
class Branches:
    """All nodes that have been evaluated or may be: those of the tree, and children of leaves that it may split."""

    leaves: Leaves
    size: Array  # (branches,) int64: rows of all ranks
    best: Candidates
    n_left: Array  # (branches, 2) int64: rows that the best split sends left, of this rank and of all
    is_sure: Array  # (branches,) bool: the best split leaves enough rows on both sides
    is_known: Array  # (branches,) bool: evaluated
    child: Array  # (branches,) int64: the left one, before the right one; -1: none yet
    count: int = 1

    @classmethod
    def make(cls, capacity: int, n_local: int, n_rows: int) -> Branches:
        best, leaves = Candidates.make(capacity), make_leaves(capacity, n_local)
        leaves.histogram[0] = -1
        size, child = np.zeros(capacity, np.int64), np.full(capacity, -1, np.int64)
        size[0] = n_rows
        sure, known = np.zeros((2, capacity), np.bool_)
        return cls(leaves, size, best, np.zeros((capacity, 2), np.int64), sure, known, child)

    def open_children(self, branch: int, sign: float) -> None:
        """Two new branches, each with its range of this rank's rows; sign: of the feature that splits them."""
        if self.child[branch] >= 0:
            return
        leaves, left, right = self.leaves, self.count, self.count + 1
        local, everywhere = self.n_left[branch].tolist()
        middle = leaves.start[branch] + local
        leaves.start[left], leaves.stop[left] = leaves.start[branch], middle
        leaves.start[right], leaves.stop[right] = middle, leaves.stop[branch]
        self.size[left], self.size[right] = everywhere, self.size[branch] - everywhere
        for child in (left, right):
            leaves.depth[child] = leaves.depth[branch] + 1
            leaves.low[child], leaves.high[child] = leaves.low[branch], leaves.high[branch]
        bound_values(leaves, left, right, sign, self.best.split[branch])
        self.child[branch], self.count = left, self.count + 2

    def children(self, branch: int) -> tuple[int, int]:
        """The smaller child, as all ranks count, and the larger one."""
        left = int(self.child[branch])
        return (left, left + 1) if self.size[left] <= self.size[left + 1] else (left + 1, left)


@dataclass(eq=False)
class Pool:
    """The histograms of a rank's columns: which are free, and which branch has which."""

    leaves: Leaves
    free: list[int] = field(default_factory=list)

    def acquire(self, branches: Branches, needed: set[int]) -> int:
        """A free one, or that of the branch with the smallest gain that is not needed now."""
        if self.free:
            return self.free.pop()
        histogram, gain = self.leaves.histogram[: branches.count], self.leaves.gain[: branches.count]
        owners = [b for b in np.flatnonzero(histogram >= 0).tolist() if b not in needed]
        evicted = min(owners, key=lambda branch: float(gain[branch]))
        number, self.leaves.histogram[evicted] = int(self.leaves.histogram[evicted]), -1
        return number


class LeafwiseGrowth:
    """Grows one tree after the other, all ranks alike."""

    def __init__(self, stages: Stages, most: int, pool: int) -> None:
        self.stages, self.most, self.pool_size = stages, most, pool
        self._capacity = 4 * most + 1  # twice what the tree itself needs
        self._width = max(1, min(stages.batch, pool // 2))
        stages.give_pool(pool, self._capacity)

    def grow(
        self,
        stream: np.uint64 | None,
        allowed: Array,
        scales: Array,
        impurity: tuple[float, tuple[float, float]],
        nodes: Nodes,
        n_local: int,
    ) -> tuple[int, Leaves]:
        """Fill the tree; returns the number of leaves, and these. impurity: that of the root, and the spread."""
        self.stream, self.allowed, self.scales = stream, allowed, scales
        self.branches = branches = Branches.make(self._capacity, n_local, int(nodes.size[0]))
        self.pool = Pool(branches.leaves, list(range(self.pool_size))[::-1])
        limits, (left_over, (_, weight)) = self.stages.limits, impurity
        self.of_leaf = np.zeros(self.most, np.int64)  # the branch of each leaf of the tree
        leaves, count = branches.leaves, 1
        self._evaluate([0])
        while count < self.most and (limits.max_impurity <= 0.0 or left_over > limits.max_impurity):
            now = self.of_leaf[:count]
            leaf = int(next_leaf(leaves.gain[now], leaves.depth[now], count, limits))
            if leaf < 0:
                break
            branch = int(now[leaf])
            if not branches.is_sure[branch]:
                self._count_rows(branch)
                continue
            left_over -= branches.best.split[branch, GAIN] / (2.0 * weight)
            self._split(nodes, leaf, count)
            count += 1
            if count < self.most and self._may_split(branches.child[branch]):
                self._expand(branch, count)
        return count, Leaves(*(array[self.of_leaf[:count]] for array in leaves))

    def _split(self, nodes: Nodes, leaf: int, new: int) -> None:
        """Split a leaf of the tree; its smaller child becomes leaf `new`."""
        branches, branch = self.branches, int(self.of_leaf[leaf])
        leaves, node, child = branches.leaves, int(branches.leaves.node[branch]), 2 * new - 1
        f = int(branches.best.feature[branch])
        nodes.feature[node], nodes.sides[node] = f, branches.best.sides[branch]
        nodes.column[node] = self.stages.columns_of(np.array([f]))[0]
        write_node(nodes, node, child, int(branches.n_left[branch, 1]), branches.best.split[branch])
        self._open(branch)
        left = int(branches.child[branch])
        leaves.node[left], leaves.node[left + 1] = child, child + 1
        self.of_leaf[new], self.of_leaf[leaf] = branches.children(branch)

    def _open(self, branch: int) -> None:
        layout, f = self.stages.layout, int(self.branches.best.feature[branch])
        self.branches.open_children(branch, 0.0 if layout is None else float(layout.signs[f]))

    def _may_split(self, branch: int) -> bool:
        """Whether it is not known yet how to split a branch, and its depth allows it."""
        deepest = self.stages.limits.max_depth
        return not self.branches.is_known[branch] and (deepest == 0 or self.branches.leaves.depth[branch] < deepest)

    # --- expanding: the best splits of the children of several leaves ------------------------------------------------

    def _expand(self, branch: int, count: int) -> None:
        """Evaluate the children of a leaf that was split, and those of leaves that are likely to be."""
        chosen = [branch, *self._look_ahead(count)]
        for ahead in chosen[1:]:
            self._open(ahead)
        self._evaluate(chosen)

    def _look_ahead(self, count: int) -> list[int]:
        """Grow on as if leaves whose children are not known had none that gain; those of them that would be split.

        Drawn thresholds depend on the number of a node, which is known once its parent is split.
        """
        branches, limits = self.branches, self.stages.limits
        room = min(self._width - 1, (self._capacity - branches.count) // 2 - (self.most - count))
        if self.stream is not None or room <= 0:
            return []
        facts = branches.child, branches.is_known, branches.is_sure, branches.leaves.gain, branches.leaves.depth
        turns = max(1, int(_AHEAD * (self.most - count)))
        chosen: list[int] = look_ahead(self.of_leaf[:count], facts, limits, turns, room).tolist()
        return chosen

    def _evaluate(self, chosen: Sequence[int]) -> None:
        """Find the best splits of the children of branches, or of the root, and partition their rows by these."""
        branches, leaves = self.branches, self.branches.leaves
        if branches.is_known[0]:
            pairs = [branches.children(branch) for branch in chosen]
            self._build(chosen, [small for small, _ in pairs])
            for branch, (_, large) in zip(chosen, pairs):
                leaves.histogram[large], leaves.histogram[branch] = leaves.histogram[branch], -1
        else:
            pairs = [(0, 0)]
            self._build([], [0])
        self.stages.scan(self.stream, self.allowed, self.scales, leaves, pairs)
        new = sorted({branch for pair in pairs for branch in pair})
        self._note(new, self.stages.find_best(self.stream, self.scales, leaves, new))

    def _build(self, parents: Sequence[int], new: Sequence[int]) -> None:
        """The histograms of new branches, and again those of parents that were evicted."""
        histogram, needed = self.branches.leaves.histogram, {*parents, *new}
        missing = [branch for branch in [*parents, *new] if histogram[branch] < 0]
        for branch in missing:
            histogram[branch] = self.pool.acquire(self.branches, needed)
        self.stages.build(self.branches.leaves, missing, histogram[missing].tolist())

    def _note(self, new: Sequence[int], best: Candidates, is_counted: bool = False) -> None:
        """Write down the best splits of branches, and how many rows these send left."""
        branches, leaves, least = self.branches, self.branches.leaves, self.stages.limits.min_samples
        leaves.best[new], leaves.gain[new] = best.feature, np.where(best.feature >= 0, best.bound, 0.0)
        branches.best.put(new, best)
        local, everywhere = self.stages.partition(leaves, new, best)
        branches.n_left[new, 0], branches.n_left[new, 1] = local, everywhere
        enough = np.minimum(everywhere, branches.size[new] - everywhere) >= least
        branches.is_sure[new] = is_counted | (enough & (best.split[:, GAIN] >= best.bound))
        branches.is_known[new] = True

    # --- counting: where a split leaves too few rows on a side -------------------------------------------------------

    def _count_rows(self, branch: int) -> None:
        """Find the best split of a branch that leaves enough rows on both sides.

        Gains without counts are upper bounds: features are counted from the largest on, until one that was counted
        reaches the bounds of all others.
        """
        stages, leaves, collective = self.stages, self.branches.leaves, self.stages.shard.collective
        self._build([branch], [])
        bounds, best, most = stages.shared.gains[branch].copy(), Candidates.make(1), _COUNTED
        while True:
            best = best.first(stages.shard)
            next_ones, most = _largest_first(bounds, best)[:most], min(2 * most, _MOST_COUNTED)
            features = np.concatenate(collective.gather(next_ones))
            if len(features) == 0:
                break
            counts = stages.count_rows(leaves, branch, features)[stages.has_feature(features)]
            counted = stages.split_counted(self.stream, self.scales, leaves, branch, next_ones, counts)
            best, bounds[next_ones] = best.better(counted), 0.0
        self._note([branch], best, is_counted=True)


def _largest_first(bounds: Array, best: Candidates) -> Array:
    """The features whose bounds come before a gain that was counted, the largest first."""
    gain, first = float(best.bound[0]) if best.feature[0] >= 0 else 0.0, int(best.feature[0])
    ahead = np.flatnonzero((bounds > gain) | ((bounds == gain) & (bounds > 0.0) & (np.arange(len(bounds)) < first)))
    return np.asarray(ahead[np.argsort(-bounds[ahead], kind="stable")])


@kernel
def look_ahead(of_leaf: Array, facts: tuple[Array, ...], limits: Limits, turns: int, room: int) -> Array:
    """The branches that would be split in so many turns and whose children are not known, no more than there is room.

    of_leaf: the branch of each leaf of the tree so far.
    """
    child, is_known, is_sure, gains, depths = facts
    count, n_chosen = len(of_leaf), 0
    frontier, chosen = np.empty(count + 2 * turns, np.int64), np.empty(room, np.int64)
    gain, depth = np.empty(len(frontier)), np.empty(len(frontier), np.int64)
    frontier[:count] = of_leaf
    for leaf in range(count):
        gain[leaf], depth[leaf] = gains[of_leaf[leaf]], depths[of_leaf[leaf]]
    for _ in range(turns):
        leaf = next_leaf(gain, depth, count, limits)
        if leaf < 0 or n_chosen == room:
            break
        branch, gain[leaf] = frontier[leaf], 0.0
        first = child[branch]
        if first >= 0 and is_known[first]:
            for new in range(first, first + 2):
                frontier[count], gain[count], depth[count] = new, gains[new], depths[new]
                count += 1
        elif is_sure[branch] and (limits.max_depth == 0 or depth[leaf] + 1 < limits.max_depth):
            chosen[n_chosen] = branch
            n_chosen += 1
    return chosen[:n_chosen]


@kernel
def sum_gradients(packed: Array, rows: Array) -> np.int64:
    """The gradients of some rows, added up, in units."""
    total = np.int64(0)
    for k in range(len(rows)):
        total += np.int64(gradient_of(packed[rows[k]]))
    return total
