"""A progress bar with the time left, on standard error, silent when that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

Report = Callable[[float, float], None]  # done, total (in any unit)


class NotedReport(Protocol):
    """A Report that can also show a few words beside the bar."""

    def __call__(self, done: float, total: float, note: str = "") -> None: ...


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
        yield lambda done, total, note="": bar.update(task, completed=done, total=total, note=note)
