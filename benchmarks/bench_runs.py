"""Fusing five runs of 2,000 queries x 1,000 documents: Podium and ranx, each from runs in its own form.

The documents of a run are half of the query's, by chance: in no order, and best first, as files of runs have them.
ranx sorts a run when it is made. Making the runs does not count, nor does compiling. Podium is measured before ranx is
used: the threads that ranx starts are Numba's, which spin when they are idle and take a core from whoever comes next.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np
from _report import measure_in_turns, print_header, print_result

from podium.formats.trec import Run
from podium.runs import fuse

ORDERS = ("in no order", "best first")
METHODS = {"rrf": ("rrf", None), "combsum": ("sum", "min-max"), "combmnz": ("mnz", "min-max")}


def make_run(seed: int, n_queries: int, n_documents: int, best_first: bool = False) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    names = [f"d{k:07d}" for k in range(2 * n_documents)]
    run = {}
    for query in range(n_queries):
        rows = rng.choice(2 * n_documents, n_documents, replace=False).tolist()
        scores = rng.standard_normal(n_documents)
        scores = np.sort(scores)[::-1] if best_first else scores
        run[f"q{query}"] = dict(zip([names[row] for row in rows], scores.tolist()))
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
    parser.add_argument("--order", choices=ORDERS, help="of the documents of a run; each in a process of its own")
    options = parser.parse_args()
    print_header("runs", ["ranx"])
    if options.order:
        measure(options, options.order)
        return
    for order in ORDERS:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--order", order], check=True)


def measure(options: argparse.Namespace, order: str) -> None:
    """All methods, on runs in one order."""
    import ranx

    sizes = f"{options.runs} runs of {options.queries} queries x {options.documents} documents, {order}"
    best_first = order == "best first"
    made = [make_run(seed, options.queries, options.documents, best_first) for seed in range(options.runs)]
    ours = [Run.from_dict(run) for run in made]
    small = [make_run(seed, 20, 100, best_first) for seed in range(options.runs)]
    chosen = [name for name in METHODS if options.only in (None, name)]
    fused, seconds = {}, dict[str, float]()
    for name in chosen:
        started = time.perf_counter()
        fused[name] = fuse([Run.from_dict(run) for run in small], method=name)
        print(f"{name}, first call of podium: {time.perf_counter() - started:.1f} s")
        rival = {"podium": lambda name=name: fuse(ours, method=name)}
        seconds[name] = measure_in_turns(rival, options.repeats)["podium"].best
    theirs = [ranx.Run(run) for run in made]
    for name in chosen:
        method, norm = METHODS[name]
        other = ranx.fuse([ranx.Run(run) for run in small], norm=norm, method=method)
        print(f"{name}: largest difference to ranx {largest_difference(fused[name], other.to_dict()):.1e}")
        rival = {"ranx": lambda norm=norm, method=method: ranx.fuse(theirs, norm=norm, method=method)}
        theirs_seconds = measure_in_turns(rival, options.repeats)["ranx"].best
        ratio = theirs_seconds / seconds[name]
        print(f"{name}, {order}: podium {seconds[name]:.2f} s, ranx {theirs_seconds:.2f} s")
        print_result(f"{name} of {sizes}", "ranx", f"{ratio:.1f}x", "20x", ratio >= 20)


if __name__ == "__main__":
    main()
