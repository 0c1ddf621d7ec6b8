"""A page about an AutoRanker: what was tried, what was picked and why. HTML or Markdown, plain tables, no scripts."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium._runtime.files import refuse_bad_target, write_whole
from podium._runtime.words import check_choice
from podium.pipelines.auto.criteria import criterion_words

if TYPE_CHECKING:
    from podium.pipelines.auto.autoranker import AutoRanker

PAGE_FORMATS = (".html", ".md")
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;padding:.25rem .75rem;border-bottom:1px solid #8884}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}"
)


def refuse_bad_page(path: Path) -> None:
    check_choice("--page: the suffix", path.suffix.lower(), PAGE_FORMATS)
    refuse_bad_target(path)


def write_page(model: AutoRanker, path: Path) -> None:
    text = html_page(model) if path.suffix.lower() == ".html" else markdown_page(model)
    with write_whole(path) as file:
        file.write(text.encode())


def tried_rows(model: AutoRanker) -> list[tuple[str, str, str, str]]:
    """What, division, trees and value of everything that was tried, as text."""
    return [(one["what"], _cell(one["division"]), _cell(one["trees"]), f"{one['value']:.4f}") for one in model.tried_]


def columns(model: AutoRanker) -> tuple[str, str, str, str]:
    return "tried", "division", "trees", criterion_words(model._fitted_criterion())


def html_page(model: AutoRanker) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns(model))
    body = "".join(_html_row(row) for row in tried_rows(model))
    reasons = "".join(f"<li>{escape(sentence)}</li>" for sentence in model.why())
    members = "".join(f"<li>{escape(name)}</li>" for name in _members(model))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>AutoRanker</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="generator" content="Podium">'
        f"<style>{_STYLE}</style></head><body><h1>AutoRanker</h1><p>{escape(_about(model))}</p>"
        f"<h2>What was picked</h2><ul>{reasons}</ul><h2>Members</h2><ul>{members}</ul>"
        f"<h2>What was tried</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></body></html>\n"
    )


def markdown_page(model: AutoRanker) -> str:
    head = columns(model)
    rows = [f"| {' | '.join(row)} |" for row in (head, *tried_rows(model))]
    lines = [rows[0], f"|{' --- |' * len(head)}", *rows[1:]]
    reasons, members = ([f"- {one}" for one in listed] for listed in (model.why(), _members(model)))
    parts = ["# AutoRanker", "", _about(model), "", "## What was picked", "", *reasons, "", "## Members", "", *members]
    return "\n".join([*parts, "", "## What was tried", "", *lines]) + "\n"


def _about(model: AutoRanker) -> str:
    names = ", ".join(type(member).__name__ for member in model.members_)
    return (
        f"A blend with equal weights of {names}, on {model.n_features_in_:,} features. Every value below is of queries "
        "that the models had not seen. Of a candidate the best number of trees is shown; blends are averaged over the "
        "divisions into folds."
    )


def _members(model: AutoRanker) -> list[str]:
    from podium.pipelines.auto.autoranker import read_plan

    members, weights = read_plan(model.plan_)
    return [f"{weight:.3g} x {' '.join(repr(member).split())}" for weight, member in zip(weights, members)]


def _html_row(row: tuple[str, ...]) -> str:
    first, *numbers = row
    cells = "".join(f'<td class="number">{escape(cell)}</td>' for cell in numbers)
    return f"<tr><td>{escape(first)}</td>{cells}</tr>"


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
