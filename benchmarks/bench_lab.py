"""The experiment mq2008: quality of all models on MQ2008's official folds, and the time of the whole run.

    python benchmarks/bench_lab.py [--results DIR]

`--results` has the results of an earlier `podium lab run mq2008`, which are then not computed again. Needs
$PODIUM_DATA/MQ2008. Settings are chosen without the test parts; each is looked at once per model, fold and seed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from _report import print_header, print_result

from podium.lab import Results, run
from podium.lab.report.leaderboard import leaderboard, published_beside

POLICY, METRICS = "letor4", ("map", "meanndcg")
AUTO, FOLDED = "AutoRanker", "AutoRanker (validation folded in)"
BARS = {AUTO: (0.4875, 0.499), FOLDED: (0.4885, 0.501)}


def means(results: Results, model: str) -> list[float]:
    return [results.mean(model, POLICY, metric) for metric in METRICS]


def pair(results: Results, model: str) -> str:
    return " / ".join(f"{mean:.4f}" for mean in means(results, model))


def reach(found: Sequence[float], bar: Sequence[float]) -> bool:
    return all(mean >= least for mean, least in zip(found, bar, strict=True))


def report(results: Results) -> None:
    for model in results.models:
        print(f"{model}: {pair(results, model)}, {len(results.of(model))} runs")
    for name, bar in BARS.items():
        what, least = f"MQ2008, {name}, mean of five folds and seeds", f"at least {bar[0]} / {bar[1]}"
        print_result(what, "MAP / MeanNDCG", pair(results, name), least, reach(means(results, name), bar))
    own, other = pair(results, "LambdaMART"), pair(results, "LightGBM lambdarank")
    equal = reach(means(results, "LambdaMART"), means(results, "LightGBM lambdarank"))
    print_result("MQ2008, LambdaMART", "LightGBM lambdarank", f"{own} against {other}", "at least equal", equal)
    for line in leaderboard(results):
        if line.model in BARS:
            for metric, (difference, low, high) in line.intervals.items():
                shown = f"{difference:+.4f} (95 % over queries: {low:+.4f} to {high:+.4f})"
                print_result(f"MQ2008 {metric}, {line.model}", str(results.about["baseline"]), shown)
    for table in published_beside(results):
        for metric, (published, mean) in table.means.items():
            print(f"{table.title}, {metric}: published {published:.4f}, ours {mean:.4f}, {mean - published:+.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    print_header("The experiment mq2008", ["lightgbm", "xgboost-cpu", "jax"])
    if options.results is not None:
        report(Results.load(options.results))
        return
    if "PODIUM_DATA" not in os.environ:
        print("PODIUM_DATA is not set: nothing to measure.")
        return
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report(run("mq2008", Path(folder) / "results").results)
    minutes = (time.perf_counter() - started) / 60
    print_result("podium lab run mq2008", "two cores", f"{minutes:.1f} minutes", "under 20 minutes", minutes < 20)


if __name__ == "__main__":
    main()
