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

import numpy as np
from _quality import Parts, compare_means
from _report import print_header, print_result

from podium.lab import Results, run
from podium.lab.report.leaderboard import published_beside

POLICY, METRICS = "letor4", ("map", "meanndcg")
AUTO, FOLDED = "AutoRanker", "AutoRanker (validation folded in)"
BARS = {AUTO: (0.4875, 0.499), FOLDED: (0.4885, 0.501)}
GRID, GRID_COLUMNS = "LambdaMART, LightGBM's grid", "LambdaMART, LightGBM's grid, same columns"
LAMBDARANK, XENDCG = "LightGBM lambdarank", "LightGBM rank_xendcg"
LAMBDARANK_COLUMNS, XENDCG_COLUMNS = f"{LAMBDARANK}, same columns", f"{XENDCG}, same columns"
XENDCG_FOLDED = f"{XENDCG_COLUMNS} (validation folded in)"
COMPARED = (
    (GRID, LAMBDARANK),  # the features as they are on both sides
    (GRID, XENDCG),
    (GRID_COLUMNS, LAMBDARANK_COLUMNS),  # z-scores and ranks within the query on both sides
    (GRID_COLUMNS, XENDCG_COLUMNS),
    ("LambdaMART", LAMBDARANK_COLUMNS),
    ("LambdaMART", XENDCG_COLUMNS),
    ("LambdaMART, split by gradients", GRID),
    (AUTO, XENDCG),
    (AUTO, XENDCG_COLUMNS),
    (FOLDED, XENDCG_FOLDED),  # both trained on the validation part too
)
"""Rows of the experiment that are compared; p is corrected for all of them."""
WITH_BAR = ("LambdaMART", LAMBDARANK_COLUMNS)  # both with z-scores and ranks within the query


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
    print_result("MQ2008, looks at the test parts in the run of this table", "-", f"{len(results.looks):,}")
    report_differences(results)
    for own, other in ((GRID, LAMBDARANK), (GRID_COLUMNS, LAMBDARANK_COLUMNS), (AUTO, XENDCG_COLUMNS)):
        shown = "{:.2f} against {:.2f}".format(*(seconds_of(results, name) for name in (own, other)))
        print_result(f"MQ2008, seconds per fold: search and one training, {own}", other, shown)
    for table in published_beside(results):
        for metric, (published, mean) in table.means.items():
            ends = (
                "no interval"
                if np.isnan(table.intervals[metric][0])
                else "{:+.4f} to {:+.4f}".format(*table.intervals[metric])
            )
            shown = f"published {published:.4f}, ours {mean:.4f}, {mean - published:+.4f} ({ends})"
            print(f"{table.title}, {metric}: {shown}")


def seconds_of(results: Results, model: str) -> float:
    """The mean over folds of the seconds that the choice of settings took, and the median ones of a training."""
    searches = [search.seconds for search in results.searches if search.model == model]
    return float(np.mean(searches or [0.0]) + np.median([one.fit_seconds for one in results.of(model)]))


def report_differences(results: Results) -> None:
    """Rows under equal rules, and ours beside the baselines."""
    gains = {
        (own, other, metric): (values_of(results, own, metric), values_of(results, other, metric))
        for own, other in COMPARED
        for metric in METRICS
    }
    for (own, other, metric), gain in compare_means(gains).items():
        bar = ("at least +0.0000", gain.mean >= 0) if (own, other) == WITH_BAR else ()
        print_result(f"MQ2008 {metric}, {own}", other, f"{results.mean(own, POLICY, metric):.4f}, {gain}", *bar)


def values_of(results: Results, model: str, metric: str) -> Parts:
    """One value per query, the mean over seeds, for each fold."""
    values = results.per_query(model, POLICY, metric)
    folds = results.about["folds"]
    return [np.array([values[key] for key in sorted(values) if key[0] == fold]) for fold in folds]


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
