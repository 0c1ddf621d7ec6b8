"""Scoring: multilayer perceptrons from rows to scores, in NumPy alone.

    h = activation(norm(W h + b)), with the layer's input added where `residual` is set and both have the same width;
    score = w . h + b, the mean over the nets of a bag

Rows are standardised first, which is folded into the first layer. A missing value counts as the feature's mean, and
features that were missing in training have a further input that is 1 where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from podium._runtime.once import once
from podium.data.standardising import Standardisation

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "identity")
NORM_EPSILON = 1e-5
GELU_SLOPE, GELU_CUBE = 0.7978845608028654, 0.044715  # of the approximation by tanh
_BLOCK_ROWS = 2048  # at a time, where columns are made
_SCORED_ROWS = 4096  # per thread and step of scoring: fewer are bound by Python, more do not fit the cache
_PRODUCT_ROWS = (128, 16, 8, 4, 2, 1)  # per product, the first that gives every row the same bits at every place
_PROBES = 16
_FAR = 16.0  # standard deviations from 0: a mean this far is subtracted before the product, where digits would be lost
_LARGEST, _SMALLEST = 1e30, 1e-30  # means and scales outside: float32 would not hold weights that they are folded into


@dataclass(frozen=True)
class Piece:
    """A part of the weights: its shape, and the variance that its entries start with, times their number of inputs."""

    name: str
    shape: tuple[int, ...]
    variance: float = 0.0  # 0: all entries start as `value`
    value: float = 0.0


class Layout:
    """The pieces of a net's weights, which lie one after the other in one vector."""

    def pieces(self) -> list[Piece]:
        raise NotImplementedError

    @once
    def _places(self) -> list[tuple[Piece, slice]]:
        ends = np.cumsum([np.prod(piece.shape, dtype=np.int64) for piece in self.pieces()]).tolist()
        return [(piece, slice(start, end)) for piece, start, end in zip(self.pieces(), [0, *ends], ends)]

    @property
    def n_weights(self) -> int:
        return int(self._places[-1][1].stop)

    def views(self, vector: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Name and content of each piece of one net's vector (n_weights,), of NumPy or JAX."""
        return [(piece.name, vector[span].reshape(piece.shape)) for piece, span in self._places]

    def penalised(self) -> np.ndarray:
        """1 for the weights of matrices, which weight decay shrinks, 0 for all others; (n_weights,) float32."""
        mask = np.zeros(self.n_weights, np.float32)
        for piece, span in self._places:
            mask[span] = len(piece.shape) == 2
        return mask

    def start(self, seed: int, n_nets: int, bias: float = 0.0) -> np.ndarray:
        """(nets, n_weights) float32 to begin with: uniform entries; the last one, the bias of scores, is `bias`.

        Net k depends on the seed and k alone, not on how many there are.
        """
        weights = np.zeros((n_nets, self.n_weights), np.float32)
        for net in range(n_nets):
            generator = np.random.default_rng([seed, net])
            for piece, span in self._places:
                limit = np.sqrt(3.0 * piece.variance / max(piece.shape[0], 1))
                drawn = generator.uniform(-limit, limit, span.stop - span.start) if limit else piece.value
                weights[net, span] = drawn
        weights[:, -1] = bias
        return weights


@dataclass(frozen=True)
class Layer:
    """The weights of one layer of one net; `scale` and `shift` are those of layer normalisation."""

    matrix: np.ndarray
    bias: np.ndarray
    scale: np.ndarray | None = None
    shift: np.ndarray | None = None


@dataclass(frozen=True)
class NetShape(Layout):
    """A multilayer perceptron: all that the layout of its weights depends on."""

    n_inputs: int
    hidden: tuple[int, ...]
    activation: str = "relu"
    layer_norm: bool = False
    residual: bool = False

    @property
    def widths(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer, the last one with a single output."""
        return list(pairwise((self.n_inputs, *self.hidden, 1)))

    def pieces(self) -> list[Piece]:
        """Of each layer: matrix, bias and, in hidden layers, scale and shift."""
        pieces = []
        for number, (inputs, outputs) in enumerate(self.widths):
            last = number == len(self.hidden)
            pieces += [Piece("matrix", (inputs, outputs), 1.0 if last else 2.0), Piece("bias", (outputs,))]
            if self.layer_norm and not last:
                pieces += [Piece("scale", (outputs,), value=1.0), Piece("shift", (outputs,))]
        return pieces

    def unpack(self, vector: np.ndarray) -> list[Layer]:
        """The layers of one net, as views into its vector."""
        layers: list[dict[str, np.ndarray]] = []
        for name, view in self.views(vector):
            if name == "matrix":
                layers.append({})
            layers[-1][name] = view
        return [Layer(**pieces) for pieces in layers]

    def adds(self, inputs: int, outputs: int) -> bool:
        """Whether a layer's input is added to its output."""
        return self.residual and inputs == outputs


@dataclass(frozen=True, eq=False)
class Inputs(Standardisation):
    """What the features were like in training, and which ones had missing values."""

    flagged: np.ndarray  # (k,) int64: features with a further input that is 1 where they are missing

    @classmethod
    def of(cls, X: np.ndarray) -> Inputs:
        scaling, missing = Standardisation.fit(X), np.zeros(X.shape[1], np.bool_)
        for start in range(0, len(X), _BLOCK_ROWS):
            missing |= np.isnan(X[start : start + _BLOCK_ROWS]).any(axis=0)
        return cls(scaling.centre, scaling.scale, np.flatnonzero(missing))

    def check(self, n_features: int) -> None:
        """Refuse what a file says of features that are not there, or cannot be divided by."""
        for name, array in (("centre", self.centre), ("scale", self.scale)):
            if array.dtype != np.float64 or array.shape != (n_features,) or not np.isfinite(array).all():
                raise ValueError(f"{name} must have one finite float64 number per feature")
        if not (self.scale > 0).all():
            raise ValueError("scale must be above 0")
        flagged = self.flagged
        if flagged.dtype != np.int64 or flagged.ndim != 1 or (np.diff(flagged) <= 0).any():
            raise ValueError("flagged must be rising feature numbers")
        if len(flagged) and not (flagged[0] >= 0 and flagged[-1] < n_features):
            raise ValueError(f"flagged names a feature that is not there; there are {n_features:,}")

    @property
    def width(self) -> int:
        return len(self.centre) + len(self.flagged)

    def columns(self, X: np.ndarray) -> np.ndarray:
        """What the net sees of rows (n, features): standardised, imputed and flagged; (n, width) float32."""
        columns = np.empty((len(X), self.width), np.float32)
        features = len(self.centre)
        for start in range(0, len(X), _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            with np.errstate(over="ignore"):  # a row that far from those of training has no finite score
                standard = self.apply(X[part])
                columns[part, :features] = np.where(np.isnan(standard), 0.0, standard)
            columns[part, features:] = np.isnan(X[part][:, self.flagged])
        return columns


@dataclass(frozen=True, eq=False)
class NetFunction:
    """One or several nets of a shape, with the inputs they were trained on."""

    shape: NetShape
    inputs: Inputs
    weights: np.ndarray  # (nets, n_weights) float32

    def scores(self, X: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """One score per row of float32 rows, float64; blocks of rows are shared by threads."""
        from podium._runtime.threads import map_blocks, serial_blas  # a device has this module without the package

        if 0 < len(X) <= _SCORED_ROWS:
            return self._block(X)
        scores = np.empty(len(X))

        def work(block: int) -> None:
            part = slice(block * _SCORED_ROWS, (block + 1) * _SCORED_ROWS)
            scores[part] = self._block(X[part])

        _ = self._folded, self._filling, self._matrices, self._biases  # made once, not by every thread
        with serial_blas():
            map_blocks(work, -(-len(X) // _SCORED_ROWS), n_jobs)
        return scores

    def _block(self, X: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks for scores refuses those that are not finite
            h = self._first(X)
            for number in range(1, len(self.shape.widths)):
                last = number == len(self.shape.hidden)
                h = self._hidden(number, h) if not last else self._products(number, h)
            return np.asarray(h[..., 0].mean(axis=0, dtype=np.float64)[: len(X)])

    def _first(self, X: np.ndarray) -> np.ndarray:
        """The first layer, (nets, rows, width); rows are filled up to a whole number of products."""
        matrix, bias, _ = self._folded
        rows, whole = len(X), -len(X) % product_rows(*matrix.shape)
        if whole or len(self._far) or len(self._extreme):
            X = np.concatenate([X, np.zeros((whole, X.shape[1]), np.float32)])
            X[:, self._far] -= self.inputs.centre[self._far].astype(np.float32)
            X[:, self._extreme] = self.inputs.take(self._extreme).apply(X[:, self._extreme])
        z = multiply_rows(X, matrix)
        missing = np.flatnonzero(np.isnan(z[:rows, 0]))  # NaN times any weight is NaN
        if len(missing):
            z[missing] = self._imputed(X[missing])
        if self._shifts:
            np.maximum(z, -bias, out=z)
        else:
            z += bias
        z = z.reshape(len(z), len(self.weights), -1).transpose(1, 0, 2)
        return z if self._shifts or not self.shape.hidden else self._activated(0, z, None)

    def _imputed(self, X: np.ndarray) -> np.ndarray:
        """Rows with missing values times the first layer."""
        matrix, _, flags = self._folded
        absent = np.isnan(X)
        filled, flagged = np.where(absent, self._filling, X), absent[:, self.inputs.flagged].astype(np.float32)
        return np.asarray(multiply_rows(filled, matrix) + multiply_rows(flagged, flags))

    def _hidden(self, number: int, h: np.ndarray) -> np.ndarray:
        return self._activated(number, self._products(number, h), h)

    def _products(self, number: int, h: np.ndarray) -> np.ndarray:
        z = multiply_rows(h, self._matrices[number])
        z += self._biases[number]
        return z

    def _activated(self, number: int, z: np.ndarray, h: np.ndarray | None) -> np.ndarray:
        """In place: normalised if the shape says so, through the activation, plus the layer's input."""
        if self.shape.layer_norm:
            layers = [net[number] for net in self._layers]
            scale, shift = (
                np.stack([getattr(layer, name) for layer in layers])[:, None] for name in ("scale", "shift")
            )
            z = z - z.mean(axis=-1, keepdims=True)
            z /= np.sqrt(np.square(z).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
            z = z * scale + shift
        activate(self.shape.activation, z)
        if h is not None and self.shape.adds(h.shape[-1], z.shape[-1]):
            z += h
        return z

    @once
    def _layers(self) -> list[list[Layer]]:
        return [self.shape.unpack(vector) for vector in self.weights]

    @property
    def _shifts(self) -> bool:
        """Whether the first layer's bias is left to the second: max(z + b, 0) = max(z, -b) + b saves a pass over z."""
        plain = not self.shape.layer_norm and not self.shape.residual
        return bool(self.shape.hidden) and self.shape.activation == "relu" and plain

    @once
    def _matrices(self) -> list[np.ndarray]:
        """By layer, (nets, inputs, outputs)."""
        return [np.stack(matrices) for matrices in zip(*([layer.matrix for layer in net] for net in self._layers))]

    @once
    def _biases(self) -> list[np.ndarray]:
        """By layer, (nets, 1, outputs); what the first layer left out is in the second one's."""
        biases = [np.stack(biases)[:, None] for biases in zip(*([layer.bias for layer in net] for net in self._layers))]
        if self._shifts:
            left_out = self._folded[1].astype(np.float64).reshape(len(self.weights), 1, -1)
            biases[1] = (biases[1] + left_out @ self._matrices[1].astype(np.float64)).astype(np.float32)
        return biases

    @once
    def _extreme(self) -> np.ndarray:
        """Features that are standardised before the product, in float64."""
        centre, scale = np.abs(self.inputs.centre), self.inputs.scale
        return np.flatnonzero((scale < _SMALLEST) | (np.maximum(centre, scale) > _LARGEST))

    @once
    def _far(self) -> np.ndarray:
        far = np.abs(self.inputs.centre) > _FAR * self.inputs.scale
        far[self._extreme] = False
        return np.flatnonzero(far)

    @once
    def _filling(self) -> np.ndarray:
        """What stands for a missing value where means were subtracted already, or were not."""
        filling = self.inputs.centre.copy()
        filling[self._far], filling[self._extreme] = 0.0, 0.0
        return filling.astype(np.float32)

    @once
    def _folded(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first layers of all nets side by side, for rows as they come: matrix, bias, weights of the flags."""
        features = len(self.inputs.centre)
        layers = [net[0] for net in self._layers]
        both = np.concatenate([layer.matrix for layer in layers], axis=1)
        scale, centre = self.inputs.scale.copy(), self.inputs.centre.copy()
        scale[self._extreme], centre[self._extreme], centre[self._far] = 1.0, 0.0, 0.0
        matrix = both[:features] / scale[:, None]
        bias = np.concatenate([layer.bias for layer in layers]) - centre @ matrix
        return matrix.astype(np.float32), bias.astype(np.float32), np.ascontiguousarray(both[features:])


def multiply_rows(h: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """h (..., rows, inputs) times matrix (..., inputs, outputs), of which a row has the same bits in any batch."""
    size, rows = product_rows(*matrix.shape[-2:]), h.shape[-2]
    missing = -rows % size
    if missing:
        h = np.concatenate([h, np.zeros((*h.shape[:-2], missing, h.shape[-1]), h.dtype)], axis=-2)
    blocks = h.reshape(*h.shape[:-2], h.shape[-2] // size, size, h.shape[-1])
    products = blocks @ matrix[..., None, :, :]
    return np.asarray(products.reshape(*h.shape[:-1], matrix.shape[-1])[..., :rows, :])


@cache
def product_rows(inputs: int, outputs: int) -> int:
    """How many rows a product has, no more and no less: the bits of BLAS depend on its shape.

    On some processors they depend on the place of the row as well, because BLAS takes the last rows by other
    instructions than the first ones. Rows that are equal show it.
    """
    if not inputs * outputs:
        return _PRODUCT_ROWS[0]
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((_PROBES, 1, inputs), np.float32)
    matrix = generator.standard_normal((inputs, outputs), np.float32)
    for size in _PRODUCT_ROWS:
        products = np.repeat(rows, size, axis=1) @ matrix
        if (products == products[:, :1]).all():
            return size
    return 1  # a row alone has one place


def activate(name: str, z: np.ndarray) -> None:
    """The activation of each number, in place."""
    if name == "relu":
        np.maximum(z, np.float32(0.0), out=z)
    elif name == "tanh":
        np.tanh(z, out=z)
    elif name == "silu":
        z *= _sigmoid(z)
    elif name == "gelu":
        z *= _sigmoid(np.float32(2.0 * GELU_SLOPE) * (z + np.float32(GELU_CUBE) * z * z * z))


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * (np.float32(1.0) + np.tanh(np.float32(0.5) * z))
