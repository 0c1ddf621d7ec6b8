"""Derivatives of objectives on MSLR-shaped lists, in nanoseconds a pair, on one thread.

2,000 queries x 120 documents with grades 0 to 4. "pairs" are those a plain double loop would visit: each of the first k
places with every place behind it. A whole call also orders the list and brings the sums back to the rows; "rows alone"
is the pair kernel by itself. The plain loop is the same sum written as one would, compiled by Numba.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from _report import measure_in_turns, print_header, print_result

from podium.objectives import Objective, parse_objective
from podium.objectives.kernels import BLOCK, logistic_row
from podium.objectives.swap_deltas import additive_row

BAR = 1.5  # nanoseconds per pair


def make_lists(n_queries: int, n_documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    n = n_queries * n_documents
    return rng.standard_normal(n), rng.integers(0, 5, n).astype(float), np.arange(n_queries + 1) * n_documents


def count_pairs(offsets: np.ndarray, cutoff: int) -> int:
    lengths, tops = np.diff(offsets), np.minimum(np.diff(offsets), cutoff)
    return int((tops * lengths - tops * (tops + 1) // 2).sum())


@numba.njit(nogil=True, error_model="numpy")
def plain_lambdas(
    scores: np.ndarray,
    gains: np.ndarray,
    discounts: np.ndarray,
    scales: np.ndarray,
    offsets: np.ndarray,
    cutoff: int,
    gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:
    """The double loop of the papers, one pair at a time."""
    gradients[:] = 0.0
    hessians[:] = 0.0
    for q in range(len(offsets) - 1):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        order = np.argsort(-scores[start : start + n], kind="mergesort")
        for a in range(min(cutoff, n)):
            for b in range(a + 1, n):
                i, j = start + order[a], start + order[b]
                if gains[i] == gains[j]:
                    continue
                if gains[i] < gains[j]:
                    i, j = j, i
                change = (gains[i] - gains[j]) * abs(discounts[a] - discounts[b]) * scales[q]
                rho = 1.0 / (1.0 + math.exp(scores[i] - scores[j]))
                gradients[i] -= change * rho
                gradients[j] += change * rho
                hessians[i] += change * rho * (1.0 - rho)
                hessians[j] += change * rho * (1.0 - rho)


@numba.njit(nogil=True, error_model="numpy")
def rows_alone(n_queries: int, n: int, cutoff: int, arrays: np.ndarray) -> None:
    """Only the pair rows of Podium, over lists that are in order already."""
    scores, powers, gains, weights = arrays[0], arrays[1], arrays[2], arrays[3]
    row, pulls, curves, row_pulls, row_curves = arrays[4], arrays[5], arrays[6], arrays[7], arrays[8]
    for _ in range(n_queries):
        for i in range(n - 1, max(n - 1 - cutoff, 0), -1):
            additive_row(i, gains, weights, row)
            one, zero = np.float32(1.0), np.float32(0.0)
            logistic_row(False, i, scores, powers, row, pulls, curves, row_pulls, row_curves, one, zero)


def lambda_rivals(
    metric: str, scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray
) -> tuple[int, dict[str, Callable[[], Any]]]:
    """(pairs, what to time) for one metric."""
    bound: Any = parse_objective("lambda", metric=metric).bind(labels, offsets, n_jobs=1)
    form, n = bound.form, int(np.diff(offsets)[0])
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    plain_g, plain_h = np.empty((2, len(scores)))
    rng, arrays = np.random.default_rng(1), np.zeros((9, n + BLOCK), dtype=np.float32)
    arrays[0, :n], arrays[2, :n] = np.sort(rng.standard_normal(n)), 2.0 ** rng.integers(0, 5, n) - 1
    arrays[1], arrays[3, :n] = np.exp(arrays[0]), form.table[n - 1 :: -1]

    def plain() -> None:
        plain_lambdas(scores, form.values, form.table, form.scales, offsets, form.cutoff, plain_g, plain_h)

    rivals: dict[str, Callable[[], Any]] = {
        "podium": lambda: bound.derivatives(scores, g, h),
        "rows alone": lambda: rows_alone(len(offsets) - 1, n, form.cutoff, arrays),
        "plain loop": plain,
    }
    rivals["podium"]()
    plain()
    print(f"largest difference to the plain loop: {np.abs(g - plain_g).max():.1e}")
    return count_pairs(offsets, form.cutoff), rivals


def compare_lambdas(metric: str, scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> None:
    print(f"\nlambda({metric})")
    pairs, rivals = lambda_rivals(metric, scores, labels, offsets)
    timings = measure_in_turns(rivals, 15)
    for name, timing in timings.items():
        print(f"{name:>12}: {timing.best * 1e3:8.2f} ms  {timing.best / pairs * 1e9:6.2f} ns per pair")
    nanoseconds = {name: timing.best / pairs * 1e9 for name, timing in timings.items()}
    loop = f"{nanoseconds['plain loop']:.1f} ns per pair by a plain loop"
    for what, name in (("a whole call, one thread", "podium"), ("pair rows alone", "rows alone")):
        own = nanoseconds[name]
        print_result(f"lambda({metric}), {what}", loop, f"{own:.2f} ns per pair", f"{BAR} ns", own <= BAR)


def show_others(scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray) -> None:
    """All objectives at their defaults, in nanoseconds a document."""
    print("\nall objectives, one thread, milliseconds a call (first: compiling or loading compiled code)")
    g, h = np.empty((2, len(scores)), dtype=np.float32)
    names = ["squared", "logistic", "ordinal", "ranknet", "hinge", "squared_hinge", "exponential", "listnet", "listmle"]
    objectives: list[Objective] = [parse_objective(name) for name in [*names, "xendcg", "approxndcg", "bayesrank"]]
    objectives += [parse_objective("lambda", metric=metric) for metric in ("map", "map@10", "err", "rr")]
    objectives += [parse_objective("lambda", metric="ndcg@10", normalize="lightgbm")]
    for objective in objectives:
        bound = objective.bind(labels, offsets, n_jobs=1)
        timing = measure_in_turns({"": lambda bound=bound: bound.derivatives(scores, g, h)}, 3)[""]  # type: ignore[misc]
        print(f"{timing.best * 1e3:9.2f}  first {timing.first:5.1f} s  {objective}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--documents", type=int, default=120)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print_header("objectives", [])
    lists = make_lists(options.queries, options.documents)
    tiny = make_lists(2, 20)
    first = measure_in_turns({"": lambda: lambda_rivals("ndcg@10", *tiny)[1]["podium"]()}, 0)[""].first
    print(f"podium, first call (compiling or loading compiled code): {first:.1f} s")
    for metric in ("ndcg@10", "ndcg"):
        compare_lambdas(metric, *lists)
    show_others(*lists)


if __name__ == "__main__":
    main()
