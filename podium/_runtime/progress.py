"""A progress bar with the time left, or a line of words, on standard error, silent when that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

Report = Callable[[float, float], None]  # done, total (in any unit)


class NotedReport(Protocol):
    """A Report that can also show a few words beside the bar."""

    def __call__(self, done: float, total: float, note: str = "") -> None: ...


_shown: list[str] = []  # the bars on the terminal; there is room for one


@contextmanager
def progress(what: str) -> Iterator[NotedReport]:
    """Yield a function to call with (done, total) and perhaps a note, as often as convenient."""
    if not sys.stderr.isatty():
        yield lambda done, total, note="": None
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
