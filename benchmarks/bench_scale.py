"""Training on a Dask cluster of processes on this machine: equal bytes, time beside others, faults, data beyond memory.

    python benchmarks/bench_scale.py [--only digests time kills scheduler memory scoring]

What is compared was chosen before anything was measured: seven kinds of training by 1 to 4 workers of one thread each,
five random divisions of the rows each; 240,000 x 136 rows shaped like MSLR-WEB (`_mslr.py`), trees of 31 leaves or
depth 6, by one process with two threads and by two workers with one; LightGBM's and XGBoost's Dask trainers in the same
cluster, with the same leaves, bins and rate. Time per tree is the difference between two fits of different length.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from _mslr import Lists, make_lists
from _report import print_header, print_result
from distributed import Client, LocalCluster

import podium

ROWS, FEWEST, TREES = 240_000, 5, 30
FIXED: dict[str, Any] = {
    "max_leaf_nodes": 31,
    "min_samples_leaf": 20,
    "learning_rate": 0.1,
    "feature_fraction": 1.0,
    "extra_trees": False,
}
SMALL: dict[str, Any] = {"n_estimators": 8, "max_leaf_nodes": 8, "min_samples_leaf": 5}


@contextmanager
def cluster_of(n: int, **options: Any) -> Iterator[Client]:
    """Workers with one thread each, processes of their own."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        dask.config.set({"temporary-directory": scratch, "distributed.comm.timeouts.connect": "30s"}),
        LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
            silence_logs=100,
            **options,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def digest_of(model: Any) -> str:
    target = BytesIO()
    model.save(target)
    return hashlib.sha256(target.getvalue()).hexdigest()


def divided(rng: np.random.Generator, *columns: Any) -> list[Any]:
    """Dask arrays whose chunks end anywhere, also within queries."""
    n = columns[0].shape[0]
    ends = np.sort(rng.choice(np.arange(1, n), rng.integers(2, 8), replace=False))
    chunks = tuple(np.diff([0, *ends, n]).tolist())
    return [_array(column, chunks) for column in columns]


def _array(column: Any, chunks: tuple[int, ...]) -> Any:
    if not hasattr(column, "tocsr"):
        return da.from_array(column, chunks=(chunks, (column.shape[1],)) if column.ndim == 2 else (chunks,))
    ends = np.cumsum([0, *chunks])
    parts = [
        da.from_delayed(dask.delayed(column[a:b]), (b - a, column.shape[1]), column.dtype, meta=column[:0])
        for a, b in pairwise(ends)
    ]
    return da.concatenate(parts)


# --- digests


def kinds(data: Lists, valid: Lists) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """Model, rows and further arguments of each kind of training."""
    from scipy.sparse import csr_array

    lambdamart = podium.LambdaMART
    sparse = csr_array(np.where(np.abs(data.X) > np.median(np.abs(data.X), axis=0), data.X, 0))
    watched = {"eval_set": (valid.X, valid.y, valid.qid), "early_stopping_rounds": 4}
    return {
        "leaf": (lambdamart(**SMALL), data.X, {}),
        "oblivious": (podium.MatrixNet(n_estimators=8, max_depth=4), data.X, {}),
        "GOSS": (lambdamart(**SMALL, goss=(0.2, 0.1)), data.X, {}),
        "sampling": (podium.MART(**SMALL, row_fraction=0.5, query_fraction=0.7, feature_fraction=0.5), data.X, {}),
        "early stopping": (lambdamart(**SMALL | {"n_estimators": 60, "learning_rate": 0.5}), data.X, watched),
        "categories": (lambdamart(**SMALL, categorical=[4, 5]), np.round(data.X), {}),
        "sparse": (lambdamart(**SMALL), sparse, {}),
    }


def measure_digests() -> None:
    data, valid = make_lists(3_000, 60, n_features=20), make_lists(1_000, 20, seed=1, n_features=20)
    rng, started = np.random.default_rng(0), time.perf_counter()
    qid = np.random.default_rng(1).permutation(10_000)[data.qid]
    expected = {
        name: digest_of(fitted(model, rows, data.y, qid, **options))
        for name, (model, rows, options) in kinds(data, valid).items()
    }
    equal = total = 0
    for workers in (1, 2, 3, 4):
        with cluster_of(workers) as client:
            for name, (model, rows, options) in kinds(data, valid).items():
                for _ in range(5):
                    ids = rng.permutation(10_000)[data.qid]  # other ids have other owners, and the same model
                    together = fitted(model, *divided(rng, rows, data.y, ids), client=client, **options)
                    equal, total = equal + (digest_of(together) == expected[name]), total + 1
    seconds = time.perf_counter() - started
    what = "models of 1, 2, 3 and 4 workers x 5 random divisions x 7 kinds of training"
    print_result(what, "one machine", f"{equal} of {total} equal ({seconds:.0f} s)", "all of them", equal == total)


def fitted(model: Any, X: Any, y: Any, qid: Any, **options: Any) -> Any:
    return type(model)(**model.get_params(deep=False)).fit(X, y, qid, **options)


# --- time

SHAPES: dict[str, tuple[dict[str, Any], float]] = {
    "leaf by leaf": ({"growth": "leaf"}, 1.6),
    "level by level": ({"growth": "level"}, 1.25),
    "oblivious": ({"growth": "oblivious", "max_depth": 6}, 1.25),
}


def measure_time(repeats: int = 2) -> None:
    data = make_lists(ROWS, ROWS // 120)
    chunks = ((60_000,) * 4, (60_000,) * 4)
    with cluster_of(2) as client:
        rows = [da.from_array(data.X, chunks=(chunks[0], (136,))).persist(scheduler=client)]
        rows += [da.from_array(one, chunks=(chunks[1],)) for one in (data.y, data.qid)]
        trainers: dict[str, Callable[[int], Any]] = {}
        for name, (shape, _) in SHAPES.items():
            trainers[f"{name}, one process"] = _alone(data, shape)
            trainers[f"{name}, two workers"] = _together(rows, shape, client)
        trainers["LightGBM's Dask trainer"] = _lightgbm(data, client)
        trainers["XGBoost's Dask trainer"] = _xgboost(data, client)
        seconds = _seconds_per_tree(trainers, repeats)
    size = f"{ROWS:,} x 136"
    for name, (_, bar) in SHAPES.items():
        alone, together = seconds[f"{name}, one process"], seconds[f"{name}, two workers"]
        ratio = together / alone
        measured = f"{ratio:.2f}x ({together * 1000:.0f} against {alone * 1000:.0f} ms per tree)"
        what = f"two workers with one thread, {name}, {size}"
        print_result(what, "one process with two threads", measured, f"at most {bar}x", ratio <= bar)
    ours = seconds["leaf by leaf, two workers"]
    for name in ("LightGBM's Dask trainer", "XGBoost's Dask trainer"):
        ratio = seconds[name] / ours
        measured = f"{ratio:.2f}x ({seconds[name] * 1000:.0f} against {ours * 1000:.0f} ms per tree)"
        print_result(f"time per tree on two workers of {name}, 31 leaves, {size}", "podium, leaf by leaf", measured)


def _seconds_per_tree(trainers: dict[str, Callable[[int], Any]], repeats: int) -> dict[str, float]:
    """The best of several rounds in turns: what so many further trees take, per tree."""
    best = {name: {FEWEST: np.inf, TREES: np.inf} for name in trainers}
    for name, train in trainers.items():
        train(FEWEST)  # compiles, and loads code
        print(f"{name}: ready", flush=True)
    for _ in range(repeats):
        for name, train in trainers.items():
            for trees in (FEWEST, TREES):
                started = time.perf_counter()
                train(trees)
                best[name][trees] = min(best[name][trees], time.perf_counter() - started)
    for name, of_trees in best.items():
        print(f"{name}: {of_trees[TREES]:.2f} s in all for {TREES} trees", flush=True)
    return {name: (of_trees[TREES] - of_trees[FEWEST]) / (TREES - FEWEST) for name, of_trees in best.items()}


def _alone(data: Lists, shape: dict[str, Any]) -> Callable[[int], Any]:
    def train(trees: int) -> Any:
        model = podium.LambdaMART(n_estimators=trees, n_jobs=2, metric="ndcg@30", **FIXED | shape)
        return model.fit(data.X, data.y, data.qid)

    return train


def _together(rows: list[Any], shape: dict[str, Any], client: Client) -> Callable[[int], Any]:
    def train(trees: int) -> Any:
        model = podium.LambdaMART(n_estimators=trees, metric="ndcg@30", **FIXED | shape)
        return model.fit(*rows, client=client)

    return train


def _whole_queries(data: Lists) -> tuple[list[Any], list[Any]]:
    """Two chunks of whole queries, as other trainers need them, and the sizes of their queries."""
    middle = int(np.searchsorted(data.offsets, ROWS // 2))
    end = int(data.offsets[middle])
    chunks, queries = (end, ROWS - end), (middle, len(data.sizes) - middle)
    X = da.from_array(data.X, chunks=(chunks, (136,)))
    return [X, *(da.from_array(one, chunks=(chunks,)) for one in (data.y, data.qid))], [
        da.from_array(data.sizes, chunks=(queries,))
    ]


def _lightgbm(data: Lists, client: Client) -> Callable[[int], Any]:
    import lightgbm

    (X, y, _), (group,) = _whole_queries(data)
    shared = {"num_leaves": 31, "min_child_samples": 20, "max_bin": 255, "learning_rate": 0.1, "verbose": -1}

    def train(trees: int) -> Any:
        ranker = lightgbm.DaskLGBMRanker(client=client, n_estimators=trees, n_jobs=1, **shared)
        ranker.set_params(lambdarank_truncation_level=30)
        return ranker.fit(X, y, group=group)

    return train


def _xgboost(data: Lists, client: Client) -> Callable[[int], Any]:
    from xgboost import dask as xgboost_dask

    (X, y, qid), _ = _whole_queries(data)
    parameters = {
        "objective": "rank:ndcg",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": 31,
        "max_depth": 0,
        "max_bin": 255,
        "eta": 0.1,
        "lambda": 0.0,
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": 30,
        "nthread": 1,
    }

    def train(trees: int) -> Any:
        rows = xgboost_dask.DaskQuantileDMatrix(client, X, y, qid=qid, max_bin=255)
        return xgboost_dask.train(client, parameters, rows, num_boost_round=trees)

    return train


# --- faults


def measure_kills(kills: int = 50) -> None:
    """Workers are killed at random moments, also while they begin, until there were so many."""
    data, rng = make_lists(6_000, 120, n_features=20), random.Random(0)
    model = podium.LambdaMART(**SMALL | {"n_estimators": 400})
    expected = digest_of(fitted(model, data.X, data.y, data.qid))
    done = equal = fits = 0
    longest = 0.0
    with cluster_of(3) as client:
        client.run(os.getpid)
        while done < kills:
            killer = _Killer(client, rng, kills - done)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                started = time.perf_counter()
                together = fitted(model, *divided(np.random.default_rng(fits), data.X, data.y, data.qid), client=client)
                longest = max(longest, time.perf_counter() - started)
            done, fits = done + killer.stop(), fits + 1
            equal += digest_of(together) == expected
    what = f"models of {fits} trainings in which a worker of 3 was killed {done} times"
    print_result(
        what, "undisturbed", f"{equal} of {fits} equal (longest {longest:.0f} s)", "all of them", equal == fits
    )


class _Killer:
    """A thread that kills a worker now and then."""

    def __init__(self, client: Client, rng: random.Random, most: int) -> None:
        import threading

        self.client, self.rng, self.most, self.done = client, rng, min(most, 4), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        return self.done

    def _run(self) -> None:
        while self.done < self.most and not self._stopped.wait(self.rng.uniform(0.2, 2.5)):
            nannies = self.client.cluster.workers.values()
            pids = [nanny.process.pid for nanny in nannies if nanny.process is not None and nanny.process.pid]
            if pids:
                os.kill(self.rng.choice(pids), signal.SIGKILL)
                self.done += 1


def measure_scheduler() -> None:
    """A scheduler is killed in the middle of `podium train`; the same command goes on with another one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = make_lists(20_000, 200, n_features=30)
        whole = podium.RankingData.from_arrays(data.X, data.y, data.qid)
        podium.write_data(whole, folder / "train.podium-data")
        settings = ["--set", "n_estimators=150", "--set", "min_samples_leaf=20"]
        _podium(folder, "alone.podium", settings).wait()
        scattered = [*settings, "--checkpoint", "run.check", "--every", "5"]
        with _processes(folder) as (address, scheduler):
            command = _podium(folder, "together.podium", [*scattered, "--scheduler", address])
            while not (folder / "run.check").exists() and command.poll() is None:
                time.sleep(0.05)
            scheduler.kill()
            killed, first = time.perf_counter(), command.wait()
        waited = time.perf_counter() - killed
        with _processes(folder) as (address, _):
            second = _podium(folder, "together.podium", [*scattered, "--scheduler", address]).wait()
        equal = (folder / "alone.podium").read_bytes() == (folder / "together.podium").read_bytes()
    good = first != 0 and second == 0 and equal
    measured = f"{'equal' if equal else 'different'} bytes; the first command ended {waited:.0f} s after the scheduler"
    print_result("podium train after its scheduler was killed, the same again", "undisturbed", measured, "equal", good)


def _podium(folder: Path, out: str, options: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "podium", "train", "lambdamart", "train.podium-data", "--out", out, *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def _processes(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A scheduler and two workers, each a process of its own."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    file = folder / f"scheduler-{time.time_ns()}.json"
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler = subprocess.Popen([*start, "--no-dashboard", "--scheduler-file", str(file)], **quiet)  # type: ignore[call-overload]
    while not file.exists():
        time.sleep(0.05)
    join = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
    join += ["--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(folder / "scratch")]
    workers = [subprocess.Popen(join, **quiet) for _ in range(2)]  # type: ignore[call-overload]
    try:
        with Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        yield address, scheduler
    finally:
        for process in (*workers, scheduler):
            process.terminate()
        for process in (*workers, scheduler):
            process.wait()


# --- memory


def measure_memory() -> None:
    """Rows of three times the memory that both workers may use, in files that they read."""
    limit, columns = 800 << 20, 136
    files, rows = 24, int(3 * 2 * limit / (columns * 8) / 24)  # as float64, which tables of numbers have
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(files):
            data = make_lists(rows, rows // 120, seed=number)
            qid = data.qid + 1_000_000 * number
            table = podium.RankingData.from_arrays(data.X, data.y, qid)
            podium.write_data(table, folder / f"{number:02}.podium-data")
        size = files * rows * columns * 8
        with cluster_of(2, memory_limit=limit) as client:
            started = time.perf_counter()
            model = podium.LambdaMART(n_estimators=5, **FIXED).fit(folder, client=client)
            seconds = time.perf_counter() - started
            restarts = len(client.run(os.getpid))
    measured = f"{model.best_iteration_} trees on {files * rows:,} x {columns} in {seconds:.0f} s"
    what = f"training on {size / 1e9:.1f} GB (as float64) by two workers of {limit / 1e9:.2f} GB"
    print_result(what, "3x their memory", measured, "trains", model.best_iteration_ == 5 and restarts == 2)


def measure_scoring() -> None:
    from _scale_scoring import measure_scoring as measure

    measure()


PARTS = {
    "digests": measure_digests,
    "time": measure_time,
    "kills": measure_kills,
    "scheduler": measure_scheduler,
    "memory": measure_memory,
    "scoring": measure_scoring,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS))
    print_header("scale", ["dask", "distributed", "lightgbm", "xgboost-cpu", "pyarrow"])
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
