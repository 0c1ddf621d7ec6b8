"""Query ids: one per row, as int64, uint64 or text, and the rows of equal ids together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_query_ids(qid: Any, group: Any, n: int) -> np.ndarray:
    """One id per row, as int64, uint64 or Python strings; ids that differ stay different."""
    if qid is not None and group is not None:
        raise ValueError("Give qid (one id per row) or group (sizes), not both.")
    if group is not None:
        return _ids_from_sizes(group, n)
    if qid is None:
        raise ValueError("qid is missing: pass one query id per row, or group= with the number of rows of each query.")
    if isinstance(qid, (str, bytes)):
        advice = f"If it is the name of a column, give the column, as in qid=table[{qid!r}], and leave it out of X"
        raise ValueError(f"qid must have one id per row; got the text {qid!r}. {advice}.")
    ids = _ids_array(qid)
    if ids.ndim != 1:
        raise ValueError(f"qid must have one dimension; got shape {ids.shape}.")
    if len(ids) != n:
        hint = " Did you pass group sizes as qid? Use group= for those." if _look_like_sizes(ids, n) else ""
        raise ValueError(f"qid has {len(ids)} entries, X has {n} rows.{hint}")
    return ids


def group_rows(ids: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Group equal ids: (order of rows or None when already grouped, offsets, ids of the queries).

    Queries keep the order of first appearance: [7, 7, 3, 7] -> order [0, 1, 3, 2], offsets [0, 3, 4], ids [7, 3].
    """
    n = len(ids)
    if n == 0:
        return None, np.zeros(1, np.int64), ids
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    codes, query_ids = _codes(ids[starts])
    lengths = np.diff(np.append(starts, n))
    if len(query_ids) == len(starts):
        return None, offsets_of(lengths), query_ids
    row_codes = np.repeat(codes, lengths)
    return np.argsort(row_codes, kind="stable"), offsets_of(np.bincount(row_codes)), query_ids


def _codes(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number distinct ids by first appearance: ["b", "a", "b"] -> ([0, 1, 0], ["b", "a"])."""
    if ids.dtype == object:
        number: dict[Any, int] = {}
        codes = np.fromiter((number.setdefault(name, len(number)) for name in ids), np.int64, len(ids))
        return codes, object_array(list(number))
    values, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty(len(values), dtype=np.int64)
    rank[by_appearance] = np.arange(len(values))
    return rank[inverse], values[by_appearance]


def _ids_array(qid: Any) -> np.ndarray:
    if isinstance(qid, (list, tuple)):  # numpy would turn [1, "1"] into two equal texts and 2**63 into a float
        array = object_array(qid)
    else:
        array = np.asarray(qid)
    if array.dtype.kind == "O":
        return ids_from_objects(array)
    if array.dtype.kind in "US":
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8")
        return array.astype(object)
    if array.dtype.kind in "biu":
        return array.astype(np.uint64 if array.dtype.kind == "u" else np.int64, copy=False)
    if array.dtype.kind == "f":
        return _ids_from_floats(array)
    raise ValueError(f"qid must hold integers or text; got {array.dtype}.")


def ids_from_objects(array: np.ndarray) -> np.ndarray:
    """Integers as int64 or uint64 where all fit, otherwise as text; text as it is."""
    for row, value in enumerate(array):
        if value is None or value != value:
            raise ValueError(f"qid[{row}] is missing ({value!r}); every row needs a query id.")
    kinds = {type(value) for value in array}
    if all(issubclass(kind, str) for kind in kinds):
        return array
    if all(issubclass(kind, (int, np.integer)) for kind in kinds):
        low, high = min(array, default=0), max(array, default=0)
        if low >= -(2**63) and high < 2**63:
            return array.astype(np.int64)
        if low >= 0 and high < 2**64:
            return array.astype(np.uint64)
        return object_array([str(value) for value in array])
    if all(issubclass(kind, (float, int, np.integer, np.floating)) for kind in kinds):
        return _ids_from_floats(array.astype(np.float64))
    names = sorted(kind.__name__ for kind in kinds)
    raise ValueError(f"qid must hold integers or text, not a mix; got {', '.join(names)}.")


def _ids_from_floats(array: np.ndarray) -> np.ndarray:
    bad = ~(np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2.0**53))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"qid[{row}] is {array[row]}; as floating point, ids must be integers below 2**53 "
            "(larger ones may have merged already). Pass integers or text."
        )
    return array.astype(np.int64)


def _ids_from_sizes(group: Any, n: int) -> np.ndarray:
    sizes = np.asarray(group)
    if sizes.ndim != 1 or (sizes.dtype.kind not in "iu" and not np.array_equal(sizes, np.floor(sizes))):
        raise ValueError("group must be a list of integers, the number of rows of each query.")
    if len(sizes) and sizes.min() <= 0:
        query = int(np.flatnonzero(sizes <= 0)[0])
        raise ValueError(f"group[{query}] = {sizes[query]}; sizes must be positive.")
    if sum(sizes.tolist()) != n:
        raise ValueError(f"group sizes add up to {sum(sizes.tolist())}, X has {n} rows.")
    return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes.astype(np.int64))


def _look_like_sizes(ids: np.ndarray, n: int) -> bool:
    return ids.dtype != object and len(ids) > 0 and sum(ids.tolist()) == n


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def rows_of(offsets: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of these queries, one query after the other, and their new offsets."""
    ends = offsets_of(np.diff(offsets)[queries])
    return np.repeat(offsets[queries] - ends[:-1], np.diff(ends)) + np.arange(ends[-1]), ends


def concat_ids(ids: Sequence[np.ndarray]) -> np.ndarray:
    if len({part.dtype for part in ids}) == 1:
        return np.concatenate(ids)
    if all(part.dtype != object for part in ids):  # int64 and uint64
        return ids_from_objects(object_array([value for part in ids for value in part.tolist()]))
    return object_array([str(value) for part in ids for value in part])  # numbers and text meet as text


def object_array(values: Sequence[Any]) -> np.ndarray:
    """One object per value, also where NumPy would make numbers or texts of them."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
