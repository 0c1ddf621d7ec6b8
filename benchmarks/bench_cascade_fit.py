"""Cascade.fit against tuned BM25 on small real collections (PODIUM_DATA: Cranfield, CACM, NFCorpus), all by defaults.

The protocol was fixed before any test value was seen; whatever the result is, it stays.

- Collections: Cranfield, CACM, and the test part of NFCorpus with its titles as queries; queries with a relevant
  document. The dev part of NFCorpus takes no part.
- Divisions: five folds by query, drawn by the seeds 0 and 1. Every query is a test query once per division.
- Training, on the queries of the other four folds: `tune_weighting` with its defaults chooses k1 and b of BM25 (by
  nDCG@10; its own five folds, seed 0); `Cascade(index, Stage(n=100), weighting=...).fit` with its defaults chooses a
  re-ranker of the 100 best documents of this BM25, or none. The features are those of a stage that declares none,
  LETOR's 46, to which `fit` adds the score of the first stage: none of them was chosen for these collections.
- Test: nDCG@10 per test query of the fitted cascade and of the tuned BM25 alone, by trec_eval's rules; a query without
  results is 0. The value of a query is its mean over the two divisions.
- Comparison: the mean difference over queries, its 95 % interval, and p of the two-sided randomisation test over
  queries. Pooled is the mean of the three collections' means: every collection has the same weight, and signs are
  flipped per query.
- Bars: on no collection a mean below 0 with p < .05, not corrected for the number of comparisons, which would make it
  easier to pass; pooled a mean above 0 with p < .05.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from _quality import Parts, compare_means, mean_of, mean_over_seeds
from _report import print_header, print_result
from _text_collections import METRIC, Collection, cacm, cranfield, evaluate, folds, nfcorpus

import podium
from podium.search import tune_weighting

N, FOLDS, DIVISIONS = 100, 5, (0, 1)


@dataclass(frozen=True)
class Compared:
    """nDCG@10 per query of the fitted cascade and of tuned BM25."""

    collection: str
    ours: np.ndarray
    theirs: np.ndarray


def fit_on(collection: Collection, train: list[str]) -> tuple[podium.Cascade, podium.Cascade]:
    """Tuned BM25 without a re-ranker, and what `fit` makes of it."""
    queries = {name: collection.queries[name] for name in train}
    qrels = {name: collection.qrels[name] for name in train}
    weighting = tune_weighting(collection.index, queries, qrels).weighting
    tuned = podium.Cascade(collection.index, podium.Stage(n=N), weighting=weighting)
    return tuned, tuned.fit(queries, qrels)


def judge_division(collection: Collection, seed: int, chosen: Counter[str]) -> tuple[np.ndarray, np.ndarray]:
    """Values per query, each by what was fitted without its fold: of the cascade and of tuned BM25."""
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for train, test in folds(collection.judged, FOLDS, seed):
        tuned, fitted = fit_on(collection, train)
        chosen[fitted.choice_.chosen] += 1
        queries = {name: collection.queries[name] for name in test}
        ours |= evaluate(collection, fitted.run(queries, N), test)
        theirs |= evaluate(collection, tuned.run(queries, N), test)
    own, other = (np.array([values[name] for name in collection.judged]) for values in (ours, theirs))
    return own, other


def compare_on(collection: Collection) -> Compared:
    started, chosen = time.perf_counter(), Counter[str]()
    divisions = [judge_division(collection, seed, chosen) for seed in DIVISIONS]
    (ours,), (theirs,) = (mean_over_seeds([[values] for values in runs]) for runs in zip(*divisions))
    names = ", ".join(f"{name} {times}" for name, times in chosen.most_common())
    about = f"{collection.name}: {len(collection.index)} documents, {len(collection.judged)} queries"
    print(f"{about}; chosen: {names}; {time.perf_counter() - started:.0f} s", flush=True)
    return Compared(collection.name, ours, theirs)


def report(compared: list[Compared]) -> None:
    pairs: dict[str, tuple[Parts, Parts]] = {one.collection: ([one.ours], [one.theirs]) for one in compared}
    pairs["pooled"] = [one.ours for one in compared], [one.theirs for one in compared]
    for name, gain in compare_means(pairs).items():
        ours, theirs = pairs[name]
        measured = f"{mean_of(ours):.4f} against {mean_of(theirs):.4f}, {gain}"
        if name == "pooled":
            bar, met = "above; p < 0.05", gain.mean > 0 and gain.p < 0.05
        else:
            bar, met = "not below with p < 0.05", gain.mean >= 0 or gain.p >= 0.05
        print_result(f"Cascade.fit, {name}, {METRIC}", "tuned BM25", measured, bar, met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PODIUM_DATA"), help="default: PODIUM_DATA")
    options = parser.parse_args()
    if options.data is None:
        parser.error("set PODIUM_DATA or give --data")
    print_header("Cascade.fit", [])
    warnings.simplefilter("ignore")  # constant features
    compared = []
    for make in (cranfield, cacm, nfcorpus):
        with tempfile.TemporaryDirectory() as name:
            compared.append(compare_on(make(options.data, Path(name))))
    report(compared)


if __name__ == "__main__":
    main()
