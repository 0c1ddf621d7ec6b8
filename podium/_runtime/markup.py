"""Tables as text of other programs: CSV for spreadsheets, LaTeX for papers, HTML for notebooks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after the end of a row, a bare [ or * would be read as its argument
    "*": "{*}",
}


def csv_table(rows: Iterable[Sequence[Any]], delimiter: str = ",") -> str:
    """One line per row; a number that is undefined or infinite is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row])
    return text.getvalue()


def latex_text(text: str) -> str:
    """Any text on one line, so that LaTeX prints it as it is."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def latex_table(caption: str, columns: str, lines: Iterable[str]) -> str:
    r"""A `tabular` for the booktabs package under a comment; the first line is the heading, `\midrule` stays alone."""
    heading, *rows = (line if line.startswith("\\midrule") else f"{line} \\\\" for line in lines)
    comments = [f"% {' '.join(line.split())}" for line in caption.splitlines()]
    top = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", heading, "\\midrule"]
    return "\n".join([*comments, *top, *rows, "\\bottomrule", "\\end{tabular}"])


def notebook_table(caption: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table for notebooks: text on the left, numbers on the right; everything is escaped."""
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in heading)
    lines = "".join(f"<tr>{''.join(map(_notebook_cell, row))}</tr>" for row in rows)
    head = f"<thead><tr>{head}</tr></thead>" if heading else ""
    above = f'<caption style="caption-side:top;text-align:left">{escape(caption)}</caption>'
    return f"<table>{above}{head}<tbody>{lines}</tbody></table>"


def _notebook_cell(value: Any) -> str:
    side = "right" if isinstance(value, (int, float)) and not isinstance(value, bool) else "left"
    shown = f"{value:.4f}" if isinstance(value, float) else str(value)
    return f'<td style="text-align:{side}">{escape(shown)}</td>'
