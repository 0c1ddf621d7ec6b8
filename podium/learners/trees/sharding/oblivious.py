"""Oblivious trees by several ranks: three messages per level.

The first has the histograms of the smaller children of all leaves, the second each rank's best split for the level
and what it does in every leaf, the third the rows that go left.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.learners.trees.sharding.stages import Candidates, Stages
from podium.learners.trees.training.binning import FeatureLayout
from podium.learners.trees.training.histograms import STRIDE, subtract_words
from podium.learners.trees.training.oblivious import evaluate_leaf, fill_level, find_level_split, write_level
from podium.learners.trees.training.splitting import GAIN, SPLIT, best_feature
from podium.learners.trees.training.workers import barrier, is_cancelled
from podium.learners.trees.training.workspace import (
    ONE,
    Bins,
    Leaves,
    Nodes,
    Workspace,
    make_leaves,
    write_children,
    write_node,
)


class ObliviousGrowth:
    """Grows one tree after the other, all ranks alike."""

    def __init__(self, stages: Stages, most: int, pool: int) -> None:
        self.stages, self.most = stages, most
        stages.give_pool(pool, 1)

    def grow(
        self, stream: np.uint64 | None, allowed: Array, scales: Array, nodes: Nodes, n_local: int
    ) -> tuple[int, Leaves]:
        """Fill the tree, level by level; returns the number of leaves, and these."""
        stages, leaves, count, histograms = self.stages, make_leaves(self.most, n_local), 1, 1
        mine = allowed & stages.has_feature(np.arange(len(allowed)))
        stages.build(leaves, [0], [0])
        while 2 * count <= self.most:
            best = self._find_best(stream, mine, scales, leaves, count)
            f = int(best.feature[0])
            if f < 0 or best.bound[0] <= stages.limits.min_gain:
                break
            write_level(stages.layout, nodes, leaves, count, f, best.sides[0])
            self._split_leaves(nodes, leaves, count, best)
            new = [leaf for leaf in range(count, 2 * count) if nodes.size[leaves.node[leaf]] > 0]
            leaves.histogram[new] = np.arange(histograms, histograms + len(new))
            histograms, count = histograms + len(new), 2 * count
            if 2 * count <= self.most:
                self._subtract(leaves, new, count // 2)
        return count, leaves

    def _find_best(
        self, stream: np.uint64 | None, mine: Array, scales: Array, leaves: Leaves, count: int
    ) -> Candidates:
        """The best split for all leaves together; of each leaf its gain and the middle of its values."""
        stages, workspace, here = self.stages, self.stages.shared, Candidates.make(count)

        def work(worker: int) -> None:
            scan_level(stages.layout, stream, stages.bins, workspace, mine, scales, leaves, count, worker)

        stages.run_workers(work)
        f = int(best_feature(workspace.gains[0]))
        if f >= 0:
            here.feature[:], here.bound[:] = f, workspace.gains[0, f]
            describe_level(
                stages.layout, stream, stages.bins, workspace, scales, leaves, count, f, here.split, here.sides[0]
            )
            here.sides[:] = here.sides[0]
        return here.first(stages.shard)

    def _split_leaves(self, nodes: Nodes, leaves: Leaves, count: int, best: Candidates) -> None:
        """Partition all leaves; leaf `count` + k is the smaller child of leaf k."""
        stages, layout = self.stages, self.stages.layout
        local, everywhere = stages.partition(leaves, range(count), best)
        sign = 0.0 if layout is None else float(layout.signs[best.feature[0]])
        for leaf in range(count):
            node, new = int(leaves.node[leaf]), count + leaf
            write_node(nodes, node, 2 * new - 1, int(everywhere[leaf]), best.split[leaf])
            is_left = bool(2 * everywhere[leaf] <= nodes.size[node])
            write_children(leaves, leaf, new, 2 * new - 1, int(local[leaf]), is_left, sign, best.split[leaf])

    def _subtract(self, leaves: Leaves, new: list[int], count: int) -> None:
        """The histograms of new leaves, from which those of their siblings follow."""
        stages = self.stages
        stages.build(leaves, new, leaves.histogram[new].tolist())
        histograms, before = stages.shared.histograms, stages.shared.before
        for leaf in new:
            child, rest = histograms[leaves.histogram[leaf]], histograms[leaves.histogram[leaf - count]]
            subtract_words(child, rest, before, *stages.words, stages.bins.n_slots)


# --- kernels -----------------------------------------------------------------------------------------------------


@kernel
def scan_level(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    mine: Array,
    scales: Array,
    leaves: Leaves,
    count: int,
    worker: int,
) -> None:
    """The gains of a rank's features in all leaves together. The last barrier is as in `scan_pairs`."""
    workers, split, sums = len(workspace.tiles), np.zeros(SPLIT), np.zeros((2, STRIDE))
    phase = barrier(workspace.shared, workers, ONE)
    if is_cancelled(workspace.shared):
        return
    for f in range(worker, len(mine), workers):
        workspace.gains[0, f] = 0.0
        if mine[f] and bins.n_bins[f] + bins.has_missing[f] > 1:
            find_level_split(layout, stream, bins, workspace, leaves, count, f, scales, worker, sums, split)
            workspace.gains[0, f] = split[GAIN]
    barrier(workspace.shared, workers, phase)


@kernel
def describe_level(
    layout: FeatureLayout | None,
    stream: np.uint64 | None,
    bins: Bins,
    workspace: Workspace,
    scales: Array,
    leaves: Leaves,
    count: int,
    f: int,
    splits: Array,
    sides: Array,
) -> None:
    """How a feature of this rank splits the leaves of a level: the sides of its slots, and gain and middle per leaf."""
    split, sums = np.zeros(SPLIT), np.zeros((2, STRIDE))
    used = find_level_split(layout, stream, bins, workspace, leaves, count, f, scales, 0, sums, split)
    fill_level(layout, bins, workspace, leaves, count, f, used, sides, split)
    for leaf in range(count):
        splits[leaf] = split
        evaluate_leaf(layout, bins, workspace, leaves, leaf, f, sides, scales, splits[leaf])
