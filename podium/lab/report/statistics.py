"""Statistics of a report: means with intervals, significance groups, and models compared with a baseline.

A mean is taken over the seeds, then over the queries of a fold, then over the folds. Everything here works on one value
per query with the weight 1 / (queries of its fold), so that the weighted mean is that mean, and intervals and tests
belong to the number that is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase

import numpy as np

from podium.evaluation.comparing import compare_values
from podium.evaluation.comparison import PairComparison, Settings
from podium.evaluation.intervals import mean_interval
from podium.evaluation.significance import TOLERANCE, correct, paired_differences, randomisation_test, weighted_mean
from podium.lab.experiments.results import Results
from podium.lab.report.tables import MOST_DECIMALS, decimals_within
from podium.metrics.registry import parse_metric

LEVEL = 0.95
SIGNIFICANT = 0.05
_SHORTEST_RUN = 4  # of letters that are written as a range
_PERMUTATIONS = 20_000  # p can be as small as 1/20,001: enough for 0.05 after the correction for 900 pairs


@dataclass(frozen=True)
class Values:
    """One value per query (mean over seeds, NaN where undefined) of each model, with the weights of the queries."""

    keys: list[tuple[str, str]]  # (fold, query)
    columns: Mapping[str, np.ndarray]
    weights: np.ndarray

    def differences(self, baseline: str, system: str) -> tuple[np.ndarray, np.ndarray]:
        """system - baseline where both have a value, and the weights of these queries."""
        before, after = self.columns[baseline], self.columns[system]
        known = ~np.isnan(before + after)
        return paired_differences(before[known], after[known]), self.weights[known]


@dataclass(frozen=True)
class Row:
    """One model of a leaderboard."""

    rank: int
    model: str
    mean: float
    interval: tuple[float, float]  # NaN: too few different values, or no mean over queries
    groups: str  # letters: models that share one do not differ significantly
    folds: int
    is_mean: bool = True  # over queries; not of a metric that pools them


@dataclass(frozen=True)
class Leaderboard:
    policy: str
    metric: str
    values: Values
    rows: list[Row]
    pairs: int  # comparisons that the groups are corrected for

    @property
    def models(self) -> list[str]:
        """The best first."""
        return [row.model for row in self.rows]

    @property
    def decimals(self) -> int:
        """As many as the intervals of the means allow: two digits of half the narrowest."""
        known = [row.interval for row in self.rows if math.isfinite(row.interval[0])]
        return max((decimals_within(high - low) for low, high in known), default=MOST_DECIMALS)

    @property
    def best(self) -> Row:
        return self.rows[0]

    @property
    def leaders(self) -> list[str]:
        """Models that do not differ significantly from the best one, which is one of them."""
        best = set(self.best.groups)
        return [row.model for row in self.rows if best & set(row.groups)] or [self.best.model]


def higher_is_better(metric: str) -> bool:
    return parse_metric(metric).higher_is_better


def gather(results: Results, policy: str, metric: str, models: Sequence[str] | None = None) -> Values:
    """The values of all models, or of some, queries aligned."""
    names = results.models if models is None else models
    per_query = {model: results.per_query(model, policy, metric) for model in names}
    keys = list(dict.fromkeys(key for values in per_query.values() for key in values))
    columns = {model: np.array([values.get(key, math.nan) for key in keys]) for model, values in per_query.items()}
    defined = ~np.all([np.isnan(column) for column in columns.values()], axis=0)
    sizes: dict[str, int] = {}
    for (fold, _), counts in zip(keys, defined):
        sizes[fold] = sizes.get(fold, 0) + int(counts)
    return Values(keys, columns, np.array([1.0 / max(1, sizes[fold]) for fold, _ in keys]))


def rank_models(results: Results, policy: str, metric: str) -> Leaderboard:
    """Models by their mean, the best first; models without a value come last."""
    values, order = gather(results, policy, metric), results.ranked(policy, metric)
    groups = letters(order, _different_pairs(values, order))
    rows = []
    for rank, model in enumerate(order, 1):
        mean, folds = results.mean(model, policy, metric), len({run.fold for run in results.of(model)})
        interval, is_mean = interval_of(values, model, mean), _is_mean(values, model, mean)
        rows.append(Row(rank, model, mean, interval, groups[model], folds, is_mean))
    return Leaderboard(policy, metric, values, rows, len(order) * (len(order) - 1) // 2)


def decimals_of(values: Values) -> int:
    """The decimals of means that have no interval beside them: what two standard errors on each side allow."""
    decimals = []
    for column in values.columns.values():
        known = ~np.isnan(column)
        if known.sum() > 1:
            weights = values.weights[known] / values.weights[known].sum()
            deviations = column[known] - weights @ column[known]
            decimals.append(decimals_within(4 * float(np.sqrt(np.sum(np.square(weights * deviations))))))
    return max(decimals, default=MOST_DECIMALS)


def interval_of(values: Values, model: str, mean: float) -> tuple[float, float]:
    """The interval of a model's mean over queries; NaN where it is no such mean, or too few values differ."""
    if not _is_mean(values, model, mean):
        return math.nan, math.nan
    known = ~np.isnan(values.columns[model])
    return mean_interval(values.columns[model][known], values.weights[known], level=LEVEL)


def _is_mean(values: Values, model: str, mean: float) -> bool:
    """Whether a value is the mean of those of the queries; that of a metric which pools queries is not."""
    known = ~np.isnan(values.columns[model])
    average = weighted_mean(values.columns[model][known], values.weights[known])
    return math.isclose(average, mean, rel_tol=1e-6, abs_tol=1e-9)


def _different_pairs(values: Values, models: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs that differ significantly, after Holm's correction for the number of all pairs."""
    pairs, p_values = list(combinations(models, 2)), []
    for baseline, system in pairs:
        differences, weights = values.differences(baseline, system)
        enough = len(differences) >= 2
        p_values.append(randomisation_test(differences, weights, permutations=_PERMUTATIONS) if enough else math.nan)
    corrected = correct(p_values, "holm")
    return [pair for pair, p in zip(pairs, corrected) if p < SIGNIFICANT]


def letters(order: Sequence[str], different: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A compact letter display: two models share a letter if and only if they do not differ significantly.

    Piepho (2004), insert and absorb: all models share one group; for each pair that differs, a group with both becomes
    two, each without one of them, and groups within another one are dropped. (a, b, c) with a and c different:
    a -> "a", b -> "ab", c -> "b".
    """
    groups = [frozenset(order)]
    for one, other in different:
        split = [
            part
            for group in groups
            for part in ([group - {one}, group - {other}] if {one, other} <= group else [group])
        ]
        unique = list(dict.fromkeys(split))
        groups = [group for group in unique if not any(group < larger for larger in unique)]
    groups.sort(key=lambda group: sorted(order.index(model) for model in group))
    marks = [*ascii_lowercase, *(chr(0x3B1 + n) for n in range(len(groups)))]  # alpha and the letters that follow
    return {model: "".join(mark for mark, group in zip(marks, groups) if model in group) for model in order}


def shortened(groups: str) -> str:
    """Letters of groups, four or more that follow one another as a-d: abcdefhij -> "a-f hij"."""
    runs: list[str] = []
    for letter in groups:
        if runs and ord(letter) == ord(runs[-1][-1]) + 1:
            runs[-1] += letter
        else:
            runs.append(letter)
    if max(map(len, runs), default=0) < _SHORTEST_RUN:
        return groups
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) >= _SHORTEST_RUN else run for run in runs)


def choose_baseline(results: Results, board: Leaderboard) -> str | None:
    """The model that others are compared with: that of the experiment, or else its first one; not the best itself."""
    named = results.about.get("baseline")
    known = [model for model in [named, *results.models] if model in board.models]
    others = [model for model in known if model != board.best.model]
    return others[0] if others else None


def against_baseline(board: Leaderboard, baseline: str) -> dict[str, PairComparison]:
    """Every other model of a leaderboard beside the baseline."""
    return compared_with(board.values, baseline, board.metric, board.policy)


def compared_with(values: Values, baseline: str, metric: str, policy: str) -> dict[str, PairComparison]:
    """Every other model beside the baseline; p-values after Holm, for the number of these comparisons."""
    others = [model for model in values.columns if model != baseline]
    if not others:
        return {}
    compared = compare_values(
        {model: values.columns[model] for model in [baseline, *others]},
        [query for _, query in values.keys],
        metric=metric,
        policy=policy,
        query_weight=values.weights,
        higher_is_better=higher_is_better(metric),
        settings=Settings(level=LEVEL, moved=0),
    )
    return {row.system: row for row in compared.rows}


def hardness(board: Leaderboard) -> list[tuple[int, float]]:
    """(number of the query, mean over the models), the hardest query first.

    Queries without a value are left out, and those on which all models have the same: most of them have no relevant
    document, or nothing else.
    """
    columns = np.array([board.values.columns[model] for model in board.models])
    defined = ~np.isnan(columns).any(axis=0)
    if len(columns) > 1:
        defined &= np.ptp(columns, axis=0) > TOLERANCE
    means = columns[:, defined].mean(axis=0) if defined.any() else np.empty(0)
    order = np.argsort(means if higher_is_better(board.metric) else -means, kind="stable")
    return [(int(np.flatnonzero(defined)[number]), float(means[number])) for number in order]
