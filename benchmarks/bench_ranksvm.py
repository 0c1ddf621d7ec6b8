"""RankSVM beside scikit-learn's LinearSVC on explicit pairs: objectives, times, the cost of a gradient, and quality.

LinearSVC gets every difference x_i - x_j as a row; building them is part of its time. Times of Podium are those of a
whole fit. The pairs of 24,000 MSLR-shaped rows take a gigabyte as float64. Quality: MQ2008's five folds, policy letor4,
C chosen by MAP + MeanNDCG on the validation part out of powers of two; each test part is looked at once.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from _mslr import make_lists
from _report import best_of, measure_in_turns, print_header, print_result
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import podium
from podium.data.ranking import RankingData
from podium.learners.linear.products import multiply, multiply_transposed
from podium.learners.svm.pairs import Pairs

METRICS = ("map", "meanndcg")
LOSSES = ("squared_hinge", "hinge")


def read_fold(folder: Path, fold: int) -> tuple[RankingData, RankingData, RankingData]:
    """Fold 0 trains on S1 to S3, is validated by S4 and tested on S5; the next ones turn by one."""
    parts = [podium.read_letor(folder / f"S{1 + (fold + k) % 5}.txt.xz") for k in range(5)]
    return RankingData.concat(parts[:3]), parts[3], parts[4]


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


def compare(name: str, data: RankingData, C: float, loss: str, repeats: int, bar: str) -> None:
    """Both fits on the same rows with the same C."""
    first, own = best_of(lambda: fit_podium(data, C, loss), 1)
    seconds, own = best_of(lambda: fit_podium(data, C, loss), repeats)
    theirs_seconds, theirs = best_of(lambda: fit_svc(data.X, data.y, data.offsets, C, loss), 1)
    mine, their = objective(own, data, C, loss), objective(theirs, data, C, loss)
    n_pairs = int(Pairs(data.y, data.offsets).counts.sum())
    print(f"{name}, {loss}, C={C:g}: {n_pairs:,} pairs; first fit {first:.1f} s, then {seconds:.3f} s; ", end="")
    print(f"LinearSVC {theirs_seconds:.2f} s; objectives {mine:.8g} and {their:.8g}")
    above = (mine / min(mine, their) - 1) * 100
    print_result(f"RankSVM, {name}, {loss}: objective", "LinearSVC on pairs", f"{above:.4f} % above", "at most 0.1 %")
    ratio = f"{theirs_seconds / seconds:.0f}x faster"
    print_result(f"RankSVM, {name}, {loss}: time", "LinearSVC on pairs, with building them", ratio, bar)


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
    print_result("RankSVM: loss and gradient, 240k x 136, one thread", "X w and X' g", f"{own / plain:.2f}x", "3x")


def judge(model: Any, data: RankingData) -> dict[str, float]:
    return dict(podium.evaluate(model.predict(data), data, metrics=METRICS, policy="letor4"))


def show_quality(folder: Path, loss: str) -> None:
    """C on the validation part, then one look at the test part."""
    found = []
    for fold in range(5):
        train, valid, test = read_fold(folder, fold)
        models = [podium.RankSVM(C=2.0**k, loss=loss, n_jobs=1).fit(train) for k in range(-14, 3)]
        best = max(models, key=lambda model: sum(judge(model, valid).values()))
        found.append([judge(best, test)[metric] for metric in METRICS])
        print(f"fold {fold + 1}, {loss}: C={best.C:g}  MAP {found[-1][0]:.4f}  MeanNDCG {found[-1][1]:.4f}")
    mean = np.mean(found, axis=0)
    bar, against = "0.4646 / 0.4782", "SVMrank's table: 0.4696 / 0.4832"
    print_result(f"RankSVM, MQ2008, {loss}: MAP / MeanNDCG", against, f"{mean[0]:.4f} / {mean[1]:.4f}", bar)


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
        compare("24k x 136", data, 1e-4, loss, repeats, "20x faster")
    if os.environ.get("PODIUM_DATA"):
        folder = Path(os.environ["PODIUM_DATA"]) / "MQ2008"
        for loss in LOSSES:
            compare("MQ2008 fold 1", read_fold(folder, 0)[0], 0.01, loss, repeats, "5x faster")
            show_quality(folder, loss)
    else:
        print("PODIUM_DATA is not set: no MQ2008 here.")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
