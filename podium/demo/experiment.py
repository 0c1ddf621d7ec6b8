"""The demo as an experiment: what it measured, stored as results, so that a report can be made of them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from podium import __version__
from podium._runtime.machine import usable_cores
from podium.evaluation.evaluating import Evaluation
from podium.explain.importances import importance
from podium.lab.experiments.records import ModelRun, defined
from podium.lab.experiments.results import Results, save_about, save_run
from podium.models.trees.named import LambdaMART

_PART = "test"  # the only fold
_MODELS: dict[str, dict[str, Any]] = {
    "BM25": {"description": "the first stage alone, no training"},
    "cascade": {"description": "the best documents by BM25, re-ranked by LambdaMART"},
}


def store_results(
    folder: Path,
    evaluations: Mapping[str, Evaluation],
    model: LambdaMART,
    seconds: float,
    web: Path,
    shown: Mapping[str, Any],
) -> Results:
    """One run per ranking; `seconds` is the time that training took, `web` the folder of the collection.

    shown: the texts of queries, and lists to be shown, for the description of the experiment.
    """
    metrics, policy = list(next(iter(evaluations.values()))), next(iter(evaluations.values())).policy
    settings = {name: getattr(model, name) for name in ("n_estimators", "max_leaf_nodes")}
    about: dict[str, Any] = {
        "name": "demo",
        "title": "The demo: BM25 and a cascade",
        "metrics": metrics,
        "policies": [policy],
        "folds": [_PART],
        "seeds": [0],
        "models": {**_MODELS, "cascade": _MODELS["cascade"] | {"settings": settings}},
        "baseline": "BM25",
        "data": {path.name: f"sha256 {sha256(path.read_bytes()).hexdigest()}" for path in sorted(web.glob("*.*"))},
        "versions": {"podium": __version__, "numpy": np.__version__, "python": platform.python_version()},
        **shown,
        "hardware": {"processor": platform.processor() or platform.machine(), "cores": usable_cores()},
    }
    curves = dict(zip(("held-out queries", "training queries"), map(dict, model.evals_.values())))
    trained = {"curves": curves, "importances": importance(model).as_dict(), "fit_seconds": seconds}
    runs = [
        _run(name, evaluation, {} if name == "BM25" else trained | {"settings": settings})
        for name, evaluation in evaluations.items()
    ]
    save_about(folder, about)
    for run in runs:
        save_run(folder, run)
    return Results.load(folder)


def _run(name: str, evaluation: Evaluation, trained: dict[str, Any]) -> ModelRun:
    per_query = {metric: list(map(defined, evaluation.per_query[metric])) for metric in evaluation}
    values = {metric: defined(value) for metric, value in evaluation.items()}
    queries = tuple(map(str, evaluation.queries.tolist()))
    policy, settings = evaluation.policy, trained.pop("settings", {})
    return ModelRun(name, _PART, 0, settings, queries, {policy: per_query}, {policy: values}, **trained)
