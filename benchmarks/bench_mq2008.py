"""Quality on MQ2008's five folds: LambdaMART beside LightGBM's lambdarank, under LETOR's own rules (policy letor4).

For each fold and seed, the setting with the best MAP + MeanNDCG on the validation part is taken, out of twelve, and the
test part is looked at once. Each training stops early by the validation part. Needs the five partitions S1 to S5 in
$PODIUM_DATA/MQ2008.

The grid of small trees was found inside the training parts (training on two of the three, judging by the third): 4
leaves came before 7, 7 before 15. LightGBM is run on the usual grid of larger trees and on this one.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from _report import print_header, print_result

import podium
from podium.data.ranking import RankingData


def make_grid(leaves: tuple[int, ...], rates: tuple[float, ...]) -> list[dict[str, Any]]:
    return [dict(zip(("leaves", "rate", "smallest"), row)) for row in itertools.product(leaves, rates, (20, 60))]


SMALL, USUAL = make_grid((4, 5, 7), (0.05, 0.1)), make_grid((7, 15, 31), (0.02, 0.05))
TREES, PATIENCE, FEATURES = 500, 50, 0.8
METRICS = ("map", "meanndcg")


def read_fold(folder: Path, fold: int) -> tuple[RankingData, RankingData, RankingData]:
    """Fold 0 trains on S1 to S3, is validated by S4 and tested on S5; the next ones turn by one."""
    parts = [podium.read_letor(folder / f"S{1 + (fold + k) % 5}.txt.xz") for k in range(5)]
    return RankingData.concat(parts[:3]), parts[3], parts[4]


def judge(scores: np.ndarray, data: RankingData) -> dict[str, float]:
    return dict(podium.evaluate(scores, data, metrics=METRICS, policy="letor4"))


def train_podium(train: RankingData, valid: RankingData, setting: dict[str, Any], seed: int) -> Any:
    model = podium.LambdaMART(
        n_estimators=TREES,
        learning_rate=setting["rate"],
        max_leaf_nodes=setting["leaves"],
        min_samples_leaf=setting["smallest"],
        feature_fraction=FEATURES,
        eval_metric="meanndcg",
        random_state=seed,
        n_jobs=1,
    )
    model.fit(train, eval_set=valid, early_stopping_rounds=PATIENCE)
    return model.predict


def train_lightgbm(train: RankingData, valid: RankingData, setting: dict[str, Any], seed: int) -> Any:
    import lightgbm

    parameters = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "num_leaves": setting["leaves"],
        "learning_rate": setting["rate"],
        "min_data_in_leaf": setting["smallest"],
        "feature_fraction": FEATURES,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    }
    rows = lightgbm.Dataset(train.X, train.y, group=train.group)
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(
        parameters, rows, TREES, valid_sets=[rows.create_valid(valid.X, valid.y, group=valid.group)], callbacks=[stop]
    )
    return lambda data: booster.predict(data.X if isinstance(data, RankingData) else data, num_threads=1)


SYSTEMS = {
    "podium": (train_podium, SMALL),
    "LightGBM": (train_lightgbm, USUAL),
    "LightGBM, small trees": (train_lightgbm, SMALL),
}


def run(system: str, fold: int, seed: int) -> tuple[dict[str, float], dict[str, float], int]:
    """(best validation, its test, number of the setting) of one fold and seed."""
    train, valid, test = read_fold(Path(os.environ["PODIUM_DATA"]) / "MQ2008", fold)
    best: tuple[float, int, Any, dict[str, float]] | None = None
    trainer, grid = SYSTEMS[system]
    for number, setting in enumerate(grid):
        predict = trainer(train, valid, setting, seed)
        found = judge(predict(valid), valid)
        if best is None or sum(found.values()) > best[0]:
            best = sum(found.values()), number, predict, found
    if best is None:
        raise ValueError("the grid is empty")
    return best[3], judge(best[2](test), test), best[1]


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
        found = {job: future.result() for job, future in futures.items()}
    means = {}
    for system in SYSTEMS:
        parts = [found[job] for job in jobs if job[0] == system]
        for which, name in ((0, "valid"), (1, "test")):
            numbers = {metric: float(np.mean([part[which][metric] for part in parts])) for metric in METRICS}
            means[system, name] = numbers
            print(f"{system:>22} {name}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in numbers.items()))
    for other, metric in itertools.product(list(SYSTEMS)[1:], METRICS):
        own, difference = (
            means["podium", "test"][metric],
            means["podium", "test"][metric] - means[other, "test"][metric],
        )
        bar = "at least +0.0000" if other == "LightGBM" else ""
        what = f"MQ2008 {metric}, five folds, mean of {options.seeds} seeds"
        print_result(what, other, f"{own:.4f}, {difference:+.4f}", bar)


if __name__ == "__main__":
    main()
