"""Training boosted trees on lambdas, beside LightGBM, XGBoost and CatBoost (where installed), two threads each.

Data shaped like MSLR-WEB (`_mslr.py`); equal leaves, bins, learning rate, trees and truncation (30 places, LightGBM's
default). Rivals train in turns, and each one's best round counts: time per tree is the mean over the trees of that
round after the first, binning is what was needed before it. Memory and cold start are measured in processes of their
own.

    python benchmarks/bench_train.py [speed] [quality] [memory] [cold] [growth]
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

import numpy as np
from _mslr import Lists, make_lists
from _quality import compare_means, mean_of
from _report import peak_memory, print_header, print_result, resident_memory

import podium

RATE, BINS, SMALLEST_LEAF, TRUNCATION, THREADS = 0.1, 255, 20, 30, 2
FIXED: dict[str, Any] = {
    "max_leaf_nodes": 31,
    "min_samples_leaf": 20,
    "learning_rate": 0.1,
    "feature_fraction": 1.0,
    "extra_trees": False,
}


@dataclass(frozen=True)
class Run:
    """Seconds before the first tree, seconds per tree, and the trained model's scoring function."""

    binning: float
    tree: float
    trees: int
    predict: Callable[[np.ndarray], np.ndarray]

    @property
    def total(self) -> float:
        return self.binning + self.tree * self.trees


def train_podium(data: Lists, leaves: int, trees: int, seed: int = 0, split_by: str = "newton") -> Run:
    model = podium.LambdaMART(
        n_estimators=trees,
        learning_rate=RATE,
        max_leaf_nodes=leaves,
        min_samples_leaf=SMALLEST_LEAF,
        max_bins=BINS,
        metric=f"ndcg@{TRUNCATION}",
        n_jobs=THREADS,
        random_state=seed,
        split_by=split_by,
        feature_fraction=1.0,
        extra_trees=False,
    )
    ends: list[float] = []
    started = time.perf_counter()
    model.fit(data.X, data.y, group=data.sizes, callbacks=[lambda _: ends.append(time.perf_counter())])
    total = time.perf_counter() - started
    return _run(total, ends, trees, model.predict)


def train_by_gradients(data: Lists, leaves: int, trees: int, seed: int = 0) -> Run:
    return train_podium(data, leaves, trees, seed, split_by="gradients")


def train_lightgbm(
    data: Lists, leaves: int, trees: int, seed: int = 0, quantised: bool = False, objective: str = "lambdarank"
) -> Run:
    import lightgbm

    parameters = {
        "objective": objective,
        "lambdarank_truncation_level": TRUNCATION,
        "num_leaves": leaves,
        "learning_rate": RATE,
        "min_data_in_leaf": SMALLEST_LEAF,
        "max_bin": BINS,
        "num_threads": THREADS,
        "seed": seed,
        "verbose": -1,
        "use_quantized_grad": quantised,
    }
    ends = []
    started = time.perf_counter()
    rows = lightgbm.Dataset(data.X, data.y, group=data.sizes, params=parameters)
    booster = lightgbm.Booster(parameters, rows)
    for _ in range(trees):
        booster.update()
        ends.append(time.perf_counter())
    total = time.perf_counter() - started
    return _run(total, ends, trees, lambda X: booster.predict(X, num_threads=THREADS))


def train_quantised(data: Lists, leaves: int, trees: int, seed: int = 0) -> Run:
    return train_lightgbm(data, leaves, trees, seed, quantised=True)


def train_xendcg(data: Lists, leaves: int, trees: int, seed: int = 0) -> Run:
    return train_lightgbm(data, leaves, trees, seed, objective="rank_xendcg")


def train_xgboost(data: Lists, leaves: int, trees: int, seed: int = 0) -> Run:
    import xgboost

    parameters = {
        "objective": "rank:ndcg",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": leaves,
        "max_depth": 0,
        "max_bin": BINS,
        "eta": RATE,
        "lambda": 0.0,
        "lambdarank_pair_method": "topk",
        "lambdarank_num_pair_per_sample": TRUNCATION,
        "nthread": THREADS,
        "seed": seed,
    }
    ends = []
    started = time.perf_counter()
    rows = xgboost.QuantileDMatrix(data.X, data.y, qid=data.qid, max_bin=BINS, nthread=THREADS)
    booster = xgboost.Booster(parameters, [rows])
    for number in range(trees):
        booster.update(rows, number)
        ends.append(time.perf_counter())
    total = time.perf_counter() - started
    return _run(total, ends, trees, lambda X: booster.inplace_predict(X))


def train_catboost(data: Lists, leaves: int, trees: int, seed: int = 0) -> Run:
    import catboost

    parameters = {
        "loss_function": "YetiRank",
        "grow_policy": "Lossguide",
        "max_leaves": leaves,
        "depth": 16,
        "min_data_in_leaf": SMALLEST_LEAF,
        "border_count": 254,
        "learning_rate": RATE,
        "iterations": trees,
        "thread_count": THREADS,
        "random_seed": seed,
        "logging_level": "Silent",
        "allow_writing_files": False,
    }
    started = time.perf_counter()
    rows = catboost.Pool(data.X, data.y, group_id=data.qid)
    rows.quantize(border_count=254)
    quantised = time.perf_counter()
    model = catboost.CatBoost(parameters).fit(rows)
    ended = time.perf_counter()
    return Run(quantised - started, (ended - quantised) / trees, trees, lambda X: model.predict(X))


def _run(total: float, ends: list[float], trees: int, predict: Callable[[np.ndarray], np.ndarray]) -> Run:
    tree = (ends[-1] - ends[0]) / (trees - 1)
    return Run(total - tree * trees, tree, trees, predict)


TRAINERS: dict[str, Callable[..., Run]] = {
    "podium": train_podium,
    "podium by gradients": train_by_gradients,
    "LightGBM": train_lightgbm,
    "LightGBM quantised": train_quantised,
    "XGBoost": train_xgboost,
}


def rivals() -> dict[str, Callable[..., Run]]:
    try:
        import catboost  # noqa: F401
    except ImportError:
        print("CatBoost is not installed; it is left out.")
        return TRAINERS
    return TRAINERS | {"CatBoost": train_catboost}


def best_runs(data: Lists, leaves: int, trees: int, repeats: int) -> dict[str, Run]:
    """The fastest of several rounds for each rival; CatBoost, ten times slower, has one short round."""
    runs: dict[str, list[Run]] = {}
    for round_number in range(repeats):
        for name, train in rivals().items():
            if name == "CatBoost" and round_number:
                continue
            runs.setdefault(name, []).append(train(data, leaves, 10 if name == "CatBoost" else trees))
    return {
        name: Run(min(run.binning for run in own), min(run.tree for run in own), trees, own[0].predict)
        for name, own in runs.items()
    }


def at_most(bar: float | None, ratio: float) -> tuple[str, bool] | tuple[()]:
    """The last cells of a row: the bar and whether a ratio meets it; nothing without a bar."""
    return () if bar is None else (f"at most {bar:.2f}", ratio <= bar)


def show_speed(rows: int, repeats: int) -> None:
    data = make_lists(rows, max(rows // 120, 2))
    bars = {
        31: {"LightGBM": 0.50, "LightGBM quantised": 0.75},
        255: {"LightGBM": 0.50, "LightGBM quantised": 1.00},
    }
    for leaves, trees in ((31, 40), (255, 20)):
        print(f"\n{rows:,} rows x {data.X.shape[1]}, {leaves} leaves")
        runs = best_runs(data, leaves, trees, repeats)
        own = runs["podium"]
        for name, run in runs.items():
            hundred = run.binning + 100 * run.tree
            print(
                f"{name:>20}: binning {run.binning:6.2f} s, a tree {run.tree * 1e3:7.1f} ms, 100 trees {hundred:6.1f} s"
            )
            if name == "podium":
                continue
            bar = bars[leaves].get(name)
            if name == "podium by gradients":
                print_gradients(f"{rows // 1000}k x {data.X.shape[1]}, {leaves} leaves", run, own)
                continue
            what = f"{rows // 1000}k x {data.X.shape[1]}, {leaves} leaves"
            measured = f"{own.tree / run.tree:.2f} ({own.tree * 1e3:.0f} against {run.tree * 1e3:.0f} ms)"
            print_result(f"time per tree, {what}", name, measured, *at_most(bar, own.tree / run.tree))
            whole = (own.binning + 100 * own.tree) / hundred
            print_result(f"binning and 100 trees, {what}", name, f"{whole:.2f}", *at_most(bar, whole))
            if leaves == 31:
                binning = own.binning / run.binning
                below = ("below 1", binning < 1) if bar else ()
                print_result(f"binning, {what}", name, f"{binning:.2f}", *below)


def print_gradients(what: str, run: Run, own: Run) -> None:
    """Splits by gradients beside those by Newton's gain."""
    ratio = run.tree / own.tree
    measured = f"{ratio:.2f} ({run.tree * 1e3:.0f} against {own.tree * 1e3:.0f} ms)"
    title = f"split_by='gradients', time per tree, {what}"
    print_result(title, "split_by='newton'", measured, "at most 1", ratio <= 1)


def show_quality(rows: int, seeds: int) -> None:
    print(f"\nNDCG@10 of 100 trees with 31 leaves, {rows:,} rows, a fifth of the queries held out")
    trainers = {name: TRAINERS[name] for name in ("podium", "LightGBM", "XGBoost")}
    trainers["LightGBM rank_xendcg"] = train_xendcg
    found: dict[str, list[np.ndarray]] = {name: [] for name in trainers}
    for seed in range(seeds):
        n_queries = max(rows // 120, 10)
        data = make_lists(rows, n_queries, seed)
        training, held_out = data.queries(0, n_queries * 4 // 5), data.queries(n_queries * 4 // 5, n_queries)
        for name, train in trainers.items():
            scores = train(training, 31, 100, seed).predict(held_out.X)
            judged = podium.evaluate(scores, held_out.y, qid=held_out.qid, metrics=["ndcg@10"])
            found[name].append(np.asarray(judged.per_query["ndcg@10"]))
        means = ", ".join(f"{name} {np.nanmean(values[-1]):.4f}" for name, values in found.items())
        print(f"seed {seed}: {means}", flush=True)
    own = found.pop("podium")
    for name, gain in compare_means({name: (own, values) for name, values in found.items()}).items():
        bar = ("at least -0.002", gain.mean >= -0.002) if name == "LightGBM" else ()
        print_result(f"NDCG@10, mean of {seeds} seeds", name, f"{mean_of(own):.4f}, {gain}", *bar)


def show_memory(rows: int) -> None:
    """Growth of a process during binning and training, over its state after import and warm-up."""
    print(f"\nmemory, {rows:,} rows, 31 leaves")
    with tempfile.TemporaryDirectory() as folder:
        data = make_lists(rows, rows // 120)
        np.savez(Path(folder) / "data.npz", X=data.X, y=data.y, offsets=data.offsets)
        size = data.X.nbytes
        del data
        growth = {
            name: float(_child("--grow", name, folder))
            for name in ("podium", "LightGBM", "LightGBM quantised", "XGBoost")
        }
    for name, grown in growth.items():
        print(f"{name:>20}: {grown / 1e6:6.0f} MB (the rows themselves: {size / 1e6:.0f} MB)")
    ratio = growth["podium"] / growth["LightGBM"]
    print_result(f"memory growth in fit, {rows // 1000}k rows", "LightGBM", f"{ratio:.2f}", "at most 1", ratio <= 1)


def grow(name: str, folder: str) -> None:
    """In a process of its own: print how much memory training took."""
    TRAINERS[name](make_lists(2_000, 20), 31, 2)
    arrays = np.load(Path(folder) / "data.npz")
    data = Lists(arrays["X"], arrays["y"], arrays["offsets"])
    before = resident_memory()
    TRAINERS[name](data, 31, 5)
    print(peak_memory() - before)


def show_cold_start(rows: int) -> None:
    """A training where nothing was ever compiled, one that finds compiled code, and one in a process that has it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        first = [float(number) for number in _child("--cold", str(rows), environment=environment).split()]
        cached = [float(number) for number in _child("--cold", str(rows), environment=environment).split()]
    print(f"\ncold start, {rows:,} rows, 10 trees: first ever {first[0]:.1f} s, from the cache {cached[0]:.1f} s, ")
    print(f"warm {cached[1]:.1f} s")
    print_result("first training ever, compiling", "", f"{first[0]:.1f} s", "below 25 s", first[0] < 25)
    over = cached[0] - cached[1]
    print_result("training from the compile cache, over a warm one", "", f"{over:.1f} s", "at most 3 s", over <= 3)


def cold(rows: int) -> None:
    data = make_lists(rows, max(rows // 120, 2))
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        podium.LambdaMART(n_estimators=10, n_jobs=THREADS, **FIXED).fit(data.X, data.y, group=data.sizes)
        seconds.append(time.perf_counter() - started)
    print(*seconds)


def _child(*arguments: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def show_growth(largest: int) -> None:
    """Cost against rows, features and trees."""
    print("\nhow the cost grows (31 leaves)\n   rows  features  trees  binning s  ms per tree  ns per row and feature")
    cases = [(rows, 136, 20) for rows in (100_000, 300_000, largest)]
    start = None
    cases += [(100_000, features, 20) for features in (34, 68)] + [(100_000, 136, trees) for trees in (40, 80)]
    for rows, features, trees in cases:
        data: Any = make_lists(rows, rows // 120, n_features=features)
        run = min((train_podium(data, 31, trees) for _ in range(3)), key=lambda run: run.tree)
        share = run.tree / rows / features * 1e9
        print(
            f"{rows:>8,} {features:>6} {trees:>6} {run.binning:>10.2f} {run.tree * 1e3:>10.1f} {share:>10.2f}",
            flush=True,
        )
        if (features, trees) == (136, 20):
            start = start or share
            bar = f"flat: at most 1.3 x {start:.2f}"
            measured = f"{share:.2f} ns per row and feature"
            print_result(f"time per tree, {rows:,} rows", "", measured, bar, share <= 1.3 * start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="speed, quality, memory, cold, growth; all unless given")
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--grow", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cold", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grow:
        return grow(*options.grow)
    if options.cold:
        return cold(options.cold)
    print_header("training", ["lightgbm", "xgboost-cpu", "catboost"])
    parts = options.parts or ["cold", "speed", "quality", "memory", "growth"]
    if "cold" in parts:
        show_cold_start(options.rows)
    if "speed" in parts:
        train_podium(make_lists(5_000, 50), 31, 2)  # compiles, or loads compiled code
        show_speed(options.rows, options.repeats)
        if options.large > options.rows:
            show_speed(options.large, 1)
    if "quality" in parts:
        show_quality(options.rows, options.seeds)
    if "memory" in parts:
        show_memory(options.large)
    if "growth" in parts:
        show_growth(options.large)


if __name__ == "__main__":
    main()
