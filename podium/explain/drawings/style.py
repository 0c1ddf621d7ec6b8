"""The style of all pictures: colours, fonts, sizes, axes that are given or made, and files with the same bytes.

Matplotlib is imported only when something is drawn. Pictures for files are drawn without pyplot, so that any thread may
draw and nothing opens a window; without a file and without axes they are figures of pyplot, which notebooks show.
Colours can be told apart by colour-blind readers (those of Okabe and Ito, darkened for text and thin lines).
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from podium._runtime.files import write_whole
from podium._runtime.words import check_choice

SUFFIXES = (".svg", ".png")
SERIES = ("#0072b2", "#c45100", "#00795a", "#a03c8d", "#94690a", "#5b6570")  # style.css of the report has the same
UP, DOWN = SERIES[:2]  # what is above 0, and below
INK, QUIET, PALE = "#1f2328", "#57606a", "#b9c2cc"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 3)))
MARKERS = ("o", "s", "^", "D", "v", "X")
VALUES = "cividis"  # colour map of low to high
WIDTH = 7.0  # inches
HEIGHT = 3.8
LINE = 0.3  # inches per line of a list
NAME = 30  # characters of a name beside an axis
SMALL, NORMAL, LARGE = 8.0, 9.0, 10.0  # points

_DPI = 150
_CHARACTER = 0.6 * SMALL / 72  # inches
_LONGEST = 400  # characters of a title
_ALONE = RLock()  # settings of Matplotlib are those of the process: two threads would restore each other's
_STYLE: Any = {
    **{"font.family": ["DejaVu Sans", "sans-serif"], "font.size": NORMAL, "axes.labelsize": NORMAL},
    **{"axes.titlesize": LARGE, "axes.titlelocation": "left", "axes.titlepad": 8.0, "figure.titlesize": LARGE},
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), QUIET),
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True, "grid.color": PALE},
    **{"grid.linewidth": 0.5, "legend.frameon": False, "lines.linewidth": 1.6, "lines.markersize": 4.0},
    **{"axes.prop_cycle": f"cycler('color', {list(SERIES)})", "axes.unicode_minus": True},
    **dict.fromkeys(
        ("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "white"
    ),  # dark pages show it as a card
    **{"savefig.transparent": False, "svg.hashsalt": "podium", "svg.fonttype": "none"},
}


def refuse_other_suffixes(path: str | os.PathLike[str]) -> None:
    """Report what cannot be drawn before the work, not after it."""
    check_choice(f"{os.fspath(path)}: the suffix of a picture", Path(path).suffix.lower(), SUFFIXES)


@contextmanager
def picture(
    path: str | os.PathLike[str] | None, ax: Any = None, height: float = HEIGHT, width: float = WIDTH
) -> Iterator[Any]:
    """The axes that are given, or those of a new figure in this style; with a path, it is saved at the end."""
    with pictures(path, [height], ax, width) as panels:
        yield panels[0]


@contextmanager
def pictures(
    path: str | os.PathLike[str] | None, heights: Sequence[float], ax: Any = None, width: float = WIDTH
) -> Iterator[list[Any]]:
    """The same with one panel per height, one above the other; axes that are given are all of them."""
    if path is not None:
        refuse_other_suffixes(path)
        if ax is not None:
            raise ValueError("give a path to save a picture, or ax= to draw into a figure of yours; got both.")
    refuse_without_matplotlib()
    import matplotlib

    with _ALONE, matplotlib.rc_context(_STYLE):
        if ax is not None:
            yield [ax] * len(heights)
            return
        figure = _figure(path is None, (width, sum(heights)))
        ratios = {"height_ratios": list(heights)}
        yield list(figure.subplots(len(heights), squeeze=False, sharex=True, gridspec_kw=ratios)[:, 0])
        if path is not None:
            save(figure, path)


def refuse_without_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError('Drawing needs matplotlib. Install it with: pip install "podium[report]"') from error


def _figure(shown: bool, size: tuple[float, float]) -> Any:
    if shown:
        from matplotlib import pyplot

        return pyplot.figure(figsize=size, layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure to an SVG or PNG file: the same figure, the same bytes."""
    import matplotlib

    refuse_other_suffixes(path)
    kind = Path(path).suffix.lower().removeprefix(".")
    stamp: dict[str, Any] = {"Date": None, "Creator": "Podium"} if kind == "svg" else {"Software": "Podium"}
    drawn = io.BytesIO()
    with _ALONE, matplotlib.rc_context(_STYLE), _without_warnings_of_glyphs() if kind == "svg" else nullcontext():
        figure.savefig(drawn, format=kind, metadata=stamp, dpi=_DPI)
    with write_whole(path) as stream:
        stream.write(drawn.getvalue())


def shortened(text: str, most: int) -> str:
    """A text on one line, as wide as so many characters of common width at most; a long one without its middle."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    left, cut = len(line), line
    while left > 1 and text_width(cut) > most * _CHARACTER:
        left = min(left - 1, int(left * most * _CHARACTER / text_width(cut)))
        cut = f"{line[: left - left // 3]}…{line[len(line) - left // 3 :]}"
    return cut


def text_width(text: str) -> float:
    """Of a line in small letters, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with _without_warnings_of_glyphs():
        width = text_to_path.get_text_width_height_descent(
            text, FontProperties(family="DejaVu Sans", size=SMALL), False
        )[0]
    return float(width) / 72.0


@contextmanager
def _without_warnings_of_glyphs() -> Iterator[None]:
    """What the font of Matplotlib lacks, the programs that show an SVG have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


def plain(text: str, most: int | None = None) -> str:
    """A text on one line as it is, for Matplotlib: a dollar sign starts no formula."""
    return shortened(text, _LONGEST if most is None else most).replace("$", r"\$")


def number(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.4g}"


def titled(axes: Any, title: str) -> None:
    """A title, in as many lines as it needs."""
    axes.set_title(plain(title), wrap=True)


def listed(axes: Any, names: Sequence[str], bold: Sequence[int] = ()) -> None:
    """Names, made `plain`, as the lines of a list, the first on top."""
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    for line in bold:
        axes.get_yticklabels()[line].set_fontweight("bold")
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)


def limits_with_room(axes: Any, values: Sequence[float], share: float) -> None:
    """Limits of the axis across with room beside the values for what is written there; 0 is inside."""
    known = [value for value in values if np.isfinite(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    room = share * ((high - low) or 1.0)
    axes.set_xlim(low - room * (low < 0), high + room * (high > 0 or low == high))


def spread(size: int, most: int) -> np.ndarray:
    """Positions of at most so many of a list, evenly, with the first and the last."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(int))
