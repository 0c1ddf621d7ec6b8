"""Stored results of an experiment: one file per finished run, and tables made of them.

A run is one model, trained with one seed on one fold and evaluated on its test part. A folder of results holds

    experiment.json     what was to be run, and on what: data with checksums, versions, hardware
    searches/*.json     one per model and fold: what tuning tried, and what it chose
    runs/*.json         one per model, fold and seed, written whole when the run has finished
    results.json, results.csv, queries.csv   the tidy tables, made of the files above

so that an interrupted experiment continues with the runs that are missing, and a report needs nothing else.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.files import write_whole

_RUNS, _SEARCHES, _EXPERIMENT = "runs", "searches", "experiment.json"


@dataclass(frozen=True)
class Trial:
    """One setting that tuning tried; `value` is None where the trial was pruned or failed, for the reason in `note`."""

    settings: dict[str, Any]
    value: float | None
    step: int | None = None  # the best step: trees, rounds or epochs
    seconds: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Search:
    """How the settings of a model were chosen in one fold, on validation data only."""

    model: str
    fold: str
    criterion: str  # what was maximised, such as "ndcg@10 (letor4)"
    trials: tuple[Trial, ...]
    chosen: dict[str, Any]
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """One model trained with one seed on one fold, evaluated per query of the test part."""

    model: str
    fold: str
    seed: int
    settings: dict[str, Any]
    queries: tuple[str, ...]  # ids of the test queries
    per_query: dict[str, dict[str, list[float | None]]]  # policy -> metric -> one value per query, None: undefined
    values: dict[str, dict[str, float | None]]  # policy -> metric -> what `evaluate` gives for the test part
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # set -> metric -> one value per step
    importances: dict[str, float] = field(default_factory=dict)  # by feature
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    peak_memory: int = 0  # bytes of the process that trained
    model_bytes: int = 0  # of the model file
    validation: float | None = None  # the criterion on the validation part, before it was folded in
    validation_values: dict[str, dict[str, float | None]] = field(default_factory=dict)  # as values, of that part
    notes: list[str] = field(default_factory=list)  # warnings of the training


@dataclass(frozen=True)
class Results:
    """All runs of an experiment that have finished.

    `about` has the content of experiment.json: "name", "title", "metrics" (the first one ranks the leaderboard),
    "policies" (the first one is the main one), "folds", "seeds", "models" (name -> description and settings), "data",
    "versions", "hardware", and "published" (tables to print beside ours).
    """

    about: dict[str, Any]
    runs: tuple[Run, ...]
    searches: tuple[Search, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Read a folder of results; the runs are in the order of models, folds and seeds of the experiment."""
        path = folder / _EXPERIMENT
        if not path.is_file():
            raise ValueError(
                f"{folder}: expected results of an experiment but found no {_EXPERIMENT}. Run: podium lab run"
            )
        about = _read(path)
        models, folds = list(about["models"]), [str(fold) for fold in about["folds"]]
        runs = [_run_of(_read(file), file) for file in sorted((folder / _RUNS).glob("*.json"))]
        searches = [_search_of(_read(file), file) for file in sorted((folder / _SEARCHES).glob("*.json"))]
        known = [run for run in runs if run.model in models and run.fold in folds]
        known.sort(key=lambda run: (models.index(run.model), folds.index(run.fold), run.seed))
        chosen = [search for search in searches if search.model in models and search.fold in folds]
        chosen.sort(key=lambda search: (models.index(search.model), folds.index(search.fold)))
        return cls(about, tuple(known), tuple(chosen))

    @property
    def models(self) -> list[str]:
        """Models with at least one finished run, in the order of the experiment."""
        return list(dict.fromkeys(run.model for run in self.runs))

    def of(self, model: str) -> list[Run]:
        return [run for run in self.runs if run.model == model]

    def mean(self, model: str, policy: str, metric: str) -> float:
        """The mean over folds of the mean over seeds, as LETOR's tables have it; NaN where nothing is defined."""
        folds: dict[str, list[float]] = {}
        for run in self.of(model):
            value = run.values[policy][metric]
            folds.setdefault(run.fold, []).append(math.nan if value is None else value)
        return float(np.mean([np.mean(values) for values in folds.values()])) if folds else math.nan

    def fold_mean(self, model: str, fold: str, policy: str, metric: str, part: str = "test") -> float:
        """The mean over seeds in one fold, of its test or its validation part; NaN where there is none."""
        runs = [run for run in self.of(model) if run.fold == fold]
        values = [(run.values if part == "test" else run.validation_values).get(policy, {}).get(metric) for run in runs]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else math.nan

    def per_query(self, model: str, policy: str, metric: str) -> dict[tuple[str, str], float]:
        """(fold, query) -> the mean over seeds; NaN where the metric is undefined."""
        found: dict[tuple[str, str], list[float]] = {}
        for run in self.of(model):
            for query, value in zip(run.queries, run.per_query[policy][metric]):
                found.setdefault((run.fold, query), []).append(math.nan if value is None else value)
        return {key: float(np.mean(values)) for key, values in found.items()}


def save_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Begin a folder of results."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / _EXPERIMENT, about)


def save_run(folder: Path, run: Run) -> None:
    (folder / _RUNS).mkdir(parents=True, exist_ok=True)
    _write(run_file(folder, run.model, run.fold, run.seed), asdict(run))


def save_search(folder: Path, search: Search) -> None:
    (folder / _SEARCHES).mkdir(parents=True, exist_ok=True)
    _write(search_file(folder, search.model, search.fold), asdict(search))


def run_file(folder: Path, model: str, fold: str, seed: int) -> Path:
    """Where a run is stored: it has finished if the file is there."""
    return folder / _RUNS / f"{_plain(model)}.{_plain(fold)}.{seed}.json"


def search_file(folder: Path, model: str, fold: str) -> Path:
    return folder / _SEARCHES / f"{_plain(model)}.{_plain(fold)}.json"


def read_run(path: Path) -> Run:
    return _run_of(_read(path), path)


def read_search(path: Path) -> Search:
    return _search_of(_read(path), path)


def write_tables(folder: Path, results: Results) -> None:
    """The tidy tables: one line per model, fold, seed, policy and metric, and the same per query, over seeds."""
    _write(folder / "results.json", {**results.about, "results": list(_lines(results))})
    _write_csv(folder / "results.csv", ("model", "fold", "seed", "policy", "metric", "value"), _lines(results))
    _write_csv(folder / "queries.csv", ("model", "fold", "query", "policy", "metric", "value"), _query_lines(results))


def _lines(results: Results) -> Iterator[dict[str, Any]]:
    for run in results.runs:
        for policy, values in run.values.items():
            for metric, value in values.items():
                place = {"model": run.model, "fold": run.fold, "seed": run.seed}
                yield {**place, "policy": policy, "metric": metric, "value": value}


def _query_lines(results: Results) -> Iterator[dict[str, Any]]:
    for model in results.models:
        for policy, values in results.of(model)[0].values.items():
            for metric in values:
                for (fold, query), value in results.per_query(model, policy, metric).items():
                    place = {"model": model, "fold": fold, "query": query}
                    yield {**place, "policy": policy, "metric": metric, "value": None if math.isnan(value) else value}


def _plain(name: str) -> str:
    """A name as a part of a file's name; different names stay different."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"%{ord(found[0]):x}%", name)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path}: expected JSON but found {error}. Delete the file and run the experiment again."
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected a JSON object but found {type(found).__name__}. Delete it and run again.")
    return found


def _run_of(found: dict[str, Any], path: Path) -> Run:
    try:
        return Run(**{**found, "queries": tuple(found["queries"])})
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"{path}: not a run of this version ({error}). Delete the file and run the experiment again."
        ) from None


def _search_of(found: dict[str, Any], path: Path) -> Search:
    try:
        return Search(**{**found, "trials": tuple(Trial(**trial) for trial in found["trials"])})
    except (TypeError, KeyError) as error:
        raise ValueError(
            f"{path}: not a search of this version ({error}). Delete it and run the experiment again."
        ) from None


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with write_whole(path) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _write_csv(path: Path, names: Sequence[str], lines: Iterator[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with write_whole(path) as file:
        file.write(text.getvalue().encode())
