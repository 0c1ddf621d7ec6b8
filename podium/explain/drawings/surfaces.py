"""Surfaces: a metric over two parameters, one number per point of their grid."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.words import counted
from podium.explain.drawings.style import INK, NORMAL, VALUES, picture, plain, titled

if TYPE_CHECKING:
    from podium.search.tuning import TunedWeighting

_DARK = 0.55  # of the range of values: below, numbers are white


def draw_tuning(tuned: TunedWeighting, path: str | os.PathLike[str] | None = None, *, ax: Any = None) -> Any:
    """The surface of k1 and b: the mean of the metric at every point of the grid, the best one in bold."""
    k1, b, means = tuned.surface()
    best = np.unravel_index(int(means.argmax()), means.shape)
    dark = means.min() + _DARK * np.ptp(means)
    with picture(path, ax, 4.5) as axes:
        image = axes.imshow(means, origin="lower", aspect="auto", cmap=VALUES)
        for row, column in np.ndindex(*means.shape):
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": NORMAL}
            look |= {"color": "white" if means[row, column] < dark else INK}
            look |= {"fontweight": "bold" if (row, column) == best else "normal"}
            axes.text(column, row, f"{means[row, column]:.4f}", **look)
        axes.set_xticks(range(len(b)), [f"{value:g}" for value in b])
        axes.set_yticks(range(len(k1)), [f"{value:g}" for value in k1])
        axes.set_xlabel("b")
        axes.set_ylabel("k1")
        titled(axes, f"{tuned.start.weighting.name}, {counted(tuned.n_queries, 'query', 'queries')}")
        axes.figure.colorbar(image, ax=axes, label=plain(tuned.metric))
    return axes
