"""The pairs of one query as arrows between its documents: the document that a pair raises is at the head."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import counted
from podium.explain.drawings.style import DOWN, INK, LINE, PALE, SMALL, UP, picture, plain, titled

if TYPE_CHECKING:
    from podium.explain.lambdas import Lambdas

_DOCUMENTS = 12
_LABELLED = 10  # pairs with their number
_NAME = 20  # characters of a document
_LEFT = -1.0  # of the texts beside the documents, which stand at 0; the arcs reach 1
_UNIT = 0.34  # of an arc from one document to the next


def draw_lambdas(table: Lambdas, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """Documents by rank, an arrow per pair, and at each document the sum that moves its score, up or down."""
    ranks = table.ranks
    shown = np.flatnonzero(ranks <= _DOCUMENTS)
    pairs = table.pairs
    strength = pairs.lambdas
    drawn = np.flatnonzero((ranks[pairs.upper] <= _DOCUMENTS) & (ranks[pairs.lower] <= _DOCUMENTS) & (strength != 0))
    drawn = drawn[np.argsort(-np.abs(strength[drawn]), kind="stable")]
    with picture(path, ax, 1.3 + 2.0 * LINE * max(2, len(shown))) as axes:
        _draw_arrows(axes, table, drawn)
        largest = float(np.abs(table.lambdas[shown]).max(initial=0.0)) or 1.0
        for row in shown:
            _draw_document(axes, table, int(row), 0.42 * table.lambdas[row] / largest)
        axes.set_ylim(len(shown) + 0.75, 0.25)
        axes.set_xlim(_LEFT, 1.12)
        names = [f"{ranks[row]}. {plain(table.documents[row], _NAME)}" for row in shown]
        axes.set_yticks(ranks[shown], names, fontsize=SMALL)
        axes.tick_params(axis="y", length=0)
        axes.set_xticks([])
        for side in axes.spines.values():
            side.set_visible(False)
        titled(axes, table.caption)
        left = len(ranks) - len(shown)
        more = f"; {counted(left, 'more document')} below" if left else ""
        axes.set_xlabel(f"arrows point at the document that is raised; dashed: pairs in order{more}", wrap=True)
    return axes


def _draw_document(axes: Any, table: Lambdas, row: int, length: float) -> None:
    """A dot, its label and score, and the sum of its lambdas as an arrow up or down."""
    rank, total = table.ranks[row], table.lambdas[row]
    axes.plot([0], [rank], "o", color=INK, markersize=6, zorder=4)
    look: dict[str, Any] = {"fontsize": SMALL, "va": "center"}
    axes.text(_LEFT + 0.02, rank, f"label {table.labels[row]:g}\nscore {table.scores[row]:.3g}", ha="left", **look)
    colour = UP if total >= 0 else DOWN
    axes.text(-0.17, rank, f"{total:+z.4f}", ha="right", color=colour, **look)
    if length:
        arrow = {"arrowstyle": "-|>,head_width=0.25,head_length=0.5", "color": colour, "linewidth": 2.2}
        arrow |= {"shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (-0.1, rank - length), (-0.1, rank + length), arrowprops=arrow)


def _draw_arrows(axes: Any, table: Lambdas, drawn: np.ndarray) -> None:
    """One arc per pair, as wide as its lambda."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    pairs, strength = table.pairs, np.abs(table.pairs.lambdas)
    spans = np.abs(table.ranks[pairs.upper] - table.ranks[pairs.lower])
    unit = min(_UNIT, 1.0 / spans[drawn].max(initial=1))
    for number, pair in enumerate(drawn.tolist()):
        head, tail = int(table.ranks[pairs.upper[pair]]), int(table.ranks[pairs.lower[pair]])
        reach, middle = unit * spans[pair], (head + tail) / 2
        path = Path([(0.0, tail), (2 * reach, middle), (0.0, head)], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
        look: dict[str, Any] = {"arrowstyle": "-|>,head_width=2.4,head_length=4.5", "shrinkA": 4, "shrinkB": 4}
        look |= _look_of_pair(table, pair, head > tail)
        width = 0.6 + 2.4 * strength[pair] / strength[drawn[0]]
        axes.add_patch(FancyArrowPatch(path=path, linewidth=width, mutation_scale=1.0, zorder=2, **look))
        if number < _LABELLED:
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            text = f"{pairs.lambdas[pair]:.4f}"
            axes.text(reach, middle, text, fontsize=SMALL - 1, ha="center", va="center", bbox=behind, zorder=3)


def _look_of_pair(table: Lambdas, pair: int, out_of_order: bool) -> dict[str, Any]:
    if table.labels[table.pairs.upper[pair]] == table.labels[table.pairs.lower[pair]]:
        return {"color": PALE, "linestyle": "-"}
    return {"color": DOWN, "linestyle": "-"} if out_of_order else {"color": UP, "linestyle": (0, (4, 1.5))}
