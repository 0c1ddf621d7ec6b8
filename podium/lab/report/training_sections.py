"""Sections about training: learning curves, importances, cost against quality, and what tuning tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.lab.experiments.records import ModelRun, Search
from podium.lab.experiments.results import Results
from podium.lab.report import charts
from podium.lab.report.charts import Curve
from podium.lab.report.page import Block, Section, figure, folded, paragraph, side_by_side
from podium.lab.report.sections import shown_metric
from podium.lab.report.statistics import Leaderboard, higher_is_better
from podium.lab.report.tables import NOTHING, Column, Rows, table
from podium.lab.tuning.tuning import is_maximised, rank_trials

_CURVES = 12  # models
_FOLDS = 5  # lines per set
_FEATURES = 15
_LEAST_SHARE = 0.001  # that a bar can show
_TRIALS = 40  # rows of a table
_FRONT = 4  # models named in a caption


def learning_curves(results: Results, board: Leaderboard) -> Section:
    """One chart per model with curves, the best models first."""
    models = [model for model in board.models if any(run.curves for run in results.of(model))]
    blocks = [_learning_curve(results, model, number) for number, model in enumerate(models[:_CURVES])]
    left = len(models) - len(blocks)
    note = f"{counted(left, 'more model')} further down the leaderboard also have curves."
    notes = [paragraph(note)] if left > 0 else []
    return Section("curves", "Learning curves", [side_by_side(blocks), *notes] if blocks else [], len(blocks) < 2)


def _learning_curve(results: Results, model: str, number: int) -> Block:
    runs = _first_seeds(results.of(model))
    metric = next(iter(next(iter(runs[0].curves.values()))))
    sets = list(dict.fromkeys(name for run in runs for name in run.curves if run.curves[name].get(metric)))
    lines = [
        Curve(name, range(1, len(curve) + 1), curve, series, _best_step(run, name, metric))
        for series, name in enumerate(sets[: charts.SERIES])
        for run in runs
        if (curve := run.curves.get(name, {}).get(metric))
    ]
    label, axis = f"Learning curves of {model}", shown_metric(metric)
    picture = charts.curves(f"curve-{number}", label, lines, "step", axis, markers=False)
    steps = [line.mark + 1 for line in lines if line.name == sets[0] and line.mark is not None]
    chosen = f"step {steps[0]}" if len(set(steps)) == 1 else f"steps {min(steps)} to {max(steps)}"
    one = " One line per fold (first seed)." if len(runs) > 1 else ""
    dots = "the dots are the best values" if len(runs) > 1 else "the dot is the best value"
    return figure(picture, f"{model}: {dots} on “{sets[0]}”, at {chosen}.{one}")


def _first_seeds(runs: Sequence[ModelRun]) -> list[ModelRun]:
    """One run with curves per fold."""
    first: dict[str, ModelRun] = {}
    for run in runs:
        if run.curves and all(run.curves.values()):
            first.setdefault(run.fold, run)
    return list(first.values())[:_FOLDS]


def _best_step(run: ModelRun, name: str, metric: str) -> int | None:
    """Where the first set is best: that is what a step is chosen by."""
    first = next(iter(run.curves))
    if name != first:
        return None
    values = np.asarray(run.curves[first][metric], dtype=np.float64)
    if np.isnan(values).all():
        return None
    return int(np.nanargmax(values) if _rises(metric) else np.nanargmin(values))


def _rises(metric: str) -> bool:
    try:
        return higher_is_better(metric)
    except ValueError:  # a loss, not one of the metrics
        return False


def importances(results: Results, board: Leaderboard) -> Section:
    """What the best model that reports importances uses, as a chart; the others in tables."""
    models = [model for model in board.models if any(run.importances for run in results.of(model))]
    blocks = [_importance_chart(model, _shares(results.of(model)))] if (model := next(iter(models), "")) else []
    if models[1:]:
        tables = [_importance_table(other, results, number) for number, other in enumerate(models[1:], 2)]
        blocks.append(folded(f"Importances of {counted(len(tables), 'other model')}", *tables))
    return Section("importances", "Features", blocks, narrow=True)


def _importance_table(model: str, results: Results, number: int) -> Block:
    columns = [Column("feature"), Column("share", 4), Column("deviation", 4)]
    rows: Rows = [[*share] for share in _shares(results.of(model))[:_FEATURES]]
    return table(f"importances-{number}", f"{model}: the most important features.", columns, rows)


def _shares(runs: Sequence[ModelRun]) -> list[tuple[str, float, float]]:
    """(feature, mean share of the total importance over the runs, standard deviation), the largest first."""
    names = list(dict.fromkeys(name for run in runs for name in run.importances))
    importances = [run.importances for run in runs if run.importances]
    shares = np.array([[one.get(name, 0.0) for name in names] for one in importances], dtype=np.float64)
    totals = np.abs(shares).sum(axis=1, keepdims=True)
    shares = shares / np.where(totals > 0, totals, 1.0)
    order = np.argsort(-shares.mean(axis=0), kind="stable")
    deviations = shares.std(axis=0)
    return [(names[f], float(shares[:, f].mean()), float(deviations[f])) for f in order]


def _importance_chart(model: str, shares: Sequence[tuple[str, float, float]]) -> Block:
    shown = [row for row in shares[:_FEATURES] if row[1] >= _LEAST_SHARE] or shares[:1]
    names, sizes, spreads = zip(*shown)
    picture = charts.bars(
        "importances", f"Importance of features for {model}", names, sizes, spreads, "share of importance"
    )
    covered = 100 * sum(sizes)
    bars = " The thin lines are standard deviations over folds and seeds." if any(spreads) else ""
    return figure(
        picture,
        f"{model}: the {len(shown)} most important of {counted(len(shares), 'feature')}, {covered:.0f}% of the total."
        f"{bars}",
    )


def cost(results: Results, board: Leaderboard) -> Section:
    """Time, memory and size per run, alone and against quality."""
    rows: Rows = []
    for row in board.rows:
        runs = results.of(row.model)
        fit, predict = np.mean([(run.fit_seconds, run.predict_seconds) for run in runs], axis=0).tolist()
        memory, size = (max(getattr(run, name) for run in runs) for name in ("peak_memory", "model_bytes"))
        rows.append([row.model, row.rank, row.mean, fit or None, predict or None])
        rows[-1] += [memory / 1e6 or None, size / 1e3 or None]
    columns = [Column("model"), Column("rank", 0), Column(shown_metric(board.metric), board.decimals)]
    columns += [Column("training, s", 2)]
    columns += [Column("scoring, s", 3), Column("peak memory, MB", 1), Column("model file, kB", 1)]
    caption = "Seconds are means over runs; memory (of the whole process) and file size are the largest of a run."
    pictures = [
        picture
        for name, what in (("fit_seconds", "training, seconds per run"), ("peak_memory", "peak memory, MB"))
        for picture in _cost_charts(results, board, name, what)
    ]
    made = table("cost", caption, columns, rows)
    return Section("cost", "Cost", [side_by_side(pictures), made] if pictures else [made], narrow=not pictures)


def _cost_charts(results: Results, board: Leaderboard, name: str, what: str) -> list[Block]:
    unit = 1e6 if name == "peak_memory" else 1.0
    costs = {model: float(np.mean([getattr(run, name) for run in results.of(model)])) / unit for model in board.models}
    shown = [row for row in board.rows if costs[row.model] > 0 and math.isfinite(row.mean)]
    if len(shown) < 3:
        return []
    spent, metric = [costs[row.model] for row in shown], shown_metric(board.metric)
    sign = 1 if higher_is_better(board.metric) else -1
    front = _front(spent, [sign * row.mean for row in shown])
    picture = charts.costs(f"cost-{name}", f"{metric} against {what}", shown, spent, front, what, metric)
    named = ", ".join(f"{shown[number].rank} {shown[number].model}" for number in front[::-1][:_FRONT])
    named += f" and {len(front) - _FRONT} more" if len(front) > _FRONT else ""
    return [
        figure(
            picture,
            f"{metric} against {what}. Numbers are ranks (where there is room). On the line, no model is both cheaper "
            f"and better: {named}.",
        )
    ]


def _front(cost: Sequence[float], quality: Sequence[float]) -> list[int]:
    """Places that nothing dominates, the cheapest first: cost (1, 2, 3) and quality (5, 4, 6) -> [0, 2]."""
    front: list[int] = []
    for number in sorted(range(len(cost)), key=lambda number: (cost[number], -quality[number])):
        if not front or quality[number] > quality[front[-1]]:
            front.append(number)
    return front


def tuning(results: Results, board: Leaderboard) -> Section:
    """How the settings were chosen: the values per fold, the course of the search, and its best trials."""
    by_model = {model: [search for search in results.searches if search.model == model] for model in board.models}
    tuned = {model: searches for model, searches in by_model.items() if searches}
    blocks = [_trial_chart(model, searches, number) for number, (model, searches) in enumerate(tuned.items())]
    texts = [_search_texts(model, searches, number) for number, (model, searches) in enumerate(tuned.items(), 1)]
    return Section("tuning", "Tuning", [side_by_side(blocks), *texts] if tuned else [])


def _trial_chart(model: str, searches: Sequence[Search], number: int) -> Block:
    values = {search.fold: [trial.value for trial in search.trials] for search in searches}
    criterion = searches[0].criterion
    picture = charts.trials(f"tuning-{number}", f"Trials of {model}", values, criterion, is_maximised(criterion))
    count = sum(map(len, values.values()))
    lost = count - sum(value is not None for values_of_fold in values.values() for value in values_of_fold)
    stopped = f", {lost} of them stopped early or failed" if lost else ""
    return figure(
        picture,
        f"{model}: {counted(count, 'trial')} in {counted(len(values), 'fold')}{stopped}. Dots are trials, lines the "
        "best so far (one per fold); lines that are still rising at the end say that more trials would pay.",
    )


def _search_texts(model: str, searches: Sequence[Search], number: int) -> Block:
    names = list(dict.fromkeys(name for search in searches for name in search.chosen))
    columns = [*map(Column, ("fold", *names)), Column("best", 4), Column("trials", 0), Column("seconds", 1)]
    rows: Rows = []
    for search in searches:
        settings = [_setting(search.chosen.get(name)) for name in names]
        fold = search.fold if len(searches) > 1 else None
        rows.append([fold, *settings, search.best_value, len(search.trials), search.seconds])
    caption = f"{model}: the values chosen by {searches[0].criterion}, per fold."
    chosen = table(f"chosen-{number}", caption, columns, rows)
    return folded(f"{model}: chosen values and trials", chosen, _trial_table(model, searches, number))


def _trial_table(model: str, searches: Sequence[Search], number: int) -> Block:
    trials = {(search.fold, number): one for search in searches for number, one in enumerate(search.trials, 1)}
    order = rank_trials(trials, searches[0].criterion)
    columns = [Column("fold"), Column("trial", 0), Column("value", 4), Column("step", 0), Column("seconds", 1)]
    columns += [Column("settings", wide=True), Column("note")]
    rows: Rows = []
    for key in order[:_TRIALS]:
        (fold, position), trial = key, trials[key]
        settings = ", ".join(f"{name}={_setting(value)}" for name, value in trial.settings.items())
        cells = [position, trial.value, trial.step, trial.seconds, settings or "defaults", trial.note]
        rows.append([fold if len(searches) > 1 else None, *cells])
    rest = f"; {len(trials) - _TRIALS} more are in searches/" if len(trials) > _TRIALS else ""
    return table(f"trials-{number}", f"{model}: trials, the best first{rest}.", columns, rows)


def _setting(value: Any) -> str:
    return NOTHING if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
