"""The leaderboard of an experiment, and tables that others have published beside ours; from stored results alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.evaluation.comparison import PairComparison
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES
from podium.lab.experiments.records import defined
from podium.lab.experiments.results import Results
from podium.lab.report.statistics import compared_with, gather, interval_of


@dataclass(frozen=True)
class Summary:
    """One model in numbers: means over folds of means over seeds, and differences from the baseline."""

    model: str
    values: dict[str, dict[str, float]]  # policy -> metric -> mean
    against: dict[str, PairComparison]  # metric -> this model and the baseline (main policy)
    n_runs: int
    fit_seconds: float  # per run, the median: the first one of a process may compile
    folds: int

    def as_dict(self) -> dict[str, Any]:
        values = {
            policy: {name: defined(mean) for name, mean in means.items()} for policy, means in self.values.items()
        }
        against: dict[str, dict[str, Any]] = {}
        for name, row in self.against.items():
            numbers = row.difference, *row.interval, row.p
            against[name] = dict(zip(("difference", "low", "high", "p"), map(defined, numbers)))
            against[name]["no_interval"] = TOO_FEW_DIFFERENCES if math.isnan(row.interval[0]) else None
        summary = {"model": self.model, "values": values, "against_baseline": against, "runs": self.n_runs}
        return summary | {"folds": self.folds, "fit_seconds": self.fit_seconds}


def leaderboard(results: Results) -> list[Summary]:
    """All models with runs, best first by the first metric under the first policy.

    Differences from the baseline over the queries of all folds are those of the report, for the first two metrics:
    each fold has the same weight, as it has in the means, and p is corrected for the number of models.
    """
    metrics, policies = results.about["metrics"], results.about["policies"]
    baseline = results.about.get("baseline") or ""
    compared = metrics[:2] if baseline in results.models else []
    against = {
        name: compared_with(gather(results, policies[0], name), baseline, name, policies[0]) for name in compared
    }
    summaries = []
    for model in results.ranked(policies[0], metrics[0]):
        runs = results.of(model)
        values = {policy: {name: results.mean(model, policy, name) for name in metrics} for policy in policies}
        rows = {name: by_model[model] for name, by_model in against.items() if model in by_model}
        seconds = float(np.median([run.fit_seconds for run in runs]))
        summaries.append(Summary(model, values, rows, len(runs), seconds, len({run.fold for run in runs})))
    return summaries


@dataclass(frozen=True)
class Beside:
    """A published table beside ours: per metric, one row of (published, ours) per fold and the means."""

    title: str
    model: str
    policy: str
    part: str  # "test", or "valid": the part that both are values of
    source: str
    rows: dict[str, list[tuple[float, float]]]  # metric -> one pair per fold; NaN where ours has no run
    means: dict[str, tuple[float, float]]
    intervals: dict[str, tuple[float, float]]  # metric -> of the difference of the means, over our queries

    def as_dict(self) -> dict[str, Any]:
        rows = {
            metric: {
                "published": [defined(pair[0]) for pair in pairs],
                "ours": [defined(pair[1]) for pair in pairs],
                "published_mean": defined(self.means[metric][0]),
                "mean": defined(self.means[metric][1]),
                "difference": defined(self.means[metric][1] - self.means[metric][0]),
                "low": defined(self.intervals[metric][0]),
                "high": defined(self.intervals[metric][1]),
            }
            for metric, pairs in self.rows.items()
        }
        about = {"title": self.title, "model": self.model, "policy": self.policy, "part": self.part}
        return about | {"source": self.source, "metrics": rows}


def published_beside(results: Results) -> list[Beside]:
    """Each published table with the values of the model that it belongs to."""
    tables = []
    for table in results.about.get("published", []):
        model, policy, part = table["model"], table["policy"], table.get("part", "test")
        rows, means, intervals = {}, {}, {}
        for metric, row in table["values"].items():
            *values, mean = (math.nan if value is None else value for value in row)
            ours = [results.fold_mean(model, fold, policy, metric, part) for fold in table["folds"]]
            rows[metric] = list(zip(values, ours))
            means[metric] = (mean, float(np.mean(ours)))  # NaN unless all folds have runs
            known = part == "test" and not math.isnan(means[metric][1])
            ends = _interval_of(results, model, policy, metric) if known else (math.nan, math.nan)
            intervals[metric] = ends[0] - mean, ends[1] - mean
        tables.append(Beside(table["title"], model, policy, part, table.get("source", ""), rows, means, intervals))
    return tables


def _interval_of(results: Results, model: str, policy: str, metric: str) -> tuple[float, float]:
    """Of our mean over the queries of the test parts; of validation parts, no values per query are stored."""
    values = gather(results, policy, metric, [model])
    return interval_of(values, model, results.mean(model, policy, metric))
