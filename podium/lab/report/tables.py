"""Tables of a report: numbers right-aligned with fixed decimals, in a box that scrolls; also as CSV and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from podium._runtime.markup import csv_table, latex_table, latex_text
from podium.lab.report.page import Block, File, Html, text

NOTHING = "\N{EN DASH}"
MOST_DECIMALS = 4


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


def table(name: str, caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Value | Cell]]) -> Block:
    """A table under its caption, which stays when the table scrolls; the first column names the rows.

    name: of its files, different for each table of a report. Columns in which no row has anything are left out.
    """
    filled = [position for position in range(len(columns)) if not rows or any(_content(row[position]) for row in rows)]
    columns, rows = [columns[position] for position in filled], [[row[position] for position in filled] for row in rows]
    kinds = ("" if column.decimals is None else ' class="n"' for column in columns)
    head = "".join(f'<th scope="col"{kind}>{text(column.name)}</th>' for column, kind in zip(columns, kinds))
    cells = ("".join(_cell(*pair, n == 0) for n, pair in enumerate(zip(columns, row))) for row in rows)
    body = "\n".join(f"<tr>{cells_of_row}</tr>" for cells_of_row in cells)
    file = File(name, _csv(columns, rows), _latex(caption, columns, rows))
    shown = Html(
        f'<div class="table"><p class="caption">{text(caption)}{_links(file)}</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(caption)}"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></div>"
    )
    return Block(shown, (file,))


def _content(value: Value | Cell) -> bool:
    """Whether there is anything to be read."""
    plain = value.value if isinstance(value, Cell) else value
    return plain not in (None, "", NOTHING) and not (isinstance(plain, float) and math.isnan(plain))


def _links(file: File) -> str:
    """The table as two files within the page: they need neither a network nor a script."""
    kinds = ("CSV", "csv", "text/csv", file.csv), ("LaTeX", "tex", "text/plain", file.latex)
    links = (
        f'<a download="{text(file.name)}.{ending}" href="data:{kind};charset=utf-8,{quote(content, safe=" ,;:/()+=")}" '
        f'aria-label="{text(file.name)} as {word}">{word}</a>'
        for word, ending, kind, content in kinds
    )
    return f' <span class="files">{" ".join(links)}</span>'


def _csv(columns: Sequence[Column], rows: Sequence[Sequence[Value | Cell]]) -> str:
    """Numbers with all their digits."""
    values = ([cell.value if isinstance(cell, Cell) else cell for cell in row] for row in rows)
    return csv_table([[column.name for column in columns], *values])


def _latex(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Value | Cell]]) -> str:
    """As the page shows it, the best values in bold type."""
    lines = [" & ".join(latex_text(column.name) for column in columns)]
    lines += [" & ".join(_latex_cell(*pair) for pair in zip(columns, row)) for row in rows]
    return latex_table(caption, "".join("l" if column.decimals is None else "r" for column in columns), lines)


def _latex_cell(column: Column, content: Value | Cell) -> str:
    value, look = (content.value, content.look) if isinstance(content, Cell) else (content, "")
    shown = latex_text(_shown(column, value).replace(NOTHING, "--"))
    return f"\\textbf{{{shown}}}" if look == "best" else shown


def decimals_within(width: float) -> int:
    """The decimals that an interval of this width allows: two digits of its half. 0.75 to 0.87, width 0.12 -> 3."""
    if not 0 < width < math.inf:
        return MOST_DECIMALS
    return min(MOST_DECIMALS, max(1, 1 - math.floor(math.log10(width / 2))))


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
