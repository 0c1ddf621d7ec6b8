"""Drawings: trees, learning curves, reasons, dependence, importance drops and summaries as SVG or PNG files.

Matplotlib draws, and is imported only when something is drawn. Its figures are used without its global state, so that
any thread may draw and nothing opens a window. The same picture gives the same bytes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from podium._runtime.files import write_whole
from podium._runtime.words import check_choice, counted
from podium.explain.subjects import columns_for, refuse_other_models, refuse_unfitted
from podium.learners.trees.scoring.forest import TreeArrays
from podium.models.frame.inspection import CategoryNames, category_names, question

if TYPE_CHECKING:
    from podium.explain.attributions import ShapSummary
    from podium.explain.dependence import Dependence
    from podium.explain.drops import ImportanceDrops
    from podium.explain.reasons import Why
    from podium.metrics.line_searching import LineSearch
    from podium.search.tuning import TunedWeighting

SUFFIXES = (".svg", ".png")
_UP, _DOWN, _LINE, _PALE = "#2a6f97", "#c1502e", "#333333", "#b8c4cc"
_BARS = 12  # of the largest reasons
_FEATURES = 25  # with the largest drops
_DOTS = 1000  # documents of a summary
_CURVES = 100  # of single rows
_WIDTH = 7.0  # inches
_WIDEST = 100.0  # inches; a larger tree has smaller boxes
_POINTS = 2000  # of a curve that are drawn one by one
_TALL = 0.32  # inches a bar


def draw_tree(model: Any, tree: int, path: str | os.PathLike[str], names: Sequence[str] | None = None) -> None:
    """Draw tree number `tree`, from 1, of the model: splits with their question, leaves with what they add."""
    refuse_other_models(model)
    refuse_other_suffixes(path)
    if not 1 <= tree <= model.forest_.n_trees:
        raise ValueError(f"tree must be from 1 to {model.forest_.n_trees}; got {tree}.")
    arrays, known = model.forest_.split()[tree - 1], columns_for(model, None, names)
    categories = category_names(model)
    across, down = _positions(arrays)
    figure = _figure(min(_WIDEST, 1.7 * (across.max() + 1) + 0.6), min(_WIDEST, 1.1 * (down.max() + 1) + 0.6), None)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.7, across.max() + 0.7)
    axes.set_ylim(-down.max() - 0.6, 0.6)
    size = min(8.0, 8.0 * _WIDEST / (1.7 * (across.max() + 1)))
    for node in range(len(arrays.feature)):
        _draw_branches(axes, arrays, node, across, down, size)
        _draw_box(axes, arrays, node, known, categories, (across[node], -down[node]), size)
    _save(figure, path)


def draw_curves(model: Any, path: str | os.PathLike[str]) -> None:
    """Draw the values of the evaluation sets after each step, and the number of steps that was kept."""
    refuse_unfitted(model)
    refuse_other_suffixes(path)
    if not model.evals_:
        raise ValueError("The model has no learning curves. Train it with an eval_set (podium train --valid FILE).")
    with _picture(path, 4) as axes:
        for part, curves in model.evals_.items():
            for metric, curve in curves.items():
                axes.plot(range(1, len(curve) + 1), curve, label=f"{part}: {metric}")
        steps = counted(model.best_iteration_, model.step_word)
        axes.axvline(model.best_iteration_, color=_PALE, linestyle="--", label=f"kept: {steps}")
        axes.set_xlabel(f"{model.step_word}s")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel(", ".join(sorted({metric for curves in model.evals_.values() for metric in curves})))
        axes.legend(frameon=False)


def draw_why(why: Why, path: str | os.PathLike[str]) -> None:
    """Bars of what each feature adds to the difference of two documents, the largest on top."""
    bars = [(reason.feature, reason.contribution) for reason in why.reasons]
    if len(bars) > _BARS:
        bars[_BARS:] = [(f"{len(bars) - _BARS} more", sum(size for _, size in bars[_BARS:]))]
    with _picture(path, 1.2 + _TALL * max(1, len(bars))) as axes:
        _labelled_bars(axes, bars)
        title = "document {} against document {}".format(*map(_plain, why.documents))
        axes.set_title(f"{title}: {why.difference:+.4g}", fontsize=10)


def draw_attributions(
    documents: Sequence[str], reasons: Sequence[Sequence[tuple[str, float]]], path: str | os.PathLike[str]
) -> None:
    """One block of bars per document: what lifts it above, or lowers it below, the mean document of its query."""
    refuse_other_suffixes(path)
    heights = [max(1, len(bars)) for bars in reasons]
    figure = _figure(_WIDTH, sum(0.7 + _TALL * height for height in heights))
    blocks = figure.subplots(len(documents), squeeze=False, sharex=True, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, document, bars in zip(blocks, documents, reasons):
        _labelled_bars(axes, bars)
        axes.set_title(_plain(document), fontsize=10)
    _save(figure, path)


def draw_dependence(dependence: Dependence, path: str | os.PathLike[str]) -> None:
    """The mean score over the values of a feature, and the curves of up to a hundred rows, spread evenly."""
    with _picture(path, 4) as axes:
        for row in _spread(len(dependence.curves), _CURVES):
            axes.plot(dependence.grid, dependence.curves[row], color=_PALE, linewidth=0.5)
        axes.plot(dependence.grid, dependence.mean, color=_UP, linewidth=2)
        axes.set_xlabel(_plain(dependence.feature))
        axes.set_ylabel("score")


def draw_line_search(search: LineSearch, path: str | os.PathLike[str]) -> None:
    """The metric along the line of scores, its best plateau and the alpha in its middle."""
    curve = search.curve
    with _picture(path, 4) as axes:
        axes.axvspan(*search.plateau, color=_PALE, alpha=0.5, linewidth=0)
        if len(curve) > _POINTS:  # more steps than a picture can show: the range of values in each of its columns
            first = np.unique(np.searchsorted(curve.alpha[:-1], np.linspace(0, curve.alpha[-1], _POINTS // 2)[:-1]))
            low, high = np.minimum.reduceat(curve.between, first), np.maximum.reduceat(curve.between, first)
            axes.fill_between(curve.alpha[first], low, high, color=_UP, linewidth=0.5, step="post")
        else:
            axes.stairs(curve.between, curve.alpha, baseline=None, color=_UP)
            axes.plot(curve.alpha, curve.at, ".", color=_UP, markersize=3)
        axes.axvline(search.alpha, color=_DOWN, linestyle="--", label=f"alpha {search.alpha:.4g}: {search.value:.4f}")
        axes.set_xlabel("alpha")
        axes.set_ylabel(f"{search.metric} ({search.policy})")
        axes.legend(frameon=False)


def draw_drops(drops: ImportanceDrops, path: str | os.PathLike[str]) -> None:
    """The largest drops of a metric as bars, with their intervals."""
    refuse_other_suffixes(path)
    shown = drops.ranked()[:_FEATURES]
    with _picture(path, 1.1 + _TALL * max(1, len(shown))) as axes:
        _bars(axes, [(one.name, one.drop) for one in shown])
        for bar, one in enumerate(shown):
            axes.plot(one.interval, (bar, bar), color=_LINE, linewidth=1.2)
        axes.set_xlabel(f"drop of {drops.metric} ({drops.policy}) {drops.what}, with 95% interval")


def draw_summary(summary: ShapSummary, path: str | os.PathLike[str]) -> None:
    """One dot per document and feature: what the feature adds, coloured by the feature's own value."""
    chosen = [f for f in np.argsort(-summary.sizes, kind="stable")[:_BARS] if summary.sizes[f] > 0]
    values, shown = summary.attributions.values, _spread(len(summary.rows), _DOTS)
    with _picture(path, 1.2 + 1.35 * _TALL * max(1, len(chosen))) as axes:
        for line, feature in enumerate(chosen):
            across, colours = values[shown, feature], _ranks(summary.rows[shown, feature])
            dots = {"c": colours, "cmap": "cividis", "s": 5, "linewidths": 0, "vmin": 0, "vmax": 1}
            axes.scatter(across, line + _swarm(across), **dots)
        axes.set_yticks(range(len(chosen)), [_plain(summary.names[f]) for f in chosen], fontsize=8)
        axes.set_ylim(len(chosen) - 0.4, -0.6)
        axes.axvline(0, color=_LINE, linewidth=0.8, zorder=0)
        axes.set_xlabel("SHAP value within the query; dark: low values of the feature, bright: high")
        _hide_frame(axes)


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
    """0 for the smallest value to 1 for the largest, equal ones alike; missing values in the middle."""
    known = ~np.isnan(values)
    _, order = np.unique(values[known], return_inverse=True)
    ranks = np.full(len(values), 0.5)
    ranks[known] = order / max(1, order.max(initial=0))
    return ranks


def draw_tuning(tuned: TunedWeighting, path: str | os.PathLike[str]) -> None:
    """The surface of k1 and b: the mean of the metric at every point of the grid, the best one marked."""
    k1, b, means = tuned.surface()
    best = np.unravel_index(int(means.argmax()), means.shape)
    middle = (means.min() + means.max()) / 2
    with _picture(path, 4.5) as axes:
        picture = axes.imshow(means, origin="lower", aspect="auto", cmap="Blues")
        for row, column in np.ndindex(*means.shape):
            weight = "bold" if (row, column) == best else "normal"
            colour = "white" if means[row, column] > middle else _LINE
            text = f"{means[row, column]:.4f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=9, color=colour, fontweight=weight)
        axes.set_xticks(range(len(b)), [f"{value:g}" for value in b])
        axes.set_yticks(range(len(k1)), [f"{value:g}" for value in k1])
        axes.set_xlabel("b")
        axes.set_ylabel("k1")
        axes.set_title(
            _plain(f"{tuned.start.weighting.name}, {counted(tuned.n_queries, 'query', 'queries')}"), fontsize=10
        )
        axes.figure.colorbar(picture, label=_plain(tuned.metric))


def _spread(size: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))


def refuse_other_suffixes(path: str | os.PathLike[str]) -> None:
    """Report what cannot be drawn before the work, not after it."""
    check_choice(f"{os.fspath(path)}: the suffix of a picture", Path(path).suffix.lower(), SUFFIXES)


def _bars(axes: Any, bars: Sequence[tuple[str, float]]) -> None:
    names, sizes = [_plain(name) for name, _ in bars], [size for _, size in bars]
    axes.barh(range(len(bars)), sizes, color=[_UP if size >= 0 else _DOWN for size in sizes])
    axes.set_yticks(range(len(bars)), names, fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color=_LINE, linewidth=0.8)
    _hide_frame(axes)


def _labelled_bars(axes: Any, bars: Sequence[tuple[str, float]]) -> None:
    _bars(axes, bars)
    axes.margins(x=0.15)
    for bar, (_, size) in enumerate(bars):
        offset, side = (3, "left") if size >= 0 else (-3, "right")
        style = {"textcoords": "offset points", "va": "center", "fontsize": 7}
        axes.annotate(f"{size:+.3g}", (size, bar), xytext=(offset, 0), ha=side, **style)


def _hide_frame(axes: Any) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _positions(tree: TreeArrays) -> tuple[np.ndarray, np.ndarray]:
    """Leaves side by side, a split in the middle of its children; and how deep each node is."""
    n = len(tree.feature)
    across, down, leaves = np.zeros(n), np.zeros(n), 0
    waiting = [0]
    while waiting:  # left before right, so that branches do not cross
        node = waiting.pop()
        left = int(tree.left[node])
        if left == node:
            across[node], leaves = leaves, leaves + 1
            continue
        down[left] = down[left + 1] = down[node] + 1
        waiting += [left + 1, left]
    for node in range(n - 1, -1, -1):  # children come after their parents
        left = int(tree.left[node])
        if left != node:
            across[node] = (across[left] + across[left + 1]) / 2
    return across, down


def _draw_branches(axes: Any, tree: TreeArrays, node: int, across: np.ndarray, down: np.ndarray, size: float) -> None:
    left = int(tree.left[node])
    if left == node:
        return
    for child, word in ((left, "yes"), (left + 1, "no")):
        ends = (across[node], across[child]), (-down[node], -down[child])
        axes.plot(*ends, color=_PALE, linewidth=1, zorder=1)
        middle = (ends[0][0] + ends[0][1]) / 2, (ends[1][0] + ends[1][1]) / 2
        axes.text(*middle, word, fontsize=size * 0.8, color=_LINE, ha="center", va="center", zorder=2)


def _draw_box(
    axes: Any,
    tree: TreeArrays,
    node: int,
    names: Sequence[str],
    categories: CategoryNames,
    centre: tuple[float, float],
    size: float,
) -> None:
    leaf = int(tree.left[node]) == node
    rows = f"{int(tree.count[node]):,} rows"
    if leaf:
        text, color = f"{tree.value[node]:+.4g}\n{rows}", _UP if tree.value[node] >= 0 else _DOWN
    else:
        text, color = f"{question(tree, node, names, categories)}\ngain {tree.gain[node]:.4g}, {rows}", _LINE
    box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": color}
    axes.text(*centre, _plain(text), fontsize=size, ha="center", va="center", bbox=box, zorder=3)


def _plain(text: str) -> str:
    """Names as they are: a dollar sign starts no formula."""
    return text.replace("$", r"\$")


@contextmanager
def _picture(path: str | os.PathLike[str], height: float) -> Iterator[Any]:
    """The axes of a figure, which is saved at the end."""
    refuse_other_suffixes(path)
    figure = _figure(_WIDTH, height)
    yield figure.add_subplot()
    _save(figure, path)


def _figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('Drawing needs matplotlib. Install it with: pip install "podium[report]"') from error
    return Figure(figsize=(width, height), layout=layout)


def _save(figure: Any, path: str | os.PathLike[str]) -> None:
    import matplotlib

    kind = Path(path).suffix.lower().removeprefix(".")
    stamp: dict[str, Any] = {"Date": None, "Creator": "Podium"} if kind == "svg" else {"Software": "Podium"}
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "podium", "svg.fonttype": "none"}):
        figure.savefig(picture, format=kind, metadata=stamp, dpi=150)
    with write_whole(path) as stream:
        stream.write(picture.getvalue())
