"""Dots: what a feature adds to each document, by the feature's own value (a beeswarm)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from podium.explain.drawings.style import DOWN, INK, LINE, NAME, SMALL, VALUES, listed, picture, plain, spread

if TYPE_CHECKING:
    from podium.explain.attributions import ShapSummary

_FEATURES = 12
_DOTS = 1000  # documents of a summary


def draw_summary(summary: ShapSummary, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """One dot per document and feature: what the feature adds, coloured by its value; a cross where that is missing."""
    chosen = [f for f in np.argsort(-summary.sizes, kind="stable")[:_FEATURES] if summary.sizes[f] > 0]
    values, shown = summary.attributions.values, spread(len(summary.rows), _DOTS)
    with picture(path, ax, 1.3 + 1.35 * LINE * max(1, len(chosen))) as axes:
        for line, feature in enumerate(chosen):
            across, column = values[shown, feature], summary.rows[shown, feature]
            heights, missing = line + _swarm(across), np.isnan(column)
            look = {"c": _ranks(column[~missing]), "cmap": VALUES, "s": 5, "linewidths": 0, "vmin": 0, "vmax": 1}
            axes.scatter(across[~missing], heights[~missing], **look)
            axes.scatter(across[missing], heights[missing], marker="x", s=9, linewidths=0.8, color=DOWN)
        listed(axes, [plain(summary.names[f], NAME) for f in chosen])
        axes.axvline(0, color=INK, linewidth=0.8, zorder=0)
        axes.set_xlabel("SHAP value within the query", wrap=True)
        if chosen:
            _explain_colours(axes, bool(np.isnan(summary.rows[np.ix_(shown, chosen)]).any()))
        else:
            axes.text(0.5, 0.5, "no feature moves a score", transform=axes.transAxes, ha="center", fontsize=SMALL)
            axes.set_xticks([])
    return axes


def _explain_colours(axes: Any, missing: bool) -> None:
    """A bar from low to high values, and the mark of missing ones."""
    from matplotlib.cm import ScalarMappable

    bar = axes.figure.colorbar(ScalarMappable(cmap=VALUES), ax=axes, aspect=30, pad=0.02, fraction=0.05)
    bar.set_ticks([0, 1], labels=["low", "high"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    bar.set_label("value of the feature" + (" (x: missing)" if missing else ""), fontsize=SMALL)


def _swarm(across: np.ndarray) -> np.ndarray:
    """Positions up and down such that dots with near values lie beside each other; dense parts are wider."""
    width = np.ptp(across) / 60 or 1.0
    bins = np.floor((across - across.min()) / width).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    starts = np.searchsorted(bins[order], np.arange(bins.max() + 2))
    number = np.empty(len(across), dtype=np.int64)
    number[order] = np.arange(len(across)) - starts[bins[order]]
    side = np.where(number % 2 == 0, 1, -1) * ((number + 1) // 2)
    return np.asarray(0.8 * side / max(np.diff(starts).max(), 8))


def _ranks(values: np.ndarray) -> np.ndarray:
    """0 for the smallest value to 1 for the largest, equal ones alike."""
    _, order = np.unique(values, return_inverse=True)
    return np.asarray(order / max(1, order.max(initial=0)))
