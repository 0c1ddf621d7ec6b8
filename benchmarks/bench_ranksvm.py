"""RankSVM beside scikit-learn's LinearSVC on explicit pairs: objectives, times, the cost of a gradient, and quality.

LinearSVC gets every difference x_i - x_j as a row; building them is part of its time. Times of Podium are those of a
whole fit. The pairs of 24,000 MSLR-shaped rows take a gigabyte as float64. Quality: MQ2008's five folds, policy letor4,
C chosen by MAP + MeanNDCG on the validation part out of 17 powers of two; each test part is looked at once. LightGBM's
rank_xendcg, beside it, has the same columns and 18 settings, chosen in the same way.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from _mq2008 import (
    METRICS,
    Predict,
    Values,
    criterion,
    lightgbm_parameters,
    per_query,
    read_fold,
    train_stopping,
)
from _mslr import make_lists
from _quality import compare_means, mean_of
from _report import best_of, measure_in_turns, print_header, print_result
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import podium
from podium.data.ranking import RankingData
from podium.learners.linear.products import multiply, multiply_transposed
from podium.learners.svm.pairs import Pairs

LOSSES = ("squared_hinge", "hinge")
BASELINE = "LightGBM rank_xendcg"
SETTINGS = list(product((7, 15, 31), (0.02, 0.05, 0.1), (20, 60)))  # leaves, learning rates, documents per leaf
BARS = (0.4646, 0.4782)  # MAP, MeanNDCG


def build_pairs(X: np.ndarray, y: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Differences and signs: half of the pairs are turned round, as a classifier needs two classes."""
    upper, lower = [], []
    for start, stop in pairwise(offsets):
        i, j = np.nonzero(y[start:stop, None] > y[None, start:stop])
        upper.append(start + i)
        lower.append(start + j)
    D = X[np.concatenate(upper)].astype(np.float64)
    D -= X[np.concatenate(lower)]
    signs = np.where(np.arange(len(D)) % 2, 1.0, -1.0)
    D *= signs[:, None]
    return D, signs


def fit_svc(X: np.ndarray, y: np.ndarray, offsets: np.ndarray, C: float, loss: str) -> np.ndarray:
    D, signs = build_pairs(X, y, offsets)
    svc = LinearSVC(C=C, loss=loss, fit_intercept=False, dual="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(svc.fit(D, signs).coef_[0])


def fit_podium(data: RankingData, C: float, loss: str) -> np.ndarray:
    return np.asarray(podium.RankSVM(C=C, loss=loss).fit(data).coef_)


def objective(weights: np.ndarray, data: RankingData, C: float, loss: str) -> float:
    found = Pairs(data.y, data.offsets).violations(data.X.astype(np.float64) @ weights)
    return float(0.5 * weights @ weights + C * (found.slack if loss == "hinge" else 2 * found.loss))


def compare(name: str, data: RankingData, C: float, loss: str, repeats: int, bar: int) -> None:
    """Both fits on the same rows with the same C."""
    first, own = best_of(lambda: fit_podium(data, C, loss), 1)
    seconds, own = best_of(lambda: fit_podium(data, C, loss), repeats)
    theirs_seconds, theirs = best_of(lambda: fit_svc(data.X, data.y, data.offsets, C, loss), 1)
    mine, their = objective(own, data, C, loss), objective(theirs, data, C, loss)
    n_pairs = int(Pairs(data.y, data.offsets).counts.sum())
    print(f"{name}, {loss}, C={C:g}: {n_pairs:,} pairs; first fit {first:.1f} s, then {seconds:.3f} s; ", end="")
    print(f"LinearSVC {theirs_seconds:.2f} s; objectives {mine:.8g} and {their:.8g}")
    above = (mine / min(mine, their) - 1) * 100
    print_result(
        f"RankSVM, {name}, {loss}: objective",
        "LinearSVC on pairs",
        f"{above:.4f} % above",
        "at most 0.1 %",
        above <= 0.1,
    )
    ratio, against = theirs_seconds / seconds, "LinearSVC on pairs, with building them"
    what = f"RankSVM, {name}, {loss}: time"
    print_result(what, against, f"{ratio:.0f}x faster", f"{bar}x faster", ratio >= bar)


def standardised(X: np.ndarray) -> np.ndarray:
    """LinearSVC does not converge on counts of thousands."""
    scale = X.std(axis=0)
    return ((X - X.mean(axis=0)) / np.where(scale > 0, scale, 1)).astype(np.float32)


def compare_gradient(repeats: int) -> None:
    """One loss and gradient beside its two products with X, on one thread."""
    lists = make_lists(240_000, 2_000)
    pairs = Pairs(lists.y, lists.offsets, n_jobs=1)
    weights, scores = np.random.default_rng(0).standard_normal(lists.X.shape[1]) / 100, np.empty(len(lists.y))

    def products() -> None:
        multiply(lists.X, weights, scores, 1)
        multiply_transposed(lists.X, scores, 1)

    def gradient() -> None:
        multiply(lists.X, weights, scores, 1)
        multiply_transposed(lists.X, pairs.violations(scores).gradient, 1)

    found = measure_in_turns({"products": products, "gradient": gradient}, repeats)
    n_pairs, own, plain = int(pairs.counts.sum()), found["gradient"].best, found["products"].best
    print(f"240,000 x 136, {n_pairs:,} pairs: loss and gradient {own * 1e3:.1f} ms, two products {plain * 1e3:.1f} ms")
    what, ratio = "RankSVM: loss and gradient, 240k x 136, one thread", own / plain
    print_result(what, "X w and X' g", f"{ratio:.2f}x", "3x", ratio <= 3)


def choose_ranksvm(train: RankingData, valid: RankingData, loss: str) -> Any:
    models = [podium.RankSVM(C=2.0**k, loss=loss, n_jobs=1).fit(train) for k in range(-14, 3)]
    return max(models, key=lambda model: criterion(model.predict(valid), valid))


def run_xendcg(train: RankingData, valid: RankingData, test: RankingData) -> Values:
    """LightGBM's rank_xendcg with the best of its settings, the mean of five seeds."""

    def fit(setting: tuple[int, float, int], seed: int) -> Predict:
        return train_stopping(train, valid, lightgbm_parameters("rank_xendcg", *setting, seed), 500, 50)

    models = {setting: fit(setting, 0) for setting in SETTINGS}
    chosen = max(SETTINGS, key=lambda setting: criterion(models[setting](valid), valid))
    seeds = [models[chosen], *(fit(chosen, seed) for seed in range(1, 5))]
    values = [per_query(predict(test), test) for predict in seeds]
    return {metric: np.mean([own[metric] for own in values], axis=0) for metric in METRICS}


def show_quality(folder: Path) -> None:
    """Settings on the validation part, then one look at the test part per model and seed."""
    found: dict[str, list[Values]] = {name: [] for name in (*LOSSES, BASELINE)}
    for fold in range(5):
        train, valid, test = read_fold(folder, fold)
        for loss in LOSSES:
            best = choose_ranksvm(train, valid, loss)
            found[loss].append(per_query(best.predict(test), test))
            means = "  ".join(f"{metric} {np.mean(found[loss][-1][metric]):.4f}" for metric in METRICS)
            print(f"fold {fold + 1}, {loss}: C={best.C:g}  {means}", flush=True)
        found[BASELINE].append(run_xendcg(train, valid, test))
    parts = {(name, metric): [own[metric] for own in found[name]] for name in found for metric in METRICS}
    for loss in LOSSES:
        mean = [mean_of(parts[loss, metric]) for metric in METRICS]
        against, met = "SVMrank's table: 0.4696 / 0.4832", mean[0] >= BARS[0] and mean[1] >= BARS[1]
        what = f"RankSVM, MQ2008, {loss}: MAP / MeanNDCG"
        print_result(what, against, f"{mean[0]:.4f} / {mean[1]:.4f}", f"{BARS[0]} / {BARS[1]}", met)
    for metric in METRICS:
        gains = compare_means({loss: (parts[loss, metric], parts[BASELINE, metric]) for loss in LOSSES})
        for loss, gain in gains.items():
            own = mean_of(parts[loss, metric])
            print_result(f"RankSVM, MQ2008, {loss}: {metric}", BASELINE, f"{own:.4f}, {gain}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print_header("RankSVM", ["scikit-learn", "scipy"])
    started = time.perf_counter()
    compare_gradient(3 * repeats)
    lists = make_lists(24_000, 200)
    data = RankingData.from_arrays(standardised(lists.X), lists.y, group=lists.sizes)
    for loss in LOSSES:
        compare("24k x 136", data, 1e-4, loss, repeats, 20)
    if os.environ.get("PODIUM_DATA"):
        folder = Path(os.environ["PODIUM_DATA"]) / "MQ2008"
        for loss in LOSSES:
            compare("MQ2008 fold 1", read_fold(folder, 0)[0], 0.01, loss, repeats, 5)
        show_quality(folder)
    else:
        print("PODIUM_DATA is not set: no MQ2008 here.")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
