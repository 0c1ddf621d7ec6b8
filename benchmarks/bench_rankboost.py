"""RankBoost: what a round costs when rows, features or pairs double, and against all pairs written out.

A round on binned data costs O(rows x features); with twice the rows per query there are four times the pairs, and a
round still takes twice the time. Times are those of a round within one process, the best of several; reading, binning
and compilation are not part of them.

    python benchmarks/bench_rankboost.py [--rows N] [--rounds N] [--repeats N] [--jobs N]
"""

from __future__ import annotations

import argparse

import numpy as np
from _mslr import make_lists
from _report import best_of, print_header, print_result

from podium.learners.rankboost.boosting import RankBoosting, RankBoostRules


def make_learner(rows: int, features: int, per_query: int, rules: RankBoostRules) -> RankBoosting:
    data = make_lists(rows, max(1, rows // per_query), n_features=features)
    ones = np.ones(rows), np.ones(len(data.offsets) - 1)
    return RankBoosting.of_labels(data.X, data.y.astype(np.float64), data.offsets, *ones, rules)


def seconds_per_round(learner: RankBoosting, rounds: int, repeats: int) -> float:
    def work() -> None:
        for _ in range(rounds):
            learner.step()

    work()  # compiles
    return best_of(work, repeats)[0] / rounds


def count_pairs(learner: RankBoosting) -> int:
    """Of different labels."""
    grades = learner.pairs.grades
    sizes, total = np.diff(grades.starts), 0
    for first, last in zip(grades.of_query[:-1], grades.of_query[1:]):
        own = sizes[first:last]
        total += int((own.sum() ** 2 - (own**2).sum()) // 2)
    return total


def all_pairs_round(learner: RankBoosting) -> float:
    """Seconds of the sums of one feature over written-out pairs, by numpy, times the features: r of one ranker each."""
    grades = learner.pairs.grades
    pairs = []
    for first, last in zip(grades.of_query[:-1], grades.of_query[1:]):
        low = grades.starts[first]
        grade = np.repeat(np.arange(last - first), np.diff(grades.starts[first : last + 1]))
        better, worse = np.nonzero(grade[:, None] > grade[None, :])
        pairs.append(np.stack([better + low, worse + low]))
    better, worse = np.concatenate(pairs, axis=1)
    weights, values = np.full(len(better), 1 / len(better)), np.random.default_rng(0).random(int(grades.starts[-1]))
    return best_of(lambda: weights @ (values[better] - values[worse]), 3)[0] * learner.n_features


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("rows", 15_000), ("rounds", 5), ("repeats", 3), ("jobs", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    print_header("RankBoost", [])
    rules = RankBoostRules(n_jobs=options.jobs)
    timing = options.rounds, options.repeats
    shapes = {
        "start": (options.rows, 32, 50),
        "rows x 2": (2 * options.rows, 32, 50),
        "rows x 4": (4 * options.rows, 32, 50),
        "rows x 8": (8 * options.rows, 32, 50),
        "features x 2": (options.rows, 64, 50),
        "features x 4": (options.rows, 128, 50),
        "rows per query x 4": (options.rows, 32, 200),
        "rows per query x 16": (options.rows, 32, 800),
    }
    print("| shape | rows | features | pairs | ms per round | against start | rows x features against start |")
    start = 0.0
    for name, (rows, features, per_query) in shapes.items():
        learner = make_learner(rows, features, per_query, rules)
        found = seconds_per_round(learner, *timing)
        start = start or found
        work = rows * features / (options.rows * 32)
        pairs = count_pairs(learner)
        print(f"| {name} | {rows:,} | {features} | {pairs:,} | {found * 1e3:.2f} | {found / start:.2f} | {work:.0f} |")
        bar, ratio = 1.3 * work, found / start
        what = f"RankBoost, per round, {name}"
        print_result(what, "the start of the table", f"{ratio:.2f}x", f"at most {bar:.1f}x", ratio <= bar)
    written_out = all_pairs_round(learner)
    print_result(
        f"RankBoost, per round, {pairs:,} pairs",
        "r of one weak ranker per feature over written-out pairs (numpy)",
        f"{written_out / found:.0f}x faster",
        "faster",
        written_out > found,
    )
    for selection in ("r", "z"):
        chosen = RankBoostRules(selection=selection, n_jobs=options.jobs)
        found = seconds_per_round(make_learner(4 * options.rows, 128, 100, chosen), *timing)
        what = f"RankBoost, per round, selection {selection}"
        print_result(what, "", f"{found * 1e9 / (4 * options.rows * 128):.2f} ns per row and feature")


if __name__ == "__main__":
    main()
