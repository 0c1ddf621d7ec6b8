"""Extremely randomised trees: time per tree with one drawn threshold per feature and node, against all thresholds.

On data shaped like MSLR-WEB (`_mslr.py`), Podium and LightGBM, with and without `extra_trees`, in turns, on one thread,
processor time, the best of several rounds; small leaves are where scanning the bins counts. Compilation is not part of
the times.

    python benchmarks/bench_extra_trees.py [--rows N]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from _mslr import make_lists
from _report import print_header, print_result

import podium

TREES, ROUNDS = 15, 3


def time_podium(data: Any, leaves: int, extra_trees: bool) -> float:
    """Processor seconds per tree after the first, which compiles."""
    ends: list[float] = []
    model = podium.LambdaMART(n_estimators=TREES, max_leaf_nodes=leaves, extra_trees=extra_trees, n_jobs=1)
    model.set_params(min_samples_leaf=20, learning_rate=0.1, feature_fraction=1.0)
    model.fit(data.X, data.y, group=data.sizes, callbacks=[lambda _: ends.append(time.process_time())])
    return (ends[-1] - ends[0]) / (TREES - 1)


def time_lightgbm(data: Any, leaves: int, extra_trees: bool) -> float:
    import lightgbm

    parameters = {
        "objective": "lambdarank",
        "num_leaves": leaves,
        "extra_trees": extra_trees,
        "num_threads": 1,
        "verbose": -1,
    }
    booster = lightgbm.Booster(parameters, lightgbm.Dataset(data.X, data.y, group=data.sizes, params=parameters))
    booster.update()
    started = time.process_time()
    for _ in range(TREES - 1):
        booster.update()
    return (time.process_time() - started) / (TREES - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    given = parser.parse_args()
    print_header("Extremely randomised trees", ["lightgbm"])
    data = make_lists(given.rows, given.rows // 120)
    for leaves in (31, 255):
        runs = {(name, extra): [] for name in ("podium", "LightGBM") for extra in (False, True)}
        for _ in range(ROUNDS):
            for (name, extra), times in runs.items():
                clock = time_podium if name == "podium" else time_lightgbm
                times.append(clock(data, leaves, extra))
        best = {key: min(times) for key, times in runs.items()}
        for name in ("podium", "LightGBM"):
            plain, extra = 1e3 * best[name, False], 1e3 * best[name, True]
            what = f"extra_trees, {given.rows:,} x 136, {leaves} leaves, {name}"
            bar = ("less", extra < plain) if name == "podium" else ()
            print_result(what, "all thresholds", f"{extra:.1f} against {plain:.1f} ms per tree", *bar)


if __name__ == "__main__":
    main()
