"""Trees grown on a GPU: rows in bins, derivatives and scores stay there; what comes back is one small buffer per tree.

The result is the tree of `TreeGrower` bit by bit: sums are integers, and every number that decides is computed by the
same operations. Imports nothing that needs Numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from podium.learners.trees.cuda.arguments import FIELDS, OUTPUTS, SPLIT, STATE, write_fields
from podium.learners.trees.cuda.device import SHARED_BYTES, tree_source
from podium.learners.trees.training.binning import BinEdges, FeatureLayout
from podium.learners.trees.training.grown import GrownTree, GrowthRules

WIDE_ROWS = 2**23  # as in `growing.py`
LANES, SLOTS = 32, 256
_MOST_ROWS = 2**30
_ALIGNMENT = 16


class Device(Protocol):
    """What runs kernels: a GPU, or in tests what stands in for one."""

    n_blocks: int
    n_threads: int

    def free_bytes(self) -> int: ...
    def empty(self, shape: Any, dtype: Any) -> Any: ...
    def zeros(self, shape: Any, dtype: Any) -> Any: ...
    def upload(self, values: np.ndarray) -> Any: ...
    def write(self, values: np.ndarray, array: Any) -> None: ...
    def download(self, array: Any) -> np.ndarray: ...
    def clear(self, array: Any) -> None: ...
    def address(self, array: Any) -> int: ...
    def kernels(self, source: str, cooperative: bool) -> Any: ...


def sliced(rows: np.ndarray) -> np.ndarray:
    """(slices, rows, 32) uint8 of (rows, columns): a row of a slice is one sector of the GPU's memory."""
    n, columns = rows.shape
    slices = np.zeros((-(-columns // LANES), n, LANES), np.uint8)
    for number, part in enumerate(slices):
        columns_of_slice = rows[:, number * LANES : (number + 1) * LANES]
        part[:, : columns_of_slice.shape[1]] = columns_of_slice
    return slices


def bytes_needed(n_rows: int, n_slices: int, n_features: int, leaves: int) -> int:
    """What training allocates: bins, 40 bytes per row, and histograms."""
    slot = 16 if n_rows >= WIDE_ROWS else 8
    pool = (leaves + 1) * n_slices * SLOTS * LANES * slot
    return n_rows * (n_slices * LANES + 40) + pool + leaves * n_features * SPLIT.itemsize


class TreeBuilder:
    """Grows trees over the same rows on a device, with its memory; `scores` are those of the training rows."""

    def __init__(
        self,
        device: Device,
        bins: Any,
        n_slots: np.ndarray,
        edges: BinEdges,
        layout: FeatureLayout | None,
        rules: GrowthRules,
        scores: np.ndarray,
    ) -> None:
        """bins: (slices, rows, 32) uint8, on the device; n_slots: per column."""
        self.device, self.rules, self._bins, self.edges, self.layout = device, rules, bins, edges, layout
        self.n_slices, self.n, _ = bins.shape
        if self.n > _MOST_ROWS:
            raise ValueError(f'device="cuda" takes up to {_MOST_ROWS:,} rows; got {self.n:,}.')
        self.is_wide = self.n >= WIDE_ROWS
        if rules.growth == "oblivious":
            self.most = 2 ** (rules.max_leaf_nodes.bit_length() - 1)
        else:  # no more leaves than rows can fill
            self.most = max(2, min(rules.max_leaf_nodes, self.n // rules.min_samples_leaf))
        self._kernels = device.kernels(tree_source(self.is_wide), True)
        self._arrays = {"bins": bins, **self._features(n_slots), **self._memory()}
        self.scores = self._arrays["scores"] = device.upload(scores)
        self._outputs, self._places = self._make_outputs()
        self._fixed = self._fixed_values()
        self._arguments = device.empty(len(FIELDS), np.uint64)
        self._written: bytes = b""
        self.scratch = (self._arrays["other"], self._arrays["packed"], self._arrays["rows"])

    def _features(self, n_slots: np.ndarray) -> dict[str, Any]:
        edges, layout, n = self.edges, self.layout, self.edges.n_features
        values = {
            "n_slots": np.asarray(n_slots, np.int32),
            "n_bins": np.asarray(edges.n_bins, np.int32),
            "has_missing": np.asarray(edges.has_missing, np.uint8),
            "column": np.arange(n, dtype=np.int32) if layout is None else layout.column.astype(np.int32),
            "offset": np.zeros(n, np.int32) if layout is None else layout.offset.astype(np.int32),
            "default_bin": np.full(n, -1, np.int32) if layout is None else layout.default_bin.astype(np.int32),
            "categorical": np.asarray(edges.categorical, np.uint8),
            "signs": np.zeros(n) if layout is None else np.asarray(layout.signs, np.float64),
            "allowed": np.ones(n, np.uint8),
        }
        return {name: self.device.upload(np.ascontiguousarray(array)) for name, array in values.items()}

    def _memory(self) -> dict[str, Any]:
        n, most, blocks, new = self.n, self.most, self.device.n_blocks, self.device.empty
        slot = np.dtype(np.int64) if not self.is_wide else np.dtype(np.complex128)
        return {
            "gradients": new(n, np.float32),
            "hessians": new(n, np.float32),
            "rows": new(n, np.uint32),
            "other": new(n, np.uint32),
            "packed": new((n, 2), np.int32),
            "histograms": new((most + 1, self.n_slices * SLOTS * LANES), slot),
            "splits": new((most * self.edges.n_features, SPLIT.itemsize), np.uint8),
            "counts": new(self.n_slices * LANES * SLOTS, np.int32),
            "order": new(SLOTS, np.uint8),
            "n_left": new(blocks, np.int64),
            "barrier": self.device.zeros(2, np.uint32),
            "leaf_gain": new(most, np.float64),
            "leaf_best": new(most, np.int32),
            "leaf_depth": new(most, np.int32),
            "leaf_histogram": new(most, np.int32),
            "leaf_other": new(most, np.int32),
            "node_values": new(2 * most - 1, np.float64),
        }

    def _make_outputs(self) -> tuple[Any, dict[str, tuple[int, int]]]:
        """One buffer: the state, and behind it the arrays of `OUTPUTS`; where each is, and how many numbers."""
        at, places = -(-STATE.itemsize // _ALIGNMENT) * _ALIGNMENT, {}
        for name, (kind, unit, width) in OUTPUTS.items():
            count = (self.most if unit == "leaf" else 2 * self.most - 1) * width
            places[name] = at, count
            at += -(-count * np.dtype(kind).itemsize // _ALIGNMENT) * _ALIGNMENT
        return self.device.empty(at, np.uint8), places

    def _fixed_values(self) -> dict[str, Any]:
        rules, layout, start = self.rules, self.layout, self.device.address(self._outputs)
        values = {name: self.device.address(array) for name, array in self._arrays.items()}
        values |= {name: start + at for name, (at, _) in self._places.items()}
        return values | {
            "state": start,
            "n": self.n,
            "slices": self.n_slices,
            "n_features": self.edges.n_features,
            "smoothing": 0.0 if layout is None else float(layout.smoothing[0]),
            "most": self.most,
            "by_level": int(rules.growth == "level"),
            "max_depth": rules.max_depth,
            "min_samples": rules.min_samples_leaf,
            "by_gradients": int(rules.split_by == "gradients"),
            "extra_trees": int(rules.extra_trees),
            "min_gain": float(rules.min_gain),
            "min_hessian": float(rules.min_hessian),
            "l2": float(rules.l2_regularization),
        }

    @property
    def gradients(self) -> Any:
        return self._arrays["gradients"]

    @property
    def hessians(self) -> Any:
        return self._arrays["hessians"]

    def grow(
        self,
        sample: np.ndarray | None,
        allowed: np.ndarray,
        stream: np.uint64 | None = None,
        weights: np.ndarray | None = None,
    ) -> tuple[GrownTree, np.ndarray]:
        """One tree for the derivatives that are there, and the exact sums of its leaves; arguments as of `TreeGrower`.

        Leaves are in the order of their rows, whose numbers stay on the device: `GrownTree.rows` is empty.
        """
        device = self.device
        drawn = None if sample is None else device.upload(sample.astype(np.uint32))
        split_weights = None if weights is None else device.upload(np.asarray(weights, np.float32))
        device.write(np.asarray(allowed, np.uint8), self._arrays["allowed"])
        is_oblivious = self.rules.growth == "oblivious"
        even = (
            not is_oblivious
            and weights is not None
            and len(np.unique(weights if sample is None else weights[sample])) == 1
        )
        self._write_arguments(
            {
                "sample": 0 if drawn is None else device.address(drawn),
                "n_sample": self.n if sample is None else len(sample),
                "weights": device.address(self.hessians if split_weights is None else split_weights),
                "even_weights": int(even),
                "stream": 0 if stream is None else int(stream),
            }
        )
        for array in (self._outputs, self._arrays["histograms"]):
            device.clear(array)
        growth = "grow_oblivious" if is_oblivious else "grow"
        for name, shared in (("measure", 0), (growth, SHARED_BYTES), ("sum_leaves", 0)):
            self._launch(name, shared)
        buffer = device.download(self._outputs)
        state = buffer[: STATE.itemsize].view(STATE)[0]
        refuse_bad_state(state)
        return self._read_tree(state, buffer, self.n if sample is None else len(sample))

    def add(self, values: np.ndarray, to_all: bool) -> None:
        """Add a value per node of the last tree to the scores: of its rows, or of all rows."""
        full = np.zeros(2 * self.most - 1)
        full[: len(values)] = values
        self.device.write(full, self._arrays["node_values"])
        self._launch("add_to_all" if to_all else "add_leaves")

    def _launch(self, name: str, shared_bytes: int = 0) -> None:
        device = self.device
        self._kernels.launch(name, device.n_blocks, device.n_threads, (self._arguments,), shared_bytes)

    def _write_arguments(self, of_tree: Mapping[str, Any]) -> None:
        values = np.empty(len(FIELDS), np.uint64)
        write_fields(self._fixed | dict(of_tree), values)
        if values.tobytes() != self._written:
            self.device.write(values, self._arguments)
            self._written = values.tobytes()

    def _read_tree(self, state: Any, buffer: np.ndarray, n: int) -> tuple[GrownTree, np.ndarray]:
        out = {}
        for name, (kind, _, _) in OUTPUTS.items():
            at, count = self._places[name]
            out[name] = buffer[at : at + count * np.dtype(kind).itemsize].view(kind)
        count, ratio = int(state["count"]), state["scales"][1] / state["scales"][0]
        nodes = 2 * count - 1
        order = leaves_in_order(out["node_left"], out["leaf_node"][:count])
        grown = GrownTree(
            feature=out["node_feature"][:nodes],
            bin=out["node_bin"][:nodes].astype(np.uint8),
            missing_left=out["node_missing_left"][:nodes].astype(np.bool_),
            column=out["node_column"][:nodes],
            sides=out["node_sides"].reshape(-1, SLOTS)[:nodes],
            left=out["node_left"][:nodes],
            gain=out["node_gain"][:nodes],
            size=out["node_size"][:nodes],
            leaf_node=out["leaf_node"][order],
            leaf_start=np.append(out["leaf_start"][order], n),
            rows=np.empty(0, np.uint32),
            low=out["leaf_low"][order] * ratio,
            high=out["leaf_high"][order] * ratio,
            units=(float(state["units"][0]), float(state["units"][1])),
        )
        sums = out["leaf_sums"].reshape(-1, 2)[order] / state["units"]
        return grown, sums


def leaves_in_order(left: np.ndarray, leaf_node: np.ndarray) -> np.ndarray:
    """The leaves from left to right: in the order of their rows, also of those without any."""
    number, order, waiting = dict(zip(leaf_node.tolist(), range(len(leaf_node)))), [], [0]
    children = left.tolist()
    while waiting:
        node = waiting.pop()
        if children[node] == node:
            order.append(number[node])
        else:
            waiting += [children[node] + 1, children[node]]
    return np.array(order, np.int64)


def refuse_bad_state(state: Any) -> None:
    """The errors of `refuse_bad_derivatives`."""
    for name, size in zip(("gradient", "hessian"), state["largest"]):
        if size >= 0x7F800000:
            cause = "Labels or weights are too large, or the scores have diverged: scale them down."
            raise ValueError(f"a {name} of the objective is not finite; no tree can be grown. {cause}")
    if state["negative"]:
        raise ValueError("a hessian of the objective is negative; no tree can be grown. Hessians must be 0 or larger.")
