"""Nets as ONNX: standardisation, layers and the mean over the nets of a bag, all in float64.

In float64 the order of additions hardly counts, so engines agree far below what float32 holds. `predict` computes in
float32; how near it comes is measured where a net is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import TOLERANCE, Claim, Written
from podium.exchange.forms import NetForm
from podium.exchange.onnx_graph import INPUT, Graph, facts_of
from podium.exchange.rows import telling_rows
from podium.learners.net.scoring import GELU_CUBE, GELU_SLOPE, NORM_EPSILON, Layer, NetFunction, activate

ALLOWED = 1e-9  # relative; the largest distance of 480 nets x 400 rows was 2.6e-12
_MEASURED_ROWS = 200
_CUBE, _SLOPE = float(np.float32(GELU_CUBE)), float(np.float32(2.0 * GELU_SLOPE))


@dataclass(frozen=True, eq=False)
class _Net:
    """What a net is made of, in float64; the layers of all nets of a bag are stacked."""

    function: NetFunction
    imputation: Any  # what fills missing values before the net sees them, or None
    layers: list[Layer]

    @classmethod
    def of(cls, form: NetForm) -> _Net:
        function = form.model.net_
        nets = [function.shape.unpack(vector.astype(np.float64)) for vector in function.weights]
        return cls(function, form.model.imputation_, [_stacked(layers) for layers in zip(*nets)])

    def scores(self, X: Array) -> Array:
        """One score per float32 row, by NumPy in float64; as a plain product of matrices."""
        with np.errstate(over="ignore", invalid="ignore"):
            h = self._columns(X.astype(np.float64))[None]
            for layer in self.layers[:-1]:
                before, h = h, _normalized(h @ layer.matrix + layer.bias, layer)
                activate(self.function.shape.activation, h)
                if self.function.shape.adds(before.shape[-1], h.shape[-1]):
                    h = h + before
            h = h @ self.layers[-1].matrix + self.layers[-1].bias
            return np.asarray(h[..., 0].mean(axis=0))

    def _columns(self, X: Array) -> Array:
        if self.imputation is not None:
            missing = np.isnan(X)
            filled = np.where(missing, self.imputation.values.astype(np.float64), X)
            X = np.concatenate([filled, missing[:, self.imputation.flagged]], axis=1)
        inputs, missing = self.function.inputs, np.isnan(X)
        return np.concatenate([np.where(missing, 0.0, inputs.apply(X)), missing[:, inputs.flagged]], axis=1)


def _stacked(layers: tuple[Layer, ...]) -> Layer:
    """One layer of all nets: matrix (nets, inputs, outputs), others (nets, 1, outputs)."""
    first = layers[0]
    matrix, bias = np.stack([layer.matrix for layer in layers]), np.stack([layer.bias for layer in layers])[:, None]
    if first.scale is None:
        return Layer(matrix, bias)
    scale, shift = (np.stack([getattr(layer, name) for layer in layers])[:, None] for name in ("scale", "shift"))
    return Layer(matrix, bias, scale, shift)


def _normalized(z: Array, layer: Layer) -> Array:
    if layer.scale is None or layer.shift is None:
        return z
    z = z - z.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.square(z).mean(axis=-1, keepdims=True) + float(np.float32(NORM_EPSILON)))
    return np.asarray(z / deviation * layer.scale + layer.shift)


# --- the graph


def write_net(form: NetForm) -> Written:
    net, graph, n_features = _Net.of(form), Graph(), len(form.names)
    h = _columns(graph, net)
    width = net.function.inputs.width
    for number, layer in enumerate(net.layers):
        before, before_width, width = h, width, layer.matrix.shape[-1]
        h = _product(graph, h, layer)
        if number == len(net.layers) - 1:
            break
        h = _activation(graph, net.function.shape.activation, _normalization(graph, h, layer))
        if net.function.shape.adds(before_width, width):
            h = graph.add("Add", h, before)
    if len(net.function.weights) > 1:
        graph.add("ReduceMean", h, axes=[0], keepdims=0)
    engine, meant = "onnxruntime 1.15 or later on a CPU, any number of threads", "of the net in float64"
    claim = Claim(TOLERANCE, engine, (f"the scores expected are those {meant}",), ALLOWED)
    content = graph.content(n_features, np.float64, None, facts_of(form.names, claim))
    return Written(content, claim, net.scores, (_distance(form, net, n_features),))


def _distance(form: NetForm, net: _Net, n_features: int) -> str:
    """How near `predict` comes, in words."""
    rows = telling_rows(form, _MEASURED_ROWS, n_features)
    expected, model = net.scores(rows), form.model
    scores = model.score_columns(model.columns(rows, None), None)
    distance = np.max(np.abs(scores - expected) / np.maximum(1.0, np.abs(expected)))
    return f"predict computes in float32: it came within {distance:.0e} (relative) of these scores on {len(rows)} rows"


def _columns(graph: Graph, net: _Net) -> str:
    """Filled, standardised and flagged, as `_Net._columns`."""
    columns, inputs = graph.cast(INPUT, np.float64), net.function.inputs
    if net.imputation is not None:
        missing = graph.add("IsNaN", columns)
        filled = graph.add("Where", missing, graph.constant("filling", net.imputation.values), columns)
        columns = _flagged(graph, filled, missing, net.imputation.flagged)
    missing = graph.add("IsNaN", columns)
    centred = graph.add("Sub", columns, graph.constant("centre", inputs.centre))
    standard = graph.add("Div", centred, graph.constant("scale", inputs.scale))
    return _flagged(graph, graph.add("Where", missing, graph.constant("mean", 0.0), standard), missing, inputs.flagged)


def _flagged(graph: Graph, columns: str, missing: str, flagged: Array) -> str:
    """With one more column per flagged one: 1 where it is missing, else 0."""
    if not len(flagged):
        return columns
    of_columns = graph.add("Gather", missing, graph.constant("flagged", flagged, np.int64), axis=1)
    return graph.add("Concat", columns, graph.cast(of_columns, np.float64), axis=1)


def _product(graph: Graph, h: str, layer: Layer) -> str:
    """Of one net (rows, outputs), of a bag (nets, rows, outputs)."""
    if len(layer.matrix) == 1:
        return graph.add("Gemm", h, graph.constant("matrix", layer.matrix[0]), graph.constant("bias", layer.bias[0]))
    product = graph.add("MatMul", h, graph.constant("matrix", layer.matrix))
    return graph.add("Add", product, graph.constant("bias", layer.bias))


def _normalization(graph: Graph, z: str, layer: Layer) -> str:
    """Layer normalisation in its parts: the operator of that name may compute means in float32, by its definition."""
    if layer.scale is None or layer.shift is None:
        return z
    n_nets = len(layer.matrix)
    scale, shift = (part if n_nets > 1 else part[0] for part in (layer.scale, layer.shift))
    z = graph.add("Sub", z, graph.add("ReduceMean", z, axes=[-1], keepdims=1))
    variance = graph.add("ReduceMean", graph.add("Mul", z, z), axes=[-1], keepdims=1)
    above_0 = graph.add("Add", variance, graph.constant("epsilon", float(np.float32(NORM_EPSILON))))
    z = graph.add("Div", z, graph.add("Sqrt", above_0))
    return graph.add("Add", graph.add("Mul", z, graph.constant("gain", scale)), graph.constant("shift", shift))


def _activation(graph: Graph, name: str, z: str) -> str:
    """As `activate` of learners/net/scoring.py, whose constants are float32."""
    if name in ("relu", "tanh"):
        return graph.add({"relu": "Relu", "tanh": "Tanh"}[name], z)
    if name == "silu":
        return graph.add("Mul", z, graph.add("Sigmoid", z))
    if name == "gelu":
        cube = graph.add("Mul", graph.add("Mul", graph.add("Mul", z, z), z), graph.constant("cube", _CUBE))
        slope = graph.add("Mul", graph.add("Add", z, cube), graph.constant("slope", _SLOPE))
        return graph.add("Mul", z, graph.add("Sigmoid", slope))
    return z
