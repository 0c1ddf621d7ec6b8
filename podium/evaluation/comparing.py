"""Comparing: from the scores of several systems to a Comparison.

A system is measured once (by `evaluate`), queries meet by their ids, and every pair is tested on the queries that both
have a value for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from podium._runtime.words import check_choice
from podium.data.ranking import as_weights
from podium.evaluation.comparison import Comparison, PairComparison, QueryChange, Settings, plain
from podium.evaluation.evaluating import Evaluation, MetricLike, as_scores, evaluate, evaluate_run, refuse_no_labels
from podium.evaluation.intervals import mean_interval
from podium.evaluation.significance import (
    CORRECTIONS,
    TESTS,
    cohens_d,
    correct,
    paired_differences,
    randomisation_test,
    t_test,
    weighted_mean,
    wilcoxon_test,
)
from podium.formats.subtopics import SubtopicQrels
from podium.formats.trec import Qrels, Run, refuse_other_than
from podium.metrics.base import Metric
from podium.metrics.measures.spelling import expand_names
from podium.metrics.policies import Policy
from podium.metrics.registry import parse_metric

PAIRS = ("baseline", "all")


def compare(
    systems: Mapping[str, Any],
    y: Any,
    *,
    qid: Any = None,
    metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10",),
    policy: str | Policy | None = None,
    baseline: str | None = None,
    pairs: str = "baseline",
    test: str = "randomisation",
    correction: str = "holm",
    level: float = 0.95,
    permutations: int = 100_000,
    resamples: int = 10_000,
    moved: int = 5,
    seed: int = 0,
    interval: str = "bounded",
    n_jobs: int | None = None,
    **rules: Any,
) -> Comparison:
    """Compare the scores that two or more systems give to the same rows, or their runs: {"a": scores, "b": scores}.

    With runs, `y` are their Qrels, and `evaluate_run` measures each, by default under the policy "trec".

    The first system is the baseline unless another is named; `pairs="all"` compares every system with every other.
    `interval` is the method of intervals: "bounded", "t", "studentised" or "bca" (`podium/evaluation/intervals.py`).
    `rules` are further arguments of `evaluate`, which measures each system: group, docids, query_weight, gain, ...
    `n_jobs`: threads; None or -1 for all cores. The numbers are the same for any number.
    """
    refuse_no_labels(y, "compare")
    settings = Settings(test, correction, level, permutations, resamples, moved, seed, interval)
    names = _check_systems(systems, "runs" if isinstance(y, (Qrels, SubtopicQrels)) else "scores")
    _pairs(names, baseline, pairs)  # a misspelt name is reported before the work starts
    metrics = [metrics] if isinstance(metrics, (str, Metric)) else list(metrics)
    rules |= {"policy": policy, "n_jobs": n_jobs}
    if isinstance(y, (Qrels, SubtopicQrels)):
        if qid is not None:
            raise ValueError("compare: got qid together with Qrels, which have the queries of the runs. Leave it out.")
        metrics = _comparable(metrics)
        results = {name: _run_evaluated(name, systems[name], y, metrics, rules) for name in names}
    else:
        scores = {name: _scores_of(name, systems[name], len(y)) for name in names}
        results = {name: evaluate(scores[name], y, qid=qid, metrics=metrics, **rules) for name in names}
    return compare_evaluations(
        results, metrics=metrics, baseline=baseline, pairs=pairs, settings=settings, n_jobs=n_jobs
    )


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    *,
    metrics: Sequence[MetricLike] | None = None,
    baseline: str | None = None,
    pairs: str = "baseline",
    settings: Settings | None = None,
    n_jobs: int | None = None,
) -> Comparison:
    """Compare what `evaluate` or `evaluate_run` returned, by all its metrics or some; queries meet by their ids."""
    names = _check_systems(evaluations, "evaluations")
    policy = _common_policy(evaluations)
    queries, weights = _common_queries(evaluations)
    chosen = list(evaluations[names[0]].per_query) if metrics is None else metrics
    directions = {str(metric): _higher_is_better(metric) for metric in chosen}
    parts = [
        compare_values(
            {system: _values_of(system, result, name, queries) for system, result in evaluations.items()},
            list(queries),
            metric=name,
            policy=policy,
            query_weight=weights,
            higher_is_better=higher_is_better,
            baseline=baseline,
            pairs=pairs,
            settings=settings,
            n_jobs=n_jobs,
        )
        for name, higher_is_better in directions.items()
    ]
    rows = [row for part in parts for row in part.rows]
    means = {metric: means for part in parts for metric, means in part.means.items()}
    values = {metric: columns for part in parts for metric, columns in part.values.items()}
    judged = _judged(evaluations, list(means))
    return replace(parts[0], rows=rows, means=means, values=values, notes=_common_notes(evaluations), judged=judged)


def compare_values(
    values: Mapping[str, Any],
    queries: Sequence[Any] | np.ndarray,
    *,
    metric: str,
    policy: str | Policy,
    query_weight: Any = None,
    higher_is_better: bool = True,
    baseline: str | None = None,
    pairs: str = "baseline",
    settings: Settings | None = None,
    n_jobs: int | None = None,
) -> Comparison:
    """Compare systems by one value per query each, NaN where undefined: {"a": values, "b": values}.

    With weights that differ, means, interval, effect size and randomisation test are weighted; the t and Wilcoxon
    tests, which know no weights, are NaN, and an error when one of them is the chosen test.
    """
    settings = settings or Settings()
    names = _check_systems(values, "values")
    columns = {name: _as_column(values[name], name, len(queries)) for name in names}
    weights = _as_query_weights(query_weight, len(queries), settings.test)
    measured = _Measured(metric, columns, queries, weights, higher_is_better, settings, n_jobs)
    rows = [measured.compare(first, second) for first, second in _pairs(names, baseline, pairs)]
    return Comparison(
        rows=_corrected(rows),
        means={metric: {name: measured.mean(name) for name in names}},
        queries=[plain(query) for query in queries],
        values={metric: columns},
        policy=policy.name if isinstance(policy, Policy) else policy,
        baseline=rows[0].baseline if pairs == "baseline" else None,
        settings=settings,
    )


@dataclass(frozen=True)
class _Measured:
    """The values of all systems by one metric, and how to compare two of them."""

    metric: str
    columns: Mapping[str, np.ndarray]
    queries: Sequence[Any] | np.ndarray
    weights: np.ndarray  # ones unless given
    higher_is_better: bool
    settings: Settings
    n_jobs: int | None

    def mean(self, name: str) -> float:
        values = self.columns[name]
        defined = ~np.isnan(values) & (self.weights > 0)
        return weighted_mean(values[defined], self.weights[defined])

    def compare(self, baseline: str, system: str) -> PairComparison:
        common = ~np.isnan(self.columns[baseline] + self.columns[system]) & (self.weights > 0)
        before, after, weights = self.columns[baseline][common], self.columns[system][common], self.weights[common]
        differences = paired_differences(before, after)
        better = differences if self.higher_is_better else -differences
        return PairComparison(
            metric=self.metric,
            baseline=baseline,
            system=system,
            baseline_mean=weighted_mean(before, weights),
            system_mean=weighted_mean(after, weights),
            difference=weighted_mean(differences, weights),
            interval=self._interval(differences, weights),
            p_values={test: {"none": p} for test, p in self._p_values(differences, weights).items()},
            effect_size=cohens_d(differences, weights),
            wins=int(np.sum(better > 0)),
            losses=int(np.sum(better < 0)),
            ties=int(np.sum(better == 0)),
            queries=len(differences),
            left_out=len(common) - len(differences),
            weighted=_differ(weights),
            higher_is_better=self.higher_is_better,
            gained=self._moved(baseline, system, common, better),
            lost=self._moved(baseline, system, common, -better),
            settings=self.settings,
        )

    def _interval(self, differences: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
        settings = self.settings
        return mean_interval(
            differences,
            weights,
            method=settings.interval,
            level=settings.level,
            resamples=settings.resamples,
            seed=settings.seed,
            n_jobs=self.n_jobs,
        )

    def _p_values(self, differences: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        """NaN below two queries; with weights, NaN for the tests that know none."""
        if len(differences) < 2:
            return dict.fromkeys(TESTS, math.nan)
        permutations, seed = self.settings.permutations, self.settings.seed
        p = randomisation_test(differences, weights, permutations=permutations, seed=seed, n_jobs=self.n_jobs)
        if _differ(weights):
            return {"randomisation": p, "t": math.nan, "wilcoxon": math.nan}
        return {"randomisation": p, "t": t_test(differences), "wilcoxon": wilcoxon_test(differences)}

    def _moved(self, baseline: str, system: str, common: np.ndarray, gain: np.ndarray) -> tuple[QueryChange, ...]:
        """The queries that gained most, largest first."""
        order = np.argsort(-gain, kind="stable")[: min(self.settings.moved, int(np.sum(gain > 0)))]
        changes = []
        for q in np.flatnonzero(common)[order]:
            before, after = float(self.columns[baseline][q]), float(self.columns[system][q])
            changes.append(QueryChange(plain(self.queries[q]), before, after, after - before))
        return tuple(changes)


def _corrected(rows: list[PairComparison]) -> list[PairComparison]:
    """The same rows with all corrections of all tests: the rows are the comparisons that count."""
    corrected: list[dict[str, dict[str, float]]] = [{} for _ in rows]
    for test in TESTS:
        raw = [row.p_values[test]["none"] for row in rows]
        columns = {correction: correct(raw, correction) for correction in CORRECTIONS}
        for number, values in enumerate(corrected):
            values[test] = {correction: float(p[number]) for correction, p in columns.items()}
    return [replace(row, p_values=values) for row, values in zip(rows, corrected)]


def _pairs(names: list[str], baseline: str | None, pairs: str) -> list[tuple[str, str]]:
    check_choice("pairs", pairs, PAIRS)
    if baseline is not None:
        check_choice("baseline", baseline, names)
    if pairs == "all":
        return list(combinations(names, 2))
    first = names[0] if baseline is None else baseline
    return [(first, name) for name in names if name != first]


# ---------------------------------------------------------------------------------------- checking and joining input


def _check_systems(systems: Any, what: str) -> list[str]:
    if not isinstance(systems, Mapping):
        raise ValueError(f'expected a mapping of names to {what}, such as {{"a": ..., "b": ...}}; got {type(systems)}.')
    if len(systems) < 2:
        raise ValueError(f"a comparison needs two systems or more; got {', '.join(map(repr, systems)) or 'none'}.")
    for name in systems:
        if not isinstance(name, str):
            raise ValueError(f"names of systems must be text; got {name!r}.")
    return list(systems)


def _run_evaluated(
    name: str, run: Any, qrels: Qrels | SubtopicQrels, metrics: Sequence[MetricLike], rules: Any
) -> Evaluation:
    refuse_other_than(Run, run, f"system {name!r}")
    try:
        return evaluate_run(qrels, run, metrics=metrics, **rules)
    except ValueError as error:
        raise ValueError(f"system {name!r}: {error}") from error


def _scores_of(name: str, scores: Any, n: int) -> np.ndarray:
    try:
        return as_scores(scores, n)
    except ValueError as error:
        raise ValueError(f"system {name!r}: {error}") from error


def _as_column(values: Any, name: str, n: int) -> np.ndarray:
    column = np.asarray(values, dtype=np.float64)
    if column.shape != (n,):
        raise ValueError(f"system {name!r} has values of shape {column.shape}; expected one per query, {n} in all.")
    if np.isinf(column).any():
        query = int(np.flatnonzero(np.isinf(column))[0])
        raise ValueError(f"system {name!r} has the value {column[query]} at query {query}; expected numbers, or NaN.")
    return column


def _as_query_weights(query_weight: Any, n: int, test: str) -> np.ndarray:
    if query_weight is None:
        return np.ones(n)
    weights = as_weights(query_weight, n, "query_weight", "query")
    if test != "randomisation" and _differ(weights[weights > 0]):
        raise ValueError(f'the {test} test knows no query weights; choose test="randomisation" or leave weights out.')
    return weights


def _differ(weights: np.ndarray) -> bool:
    return len(weights) > 0 and bool(np.ptp(weights) > 0)


def _higher_is_better(metric: Any) -> bool:
    parsed = parse_metric(metric, runs=True)
    if parsed.summary != "mean":
        kinds = {"sum": "a count", "geometric": "a geometric mean", "text": "a text"}
        raise ValueError(
            f"{metric} is {kinds[parsed.summary]}; a comparison needs a measure whose mean over queries counts."
        )
    if parsed.pools_queries:
        raise ValueError(f"{metric} is one value for all queries together; a comparison needs one per query.")
    return parsed.higher_is_better


def _comparable(metrics: Sequence[MetricLike]) -> list[MetricLike]:
    """Groups of trec_eval as their measures, without those that a comparison cannot have, such as counts."""
    expanded: dict[MetricLike, None] = {}
    for name in metrics:
        members = expand_names([name])
        if members != [name]:
            members = [one for one in members if parse_metric(one, runs=True).summary == "mean"]
        expanded |= dict.fromkeys(members)
    return list(expanded)


def _judged(evaluations: Mapping[str, Evaluation], metrics: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of runs, per metric and system, how much is judged of what the values depend on."""
    columns = {
        metric: {system: result.judged[metric] for system, result in evaluations.items() if metric in result.judged}
        for metric in metrics
    }
    return {metric: shares for metric, shares in columns.items() if shares}


def _common_policy(evaluations: Mapping[str, Evaluation]) -> str:
    policies = {name: result.policy for name, result in evaluations.items()}
    if len(set(policies.values())) > 1:
        listed = ", ".join(f"{name}: {policy}" for name, policy in policies.items())
        raise ValueError(f"the systems were evaluated under different policies ({listed}) and cannot be compared.")
    return next(iter(policies.values()))


def _common_queries(evaluations: Mapping[str, Evaluation]) -> tuple[dict[Any, int], np.ndarray]:
    """The number of every query that any system has, and its weight (1 unless given)."""
    ids = dict.fromkeys(query for result in evaluations.values() for query in result.queries.tolist())
    numbers = {query: number for number, query in enumerate(ids)}
    weights = []
    for result in evaluations.values():
        query_weight = np.ones(len(result.queries)) if result.query_weight is None else result.query_weight
        weights.append(_aligned(result, query_weight, numbers))
    least, largest = np.fmin.reduce(weights), np.fmax.reduce(weights)  # a query may be absent (NaN) from some
    if (least != largest).any():
        raise ValueError("the systems were evaluated with different query weights; numbers would not compare.")
    return numbers, largest


def _values_of(name: str, result: Evaluation, metric: str, numbers: Mapping[Any, int]) -> np.ndarray:
    if metric not in result.per_query:
        raise ValueError(f"system {name!r} was not evaluated by {metric!r}, only by {', '.join(result.per_query)}.")
    return _aligned(result, result.per_query[metric], numbers)


def _aligned(result: Evaluation, values: np.ndarray, numbers: Mapping[Any, int]) -> np.ndarray:
    """One value per query of all systems, NaN for those this one lacks."""
    column = np.full(len(numbers), math.nan)
    column[[numbers[query] for query in result.queries.tolist()]] = values
    return column


def _common_notes(evaluations: Mapping[str, Evaluation]) -> tuple[str, ...]:
    """Each note once, with the systems it is about unless it is about all."""
    owners: dict[str, list[str]] = {}
    for name, result in evaluations.items():
        for note in result.notes:
            owners.setdefault(note, []).append(name)
    return tuple(
        note if len(names) == len(evaluations) else f"{', '.join(names)}: {note}" for note, names in owners.items()
    )
