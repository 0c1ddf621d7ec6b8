"""Tables of `podium lab` for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from podium._runtime.words import counted
from podium.cli.application import show
from podium.cli.terminal import console, number_table, print_table
from podium.evaluation.comparison import PairComparison
from podium.evaluation.intervals import TOO_FEW_DIFFERENCES
from podium.lab.experiments.running import Outcome
from podium.lab.report.leaderboard import Beside, Summary, leaderboard, published_beside
from podium.lab.report.sections import unrecorded_looks
from podium.lab.report.tables import shown_p


def print_outcome(outcome: Outcome) -> None:
    """The leaderboard under each policy, then published tables beside ours, then what is missing."""
    about, lines = outcome.results.about, leaderboard(outcome.results)
    for number, policy in enumerate(about["policies"]):
        console().print(_leaderboard(lines, about, policy, main=number == 0))
    if any(line.against for line in lines):
        show(_words_of_differences(about, lines))
    for table in _published(outcome):
        console().print(_beside(table, about["folds"]))
    for name, why in outcome.left_out.items():
        show(f"left out: {name}: {why}")
    if about.get("development"):
        show(f"A development set: {about['development']}.")
    if outcome.results.looks:
        show(f"The test parts were judged {counted(len(outcome.results.looks), 'time')} in this folder.")
    if outcome.results.unrecorded:
        show(unrecorded_looks(outcome.results.unrecorded))
    for name, row in outcome.rows.items():
        if name != row:
            show(f"{name}: its settings are not those of an earlier protocol; its row is {row}.")
    runs = counted(len(outcome.results.runs), "run")
    show(f"{outcome.folder}: {runs}; results.json, results.csv, queries.csv")


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "folder": str(outcome.folder),
        "runs": len(outcome.results.runs),
        "looks": len(outcome.results.looks),
        "runs_without_a_look": outcome.results.unrecorded,
        "protocols": outcome.results.about.get("protocols", []),
        "rows": dict(outcome.rows),
        "development": outcome.results.about.get("development", ""),
        "leaderboard": [line.as_dict() for line in leaderboard(outcome.results)],
        "published": [table.as_dict() for table in _published(outcome)],
        "left_out": outcome.left_out,
        "failures": [failure.__dict__ for failure in outcome.failures],
    }


def _published(outcome: Outcome) -> list[Beside]:
    """Published tables of models with runs, beside ours."""
    return [table for table in published_beside(outcome.results) if table.model in outcome.results.models]


def write_report(outcome: Outcome) -> Path | None:
    """report.html of the results, where matplotlib is installed."""
    if not outcome.results.runs or find_spec("matplotlib") is None:
        return None
    from podium.lab.report import write_report

    path = outcome.folder / "report.html"
    write_report(outcome.results, path)
    return path


def print_data(lines: Sequence[dict[str, Any]]) -> None:
    rows = []
    for line in lines:
        sizes = (f"{line[key]:,}" if line[key] is not None else "" for key in ("features", "queries", "rows"))
        rows.append([line["name"], *sizes, line["folder"] or "not found", ", ".join(line.get("folds", []))])
    print_table(("data set", "features", "queries", "rows", "found in", "folds"), rows)
    for line in lines:
        if line["advice"]:
            show(f"{line['name']}: {line['advice']}")
        if line["note"]:
            show(f"{line['name']}: {line['note']}")


def _leaderboard(lines: Sequence[Summary], about: dict[str, Any], policy: str, *, main: bool) -> Table:
    part = "validation part" if about.get("on") == "valid" else "test part"
    parts = counted(max((line.folds for line in lines), default=0), part)
    title = f"{about.get('title') or about['name']}: policy {policy}, mean of {parts} and of the seeds"
    compared = about["metrics"][:2] if main and any(line.against for line in lines) else []
    differences = (f"{metric}: {word}" for metric in compared for word in ("difference", "p"))
    columns = (*about["metrics"], *differences, *(("runs", "s per fit") if main else ()))
    table = number_table(title, "model", columns)
    for line in lines:
        cells = [_value(line.values[policy][metric]) for metric in about["metrics"]]
        cells += [cell for metric in compared for cell in _difference(line.against.get(metric))]
        cells += [str(line.n_runs), f"{line.fit_seconds:.2f}"] if main else []
        table.add_row(Text(line.model), *cells)
    return table


def _beside(beside: Beside, folds: Sequence[str]) -> Table:
    part = "validation" if beside.part == "valid" else "test"
    ours = f"ours ({beside.model}, policy {beside.policy}, {part} part)"
    title = f"{beside.title}: published, {ours} and the difference"
    known = any(not math.isnan(low) for low, _ in beside.intervals.values())
    table = number_table(title, "metric", (*(f"fold {fold}" for fold in folds), "mean", *(["95 %"] if known else [])))
    for metric, pairs in beside.rows.items():
        low, high = beside.intervals[metric]
        ends = [] if not known else [""] if math.isnan(low) else [f"{low:+.4f} to {high:+.4f}"]
        table.add_row(Text(metric), *(_pair(pair) for pair in (*pairs, beside.means[metric])), *ends)
    return table


def _pair(pair: tuple[float, float]) -> str:
    published, ours = pair
    if math.isnan(published) or math.isnan(ours):
        return _value(published)
    return f"{published:.4f} {ours:.4f} {ours - published:+.4f}"


def _value(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _difference(row: PairComparison | None) -> tuple[str, str]:
    """The difference with its interval, and p; nothing for the baseline."""
    if row is None or math.isnan(row.difference):
        return "", ""
    low, high = row.interval
    ends = TOO_FEW_DIFFERENCES if math.isnan(low) else f"{low:+.4f} to {high:+.4f}"
    return f"{row.difference:+.4f} ({ends})", "" if math.isnan(row.p) else shown_p(row.p)


def _words_of_differences(about: dict[str, Any], lines: Sequence[Summary]) -> str:
    part = "validation" if about.get("on") == "valid" else "test"
    words = f"Differences from {about['baseline']} with 95 % intervals over the queries of all {part} parts"
    several, test = sum(bool(line.against) for line in lines), "p of the randomisation test"
    return f"{words}; {test}{f', after Holm for {several} comparisons' if several > 1 else ''}."
