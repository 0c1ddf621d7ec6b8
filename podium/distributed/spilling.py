"""Spilling: a partition, checked as `fit` checks rows, in a file of the machine that has read it.

So a partition is in memory only while it is read, and is read once: whatever is done anew, also by the same command
after a crash, begins with these files. They are data caches, and lie in a folder of the cluster's scratch space that is
called by the identity of the source.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import write_whole
from podium.data.ranking import RankingData, as_weights
from podium.data.sharding.collective import CollectiveError
from podium.data.sparse import is_sparse
from podium.distributed.partitions import read_file
from podium.formats.cache import read_cache, write_cache
from podium.formats.container import open_container, write_container
from podium.formats.kinds import SPILL
from podium.formats.names import Names
from podium.models.frame.arguments import training_data
from podium.models.frame.plan import FitOptions
from podium.models.frame.ranker import Ranker

_OLD = 86_400  # seconds after which a folder of a training that never ended is removed


@dataclass(frozen=True)
class Spilled:
    """What is known of a partition once it is on disk."""

    number: int
    machine: str
    path: str
    n_rows: int
    n_features: int
    feature_names: list[str] | None
    names: Names  # of categories, as this partition numbers them
    text_ids: bool
    unsigned_ids: bool
    is_sparse: bool
    has_weights: bool
    has_init_score: bool
    has_docids: bool
    warnings: list[str]


def machine_name() -> str:
    """Workers of one machine see each other's files."""
    return socket.gethostname()


def spill_folder(identity: str, worker: Any = None) -> Path:
    """The folder of a source, beside those of the workers."""
    return scratch_folder(worker) / f"podium-{identity}"


def scratch_folder(worker: Any = None) -> Path:
    """Where this machine's workers have their folders; `worker` is told where no task runs."""
    from distributed import get_worker

    return Path((worker or get_worker()).local_directory).resolve().parent


def spilled_already(identity: str, dask_worker: Any = None) -> list[Spilled]:
    """The partitions that are on this machine from an earlier attempt."""
    _remove_old(scratch_folder(dask_worker))
    listed = []
    for file in spill_folder(identity, dask_worker).glob("part-*.json"):
        with suppress(OSError, ValueError, TypeError):
            spilled = Spilled(**json.loads(file.read_text("utf-8")))
            if Path(spilled.path).is_file():
                listed.append(replace(spilled, machine=machine_name()))
    return listed


def remove_spilled(identity: str, dask_worker: Any = None) -> None:
    shutil.rmtree(spill_folder(identity, dask_worker), ignore_errors=True)


def spill(
    number: int,
    parts: Mapping[str, Any],
    file: tuple[str, tuple[int, int] | None] | None,
    model: Ranker,
    where: str,
    identity: str,
) -> Spilled:
    """Check a partition and write it to disk."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            read = _checked(model, parts if file is None else {"data": _read(*file)})
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where}, partition {number + 1}: {error}") from error
    data, names, columns, weights = read
    folder = spill_folder(identity)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{number}.podium-data"
    facts: dict[str, Any] = {
        "feature_names": columns,
        "names": names,
        "text_ids": data.query_ids.dtype == object,
        "unsigned_ids": data.query_ids.dtype == np.uint64,
        "is_sparse": is_sparse(data.X),
        "has_weights": weights is not None,
        "has_init_score": data.init_score is not None,
        "has_docids": data.docid_texts is not None,
        "warnings": list(dict.fromkeys(str(one.message) for one in seen)),
    }
    _write(data, weights, path)
    spilled = Spilled(number, machine_name(), str(path), data.n_rows, data.n_features, **facts)
    with write_whole(path.with_suffix(".json")) as stream:
        stream.write(json.dumps(asdict(spilled)).encode())
    return spilled


def _read(path: str, row_groups: tuple[int, int] | None) -> RankingData:
    data = read_file(path, row_groups)
    if data.query_weight is not None:
        problem = "it has weights of queries, which files on a cluster cannot give"
        raise ValueError(f"{path}: {problem}. Give fit query_weight, one per query in order of first appearance.")
    return data


def read_spilled(path: str) -> tuple[RankingData, Array | None]:
    """The rows of a partition, and their weights."""
    if not Path(path).is_file():  # whoever begins anew will read it again
        raise CollectiveError(f"{path}: the file of a partition is gone.")
    data = read_cache(path)
    with open_container(_beside(path), SPILL) as container:
        arrays = container.read_all()
    if "data" in arrays:
        from scipy.sparse import csr_array

        shape = tuple(arrays["shape"].tolist())
        data = replace(data, X=csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape))
    return data, arrays.get("weights")


def _write(data: RankingData, weights: Array | None, path: Path) -> None:
    arrays: dict[str, Array] = {} if weights is None else {"weights": weights}
    plain = RankingData(data.X, data.y, data.offsets, data.query_ids, data.rows, data.docid_texts)
    plain = replace(plain, init_score=data.init_score)
    if is_sparse(data.X):
        arrays |= {"data": data.X.data, "indices": data.X.indices, "indptr": data.X.indptr}
        arrays["shape"] = np.array(data.X.shape)
        plain = replace(plain, X=np.empty((data.n_rows, 0), np.float32))
    write_cache(plain, path)
    write_container(_beside(path), SPILL, {}, arrays)


def _beside(path: str | Path) -> Path:
    return Path(path).with_suffix(".more")


Checked = tuple[RankingData, Names, list[str] | None, Array | None]


def _checked(model: Ranker, parts: Mapping[str, Any]) -> Checked:
    """A partition as ranking data, the names of its categories, of its columns, and the weights of its rows."""
    taken = copy(model)
    taken.__dict__.pop("feature_names_in_", None)
    if "data" in parts:
        data = parts["data"]
        taken.categories_ = taken.find_names(data)
        data.labels_for("fit")
        columns = None if data.feature_names is None else list(data.feature_names)
        return replace(data, sample_weight=None), taken.categories_, columns, data.sample_weight
    X, y, qid = (_local(parts[name]) for name in ("X", "y", "qid"))
    if not len(qid) and not X.shape[0]:
        return _empty(X)
    taken.categories_ = taken.find_names(X)
    data = training_data(taken, X, y, qid, FitOptions())
    taken.refuse_unsupported(data.X, "the training data")
    columns = [str(name) for name in getattr(taken, "feature_names_in_", [])] or None
    return data, taken.categories_, columns, _weights(parts.get("sample_weight"), data.n_rows)


def _local(part: Any) -> Any:
    """A part of a Series as an array: the index of a table is of no importance."""
    return part.to_numpy() if type(part).__name__ == "Series" else part


def _weights(weights: Any, n: int) -> Array | None:
    """Of a partition all rows may have the weight 0."""
    if weights is None:
        return None
    given_weights = np.asarray(_local(weights), dtype=np.float64)
    if given_weights.shape != (n,):
        raise ValueError(f"sample_weight has {len(given_weights)} entries, the data has {n} rows.")
    return as_weights(np.append(given_weights, 1.0), n + 1, "sample_weight", "row")[:n]


def _empty(X: Any) -> Checked:
    data = RankingData.from_arrays(np.empty((0, X.shape[1]), np.float32), np.empty(0), np.empty(0, np.int64))
    return data, {}, [str(name) for name in getattr(X, "columns", [])] or None, None


def _remove_old(scratch: Path) -> None:
    """Drop what trainings have left that were never run again."""
    for folder in scratch.glob("podium-*"):
        with suppress(OSError):  # another worker may be tidying up
            if folder.stat().st_mtime < time.time() - _OLD:
                shutil.rmtree(folder, ignore_errors=True)


def same_everywhere(spilled: Sequence[Spilled]) -> Spilled:
    """One partition that stands for all, which must be alike; refused are those that are not."""
    filled = [one for one in spilled if one.n_rows] or list(spilled[:1])
    first = filled[0]
    for one in filled:
        for what in _ALIKE:
            here, there = getattr(one, what), getattr(first, what)
            if here != there:
                problem = (
                    f"partition {one.number + 1} has {what}={here!s:.80}, partition {first.number + 1} {there!s:.80}"
                )
                raise ValueError(f"{problem}. All partitions must be alike.")
    return first


_ALIKE = (
    *("n_features", "feature_names", "text_ids", "unsigned_ids"),
    *("is_sparse", "has_weights", "has_init_score", "has_docids"),
)
