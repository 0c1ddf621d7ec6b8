"""Curves: learning curves, a metric over its cutoffs, partial dependence, line searches and differences per query."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import check_choice, counted
from podium.explain.drawings.style import (
    DASHES,
    DOWN,
    HEIGHT,
    INK,
    MARKERS,
    NAME,
    PALE,
    QUIET,
    SERIES,
    SMALL,
    UP,
    picture,
    pictures,
    plain,
    refuse_other_suffixes,
    shortened,
    spread,
    titled,
)
from podium.explain.subjects import refuse_unfitted

if TYPE_CHECKING:
    from podium.evaluation.comparison import Comparison, PairComparison
    from podium.explain.cutoffs import CutoffCurves
    from podium.explain.dependence import Dependence
    from podium.metrics.line_searching import LineSearch

_ROWS = 100  # curves of single rows
_POINTS = 2000  # of a curve that are drawn one by one
_EXTREMES = 3  # queries that are named on each side
_PANELS = 6  # of comparisons
_ROOM = 0.32  # of the height of a panel, for the names of queries


def draw_curves(model: Any, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """Draw the values of the evaluation sets after each step, and the number of steps that was kept.

    Each metric has a panel of its own; in axes that are given, all share these.
    """
    refuse_unfitted(model)
    if path is not None:
        refuse_other_suffixes(path)
    if not model.evals_:
        raise ValueError("The model has no learning curves. Train it with an eval_set (podium train --valid FILE).")
    metrics = list(dict.fromkeys(metric for curves in model.evals_.values() for metric in curves))
    with pictures(path, [2.9 if len(metrics) > 1 else HEIGHT] * len(metrics), ax) as panels:
        for number, (axes, metric) in enumerate(zip(panels, metrics)):
            shared = ax is not None and len(metrics) > 1
            _draw_metric(axes, model, metric, number if shared else None)
            axes.set_ylabel(plain(", ".join(metrics) if shared else metric), wrap=True)
        for axes in panels if ax is None else panels[:1]:
            steps = counted(model.best_iteration_, model.step_word)
            axes.axvline(model.best_iteration_, color=QUIET, linestyle="--", linewidth=1.0, label=f"kept: {steps}")
        panels[-1].set_xlabel(f"{model.step_word}s")
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        _legend(panels[0], ax is None)
    return panels[0]


def _draw_metric(axes: Any, model: Any, metric: str, dashes: int | None) -> None:
    """One line per evaluation set; with `dashes`, metrics share the axes and have theirs."""
    for number, (part, curves) in enumerate(model.evals_.items()):
        if metric in curves:
            kind = number // len(SERIES) if dashes is None else dashes
            look = {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[kind % len(DASHES)]}
            values = curves[metric]
            label = plain(part if dashes is None else f"{part}: {metric}", NAME)
            axes.plot(range(1, len(values) + 1), values, label=label, marker="o" if len(values) == 1 else None, **look)
    axes.grid(axis="y")


def draw_cutoffs(curves: CutoffCurves, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """One line per ranking: the metric at each cutoff."""
    with picture(path, ax, HEIGHT + 0.2 * math.ceil(len(curves.names) / 2)) as axes:
        for number, (name, values) in enumerate(zip(curves.names, curves.values)):
            look = {"color": SERIES[number % len(SERIES)], "linestyle": DASHES[number // len(SERIES) % len(DASHES)]}
            mark = MARKERS[number % len(MARKERS)] if len(curves.cutoffs) <= 40 else None
            axes.plot(curves.cutoffs, values, label=plain(name, NAME), marker=mark, **look)
        axes.grid(axis="y")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("cutoff k")
        axes.set_ylabel(f"{curves.metric}@k ({curves.policy})")
        _legend(axes, ax is None)
    return axes


def draw_dependence(dependence: Dependence, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """The mean score over the values of a feature, and the curves of up to a hundred rows, spread evenly."""
    with picture(path, ax) as axes:
        point = "o" if len(dependence.grid) == 1 else None
        for row in spread(len(dependence.curves), _ROWS):
            axes.plot(dependence.grid, dependence.curves[row], color=PALE, linewidth=0.6, marker=point)
        axes.plot(dependence.grid, dependence.mean, color=UP, linewidth=2, marker=point, label="mean")
        axes.plot([], [], color=PALE, linewidth=0.8, label="single documents")
        axes.set_xlabel(plain(dependence.feature), wrap=True)
        axes.set_ylabel("score")
        _legend(axes, ax is None)
    return axes


def draw_line_search(search: LineSearch, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """The metric along the line of scores, its best plateau and the alpha in its middle."""
    curve = search.curve
    with picture(path, ax) as axes:
        axes.axvspan(*search.plateau, color=PALE, alpha=0.5, linewidth=0)
        if len(curve) > _POINTS:  # more steps than a picture can show: the range of values in each of its columns
            first = np.unique(np.searchsorted(curve.alpha[:-1], np.linspace(0, curve.alpha[-1], _POINTS // 2)[:-1]))
            low, high = np.minimum.reduceat(curve.between, first), np.maximum.reduceat(curve.between, first)
            axes.fill_between(curve.alpha[first], low, high, color=UP, linewidth=0.5, step="post")
        else:
            axes.stairs(curve.between, curve.alpha, baseline=None, color=UP)
            axes.plot(curve.alpha, curve.at, ".", color=UP, markersize=3)
        axes.axvline(search.alpha, color=DOWN, linestyle="--", label=f"alpha {search.alpha:.4g}: {search.value:.4f}")
        axes.set_xlabel("alpha")
        axes.set_ylabel(plain(f"{search.metric} ({search.policy})"), wrap=True)
        _legend(axes, ax is None)
    return axes


def draw_differences(
    comparison: Comparison,
    path: str | os.PathLike[str] | None = None,
    *,
    metric: str | None = None,
    system: str | None = None,
    ax: Any = None,
) -> Any:
    """The difference of each query, the largest first, with the mean, its interval and the queries at both ends.

    One panel per comparison; `metric` and `system` choose among them, and axes that are given take the first.
    """
    for name, value in (("metric", metric), ("system", system)):
        if value is not None:
            check_choice(name, value, dict.fromkeys(getattr(row, name) for row in comparison.rows))
    pairs = [row for row in comparison.rows if metric in (None, row.metric) and system in (None, row.system)]
    pairs = pairs[:_PANELS] if ax is None else pairs[:1]
    with pictures(path, [HEIGHT if len(pairs) == 1 else 2.9] * len(pairs), ax) as panels:
        for axes, pair in zip(panels, pairs):
            _draw_pair(axes, comparison, pair)
        left = len(comparison.rows) - len(pairs) if ax is None and metric is None and system is None else 0
        more = f"; {counted(left, 'more comparison')} not shown" if left else ""
        panels[-1].set_xlabel(f"queries, the largest difference first{more}")
    return panels[0]


def _draw_pair(axes: Any, comparison: Comparison, pair: PairComparison) -> None:
    columns = comparison.values[pair.metric]
    differences = columns[pair.system] - columns[pair.baseline]
    known = np.flatnonzero(~np.isnan(differences))
    order = known[np.argsort(-differences[known], kind="stable")]
    heights, places = differences[order], np.arange(1, len(order) + 1)
    better = heights if pair.higher_is_better else -heights
    for chosen, colour in ((better > 0, UP), (better < 0, DOWN)):
        axes.bar(places[chosen], heights[chosen], width=0.9 if len(order) < 150 else 1.0, color=colour)
    axes.axhline(0, color=INK, linewidth=0.8)
    _name_extremes(axes, [comparison.queries[query] for query in order], heights)
    axes.set_xlim(0.25, max(len(order), 1) + 0.75)
    low, high = min(heights.min(initial=0.0), 0.0), max(heights.max(initial=0.0), 0.0)
    room = _ROOM / (1 - _ROOM)  # so that what is written below 0 on the left, and above on the right, meets no bar
    axes.set_ylim(1.1 * min(low, -room * high * (low < 0)), 1.1 * (max(high, -room * low * (high > 0)) or 0.1))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(f"difference of {plain(pair.metric)}", wrap=True)
    low, high = pair.interval
    interval = f"{100 * pair.settings.level:g}% interval {low:+.4f} to {high:+.4f}"
    names = " minus ".join(shortened(name, NAME) for name in (pair.system, pair.baseline))
    spread_of_mean = "too few differences for an interval" if math.isnan(low) else interval
    titled(axes, f"{names}: mean {pair.difference:+.4f}, {spread_of_mean}")


def _name_extremes(axes: Any, queries: list[Any], heights: np.ndarray) -> None:
    """The queries at both ends, in the corners where no bar is."""
    gains = [(query, size) for query, size in zip(queries[:_EXTREMES], heights) if size > 0]
    losses = [(query, size) for query, size in zip(queries[::-1][:_EXTREMES], heights[::-1]) if size < 0]
    for named, word, spot, side in (
        (gains, "highest", (0.99, 0.97), "right"),
        (losses, "lowest", (0.01, 0.03), "left"),
    ):
        if named:
            text = "\n".join([f"{word}:", *(f"{plain(str(query), NAME)} {size:+.3f}" for query, size in named)])
            look = {"transform": axes.transAxes, "ha": side, "va": "top" if side == "right" else "bottom"}
            axes.text(*spot, text, fontsize=SMALL, color=QUIET, **look)


def _legend(axes: Any, outside: bool) -> None:
    """Below the figure, two names side by side; in axes that are given, where there is room."""
    if outside:
        axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    else:
        axes.legend()
