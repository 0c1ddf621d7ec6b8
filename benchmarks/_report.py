"""What every benchmark prints: the hardware, the versions, the first call (which may compile) and the best of several.

A line that starts with RESULT is a row of `benchmarks/results.md`: what | against | measured | bar | met or missed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

TABLE_HEAD = "| what | against | measured | bar |\n| --- | --- | --- | --- |"
_START = "RESULT |"
_VERDICTS = {None: "", True: "met", False: "missed"}


@dataclass(frozen=True)
class Row:
    """A measurement beside its bar, and whether that was met; a row without a bar has no verdict."""

    what: str
    against: str
    measured: str
    bar: str = ""
    met: bool | None = None

    def __post_init__(self) -> None:
        if (self.met is None) == bool(self.bar):
            raise ValueError(f"A row has a bar and whether it was met, or neither; got {self}.")
        if any("|" in cell for cell in self._cells):
            raise ValueError(f"| divides the cells of a row and is in none of them; got {self}.")

    @property
    def _cells(self) -> tuple[str, str, str, str]:
        return self.what, self.against, self.measured, self.bar

    def line(self) -> str:
        """What a benchmark prints."""
        return " | ".join(["RESULT", *self._cells, _VERDICTS[self.met]]).rstrip()

    @staticmethod
    def parse(line: str) -> Row:
        *cells, verdict = (cell.strip() for cell in line.removeprefix(_START).split("|"))
        met = {name: met for met, name in _VERDICTS.items()}
        if len(cells) != 4 or verdict not in met:
            raise ValueError(f"Expected RESULT | what | against | measured | bar | met or missed; got {line!r}.")
        return Row(*cells, met=met[verdict])

    def table_line(self) -> str:
        """What `results.md` has."""
        bar = f"**missed** {self.bar}" if self.met is False else self.bar
        return f"| {self.what} | {self.against} | {self.measured} | {bar} |"


def rows_of(printed: str) -> tuple[list[Row], list[str]]:
    """The rows in the output of a benchmark, and what is wrong with lines that should be rows."""
    rows, faults = [], []
    for line in printed.splitlines():
        if line.startswith(_START):
            try:
                rows.append(Row.parse(line))
            except ValueError as error:
                faults.append(str(error))
    return rows, faults


def table_of(rows: Sequence[Row]) -> str:
    return "\n".join([TABLE_HEAD, *(row.table_line() for row in rows)])


def bars_line(rows: Sequence[Row]) -> str:
    """How many bars there are and how many were missed."""
    verdicts = [row.met for row in rows if row.met is not None]
    missed = verdicts.count(False)
    return f"{len(verdicts)} bars, {missed or 'none'} missed"


@dataclass(frozen=True)
class Timing:
    """Seconds of the first call and of the fastest later one."""

    first: float
    best: float


def hardware_line() -> str:
    """Processor, usable cores and system in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores, {platform.system()}, Python {platform.python_version()}"


def versions_line(*packages: str) -> str:
    return ", ".join(f"{name} {_version(name)}" for name in ("podium", "numba", "numpy", *packages))


def commit_of(root: Path) -> str:
    """The commit of a checkout: "abc1234", "abc1234 and uncommitted changes", or "unknown" where there is none."""
    try:
        commit, changes = (
            subprocess.run(["git", *command], cwd=root, check=True, capture_output=True, text=True).stdout.strip()
            for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} and uncommitted changes" if changes else commit


def print_header(title: str, packages: Sequence[str]) -> None:
    print(f"# {title}\n{hardware_line()}\n{versions_line(*packages)}")


def print_result(what: str, against: str, measured: str, bar: str = "", met: Any = None) -> None:
    """Print a row; `met` says whether the bar was met, computed from the numbers as they were before rounding."""
    print(Row(what, against, measured, bar, None if met is None else bool(met)).line(), flush=True)


def best_of(work: Callable[[], Result], repeat: int = 5) -> tuple[float, Result]:
    """(seconds of the fastest run, its result)."""
    results = []
    for _ in range(repeat):
        started = time.perf_counter()
        found = work()
        results.append((time.perf_counter() - started, found))
    return min(results, key=lambda pair: pair[0])


def measure(work: Callable[[], Any], repeats: int = 5) -> Timing:
    """Time a first call and `repeats` further ones; without any, the first counts."""
    return measure_in_turns({"": work}, repeats)[""]


def measure_in_turns(rivals: Mapping[str, Callable[[], Any]], repeats: int = 5) -> dict[str, Timing]:
    """Time several in turns, so that a busy moment of the machine hits all of them alike."""
    first = {name: best_of(work, 1)[0] for name, work in rivals.items()}
    best = dict(first) if repeats == 0 else dict.fromkeys(rivals, float("inf"))
    for _ in range(repeats):
        for name, work in rivals.items():
            best[name] = min(best[name], best_of(work, 1)[0])
    return {name: Timing(first[name], best[name]) for name in rivals}


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes; Linux only.

    Not `ru_maxrss`: a child starts with that of the process which started it.
    """
    return _memory("VmHWM")


def resident_memory() -> int:
    """The resident size of this process now, in bytes; Linux only."""
    return _memory("VmRSS")


def own_memory() -> int:
    """The resident size without pages of files, in bytes; Linux only."""
    return _memory("RssAnon")


def _memory(name: str) -> int:
    with open("/proc/self/status", encoding="utf-8") as lines:
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
