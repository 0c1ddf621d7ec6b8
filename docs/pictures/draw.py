"""Draw the pictures of docs/: `python docs/pictures/draw.py`. On one machine, the same bytes each time.

Pages that draw their own pictures are run, and what they draw is stored here. The others are those of docs/trees.md:
bins, trees and learning curves are Podium's; the gains of the example are written out and checked against its tree;
the histograms of sums.svg are a sketch.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import podium
from podium.demo.letor import FEATURE_NAMES, demo_splits
from podium.demo.show import write_feature_files
from podium.explain import draw_curves
from podium.explain.drawings.style import DOWN as RED
from podium.explain.drawings.style import INK as LINE
from podium.explain.drawings.style import PALE, save
from podium.explain.drawings.style import UP as BLUE
from podium.learners.trees.scoring.forest import TreeArrays
from podium.learners.trees.training.binning import MISSING, bin_rows, find_bin_edges

FOLDER = Path(__file__).parent
PAGES = ["explain.md", "from-ranknet-to-lambdamart.md"]  # whose code draws

# The example that docs/trees.md computes by hand.
VALUES = np.array([1, 2, 2, 3, 5, 8, np.nan], dtype=np.float32)
LABELS = np.array([0, 0, 1, 2, 4, 5, 9])


def draw_all(folder: Path = FOLDER) -> None:
    """Write every picture."""
    draw_parts(folder)
    splits = demo_splits()
    model = podium.LambdaMART(n_estimators=120, max_leaf_nodes=16, learning_rate=0.2, n_jobs=2)
    parts = {"validation": splits.valid, "training": splits.train}
    model.fit(splits.train, eval_set=parts, early_stopping_rounds=120)
    draw_curves(model, folder / "stopping.svg")
    for page in PAGES:
        draw_page(FOLDER.parent / page, folder)


def draw_parts(folder: Path) -> None:
    """The pictures that need no training."""
    save(bins_of(demo_splits().train.X[:, FEATURE_NAMES.index("dwell_seconds")]), folder / "bins.svg")
    save(gains_of_the_example(), folder / "gains.svg")
    save(packing_and_subtraction(), folder / "sums.svg")
    save(three_shapes(), folder / "shapes.svg")


def draw_page(page: Path, folder: Path) -> None:
    """Run the code of a page, which saves its pictures in `pictures/`, and store them."""
    names: dict[str, object] = {}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as work, redirect_stdout(io.StringIO()):
        write_feature_files(Path(work, "demo"))
        os.chdir(work)
        try:
            for block in re.findall(
                r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
            ):
                exec(compile(block, str(page), "exec"), names)
        finally:
            os.chdir(before)
        for picture in Path(work, "pictures").glob("*.svg"):
            shutil.copy(picture, folder / picture.name)


def bins_of(values: np.ndarray, max_bins: int = 12) -> Figure:
    """Above: where the values lie, and the edges. Below: how many rows each bin gets."""
    column = np.ascontiguousarray(values[:, None])
    edges = find_bin_edges(column, max_bins)
    slots = bin_rows(column, edges).columns[0]
    n_bins = int(edges.n_bins[0])
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    above, below = figure.subplots(2)
    above.hist(values[~np.isnan(values)], bins=60, color=PALE)
    for edge in edges.upper[0, : n_bins - 1]:
        above.axvline(edge, color=BLUE, linewidth=0.8)
    above.set_xlabel("dwell_seconds; vertical lines: bin edges", fontsize=8)
    counts = np.bincount(slots, minlength=MISSING + 1)
    below.bar(range(n_bins), counts[:n_bins], color=BLUE)
    below.bar([n_bins + 0.5], counts[MISSING], color=RED)
    below.set_xticks([*range(n_bins), n_bins + 0.5], [*map(str, range(n_bins)), str(MISSING)])
    below.set_xlabel("bin; bin 255: missing values", fontsize=8)
    for axes in (above, below):
        tidy(axes)
        axes.set_ylabel("rows", fontsize=8)
    return figure


def gains_of_the_example() -> Figure:
    """Above: the sum of gradients in each bin. Below: the gain of each split, missing values right and left."""
    gradients = LABELS.mean() - LABELS
    names = ["1", "2", "3", "5", "8", "missing"]
    own = [VALUES == 1, VALUES == 2, VALUES == 3, VALUES == 5, VALUES == 8, np.isnan(VALUES)]
    sums = np.array([gradients[rows].sum() for rows in own])
    hessians = np.array([rows.sum() for rows in own], dtype=float)
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    above, below = figure.subplots(2)
    above.bar(names, sums, color=[BLUE if value >= 0 else RED for value in sums])
    above.axhline(0, color=LINE, linewidth=0.8)
    for place, (value, weight) in enumerate(zip(sums, hessians)):
        above.text(
            place, 0, f"{value:+.0f} / {weight:.0f}", fontsize=8, ha="center", va="top" if value > 0 else "bottom"
        )
    above.set_ylabel("sum of gradients", fontsize=8)
    above.set_xlabel("value; at the bar: sum of gradients / sum of hessians", fontsize=8)
    splits = ["1.5", "2.5", "4", "6.5", "any value"]
    stump = podium.RegressionTree(max_leaf_nodes=2, min_samples_leaf=1).fit(VALUES[:, None], LABELS, group=[7])
    for missing, colour, shift in ((0, BLUE, -0.2), (1, PALE, 0.2)):
        g = np.cumsum(sums[:-1]) + missing * sums[-1]
        h = np.cumsum(hessians[:-1]) + missing * hessians[-1]
        rest = np.maximum(hessians.sum() - h, 1e-9)
        gains = np.where(h < hessians.sum(), g**2 / h + (sums.sum() - g) ** 2 / rest, 0.0)
        assert missing or abs(gains.max() - stump.forest_.gain[0]) < 1e-5
        side = "left" if missing else "right"
        below.bar(np.arange(len(splits)) + shift, gains, 0.38, color=colour, label=f"missing values go {side}")
        for place, gain in enumerate(gains):
            below.text(place + shift, gain, f"{gain:.4g}", fontsize=7, ha="center", va="bottom")
    below.set_xticks(range(len(splits)), [f"x <= {split}" if split != "any value" else split for split in splits])
    below.set_ylabel("gain", fontsize=8)
    below.margins(y=0.4)
    below.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    for axes in (above, below):
        tidy(axes)
    return figure


def packing_and_subtraction() -> Figure:
    """One 64-bit integer, and three histograms: parent - smaller child = larger child."""
    figure = Figure(figsize=(7, 3.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, 70)
    axes.set_ylim(0, 32)
    for start, colour, text, bits in (
        (3, BLUE, "sum of gradients, signed, in units", "bits 63 to 32"),
        (35, RED, "sum of hessians, unsigned, in units", "bits 31 to 0"),
    ):
        axes.add_patch(Rectangle((start, 24), 32, 4, facecolor="white", edgecolor=colour))
        axes.text(start + 16, 26, text, fontsize=9, ha="center", va="center")
        axes.text(start + 16, 29.4, bits, fontsize=8, ha="center", va="center", color=colour)
    rng = np.random.default_rng(1)
    whole = rng.integers(3, 10, 8)
    small = np.minimum(whole - 1, rng.integers(1, 5, 8))
    for start, heights, word, sign in (
        (3, whole, "parent: already known", "-"),
        (26, small, "smaller child: built", "="),
        (49, whole - small, "larger child: parent - smaller", ""),
    ):
        for place, height in enumerate(heights):
            axes.add_patch(Rectangle((start + 2 * place, 5), 1.7, 1.4 * height, facecolor=BLUE if sign != "" else PALE))
        axes.text(start + 8, 2.8, word, fontsize=9, ha="center", va="center")
        axes.text(start + 20, 9, sign, fontsize=16, ha="center", va="center")
    return figure


def three_shapes() -> Figure:
    """One tree of each growth over the same two features: the plane it makes, and its shape."""
    rng = np.random.default_rng(7)
    X = rng.random((600, 2)).astype(np.float32)
    y = np.where(X[:, 0] < 0.45, np.floor(4 * X[:, 1]), 4 * (X[:, 0] - 0.45) * X[:, 1])
    figure = Figure(figsize=(10, 5.6))
    planes, shapes = figure.subplots(2, 3)
    figure.subplots_adjust(0.03, 0.02, 0.99, 0.94, wspace=0.12, hspace=0.12)
    for plane, shape, growth in zip(planes, shapes, ("leaf", "level", "oblivious")):
        model = podium.RegressionTree(max_leaf_nodes=8, growth=growth).fit(X, y, group=[len(y)])
        tree = model.forest_.split()[0]
        start = model.forest_.start
        lost = np.mean((y - model.predict(X)) ** 2)
        draw_plane(plane, tree, 0, (0.0, 0.0, 1.0, 1.0), (y.min() - start, y.max() - start))
        plane.set_title(f'growth="{growth}": squared error {lost:.3f}', fontsize=9)
        plane.set_xticks([])
        plane.set_yticks([])
        plane.set_xlabel("x0", fontsize=8, labelpad=1)
        plane.set_ylabel("x1", fontsize=8, labelpad=1)
        draw_shape(shape, tree)
    return figure


def draw_plane(axes: Any, tree: TreeArrays, node: int, box: tuple[float, ...], limits: tuple[float, float]) -> None:
    """The leaves below a node as rectangles, darker where the value is larger."""
    left, (x0, y0, x1, y1) = int(tree.left[node]), box
    if left == node:
        share = float(np.clip((tree.value[node] - limits[0]) / (limits[1] - limits[0]), 0, 1))
        colour = tuple(1 - share * (1 - part) for part in matplotlib.colors.to_rgb(BLUE))
        axes.add_patch(Rectangle((x0, y0), x1 - x0, y1 - y0, facecolor=colour, edgecolor=LINE, linewidth=0.6))
        return
    at = float(tree.threshold[node])
    if tree.feature[node] == 0:
        parts = (x0, y0, at, y1), (at, y0, x1, y1)
    else:
        parts = (x0, y0, x1, at), (x0, at, x1, y1)
    for child, part in zip((left, left + 1), parts):
        draw_plane(axes, tree, child, part, limits)


def draw_shape(axes: Any, tree: TreeArrays) -> None:
    """The tree as lines, with the question of each split."""
    n, leaves = len(tree.feature), 0
    across, down, waiting = np.zeros(n), np.zeros(n), [0]
    while waiting:
        node = waiting.pop()
        left = int(tree.left[node])
        if left == node:
            across[node], leaves = leaves, leaves + 1
            continue
        down[[left, left + 1]] = down[node] + 1
        waiting += [left + 1, left]
    for node in range(n - 1, -1, -1):
        left = int(tree.left[node])
        if left != node:
            across[node] = across[[left, left + 1]].mean()
            for child in (left, left + 1):
                axes.plot(across[[node, child]], -down[[node, child]], color=PALE, linewidth=1.2, zorder=1)
            question = f"x{tree.feature[node]} <= {tree.threshold[node]:.2f}"
            box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": LINE, "linewidth": 0.6}
            axes.text(across[node], -down[node], question, fontsize=6, ha="center", va="center", bbox=box, zorder=2)
        else:
            axes.plot(across[node], -down[node], "o", color=BLUE, markersize=5, zorder=2)
    axes.set_axis_off()
    axes.margins(0.1)


def tidy(axes: Any) -> None:
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


if __name__ == "__main__":
    draw_all()
