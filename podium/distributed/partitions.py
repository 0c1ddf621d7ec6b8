"""Partitions: what `fit` is given on a Dask cluster, as a list of pieces of rows that workers read one by one.

Dask DataFrames, Series and arrays are divided already. A folder or list of files is divided into files, and those of
Parquet into row groups. Rows are numbered through all partitions in their order: in this order a single machine would
train the same model on them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.data.ranking import RankingData, refuse_beside_data
from podium.formats.container import open_container
from podium.formats.kinds import DATA
from podium.models.frame.arguments import take_rows

WORKERS_READ = (".podium-data", ".parquet")
ROWS = 100_000  # of what is sent to workers in one piece


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows that one worker reads: objects of Dask that it gets computed, or a file that it opens itself."""

    parts: Mapping[str, Any]  # X, y, qid, sample_weight: delayed; or data: a RankingData; or nothing
    path: str | None = None
    row_groups: tuple[int, int] | None = None  # of a Parquet file: from, to


@dataclass(frozen=True, eq=False)
class Source:
    """All partitions, and what tells this source from every other one."""

    partitions: list[Partition]
    identity: str
    query_weight: np.ndarray | None = None  # (queries,) in the order of first appearance


def is_distributed(X: Any) -> bool:
    """Whether this is a collection of Dask."""
    return hasattr(X, "__dask_graph__") and callable(getattr(X, "__dask_graph__", None))


def source_of(
    X: Any, y: Any = None, qid: Any = None, sample_weight: Any = None, query_weight: Any = None, where: str = "fit"
) -> Source:
    """What `fit` was given, or one of its evaluation sets, in partitions."""
    from dask.base import tokenize

    if isinstance(X, RankingData):
        refuse_beside_data(where, y=y, qid=qid, sample_weight=sample_weight, query_weight=query_weight)
        partitions, query_weight = list(_of_data(X)), X.query_weight
    elif _is_path(X) or (isinstance(X, (list, tuple)) and X and all(map(_is_path, X))):
        _refuse_beside_files(where, y=y, qid=qid, sample_weight=sample_weight)
        partitions = list(_of_files([Path(one) for one in ([X] if _is_path(X) else X)]))
    elif is_distributed(X):
        partitions = _of_collections(where, {"X": X, "y": y, "qid": qid, "sample_weight": sample_weight})
    else:
        partitions = _of_arrays(where, {"X": X, "y": y, "qid": qid, "sample_weight": sample_weight})
    weights = None if query_weight is None else np.asarray(query_weight, dtype=np.float64)
    identity = tokenize(X if not _is_path(X) else str(X), y, qid, sample_weight, [_stamp(p) for p in partitions])
    return Source(partitions, identity, weights)


_ADVICE = (
    "dask.dataframe.from_pandas(table, npartitions=8) and dask.array.from_array(X, chunks=(100_000, -1)) make some."
)


def _is_path(X: Any) -> bool:
    return isinstance(X, (str, os.PathLike))


def _refuse_beside_files(where: str, **others: Any) -> None:
    names = [name for name, value in others.items() if value is not None]
    if names:
        advice = "Leave them out; a Parquet file has columns label and qid."
        raise ValueError(f"{where}: got {', '.join(names)} beside files, which have their own. {advice}")


# --- what is in the memory of the client


def _of_data(data: RankingData) -> Iterator[Partition]:
    """Whole queries, where the rows of each are together; one partition otherwise."""
    if not data.is_contiguous or data.n_rows <= ROWS:
        yield Partition({"data": data})
        return
    ends = np.unique(np.searchsorted(data.offsets, np.arange(0, data.n_rows, ROWS)))
    for first, last in zip(ends, [*ends[1:], data.n_queries]):
        yield Partition({"data": data.subset(slice(int(first), int(last)))})


def _of_arrays(where: str, columns: Mapping[str, Any]) -> list[Partition]:
    _refuse_missing(where, columns)
    arrays = {name: one for name, one in columns.items() if one is not None}
    for name, one in arrays.items():
        if is_distributed(one):
            raise TypeError(
                f"{where}: {name} is a Dask collection, so X must be one too; got {type(columns['X']).__name__}."
            )
    lengths = {name: one.shape[0] if hasattr(one, "shape") else len(one) for name, one in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{where}: found input variables with inconsistent numbers of samples: {lengths}.")
    parts = [np.arange(start, min(start + ROWS, lengths["X"])) for start in range(0, lengths["X"], ROWS)]
    if len(parts) < 2:
        return [Partition(arrays)]
    return [Partition({name: take_rows(one, rows) for name, one in arrays.items()}) for rows in parts]


def _refuse_missing(where: str, columns: Mapping[str, Any]) -> None:
    for name, what in (("y", "label"), ("qid", "query id")):
        if columns[name] is None:
            raise ValueError(f"{where}: {name} is missing. With a client, give one {what} per row.")


# --- files


def _of_files(paths: Sequence[Path]) -> Iterator[Partition]:
    for path in paths:
        for file in _files_of(path):
            yield from _of_file(file)


def _files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder by their names."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in WORKERS_READ)
        if not files:
            raise FileNotFoundError(f"{path}: the folder has no files that end in {' or '.join(WORKERS_READ)}.")
        return files
    if path.suffix not in WORKERS_READ:
        advice = "podium convert makes .podium-data of other formats."
        raise ValueError(f"{path}: workers read files that end in {' or '.join(WORKERS_READ)}. {advice}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return [path]


def _of_file(file: Path) -> Iterator[Partition]:
    path = str(file.resolve())
    if file.suffix == ".podium-data":
        yield Partition({}, path)
        return
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as opened:
        groups = opened.num_row_groups
    yield from (Partition({}, path, (group, group + 1)) for group in range(groups))


def _stamp(partition: Partition) -> Any:
    if partition.path is None:
        return None
    status = os.stat(partition.path)
    return partition.path, status.st_size, status.st_mtime_ns, partition.row_groups


def count_rows(paths: Sequence[Path]) -> int:
    """The rows of all files, by what stands at their beginning or end."""
    return sum(_count_rows(file) for path in paths for file in _files_of(path))


def _count_rows(file: Path) -> int:
    if file.suffix == ".podium-data":
        with open_container(file, DATA) as container:
            return int(container.entries["X"].shape[0])
    from pyarrow.parquet import ParquetFile

    with ParquetFile(file) as opened:
        return int(opened.metadata.num_rows)


# --- collections of Dask


def _of_collections(where: str, given_parts: Mapping[str, Any]) -> list[Partition]:
    _refuse_missing(where, given_parts)
    delayed = {name: _delayed(where, name, one) for name, one in given_parts.items() if one is not None}
    n = len(delayed["X"])
    for name, parts in delayed.items():
        if len(parts) != n:
            problem = f"X has {counted(n, 'partition')}, {name} {len(parts):,}"
            advice = "Take all of them from the same table, or repartition them alike"
            raise ValueError(f"{where}: {problem}. {advice}.")
    return [Partition({name: parts[number] for name, parts in delayed.items()}) for number in range(n)]


def _delayed(where: str, name: str, one: Any) -> list[Any]:
    """One delayed object per partition, in order."""
    if not is_distributed(one):
        kind = type(one).__name__
        raise TypeError(f"{where}: X is a Dask collection, so {name} must be one too; got {kind}. {_ADVICE}")
    if hasattr(one, "numblocks"):
        if one.ndim == 2 and one.numblocks[1] > 1:
            one = one.rechunk({1: -1})  # whole rows
        if one.ndim > 2 or (name != "X" and one.ndim != 1):
            raise ValueError(f"{where}: {name} has {one.ndim} dimensions.")
        return list(np.asarray(one.to_delayed(), dtype=object).reshape(-1))
    return list(one.to_delayed())


# --- on a worker


def read_file(path: str, row_groups: tuple[int, int] | None) -> RankingData:
    """The rows of a file, or of some row groups of it."""
    from podium.formats import read_data

    if row_groups is None:
        return read_data(path)
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as opened:
        table = opened.read_row_groups(list(range(*row_groups)))
    return RankingData.from_frame(table)
