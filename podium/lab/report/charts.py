"""Charts of a report: SVG to be put into the page, drawn by matplotlib, which is imported on first use.

Matplotlib draws with placeholder colours; they become CSS variables of the page, so that a chart follows light and
dark, and its text has the font of the page. Series differ by colour (safe for colour-blind readers), dashes and
markers. The same numbers give the same bytes. Figures are as wide as a phone, so that their text stays readable there.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.lab.report.page import Html, text
from podium.lab.report.statistics import Row

SERIES = 6  # lines that a reader can distinguish
POINTS = 2_000  # of a scatter
_WIDTH, _HEIGHT = 4.7, 3.1  # inches, of 72 units each
_STEPS = 150  # points of a curve
_NAME = 24  # characters
_LEGEND_NAME = 20

_INK, _QUIET, _LINE, _FAINT, _PAGE = "#0a0b01", "#0a0b02", "#0a0b03", "#0a0b04", "#0a0b05"
_COLOURS = [f"#0a0c0{number}" for number in range(SERIES)]
_VARIABLES = {_INK: "currentColor", _QUIET: "var(--quiet)", _LINE: "var(--line)", _FAINT: "var(--faint)"}
_VARIABLES |= {_PAGE: "var(--page)"} | {colour: f"var(--s{number})" for number, colour in enumerate(_COLOURS)}
_DASHES = ["-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), "-"]
_MARKERS = ["o", "s", "^", "D", "v", "x"]
_STYLE: Any = {
    **{"svg.hashsalt": "podium", "svg.fonttype": "none", "text.parse_math": False},  # names are no formulas
    **{"font.size": 9.5, "axes.labelsize": 9.5, "legend.frameon": False, "grid.linewidth": 0.6},
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 9),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _LINE),
    **dict.fromkeys(("axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), _QUIET),
    **{"text.color": _INK, "axes.spines.top": False, "axes.spines.right": False},
    **{"axes.axisbelow": True, "axes.unicode_minus": True},
}


@dataclass(frozen=True)
class Curve:
    """A line of a chart; `series` chooses its look, `mark` is a point on it to be shown."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    series: int = 0
    mark: int | None = None


def refuse_without_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("The report needs matplotlib. Install it with: pip install 'podium[report]'") from error


def intervals(key: str, label: str, rows: Sequence[Row], leaders: Sequence[str], axis: str) -> Html:
    """One line per model: its mean as a dot, its interval as a bar; the leaders are filled."""

    def draw(axes: Any) -> None:
        for line, row in enumerate(rows):
            leading, (low, high) = row.model in leaders, row.interval
            colour = _COLOURS[0] if leading else _COLOURS[5]
            if math.isfinite(low):
                axes.plot([low, high], [line, line], color=colour, linewidth=2.2, solid_capstyle="round")
            look = {"markerfacecolor": colour if leading else _PAGE, "markersize": 5.5, "markeredgewidth": 1.4}
            axes.plot([row.mean], [line], "o", color=colour, **look)
        _names(axes, [row.model for row in rows])
        axes.grid(axis="x")
        axes.set_xlabel(axis)

    return _drawn(key, label, draw, 0.75 + 0.235 * len(rows))


def curves(
    key: str,
    label: str,
    lines: Sequence[Curve],
    x_axis: str,
    y_axis: str,
    *,
    markers: bool = True,
    ticks: Sequence[float] | None = None,
) -> Html:
    """Lines, with a legend that names each series once."""

    def draw(axes: Any) -> None:
        named: set[str] = set()
        for line in lines:
            name = "_nolegend_" if line.name in named else _short(line.name, _LEGEND_NAME)
            named.add(line.name)
            look: dict[str, Any] = {"color": _COLOURS[line.series], "linestyle": _DASHES[line.series]}
            look |= {"linewidth": 1.0} if not markers else {"marker": _MARKERS[line.series], "markersize": 4}
            shown = _thinned(len(line.x))
            axes.plot(np.asarray(line.x)[shown], np.asarray(line.y)[shown], label=name, **look)
            if line.mark is not None:
                spot = {"color": _COLOURS[line.series], "markersize": 6, "markeredgecolor": _PAGE, "zorder": 5}
                axes.plot([line.x[line.mark]], [line.y[line.mark]], "o", **spot)
        if ticks is not None:
            axes.set_xticks(ticks)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y")
        axes.set(xlabel=x_axis, ylabel=y_axis)
        _legend(axes, len(named), wide=True)

    return _drawn(key, label, draw, _HEIGHT + 0.16 * math.ceil(len({line.name for line in lines}) / 2))


def scatter(key: str, label: str, x: np.ndarray, y: np.ndarray, x_axis: str, y_axis: str) -> Html:
    """Two values per query, and the diagonal on which they are equal."""

    def draw(axes: Any) -> None:
        shown = _thinned(len(x), POINTS)
        low, high = float(min(x.min(), y.min())), float(max(x.max(), y.max()))
        room = 0.03 * (high - low or 1)
        axes.plot([low, high], [low, high], color=_QUIET, linewidth=1, linestyle="--")
        axes.plot(x[shown], y[shown], "o", color=_COLOURS[0], alpha=0.45, markersize=4, markeredgewidth=0)
        axes.set(xlim=(low - room, high + room), ylim=(low - room, high + room), aspect="equal")
        axes.grid()
        axes.set(xlabel=_short(x_axis, 44), ylabel=_short(y_axis, 44))

    return _drawn(key, label, draw, 4.3)


def waterfall(key: str, label: str, gains: np.ndarray, axis: str) -> Html:
    """The gain of each query, the largest first: what is won on the left, what is lost on the right."""

    def draw(axes: Any) -> None:
        ordered = np.sort(gains)[::-1]
        ranks = np.arange(1, len(ordered) + 1)
        for side, colour in ((ordered > 0, _COLOURS[0]), (ordered < 0, _COLOURS[1])):
            heights = np.where(side, ordered, 0.0)
            axes.fill_between(ranks, heights, color=colour, step="mid", linewidth=0, alpha=0.85)
        axes.axhline(0, color=_QUIET, linewidth=0.8)
        axes.set_xlim(0.5, len(ordered) + 0.5)
        axes.grid(axis="y")
        axes.set(xlabel="queries, the largest gain first", ylabel=axis)

    return _drawn(key, label, draw, _HEIGHT)


def shares(key: str, label: str, names: Sequence[str], counts: Sequence[tuple[int, int, int]]) -> Html:
    """Queries won, equal and lost as parts of one bar per model."""

    def draw(axes: Any) -> None:
        starts, lines = np.zeros(len(names)), np.arange(len(names))
        for column, (word, colour) in enumerate((("won", _COLOURS[0]), ("equal", _FAINT), ("lost", _COLOURS[1]))):
            widths = np.array([count[column] for count in counts], dtype=float)
            axes.barh(lines, widths, left=starts, color=colour, height=0.68, label=word, edgecolor=_PAGE, linewidth=0.8)
            starts += widths
        _names(axes, names)
        axes.set_xlim(0, max(1.0, starts.max()))
        axes.set_xlabel("queries")
        _legend(axes, 3)

    return _drawn(key, label, draw, 1.05 + 0.235 * len(names))


def bars(
    key: str, label: str, names: Sequence[str], sizes: Sequence[float], spreads: Sequence[float], axis: str
) -> Html:
    """One bar per name, with the standard deviation where there is one."""

    def draw(axes: Any) -> None:
        errors = None if not any(spreads) else list(spreads)
        axes.barh(np.arange(len(names)), sizes, color=_COLOURS[0], height=0.66, xerr=errors, ecolor=_QUIET)
        _names(axes, names)
        axes.set_xlim(left=0)
        axes.grid(axis="x")
        axes.set_xlabel(axis)

    return _drawn(key, label, draw, 0.75 + 0.235 * len(names))


def costs(
    key: str, label: str, rows: Sequence[Row], cost: Sequence[float], front: Sequence[int], x_axis: str, y_axis: str
) -> Html:
    """Models as their rank, cost across and quality up; a line joins those that no other model beats in both."""
    quality = [row.mean for row in rows]

    def draw(axes: Any) -> None:
        joined = [cost[number] for number in front], [quality[number] for number in front]
        axes.step(*joined, where="post", color=_COLOURS[0], linewidth=1.2)
        for number, (x, y) in enumerate(zip(cost, quality)):
            axes.plot([x], [y], "o", color=_COLOURS[0] if number in front else _COLOURS[5], markersize=5)
        _log_scale(axes, math.log10(max(cost) / min(cost)))
        axes.margins(0.09, 0.1)
        _label_points(axes, [row.rank for row in rows], cost, quality, front)
        axes.grid()
        axes.set(xlabel=x_axis, ylabel=y_axis)

    return _drawn(key, label, draw, 3.4)


def trials(
    key: str, label: str, values: Mapping[str, Sequence[float | None]], axis: str, higher_is_better: bool
) -> Html:
    """Tuning: the value of each trial as a dot, the best one so far as a line, per fold."""

    def draw(axes: Any) -> None:
        for number, (_, values_of_fold) in enumerate(values.items()):
            known = np.array([math.nan if value is None else value for value in values_of_fold])
            colour = _COLOURS[number % SERIES]
            numbers = np.arange(1, len(known) + 1)
            axes.plot(numbers, known, ".", color=colour, markersize=4, alpha=0.55)
            best = (np.fmax if higher_is_better else np.fmin).accumulate(known)
            look = {"drawstyle": "steps-post", "linestyle": _DASHES[number % SERIES], "linewidth": 1.3}
            axes.plot(numbers, best, color=colour, **look)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y")
        axes.set(xlabel="trial", ylabel=axis)

    return _drawn(key, label, draw, 2.7)


def _label_points(
    axes: Any, ranks: Sequence[int], x: Sequence[float], y: Sequence[float], first: Sequence[int]
) -> None:
    """Ranks beside their points, those of `first` before the others; where there is no room, none."""
    points = axes.transData.transform(np.column_stack([x, y]))
    taken: list[tuple[float, float]] = [(float(across), float(up)) for across, up in points]
    for number in [*first, *(other for other in range(len(ranks)) if other not in first)]:
        for shift in ((0, 9), (0, -9), (9, 0), (-9, 0), (8, 8), (8, -8), (-8, 8), (-8, -8)):
            spot = points[number] + 1.39 * np.array(shift)  # points to pixels
            if all(abs(spot[0] - a) > 17 or abs(spot[1] - b) > 11 for a, b in taken):
                taken.append((float(spot[0]), float(spot[1])))
                look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5}
                axes.annotate(
                    str(ranks[number]), (x[number], y[number]), xytext=shift, textcoords="offset points", **look
                )
                break


def _log_scale(axes: Any, decades: float) -> None:
    """Plain numbers at 1, 2, 5, 10, ... or, on a long scale, at powers of ten; matplotlib would write formulas."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 1.5 else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _names(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(np.arange(len(names)), [_short(name) for name in names])
    axes.tick_params(axis="y", length=0, labelcolor=_INK)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _legend(axes: Any, entries: int, wide: bool = False) -> None:
    if entries > 1:
        columns = 3 if entries == 3 and not wide else 2
        axes.figure.legend(loc="outside upper left", ncols=columns, borderaxespad=0.2, handlelength=2.2)


def _thinned(size: int, most: int = _STEPS) -> np.ndarray:
    """Places of at most so many points, spread evenly, with the first and the last."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))


def _short(name: str, most: int = _NAME) -> str:
    plain = " ".join(name.split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _drawn(key: str, label: str, draw: Any, height: float) -> Html:
    """The SVG of a chart; `label` describes it to those who cannot see it, `key` keeps its ids apart from others'."""
    refuse_without_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    picture = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        made = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(made.add_subplot())
        made.savefig(
            picture, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
        )
    return _inlined(picture.getvalue(), key, label)


def _inlined(svg: str, key: str, label: str) -> Html:
    """An SVG file as a part of a page: no prolog, no metadata, new ids, colours and font of the page."""
    svg = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]*)"', svg)
    assert box is not None
    svg = svg[svg.index(">") + 1 :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: _own(tag[0], key), svg)  # tags only: names of models stay as they are
    svg = re.sub(r">\s+<", ">\n<", svg).strip()
    return Html(f'<svg viewBox="{box[1]}" role="img" aria-label="{text(label)}">{svg}')


def _own(tag: str, key: str) -> str:
    """A tag of matplotlib's as one of the page."""
    if tag.startswith("<g "):
        tag = re.sub(r' id="[^"]*"', "", tag)
    tag = re.sub(r'\bid="', f'id="{key}-', tag)
    tag = re.sub(r'(?:xlink:)?href="#', f'href="#{key}-', tag).replace("url(#", f"url(#{key}-")
    tag = re.sub(r"font: (\S+) [^;\"]*", r"font-size: \1", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):z.2f}", tag)
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, variable)
    return " ".join(tag.split())
