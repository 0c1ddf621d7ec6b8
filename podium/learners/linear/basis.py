"""Basis functions: fixed functions of the features, whose weighted sum a linear model then is.

Of standardised features z, each clipped to [-10, 10], so that a row far outside of the training data stays finite:

    polynomial   z_f, z_f^2, ..., z_f^degree for every feature f
    gaussian     exp(-|z - c_j|^2 / (2 s^2)) for every centre c_j
    sigmoid      1 / (1 + exp(-z . c_j / s^2)) for every centre c_j

Centres are training rows, drawn by a seed. s is `width` times the square root of the number of features: rows of
standardised features are about that far from each other, however many features there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.threads import map_slices
from podium.data.standardising import Standardisation
from podium.learners.kernel_functions import gaussian

BASES = ("polynomial", "gaussian", "sigmoid")

_FARTHEST = 10.0
_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions of training rows: what they are standardised by, and the centres."""

    kind: str
    degree: int  # of polynomials
    width: float  # of the others
    scaling: Standardisation
    centres: Array  # (centres, features) float64, standardised; none for polynomials

    def centred(self, X: Array, n_centres: int, seed: int) -> Basis:
        """With up to `n_centres` of the training rows X as centres; polynomials have none."""
        rng = np.random.Generator(np.random.PCG64(seed))
        rows = np.sort(rng.permutation(len(X))[: 0 if self.kind == "polynomial" else n_centres])
        return replace(self, centres=self._standardised(X[rows]))

    @property
    def n_functions(self) -> int:
        return len(self.scaling.scale) * self.degree if self.kind == "polynomial" else len(self.centres)

    def expand(self, X: Array, n_jobs: int | None = None) -> Array:
        """The values of the functions, (rows, functions) float32."""
        values = np.empty((len(X), self.n_functions), np.float32)
        over = 1.0 / (self.width * self.width * max(len(self.scaling.scale), 1))
        centres = readonly(self.centres)

        def work(part: slice) -> None:
            z = self._standardised(X[part])
            if self.kind == "polynomial":
                _powers(z, self.degree, values[part])
            else:
                _centred(z, centres, over, self.kind == "gaussian", values[part])

        map_slices(work, len(X), _BLOCK_ROWS, n_jobs)
        return values

    def names(self, features: Sequence[str]) -> list[str]:
        """What the functions are called."""
        if self.kind == "polynomial":
            return [name if k == 1 else f"{name}^{k}" for name in features for k in range(1, self.degree + 1)]
        return [f"{self.kind} {number}" for number in range(1, len(self.centres) + 1)]

    def check(self, n_features: int) -> None:
        """Refuse arrays that do not fit together, as a crafted file may hold them."""
        for name, array, shape in (
            ("basis mean", self.scaling.centre, (n_features,)),
            ("basis scale", self.scaling.scale, (n_features,)),
            ("centres", self.centres, (len(self.centres), n_features)),
        ):
            if array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite float64 numbers of shape {shape}")
        if not (self.scaling.scale > 0).all():
            raise ValueError("basis scale must be positive")
        if (self.kind == "polynomial") != (len(self.centres) == 0):
            raise ValueError(f"{self.kind} basis functions have {len(self.centres)} centres")

    def _standardised(self, X: Array) -> Array:
        return np.asarray(np.clip(self.scaling.apply(X), -_FARTHEST, _FARTHEST))


_gaussian = kernel(gaussian)


@kernel
def _powers(z: Array, degree: int, values: Array) -> None:
    """values[i, f degree + k] = z[i, f]^(k + 1)."""
    for i in range(len(z)):
        for f in range(z.shape[1]):
            power = 1.0
            for k in range(degree):
                power *= z[i, f]
                values[i, f * degree + k] = np.float32(power)


@kernel
def _centred(z: Array, centres: Array, over: float, gaussian: bool, values: Array) -> None:
    """values[i, j] = the gaussian kernel of z_i and c_j with gamma = over / 2, or 1 / (1 + exp(-z_i . c_j over))."""
    for i in range(len(z)):
        for j in range(len(centres)):
            total = 0.0
            if gaussian:
                for f in range(z.shape[1]):
                    total += (z[i, f] - centres[j, f]) ** 2
                values[i, j] = np.float32(_gaussian(total, 0.5 * over))
            else:
                for f in range(z.shape[1]):
                    total += z[i, f] * centres[j, f]
                values[i, j] = np.float32(1.0 / (1.0 + math.exp(-over * total)))
