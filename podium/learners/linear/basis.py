"""Basis functions: fixed functions of the features, whose weighted sum a linear model then is.

Of standardised features z, each clipped to [-10, 10], so that a row far outside of the training data stays finite:

    polynomial   z_f, z_f^2, ..., z_f^degree for every feature f; with interactions, all products of up to `degree`
                 features: z_0, z_1, ..., z_0^2, z_0 z_1, ..., z_0^3, ...
    gaussian     exp(-|z - c_j|^2 / (2 s^2)) for every centre c_j
    sigmoid      1 / (1 + exp(-z . c_j / s^2)) for every centre c_j

Centres are training rows, drawn by a seed, or points of the caller's. s is `width` times the square root of the number
of features: rows of standardised features are about that far from each other, however many features there are. With
`sigma`, s is sigma, and z are the features as they came.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from podium._runtime.compiler import Array, kernel, readonly
from podium._runtime.machine import memory
from podium._runtime.threads import map_slices
from podium.data.standardising import Standardisation
from podium.learners.kernel_functions import gaussian
from podium.learners.linear.function import LinearFunction

BASES = ("polynomial", "gaussian", "sigmoid")
MOST_FUNCTIONS = 10**5  # of products, and of centres

_FARTHEST = 10.0
_BLOCK_ROWS = 1024
_BLOCK_VALUES = 1 << 22  # of functions, which are in memory at a time where rows are scored
_LARGEST_EXPONENT = 700.0  # exp of more is no float64; 1 / (1 + exp of it) is 0 in float32


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions of training rows: what they are standardised by, and the centres.

    Where there is a sigma, nothing is standardised: `scaling` is the identity.
    """

    kind: str
    degree: int  # of polynomials
    width: float  # of the others
    scaling: Standardisation
    centres: Array  # (centres, features) float64, standardised; none for polynomials
    interactions: bool = False  # of polynomials: products of different features too
    sigma: float | None = None  # in the place of the width, in units of the features

    def centred(self, X: Array, n_centres: int, seed: int) -> Basis:
        """With up to `n_centres` of the training rows X as centres; polynomials have none."""
        rng = np.random.Generator(np.random.PCG64(seed))
        rows = np.sort(rng.permutation(len(X))[: 0 if self.kind == "polynomial" else n_centres])
        return replace(self, centres=self._standardised(X[rows]))

    def around(self, points: Array) -> Basis:
        """With these points, in units of the features, as centres."""
        return replace(self, centres=self._standardised(points))

    @property
    def n_functions(self) -> int:
        n_features = len(self.scaling.scale)
        if self.kind != "polynomial":
            return len(self.centres)
        return n_products(n_features, self.degree) if self.interactions else n_features * self.degree

    def expand(self, X: Array, n_jobs: int | None = None) -> Array:
        """The values of the functions, (rows, functions) float32."""
        values = np.empty((len(X), self.n_functions), np.float32)
        map_slices(lambda part: self._fill(X[part], values[part]), len(X), self._block_rows, n_jobs)
        return values

    def scores(self, X: Array, function: LinearFunction, n_jobs: int | None = None) -> Array:
        """A linear function of the values, which are never all in memory; the bits are those of `expand` and it."""
        scores = np.empty(len(X))

        def work(part: slice) -> None:
            scores[part] = function.scores(self.expand(X[part], 1), 1)

        map_slices(work, len(X), self._block_rows, n_jobs)
        return scores

    @property
    def _block_rows(self) -> int:
        return min(max(_BLOCK_VALUES // max(self.n_functions, 1), 1), _BLOCK_ROWS)

    def _fill(self, X: Array, values: Array) -> None:
        z = self._standardised(X)
        if self.kind != "polynomial":
            _centred(z, readonly(self.centres), self._over(), self.kind == "gaussian", values)
        elif self.interactions:
            _products(z, self.degree, values)
        else:
            _powers(z, self.degree, values)

    def _over(self) -> float:
        """1 / s^2"""
        if self.sigma is not None:
            return 1.0 / (self.sigma * self.sigma)
        return 1.0 / (self.width * self.width * max(len(self.scaling.scale), 1))

    def names(self, features: Sequence[str]) -> list[str]:
        """What the functions are called."""
        if self.kind == "polynomial" and self.interactions:
            return [_product_name(product, features) for product in _all_products(len(features), self.degree)]
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
        if self.sigma is not None and ((self.scaling.scale != 1).any() or self.scaling.centre.any()):
            raise ValueError("basis functions with a sigma are of features that are not standardised")
        self.refuse_too_many(n_features)

    def refuse_too_many(self, n_columns: int) -> None:
        """Refuse products of so many columns where they are too many; nothing has been made of them yet."""
        count = n_products(n_columns, self.degree) if self.kind == "polynomial" and self.interactions else 0
        if count > MOST_FUNCTIONS:
            what = f"all products of up to {self.degree} of {n_columns:,} columns are {count:,} basis functions"
            advice = "Lower degree, use fewer features, or set interactions=False"
            raise ValueError(f"interactions: {what}; at most {MOST_FUNCTIONS:,} are supported. {advice}.")

    def refuse_too_large(self, n_rows: int) -> None:
        """Refuse training rows whose values would not fit into memory."""
        needed, limit = 4 * n_rows * self.n_functions, memory()
        if needed > limit:
            what = f"{self.n_functions:,} basis functions of {n_rows:,} rows take {needed / 1e9:.1f} GB"
            advice = "Use fewer functions (degree, interactions, n_centres, centres) or fewer rows"
            raise ValueError(f"basis: {what}; this machine has {limit / 1e9:.1f} GB. {advice}.")

    def _standardised(self, X: Array) -> Array:
        z = self.scaling.apply(X)
        return np.asarray(z if self.sigma is not None else np.clip(z, -_FARTHEST, _FARTHEST))


def n_products(n_features: int, degree: int) -> int:
    """How many products of 1 to `degree` features there are, where a feature may be taken again."""
    return math.comb(n_features + degree, degree) - 1


def _all_products(n_features: int, degree: int) -> Iterator[tuple[int, ...]]:
    """The features of each product, in the order of `_products`."""
    for size in range(1, degree + 1):
        yield from combinations_with_replacement(range(n_features), size)


def _product_name(product: Sequence[int], features: Sequence[str]) -> str:
    """(0, 0, 2) -> `bm25^2 * idf`"""
    powers = {f: product.count(f) for f in product}
    return " * ".join(features[f] if k == 1 else f"{features[f]}^{k}" for f, k in powers.items())


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
def _products(z: Array, degree: int, values: Array) -> None:
    """values[i, j] = z[i, f] z[i, g] ... for the j-th of f <= g <= ..., shorter products first.

    Those of k features that begin with f are z[i, f] times those of k - 1 features that begin with f or a later one,
    and these stand side by side.
    """
    n_features = z.shape[1]
    exact = np.empty(values.shape[1])  # of one row; rounded to float32 once
    begins = np.empty(n_features, np.int64)  # where the products of the last size begin whose first feature is f
    for i in range(len(z)):
        for f in range(n_features):
            exact[f] = z[i, f]
            begins[f] = f
        end = n_features
        for _ in range(1, degree):
            at = end
            for f in range(n_features):
                factor, size = z[i, f], end - begins[f]
                for j in range(size):
                    exact[at + j] = factor * exact[begins[f] + j]
                begins[f] = at
                at += size
            end = at
        for j in range(values.shape[1]):
            values[i, j] = np.float32(exact[j])


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
                values[i, j] = np.float32(1.0 / (1.0 + math.exp(min(-over * total, _LARGEST_EXPONENT))))
