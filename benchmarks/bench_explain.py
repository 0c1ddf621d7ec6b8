"""SHAP values of 100 trees x 31 leaves x 136 features, beside LightGBM's `pred_contrib`.

Each explains a model of its own, trained on the same rows with the same settings; and Podium also explains LightGBM's
trees, so that both do the same work, and the largest difference of their values is shown. Rivals run in turns in one
process, with one thread and with two. What compiling costs is shown apart.

    python benchmarks/bench_explain.py [--rows 4000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _mslr import Lists, make_lists
from _report import measure_in_turns, print_header, print_result

import podium
from podium.explain.shapley import Paths
from podium.learners.trees.scoring.forest import Forest, TreeArrays

TREES, LEAVES, RATE, SMALLEST_LEAF = 100, 31, 0.1, 20


def train_podium(data: Lists) -> podium.LambdaMART:
    model = podium.LambdaMART(n_estimators=TREES, max_leaf_nodes=LEAVES, learning_rate=RATE)
    return model.set_params(min_samples_leaf=SMALLEST_LEAF, feature_fraction=1.0, extra_trees=False).fit(
        data.X, data.y, group=data.sizes
    )


def train_lightgbm(data: Lists) -> Any:
    import lightgbm

    parameters = {
        "objective": "lambdarank",
        "num_leaves": LEAVES,
        "learning_rate": RATE,
        "min_data_in_leaf": SMALLEST_LEAF,
        "verbose": -1,
    }
    return lightgbm.train(parameters, lightgbm.Dataset(data.X, data.y, group=data.sizes), TREES)


def forest_of(booster: Any) -> Forest:
    """LightGBM's trees as a forest of ours."""
    trees = [as_arrays(info["tree_structure"]) for info in booster.dump_model()["tree_info"]]
    return Forest.join(trees, 0.0, booster.num_feature())


def as_arrays(root: dict[str, Any]) -> TreeArrays:
    rows: list[tuple[Any, ...]] = [()]
    waiting, depths = [(0, root)], [0]
    for number, node in waiting:
        if "leaf_value" in node:
            rows[number] = (0, np.inf, number, 0, node["leaf_value"], 0.0, node.get("leaf_count", 1))
            continue
        left = len(rows)
        right = int(node["missing_type"] == "NaN" and not node["default_left"])
        gain, count = node["split_gain"], node["internal_count"]
        rows[number] = (node["split_feature"], float32_below(node["threshold"]), left, right, 0.0, gain, count)
        rows += [(), ()]
        depths += [depths[number] + 1] * 2
        waiting += [(left, node["left_child"]), (left + 1, node["right_child"])]
    return TreeArrays(*(np.array(column) for column in zip(*rows)), depth=max(depths))


def float32_below(threshold: float) -> np.float32:
    """The largest float32 up to the threshold: rows are float32, so none changes sides."""
    near = np.float32(threshold)
    return near if near <= threshold else np.nextafter(near, np.float32(-np.inf))


def show_cold_start() -> None:
    """The first SHAP values in a process, where nothing was ever compiled and where compiled code lies on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--cold"]
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        first, cached = (
            float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)
            for _ in range(2)
        )
    print(f"first call: compiling {first:.1f} s, from the compile cache {cached:.2f} s")
    print_result("first SHAP values ever, compiling", "", f"{first:.1f} s")


def cold() -> None:
    columns = ([0, 0, 0], [0.5, np.inf, np.inf], [1, 1, 2], [0, 0, 0], [0.0, 1.0, 2.0], [1.0, 0.0, 0.0], [9, 4, 5])
    stump = TreeArrays(*map(np.array, columns), depth=1)
    started = time.perf_counter()
    paths = Paths.of(Forest.join([stump], 0.0, 2))
    paths.values(np.zeros((1, 2), np.float32))
    paths.expected()
    print(time.perf_counter() - started)


def show_speed(model: podium.LambdaMART, booster: Any, X: np.ndarray, threads: int, repeats: int) -> None:
    model.set_params(n_jobs=threads)
    same_trees = forest_of(booster)
    rivals: dict[str, Callable[[], Any]] = {
        "podium": lambda: podium.explain.shap_values(model, X),
        "podium, the same trees": lambda: Paths.of(same_trees).values(X, threads),
        "LightGBM": lambda: booster.predict(X, pred_contrib=True, num_threads=threads),
    }
    per_row = {name: timing.best / len(X) * 1e6 for name, timing in measure_in_turns(rivals, repeats).items()}
    what = f"{TREES} trees x {LEAVES} leaves, {threads} thread{'s' if threads > 1 else ''}"
    print(f"\n{len(X):,} rows x {X.shape[1]}, {what}")
    for name, own in per_row.items():
        print(f"{name:>24}: {own:8.1f} us per row")
    for name in ("podium", "podium, the same trees"):
        own, other = per_row[name], per_row["LightGBM"]
        measured = f"{own / other:.3f} ({own:.1f} against {other:.1f} us per row)"
        which = f"SHAP values, {what}{name.removeprefix('podium')}"
        print_result(which, "LightGBM", measured, "at most 1.00", own / other <= 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--training-rows", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cold:
        return cold()
    print_header("explaining", ["lightgbm"])
    show_cold_start()
    data = make_lists(options.training_rows, options.training_rows // 120)
    model, booster = train_podium(data), train_lightgbm(data)
    X = np.ascontiguousarray(data.X[: options.rows])
    ours, theirs = Paths.of(forest_of(booster)).values(X[:64]), booster.predict(X[:64], pred_contrib=True)
    print(f"largest difference to LightGBM on its own trees: {np.abs(ours - theirs[:, :-1]).max():.1e}")
    for threads in (1, 2):
        show_speed(model, booster, X, threads, options.repeats)


if __name__ == "__main__":
    main()
