"""An ONNX graph under construction: operators in order, constants, and the file that holds them.

The input is `X`, float32 (rows, features); the output is `Y` (rows, 1), one score per row, as other exporters give
regressions and rankers. Names of features, of categories, the claim and a digest are in `metadata_props`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from podium import __version__
from podium._runtime.compiler import Array
from podium.exchange.claims import Claim
from podium.models.frame.inspection import NumberedNames

INPUT, OUTPUT = "X", "Y"
OPSET, IR = 17, 8  # of ONNX 1.12
TREE_DOMAIN = "ai.onnx.ml"
REGRESSOR_OPSET, ENSEMBLE_OPSET, ENSEMBLE_IR = 3, 5, 10  # TreeEnsembleRegressor, and TreeEnsemble of ONNX 1.17
OLDEST, WITH_ENSEMBLE, WITH_SETS = (1, 15), (1, 21), (1, 23)  # versions of onnxruntime
_LARGEST = 2**31 - 1  # bytes of a file of protobuf


def require_onnx() -> Any:
    """The package, or what to install."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError("Writing ONNX needs the package onnx. Install it with: pip install 'podium[onnx]'") from error
    return onnx


def runtime_version(engine: str | None) -> tuple[int, int] | None:
    """The version of onnxruntime that is asked for; None: a current one."""
    if engine is None:
        return None
    parts = re.fullmatch(r"(\d{1,4})\.(\d{1,4})(\.\w+)*", engine, re.ASCII)
    version = (int(parts[1]), int(parts[2])) if parts else (0, 0)
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ValueError(f'ONNX: engine is the version of onnxruntime, "{oldest}" or a later one; got {engine!r}.')
    return version


class Graph:
    """Operators are added in the order in which they are computed; each is called by the name of what it gives."""

    def __init__(self) -> None:
        self.onnx = require_onnx()
        self._operators: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The name of what an operator gives."""
        name = f"{operator.lower()}_{len(self._operators)}"
        self._operators.append(self.onnx.helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: Any, dtype: Any = np.float64) -> str:
        """The name of an array that is part of the file."""
        name = f"{name}_{len(self._constants)}"
        self._constants.append(self.tensor(name, np.asarray(values, dtype)))
        return name

    def tensor(self, name: str, values: Array) -> Any:
        return self.onnx.numpy_helper.from_array(np.array(values, order="C"), name)

    def tensors(self, arrays: Mapping[str, Array]) -> dict[str, Any]:
        """Arrays as attributes of an operator."""
        return {name: self.tensor(name, values) for name, values in arrays.items()}

    def lists(self, arrays: Mapping[str, Array]) -> dict[str, list[int]]:
        """Integers as attributes of an operator."""
        return {name: values.astype(np.int64).tolist() for name, values in arrays.items()}

    def cast(self, name: str, dtype: Any) -> str:
        """The same numbers in another type."""
        return self.add("Cast", name, to=self._element(dtype))

    def _element(self, dtype: Any) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def content(self, n_features: int, dtype: Any, tree_opset: int | None, facts: Mapping[str, str]) -> bytes:
        """The file, in which the last operator gives the scores, of this type. tree_opset: of operators of trees."""
        helper = self.onnx.helper
        self._operators[-1].output[0] = OUTPUT
        ends = [
            helper.make_tensor_value_info(name, self._element(kind), ["rows", width])
            for name, kind, width in ((INPUT, np.float32, n_features), (OUTPUT, dtype, 1))
        ]
        graph = helper.make_graph(self._operators, "podium", ends[:1], ends[1:], self._constants)
        opsets = [helper.make_opsetid("", OPSET)]
        opsets += [] if tree_opset is None else [helper.make_opsetid(TREE_DOMAIN, tree_opset)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="podium", producer_version=__version__)
        model.ir_version = IR if tree_opset != ENSEMBLE_OPSET else ENSEMBLE_IR
        digest = hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()
        helper.set_model_props(model, {**facts, "graph_sha256": digest})
        if model.ByteSize() > _LARGEST:
            raise ValueError(
                f"ONNX: the file would have {model.ByteSize():,} bytes; protobuf has {_LARGEST:,} at most."
            )
        content: bytes = model.SerializeToString(deterministic=True)
        return content


def facts_of(
    names: Sequence[str], claim: Claim, categories: Mapping[str, Sequence[Any]] | None = None
) -> dict[str, str]:
    """What is written into the file about its features and scores; features that have no names are not listed."""
    facts = {"claim": claim.sentence()}
    if not isinstance(names, NumberedNames):
        facts["feature_names"] = json.dumps(list(names))
    if categories:
        facts["categories"] = json.dumps({name: list(known) for name, known in categories.items()})
    return facts
