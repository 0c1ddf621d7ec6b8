"""Exact line search on 10,000 queries x 100 documents against one evaluation of the metric on the same rows.

Scores at both ends are independent, so half of the 49.5 million pairs of documents cross. Both sides start from arrays
of scores, labels and query ids and use the same number of threads; they are measured in turns, in one process.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _report import measure_in_turns, print_header, print_result

from podium import evaluate
from podium.metrics import line_search

METRICS = ("ndcg@10", "ndcg", "map", "err", "auc")
BAR = 200


def make_arrays(n_queries: int, n_documents: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    n = n_queries * n_documents
    s, s2 = rng.standard_normal((2, n))
    labels = rng.choice(5, n, p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(float)  # about as in MSLR-WEB30K
    return s, s2, labels, np.repeat(np.arange(n_queries), n_documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print_header("line search", [])
    s, s2, y, qid = make_arrays(20, 10)
    started = time.perf_counter()
    for metric in METRICS:
        line_search(s, s2, y, qid=qid, metric=metric)
        evaluate(s, y, qid=qid, metrics=[metric])
    print(f"first calls (compiling or loading compiled code): {time.perf_counter() - started:.1f} s")
    s, s2, y, qid = make_arrays(options.queries, options.documents)
    print(f"{options.queries} queries x {options.documents} documents")
    for metric in METRICS:
        rivals = {
            "search": lambda metric=metric: line_search(s, s2, y, qid=qid, metric=metric),
            "evaluation": lambda metric=metric: evaluate(s, y, qid=qid, metrics=[metric]),
        }
        found = rivals["search"]()
        times = measure_in_turns(rivals, options.repeats)
        search, one = times["search"].best, times["evaluation"].best
        print(
            f"{metric:>8}: search {search:6.2f} s, evaluation {one * 1e3:6.1f} ms, {len(found.curve):,} breakpoints, "
            f"alpha {found.alpha:.6f}, value {found.value:.6f}"
        )
        what = f"exact line search of {metric}, {options.queries} queries x {options.documents} documents"
        print_result(what, "one evaluation", f"{search / one:.0f}x", f"at most {BAR}x", search / one <= BAR)


if __name__ == "__main__":
    main()
