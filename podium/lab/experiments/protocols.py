"""Protocols: the experiments that were run in one folder of results, one after the other.

A number counts once. When the settings of a model change after a run, the changed model is a new row, "LambdaMART (2)",
and the old row stays beside it, with all its runs and looks. So does the row of a model that is no longer asked for.
Data, folds, metrics, policies and the criterion are the same for all protocols of a folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from podium.lab.experiments.experiment import Experiment
from podium.lab.experiments.making import PICK

Plain = dict[str, Any]
"""An experiment or a part of it, as JSON has it."""

MAY_CHANGE = ("title", "models", "baseline", "published", "budget", "seeds")
"""What a later protocol of the same folder may have otherwise."""


def plain_of(experiment: Experiment) -> Plain:
    plain: Plain = json.loads(json.dumps(experiment.to_plain()))
    return plain


def digest_of(experiment: Experiment) -> str:
    """Twelve hexadecimal digits of all that can change a number: not of titles, sentences or the order of models."""
    plain = plain_of(experiment)
    rules = {key: value for key, value in plain.items() if key not in ("title", "models", "published")}
    models = {name: _rules(spec) for name, spec in plain["models"].items()}
    content = json.dumps({**rules, "models": models}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def protocol_of(experiment: Experiment, number: int, rows: list[str]) -> Plain:
    """What is stored about a protocol: when it began, and the rows that began with it."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"number": number, "started": started, "digest": digest_of(experiment), "rows": rows}


def rows_of(experiment: Experiment, before: Experiment) -> dict[str, str]:
    """Model -> its row: one of those in `before` with the same settings, or else a new one."""
    models, stored = _standing_alone(experiment), _standing_alone(before)
    rows: dict[str, str] = {}

    def row_of(name: str) -> str:
        if name not in rows:
            spec = _rules(_renamed(models[name], row_of))
            versions = [name, *(other for other in stored if other not in models and _is_version(other, name))]
            same = [row for row in versions if row in stored and _rules(stored[row]) == spec]
            rows[name] = same[-1] if same else _unused(name, {*stored, *rows.values()}, {*models} - {name})
        return rows[name]

    return {name: row_of(name) for name in models}


def joined(experiment: Experiment, before: Experiment, rows: Mapping[str, str]) -> Experiment:
    """The rows of all protocols as one experiment; what is compared and published is what the last one says.

    Its budget and seeds are the first ones: models of a protocol with others have them as settings of their own.
    """
    if before.budget.seconds is not None and experiment.budget.seconds is None:
        problem = f"budget.seconds is {before.budget.seconds:g} in an earlier protocol of this folder and missing here"
        raise ValueError(f"{problem}. Give a number, which may be larger, or choose another folder.")
    plain, stored = plain_of(experiment), plain_of(before)
    shared = (experiment.budget, experiment.seeds) == (before.budget, before.seeds)
    specs = plain["models"] if shared else _standing_alone(experiment)
    models = {rows[name]: _renamed(spec, rows.__getitem__) for name, spec in specs.items()}
    published = [table | {"model": rows[table["model"]]} for table in plain["published"]]
    titles = {(table["title"], table["model"]) for table in published}
    published += [table for table in stored["published"] if (table["title"], table["model"]) not in titles]
    return before.changed(
        title=plain["title"],
        baseline=None if plain["baseline"] is None else rows[plain["baseline"]],
        models={**stored["models"], **models},
        published=published,
    )


def _standing_alone(experiment: Experiment) -> dict[str, Plain]:
    """The models with what the experiment says of all of them, its seeds and its budget of tuning, as their own."""
    models: dict[str, Plain] = plain_of(experiment)["models"]
    for name, plain in models.items():
        plain["seeds"] = list(experiment.seeds_of(name))
        if experiment.models[name].space:
            budget = {key: value for key, value in experiment.budget.model_dump().items() if value is not None}
            models[name] = budget | plain
    return models


def _rules(spec: Mapping[str, Any]) -> Plain:
    return {key: value for key, value in spec.items() if key != "about"}


def _is_version(row: str, name: str) -> bool:
    number = row.removeprefix(f"{name} (").removesuffix(")")
    return number.isdigit() and row == f"{name} ({number})"


def _unused(name: str, taken: set[str], others: set[str]) -> str:
    """The name itself, or the first "NAME (2)", "NAME (3)", ... that no row and no other model has."""
    number, row = 1, name
    while row in taken or row in others:
        number += 1
        row = f"{name} ({number})"
    return row


def _renamed(spec: Mapping[str, Any], row_of: Callable[[str], str]) -> Plain:
    """A model that refers to the rows of others: "@Linear", or the members of a pick."""
    renamed = {key: _reference(value, row_of) for key, value in spec.items()}
    if str(spec["kind"]).lower() == PICK:
        renamed["members"] = [row_of(member) for member in spec["members"]]
    return renamed


def _reference(value: Any, row_of: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_reference(one, row_of) for one in value]
    return f"@{row_of(value[1:])}" if isinstance(value, str) and value.startswith("@") else value
