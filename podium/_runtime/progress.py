"""A progress bar with the time left, or a line of words: in a notebook below its cell, else on standard error, silent
when that is no terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Protocol

_REDRAW = 0.2  # seconds
Report = Callable[[float, float], None]  # done, total (in any unit)


class NotedReport(Protocol):
    """A Report that can also show a few words beside the bar."""

    def __call__(self, done: float, total: float, note: str = "") -> None: ...


_shown: list[str] = []  # the bars on the terminal; there is room for one


@contextmanager
def progress(what: str) -> Iterator[NotedReport]:
    """Yield a function to call with (done, total) and perhaps a note, as often as convenient."""
    if (display := _notebook_display()) is not None:
        below = NotebookBar(what, display)
        _shown.append(what)
        try:
            yield below
        finally:
            _shown.remove(what)
            below.end()
        return
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    percentage, beside = TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[note]}", markup=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), percentage, TimeRemainingColumn(), beside)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, note="")
        _shown.append(what)
        try:
            yield lambda done, total, note="": bar.update(task, completed=done, total=total, note=note)
        finally:
            _shown.remove(what)


class NotebookBar:
    """A bar in HTML, redrawn at most five times per second: it needs no widgets, and leaves nothing when it ends."""

    def __init__(self, what: str, display: Callable[..., Any]) -> None:
        self._what, self._display = what, display
        self._handle: Any = None  # of what is shown
        self._start = self._drawn = time.monotonic()  # what ends at once is not shown

    def __call__(self, done: float, total: float, note: str = "") -> None:
        now = time.monotonic()
        if now - self._drawn < _REDRAW:
            return
        self._drawn = now
        self._draw(self._markup(done, total, note, now - self._start))

    def end(self) -> None:
        if self._handle is not None:
            self._draw("")

    def _markup(self, done: float, total: float, note: str, seconds: float) -> str:
        left = f", {seconds * (total - done) / done:.0f} s left" if 0 < done < total else ""
        words = f"{self._what} {done / total:.0%}{left} {note}" if total > 0 else f"{self._what} {note}"
        return f'<label>{escape(words.strip())} <progress max="{total:g}" value="{done:g}"></progress></label>'

    def _draw(self, markup: str) -> None:
        """Show it, or replace what is shown."""
        shown = {"text/html": markup, "text/plain": ""}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` in the kernel of a notebook; None elsewhere, terminals with IPython included."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


@contextmanager
def notebook_progress(what: str) -> Iterator[NotedReport]:
    """`progress` in notebooks, for functions that show nothing elsewhere; silent inside of another bar."""
    if _shown or _notebook_display() is None:
        yield _silent
        return
    with progress(what) as report:
        yield report


def _silent(done: float, total: float, note: str = "") -> None:
    return None


@contextmanager
def status(words: Callable[[], str]) -> Iterator[None]:
    """Show what `words` returns, several times per second; not where a progress bar is shown already."""
    if _shown or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    line = Live(
        get_renderable=lambda: Text(words()),
        console=Console(stderr=True),
        refresh_per_second=5,
        transient=True,
        redirect_stdout=False,  # what the user prints is the user's
        redirect_stderr=False,
    )
    with line:
        yield
