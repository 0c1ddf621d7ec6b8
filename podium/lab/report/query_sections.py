"""Sections about single queries: where two models differ, wins and losses, and which queries are hard for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from podium._runtime.words import counted
from podium.evaluation.comparison import PairComparison
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES
from podium.lab.report import charts
from podium.lab.report.page import Html, Section, figure, folded, side_by_side
from podium.lab.report.sections import shown_metric
from podium.lab.report.statistics import Leaderboard, hardness, higher_is_better
from podium.lab.report.tables import Cell, Column, Rows, interval, number, shown_p, table

_MOVED = 10  # queries that gained or lost most
_HARD = 20
_QUERIES = 500  # of the long table
_BARS = 40  # models


def against_baseline(board: Leaderboard, baseline: str, against: Mapping[str, PairComparison]) -> Section:
    """Every model against the baseline, and the best one query by query."""
    keys, before, after = _pair(board, baseline)
    gains = (after - before) * (1 if higher_is_better(board.metric) else -1)
    blocks = [_differences(board, baseline, against)]
    if len(keys):
        pictures = [_scatter(board, baseline, before, after), _waterfall(board, baseline, gains)]
        order = np.argsort(-gains, kind="stable")
        won, lost = order[gains[order] > 0][:_MOVED], order[::-1][gains[order[::-1]] < 0][:_MOVED]
        tables = [
            _moved(board, baseline, words, [(keys[number], before[number], after[number]) for number in numbers])
            for numbers, words in ((won, "Biggest wins"), (lost, "Biggest losses"))
        ]
        blocks += [side_by_side(pictures), _wins(board, baseline, against), side_by_side(tables)]
    return Section("baseline", "Against the baseline", blocks)


def _differences(board: Leaderboard, baseline: str, against: Mapping[str, PairComparison]) -> Html:
    columns = [Column("model"), Column("difference", 4, signed=True), Column("95% interval", 4), Column("p", 4)]
    columns += [Column("won", 0), Column("equal", 0), Column("lost", 0)]
    rows: Rows = []
    for row in (against[model] for model in board.models if model in against):
        ends = Cell(interval(row.interval, signed=True, absent=TOO_FEW_DIFFERENCES), "quiet")
        rows.append([row.system, row.difference, ends, shown_p(row.p), row.wins, row.ties, row.losses])
    caption = (
        f"Every model against {baseline}: difference in {shown_metric(board.metric)} with its "
        f"interval, p of the randomisation test after Holm's correction for {counted(len(rows), 'comparison')}, and "
        "queries won and lost."
    )
    return table(caption, columns, rows)


def _pair(board: Leaderboard, baseline: str) -> tuple[list[tuple[str, str]], np.ndarray, np.ndarray]:
    before, after = board.values.columns[baseline], board.values.columns[board.best.model]
    known = ~np.isnan(before + after)
    return [key for key, is_known in zip(board.values.keys, known) if is_known], before[known], after[known]


def _scatter(board: Leaderboard, baseline: str, before: np.ndarray, after: np.ndarray) -> Html:
    best, metric = board.best.model, shown_metric(board.metric)
    over, under = int(np.sum(after > before)), int(np.sum(after < before))
    label, axes = f"{metric} of each query, {baseline} and {best}", (f"{metric}, {baseline}", f"{metric}, {best}")
    picture = charts.scatter("pair", label, before, after, *axes)
    part = f" {charts.POINTS:,} of {len(before):,} queries are drawn." if len(before) > charts.POINTS else ""
    return figure(
        picture,
        f"Each dot is one query. Above the diagonal {best} has the higher value ({counted(over, 'query', 'queries')}), "
        f"below it {baseline} ({counted(under, 'query', 'queries')}). The further a dot is from the diagonal, the more "
        f"the two rankings of that query differ.{part}",
    )


def _waterfall(board: Leaderboard, baseline: str, gains: np.ndarray) -> Html:
    metric = shown_metric(board.metric)
    picture = charts.waterfall("gains", f"Gain in {metric} of each query, sorted", gains, f"gain in {metric}")
    won, lost = float(gains[gains > 0].sum()), float(-gains[gains < 0].sum())
    return figure(
        picture,
        f"The gain of {board.best.model} over {baseline} on each query, sorted: {number(won, 2)} won in total, "
        f"{number(lost, 2)} lost. A mean can hide many losses behind a few large wins; here both can be seen.",
    )


def _wins(board: Leaderboard, baseline: str, against: Mapping[str, PairComparison]) -> Html:
    shown = [model for model in board.models if model in against][:_BARS]
    counts = [(against[model].wins, against[model].ties, against[model].losses) for model in shown]
    picture = charts.shares("wins", f"Queries won, equal and lost against {baseline}", shown, counts)
    return figure(
        picture,
        f"Queries that each model ranks better than {baseline}, equally well and worse, by "
        f"{shown_metric(board.metric)}; models in the order of the leaderboard.",
    )


def _moved(board: Leaderboard, baseline: str, words: str, rows: Sequence[tuple[tuple[str, str], float, float]]) -> Html:
    caption = f"{words} of {board.best.model} (best) against {baseline}, by {shown_metric(board.metric)}."
    columns = [Column("query"), Column("fold"), Column("baseline", 4), Column("best", 4), Column("difference", 4, True)]
    return table(caption, columns, [[query, fold, one, two, two - one] for (fold, query), one, two in rows])


def hard_queries(board: Leaderboard, chosen: Sequence[str], baseline: str | None) -> Section:
    """The queries with the lowest mean over the models, and a longer table for looking up."""
    ordered, metric = hardness(board), shown_metric(board.metric)
    models = list(dict.fromkeys([*chosen, *([baseline] if baseline else [])]))
    columns = [Column("query"), Column("fold"), Column("mean of models", 4), *(Column(model, 4) for model in models)]
    rows: Rows = []
    for position, mean in ordered[:_QUERIES]:
        fold, query = board.values.keys[position]
        rows.append([query, fold, mean, *(float(board.values.columns[model][position]) for model in models)])
    over = f"mean over {counted(len(board.models), 'model')}"
    same = len(board.values.keys) - len(ordered)
    alike = f" {counted(same, 'query', 'queries')} on which all models score the same, or none at all, are left out."
    hardest = f"The {min(_HARD, len(rows))} hardest queries: {metric} under {board.policy}, {over}."
    hardest += alike if same else ""
    blocks = [table(hardest, columns, rows[:_HARD])] if rows else []
    if len(rows) > _HARD:
        title = f"All {len(rows)} queries, the hardest first"
        if len(ordered) > len(rows):
            title = f"The {len(rows)} hardest of {len(ordered):,} queries; the others are in queries.csv"
        blocks.append(folded(title, table(f"{title}: {metric} per query.", columns, rows), printed=False))
    return Section("queries", "Hardest queries", blocks)
