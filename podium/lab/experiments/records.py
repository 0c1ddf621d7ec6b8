"""Records of an experiment, as they are stored: its description, a search, a run; each checked when it is read.

A stored file may be damaged and still be JSON: a value that is null, a list that was cut, the name of another model.
What is read has the types that its record declares, and agrees with the description and with the other runs; else an
error names the file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from podium.lab.tuning.tuning import Trial, is_maximised, rank_trials
from podium.metrics.registry import parse_metric

Record = TypeVar("Record")
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_ADVICE = "Delete the file and run the experiment again."


@dataclass(frozen=True)
class Search:
    """How the settings of a model were chosen in one fold, on validation data only."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT  # of the trials too

    model: str
    fold: str
    criterion: str  # what was maximised, such as "ndcg@10 (letor4)"
    trials: tuple[Trial, ...]
    chosen: dict[str, Any]
    seconds: float = 0.0

    @property
    def best_value(self) -> float | None:
        """What the best trial reached on the validation part."""
        trials = dict(enumerate(self.trials))
        return trials[rank_trials(trials, self.criterion)[0]].value if trials else None


@dataclass(frozen=True)
class ModelRun:
    """One model trained with one seed on one fold, evaluated per query of the test part."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

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

    @property
    def metrics(self) -> set[tuple[str, str]]:
        """What it has values of: (policy, metric)."""
        return {(policy, metric) for policy, means in self.values.items() for metric in means}


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Model(_Stored):
    description: str = ""
    settings: dict[str, Any] = {}


class _PublishedTable(_Stored):
    title: str
    model: str
    policy: str
    part: Literal["test", "valid"] = "test"
    source: str = ""
    folds: list[str] = Field(min_length=1)
    metrics: list[str] = []
    values: dict[str, list[float | None]]


class _Protocol(_Stored):
    """An experiment that was run in the folder, and the rows that began with it."""

    number: int
    started: str  # UTC, to the second
    digest: str
    rows: list[str]


class _Hit(_Stored):
    id: str
    title: str = ""
    grade: int | None = None
    before: int | None = None  # its rank in the first list


class _Example(_Stored):
    """A query with the ranked lists of several systems."""

    query: str
    text: str
    lists: dict[str, list[_Hit]]


class _Description(_Stored):
    """What other parts of the lab rely on in experiment.json; it has more."""

    name: str
    title: str = ""
    metrics: list[str] = Field(min_length=1)
    policies: list[str] = Field(min_length=1)
    folds: list[str] = Field(min_length=1)
    models: dict[str, _Model]
    seeds: list[int] = []
    baseline: str | None = None
    on: Literal["test", "valid"] = "test"
    turns: bool = False  # the validation part of a fold is a test part of another one
    development: str = ""  # why the data is a development set
    published: list[_PublishedTable] = []
    query_texts: dict[str, str] = {}  # by the ids of queries
    examples: list[_Example] = []
    left_out: dict[str, str] = {}
    protocols: list[_Protocol] = []
    experiment: dict[str, Any] = {}
    data: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    hardware: dict[str, Any] = {}


def defined(value: float) -> float | None:
    """A value as it is stored: None where a metric is undefined."""
    return None if math.isnan(value) else float(value)


def read_record(path: Path, kind: type[Record], words: str) -> Record:
    """The record that a file holds; ValueError names the file and what is wrong there."""
    text = path.read_bytes()
    try:
        from_json(text, allow_inf_nan=False)  # also inside of what a record leaves open, such as settings
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        message = problem["msg"].removeprefix("Input should be ")
        reason = f"not {words} of this version ({where}: expected {message[0].lower()}{message[1:]})"
        raise damaged(path, reason) from None
    except ValueError as error:
        raise damaged(path, f"expected JSON but found {error}") from None


def read_description(path: Path) -> dict[str, Any]:
    """The content of experiment.json."""
    about = read_record(path, _Description, "the description of an experiment")
    for metric in about.metrics:
        try:
            parse_metric(metric)
        except ValueError as error:
            raise damaged(path, f"metrics: {error}") from None
    for number, table in enumerate(about.published):
        for metric in dict.fromkeys([*table.metrics, *table.values]):
            expected, row = len(about.folds) + 1, table.values.get(metric, [])
            if len(row) != expected or table.folds != about.folds:
                words = f"expected one value per fold and the mean, {expected}, but found {len(row)}"
                raise damaged(path, f"published.{number}.values.{metric}: {words}")
    return about.model_dump(exclude_unset=True)


def damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"{path}: {what}. {_ADVICE}")


def refuse_other_place(path: Path, expected: Path, about: Mapping[str, Any], model: str, fold: str) -> None:
    """Refuse a record whose names are not those of its file, or not of the experiment."""
    for what, name, known in (("model", model, about["models"]), ("fold", fold, about["folds"])):
        if name not in known:
            raise damaged(path, f"{what}: expected one of {', '.join(known)} but found {name!r}")
    if path.name != expected.name:
        raise damaged(path, f"expected the record that is called so, but found that of {expected.name}")


def refuse_other_criterion(path: Path, search: Search) -> None:
    """Refuse a search by something that is no metric."""
    try:
        is_maximised(search.criterion)
    except ValueError as error:
        raise damaged(path, f"criterion: {error}") from None


def refuse_other_values(path: Path, run: ModelRun, about: Mapping[str, Any]) -> None:
    """Refuse a run without all values of the experiment, or without one per query."""
    for policy in about["policies"]:
        for metric in about["metrics"]:
            if (policy, metric) not in run.metrics:
                raise damaged(path, f"values.{policy}: expected {metric} but found none")
    if len(set(run.queries)) < len(run.queries):
        raise damaged(path, "queries: expected each once but found one twice")
    if {policy: means.keys() for policy, means in run.per_query.items()} != {
        policy: means.keys() for policy, means in run.values.items()
    }:
        raise damaged(path, "per_query: expected the policies and metrics of values but found others")
    for policy, metric in sorted(run.metrics):
        row = run.per_query[policy][metric]
        if len(row) != len(run.queries):
            expected = f"expected one value per query, {len(run.queries)}, but found {len(row)}"
            raise damaged(path, f"per_query.{policy}.{metric}: {expected}")
        if run.values[policy][metric] is None and any(value is not None for value in row):
            raise damaged(path, f"values.{policy}.{metric}: expected a number but found null")


def refuse_others_of_a_group(runs: Mapping[Path, ModelRun]) -> None:
    """Refuse a run that was tested on other queries than most runs of its fold, or by other metrics than its model."""
    queries = {path: (run.fold, run.queries) for path, run in runs.items()}
    metrics = {path: (run.model, tuple(sorted(run.metrics))) for path, run in runs.items()}
    _refuse_outliers(queries, "queries: expected those of the other runs of fold")
    _refuse_outliers(metrics, "values: expected the metrics of the other runs of")


def _refuse_outliers(files: Mapping[Path, tuple[str, Any]], expected: str) -> None:
    """Refuse a file whose value is not the most frequent one of its group."""
    usual: dict[str, Any] = {}
    for (group, value), _ in Counter(files.values()).most_common():
        usual.setdefault(group, value)
    for path, (group, value) in files.items():
        if value != usual[group]:
            raise damaged(path, f"{expected} {group} but found others")
