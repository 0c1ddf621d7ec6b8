"""The cache: ranking data as one binary file, `.podium-data`, that opens at once by mapping it into memory.

The file is a container (`container.py`) of the arrays of `RankingData`; X is last. All but X is read and checked when
the file is opened; the blocks of X are checked in one pass when `X` is first used, or at once with `verify=True`. An
open file may be replaced, as `write_cache` does (not on Windows, which keeps it until it is closed), but must not be
changed or cut short in place: what was checked could be different later, and the system ends a program that reads a
mapped file beyond its new end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.files import COMPRESSIONS
from podium._runtime.once import once
from podium.data.categories import Categories, check_categories, refuse_other_places
from podium.data.ranking import RankingData, as_feature_names, as_init_score, as_labels, as_weights
from podium.data.sparse import refuse_sparse
from podium.data.texts import Texts
from podium.formats.container import ArrayEntry, MappedArray, open_container, write_container
from podium.formats.errors import FormatError
from podium.formats.kinds import DATA
from podium.formats.lines import FilePath

_TEXT_PARTS = {"text": ("<u1", 1), "ends": ("<i8", 1)}
_ARRAYS = {  # dtypes and dimensions that an array may have
    "X": (("<f4",), 2),
    "y": (("<f8",), 1),
    "offsets": (("<i8",), 1),
    "query_ids": (("<i8", "<u8"), 1),
    "grouping": (("<i8",), 1),
    "document_weight": (("<f8",), 1),
    "query_weight": (("<f8",), 1),
    "init_score": (("<f8",), 1),
} | {
    f"{name}.{part}": ((dtype,), n)
    for name in ("query_ids", "docids", "comments", "feature_names", "categories")
    for part, (dtype, n) in _TEXT_PARTS.items()
}

_UNLABELLED = {"labels": False}  # what a header says of data without labels; with labels it says nothing
_LONGEST = 2**31 - 1  # rows or features


class MappedRankingData(RankingData):
    """Ranking data whose features lie in a cache file: they are checked when `X` is first used."""

    _features: _MappedFeatures

    @once
    def X(self) -> Array:  # a field of the class above, found late here
        return self._features.verified()

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1]) if "X" in vars(self) else self._features.shape[1]

    def __reduce__(self) -> Any:
        # Another process gets plain arrays: the file may be gone or replaced by the time it looks.
        return RankingData, tuple(getattr(self, field.name) for field in fields(self))


def write_cache(data: RankingData, path: FilePath) -> None:
    """Write ranking data as a cache file, whole or not at all; equal data gives equal bytes."""
    if os.fspath(path).lower().endswith(COMPRESSIONS):
        raise ValueError(f"{os.fspath(path)}: a cache is mapped into memory and cannot be compressed; drop the suffix.")
    write_container(path, DATA, _UNLABELLED if data.y is None else {}, _arrays_of(data))


def read_cache(path: FilePath, *, verify: bool = False) -> RankingData:
    """Open a cache file. `verify=True` checks the features at once instead of when they are first used."""
    with open_container(path, DATA) as container:
        _check_arrays(path, container.entries, container.meta)
        arrays = {name: container.read(name) for name in container.entries if name != "X"}
        features = _MappedFeatures(container.map("X"))
    try:
        data = _assembled(arrays, features)
    except (ValueError, IndexError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(path, f"is not a valid data cache: {error}") from error
    if verify:
        data.X  # noqa: B018 (its first use checks it)
    return data


def _arrays_of(data: RankingData) -> dict[str, Array]:
    """The arrays to store, by name; what follows from the rest, or is absent, is left out."""
    refuse_sparse(data.X, "a data cache")
    arrays: dict[str, Any] = {} if data.y is None else {"y": data.y}
    arrays["offsets"] = data.offsets
    if data.query_ids.dtype == object:
        arrays |= _text_arrays("query_ids", Texts.of(data.query_ids))
    else:
        arrays["query_ids"] = data.query_ids
    if not data.is_contiguous:
        arrays["grouping"] = data.rows
    names = None if data.feature_names is None else Texts.of(data.feature_names)
    for name, texts in (("docids", data.docid_texts), ("comments", data.comment_texts), ("feature_names", names)):
        arrays |= {} if texts is None else _text_arrays(name, texts)
    if data.categories:  # one line of JSON each: names are text or numbers
        lines = [json.dumps([column, list(known)], allow_nan=False) for column, known in data.categories.items()]
        arrays |= _text_arrays("categories", Texts.of(lines))
    numbers = {"document_weight": data.sample_weight, "query_weight": data.query_weight, "init_score": data.init_score}
    arrays |= {name: values for name, values in numbers.items() if values is not None}
    arrays["X"] = data.X
    return arrays


def _text_arrays(name: str, texts: Texts) -> dict[str, Array]:
    return {f"{name}.text": texts.data, f"{name}.ends": texts.offsets}


def _check_arrays(path: FilePath, entries: dict[str, ArrayEntry], meta: dict[str, Any]) -> None:
    for name, entry in entries.items():
        dtypes, dimensions = _ARRAYS.get(name, ((), 0))
        if entry.dtype not in dtypes or len(entry.shape) != dimensions:
            detail = f"the header lists {name} of dtype {entry.dtype} and {len(entry.shape)} dimensions"
            raise DATA.damaged(path, detail)
    missing = [name for name in ("X", "offsets") if name not in entries]
    missing += [name for name in _ARRAYS if _other_part(name) in entries and name not in entries]
    if missing:
        raise DATA.damaged(path, f"the header lists no {missing[0]}")
    if meta != ({} if "y" in entries else _UNLABELLED):  # labels that were lost are not labels that never were
        raise DATA.damaged(path, "the header lists no y, or has facts that are not known")
    if ("query_ids" in entries) == ("query_ids.text" in entries):
        raise DATA.damaged(path, "the header has not one kind of query ids")
    if max(entries["X"].shape) > _LONGEST:  # of a shape with a 0, the file's size bounds nothing
        raise DATA.damaged(path, f"X has the shape {entries['X'].shape}")


def _other_part(name: str) -> str:
    """Texts are two arrays: of the name of one, the name of the other."""
    stem, _, part = name.rpartition(".")
    return f"{stem}.{'ends' if part == 'text' else 'text'}" if stem else ""


@dataclass(frozen=True)
class _MappedFeatures:
    """The features in the mapped file, not yet looked at."""

    array: MappedArray
    n_names: Mapping[int, int] = field(default_factory=dict)  # of each column with categories: how many there are

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.entry.shape

    def verified(self) -> Array:
        features = self.array.verified()
        for first in range(0, len(features), 65_536):
            if np.isinf(features[first : first + 65_536]).any():
                message = "X holds an infinite value; features must be finite, or NaN for missing."
                raise FormatError(self.array.path, message)
        for column, n_names in self.n_names.items():
            try:
                refuse_other_places(features[:, column], n_names, str(column + 1))
            except ValueError as error:
                raise FormatError(self.array.path, f"is not a valid data cache: {error}") from error
        return features


def _assembled(arrays: dict[str, Array], features: _MappedFeatures) -> MappedRankingData:
    n_rows, n_features = features.shape
    offsets = _rising(arrays["offsets"], n_rows, "offsets")
    texts = _texts(arrays, "feature_names", n_features)
    names = None if texts is None else as_feature_names(list(texts), n_features)
    categories = _categories(arrays, names or ())
    labels = as_labels(arrays["y"], n_rows) if "y" in arrays else None
    values = {
        "y": labels,
        "offsets": offsets,
        "query_ids": _query_ids(arrays, len(offsets) - 1),
        "rows": _grouping(arrays, n_rows, offsets),
        "docid_texts": _texts(arrays, "docids", n_rows),
        "comment_texts": _texts(arrays, "comments", n_rows),
        "feature_names": names,
        "sample_weight": _weights(arrays, "document_weight", n_rows, "row"),
        "query_weight": _weights(arrays, "query_weight", len(offsets) - 1, "query"),
        "categories": categories,
        "init_score": as_init_score(arrays["init_score"], n_rows) if "init_score" in arrays else None,
        "_features": replace(features, n_names=_name_counts(categories, names or ())),
    }
    data = object.__new__(MappedRankingData)  # its constructor would ask for X
    for name, value in values.items():
        object.__setattr__(data, name, readonly(value) if isinstance(value, np.ndarray) else value)
    return data


def _categories(arrays: dict[str, Array], names: Sequence[str]) -> Categories | None:
    """The names of columns with categories; what their numbers are is checked with the features."""
    if "categories.ends" not in arrays:
        return None
    lines = _texts(arrays, "categories", len(arrays["categories.ends"]) - 1) or ()
    return check_categories(dict(map(json.loads, lines)), np.empty((0, len(names)), np.float32), names)


def _name_counts(categories: Categories | None, names: Sequence[str]) -> dict[int, int]:
    return {list(names).index(column): len(known) for column, known in (categories or {}).items()}


def _rising(ends: Array, last: int, name: str) -> Array:
    if not len(ends) or ends[0] != 0 or ends[-1] != last or (ends[1:] < ends[:-1]).any():  # differences may wrap
        raise ValueError(f"{name} must rise from 0 to {last}.")
    return ends


def _texts(arrays: dict[str, Array], name: str, n: int) -> Texts | None:
    if f"{name}.ends" not in arrays:
        return None
    text, ends = arrays[f"{name}.text"], arrays[f"{name}.ends"]
    if len(ends) != n + 1:
        raise ValueError(f"{name} has {len(ends) - 1} entries instead of {n}.")
    return Texts(text, _rising(ends, len(text), name))


def _query_ids(arrays: dict[str, Array], n: int) -> Array:
    texts = _texts(arrays, "query_ids", n)
    ids = arrays["query_ids"] if texts is None else texts.to_array()
    if len(ids) != n or len(set(ids.tolist())) < n:
        raise ValueError(f"there must be {n} query ids, all different.")
    return ids


def _grouping(arrays: dict[str, Array], n: int, offsets: Array) -> Array:
    """`RankingData.rows`."""
    if "grouping" not in arrays:
        return np.arange(n, dtype=np.int64)
    rows = arrays["grouping"]
    starts = np.zeros(n + 1, dtype=bool)
    starts[offsets] = True
    whole = len(rows) == n and np.array_equal(np.sort(rows), np.arange(n))
    if not whole or (np.diff(rows) <= 0)[~starts[1:n]].any():
        raise ValueError(f"grouping must have each of {n} rows once, rising within each query.")
    return rows


def _weights(arrays: dict[str, Array], name: str, n: int, unit: str) -> Array | None:
    return as_weights(arrays[name], n, name, unit) if name in arrays else None
