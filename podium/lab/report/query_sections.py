"""Sections about single queries: where two models differ, wins and losses, and which queries are hard for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.evaluation.comparison import PairComparison
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES
from podium.lab.experiments.results import Results
from podium.lab.report import charts
from podium.lab.report.page import Block, Section, figure, folded, side_by_side, stacked
from podium.lab.report.sections import shown_metric
from podium.lab.report.statistics import Leaderboard, hardness, higher_is_better
from podium.lab.report.tables import Cell, Column, Rows, Value, decimals_within, interval, number, shown_p, table

_MOVED = 10  # queries that gained or lost most
_HARD = 20
_QUERIES = 500  # of the long table
_BARS = 40  # models
QUERY_COLUMNS = Column("query"), Column("text", wide=True), Column("fold")


@dataclass(frozen=True)
class Queries:
    """How queries are shown: with their texts where these are known, with folds where there are several."""

    texts: Mapping[str, str]
    has_folds: bool

    @classmethod
    def of(cls, results: Results) -> Queries:
        return cls(results.about.get("query_texts", {}), len(results.about["folds"]) > 1)

    def cells(self, key: tuple[str, str]) -> list[Value | Cell]:
        """Without folds or texts the cells are empty, and the table leaves the column out."""
        fold, query = key
        return [query, self.texts.get(query), fold if self.has_folds else None]


def against_baseline(
    board: Leaderboard, baseline: str, against: Mapping[str, PairComparison], queries: Queries
) -> Section:
    """Every model against the baseline, and the best one query by query."""
    keys, before, after = _pair(board, baseline)
    gains = (after - before) * (1 if higher_is_better(board.metric) else -1)
    blocks = [_differences(board, baseline, against)]
    if len(keys):
        right = stacked([_waterfall(board, baseline, gains), _wins(board, baseline, against)])
        pictures = [_scatter(board, baseline, before, after), right]
        order = np.argsort(-gains, kind="stable")
        won, lost = order[gains[order] > 0][:_MOVED], order[::-1][gains[order[::-1]] < 0][:_MOVED]
        tables = [
            _moved(board, baseline, words, [(queries.cells(keys[n]), before[n], after[n]) for n in numbers])
            for numbers, words in ((won, "wins"), (lost, "losses"))
        ]
        blocks += [side_by_side(pictures), side_by_side(tables)]
    return Section("baseline", "Against the baseline", blocks)


def _differences(board: Leaderboard, baseline: str, against: Mapping[str, PairComparison]) -> Block:
    compared = [against[model] for model in board.models if model in against]
    decimals = max((decimals_within(row.interval[1] - row.interval[0]) for row in compared), default=4)
    columns = [Column("model"), Column("difference", decimals, signed=True), Column("95% interval", decimals)]
    columns += [Column("p", 4), Column("won", 0), Column("equal", 0), Column("lost", 0), Column("remark", wide=True)]
    rows: Rows = []
    for row in compared:
        ends = Cell(interval(row.interval, decimals, signed=True, absent=TOO_FEW_DIFFERENCES), "quiet")
        counts = [row.wins, row.ties, row.losses]
        rows.append([row.system, row.difference, ends, shown_p(row.p), *counts, row.disagreement or None])
    caption = (
        f"Every model against {baseline}: difference in {shown_metric(board.metric)} with its "
        f"interval, p of the randomisation test after Holm's correction for {counted(len(rows), 'comparison')}, and "
        "queries won and lost."
    )
    return table("against-baseline", caption, columns, rows)


def _pair(board: Leaderboard, baseline: str) -> tuple[list[tuple[str, str]], np.ndarray, np.ndarray]:
    before, after = board.values.columns[baseline], board.values.columns[board.best.model]
    known = ~np.isnan(before + after)
    return [key for key, is_known in zip(board.values.keys, known) if is_known], before[known], after[known]


def _scatter(board: Leaderboard, baseline: str, before: np.ndarray, after: np.ndarray) -> Block:
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


def _waterfall(board: Leaderboard, baseline: str, gains: np.ndarray) -> Block:
    metric = shown_metric(board.metric)
    picture = charts.waterfall("gains", f"Gain in {metric} of each query, sorted", gains, f"gain in {metric}")
    won, lost = float(gains[gains > 0].sum()), float(-gains[gains < 0].sum())
    return figure(
        picture,
        f"The gain of {board.best.model} over {baseline} on each query, sorted: {number(won, 2)} won in total, "
        f"{number(lost, 2)} lost. A mean can hide many losses behind a few large wins; here both can be seen.",
    )


def _wins(board: Leaderboard, baseline: str, against: Mapping[str, PairComparison]) -> Block:
    shown = [model for model in board.models if model in against][:_BARS]
    counts = [(against[model].wins, against[model].ties, against[model].losses) for model in shown]
    picture = charts.shares("wins", f"Queries won, equal and lost against {baseline}", shown, counts)
    return figure(
        picture,
        f"Queries that each model ranks better than {baseline}, equally well and worse, by "
        f"{shown_metric(board.metric)}; models in the order of the leaderboard.",
    )


def _moved(board: Leaderboard, baseline: str, words: str, rows: Sequence[tuple[list[Value | Cell], Any, Any]]) -> Block:
    caption = f"Biggest {words} of {board.best.model} (best) against {baseline}, by {shown_metric(board.metric)}."
    columns = [*QUERY_COLUMNS, Column("baseline", 4), Column("best", 4), Column("difference", 4, True)]
    return table(words, caption, columns, [[*cells, one, two, two - one] for cells, one, two in rows])


def hard_queries(board: Leaderboard, chosen: Sequence[str], baseline: str | None, queries: Queries) -> Section:
    """The queries with the lowest mean over the models, and a longer table for looking up."""
    ordered, metric = hardness(board), shown_metric(board.metric)
    models = list(dict.fromkeys([*chosen, *([baseline] if baseline else [])]))
    columns = [*QUERY_COLUMNS, Column("mean of models", 4), *(Column(model, 4) for model in models)]
    rows: Rows = []
    for position, mean in ordered[:_QUERIES]:
        cells = queries.cells(board.values.keys[position])
        rows.append([*cells, mean, *(float(board.values.columns[model][position]) for model in models)])
    over = f"mean over {counted(len(board.models), 'model')}"
    same = len(board.values.keys) - len(ordered)
    alike = f" {counted(same, 'query', 'queries')} on which all models score the same, or none at all, are left out."
    hardest = f"The {min(_HARD, len(rows))} hardest queries: {metric} under {board.policy}, {over}."
    hardest += alike if same else ""
    blocks = [table("hardest-queries", hardest, columns, rows[:_HARD])] if rows else []
    if len(rows) > _HARD:
        title = f"All {len(rows)} queries, the hardest first"
        if len(ordered) > len(rows):
            title = f"The {len(rows)} hardest of {len(ordered):,} queries; the others are in queries.csv"
        whole = table("queries", f"{title}: {metric} per query.", columns, rows)
        blocks.append(folded(title, whole, printed=False))
    return Section("queries", "Hardest queries", blocks)
