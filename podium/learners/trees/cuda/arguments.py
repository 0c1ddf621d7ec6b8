"""What all kernels of a tree are given: one structure of pointers and numbers, eight bytes each, in the GPU's memory.

The fields are listed once; the structure of the CUDA text and the bytes that the host writes are made of the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_BYTES, _INTS, _FLOATS, _DOUBLES, _ROWS = "unsigned char*", "int*", "float*", "double*", "unsigned int*"

# What a tree leaves to the host, in the order of one buffer: type, and whether there is one per node or per leaf.
OUTPUTS: dict[str, tuple[Any, str, int]] = {
    "leaf_sums": (np.int64, "leaf", 2),
    "leaf_start": (np.int64, "leaf", 1),
    "leaf_stop": (np.int64, "leaf", 1),
    "leaf_low": (np.float64, "leaf", 1),
    "leaf_high": (np.float64, "leaf", 1),
    "node_gain": (np.float64, "node", 1),
    "node_size": (np.int64, "node", 1),
    "leaf_node": (np.int32, "leaf", 1),
    "node_feature": (np.int32, "node", 1),
    "node_column": (np.int32, "node", 1),
    "node_bin": (np.int32, "node", 1),
    "node_missing_left": (np.int32, "node", 1),
    "node_left": (np.int32, "node", 1),
    "node_sides": (np.uint8, "node", 256),
}
_C_TYPES = {np.int64: "long long*", np.float64: _DOUBLES, np.int32: _INTS, np.uint8: _BYTES}

FIELDS: dict[str, str] = {
    # the binned rows: slices of 32 columns, in each a row is 32 bytes
    "bins": "const unsigned char*",
    "n": "long long",
    "slices": "long long",
    "n_features": "long long",
    "n_slots": _INTS,  # per column
    "n_bins": _INTS,  # per feature, as `FeatureLayout` and `BinEdges` have them
    "has_missing": _BYTES,
    "column": _INTS,
    "offset": _INTS,
    "default_bin": _INTS,
    "categorical": _BYTES,
    "signs": _DOUBLES,
    "smoothing": "double",
    # of one tree
    "allowed": _BYTES,
    "gradients": _FLOATS,
    "hessians": _FLOATS,
    "weights": _FLOATS,  # of splits: the hessians, or others
    "sample": _ROWS,  # or null: all rows
    "n_sample": "long long",
    "stream": "unsigned long long",
    "scores": _DOUBLES,
    # rules
    "most": "long long",
    "by_level": "long long",
    "max_depth": "long long",
    "min_samples": "long long",
    "by_gradients": "long long",
    "even_weights": "long long",
    "extra_trees": "long long",
    "min_gain": "double",
    "min_hessian": "double",
    "l2": "double",
    # working memory
    "rows": _ROWS,
    "other": _ROWS,
    "packed": "int2*",
    "histograms": "void*",
    "splits": "Split*",  # (leaves, features): the best ones
    "counts": _INTS,  # (columns, 256)
    "order": _BYTES,  # (256,): of the categories of the split
    "n_left": "long long*",  # per block
    "barrier": _ROWS,
    "state": "State*",
    "leaf_gain": _DOUBLES,
    "leaf_best": _INTS,
    "leaf_depth": _INTS,
    "leaf_histogram": _INTS,
    "leaf_other": _INTS,
    "node_values": _DOUBLES,
    **{name: _C_TYPES[kind] for name, (kind, _, _) in OUTPUTS.items()},
}

# What kernels tell each other and the host.
STATE = np.dtype(
    [
        ("units", np.float64, 2),
        ("scales", np.float64, 4),
        ("totals", np.int64, 2),
        ("next_histogram", np.int64),
        ("spare", np.int64),
        ("largest", np.uint32, 3),
        ("negative", np.int32),
        ("count", np.int32),
        ("leaf", np.int32),
        ("feature", np.int32),
    ],
    align=True,
)
# The split of a feature; `used`: how many bins are in order.
SPLIT = np.dtype(
    [
        ("gain", np.float64),
        ("middle", np.float64),
        ("bin", np.int32),
        ("missing_left", np.int32),
        ("used", np.int32),
        ("spare", np.int32),
    ]
)
_C_NAMES = {"f8": "double", "i8": "long long", "u4": "unsigned int", "i4": "int"}


def structures() -> str:
    """The CUDA text of all structures."""
    fields = " ".join(f"{kind} {name};" for name, kind in FIELDS.items())
    records = (f"struct {name} {{ {_record(kind)} }};" for name, kind in (("State", STATE), ("Split", SPLIT)))
    return "\n".join([*records, f"struct Tree {{ {fields} }};", ""])


def _record(record: np.dtype) -> str:
    lines = []
    for name in record.names or ():
        kind, shape = record[name].base, record[name].shape
        lines.append(f"{_C_NAMES[kind.str[1:]]} {name}{f'[{shape[0]}]' if shape else ''};")
    return " ".join(lines)


def write_fields(values: Mapping[str, Any], arguments: np.ndarray) -> None:
    """Fill (fields,) uint64: addresses, integers and floats, each by its type."""
    for number, (name, kind) in enumerate(FIELDS.items()):
        value = values.get(name, 0)
        arguments[number] = np.float64(value).view(np.uint64) if kind == "double" else np.uint64(int(value) % 2**64)
