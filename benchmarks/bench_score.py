"""Scoring with boosted trees, beside LightGBM, one thread each: in batches, and as a service sees it.

Both libraries train on the same data (`_mslr.py`) with equal leaves, bins and rates, each its own forest; on squared
error, so that every tree gets all of its leaves. Rivals score in turns, and each one's best round counts.

    python benchmarks/bench_score.py [batches] [latency] [ways] [tables] [start]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
from _mslr import make_lists
from _report import measure_in_turns, print_header, print_result

import podium
from podium.learners.trees.scoring.forest import Forest, TreeArrays
from podium.learners.trees.scoring.walking import FEW, Way

SHAPES = ((100, 31), (600, 64), (1000, 64))
TRAINING_ROWS, ROWS, REPEATS = 10_000, 20_000, 7
FIXED: dict[str, Any] = {"min_samples_leaf": 20, "learning_rate": 0.1, "feature_fraction": 1.0, "extra_trees": False}


@dataclass(frozen=True, eq=False)
class Rivals:
    """One shape of forest, trained by each."""

    trees: int
    leaves: int
    own: podium.MART
    other: lightgbm.Booster

    @property
    def what(self) -> str:
        return f"{self.trees:,} x {self.leaves}"


def train_rivals(trees: int, leaves: int) -> Rivals:
    data = make_lists(TRAINING_ROWS, TRAINING_ROWS // 120)
    own = podium.MART(n_estimators=trees, max_leaf_nodes=leaves, min_hessian=0.0, **FIXED).fit(
        data.X, data.y, group=data.sizes
    )
    parameters = {
        "objective": "regression",
        "num_leaves": leaves,
        "learning_rate": 0.1,
        "num_threads": 1,
        "verbose": -1,
    }
    other = lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y), trees)
    rivals = Rivals(trees, leaves, own.set_params(n_jobs=1), other)
    theirs = np.mean([tree["num_leaves"] for tree in other.dump_model()["tree_info"]])
    ours = (own.forest_.left == np.arange(len(own.forest_.left))).sum() / trees
    depth = own.forest_.depths.mean()
    print(f"{rivals.what}: leaves per tree {ours:.1f}, LightGBM's {theirs:.1f}; depth {depth:.1f}", flush=True)
    return rivals


def seconds_per_call(rivals: dict[str, Callable[[], Any]], calls: dict[str, int], repeats: int) -> dict[str, float]:
    def often(name: str) -> Callable[[], None]:
        def work() -> None:
            for _ in range(calls[name]):
                rivals[name]()

        return work

    timings = measure_in_turns({name: often(name) for name in rivals}, repeats)
    return {name: timing.best / calls[name] for name, timing in timings.items()}


def show_batches(rivals: Rivals, X: np.ndarray) -> None:
    work = {"podium": lambda: rivals.own.predict(X), "LightGBM": lambda: rivals.other.predict(X, num_threads=1)}
    repeats = REPEATS if rivals.trees < 1000 else 3
    found = {name: timing.best for name, timing in measure_in_turns(work, repeats).items()}
    own, other = (found[name] / len(X) * 1e6 for name in work)
    print(f"{rivals.what}, {len(X):,} rows: predict {own:.2f}, LightGBM {other:.2f} us per document")
    measured = f"{other / own:.1f}x ({own:.2f} against {other:.2f} us)"
    what = f"per document in batches, {rivals.what} trees, one thread"
    print_result(what, "LightGBM", measured, "5x, aim 10x", other / own >= 5)


def show_latency(rivals: Rivals, X: np.ndarray) -> None:
    scorer = rivals.own.scorer()
    for rows in (1, 100):
        some = X[:rows].copy()
        work = {
            "scorer": lambda rows=some: scorer(rows),
            "predict": lambda rows=some: rivals.own.predict(rows),
            "LightGBM": lambda rows=some: rivals.other.predict(rows, num_threads=1),
        }
        ours = 2_000_000 // (rivals.trees * rows)
        calls = {"scorer": ours, "predict": ours, "LightGBM": max(1, ours // 10)}
        found = {name: seconds * 1e6 for name, seconds in seconds_per_call(work, calls, REPEATS).items()}
        print(f"{rivals.what}, {rows} rows: " + ", ".join(f"{name} {value:.1f} us" for name, value in found.items()))
        for name, bar in (("scorer", 5), ("predict", 1)):
            ratio = found["LightGBM"] / found[name]
            measured = f"{ratio:.1f}x ({found[name]:.1f} against {found['LightGBM']:.1f} us)"
            what = "one document" if rows == 1 else f"a list of {rows}"
            what = f"latency of {name}, {what}, {rivals.what} trees"
            print_result(what, "LightGBM", measured, f"{bar}x", ratio >= bar)


def oblivious_forest(X: np.ndarray, trees: int, depth: int) -> Forest:
    """Trees whose levels make one test each; node i has the children 2i + 1 and 2i + 2."""
    rng, n = np.random.default_rng(0), 2**depth - 1
    level = np.log2(np.arange(1, n + 1)).astype(int)
    left = np.concatenate([2 * np.arange(n) + 1, np.arange(n, 2 * n + 1)])
    made = []
    for _ in range(trees):
        features = rng.integers(X.shape[1], size=depth)
        thresholds = X[rng.integers(len(X), size=depth), features]
        feature = np.concatenate([features[level], np.zeros(n + 1, int)])
        threshold = np.concatenate([thresholds[level], np.full(n + 1, np.inf)])
        value = np.concatenate([np.zeros(n), rng.standard_normal(n + 1)])
        nothing = np.zeros(2 * n + 1)
        made.append(TreeArrays(feature, threshold, left, nothing, value, nothing, nothing, depth))
    return Forest.join(made, 0.0, X.shape[1])


def show_ways(forests: dict[str, Forest], X: np.ndarray) -> None:
    """Every way with every shape, and how many documents one by one cost as much as a block of 64."""
    names = ("us per document", "bit vectors", "trees in step", "documents in step", "64 as much as")
    print("\n{:>20} {:>12} {:>14} {:>18} {:>14}".format(*names))
    for what, forest in forests.items():
        bits, single, many = times_by_way(forest, X)
        print(f"{what:>20} {bits:12.2f} {single:14.2f} {many:18.2f} {64 * bits / single:14.1f}", flush=True)
    print(f"fewer than {FEW} documents go one by one")


def times_by_way(forest: Forest, X: np.ndarray) -> list[float]:
    """Microseconds per document; NaN where a way cannot be taken."""
    found = []
    for way, n in zip(ways(forest), (4096, 1024, 4096)):
        rows, out = X[:n], np.zeros(n)
        if way is None:
            found.append(np.nan)
            continue
        timing = measure_in_turns({"": lambda way=way, rows=rows, out=out: way(rows, forest.n_trees, out)}, 5)[""]
        found.append(timing.best / n * 1e6)
    return found


def ways(forest: Forest) -> tuple[Way | None, Way, Way]:
    return (
        None if forest.bit_tables is None else forest.bit_tables.add_scores,
        forest.walk_tables.add_scores,
        lambda X, n_trees, out: forest.add_scores(X, 0, n_trees, out),
    )


def show_compile_time() -> None:
    """In a process that never compiled anything: the first score of one document, of many, and the same again."""
    with tempfile.TemporaryDirectory() as folder:
        model = podium.MART(n_estimators=2).fit(np.arange(40.0).reshape(-1, 1), np.arange(40) % 2, qid=np.zeros(40))
        model.save(Path(folder) / "m.podium")
        command = [sys.executable, __file__, "--first", str(Path(folder) / "m.podium")]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        for what in ("compiling", "from the cache"):
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            one, many = (float(number) for number in done.stdout.split())
            print(f"first scores, {what}: one document {one:.2f} s, then many {many:.2f} s", flush=True)


def first(path: str) -> None:
    model = podium.load(path)
    seconds = []
    for rows in (1, 100):
        started = time.perf_counter()
        model.predict(np.zeros((rows, 1), np.float32))
        seconds.append(time.perf_counter() - started)
    print(*seconds)


def show_tables() -> None:
    """Requests of a service that has tables: one row with a category; and float64 arrays beside float32."""
    draws = np.random.default_rng(2)
    X, y = draws.standard_normal((2000, 20)), draws.integers(0, 4, 2000)
    frame = pd.DataFrame({f"x{number}": column for number, column in enumerate(X.T)})
    frame["kind"] = pd.Categorical(draws.choice(list("abcdefg"), len(frame)))
    qid = np.repeat(np.arange(100), 20)
    model, plain = (podium.LambdaMART(n_estimators=100).fit(rows, y, qid=qid) for rows in (frame, X))
    tables = {"pandas": frame[:1], "polars": pl.from_pandas(frame)[:1]}
    timings = measure_in_turns({name: lambda table=table: model.predict(table) for name, table in tables.items()}, 50)
    for name, timing in timings.items():
        micros = timing.best * 1e6
        print_result(f"one row with a category, {name}", "", f"{micros:.0f} us", "at most 300 us", micros <= 300)
    for n in (1, 100, 100_000):
        double, single = np.resize(X, (n, 20)), np.resize(X, (n, 20)).astype(np.float32)
        calls = {"double": lambda rows=double: plain.predict(rows), "single": lambda rows=single: plain.predict(rows)}
        times = {name: timing.best for name, timing in measure_in_turns(calls, 20).items()}
        ratio = times["double"] / times["single"]
        print_result(f"float64 array, {n:,} rows", "float32", f"{ratio:.2f}x", "at most 2x", ratio <= 2)


def show_start() -> None:
    """Seconds of a new process up to its first score, its kernels in the cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.podium"
        podium.MART(n_estimators=20).fit(np.arange(40.0).reshape(-1, 1), np.arange(40) % 2, qid=np.zeros(40)).save(path)
        code = f"import podium, numpy; podium.load({str(path)!r}).predict(numpy.zeros((1, 1)))"
        start = measure_in_turns({"": lambda: subprocess.run([sys.executable, "-c", code], check=True)}, 5)[""].best
        print_result("process start to first score", "", f"{start:.1f} s", "at most 3 s", start <= 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="batches, latency, ways, tables, start; all when none is named")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        return first(options.first)
    print_header("scoring", ["lightgbm"])
    parts = options.parts or ["batches", "latency", "ways", "tables", "start"]
    if "tables" in parts:
        show_tables()
    if "start" in parts:
        show_start()
    if {"batches", "latency", "ways"} & {*parts}:
        show_forests(parts)


def show_forests(parts: list[str]) -> None:
    X = make_lists(ROWS, ROWS // 120, seed=1).X
    forests = {}
    for trees, leaves in SHAPES:
        rivals = train_rivals(trees, leaves)
        forests[rivals.what] = rivals.own.forest_
        if "batches" in parts:
            show_batches(rivals, X)
        if "latency" in parts:
            show_latency(rivals, X)
    if "ways" in parts:
        data = make_lists(TRAINING_ROWS, 100)
        for leaves in (256, 1000):
            model = podium.MART(n_estimators=50, max_leaf_nodes=leaves, min_samples_leaf=2, min_hessian=0.0)
            model.set_params(learning_rate=0.1, feature_fraction=1.0, extra_trees=False)
            forests[f"50 x {leaves}"] = model.fit(data.X, data.y, group=data.sizes).forest_
        forests["1,000 x 64 oblivious"] = oblivious_forest(X, 1000, 6)
        show_ways(forests, X)
        show_compile_time()


if __name__ == "__main__":
    main()
