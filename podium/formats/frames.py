"""Frames: ranking data as a table with named columns, one row per document (pandas, polars, pyarrow and their kin).

Columns `label` (if there are labels), `qid` and, where known, `docid`, `sample_weight` and `query_weight`; every other
column is a feature. A null in a feature is a missing value (NaN); the index of a pandas table is ignored. Features of a
categorical type, and those of text, become categories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import check_choice, did_you_mean
from podium.data.categories import Categories
from podium.data.precision import Pair, merged_columns, warn_of_merged
from podium.data.query_ids import as_query_ids, group_rows
from podium.data.ranking import RankingData
from podium.data.sparse import refuse_sparse
from podium.formats.names import column_names, numbers_of_names

if TYPE_CHECKING:
    import narwhals as nw

BACKENDS = ("pandas", "polars", "pyarrow")
LABEL, QID = "label", "qid"
KNOWN = ("docid", "sample_weight", "query_weight")  # used as such if present and not listed as features


@dataclass(frozen=True)
class ColumnNames:
    """Which columns the caller names, as in `read_table`."""

    label: str | None
    qid: str
    docid: str | None
    features: Sequence[str] | None
    sample_weight: str | None
    query_weight: str | None
    labels: str = "required"
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()


def arrays_from_frame(frame: Any, asked: ColumnNames) -> dict[str, Any]:
    """The keyword arguments of `RankingData.from_arrays` from any table that narwhals knows."""
    table = _eager(frame)
    names = choose_columns(table.columns, asked)
    documents, rows, queries = (names[name] for name in KNOWN)
    ids = _ids(table.get_column(asked.qid))
    categories = {
        str(name): known
        for name in names["features"]
        if (known := column_names(table.get_column(name), name in asked.categorical)) is not None
    }
    return {
        "X": _matrix(table, names["features"], categories),
        "y": None if names["label"] is None else _complete_numbers(table.get_column(names["label"])),
        "qid": ids,
        "docids": None if documents is None else _docids(table.get_column(documents)),
        "feature_names": [str(name) for name in names["features"]],
        "sample_weight": None if rows is None else _complete_numbers(table.get_column(rows)),
        "query_weight": None if queries is None else one_per_query(_complete_numbers(table.get_column(queries)), ids),
        "categories": categories,
    }


def frame_from_data(data: RankingData, backend: str = "pandas") -> Any:
    """A table of the kind named by `backend`: label, qid, docid and weights where known, then the features."""
    module = _module_of(backend)
    columns: dict[str, Any] = dict(columns_of(data))
    for name, known in (data.categories or {}).items():
        columns[name] = _typed(backend, module, columns[name], known)
    return make_frame(columns, backend)


def make_frame(columns: Mapping[str, Any], backend: str = "pandas") -> Any:
    """A table of these columns: "pandas", "polars" or "pyarrow"."""
    module = _module_of(backend)
    return module.table(dict(columns)) if backend == "pyarrow" else module.DataFrame(dict(columns))


def _module_of(backend: str) -> Any:
    check_choice("backend", backend, BACKENDS)
    return optional_package(backend)


def _typed(backend: str, module: Any, places: np.ndarray, known: Sequence[Any]) -> Any:
    """A column of a categorical type; where a kind of table has none for names of two types, all are text."""
    missing = np.isnan(places)
    codes = np.where(missing, -1, places).astype(np.int64)
    if backend == "pandas":
        return module.Categorical.from_codes(codes, categories=list(known))
    mixed = len({isinstance(name, str) for name in known}) > 1
    names = [str(name) for name in known] if mixed else list(known)
    if backend == "pyarrow":
        return module.DictionaryArray.from_arrays(module.array(codes, mask=missing), module.array(names))
    values = [None if code < 0 else names[code] for code in codes.tolist()]
    return module.Series(values, dtype=module.Categorical if names and isinstance(names[0], str) else None)


def optional_package(name: str) -> Any:
    """Import a package that Podium does not require, or say how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        wanted = "podium[arrow]" if name == "pyarrow" else name
        raise ImportError(f'{name} is not installed. Install it with: pip install "{wanted}"') from error


def no_column(name: Any, columns: Sequence[Any]) -> str:
    """That a table has no such column, and which ones it has."""
    shown = ", ".join(map(str, columns[:12])) + (", ..." if len(columns) > 12 else "")
    return f"there is no column {name!r}; found: {shown}.{did_you_mean(name, map(str, columns))}"


def choose_columns(columns: Sequence[Any], asked: ColumnNames) -> dict[str, Any]:
    """Which column is what: "label" and the `KNOWN` ones by name or None, and "features" as a list.

    `labels` is as in `read_data`; without a `label` they are ignored. An ignored column of labels is no feature: no
    model would have been trained on it.
    """
    label, labels = (LABEL, "ignored") if asked.label is None else (asked.label, asked.labels)
    used = labels == "required" or (labels == "optional" and label in columns)
    qid, features, others = asked.qid, asked.features, {known: getattr(asked, known) for known in KNOWN}
    wanted = [name for name in (label if used else None, qid, *others.values(), *(features or ())) if name is not None]
    for name in wanted:
        if name not in columns:
            advice = ' For data without labels: label=None, or labels="optional".' if name == label else ""
            raise ValueError(no_column(name, columns) + advice)
    for name in (*asked.drop, *asked.categorical):
        if name not in columns:
            raise ValueError(no_column(name, columns))
        if name in asked.drop and name in wanted:
            raise ValueError(f"column {name!r} is to be dropped, and to be used. Leave it out of one of them.")
    free = set(columns) - set(wanted) - set(asked.drop)
    names: dict[str, Any] = {known: others[known] or (known if known in free else None) for known in KNOWN}
    names["label"] = label if used else None
    taken = {qid, *names.values(), *({label} & free), *asked.drop}
    names["features"] = [name for name in columns if name not in taken] if features is None else list(features)
    twice = set(names["features"]) & taken
    if twice or len(set(names["features"])) < len(names["features"]):
        raise ValueError(f"features must name each column once, and not the label, qid or weights; got {features}.")
    if not names["features"]:
        raise ValueError("there is no feature column: only the label, query and document ids and weights.")
    for name in asked.categorical:
        if name not in names["features"]:
            raise ValueError(f"column {name!r} is categorical, but is no feature. Leave it out of categorical.")
    return names


def columns_of(data: RankingData) -> dict[str, np.ndarray]:
    """The columns of a table by name; features without a name are f1, f2, ..."""
    refuse_sparse(data.X, "a table")
    columns = {} if data.y is None else {LABEL: data.y}
    columns[QID] = _tidy_texts(data.qid, "qid")
    if data.docids is not None:
        columns["docid"] = _tidy_texts(data.docids, "docid")
    if data.sample_weight is not None:
        columns["sample_weight"] = data.sample_weight
    if data.query_weight is not None:
        columns["query_weight"] = data.query_weight[data.query_numbers]
    names = data.feature_names or tuple(f"f{number}" for number in range(1, data.n_features + 1))
    for name in names:
        if name in (LABEL, QID, *KNOWN):
            raise ValueError(f"a feature is named {name!r}, which is the name of another column. Rename it first.")
    return columns | {name: data.X[:, column] for column, name in enumerate(names)}


def one_per_query(weights: np.ndarray, ids: Any) -> np.ndarray:
    """Weights per row, equal within each query, as one per query in order of first appearance."""
    order, offsets, query_ids = group_rows(as_query_ids(ids, None, len(weights)))
    grouped = weights if order is None else weights[order]
    first: np.ndarray = grouped[offsets[:-1]]
    differs = np.flatnonzero(grouped != np.repeat(first, np.diff(offsets)))
    if len(differs):
        query = int(np.searchsorted(offsets, differs[0], side="right")) - 1
        raise ValueError(
            f"query_weight must be the same in all rows of a query; "
            f"query {str(query_ids[query])!r} has {first[query]} and {grouped[differs[0]]}."
        )
    return first


def _eager(frame: Any) -> nw.DataFrame[Any]:
    import narwhals as nw

    try:
        table = nw.from_native(frame)
    except TypeError as error:
        raise ValueError(f"expected a pandas, polars or pyarrow table; got {type(frame).__name__}.") from error
    return table.collect() if isinstance(table, nw.LazyFrame) else table


def _matrix(table: nw.DataFrame[Any], features: Sequence[Any], categories: Categories) -> np.ndarray:
    matrix = np.empty((len(table), len(features)), dtype=np.float32)
    merged: dict[Any, Pair] = {}
    for start in range(0, len(features), 16):  # 16 float32 fill a cache line: each is touched once
        some = features[start : start + 16]
        columns = {name: _values(table.get_column(name), categories) for name in some}
        merged |= {str(name): pair for name, pair in _merged(columns).items()}
        stacked = [_feature(table.get_column(name), values) for name, values in columns.items()]
        matrix[:, start : start + 16] = np.stack(stacked, axis=1)
    warn_of_merged(merged)
    return matrix


def _values(column: nw.Series[Any], categories: Categories) -> np.ndarray:
    known = categories.get(str(column.name))
    return _numbers(column) if known is None else numbers_of_names(column, known)


def _merged(columns: dict[Any, np.ndarray]) -> dict[Any, Pair]:
    merged = {name: merged_columns(values[:, None]) for name, values in columns.items()}
    return {name: pairs[0] for name, pairs in merged.items() if pairs}


def merged_in_frame(frame: Any, skip: Collection[str] = ()) -> dict[str, Pair]:
    """What float32 merges in the columns of numbers of a table, but for some columns; of anything else, nothing."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        return {}
    names = [name for name in table.columns if str(name) not in skip and table.get_column(name).dtype.is_numeric()]
    merged = _merged({name: _numbers(table.get_column(name)) for name in names})
    return {str(name): pair for name, pair in merged.items()}


def _feature(column: nw.Series[Any], values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        feature = values.astype(np.float32)
    infinite = np.flatnonzero(np.isinf(feature))
    if len(infinite):
        row = int(infinite[0])
        value = f"{values[row]} in row {row + 1}"
        raise ValueError(f"column {column.name!r} has {value}; features must be finite as float32, null for missing.")
    return feature


def _numbers(column: nw.Series[Any]) -> np.ndarray:
    """A column as an array of numbers, NaN for null."""
    import narwhals as nw

    dtype = column.dtype
    if dtype.is_numeric() and not isinstance(dtype, (nw.Decimal, nw.Int128, nw.UInt128)):
        return np.asarray(column.to_numpy())
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean) or column.is_null().all():
        return np.asarray(column.cast(nw.Float64).to_numpy())
    if isinstance(dtype, nw.Object):
        values = [None if null else value for null, value in zip(column.is_null().to_list(), column.to_list())]
        if all(value is None or isinstance(value, (int, float, Decimal, np.number, np.bool_)) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values])
    raise _no_numbers(column)


def _no_numbers(column: nw.Series[Any]) -> ValueError:
    example = next((value for value in column.to_list() if isinstance(value, str)), None)
    what = f"{column.dtype}" if example is None else f"{column.dtype} such as {example[:40]!r}"
    return ValueError(
        f"column {column.name!r} holds {what}; expected numbers. "
        "Turn it into numbers, or name the columns to use with features=[...]."
    )


def _complete_numbers(column: nw.Series[Any]) -> np.ndarray:
    values = _numbers(column).astype(np.float64)
    if np.isnan(values).any():
        raise _missing(column, int(np.flatnonzero(np.isnan(values))[0]))
    return values


def _ids(column: nw.Series[Any]) -> Any:
    """Query ids as integers or text; never through floating point, which merges large ones."""
    import narwhals as nw

    _refuse_null(column)
    if column.dtype.is_float():
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if column.dtype.is_integer() and not isinstance(column.dtype, (nw.Int128, nw.UInt128)):
        return column.to_numpy()
    values = column.to_list()
    if all(isinstance(value, Decimal) and value == int(value) for value in values):
        return [int(value) for value in values]
    return values


def _docids(column: nw.Series[Any]) -> list[str]:
    _refuse_null(column)
    values = column.to_list()
    for row, value in enumerate(values):
        if not isinstance(value, (str, int, np.integer)):
            what = f"{value!r} in row {row + 1}"
            raise ValueError(f"column {column.name!r} has {what}; document ids must be text or integers.")
    return [str(value) for value in values]


def _refuse_null(column: nw.Series[Any]) -> None:
    null = np.asarray(column.is_null().to_numpy(), dtype=bool)
    if null.any():
        raise _missing(column, int(np.flatnonzero(null)[0]))


def _missing(column: nw.Series[Any], row: int) -> ValueError:
    return ValueError(f"column {column.name!r} is missing a value in row {row + 1}; every row needs one.")


def _tidy_texts(names: np.ndarray, what: str) -> np.ndarray:
    """Text that is proper Unicode; tables refuse bytes that are no UTF-8, with less helpful words."""
    for name in dict.fromkeys(names) if names.dtype == object else ():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{what} {name!r} is no UTF-8 text; tables cannot hold it.") from None
    return names
