"""Cascade: a learned re-ranker against tuned BM25 on real collections (PODIUM_DATA: Cranfield, CACM, NFCorpus).

Five folds by query. On the training queries of a fold, k1 and b of BM25 are tuned for nDCG@10; the cascade re-ranks the
100 best documents of that BM25 by features of the same texts. Its model and settings are chosen by inner folds over the
training queries only, then trained on all of them. The list of features and of models to choose from was settled while
looking at Cranfield, CACM and the test part of NFCorpus; the dev part of NFCorpus played no part in it.

Behaviour data: a generated table of a million rows by query and document, looked up for 1,000 candidates of a query.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _quality import compare_means
from _report import measure, print_header, print_result
from _text_collections import METRIC, Collection, cacm, cranfield, evaluate, folds, nfcorpus, nfcorpus_dev

import podium
from podium.evaluation.significance import paired_differences, randomisation_test
from podium.search import Extractor, Feature, Features, build_index, open_index, search_run

N, FOLDS, INNER_FOLDS = 100, 5, 4
GRID = [(k1, b) for k1 in (0.6, 0.9, 1.2, 1.6, 2.0) for b in (0.3, 0.45, 0.6, 0.75, 0.9)]


def features() -> Features:
    """LETOR's 46 and more of the same texts: other smoothing, phrases, feedback."""
    found = Features.letor("minmax").add("score", "score")
    for field in ("whole", "title"):
        found = found.add(f"coverage({field})", "coverage", field).add(f"bigrams({field})", "bigrams", field)
    found = found.add("SUM(TF*IDF)(whole)", "tf*idf-sum", "whole").add("TFIDF(whole)", "tfidf", "whole")
    found = found.add("LMIR.DIR(whole), mu = 200", "lmir-dir", "whole", mu=200.0)
    found = found.add("LMIR.JM(whole), lambda = 0.7", "lmir-jm", "whole", lambda_=0.7)
    for documents, terms in ((5, 50), (10, 25), (20, 60)):
        found = found.add(f"feedback({documents})", "feedback", "whole", documents=documents, terms=terms)
    return found


def candidates() -> dict[str, Any]:
    """Models to choose from."""

    def trees(leaves: int, n: int) -> Any:
        return podium.LambdaMART(
            n_estimators=n,
            learning_rate=0.05,
            max_leaf_nodes=leaves,
            min_samples_leaf=50,
            feature_fraction=1.0,
            extra_trees=False,
            random_state=1,
        )

    found: dict[str, Any] = {
        f"linear, {objective}, l2 = {penalty}": podium.Linear(objective=objective, l2_regularization=penalty)
        for objective, penalty in (("ranknet", 0.3), ("listnet", 0.03), ("listnet", 0.3), ("lambda", 0.03))
    }
    found |= {"LambdaMART, 5 leaves": trees(5, 60), "LambdaMART, 3 leaves": trees(3, 100)}
    members = [podium.Linear(objective="listnet", l2_regularization=0.03), trees(5, 60)]
    return found | {"blend of a linear model and LambdaMART": podium.Blend(members=members)}


def bm25_grid(collection: Collection) -> dict[tuple[float, float], dict[str, float]]:
    """nDCG@10 per query of every k1 and b."""
    texts = {name: collection.queries[name] for name in collection.judged}
    return {
        (k1, b): evaluate(
            collection, search_run(collection.index, texts, N, weighting=f"bm25(k1={k1},b={b})"), collection.judged
        )
        for k1, b in GRID
    }


def choose_model(data: podium.RankingData) -> str:
    """The best of the candidates by inner folds over the training queries."""
    values: dict[str, list[float]] = {name: [] for name in candidates()}
    for train, test in data.folds(INNER_FOLDS, seed=1):
        for name, model in candidates().items():
            scores = model.fit(train).predict(test)
            values[name] += podium.evaluate(scores, test, metrics=[METRIC], policy="trec").per_query[METRIC].tolist()
    return max(values, key=lambda name: np.nanmean(values[name]))


@dataclass(frozen=True)
class Compared:
    """nDCG@10 per query of the cascade and of tuned BM25."""

    collection: str
    ours: np.ndarray
    theirs: np.ndarray


def compare_on(collection: Collection) -> Compared:
    started, names = time.perf_counter(), collection.judged
    grid = bm25_grid(collection)
    tuned: dict[str, float] = {}
    learned: dict[str, float] = {}
    chosen: list[str] = []
    for train, test in folds(names, FOLDS):
        k1, b = max(GRID, key=lambda pair: np.mean([grid[pair][name] for name in train]))
        tuned |= {name: grid[k1, b][name] for name in test}
        empty = podium.Cascade(
            collection.index, podium.Stage(features=features(), n=N), weighting=f"bm25(k1={k1},b={b})"
        )
        data = empty.training_data(
            {name: collection.queries[name] for name in train}, {name: collection.qrels[name] for name in train}
        )
        chosen.append(choose_model(data))
        cascade = empty.with_model(candidates()[chosen[-1]].fit(data))
        learned |= evaluate(collection, cascade.run({name: collection.queries[name] for name in test}, N), test)
    found = describe(collection, grid, tuned, learned, chosen)
    print(f"{time.perf_counter() - started:.0f} s")
    return found


def describe(
    collection: Collection, grid: dict[Any, dict[str, float]], tuned: Any, learned: Any, chosen: list[str]
) -> Compared:
    names = collection.judged
    ours, theirs = (np.array([values[name] for name in names]) for values in (learned, tuned))
    default = np.array([grid[1.2, 0.75][name] for name in names])
    p, p_default = (randomisation_test(paired_differences(other, ours)) for other in (theirs, default))
    difference = ours - theirs
    wins, losses = int((difference > 1e-9).sum()), int((difference < -1e-9).sum())
    print(
        f"{collection.name}: {len(collection.index)} documents, {len(names)} queries; {METRIC}: BM25 default "
        f"{default.mean():.4f}, tuned {theirs.mean():.4f}, cascade {ours.mean():.4f}; better for {wins}, worse for "
        f"{losses}; p = {p:.2g} against tuned, {p_default:.2g} against default; models: {'; '.join(chosen)}"
    )
    return Compared(collection.name, ours, theirs)


def report(compared: list[Compared]) -> None:
    """One row per collection; the bar's three are those that the features were settled on, by p as it is."""
    gains = compare_means({own.collection: ([own.ours], [own.theirs]) for own in compared})
    sure = any(gain.mean > 0 and gain.p < 0.05 for gain in list(gains.values())[:3])
    for own, gain in zip(compared, gains.values(), strict=True):
        measured = f"{own.ours.mean():.4f} against {own.theirs.mean():.4f}, {gain}"
        what, bar = f"cascade, {own.collection}, {METRIC}", "above; p < 0.05 on one of three"
        print_result(what, "tuned BM25", measured, bar, gain.mean > 0 and sure)


def measure_tables(folder: Path) -> None:
    """A million rows: 1,000 queries, each with 1,000 of 100,000 documents."""
    rng, n_documents, per_query = np.random.default_rng(0), 100_000, 1000
    build_index(((f"d{number}", "word") for number in range(n_documents)), folder / "index")
    with open(folder / "clicks.csv", "w", encoding="utf-8") as stream:
        stream.write("query,document,clicks\n")
        for query in range(1_000_000 // per_query):
            documents = rng.choice(n_documents, per_query, replace=False).tolist()
            stream.writelines(f"query {query},d{document},{document % 50}\n" for document in documents)
    settings: dict[str, Any] = {"by": "query_document", "column": "clicks", "missing": 0.0}
    started = time.perf_counter()
    declared = Features((Feature("clicks", "table", settings=settings | {"file": str(folder / "clicks.csv")}),))
    print(f"a table of 1,000,000 rows is read in {time.perf_counter() - started:.1f} s")
    extractor, candidates = Extractor(open_index(folder / "index"), declared), rng.permutation(n_documents)[:1000]
    timing = measure(lambda: [extractor.values(f"query {query}", candidates) for query in range(100)])
    print(f"first 100 queries, with compiling: {timing.first:.2f} s")
    own = timing.best / 100 * 1e3
    what = "a table of 1,000,000 rows, looked up for 1,000 candidates"
    print_result(what, "-", f"{own:.3f} ms", "<= 1 ms", own <= 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PODIUM_DATA"), help="default: PODIUM_DATA")
    options = parser.parse_args()
    if options.data is None:
        parser.error("set PODIUM_DATA or give --data")
    print_header("cascade", ["scikit-learn"])
    with tempfile.TemporaryDirectory() as name:
        measure_tables(Path(name))
    warnings.simplefilter("ignore")  # constant features
    compared = []
    for make in (cranfield, cacm, nfcorpus, nfcorpus_dev):
        with tempfile.TemporaryDirectory() as name:
            compared.append(compare_on(make(options.data, Path(name))))
    report(compared)


if __name__ == "__main__":
    main()
