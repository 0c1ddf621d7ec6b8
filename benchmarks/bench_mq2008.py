"""Quality on MQ2008's five folds: LambdaMART beside LightGBM's lambdarank and rank_xendcg, under LETOR's own rules
(policy letor4).

For each fold and seed, the setting with the best MAP + MeanNDCG on the validation part is taken, out of twelve, and the
test part is looked at once. Each training stops early by the validation part. Every system has the same columns, twelve
settings, at most as many trees and one thread; the seconds it took are printed. Needs the five partitions S1 to S5 in
$PODIUM_DATA/MQ2008.

The grid of small trees was found inside the training parts (training on two of the three, judging by the third): 4
leaves came before 7, 7 before 15. LightGBM is run on the usual grid of larger trees and on this one.

MQ2008 is a development set here: with LETOR's rotation the validation part of one fold is the test part of another, so
constants that were chosen over all folds, such as this grid, have seen every query.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _mq2008 import METRICS, Predict, Values, criterion, lightgbm_parameters, per_query, read_fold, train_stopping
from _quality import Parts, compare_means, mean_of, mean_over_seeds
from _report import print_header, print_result

import podium
from podium.data.ranking import RankingData


def make_grid(leaves: tuple[int, ...], rates: tuple[float, ...]) -> list[dict[str, Any]]:
    return [dict(zip(("leaves", "rate", "smallest"), row)) for row in itertools.product(leaves, rates, (20, 60))]


SMALL, USUAL = make_grid((4, 5, 7), (0.05, 0.1)), make_grid((7, 15, 31), (0.02, 0.05))
TREES, PATIENCE, FEATURES = 500, 50, 0.8


def train_podium(train: RankingData, valid: RankingData, setting: dict[str, Any], seed: int) -> Predict:
    model = podium.LambdaMART(
        n_estimators=TREES,
        learning_rate=setting["rate"],
        max_leaf_nodes=setting["leaves"],
        min_samples_leaf=setting["smallest"],
        feature_fraction=FEATURES,
        extra_trees=False,
        eval_metric="meanndcg",
        random_state=seed,
        n_jobs=1,
    )
    model.fit(train, eval_set=valid, early_stopping_rounds=PATIENCE)
    return model.predict


def train_lightgbm(
    train: RankingData, valid: RankingData, setting: dict[str, Any], seed: int, objective: str = "lambdarank"
) -> Predict:
    return train_stopping(train, valid, lightgbm_parameters(objective, **setting, seed=seed), TREES, PATIENCE)


train_xendcg = partial(train_lightgbm, objective="rank_xendcg")
SYSTEMS = {
    "podium": (train_podium, SMALL),
    "LightGBM": (train_lightgbm, USUAL),
    "LightGBM, small trees": (train_lightgbm, SMALL),
    "LightGBM rank_xendcg": (train_xendcg, USUAL),
    "LightGBM rank_xendcg, small trees": (train_xendcg, SMALL),
}


@dataclass(frozen=True)
class Found:
    """One system on one fold with one seed."""

    valid: Values
    test: Values
    seconds: float  # of the processor, for all settings


def run(system: str, fold: int, seed: int) -> Found:
    """The setting that is best on the validation part, and one look at the test part."""
    train, valid, test = read_fold(Path(os.environ["PODIUM_DATA"]) / "MQ2008", fold)
    trainer, grid = SYSTEMS[system]
    started = time.process_time()
    models = [trainer(train, valid, setting, seed) for setting in grid]
    seconds = time.process_time() - started
    best = max(models, key=lambda predict: criterion(predict(valid), valid))
    return Found(per_query(best(valid), valid), per_query(best(test), test), seconds)


def values_of(found: dict[tuple[str, int, int], Found], system: str, part: str, metric: str) -> Parts:
    """One value per query, the mean over seeds, for each fold."""
    seeds = sorted({seed for _, _, seed in found})
    return mean_over_seeds([[getattr(found[system, fold, seed], part)[metric] for fold in range(5)] for seed in seeds])


def report(found: dict[tuple[str, int, int], Found], seeds: int) -> None:
    for system in SYSTEMS:
        # The median: the first training of a process may compile.
        seconds = np.median([own.seconds for (name, _, _), own in found.items() if name == system])
        for part in ("valid", "test"):
            means = {metric: mean_of(values_of(found, system, part, metric)) for metric in METRICS}
            shown = ", ".join(f"{metric} {value:.4f}" for metric, value in means.items())
            print(f"{system:>34} {part}: {shown}; {seconds:.0f} s for twelve settings")
    others = [system for system in SYSTEMS if system != "podium"]
    gains = {}
    for metric in METRICS:
        values = {system: values_of(found, system, "test", metric) for system in SYSTEMS}
        compared = compare_means({other: (values["podium"], values[other]) for other in others})
        gains |= {(other, metric): (mean_of(values["podium"]), gain) for other, gain in compared.items()}
    for other, metric in itertools.product(others, METRICS):
        own, gain = gains[other, metric]
        bar = ("at least +0.0000", gain.mean >= 0) if other == "LightGBM" else ()
        print_result(f"MQ2008 {metric}, five folds, mean of {seeds} seeds", other, f"{own:.4f}, {gain}", *bar)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print_header("MQ2008", ["lightgbm"])
    if not os.environ.get("PODIUM_DATA"):
        print("PODIUM_DATA is not set: no MQ2008 here.")
        return
    jobs = list(itertools.product(SYSTEMS, range(5), range(options.seeds)))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {job: pool.submit(run, *job) for job in jobs}
        report({job: future.result() for job, future in futures.items()}, options.seeds)


if __name__ == "__main__":
    main()
