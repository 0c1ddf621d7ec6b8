"""Draw sizes.svg of docs/trees.md: `python docs/pictures/draw_sizes.py`, about ten minutes.

NDCG@10 of LambdaMART on unseen queries by the number of training queries: with the sizes of "auto", and with those of
one row of the table for any data. The data are generated, as in benchmarks/bench_defaults.py, from other numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import podium
from podium.models.trees.sizes import SIZES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _lists import KINDS, make_lists

FOLDER = Path(__file__).parent
BLUE, RED, LINE = "#2a6f97", "#c1502e", "#333333"
QUERIES = (50, 100, 300, 1000, 3000, 10_000, 30_000)
TESTED = 1000
FIRST, *_, LAST = ({k: v for k, v in row.items() if k != "max_depth"} for row in SIZES.values())
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    '"auto"': ({}, BLUE),
    f"{FIRST['max_leaf_nodes']} leaves, drawn thresholds": (FIRST, RED),
    f"{LAST['max_leaf_nodes']} leaves": (LAST, LINE),
}


def value_of(kind: str, n_queries: int, seed: int, settings: dict[str, Any]) -> float:
    data = make_lists(kind, n_queries + TESTED, seed)
    trained = np.arange(data.n_queries) < n_queries
    model = podium.LambdaMART(**settings).fit(data.subset(trained))
    return float(model.score(data.subset(~trained)))


def curves() -> Figure:
    figure = Figure(figsize=(7.4, 3.0), layout="constrained")
    for axes, kind in zip(figure.subplots(1, len(KINDS)), KINDS):
        for name, (settings, colour) in SETTINGS.items():
            values = []
            for n_queries in QUERIES:
                seeds = range(100, 105 if n_queries < 1000 else 102)
                values.append(np.mean([value_of(kind, n_queries, seed, settings) for seed in seeds]))
                print(kind, name, n_queries, f"{values[-1]:.4f}", flush=True)
            axes.plot(QUERIES, values, "o-", color=colour, markersize=3, linewidth=1.2, label=name)
        axes.set_xscale("log")
        axes.set_title({"noise": "mostly noise"}.get(kind, kind), fontsize=8)
        axes.set_xlabel("training queries", fontsize=8)
        tidy(axes)
    figure.axes[0].set_ylabel("NDCG@10 of unseen queries", fontsize=8)
    figure.axes[0].legend(fontsize=7, frameon=False)
    return figure


def tidy(axes: Any) -> None:
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    with matplotlib.rc_context({"svg.hashsalt": "podium", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    save(curves(), FOLDER / "sizes.svg")
