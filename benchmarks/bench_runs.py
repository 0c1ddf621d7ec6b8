"""Fusing five runs of 2,000 queries x 1,000 documents: Podium and ranx, each from runs in its own form.

The documents of a run are half of the query's, by chance, best first, as files of runs have them. Making the runs does
not count, nor does compiling; the fused runs are compared first.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _report import measure_in_turns, print_header, print_result

from podium.formats.trec import Run
from podium.runs import fuse

METHODS = {"rrf": ("rrf", None), "combsum": ("sum", "min-max"), "combmnz": ("mnz", "min-max")}


def make_run(seed: int, n_queries: int, n_documents: int) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    names = [f"d{k:07d}" for k in range(2 * n_documents)]
    run = {}
    for query in range(n_queries):
        rows = rng.choice(2 * n_documents, n_documents, replace=False).tolist()
        scores = np.sort(rng.standard_normal(n_documents))[::-1].tolist()
        run[f"q{query}"] = dict(zip([names[row] for row in rows], scores))
    return run


def largest_difference(one: Run, other: dict[str, dict[str, float]]) -> float:
    ours = one.to_dict()
    assert ours.keys() == other.keys()
    assert all(ours[query].keys() == other[query].keys() for query in ours)
    return max(abs(ours[query][name] - score) for query in ours for name, score in other[query].items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=METHODS, help="measure one method")
    options = parser.parse_args()
    import ranx

    print_header("runs", ["ranx"])
    sizes = f"{options.runs} runs of {options.queries} queries x {options.documents} documents"
    made = [make_run(seed, options.queries, options.documents) for seed in range(options.runs)]
    ours, theirs = [Run.from_dict(run) for run in made], [ranx.Run(run) for run in made]
    del made
    small = [make_run(seed, 20, 100) for seed in range(options.runs)]
    for name, (method, norm) in METHODS.items():
        if options.only not in (None, name):
            continue
        started = time.perf_counter()
        fused = fuse([Run.from_dict(run) for run in small], method=name)
        print(f"{name}, first call of podium: {time.perf_counter() - started:.1f} s")
        other = ranx.fuse([ranx.Run(run) for run in small], norm=norm, method=method)
        print(f"{name}: largest difference to ranx {largest_difference(fused, other.to_dict()):.1e}")
        timings = measure_in_turns(
            {
                "podium": lambda name=name: fuse(ours, method=name),
                "ranx": lambda norm=norm, method=method: ranx.fuse(theirs, norm=norm, method=method),
            },
            options.repeats,
        )
        seconds = {rival: timing.best for rival, timing in timings.items()}
        ratio = seconds["ranx"] / seconds["podium"]
        print(f"{name}: podium {seconds['podium']:.2f} s, ranx {seconds['ranx']:.2f} s")
        print_result(f"{name} of {sizes}", "ranx", f"{ratio:.1f}x", "20x", ratio >= 20)


if __name__ == "__main__":
    main()
