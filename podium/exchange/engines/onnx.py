"""ONNX, out only: trees, linear models and nets as a graph from float32 rows to scores, for onnxruntime.

engine is the version of onnxruntime: None for a current one (1.23 or later); before 1.23 there are no splits by
categories, and before 1.21 scores of trees are rounded to float32 at the end. `Y` has shape (rows, 1).
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import DOUBLE, Claim, Written
from podium.exchange.forms import Form, LinearSum, NetForm
from podium.exchange.onnx_graph import INPUT, OUTPUT, Graph, facts_of, runtime_version
from podium.exchange.onnx_nets import write_net
from podium.exchange.onnx_trees import write_trees

_MOST_IR = 64  # versions of the format; there are 13 today


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does: with the version of the format, then a name, a text or the graph."""
    return len(head) > 2 and head[0] == 0x08 and 0 < head[1] < _MOST_IR and head[2] in b"\x12\x1a\x22\x28\x32\x3a\x42"


def write(form: Form, engine: str | None = None) -> Written:
    version = runtime_version(engine)
    if isinstance(form, NetForm):
        return write_net(form)
    return write_linear(form) if isinstance(form, LinearSum) else write_trees(form, version)


def write_linear(form: LinearSum) -> Written:
    """A running sum over the features, whose last entry is the score: so the order of additions is known."""
    graph = Graph()
    rows = graph.cast(INPUT, np.float64)
    conditions = ["predict adds up in another order, so the last bits of its scores differ"]
    if form.missing_is_zero:
        rows = graph.add("Where", graph.add("IsNaN", rows), graph.constant("zero", 0.0), rows)
    else:
        conditions.append("rows with missing values, which predict refuses, have the score NaN")
    claim = Claim(DOUBLE, "onnxruntime 1.15 or later on a CPU, any number of threads", tuple(conditions))
    products = graph.add("Mul", rows, graph.constant("weights", form.weights[None]))
    sums = graph.add("CumSum", products, graph.constant("axis", 1, np.int64))
    total = graph.add("Gather", sums, graph.constant("last", [len(form.weights) - 1], np.int64), axis=1)
    graph.add("Add", total, graph.constant("intercept", form.intercept))
    content = graph.content(len(form.weights), np.float64, None, facts_of(form.names, claim))
    return Written(content, claim, form.scores)


def run(path: str, X: Array, threads: int = 1) -> tuple[Array, str]:
    """Scores by onnxruntime on a CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (scores,) = session.run([OUTPUT], {INPUT: X})
    words = f"onnxruntime {onnxruntime.__version__}, intra_op_num_threads={threads}"
    return np.asarray(scores, np.float64).reshape(-1), words
