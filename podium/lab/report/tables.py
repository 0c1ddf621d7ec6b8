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
    kinds = ("" if column.decimals is None else ' class="n"' for column in columns)
    head = "".join(f'<th scope="col"{kind}>{text(column.name)}</th>' for column, kind in zip(columns, kinds))
    cells = ("".join(_cell(*pair, n == 0) for n, pair in enumerate(zip(columns, row))) for row in rows)
    body = "\n".join(f"<tr>{cells_of_row}</tr>" for cells_of_row in cells)
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


def shown_p(p: float) -> str:
    """A p-value with four decimals; none is shown as 0."""
    return "< 0.0001" if p < 0.0001 else number(p)


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
