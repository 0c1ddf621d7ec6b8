"""Seeing less: GOSS against full training, bundles against single columns, and sparse rows, each beside LightGBM's.

GOSS(0.2, 0.1) on data shaped like MSLR-WEB (`_mslr.py`): time per tree, and NDCG@10 of held-out queries. Bundles on
1,000 columns of one-hot groups: time per tree with and without, and that the trees are the same. A sparse matrix of
20,000 columns with 20 entries per row, in a process of its own for each training: time before the first tree, time per
tree, and how far memory grows. Two threads each, in turns, the best of several rounds.

    python benchmarks/bench_sampling.py [goss] [bundles] [sparse]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _mslr import make_lists
from _quality import compare_means
from _report import peak_memory, print_header, print_result, resident_memory
from scipy.sparse import csr_array

import podium

THREADS, LEAVES, GOSS = 2, 31, (0.2, 0.1)
FIXED: dict[str, Any] = {"min_samples_leaf": 20, "learning_rate": 0.1, "feature_fraction": 1.0, "extra_trees": False}


def time_podium(X: Any, y: np.ndarray, sizes: np.ndarray, trees: int, **options: Any) -> tuple[float, Any]:
    """Seconds a tree after the first, and the model."""
    ends: list[float] = []
    settings = {"max_leaf_nodes": LEAVES, "metric": "ndcg@30", "n_jobs": THREADS, **FIXED} | options
    model = podium.LambdaMART(n_estimators=trees, **settings)
    model.fit(X, y, group=sizes, callbacks=[lambda _: ends.append(time.perf_counter())])
    return (ends[-1] - ends[0]) / (trees - 1), model


def time_lightgbm(X: Any, y: np.ndarray, sizes: np.ndarray, trees: int, **options: Any) -> tuple[float, Any]:
    import lightgbm

    parameters = {
        "objective": "lambdarank",
        "num_leaves": LEAVES,
        "max_bin": 255,
        "min_data_in_leaf": 20,
        "learning_rate": 0.1,
        "num_threads": THREADS,
        "verbose": -1,
        **options,
    }
    booster = lightgbm.Booster(parameters, lightgbm.Dataset(X, y, group=sizes, params=parameters))
    booster.update()
    started = time.perf_counter()
    for _ in range(trees - 1):
        booster.update()
    return (time.perf_counter() - started) / (trees - 1), booster


def best_of(rounds: int, runs: dict[str, Callable[[], tuple[float, Any]]]) -> dict[str, tuple[float, Any]]:
    found: dict[str, tuple[float, Any]] = {}
    for _ in range(rounds):
        for name, run in runs.items():
            seconds, model = run()
            if name not in found or seconds < found[name][0]:
                found[name] = seconds, model
    return found


def show_goss(rows: int, seeds: int) -> None:
    data = make_lists(rows, rows // 120)
    lists = data.X, data.y, data.sizes
    found = best_of(
        3,
        {
            "podium": lambda: time_podium(*lists, 40),
            "podium, goss": lambda: time_podium(*lists, 40, goss=GOSS),
            "podium, one thread": lambda: time_podium(*lists, 20, n_jobs=1),
            "podium, one thread, goss": lambda: time_podium(*lists, 20, n_jobs=1, goss=GOSS),
            # LightGBM samples only after 1 / learning_rate trees, so it gets more of them
            "LightGBM": lambda: time_lightgbm(*lists, 40),
            "LightGBM, goss": lambda: time_lightgbm(
                *lists, 60, data_sample_strategy="goss", top_rate=GOSS[0], other_rate=GOSS[1]
            ),
        },
    )
    print(f"\n{rows:,} rows x {data.X.shape[1]}, {LEAVES} leaves")
    for name, (seconds, _) in found.items():
        print(f"{name:>24}: {seconds * 1e3:6.1f} ms per tree")
    for name, threads in (("podium", "two threads"), ("podium, one thread", "one thread")):
        ratio = found[name][0] / found[f"{name}, goss"][0]
        what = f"GOSS(0.2, 0.1), {rows // 1000}k x 136, per tree, {threads}"
        print_result(what, "full training", f"{ratio:.1f}x faster", "2x", ratio >= 2)
    other = found["podium, goss"][0] / found["LightGBM, goss"][0]
    print_result(f"GOSS(0.2, 0.1), {rows // 1000}k x 136, per tree", "LightGBM's GOSS", f"{other:.2f}")
    values: dict[str, list[np.ndarray]] = {"full": [], "goss": []}
    for seed in range(seeds):
        n_queries = rows // 120
        data = make_lists(rows, n_queries, seed)
        training, held_out = data.queries(0, n_queries * 4 // 5), data.queries(n_queries * 4 // 5, n_queries)
        for name, options in (("full", {}), ("goss", {"goss": GOSS})):
            model = time_podium(training.X, training.y, training.sizes, 100, random_state=seed, **options)[1]
            scores = model.predict(held_out.X)
            judged = podium.evaluate(scores, held_out.y, qid=held_out.qid, metrics=["ndcg@10"])
            values[name].append(np.asarray(judged.per_query["ndcg@10"]))
        means = ", ".join(f"{name} {np.nanmean(own[-1]):.4f}" for name, own in values.items())
        print(f"seed {seed}: NDCG@10 {means}", flush=True)
    gain = compare_means({"goss": (values["goss"], values["full"])})["goss"]
    what = f"GOSS(0.2, 0.1), NDCG@10, {seeds} seeds"
    print_result(what, "full training", str(gain), "within 0.003", abs(gain.mean) <= 0.003)


def make_one_hot(rows: int, groups: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of columns of which one is 1 in each row; grades that depend on some of them."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, size, (rows, groups))
    X = np.zeros((rows, groups * size), np.float32)
    for group in range(groups):
        X[np.arange(rows), group * size + codes[:, group]] = 1
    worth = rng.standard_normal((groups, size))
    value = sum(worth[group, codes[:, group]] for group in range(groups)) + rng.standard_normal(rows)
    y = np.searchsorted(np.quantile(value, [0.5, 0.75, 0.9, 0.97]), value)
    return X, y, np.full(rows // 100, 100)


def show_bundles(rows: int) -> None:
    lists = make_one_hot(rows, 10, 100)
    found = best_of(
        2,
        {
            "podium": lambda: time_podium(*lists, 12, bundle_features=False),
            "podium, bundles": lambda: time_podium(*lists, 12, bundle_features=True),
            "LightGBM": lambda: time_lightgbm(*lists, 12, enable_bundle=False),
            "LightGBM, bundles": lambda: time_lightgbm(*lists, 12, enable_bundle=True),
        },
    )
    print(f"\n{rows:,} rows x 1,000 one-hot columns, {LEAVES} leaves")
    for name, (seconds, _) in found.items():
        print(f"{name:>18}: {seconds * 1e3:6.1f} ms per tree")
    plain, bundled = found["podium"], found["podium, bundles"]
    same = all(
        np.array_equal(getattr(plain[1].forest_, name), getattr(bundled[1].forest_, name))
        for name in ("feature", "threshold", "left", "value")
    )
    columns = len(bundled[1].bundles_)
    print(f"the root's histogram adds up {rows:,} x 1,000 values without bundles, {rows:,} x {columns} with")
    print(f"{columns} bundles; the trees are {'the same' if same else 'NOT the same'} with and without them")
    what, ratio = "bundles, 1,000 one-hot columns", plain[0] / bundled[0]
    print_result(f"{what}, per tree", "no bundles", f"{ratio:.1f}x faster", "5x", ratio >= 5)
    print_result(what, "no bundles", "same trees" if same else "other trees", "same trees", same)
    ratio = bundled[0] / found["LightGBM, bundles"][0]
    print_result(f"{what}, per tree", "LightGBM's bundles", f"{ratio:.2f}")


def make_sparse(rows: int, groups: int = 20, size: int = 1_000) -> tuple[csr_array, np.ndarray, np.ndarray]:
    """`make_one_hot` as the stored entries alone."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, size, (rows, groups), dtype=np.int32)
    worth = rng.standard_normal((groups, size))
    value = worth[np.arange(groups), codes].sum(axis=1) + rng.standard_normal(rows)
    y = np.searchsorted(np.quantile(value, [0.5, 0.75, 0.9, 0.97]), value)
    codes += np.arange(groups, dtype=np.int32) * size
    entries = np.ones(codes.size, np.float32), codes.ravel(), np.arange(0, codes.size + 1, groups)
    return csr_array(entries, shape=(rows, groups * size)), y, np.full(rows // 100, 100)


def train_sparse(name: str, rows: int) -> None:
    """In a process of its own: print the seconds before the first tree is done, those of a tree, and the bytes."""
    train = {"podium": time_podium, "LightGBM": time_lightgbm}[name]
    train(*make_sparse(2_000), 2)
    lists = make_sparse(rows)
    before, started, trees = resident_memory(), time.perf_counter(), 20
    seconds, _ = train(*lists, trees)
    print(time.perf_counter() - started - seconds * (trees - 1), seconds, peak_memory() - before)


def show_sparse(rows: int, rounds: int) -> None:
    found: dict[str, np.ndarray] = {}
    for _ in range(rounds):
        for name in ("podium", "LightGBM"):
            command = [sys.executable, __file__, "--train-sparse", name, str(rows)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[name] = np.minimum(found.get(name, np.inf), [float(number) for number in printed.split()])
    matrix = make_sparse(rows)[0]
    stored = sum(array.nbytes for array in (matrix.data, matrix.indices, matrix.indptr))
    print(f"\n{rows:,} rows x {matrix.shape[1]:,} columns, 20 entries per row: {stored / 1e6:.0f} MB; {LEAVES} leaves")
    for name, (first, tree, grown) in found.items():
        print(f"{name:>9}: first tree after {first:.2f} s, {tree * 1e3:.1f} ms per tree, memory {grown / 1e6:+.0f} MB")
    what = f"sparse, {rows // 1000}k x 20,000 columns"
    ratios = found["podium"] / found["LightGBM"]
    for name, ratio in zip(("time to the first tree", "a tree", "memory growth in fit"), ratios):
        print_result(f"{what}, {name}", "LightGBM", f"{ratio:.2f}")
    share = found["podium"][2] / (4 * rows * matrix.shape[1])
    print_result(f"{what}, memory growth in fit", "the dense matrix", f"{share:.3f}", "at most 0.05", share <= 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="goss, bundles, sparse; all unless given")
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--sparse-rows", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-sparse", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train_sparse:
        train_sparse(options.train_sparse[0], int(options.train_sparse[1]))
        return
    print_header("seeing less: GOSS, bundles and sparse rows", ["lightgbm"])
    small = make_lists(4_000, 40)
    started = time.perf_counter()
    for extra in ({}, {"goss": GOSS}, {"bundle_features": True}):
        time_podium(small.X, small.y, small.sizes, 2, **extra)
    print(f"compiling took {time.perf_counter() - started:.1f} s")
    parts = options.parts or ["goss", "bundles", "sparse"]
    if "goss" in parts:
        show_goss(options.rows, options.seeds)
    if "bundles" in parts:
        show_bundles(100_000)
    if "sparse" in parts:
        show_sparse(options.sparse_rows, 3)


if __name__ == "__main__":
    main()
