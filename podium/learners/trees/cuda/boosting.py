"""Boosting on a GPU: the learner of boosted trees, with everything that costs time on the device.

Derivatives, growth and scores are there; the host draws samples, computes the values of the few leaves by the code that
it has for that, and keeps the trees. What is not covered is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.learners.trees.cuda.derivatives import Derivatives, DeviceObjective
from podium.learners.trees.cuda.device import Gpu
from podium.learners.trees.cuda.trees import Device, TreeBuilder, bytes_needed, sliced
from podium.learners.trees.scoring.forest import TreeArrays
from podium.learners.trees.training.boosting import Boosting, BoostingRules
from podium.learners.trees.training.growing import can_be_split
from podium.learners.trees.training.grown import GrownTree, GrowthRules


def why_refused(rules: BoostingRules, objective: DeviceObjective | None, is_whole: bool = True) -> str | None:
    """What a GPU does not do, by the names of parameters; None: it does all of it."""
    growth = rules.growth
    refused = {
        "rows on several workers": not is_whole,
        "this objective": objective is None,
        f"step={rules.step!r}": rules.step not in ("newton", "mean"),
        f"drop_rate={rules.drop_rate:g}": rules.drop_rate > 0,
        f"max_impurity={growth.max_impurity:g}": growth.max_impurity > 0,
        f"max_conflicts={rules.layout.max_conflicts:g}": rules.layout.max_conflicts > 0,
    }
    return next((name for name, is_refused in refused.items() if is_refused), None)


@dataclass
class _Grower:
    """What `Boosting` asks of a `TreeGrower`."""

    grow: Callable[..., GrownTree]
    index: Array = field(default_factory=lambda: np.empty(0, np.uint32))  # the rows of a tree that did not split

    @property
    def n_sampled(self) -> int:
        return len(self.index)


class CudaBoosting(Boosting):
    """`Boosting` whose trees are grown on a device, with the same bytes."""

    def __init__(
        self, *arguments: Any, objective: DeviceObjective, device: Device | None = None, **options: Any
    ) -> None:
        self._device, self._objective = device or Gpu(), objective
        self._builder: TreeBuilder | None = None
        self._sums = np.empty((0, 2))
        super().__init__(*arguments, **options)

    @property
    def scores(self) -> Array:
        """Of the training rows; a copy, once they are on the device."""
        return self._scores if self._builder is None else self._device.download(self._builder.scores)

    @scores.setter
    def scores(self, scores: Array) -> None:
        self._scores = scores
        if self._builder is not None:
            self._device.write(scores, self._builder.scores)

    def make_grower(self, growth: GrowthRules, n_threads: int) -> Any:
        """At first what stands in for a `TreeGrower`; the memory of the device is taken with the first tree.

        Later ones, which are asked why a tree did not split, grow on the host.
        """
        if hasattr(self, "grower"):
            return super().make_grower(growth, n_threads)
        self._splittable = None
        if self.binned.layout is not None and growth.growth != "oblivious":
            self._splittable = can_be_split(self.binned, growth.min_samples_leaf, self.shard)
        self._grower_here = _Grower(self._grow)
        return self._grower_here

    def _make_builder(self) -> TreeBuilder:
        device, binned, growth = self._device, self.binned, self.rules.growth
        n, slices = binned.n_rows, -(-len(binned.columns) // 32)
        need = bytes_needed(n, slices, binned.edges.n_features, growth.max_leaf_nodes)
        need += n * 8 * (self._objective.doubles_per_row + 1)
        if need > device.free_bytes():
            free = device.free_bytes() / 1e9
            problem = f"training {n:,} rows x {len(binned.columns):,} columns on the GPU needs {need / 1e9:.1f} GB"
            raise ValueError(f'{problem}; {free:.1f} GB are free. Use device="cpu", or fewer leaves, features or rows.')
        bins = device.upload(sliced(binned.rows.view(np.uint8)[:, : len(binned.columns)]))
        builder = TreeBuilder(device, bins, binned.n_slots, binned.edges, binned.layout, growth, self._scores)
        self._derivatives = Derivatives(device, builder, self._objective)
        return builder

    def _find_derivatives(self) -> None:
        if self._builder is None:
            self._builder = self._make_builder()
        self._derivatives.fill()

    def _draw_rows(self, *arguments: Any) -> Array | None:
        """Where rows are drawn by their derivatives or count more than once, these come to the host and return."""
        sampling = self.rules.sampling
        if not (sampling.bootstrap or sampling.goss is not None):
            return super()._draw_rows(*arguments)
        self._read_derivatives()
        rows = super()._draw_rows(*arguments)
        assert self._builder is not None
        self._device.write(self._gradients, self._builder.gradients)
        self._device.write(self._hessians, self._builder.hessians)
        return rows

    def _read_derivatives(self) -> None:
        assert self._builder is not None
        self._gradients = self._device.download(self._builder.gradients)
        self._hessians = self._device.download(self._builder.hessians)

    def _grow(
        self,
        gradients: Array,
        hessians: Array,
        sample: Array | None,
        allowed: Array,
        stream: np.uint64 | None,
        weights: Array | None,
    ) -> GrownTree:
        """`TreeGrower.grow`, for the derivatives that are on the device."""
        assert self._builder is not None
        if self._splittable is not None:
            allowed = allowed & self._splittable
        grown, self._sums = self._builder.grow(sample, allowed, stream, weights)
        if len(grown.feature) == 1:  # `fit` may be asked why
            self._read_derivatives()
            self._grower_here.index = np.arange(self.binned.n_rows, dtype=np.uint32) if sample is None else sample
        return grown

    def _newton_values(self, grown: GrownTree, units: tuple[float, float]) -> Array:
        return self._steps_of(self._sums, grown)

    def _add_tree(self, grown: GrownTree, tree: TreeArrays) -> None:
        assert self._builder is not None
        self._builder.add(tree.value, int(grown.leaf_start[-1]) < self.binned.n_rows)
