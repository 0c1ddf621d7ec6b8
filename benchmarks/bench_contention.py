"""Training while other processes use the cores: two threads against one, beside LightGBM.

Four processes count in a loop while each rival trains, with one thread and with two, in turns. A library whose threads
spin while they wait for each other takes longer with two threads than with one. The best round of each counts.

    python benchmarks/bench_contention.py [--rows N] [--trees N] [--busy N] [--repeats N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from _mslr import Lists, make_lists
from _report import measure_in_turns, print_header, print_result

import podium

BUSY = "import time, sys\nend = time.time() + float(sys.argv[1])\nwhile time.time() < end:\n    sum(range(100_000))"
LIMIT = 300  # seconds after which the busy processes stop by themselves
FIXED: dict[str, Any] = {
    "max_leaf_nodes": 31,
    "min_samples_leaf": 20,
    "learning_rate": 0.1,
    "feature_fraction": 1.0,
    "extra_trees": False,
}


def train_podium(data: Lists, trees: int, threads: int) -> None:
    model = podium.LambdaMART(n_estimators=trees, n_jobs=threads, **FIXED)
    model.fit(data.X, data.y, group=data.sizes)


def train_lightgbm(data: Lists, trees: int, threads: int) -> None:
    import lightgbm

    parameters = {"objective": "lambdarank", "num_threads": threads, "verbose": -1}
    lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y, group=data.sizes), trees)


def measure(data: Lists, trees: int, repeats: int) -> dict[str, float]:
    rivals: dict[str, Callable[[], None]] = {}
    for name, train in (("podium", train_podium), ("lightgbm", train_lightgbm)):
        for threads in (1, 2):
            rivals[f"{name} {threads}"] = lambda train=train, threads=threads: train(data, trees, threads)
    return {name: timing.best for name, timing in measure_in_turns(rivals, repeats).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    print_header("Training beside busy processes", ["lightgbm"])
    data = make_lists(options.rows, options.rows // 120)
    quiet = measure(data, options.trees, options.repeats)
    busy = [subprocess.Popen([sys.executable, "-c", BUSY, str(LIMIT)]) for _ in range(options.busy)]
    try:
        time.sleep(0.5)  # until they are at work
        loaded = measure(data, options.trees, options.repeats)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    for name in quiet:
        print(f"{name} thread(s): {quiet[name]:.2f} s alone, {loaded[name]:.2f} s beside {options.busy} busy processes")
    what = f"training, {options.rows:,} rows, {options.trees} trees, beside {options.busy} busy processes"
    ours, theirs = (loaded[f"{name} 2"] / loaded[f"{name} 1"] for name in ("podium", "lightgbm"))
    against = f"LightGBM {theirs:.2f}"
    print_result(f"{what}: two threads, time of one = 1", against, f"{ours:.2f}", "at most 1", ours <= 1)
    share = loaded["podium 2"] / loaded["lightgbm 2"]
    print_result(f"{what}: two threads", "LightGBM", f"{share:.2f} of its time", "less", share < 1)


if __name__ == "__main__":
    main()
