"""Tables of a report: numbers right-aligned with fixed decimals, in a box that scrolls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podium.lab.report.page import Html, text

NOTHING = "\N{EN DASH}"


@dataclass(frozen=True)
class Column:
    """`decimals` of its numbers; None for a column of text."""

    name: str
    decimals: int | None = None
    signed: bool = False
    wide: bool = False  # text of several words


@dataclass(frozen=True)
class Cell:
    """A value with another look: "best", "ours", "quiet"."""

    value: Value
    look: str


Value = str | float | int | None
Rows = list[list[Value | Cell]]


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Value | Cell]]) -> Html:
    """A table under its caption, which stays when the table scrolls; the first column names the rows."""
    head = "".join(f'<th scope="col"{_align(column)}>{text(column.name)}</th>' for column in columns)
    body = "\n".join(f"<tr>{_cells(columns, row)}</tr>" for row in rows)
    return Html(
        f'<div class="table"><p class="caption">{text(caption)}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(caption)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></div>"
    )


def number(value: float, decimals: int = 4, signed: bool = False) -> str:
    """Fixed decimals, thousands apart, no minus before a zero; a dash for what is undefined."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:+z,.{decimals}f}" if signed else f"{value:z,.{decimals}f}"


def interval(ends: tuple[float, float], decimals: int = 4, signed: bool = False, absent: str = NOTHING) -> str:
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)):
        return absent
    return f"{number(low, decimals, signed)} to {number(high, decimals, signed)}"


def _cells(columns: Sequence[Column], row: Sequence[Value | Cell]) -> str:
    return "".join(_cell(column, value, number == 0) for number, (column, value) in enumerate(zip(columns, row)))


def _cell(column: Column, content: Value | Cell, first: bool) -> str:
    value, look = (content.value, content.look) if isinstance(content, Cell) else (content, "")
    kinds = ("n" if column.decimals is not None else "", "wide" if column.wide else "", look)
    names = " ".join(name for name in kinds if name)
    kind = f' class="{names}"' if names else ""
    shown = text(_shown(column, value))
    return f'<th scope="row"{kind}>{shown}</th>' if first else f"<td{kind}>{shown}</td>"


def _shown(column: Column, value: Value) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, str) or column.decimals is None:
        return str(value)
    return number(value, column.decimals, column.signed)


def _align(column: Column) -> str:
    return "" if column.decimals is None else ' class="n"'
