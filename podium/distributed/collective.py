"""The collective of ranks on a Dask cluster: sums and gatherings over a mesh, with as few messages as possible.

Two ranks exchange one message each. With more, small arrays go from all to all at once; a large sum is first added up
in parts, one part per rank, and the parts are then gathered, so that nobody sends more than twice the array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podium._runtime.compiler import Array
from podium.data.sharding.collective import check_message
from podium.distributed.mesh import Mesh
from podium.distributed.messages import Expected

_SMALL = 65_536  # bytes up to which a sum goes to all ranks whole: one exchange instead of two


class DaskCollective:
    """One rank's end of the connection, as `podium.data.sharding.collective.Collective` describes it."""

    def __init__(self, mesh: Mesh, size: int) -> None:
        self.mesh, self.rank, self.size = mesh, mesh.rank, size
        self._others = [rank for rank in range(size) if rank != mesh.rank]

    def sum(self, values: Array) -> Array:
        check_message("sum", values)
        if self.size > 2 and values.nbytes > _SMALL:
            ends = np.linspace(0, values.size, self.size + 1).astype(np.int64)
            part = self.scatter_sum(values.reshape(-1), ends)
            return np.concatenate(self.gather(part)).reshape(values.shape)
        return np.asarray(np.add.reduce([values, *self._from_all(values)]))

    def largest(self, values: Array) -> Array:
        check_message("largest", values)
        return np.asarray(np.maximum.reduce([values, *self._from_all(values)]))

    def scatter_sum(self, values: Array, ends: Array) -> Array:
        check_message("scatter_sum", values)
        parts = [values[ends[rank] : ends[rank + 1]] for rank in range(self.size)]
        mine = parts[self.rank]
        outgoing = {rank: [parts[rank]] for rank in self._others}
        answers = self.mesh.exchange(outgoing, {rank: [Expected.like(mine)] for rank in self._others})
        return np.asarray(np.add.reduce([mine, *(answers[rank][0] for rank in self._others)]))

    def gather(self, values: Array) -> list[Array]:
        check_message("gather", values)
        answers = self._answers([values], [Expected(values.dtype, (None,))])
        return [np.array(answers[rank][0] if rank in answers else values) for rank in range(self.size)]

    def swap(self, outgoing: Sequence[Sequence[Array]], expected: Sequence[Expected]) -> list[Sequence[Array]]:
        """Other arrays for each rank, in the order of ranks; returns what each rank has for this one."""
        sent = {rank: outgoing[rank] for rank in self._others}
        answers = self.mesh.exchange(sent, dict.fromkeys(self._others, expected))
        return [answers.get(rank, outgoing[rank]) for rank in range(self.size)]

    def _from_all(self, values: Array) -> list[Array]:
        answers = self._answers([values], [Expected.like(values)])
        return [answers[rank][0] for rank in self._others]

    def _answers(self, arrays: Sequence[Array], expected: Sequence[Expected]) -> dict[int, list[Array]]:
        answers: dict[int, list[Array]] = self.mesh.exchange(
            dict.fromkeys(self._others, arrays), dict.fromkeys(self._others, expected)
        )
        return answers
