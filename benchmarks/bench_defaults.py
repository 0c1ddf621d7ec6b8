"""Defaults: models as they come, without a setting, beside the defaults of other libraries and the best single feature.

Protocol. Data are generated (`_lists.py`): three kinds, 20 documents per query, 30 features. With 100, 300 and 1,000
queries there are three sets per kind and five folds by query; with 3,000 and 10,000 one set, of which one fold is
tested. Every model is trained on the other folds with one thread and judged by NDCG@10. The single feature is the one
whose values, or whose negative values, order the training rows best. A difference is the mean over queries of the
differences of one query, every set alike; a model is below another one where the 95 % interval of the difference lies
wholly below 0. What is slow is tried on the first set of a cell only: CatBoost, AutoRanker, which has ten seconds, and
the fixed blend beside it. The numbers of the sets, 0 to 2, are used for nothing else.

MQ2008, a development set here (`_mq2008.py`): defaults beside the fixed settings below, five folds, five seeds, without
the validation parts. Time: one fit of the default beside one of the fixed settings, in turns.

It takes about an hour, and has a page of its own. With --store every finished training is kept in a folder, from which
a later run of the same code on the same machine takes it. Times are measured last, and never kept.

    python benchmarks/bench_defaults.py [--queries 100 300] [--models LambdaMART Linear] [--store FOLDER]
        [--out results-defaults.md]
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _lists import KINDS, make_lists
from _mq2008 import read_fold
from _quality import Difference, Parts, compare_means, mean_of
from _report import Row, bars_line, commit_of, hardware_line, measure_in_turns, print_header, table_of, versions_line
from run_all import About, refuse_changes

import podium
from podium._runtime.files import write_whole
from podium.data.ranking import RankingData

SIZES = {100: (3, 5), 300: (3, 5), 1000: (3, 5), 3000: (1, 1), 10_000: (1, 1)}  # sets, and folds that are tested
HERE = Path(__file__).parent
FOLDS, METRIC = 5, "ndcg@10"
SINGLE = "best single feature"
LARGE_TREES: dict[str, Any] = {
    "max_leaf_nodes": 31,
    "min_samples_leaf": 20,
    "learning_rate": 0.1,
    "feature_fraction": 1.0,
    "extra_trees": False,
}
PLAIN_NET: dict[str, Any] = {
    "hidden_layer_sizes": (64,),
    "dropout": 0.0,
    "weight_decay": 0.0,
    "learning_rate": 1e-3,
    "schedule": "constant",
    "batch_size": 1024,
    "max_epochs": 50,
}
FIXED: dict[str, dict[str, Any]] = {
    "LambdaMART": LARGE_TREES,
    "MART": LARGE_TREES,
    "MatrixNet": {"learning_rate": 0.1, "feature_fraction": 1.0, "extra_trees": False, "max_depth": 6},
    "RankNet": PLAIN_NET,
    "LambdaRank": PLAIN_NET,
    "ListNet": PLAIN_NET,
    "ListMLE": PLAIN_NET,
    "XENDCG": PLAIN_NET,
    "ApproxNDCG": PLAIN_NET,
}
"""Settings that do not depend on the data: the trees of other libraries, and a net without any regularisation."""
NETS = ("RankNet", "LambdaRank", "ListNet", "ListMLE", "XENDCG", "ApproxNDCG")
OWN = ("LambdaMART", "MART", "MatrixNet", "Linear", "RankSVM", *NETS)
BLEND = "blend of linear and bagged trees"
ONE_SET = ("CatBoost", "AutoRanker", BLEND)  # on the first set of a cell only
PEERS = ("LightGBM", "XGBoost", "CatBoost")
Cell = tuple[int, str]  # queries, kind


@dataclass(frozen=True)
class Task:
    """One training: a cell, the number of its set, the fold that is tested, and a model."""

    cell: Cell
    number: int
    fold: int
    model: str


def fit_own(name: str, settings: Mapping[str, Any], train: RankingData) -> Any:
    return getattr(podium, name)(n_jobs=1, **settings).fit(train)


def scores_of(model: str, train: RankingData, test: RankingData) -> np.ndarray:
    """Scores of the test rows by a model with its defaults."""
    if model in RIVALS:
        return np.asarray(RIVALS[model](train, test))
    settings = {"budget": 10.0} if model == "AutoRanker" else {}
    return np.asarray(fit_own(model, settings, train).predict(test))


def by_single_feature(train: RankingData, test: RankingData) -> np.ndarray:
    signed = [(column, sign) for column in range(train.n_features) for sign in (1, -1)]
    values = [podium.evaluate(sign * train.X[:, column], train, metrics=[METRIC])[METRIC] for column, sign in signed]
    column, sign = signed[int(np.argmax(values))]
    return np.asarray(sign * test.X[:, column])


def by_blend(train: RankingData, test: RankingData) -> np.ndarray:
    trees = podium.LambdaMART(max_leaf_nodes=7, extra_trees=True, feature_fraction=0.4, n_jobs=1)
    members = [podium.Linear(n_jobs=1), podium.Bagged(model=trees, n_members=5, sample="seeds")]
    return np.asarray(podium.Blend(members=members, n_jobs=1).fit(train).predict(test))


def by_lightgbm(train: RankingData, test: RankingData) -> np.ndarray:
    import lightgbm

    model = lightgbm.LGBMRanker(n_jobs=1, verbose=-1).fit(train.X, train.y, group=train.group)
    return np.asarray(model.predict(test.X))


def by_xgboost(train: RankingData, test: RankingData) -> np.ndarray:
    import xgboost

    model = xgboost.XGBRanker(n_jobs=1).fit(train.X, train.y, qid=train.query_numbers)
    return np.asarray(model.predict(test.X))


def by_catboost(train: RankingData, test: RankingData) -> np.ndarray:
    import catboost

    model = catboost.CatBoostRanker(thread_count=1, verbose=False, allow_writing_files=False)
    return np.asarray(model.fit(train.X, train.y, group_id=train.query_numbers).predict(test.X))


RIVALS: dict[str, Callable[[RankingData, RankingData], np.ndarray]] = {
    "LightGBM": by_lightgbm,
    "XGBoost": by_xgboost,
    "CatBoost": by_catboost,
    SINGLE: by_single_feature,
    BLEND: by_blend,
}


def split(cell: Cell, number: int, fold: int) -> tuple[RankingData, RankingData]:
    """What is trained on and what is tested; queries have nothing to do with their numbers."""
    n_queries, kind = cell
    data = make_lists(kind, n_queries, number)
    tested = np.arange(n_queries) % FOLDS == fold
    return data.subset(~tested), data.subset(tested)


class Store:
    """A folder of finished trainings: `about.json`, and one array per training, named by a digest of what it was."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def open(self) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        now, path = About.now(HERE.parent), self.folder / "about.json"
        if path.exists():
            refuse_changes(About(**json.loads(path.read_text(encoding="utf-8"))), now)
        else:
            with write_whole(path) as stream:
                stream.write(json.dumps(asdict(now), indent=1).encode())

    def values(self, name: str, train: Callable[[], np.ndarray]) -> np.ndarray:
        """The values of this name: those that are kept, or new ones, which are kept then."""
        if self.folder is None:
            return train()
        path = self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npy"
        if path.exists():
            return np.asarray(np.load(path, allow_pickle=False))
        values = train()
        with write_whole(path) as stream:
            np.save(stream, values, allow_pickle=False)
        return values


def run(store: Store, task: Task) -> tuple[Task, np.ndarray]:
    """One value per test query."""
    return task, store.values(str(task), partial(train_and_judge, task))


def train_and_judge(task: Task) -> np.ndarray:
    warnings.simplefilter("ignore")  # those of other libraries, and of nets that tell nothing apart
    train, test = split(task.cell, task.number, task.fold)
    found = podium.evaluate(scores_of(task.model, train, test), test, metrics=[METRIC])
    return np.asarray(found.per_query[METRIC])


def tasks_for(queries: Sequence[int], models: Sequence[str]) -> Iterator[Task]:
    """Long ones first, so that no process waits for another one in the end."""
    for n_queries, kind, model in itertools.product(sorted(queries, reverse=True), KINDS, models):
        sets, folds = SIZES[n_queries]
        for number, fold in itertools.product(range(1 if model in ONE_SET else sets), range(folds)):
            yield Task((n_queries, kind), number, fold, model)


Values = dict[tuple[Cell, str], Parts]


def gather(results: Sequence[tuple[Task, np.ndarray]]) -> Values:
    """Per cell and model one array per set: the values of all queries that were tested."""
    sets: dict[tuple[Cell, str, int], list[np.ndarray]] = {}
    for task, values in results:
        sets.setdefault((task.cell, task.model, task.number), []).append(values)
    parts: Values = {}
    for (cell, model, _), folds in sets.items():
        parts.setdefault((cell, model), []).append(np.concatenate(folds))  # type: ignore[attr-defined]
    return parts


def compare(values: Values, model: str, other: str, cells: Sequence[Cell]) -> dict[Cell, Difference]:
    """Per cell, on the sets that both have."""
    pairs = {}
    for cell in cells:
        if (cell, model) in values and (cell, other) in values:
            first, second = values[cell, model], values[cell, other]
            common = min(len(first), len(second))
            pairs[cell] = (first[:common], second[:common])
    return compare_means(pairs) if pairs else {}


def rows_by_cell(values: Values, cells: Sequence[Cell]) -> Iterator[Row]:
    """LambdaMART beside other libraries, one row per cell."""
    for other in PEERS:
        for (n_queries, kind), gain in compare(values, "LambdaMART", other, cells).items():
            what = f"default LambdaMART, {METRIC}, {n_queries:,} queries, {kind}"
            mean = mean_of(values[(n_queries, kind), "LambdaMART"])
            yield Row(what, f"default {other}", f"{mean:.4f}, {gain}", "not below", not is_below(gain))


def is_below(gain: Difference) -> bool:
    """Whether the whole interval lies below 0; of equal values there is none."""
    return gain.high < 0


def row_of_all(values: Values, model: str, other: str, cells: Sequence[Cell], where: str) -> Iterator[Row]:
    """One row for all cells: how many of them are below, and the least difference."""
    gains = compare(values, model, other, cells)
    if not gains:
        return
    below = [cell for cell, gain in gains.items() if is_below(gain)]
    least = min(gains, key=lambda cell: gains[cell].mean)
    measured = f"below in {len(below)} of {len(gains)}; least in {least[0]:,} queries, {least[1]}: {gains[least]}"
    yield Row(f"default {model}, {METRIC}, {where}", other, measured, "below in none", not below)


def quality_rows(values: Values) -> Iterator[Row]:
    cells = sorted({cell for cell, _ in values})
    print_table(values, cells)
    yield from rows_by_cell(values, cells)
    for model in (*OWN, "AutoRanker"):
        yield from row_of_all(values, model, SINGLE, cells, "all kinds and sizes")
    linear = [cell for cell in cells if cell[1] == "linear"]
    for model in ("Linear", *NETS):
        yield from row_of_all(values, model, "LightGBM", linear, "linear, all sizes")
    yield from row_of_all(values, "AutoRanker", BLEND, cells, "all kinds and sizes, budget 10 s")


def print_table(values: Values, cells: Sequence[Cell]) -> None:
    """All means, for reading."""
    models = list(dict.fromkeys(model for _, model in values))
    print(f"{METRIC:34}" + "".join(f"{n:>7,}{kind[:3]:>4}" for n, kind in cells))
    for model in models:
        means = [f"{mean_of(values[cell, model]):.4f}" if (cell, model) in values else "" for cell in cells]
        print(f"{model:34}" + "".join(f"{mean:>11}" for mean in means), flush=True)


def run_mq2008(store: Store, folder: Path, job: tuple[str, int]) -> tuple[str, np.ndarray]:
    """A model on one fold: NDCG@10 of (default, fixed settings) by (seed, query)."""
    return job[0], store.values(f"MQ2008 {job}", partial(train_mq2008, folder, *job))


def train_mq2008(folder: Path, model: str, fold: int) -> np.ndarray:
    train, _, test = read_fold(folder, fold)
    values = []
    for settings in ({}, FIXED[model]):
        seeds = [{"random_state": seed, **settings} for seed in range(5)]
        scores = [fit_own(model, one, train).predict(test) for one in seeds]
        values.append([podium.evaluate(one, test, metrics=[METRIC]).per_query[METRIC] for one in scores])
    return np.array(values)


def mq2008_rows(results: Sequence[tuple[str, np.ndarray]], models: Sequence[str]) -> Iterator[Row]:
    """The mean over folds; the spread is the standard deviation over seeds of that mean."""
    for model in models:
        by_fold = [values for name, values in results if name == model]
        default, fixed = np.mean([values.mean(axis=2) for values in by_fold], axis=0)
        parts = [[values[n].mean(axis=0) for values in by_fold] for n in range(2)]
        gain = compare_means({model: (parts[0], parts[1])})[model]
        spread = float(np.std(fixed, ddof=1))
        bar = f"at least -{spread:.4f}, the spread over seeds"
        what = f"MQ2008, {METRIC}, default {model}, mean of 5 seeds"
        yield Row(what, "fixed settings", f"{default.mean():.4f}, {gain}", bar, bool(gain.mean >= -spread))


def time_rows(models: Sequence[str]) -> Iterator[Row]:
    """Seconds of a fit without an evaluation set, on data of the kind with interactions."""
    for n_queries, model in itertools.product((300, 3000), models):
        train, _ = split((n_queries, "interactions"), 0, 0)
        rivals: dict[str, dict[str, Any]] = {"default": {}, "fixed": FIXED[model]}
        work = {name: partial(fit_own, model, settings, train) for name, settings in rivals.items()}
        times = {name: timing.best for name, timing in measure_in_turns(work, 5).items()}
        ratio = times["default"] / times["fixed"]
        measured = f"{ratio:.2f} of its time ({times['default']:.3f} against {times['fixed']:.3f} s)"
        what = f"one fit of default {model}, {train.n_queries:,} queries"
        yield Row(what, "fixed settings", measured, "at most 1.05", ratio <= 1.05)


def measure(queries: Sequence[int], models: Sequence[str], store: Store) -> Iterator[Row]:
    fixed = [model for model in FIXED if model in models]
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield from quality_rows(gather(list(pool.map(partial(run, store), tasks_for(queries, models)))))
        if "PODIUM_DATA" in os.environ:
            folder = Path(os.environ["PODIUM_DATA"]) / "MQ2008"
            jobs = itertools.product(fixed, range(FOLDS))
            yield from mq2008_rows(list(pool.map(partial(run_mq2008, store, folder), jobs)), fixed)
    yield from time_rows(fixed)


def page_of(rows: Sequence[Row], started: str) -> str:
    """What `results-defaults.md` has."""
    libraries = versions_line("lightgbm", "xgboost-cpu", "catboost", "jax")
    about = [
        "# Defaults",
        f"`benchmarks/bench_defaults.py --out` wrote this on {hardware_line()}.",
        f"{libraries}.",
        f"Started {started}, commit {commit_of(HERE)}.",
        f"{bars_line(rows)}.",
        table_of(rows),
    ]
    return "\n\n".join(about) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--models", nargs="*", default=[*RIVALS, *OWN, "AutoRanker"])
    parser.add_argument("--store", type=Path, help="keep finished trainings in this folder, and take them from there")
    parser.add_argument("--out", type=Path, help="write the results to this file, too")
    options = parser.parse_args()
    print_header("Defaults, without any setting", ["lightgbm", "xgboost-cpu", "catboost", "jax"])
    started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    store = Store(options.store)
    store.open()
    rows = []
    for row in measure(options.queries, options.models, store):
        print(row.line(), flush=True)
        rows.append(row)
    if options.out:
        with write_whole(options.out) as stream:
            stream.write(page_of(rows, started).encode())


if __name__ == "__main__":
    main()
