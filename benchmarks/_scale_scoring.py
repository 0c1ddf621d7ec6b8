"""Scoring a Parquet file beside pyarrow's bare read of it, on all cores: read, score, keep the scores.

Chosen before anything was measured: 400,000 rows of 136 features like MSLR's (`_mslr.py`) as float32, with label and
qid, as pyarrow writes them by default, in row groups of 100,000; a forest of 100 trees of 31 leaves; the file in the
page cache; all on the threads of this process. The bar is 1.4 times `pyarrow.parquet.read_table`, which reads all
columns on all cores. Dask makes pandas of what pyarrow reads, so its own bare read stands beside its row too.

    python benchmarks/_scale_scoring.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow
from _mslr import N_FEATURES, make_lists
from _report import measure_in_turns, print_header, print_result
from pyarrow import parquet

import podium

ROWS, GROUP_ROWS, TRAINING_ROWS, TREES, LEAVES = 400_000, 100_000, 10_000, 100, 31
BAR, REPEATS = 1.4, 9
FRAME = "predict of dask.dataframe.read_parquet"
NAMES = [f"feature_{number:03}" for number in range(1, N_FEATURES + 1)]


def write_table(path: Path) -> None:
    data = make_lists(ROWS, ROWS // 120)
    columns = {name: np.ascontiguousarray(values) for name, values in zip(NAMES, data.X.T)}
    table = pyarrow.table({"label": data.y.astype(np.int32), "qid": data.qid, **columns})
    parquet.write_table(table, path, row_group_size=GROUP_ROWS)


def train_model() -> podium.MART:
    data = make_lists(TRAINING_ROWS, TRAINING_ROWS // 120)
    fixed: dict[str, Any] = {"min_samples_leaf": 20, "learning_rate": 0.1, "feature_fraction": 1.0}
    model = podium.MART(n_estimators=TREES, max_leaf_nodes=LEAVES, min_hessian=0.0, extra_trees=False, **fixed)
    return model.fit(pd.DataFrame(data.X, columns=NAMES), data.y, group=data.sizes)


def score_group(scorer: Any, path: Path, group: int) -> np.ndarray:
    batches = parquet.ParquetFile(path).iter_batches(
        GROUP_ROWS, row_groups=[group], columns=scorer.columns, use_threads=False
    )
    return np.concatenate([batch.column("score").to_numpy() for batch in scorer(batches)])


def score_record_batches(scorer: Any, path: Path) -> np.ndarray:
    """One task per row group."""
    groups = range(parquet.ParquetFile(path).num_row_groups)
    return np.concatenate(dask.compute(*[dask.delayed(score_group)(scorer, path, group) for group in groups]))


def score_frame(model: Path, path: Path) -> np.ndarray:
    frame = dask.dataframe.read_parquet(path, split_row_groups=True)
    return np.asarray(podium.distributed.predict(model, frame).compute())


def read_frame(path: Path) -> Any:
    frame = dask.dataframe.read_parquet(path, split_row_groups=True)
    return frame[NAMES].map_partitions(len).compute()


def measure_scoring() -> None:
    """Print a row per way from the file to the scores."""
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="threads"):
        path, model_path = Path(folder) / "rows.parquet", Path(folder) / "model.podium"
        write_table(path)
        model = train_model()
        model.save(model_path)
        scorer = podium.distributed.arrow_scorer(model_path, keep=[])
        ways: dict[str, Callable[[], Any]] = {
            "arrow_scorer, a task per row group": lambda: score_record_batches(scorer, path),
            FRAME: lambda: score_frame(model_path, path),
        }
        expected = model.predict(parquet.read_table(path, columns=NAMES).to_pandas())
        for name, work in ways.items():
            assert (work() == expected).all(), name
        reads = {"bare": lambda: parquet.read_table(path), "Dask's": lambda: read_frame(path)}
        times = measure_in_turns(reads | ways, REPEATS)
    bare = times["bare"].best
    for name in ways:
        ratio = times[name].best / bare
        measured = f"{ratio:.2f}x ({times[name].best * 1000:.0f} against {bare * 1000:.0f} ms)"
        what = f"Parquet scoring, {name}, {ROWS:,} x {N_FEATURES}, {TREES} x {LEAVES} trees"
        print_result(what, "pyarrow.parquet.read_table", measured, f"at most {BAR}x", ratio <= BAR)
    frame, read = times[FRAME].best, times["Dask's"].best
    measured = f"{frame / read:.2f}x ({frame * 1000:.0f} against {read * 1000:.0f} ms)"
    print_result(f"Parquet scoring, {FRAME}", "the same read without scores", measured)


if __name__ == "__main__":
    print_header("scoring at scale", ["pyarrow", "dask"])
    measure_scoring()
