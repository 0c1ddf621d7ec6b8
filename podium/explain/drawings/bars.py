"""Bars: what each feature adds to a score or to a difference, importances, and drops of a metric."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from podium._runtime.words import counted
from podium.explain.drawings.style import (
    DOWN,
    INK,
    LINE,
    NAME,
    SMALL,
    UP,
    limits_with_room,
    listed,
    number,
    picture,
    plain,
    titled,
)

if TYPE_CHECKING:
    from podium.explain.drops import ImportanceDrops
    from podium.explain.importances import Importance
    from podium.explain.queries import QueryExplained
    from podium.explain.reasons import Why

_BARS = 12  # of the largest reasons
_FEATURES = 25  # with the largest values
_LABEL = 38  # characters of a feature with its values
_ROOM = 0.26  # beside the bars, for their numbers


@dataclass(frozen=True)
class _Line:
    """A bar with its name or, without a size, the heading of those below it."""

    name: str
    size: float | None
    note: str = ""


def draw_why(why: Why, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """Bars of what each feature adds to the difference of two documents, the largest on top."""
    lines = [
        _Line(_with_values(one.feature, f": {number(one.value)} against {number(one.other)}"), one.contribution)
        for one in why.reasons
    ]
    if len(lines) > _BARS:
        rest = why.reasons[_BARS:]
        lines[_BARS:] = [_Line(counted(len(rest), "more feature"), sum(one.contribution for one in rest))]
    with picture(path, ax, 1.2 + LINE * max(1, len(lines))) as axes:
        _draw_lines(axes, lines, "no feature makes a difference")
        upper, lower = why.documents
        titled(axes, f"document {upper} against document {lower}: {why.difference:+.4g}")
        axes.set_xlabel(f"contribution to the score of {plain(upper, 20)} minus that of {plain(lower, 20)}", wrap=True)
    return axes


def draw_query(explained: QueryExplained, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """The best documents of a query: what lifts each above, or lowers it below, the query's mean document."""
    lines: list[_Line] = []
    for one in explained.top:
        label = "" if one.label is None else f", label {one.label:g}"
        lines.append(_Line(plain(f"{one.rank}. {one.document}", NAME), None, f"score {one.score:.4f}{label}"))
        for feature in one.features:
            value = "missing" if feature.value is None else number(feature.value)
            lines.append(_Line(_with_values(feature.feature, f" = {value}"), feature.contribution))
    with picture(path, ax, 1.2 + LINE * max(1, len(lines))) as axes:
        _draw_lines(axes, lines, "no documents")
        size = f"{counted(explained.documents, 'document')}, mean score {explained.mean_score:.4f}"
        titled(axes, f"query {explained.query}: {size}")
        axes.set_xlabel("contribution to the score, compared with the mean document of the query", wrap=True)
    return axes


def draw_importance(importance: Importance, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """Bars of the largest importances, with their numbers."""
    shown = importance.top(_FEATURES)
    left = int((importance.values > 0).sum()) - len(shown)
    with picture(path, ax, 1.0 + LINE * max(1, len(shown))) as axes:
        _draw_bars(axes, [_Line(plain(name, NAME), size) for name, size in shown])
        limits_with_room(axes, [size for _, size in shown], _ROOM)
        for line, (_, size) in enumerate(shown):
            _annotate(axes, line, size, f"{size:,.4g}")
        axes.set_xlabel(importance.kind + (f"; {counted(left, 'more feature')} with less" if left else ""), wrap=True)
        _say_so_if_empty(axes, shown, "no feature is used")
    return axes


def draw_drops(drops: ImportanceDrops, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """The largest drops of a metric as bars, with their intervals."""
    shown = drops.ranked()[:_FEATURES]
    left = len(drops.names) - len(shown)
    with picture(path, ax, 1.1 + LINE * max(1, len(shown))) as axes:
        _draw_bars(axes, [_Line(plain(one.name, NAME), one.drop) for one in shown])
        for line, one in enumerate(shown):
            axes.plot(one.interval, (line, line), color=INK, linewidth=1.2, solid_capstyle="butt")
        more = f"; {counted(left, 'more feature')} with less" if left else ""
        axes.set_xlabel(f"drop of {drops.metric} ({drops.policy}) {drops.what}, with 95% interval{more}", wrap=True)
        _say_so_if_empty(axes, shown, "no features")
    return axes


def _with_values(feature: str, values: str) -> str:
    """`bm25 = 12.1`; of a long name its ends, so that the values can be read."""
    return f"{plain(feature, max(12, _LABEL - len(values)))}{values}"


def _draw_lines(axes: Any, lines: Sequence[_Line], empty: str) -> None:
    """Bars with their numbers, and headings."""
    _draw_bars(axes, lines)
    limits_with_room(axes, [line.size for line in lines if line.size is not None], _ROOM)
    for row, line in enumerate(lines):
        if line.size is not None:
            _annotate(axes, row, line.size, f"{line.size:+.3g}")
        else:
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
            look = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": SMALL, "bbox": behind}
            axes.text(0.01, row, plain(line.note), **look)
    _say_so_if_empty(axes, lines, empty)


def _draw_bars(axes: Any, lines: Sequence[_Line]) -> None:
    sizes = [line.size or 0.0 for line in lines]
    axes.barh(range(len(lines)), sizes, height=0.7, color=[UP if size >= 0 else DOWN for size in sizes])
    listed(axes, [line.name for line in lines], [row for row, line in enumerate(lines) if line.size is None])
    axes.axvline(0, color=INK, linewidth=0.8)


def _annotate(axes: Any, line: int, size: float, text: str) -> None:
    """The number of a bar at its end."""
    offset, side = (3, "left") if size >= 0 else (-3, "right")
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": SMALL - 1}
    axes.annotate(text, (size, line), xytext=(offset, 0), ha=side, **look)


def _say_so_if_empty(axes: Any, lines: Sequence[Any], text: str) -> None:
    if not lines:
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=SMALL)
        axes.set_xticks([])
