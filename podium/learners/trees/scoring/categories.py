"""Categories: splits that send some values of a feature left and others right.

To a forest such a split is a number like any other: its set is a feature of its own, 0 for the values that go left, 1
for those that go right, missing for all others, and the split splits it at 1/2. So whatever goes through a forest knows
nothing of categories; rows are widened by one column a set before they go in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly

SET_THRESHOLD = 0.5


@dataclass(frozen=True, eq=False)
class CategorySets:
    """Sets one behind the other; set k owns `values[start[k]:start[k + 1]]`, rising."""

    feature: Array  # (sets,) int64: whose values
    start: Array  # (sets + 1,) int64
    values: Array  # float32
    sides: Array  # uint8: 1 for right

    @classmethod
    def none(cls) -> CategorySets:
        return cls(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.float32), np.empty(0, np.uint8))

    @classmethod
    def join(cls, parts: Sequence[CategorySets]) -> CategorySets:
        """Put sets one behind the other."""
        if not parts:
            return cls.none()
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        return cls(
            np.concatenate([part.feature for part in parts]),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.sides for part in parts]),
        )

    def arrays(self) -> dict[str, Array]:
        """As a forest has them."""
        return {f"set_{field.name}": getattr(self, field.name) for field in fields(self)}

    def __len__(self) -> int:
        return len(self.feature)

    def take(self, numbers: Sequence[int] | Array) -> CategorySets:
        """Some of the sets."""
        return CategorySets.join([self._one(int(number)) for number in numbers])

    def _one(self, number: int) -> CategorySets:
        part = slice(self.start[number], self.start[number + 1])
        ends = np.array([0, part.stop - part.start])
        return CategorySets(self.feature[number : number + 1], ends, self.values[part], self.sides[part])

    def sides_of(self, number: int) -> tuple[Array, Array]:
        """The values of a set that go left, and those that go right."""
        one = self._one(number)
        return one.values[one.sides == 0], one.values[one.sides == 1]

    def widen(self, X: Array) -> Array:
        """The rows with one more column a set."""
        if len(self) == 0:
            return X
        n, n_features = X.shape
        wide = np.empty((n, n_features + len(self)), np.float32)
        wide[:, :n_features] = X
        arrays = readonly(self.feature), readonly(self.start), readonly(self.values), readonly(self.sides)
        _look_up(readonly(X), *arrays, wide)
        return wide

    def check(self, n_features: int) -> None:
        """Refuse arrays that the search may not be trusted with; their dtypes are the forest's affair."""
        n = len(self)
        if len(self.start) != n + 1 or self.start[0] != 0 or (self.start[1:] <= self.start[:-1]).any():
            raise ValueError("the sets of categories do not fill their arrays")
        if not self.start[-1] == len(self.values) == len(self.sides):
            raise ValueError("the sets of categories do not fill their arrays")
        if n and (self.feature.min() < 0 or self.feature.max() >= n_features or self.sides.max(initial=0) > 1):
            raise ValueError("a set of categories is of a feature that is not there")
        inside = np.ones(len(self.values), dtype=np.bool_)
        inside[self.start[:-1]] = False
        if not np.isfinite(self.values).all() or (self.values[1:] <= self.values[:-1])[inside[1:]].any():
            raise ValueError("the values of a set of categories do not rise")


@kernel
def _look_up(X: Array, feature: Array, start: Array, values: Array, sides: Array, wide: Array) -> None:
    """wide[i, features + k] = the side of X[i, feature[k]] in set k, NaN if it is not there."""
    n_features = X.shape[1]
    for i in range(len(X)):
        for k in range(len(feature)):
            x, low, high = X[i, feature[k]], start[k], start[k + 1]
            while high - low > 1:
                middle = (low + high) // 2
                if values[middle] <= x:
                    low = middle
                else:
                    high = middle
            wide[i, n_features + k] = np.float32(sides[low]) if values[low] == x else np.float32(np.nan)
