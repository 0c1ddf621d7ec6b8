"""Growing: one tree from binned rows and their derivatives, by a pool of worker threads.

How the tree grows, leaf by leaf (`leafwise.py`) or level by level (`oblivious.py`), is a kernel that all workers run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium._runtime.exact import largest_size, on_grid, units_for
from podium._runtime.machine import memory
from podium._runtime.threads import make_threads
from podium.data.sharding.collective import Collective
from podium.data.sharding.shard import Shard
from podium.learners.trees.sharding.leafwise import LeafwiseGrowth, sum_gradients
from podium.learners.trees.sharding.oblivious import ObliviousGrowth
from podium.learners.trees.sharding.stages import Stages
from podium.learners.trees.training.binning import MISSING, WORD, BinnedRows
from podium.learners.trees.training.grown import GrownTree, GrowthRules
from podium.learners.trees.training.histograms import BLOCK, PACKED, STRIDE, TILE, WIDE, pack_rows, pack_wide, units_of
from podium.learners.trees.training.layout import SCRATCH
from podium.learners.trees.training.leafwise import grow_leaves, impurity_of
from podium.learners.trees.training.oblivious import grow_oblivious
from podium.learners.trees.training.workers import Crew, cancel, make_shared_state, reset
from podium.learners.trees.training.workspace import Bins, Leaves, Limits, Nodes, Workspace, make_leaves, make_nodes

Result = TypeVar("Result")

POOL = 2**30  # bytes of histograms; beyond that, histograms are evicted, and built again when their leaf is split
WIDE_ROWS = 2**23  # from here on, 32 bits leave a row fewer than 256 units on average: histograms are wide


class TreeGrower:
    """Grows trees over the same rows, holding the working memory between them."""

    def __init__(
        self,
        binned: BinnedRows,
        rules: GrowthRules,
        n_threads: int,
        pool_bytes: int = POOL,
        shard: Shard | None = None,
    ) -> None:
        """shard: the rows are those of one of several ranks; all of them grow the same trees together."""
        self.binned, self.rules = binned, rules
        self.shard = Shard.whole(np.array([0, binned.n_rows])) if shard is None else shard
        n = self.shard.n_rows
        self._kind = WIDE if n >= WIDE_ROWS else PACKED
        if rules.growth == "oblivious":
            self._most = 2 ** (rules.max_leaf_nodes.bit_length() - 1)
        else:  # no more leaves than rows can fill
            self._most = max(2, min(rules.max_leaf_nodes, n // rules.min_samples_leaf))
        edges = binned.edges
        self._bins = Bins(binned.rows, binned.columns, binned.n_slots, edges.n_bins, edges.has_missing)
        self._workspace = self._make_workspace(n_threads, pool_bytes)
        self._can_be_split = None
        if binned.layout is not None and rules.growth != "oblivious":
            self._can_be_split = can_be_split(binned, rules.min_samples_leaf, self.shard)
        self._crew, self._tried = Crew(n_threads), False
        self._threads = make_threads(max(1, n_threads - 1), "podium-tree")  # workers wait for each other
        floats = float(rules.min_gain), float(rules.max_impurity)
        self._limits = Limits(rules.growth == "level", rules.max_depth, rules.min_samples_leaf, *floats)
        self._sharded = None if self.shard.is_whole else self._make_sharded(pool_bytes)

    def _make_workspace(self, n_threads: int, pool_bytes: int) -> Workspace:
        """Of ranks, with room for one histogram and no gains: these are kept by columns."""
        n, words = self.binned.rows.shape
        slots, n_features = words * WORD * STRIDE, self.binned.edges.n_features
        pool, rows_of_gains = (1, 0) if not self.shard.is_whole else self._pool(slots, pool_bytes)
        return Workspace(
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=np.uint32),
            np.empty(n, dtype=self._kind),
            np.empty((pool, slots), dtype=self._kind),
            np.empty((rows_of_gains, n_features)),
            np.empty((n_threads, slots if n_threads > 1 else 0), dtype=self._kind),
            np.empty((n_threads, -(-words * WORD // BLOCK) * TILE * BLOCK // WORD), dtype=np.uint64),
            np.empty((n_threads, TILE), dtype=self._kind),
            np.empty((n_threads, SCRATCH), dtype=self._kind),
            np.empty((n_threads, STRIDE), dtype=np.int64),
            np.empty(n_features, dtype=np.int64),
            np.empty((n_threads, 8), dtype=np.int64),
            make_shared_state(),
            0,
        )

    def _pool(self, slots: int, pool_bytes: int) -> tuple[int, int]:
        """How many histograms of so many slots there are, and how many rows of gains."""
        bytes_each, leaves = self._kind.itemsize * slots, self._most
        if self.rules.growth == "oblivious":  # all leaves with rows need their histograms at the same time
            pool = min(leaves, max(self.shard.n_rows, 1))
            _refuse_too_many_histograms(pool * bytes_each, leaves)
            return pool, 1
        return min(leaves, max(3, pool_bytes // bytes_each)), leaves

    def _make_sharded(self, pool_bytes: int) -> LeafwiseGrowth | ObliviousGrowth:
        stages = Stages(self.shard, self._bins, self.binned.layout, self._workspace, self._limits, self._run_workers)
        slots = stages.most_slots
        if self.rules.growth == "oblivious":
            return ObliviousGrowth(stages, self._most, self._pool(slots, pool_bytes)[0])
        pool = max(3, min(2 * self._most, pool_bytes // (self._kind.itemsize * slots)))
        return LeafwiseGrowth(stages, self._most, pool)

    @property
    def index(self) -> Array:
        """The rows of the last tree, leaf after leaf."""
        return self._workspace.sorted

    def grow(
        self,
        gradients: Array,
        hessians: Array,
        sample: Array | None,
        allowed: Array,
        stream: np.uint64 | None = None,
        weights: Array | None = None,
    ) -> GrownTree:
        """One tree. gradients, hessians: float32, one per row; `sample`: the rows to use, rising; `allowed`: features;
        `stream`: of the draws of extremely randomised trees; `weights`: float32, one per row, of splits by gradients.
        """
        n = self.binned.n_rows if sample is None else len(sample)
        self.n_sampled, n_all = n, self.shard.n_rows if sample is None else self.shard.total(n)
        self.index[:n] = np.arange(n, dtype=np.uint32) if sample is None else sample
        units, scales, spread = self._measure(gradients, hessians, weights, sample, n_all)
        pack = pack_wide if self._kind is WIDE else pack_rows
        largest = pack(gradients, hessians if weights is None else weights, scales, self._workspace.packed)
        if self._can_be_split is not None:
            allowed = allowed & self._can_be_split
        nodes = make_nodes(2 * self._most - 1, n_all)
        if self._sharded is not None:
            count, leaves = self._grow_sharded(stream, allowed, scales, spread, nodes)
        else:
            leaves = make_leaves(self._most, n)
            count = self._run(stream, allowed, scales, spread, largest, nodes, leaves)
        order = _leaves_in_order(nodes.left, leaves.node, count)
        ratio = scales[1] / scales[0]
        return GrownTree(
            **{name: array[: 2 * count - 1] for name, array in nodes._asdict().items()},
            leaf_node=leaves.node[order].astype(np.int32),
            leaf_start=np.append(leaves.start[order], n),
            rows=self.index[:n],
            low=leaves.low[order] * ratio,
            high=leaves.high[order] * ratio,
            units=units,
        )

    def _grow_sharded(
        self, stream: np.uint64 | None, allowed: Array, scales: Array, spread: tuple[float, float], nodes: Nodes
    ) -> tuple[int, Leaves]:
        if not isinstance(self._sharded, LeafwiseGrowth):
            assert self._sharded is not None
            return self._sharded.grow(stream, allowed, scales, nodes, self.n_sampled)
        impurity = 0.0
        if self.rules.max_impurity > 0.0:
            total = self.shard.total(int(sum_gradients(self._workspace.packed, self.index[: self.n_sampled])))
            impurity = float(impurity_of(total / scales[0], spread))
        return self._sharded.grow(stream, allowed, scales, (impurity, spread), nodes, self.n_sampled)

    def _measure(
        self, gradients: Array, hessians: Array, weights: Array | None, sample: Array | None, n: int
    ) -> tuple[tuple[float, float], Array, tuple[float, float]]:
        """The grids of exact leaf sums, (gradient, weight, l2, least weight of a side) in a histogram's units, and
        what the impurity is made of. The weights of splits are hessians, unless they are given. n: rows of all ranks.
        """
        if sample is not None:
            gradients, hessians = gradients[sample], hessians[sample]
            weights = None if weights is None else weights[sample]
        collective = self.shard.collective
        sizes = refuse_bad_derivatives(gradients, hessians, collective)
        units, by_weight, grid = (units_for(sizes[0], n), units_for(sizes[1], n)), hessians, 0.0
        extremes, largest = np.zeros(2), sizes
        if weights is None:
            grid = units[1]
        else:
            least, most = float(weights.min(initial=np.inf)), float(weights.max(initial=-np.inf))
            extremes = collective.largest(np.array([-least, most])) * [-1, 1]
            by_weight, grid = weights, units_for(float(extremes[1]) if n else 0.0, n)
            largest = sizes[0], float(extremes[1])
        sums = np.array(_sum_sizes(gradients, by_weight, units[0], grid), np.int64)
        totals = collective.sum(sums) / np.array([units[0], grid])
        scales = np.zeros(4)
        scales[0], scales[1] = (units_of(float(total), size, n, self._kind) for total, size in zip(totals, largest))
        scales[2] = self.rules.l2_regularization * scales[1]
        scales[3] = self._least_weight(None if weights is None or n == 0 else extremes, scales[1], weights is not None)
        return units, scales, self._spread(gradients, weights, float(totals[1]), n)

    def _least_weight(self, extremes: Array | None, units: float, by_gradients: bool) -> float:
        """Of a side, in units: `min_hessian`; by gradients, `min_samples_leaf` rows where all rows weigh the same."""
        if not by_gradients:
            return max(self.rules.min_hessian * units, 1.0)  # a side with rows has at least one unit
        if self.rules.growth == "oblivious" or extremes is None or extremes[0] < extremes[1]:
            return 1.0
        return self.rules.min_samples_leaf * max(float(np.rint(np.float64(extremes[0]) * units)), 1.0)

    def _spread(self, gradients: Array, weights: Array | None, total: float, n: int) -> tuple[float, float]:
        """The sum of squared residuals and the weight of all rows: g^2 and rows, or g^2 / w and the sum of w."""
        if self.rules.max_impurity <= 0.0:
            return 0.0, 1.0
        squares = np.square(gradients, dtype=np.float64)
        if weights is None:
            return self.shard.exact_sum(squares), float(n)
        counted = weights > 0
        return self.shard.exact_sum(squares[counted] / weights[counted]), total

    def _run(
        self,
        stream: np.uint64 | None,
        allowed: Array,
        scales: Array,
        spread: tuple[float, float],
        largest: np.int64,
        nodes: Nodes,
        leaves: Leaves,
    ) -> int:
        """The kernel of the growth on this thread and on the others."""
        workers = self._crew.now
        workspace = self._workspace if workers > 1 else self._workspace._replace(tiles=self._workspace.tiles[:1])
        shared, running = workspace.shared, np.zeros(workers)

        def work(worker: int) -> int:
            started = time.thread_time()
            layout, bins, limits = self.binned.layout, self._bins, self._limits
            if self.rules.growth == "oblivious":
                count = grow_oblivious(layout, stream, bins, workspace, limits, allowed, scales, nodes, leaves, worker)
            else:
                stop = limits, allowed, scales, spread, largest
                count = grow_leaves(layout, stream, bins, workspace, *stop, nodes, leaves, worker)
            running[worker] = time.thread_time() - started
            return count

        if not self._tried:
            # Whatever could go wrong goes wrong here, where no other worker waits.
            cancel(shared, workers)
            work(0)
            self._tried = True
        started = time.perf_counter()
        count = self._run_workers(work, workers)
        self._crew.note(time.perf_counter() - started, float(running.sum()))
        return count

    def _run_workers(self, work: Callable[[int], Result], workers: int | None = None) -> Result:
        """`work` of every worker, the first one on this thread; its result."""
        shared, workers = self._workspace.shared, self._crew.size if workers is None else workers
        reset(shared)
        helpers = list[Future[Result]]()
        try:
            helpers.extend(self._threads.submit(work, worker) for worker in range(1, workers))
            result = work(0)
        finally:
            cancel(shared, workers)
            for helper in helpers:
                helper.result()
        return result


@kernel
def _leaves_in_order(left: Array, node_of_leaf: Array, count: int) -> Array:
    """The leaves from left to right: in the order of their rows, also of those without any."""
    leaf_of_node, order = np.zeros(2 * count - 1, np.int64), np.empty(count, np.int64)
    waiting, n_waiting, n_done = np.zeros(count + 1, np.int64), 1, 0
    for leaf in range(count):
        leaf_of_node[node_of_leaf[leaf]] = leaf
    while n_waiting > 0:
        node = waiting[n_waiting - 1]
        if left[node] == node:
            order[n_done] = leaf_of_node[node]
            n_waiting, n_done = n_waiting - 1, n_done + 1
        else:
            waiting[n_waiting - 1], waiting[n_waiting] = left[node] + 1, left[node]
            n_waiting += 1
    return order


def can_be_split(binned: BinnedRows, min_samples_leaf: int, shard: Shard) -> Array:
    """Which features leave enough rows on both sides of a split, in all rows.

    Of sparse features, many do not, and a histogram, which knows no counts, would show large gains for them.
    """
    layout, n_bins, fewer = binned.layout, binned.edges.n_bins, np.zeros(binned.edges.n_features, dtype=np.int64)
    assert layout is not None
    counts = [np.bincount(slots, minlength=MISSING + 1) for slots in binned.columns]
    for column, everywhere in enumerate(shard.collective.sum(np.array(counts, np.int64))):
        members = layout.members[layout.starts[column] : layout.starts[column + 1]]
        _count_fewer(everywhere, members, layout.offset, layout.default_bin, n_bins, fewer)
    return np.asarray(fewer >= min_samples_leaf)


@kernel
def _count_fewer(counts: Array, members: Array, offset: Array, default_bin: Array, n_bins: Array, fewer: Array) -> None:
    """fewer[f] = the rows outside of the most frequent bin: one side of a split has no more.

    counts: of the slots of one column, of which `members` are the features; offset, default_bin: as in `FeatureLayout`.
    """
    n = counts.sum()
    for f in members:
        first, last = (0, len(counts)) if default_bin[f] < 0 else (offset[f], offset[f] + n_bins[f] - 1)
        non_default, most = np.int64(0), np.int64(0)
        for slot in range(first, last):
            non_default += counts[slot]
            most = max(most, counts[slot])
        fewer[f] = n - most if default_bin[f] < 0 else min(n - most, non_default)


def _refuse_too_many_histograms(n_bytes: int, leaves: int) -> None:
    if n_bytes > 0.8 * memory():
        raise ValueError(
            f"oblivious trees of {leaves:,} leaves need up to {n_bytes / 2**30:.1f} GiB of histograms; this machine "
            f"has {memory() / 2**30:.1f} GiB of memory. Lower max_depth or max_leaf_nodes."
        )


def refuse_bad_derivatives(
    gradients: Array, hessians: Array, collective: Collective | None = None
) -> tuple[float, float]:
    """The largest sizes of both, of all ranks; an error if a derivative is not finite, or a hessian negative."""
    sizes = np.array([largest_size(gradients), largest_size(hessians), -hessians.min(initial=0.0)])
    if np.isnan(sizes[2]):
        sizes[2] = 0.0  # the size of the hessians is infinite then
    sizes = sizes if collective is None else collective.largest(sizes)
    for name, size in zip(("gradient", "hessian"), sizes.tolist()):
        if size == np.inf:
            cause = "Labels or weights are too large, or the scores have diverged: scale them down."
            raise ValueError(f"a {name} of the objective is not finite; no tree can be grown. {cause}")
    if sizes[2] > 0:
        cause = "Hessians must be 0 or larger; where the cost is not convex, use 1."
        raise ValueError(f"a hessian of the objective is {-sizes[2]:g}; no tree can be grown. {cause}")
    return float(sizes[0]), float(sizes[1])


@kernel
def _sum_sizes(gradients: Array, weights: Array, g_units: float, w_units: float) -> tuple[np.int64, np.int64]:
    """Exact sums of |gradient| and of weights, in units of their grids."""
    total_g, total_w = np.int64(0), np.int64(0)
    for k in range(len(gradients)):
        total_g += on_grid(abs(np.float64(gradients[k])), g_units)
        total_w += on_grid(np.float64(weights[k]), w_units)
    return total_g, total_w
