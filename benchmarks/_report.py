"""What every benchmark prints: the hardware, the versions, the first call (which may compile) and the best of several.

A line that starts with RESULT is a row of `benchmarks/results.md`: what | against | measured | bar.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

Result = TypeVar("Result")


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


def print_header(title: str, packages: Sequence[str]) -> None:
    print(f"# {title}\n{hardware_line()}\n{versions_line(*packages)}")


def print_result(what: str, against: str, measured: str, bar: str) -> None:
    print(f"RESULT | {what} | {against} | {measured} | {bar}")


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
