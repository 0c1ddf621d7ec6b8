"""Ranked lists of single queries beside each other: what a reader of the ranking sees before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podium.lab.experiments.results import Results
from podium.lab.report.page import Block, Section, heading, side_by_side
from podium.lab.report.tables import Column, Rows, table

_COLUMNS = [Column("rank", 0), Column("document", wide=True), Column("grade", 0), Column("rank before", 0)]


def examples(results: Results) -> Section:
    """The lists that were stored as examples: per query one list per system, the first one is before the others."""
    stored: Sequence[Mapping[str, Any]] = results.about.get("examples", [])
    blocks = [block for number, example in enumerate(stored, 1) for block in _example(number, example)]
    return Section("examples", "Before and after", blocks)


def _example(number: int, example: Mapping[str, Any]) -> list[Block]:
    """One query: its text, and its lists."""
    lists, before = [], dict[str, int]()
    for position, (system, hits) in enumerate(example["lists"].items()):
        rows: Rows = [
            [rank, hit.get("title") or hit["id"], hit.get("grade"), hit.get("before") or before.get(hit["id"])]
            for rank, hit in enumerate(hits, 1)
        ]
        lists.append(table(f"example-{number}-{position + 1}", f"The first {len(rows)} of {system}.", _COLUMNS, rows))
        before = before or {hit["id"]: rank for rank, hit in enumerate(hits, 1)}
    return [heading(f"“{example['text']}” ({example['query']})"), side_by_side(lists)]
