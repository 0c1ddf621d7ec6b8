"""Stored results of an experiment: one file per finished run, and tables made of them.

A run is one model, trained with one seed on one fold and evaluated on its test part. A folder of results holds

    experiment.json     what was to be run, and on what: data with checksums, versions, hardware
    searches/*.json     one per model and fold: what tuning tried, and what it chose
    runs/*.json         one per model, fold and seed, written whole when the run has finished
    looks.jsonl         one line per time that a test part was judged
    results.json, results.csv, queries.csv   the tidy tables, made of the files above

so that an interrupted experiment continues with the runs that are missing, and a report needs nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.files import write_whole
from podium.evaluation.leaderboard import best_first
from podium.lab.experiments.looks import Look, read_looks
from podium.lab.experiments.records import (
    ModelRun,
    Search,
    defined,
    read_description,
    read_record,
    refuse_other_criterion,
    refuse_other_place,
    refuse_other_values,
    refuse_others_of_a_group,
)
from podium.metrics.registry import parse_metric

_RUNS, _SEARCHES, _EXPERIMENT = "runs", "searches", "experiment.json"


@dataclass(frozen=True)
class Results:
    """All runs of an experiment that have finished.

    `about` has the content of experiment.json: "name", "title", "metrics" (the first one ranks the leaderboard),
    "policies" (the first one is the main one), "folds", "seeds", "models" (name -> description and settings), "data",
    "versions", "hardware", and "published" (tables to print beside ours).
    """

    about: dict[str, Any]
    runs: tuple[ModelRun, ...]
    searches: tuple[Search, ...] = ()
    looks: tuple[Look, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Read a folder of results; the runs are in the order of models, folds and seeds of the experiment.

        Every file is checked; one that is damaged is named by an error, and never left out.
        """
        path = folder / _EXPERIMENT
        if not path.is_file():
            raise ValueError(
                f"{folder}: expected results of an experiment but found no {_EXPERIMENT}. Run: podium lab run"
            )
        about = read_description(path)
        models, folds = list(about["models"]), list(about["folds"])
        runs = sorted(_runs(folder, about), key=lambda run: (models.index(run.model), folds.index(run.fold), run.seed))
        searches = sorted(_searches(folder, about), key=lambda one: (models.index(one.model), folds.index(one.fold)))
        return cls(about, tuple(runs), tuple(searches), read_looks(folder))

    @property
    def unrecorded(self) -> int:
        """How many runs were judged by a test part without a look in looks.jsonl, which then is not whole.

        A pick copies the values of its member, without a look of its own.
        """
        if self.about.get("on") == "valid" or not self.about.get("protocols"):
            return 0
        recorded = {(look.model, look.fold, look.seed) for look in self.looks}
        judged = [run for run in self.runs if "picked" not in run.settings]
        return sum((run.model, run.fold, run.seed) not in recorded for run in judged)

    @property
    def models(self) -> list[str]:
        """Models with at least one finished run, in the order of the experiment."""
        return list(dict.fromkeys(run.model for run in self.runs))

    def of(self, model: str) -> list[ModelRun]:
        return [run for run in self.runs if run.model == model]

    def mean(self, model: str, policy: str, metric: str) -> float:
        """The mean over folds of the mean over seeds, as LETOR's tables have it; NaN where nothing is defined."""
        folds: dict[str, list[float]] = {}
        for run in self.of(model):
            value = run.values[policy][metric]
            folds.setdefault(run.fold, []).append(math.nan if value is None else value)
        return float(np.mean([np.mean(values) for values in folds.values()])) if folds else math.nan

    def ranked(self, policy: str, metric: str) -> list[str]:
        """Models by their mean, the best first; models without a value come last."""
        means = {model: self.mean(model, policy, metric) for model in self.models}
        return best_first(means, parse_metric(metric).higher_is_better)

    def fold_mean(self, model: str, fold: str, policy: str, metric: str, part: str = "test") -> float:
        """The mean over seeds in one fold, of its test or its validation part; NaN where there is none."""
        runs = [run for run in self.of(model) if run.fold == fold]
        values = [(run.values if part == "test" else run.validation_values).get(policy, {}).get(metric) for run in runs]
        return mean_of_known(values)

    def per_query(self, model: str, policy: str, metric: str) -> dict[tuple[str, str], float]:
        """(fold, query) -> the mean over seeds; NaN where the metric is undefined."""
        by_query: dict[tuple[str, str], list[float]] = {}
        for run in self.of(model):
            for query, value in zip(run.queries, run.per_query[policy][metric]):
                by_query.setdefault((run.fold, query), []).append(math.nan if value is None else value)
        return {key: float(np.mean(values)) for key, values in by_query.items()}


def mean_of_known(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else math.nan


def save_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Begin a folder of results."""
    _write(folder / _EXPERIMENT, about)


def save_run(folder: Path, run: ModelRun) -> None:
    _write(run_file(folder, run.model, run.fold, run.seed), asdict(run))


def save_search(folder: Path, search: Search) -> None:
    _write(search_file(folder, search.model, search.fold), asdict(search))


def run_file(folder: Path, model: str, fold: str, seed: int) -> Path:
    """Where a run is stored: it has finished if the file is there."""
    return folder / _RUNS / f"{_plain(model)}.{_plain(fold)}.{seed}.json"


def search_file(folder: Path, model: str, fold: str) -> Path:
    return folder / _SEARCHES / f"{_plain(model)}.{_plain(fold)}.json"


def read_model_run(path: Path) -> ModelRun:
    return read_record(path, ModelRun, "a run")


def read_search(path: Path) -> Search:
    return read_record(path, Search, "a search")


def _runs(folder: Path, about: Mapping[str, Any]) -> list[ModelRun]:
    runs = {path: read_model_run(path) for path in sorted((folder / _RUNS).glob("*.json"))}
    for path, run in runs.items():
        refuse_other_place(path, run_file(folder, run.model, run.fold, run.seed), about, run.model, run.fold)
        refuse_other_values(path, run, about)
    refuse_others_of_a_group(runs)
    return list(runs.values())


def _searches(folder: Path, about: Mapping[str, Any]) -> list[Search]:
    searches = {path: read_search(path) for path in sorted((folder / _SEARCHES).glob("*.json"))}
    for path, search in searches.items():
        refuse_other_place(path, search_file(folder, search.model, search.fold), about, search.model, search.fold)
        refuse_other_criterion(path, search)
    return list(searches.values())


def write_tables(folder: Path, results: Results) -> None:
    """The tidy tables: one line per model, fold, seed, policy and metric, and the same per query, over seeds."""
    lines = {"looks": len(results.looks), "results": list(_lines(results))}
    _write(folder / "results.json", {**results.about, **lines})
    _write_csv(folder / "results.csv", ("model", "fold", "seed", "policy", "metric", "value"), _lines(results))
    _write_csv(folder / "queries.csv", ("model", "fold", "query", "policy", "metric", "value"), _query_lines(results))


def _lines(results: Results) -> Iterator[dict[str, Any]]:
    for run in results.runs:
        for policy, values in run.values.items():
            for metric, value in values.items():
                keys = {"model": run.model, "fold": run.fold, "seed": run.seed}
                yield {**keys, "policy": policy, "metric": metric, "value": value}


def _query_lines(results: Results) -> Iterator[dict[str, Any]]:
    for model in results.models:
        for policy, values in results.of(model)[0].values.items():
            for metric in values:
                for (fold, query), value in results.per_query(model, policy, metric).items():
                    keys = {"model": model, "fold": fold, "query": query}
                    yield {**keys, "policy": policy, "metric": metric, "value": defined(value)}


def _plain(name: str) -> str:
    """A name as a part of a file's name; different names stay different."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda letter: f"%{ord(letter[0]):x}%", name)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_whole(path) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _write_csv(path: Path, names: Sequence[str], lines: Iterator[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with write_whole(path) as file:
        file.write(text.getvalue().encode())
