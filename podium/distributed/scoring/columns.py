"""Columns: the features of a model among the columns of a table, found by name, and their scores.

Other columns are left alone, and the order does not matter. Plain columns of numbers go to the model without passing
through a table of another kind: block by block, a block of columns in the cache of the processor, the next block in the
same memory. Columns of any other type are read as `predict` reads them, which also has the words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.sparse import FeatureMatrix
from podium.formats.frames import no_column
from podium.models.frame.arguments import rows_for
from podium.models.frame.ranker import Ranker
from podium.models.trees.boosted import BoostedTrees

_BLOCK_BYTES = 4 << 20
_APART = 16  # columns that lie a power of two apart would share the places of the cache


def feature_names(model: Ranker, features: Sequence[Any] | None = None) -> list[Any]:
    """What the features of the model are called in tables, in its order.

    `features` are names for a model that was trained without; else those of tables that Podium writes from such data.
    """
    trained = getattr(model, "feature_names_in_", None)
    if features is None and trained is not None:
        return [str(name) for name in trained]
    if features is None:
        return [f"f{number}" for number in range(1, model.n_features_in_ + 1)]
    if trained is not None and list(features) != list(trained):
        raise ValueError("features is for models that were trained without names; this one has its own. Leave it out.")
    if isinstance(features, str) or len(features) != model.n_features_in_ or len(set(features)) < len(features):
        expected = f"{model.n_features_in_:,} columns, each once, in the order of the model"
        raise ValueError(f"features must name {expected}; got {features!r:.200}.")
    return list(features)


def refuse_other_columns(model: Ranker, names: Sequence[Any], columns: Sequence[Any]) -> None:
    """Refuse a table that lacks a feature, or has two columns of its name."""
    known = set(columns)
    for name in names:
        if name not in known:
            unnamed = not hasattr(model, "feature_names_in_")
            advice = " The model was trained without names: give them in its order, features=[...]." if unnamed else ""
            raise ValueError(f"a feature of the model is missing: {no_column(name, columns)}{advice}")
    if len(known) < len(columns):
        twice = next((name for name in names if list(columns).count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"there are two columns {twice!r}, and the model needs one. Rename or drop the other.")


def is_plain(dtype: Any) -> bool:
    """Whether these are numbers as NumPy has them."""
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf" and dtype.itemsize <= 8


def score_columns(model: Ranker, columns: Sequence[Array], names: Sequence[Any]) -> Array:
    """One score per row, of a model whose scores do not depend on other rows; one plain array per feature."""
    if not _reads_columns(model):
        return model.score_rows(rows_of_columns(model, columns, names), None)
    n = len(columns[0])
    out, size = np.empty(n), min(n, _block_rows(len(columns)))
    memory = np.empty((len(columns), size + _APART), np.float32)
    columns = [_single_step(values) for values in columns]
    for start in range(0, n, size):
        part = slice(start, min(n, start + size))
        block = memory[:, : part.stop - start]
        _fill(block, columns, part)
        _refuse_infinite(block.T, names, start)
        out[part] = model.score_rows(block.T, None)
    return out


def rows_of_columns(model: Ranker, columns: Sequence[Array], names: Sequence[Any]) -> Array:
    """float32 rows in C order, checked as `predict` checks them."""
    n = len(columns[0])
    rows = np.empty((n, len(columns)), np.float32)
    columns = [_single_step(values) for values in columns]
    size = _block_rows(len(columns))
    for start in range(0, n, size):
        part = slice(start, min(n, start + size))
        _fill(rows[part].T, columns, part)
    _refuse_infinite(rows, names, 0)
    model.refuse_unsupported(rows, "the rows", fitted=True)
    return rows


def general_rows(model: Ranker, table: Any) -> FeatureMatrix:
    """The rows of a pandas or Arrow table with the columns of the model, read and checked as `predict` does it."""
    try:
        rows = rows_for(model, table if hasattr(model, "feature_names_in_") else _as_array(table))
    except (TypeError, ValueError):
        _refuse_text(model, table)
        raise
    model.refuse_unsupported(rows, "the rows", fitted=True)
    return rows


def _as_array(table: Any) -> Array:
    frame = table.to_pandas() if type(table).__module__.startswith("pyarrow") else table
    values: Array = frame.to_numpy(np.float64, na_value=np.nan)
    return values


def _refuse_text(model: Ranker, table: Any) -> None:
    """Call a column of text by its name, which errors about converting numbers do not know."""
    import narwhals as nw

    columns = nw.from_native(table, eager_only=True)
    for name in columns.columns:
        values = columns.get_column(name).drop_nulls().to_list() if str(name) not in model.categories_ else []
        text = next((value for value in values if isinstance(value, str)), None)
        if text is not None:
            raise ValueError(f"column {name!r} holds text such as {text[:40]!r}, and the model needs numbers there.")


def _reads_columns(model: Ranker) -> bool:
    """Whether the rows of this model go to its trees only, and those read columns."""
    alone = model.transform_ is None and model.imputation_ is None and model.init_ is None
    return isinstance(model, BoostedTrees) and alone and model.forest_.reads_columns


def _block_rows(n_columns: int) -> int:
    return max(1024, _BLOCK_BYTES // (4 * n_columns))


def _single_step(values: Array) -> Array:
    """Numbers that become float32 in one step, as tables of mixed types do: long integers through float64."""
    return values.astype(np.float64) if values.dtype.kind in "iu" and values.dtype.itemsize == 8 else values


def _fill(block: Array, columns: Sequence[Array], part: slice) -> None:
    """Rows `part` of all columns, (features, rows)."""
    with np.errstate(over="ignore", invalid="ignore"):
        for feature, values in enumerate(columns):
            block[feature] = values[part]


def _refuse_infinite(rows: Array, names: Sequence[Any], first: int) -> None:
    infinite = np.isinf(rows)
    if infinite.any():
        row, feature = np.argwhere(infinite)[0].tolist()
        value = f"{rows[row, feature]} in row {first + row + 1}"
        raise ValueError(
            f"column {names[feature]!r} has {value}; features must be finite as float32, null for missing."
        )
