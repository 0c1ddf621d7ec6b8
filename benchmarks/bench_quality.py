"""Quality on MQ2008: a linear model, bagged trees and their blend beside LightGBM's rank_xendcg, under policy letor4.

For each of the five folds all settings are chosen by cross-validation over the queries of the training and validation
parts (MAP + MeanNDCG, four folds, three times), those of the trees by how well they blend with the linear model; the
chosen models are trained on these parts, and the test part is looked at once per model and seed. Every look is counted
in the output. LightGBM chooses among as many settings as the trees, on the features as they are and on the columns that
the trees have. Needs the parts S1 to S5 in $PODIUM_DATA/MQ2008, a development set here (`_mq2008.py`).

    python benchmarks/bench_quality.py [--seeds N] [--members N]
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _mq2008 import METRICS, XENDCG, Values, criterion, per_query
from _quality import Parts, compare_means, mean_of
from _report import print_header, print_result

import podium
from podium.data.ranking import RankingData

VIEWS = ("raw", "zscore", "rank")
INNER_FOLDS, DIVISIONS, EVERY, TREES = 4, 3, 20, 400
PENALTIES = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
TREE_SETTINGS = (
    ("ranknet", 7, 40),
    ("ranknet", 7, 120),
    ("ranknet", 12, 40),
    ("ranknet", 12, 120),
    ("lambda", 12, 120),
    ("xendcg", 7, 120),
)
"""Objective, leaves, documents per leaf."""
LIGHTGBM_SETTINGS = tuple(itertools.product((7, 15, 31), (40, 120)))
"""Leaves, documents per leaf."""
FIRST = "LightGBM rank_xendcg"
LIGHTGBM_COLUMNS = {FIRST: ("raw",), f"{FIRST}, the same columns": VIEWS}
OWN = ("linear", "bagged trees", "blend")


def read_parts(folder: Path, fold: int) -> tuple[RankingData, RankingData]:
    """What settings are chosen on, and the test part: fold 0 is tested on S5, the next ones turn by one."""
    parts = [podium.read_letor(folder / f"S{1 + (fold + k) % 5}.txt.xz") for k in range(5)]
    return RankingData.concat(parts[:4]), parts[4]


def inner_folds(data: RankingData) -> list[tuple[RankingData, RankingData]]:
    """Several divisions into folds: one alone is a matter of luck."""
    numbers = np.arange(data.n_queries) % INNER_FOLDS
    parts = [np.random.default_rng(seed).permutation(numbers) for seed in range(DIVISIONS)]
    return [(data.subset(part != n), data.subset(part == n)) for part in parts for n in range(INNER_FOLDS)]


def make_linear(penalty: float) -> Any:
    return podium.Linear(
        objective="ranknet", pair_exponent=0.5, l2_regularization=penalty, transform=VIEWS, max_iter=200, n_jobs=1
    )


def make_trees(setting: tuple[str, int, int], n_estimators: int, seed: int = 0) -> Any:
    objective, leaves, documents = setting
    kind: Any = partial(podium.Boosted, objective=objective)
    if objective == "lambda":
        kind = partial(podium.LambdaMART, metric="ndcg")
    elif objective == "ranknet":
        kind = partial(kind, pair_exponent=0.5)
    return kind(
        n_estimators=n_estimators,
        learning_rate=0.05,
        max_leaf_nodes=leaves,
        min_samples_leaf=documents,
        feature_fraction=0.4,
        extra_trees=True,
        transform=VIEWS,
        random_state=seed,
        n_jobs=1,
    )


Folds = Sequence[tuple[RankingData, RankingData]]
Stages = Callable[[Any, RankingData, RankingData], Iterable[np.ndarray]]
"""Scores of held-out queries every few trees, given a setting, what to train on and what was held out."""


def standardised(scores: np.ndarray, data: RankingData) -> np.ndarray:
    """Mean 0 and variance 1 within each query, as in a blend."""
    sizes = np.diff(data.offsets)
    centred = scores - np.repeat(np.add.reduceat(scores, data.offsets[:-1]) / sizes, sizes)
    spread = np.repeat(np.sqrt(np.add.reduceat(centred**2, data.offsets[:-1]) / sizes), sizes)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 1e-12)


def choose_linear(folds: Folds) -> tuple[float, list[np.ndarray]]:
    """The penalty, and its scores of the held-out queries of each fold."""
    scores = {p: [make_linear(p).fit(train).predict(held) for train, held in folds] for p in PENALTIES}
    values = {p: sum(criterion(own, held) for own, (_, held) in zip(scores[p], folds)) for p in PENALTIES}
    best = max(PENALTIES, key=values.__getitem__)
    return best, [standardised(own, held) for own, (_, held) in zip(scores[best], folds)]


def best_step(stages: Stages, setting: Any, folds: Folds, beside: Sequence[np.ndarray] | None) -> tuple[float, int]:
    """The best criterion over the numbers of trees, and that number; `beside` has scores to be blended with."""
    totals = np.zeros(TREES // EVERY)
    for number, (train, held) in enumerate(folds):
        for step, scores in enumerate(stages(setting, train, held)):
            blend = scores if beside is None else standardised(scores, held) + beside[number]
            totals[step] += criterion(blend, held)
    best = int(totals.argmax())
    return float(totals[best]), (best + 1) * EVERY


def choose(stages: Stages, settings: Sequence[Any], folds: Folds, beside: Sequence[np.ndarray] | None = None) -> Any:
    """The best setting and its number of trees."""
    found = [best_step(stages, setting, folds, beside) for setting in settings]
    best = int(np.argmax([value for value, _ in found]))
    return settings[best], found[best][1]


def stages_of_trees(setting: tuple[str, int, int], train: RankingData, held: RankingData) -> Iterable[np.ndarray]:
    staged = make_trees(setting, TREES).fit(train).staged_predict(held)
    return itertools.islice(staged, EVERY - 1, None, EVERY)


def stages_of_lightgbm(
    setting: tuple[int, int], train: RankingData, held: RankingData, transform: tuple[str, ...]
) -> Iterable[np.ndarray]:
    return XENDCG(*setting, TREES, transform).fit(train).staged_predict(held, EVERY)


def run_fold(folder: Path, fold: int, seeds: int, members: int) -> dict[str, list[Values]]:
    """Values per query of the test part, one entry per seed."""
    data, test = read_parts(folder, fold)
    folds = inner_folds(data)
    penalty, linear_scores = choose_linear(folds)
    setting, trees = choose(stages_of_trees, TREE_SETTINGS, folds, linear_scores)
    boosters = {
        name: choose(partial(stages_of_lightgbm, transform=transform), LIGHTGBM_SETTINGS, folds)
        for name, transform in LIGHTGBM_COLUMNS.items()
    }
    objective, own, documents = setting
    forest = f"{objective} x {trees}, {own} leaves of {documents} documents and more"
    theirs = "; ".join(f"{name}: {own} leaves of {least} x {n}" for name, ((own, least), n) in boosters.items())
    print(f"fold {fold + 1}: l2 {penalty}, {forest}; {theirs}", flush=True)
    found: dict[str, list[Values]] = {name: [] for name in (*OWN, *LIGHTGBM_COLUMNS)}
    for seed in range(seeds):
        bag = podium.Bagged(model=make_trees(setting, trees), n_members=members, sample="seeds", random_state=seed)
        blend = podium.Blend(members=[make_linear(penalty), bag], n_jobs=1).fit(data)
        scores = [*(member.predict(test) for member in blend.members_), blend.predict(test)]
        for name, (chosen, rounds) in boosters.items():
            scores.append(XENDCG(*chosen, rounds, LIGHTGBM_COLUMNS[name], seed).fit(data).predict(test))
        for name, own in zip(found, scores):
            found[name].append(per_query(own, test))
    return found


def values_of(runs: list[dict[str, list[Values]]], model: str, metric: str) -> Parts:
    """One value per query, the mean over seeds, for each fold."""
    return [np.mean([values[metric] for values in run[model]], axis=0) for run in runs]


BARS = {
    ("linear", "map"): 0.485,
    ("linear", "meanndcg"): 0.494,
    ("blend", "map"): 0.487,
    ("blend", "meanndcg"): 0.497,
}


def report(runs: list[dict[str, list[Values]]], seeds: int) -> None:
    """Each model beside each baseline; a bar is about the model alone and stands in its first row."""
    means, gains = {}, {}
    for metric in METRICS:
        values = {model: values_of(runs, model, metric) for model in (*OWN, *LIGHTGBM_COLUMNS)}
        means |= {(model, metric): mean_of(own) for model, own in values.items()}
        pairs = {pair: tuple(values[name] for name in pair) for pair in itertools.product(OWN, LIGHTGBM_COLUMNS)}
        gains |= {(*pair, metric): gain for pair, gain in compare_means(pairs).items()}
    for other, model, metric in itertools.product(LIGHTGBM_COLUMNS, OWN, METRICS):
        value, bar = means[model, metric], BARS.get((model, metric)) if other == FIRST else None
        what = f"MQ2008 {metric}, {model}, settings by cross-validation, mean of {seeds} seeds"
        verdict = () if bar is None else (f"at least {bar}", value >= bar)
        print_result(what, other, f"{value:.4f}, {gains[model, other, metric]}", *verdict)
    print(f"looks at the test parts: one per model, fold and seed, {len(runs[0]) * len(runs) * seeds} in all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--members", type=int, default=10)
    options = parser.parse_args()
    print_header("Quality on MQ2008, settings chosen without the test part", ["lightgbm"])
    if "PODIUM_DATA" not in os.environ:
        print("PODIUM_DATA is not set: nothing to measure.")
        return
    folder = Path(os.environ["PODIUM_DATA"]) / "MQ2008"
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(run_fold, folder, fold, options.seeds, options.members) for fold in range(5)]
        report([future.result() for future in futures], options.seeds)


if __name__ == "__main__":
    main()
