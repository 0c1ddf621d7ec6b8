"""Derivatives on a GPU: the kernel that an objective hands over, on the scores that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from podium.learners.trees.cuda.trees import Device, TreeBuilder

_THREADS = 128  # four warps, and as many queries


class DeviceObjective(Protocol):
    """An objective as a CUDA kernel, and the arrays and numbers that it reads, in this order."""

    @property
    def text(self) -> str: ...
    @property
    def arrays(self) -> Mapping[str, np.ndarray]: ...
    @property
    def numbers(self) -> Mapping[str, float | int]: ...
    @property
    def n_queries(self) -> int: ...
    @property
    def per_row(self) -> bool: ...
    @property
    def doubles_per_row(self) -> int: ...


class Derivatives:
    """Fills the derivatives of a builder from its scores. Between two trees its memory is free: that is used."""

    def __init__(self, device: Device, builder: TreeBuilder, objective: DeviceObjective) -> None:
        n, packed = builder.n, device.address(builder.scratch[1])
        self._kept = [device.upload(np.ascontiguousarray(array)) for array in objective.arrays.values()]
        self._kept.append(device.empty(max(n * objective.doubles_per_row, 1), np.float64))
        addresses = [device.address(array) for array in self._kept]
        places, gains = device.address(builder.scratch[0]), device.address(builder.scratch[2])
        values: list[Any] = [
            *(device.address(array) for array in (builder.scores, builder.gradients, builder.hessians)),
            *(n, objective.n_queries, places, packed, packed + 4 * n, gains, addresses[-1]),
            *addresses[:-1],
            *objective.numbers.values(),
        ]
        words = [np.float64(v).view(np.uint64) if isinstance(v, float) else np.uint64(int(v)) for v in values]
        self._arguments = device.upload(np.array(words, np.uint64))
        self._kernels = device.kernels(objective.text, False)
        units = n if objective.per_row else 32 * objective.n_queries
        self._blocks = max(1, min(-(-units // _THREADS), 64 * device.n_blocks))

    def fill(self) -> None:
        self._kernels.launch("derivatives", self._blocks, _THREADS, (self._arguments,))
