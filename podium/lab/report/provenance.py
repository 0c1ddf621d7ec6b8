"""The last sections of a report: what was run, on which data, with what, so that it can be run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from podium.lab.experiments.results import Results
from podium.lab.report.page import Block, Section, folded, paragraph, side_by_side
from podium.lab.report.tables import Column, Rows, table
from podium.metrics.policies import POLICIES

_LINES = 60  # of one part; the rest is in experiment.json
_PARTS = {"data": "Data, with checksums", "versions": "Versions", "hardware": "Hardware"}
_SETUP = {
    "title",
    "name",
    "published",
    "metrics",
    "policies",
    "folds",
    "seeds",
    "models",
    "left_out",
    "turns",
    "development",
    "query_texts",
    "examples",
}
_LINE_COLUMNS = [Column("what"), Column("value", wide=True)]
_SHOWN_OF_MODELS = {"description", "about", "settings"}


def provenance(results: Results) -> Section:
    about = results.about
    blocks = [_setup(about), _models(results)]
    parts = [_part(title, about[name]) for name, title in _PARTS.items() if about.get(name)]
    blocks += [side_by_side(parts)] if parts else []
    blocks += [*_left_out(about), *_warnings(results)]
    other = {name: value for name, value in about.items() if name not in _SETUP | _PARTS.keys()}
    if other:
        blocks.append(folded("Everything else in experiment.json", _part("Other settings", other)))
    blocks.append(
        paragraph("This page was made from the stored results alone: podium lab report FOLDER makes it again.")
    )
    return Section("provenance", "Provenance", blocks)


def _setup(about: Mapping[str, Any]) -> Block:
    rows: Rows = [
        ["experiment", str(about.get("name", ""))],
        ["metrics", ", ".join(map(str, about["metrics"]))],
        ["folds", ", ".join(map(str, about["folds"]))],
        ["seeds", ", ".join(map(str, about.get("seeds", ())))],
    ]
    rows += [[f"policy {name}", _policy(name)] for name in about["policies"]]
    caption = "The experiment. The first metric and the first policy rank the leaderboard."
    return table("experiment", caption, _LINE_COLUMNS, rows)


def _policy(name: str) -> str:
    """The rules of a policy in a line, as the table of policies has them."""
    policy = POLICIES.get(name)
    if policy is None:
        return "defined by the experiment"
    gain = policy.gain if isinstance(policy.gain, str) else "a table"
    return (
        f"gain {gain}, discount {policy.discount}, queries without relevant documents {policy.empty:g}, "
        f"lists shorter than k: {policy.short}, ties: {policy.ties}"
    )


def _models(results: Results) -> Block:
    columns = [Column("model"), Column("description", wide=True), Column("settings", wide=True), Column("more")]
    rows: Rows = []
    for name, about in results.about["models"].items():
        description = about.get("description") or about.get("about") or ""
        settings = ", ".join(f"{key}={value}" for key, value in (about.get("settings") or {}).items())
        rest = ", ".join(f"{key}: {value}" for key, value in about.items() if value and key not in _SHOWN_OF_MODELS)
        rows.append([name, str(description), settings or "defaults", rest])
    return table("models", "Models and the settings that the experiment gives them.", columns, rows)


def _left_out(about: Mapping[str, Any]) -> Iterator[Block]:
    """Models of the experiment that could not be run here, and why."""
    if about.get("left_out"):
        rows: Rows = [[name, str(why)] for name, why in about["left_out"].items()]
        yield table("left-out", "Models that were left out.", [Column("model"), Column("why", wide=True)], rows)


def _warnings(results: Results) -> Iterator[Block]:
    """What was warned of while models were trained, each once per model."""
    counts = Counter((run.model, note) for run in results.runs for note in run.notes)
    rows: Rows = [[model, count, note] for (model, note), count in counts.most_common(_LINES)]
    if rows:
        columns = [Column("model"), Column("runs", 0), Column("warning", wide=True)]
        warned = table("warnings", "Warnings of trainings, and in how many runs.", columns, rows)
        yield folded(f"Warnings: {len(counts)}", warned)


def _part(title: str, content: Any) -> Block:
    rows = list(_flat(content))
    left = len(rows) - _LINES
    shown: Rows = [[name, value] for name, value in rows[:_LINES]]
    caption = f"{title}{f'; {left} more lines are in experiment.json' if left > 0 else ''}."
    made = table(title.split(",")[0].lower().replace(" ", "-"), caption, _LINE_COLUMNS, shown)
    return folded(f"{title}: {len(rows)} lines", made) if len(rows) > 20 else made


def _flat(content: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as lines: {"a": {"b": 1, "c": [2, 3]}} -> ("a b", "1"), ("a c", "2, 3")."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _flat(value, f"{name} {key}".strip())
    elif isinstance(content, list) and any(isinstance(value, (Mapping, list)) for value in content):
        for number, value in enumerate(content, 1):
            yield from _flat(value, f"{name} {number}".strip())
    elif isinstance(content, list):
        yield name, ", ".join(map(str, content))
    else:
        yield name, str(content)
