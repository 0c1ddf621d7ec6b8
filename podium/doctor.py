"""The doctor: what this machine and this installation offer, and what limits speed.

Nothing heavy is imported here. Compiled code is tried out in a second process, so that no threads are started in this
one and a hang ends after a while.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from podium._runtime import machine as _machine
from podium._runtime.words import counted

CORE = (
    *("numpy", "scipy", "scikit-learn", "threadpoolctl", "numba", "llvmlite"),
    *("narwhals", "PyStemmer", "pydantic", "typer", "rich"),
)
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "report": ("plots in reports, drawings of trees and explanations", ("matplotlib",)),
    "arrow": ("Arrow tables and Parquet files", ("pyarrow",)),
    "neural": ("training of neural networks", ("jax", "optax")),
    "onnx": ("models as ONNX", ("onnx",)),
    "serve": ("podium serve", ("fastapi", "uvicorn", "httptools", "uvloop", "jinja2", "orjson", "prometheus-client")),
    "dask": ("training and scoring on several machines", ("dask", "distributed", "pyarrow")),
    "gpu": ("boosted trees on an NVIDIA GPU", ("cupy-cuda13x",)),
    "tune": ("tuning that learns from earlier trials", ("optuna",)),
}
# Versions of Python that were tested, and by what: `.ci/run`.
TESTED_PYTHONS = {"3.11": "all tests", "3.13": "tests of threads and searches"}
PROBE_SECONDS = 90  # compiling takes a few; more than this is a hang
_GIB = 2**30
_PROBE = "import sys; sys.path.append(sys.argv[1]); from podium.doctor import probe_numba; probe_numba()"


def examine(timeout: float = PROBE_SECONDS) -> dict[str, Any]:
    """Everything the doctor knows, as plain values that JSON can hold; `advice` is empty when all is well."""
    from podium import __version__

    report: dict[str, Any] = {
        "podium": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "tested_pythons": dict(TESTED_PYTHONS),
        "platform": platform.platform(),
        "cpu": _examine_cpu(),
        "memory": _examine_memory(),
        "packages": {name: _version(name) for name in CORE},
        "numba": _examine_numba(timeout),
        "extras": {name: _examine_extra(name) for name in EXTRAS},
    }
    report["advice"] = list(_advice(report))
    return report


def rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """An examination as pairs (what, text), for a table."""
    cpu, numba, sizes = report["cpu"], report["numba"], [report["memory"][key] for key in ("available", "total")]
    lines = [
        ("podium", report["podium"]),
        ("Python", report["python"]),
        ("tested with", ", ".join(f"Python {one} ({tests})" for one, tests in report["tested_pythons"].items())),
        ("platform", report["platform"]),
        ("processor", f"{cpu['model']}, {counted(cpu['count'], 'core')}, {cpu['usable']:g} usable"),
        ("memory", " of ".join("unknown" if size is None else f"{size / _GIB:.1f} GiB" for size in sizes)),
        ("packages", ", ".join(f"{name} {version or 'missing'}" for name, version in report["packages"].items())),
    ]
    if "error" in numba:
        return [*lines, ("Numba", numba["error"]), *_extra_rows(report)]
    cache = numba["cache"]
    state = "writable" if cache["writable"] else "not writable"
    return [
        *lines,
        ("Numba", counted(numba["threads"], "thread") if numba["compiles"] else "compilation is disabled"),
        ("processor family", f"{numba['family']}; equal models are promised on equal ones"),
        ("compiled code", f"{cache['folder']} ({state}, {cache['bytes'] / 1e6:.1f} MB)"),
        *_extra_rows(report),
    ]


def sentences(report: dict[str, Any]) -> list[str]:
    """An examination as lines of text, the advice last."""
    advice = report["advice"] or ["No problems found."]
    return [*(f"{what}: {text}" for what, text in rows(report)), *advice]


def probe_numba() -> None:
    """Run a kernel on all threads and print what was used as JSON; meant for a process of its own."""
    import numpy as np

    from podium._runtime.compiler import kernel
    from podium._runtime.kernels.cache import cache_folder, kernels_are_kept
    from podium._runtime.threads import map_blocks, usable_threads

    @kernel
    def add_up(values: np.ndarray) -> float:
        result = 0.0
        for value in values:
            result += value
        return result

    threads = usable_threads(None)
    sums = np.zeros(threads)

    def work(block: int) -> None:
        sums[block] = add_up(np.ones(1000))

    map_blocks(work, threads)
    if sums.sum() != 1000.0 * threads:
        raise RuntimeError(f"{threads} sums of 1000 ones were {sums}")
    compiles = not import_module("numba").config.DISABLE_JIT
    cache = {"folder": str(cache_folder()), "writable": kernels_are_kept()}
    print(json.dumps({"threads": threads, "compiles": compiles, "family": _machine.cpu_family(), "cache": cache}))


def _examine_numba(timeout: float) -> dict[str, Any]:
    command = [sys.executable, "-c", _PROBE, str(Path(__file__).parent.parent)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {"error": f"a small kernel did not finish in {timeout:g} seconds"}
    except OSError as error:
        return {"error": f"no Python subprocess could be started ({error})"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {"error": f"a small kernel failed: {last}"}
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report | {"cache": report["cache"] | {"bytes": _size_of(Path(report["cache"]["folder"]))}}


def _size_of(folder: Path) -> int:
    size = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # another process may be tidying up
            size += file.stat().st_size if file.is_file() else 0
    return size


def _examine_extra(name: str) -> dict[str, Any]:
    adds, packages = EXTRAS[name]
    versions = {package: _version(package) for package in packages}
    installed = None not in versions.values()
    command = None if installed else f'pip install "podium[{name}]"'
    return {"adds": adds, "installed": installed, "versions": versions, "install": command}


def _examine_cpu() -> dict[str, Any]:
    quota, affinity = _machine.cpu_quota(), _machine.affinity()
    usable = affinity if quota is None else min(affinity, quota)
    count = os.cpu_count() or 1
    return {"model": _machine.cpu_model(), "count": count, "affinity": affinity, "quota": quota, "usable": usable}


def _examine_memory() -> dict[str, int | None]:
    sizes: dict[str, int] = {}
    for line in _machine.read(Path("/proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        sizes[name] = int(rest.split()[0]) * 1024
    total, available = sizes.get("MemTotal", _physical_memory()), sizes.get("MemAvailable")
    texts = [_machine.read(folder / "memory.max").strip() for folder in _machine.control_groups()]
    texts.append(_machine.read(Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")).strip())
    limit = min((int(text) for text in texts if text.isdigit()), default=None)
    if limit is not None and (total is None or limit < total):
        total, available = limit, None if available is None else min(available, limit)
    return {"total": total, "available": available}


def _physical_memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not available on every system
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _extra_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (f"extra {name}", f"{extra['adds']}: {'installed' if extra['installed'] else extra['install']}")
        for name, extra in report["extras"].items()
    ]


def _advice(report: dict[str, Any]) -> Iterator[str]:
    missing = ", ".join(name for name, version in report["packages"].items() if version is None)
    if missing:
        yield f"Podium needs packages that are not installed: {missing}. Run: pip install --upgrade podium"
    numba = report["numba"]
    if "error" in numba:
        yield f"Compiled code does not run: {numba['error']}. Reinstall it with: pip install --force-reinstall numba"
        return
    if not numba["compiles"]:
        yield "Kernels are not compiled, because NUMBA_DISABLE_JIT is set, and run far slower. Unset it."
    if not numba["cache"]["writable"]:
        yield (
            f"Compiled code cannot be kept in {numba['cache']['folder']} (not writable), so every process compiles "
            "again. Set NUMBA_CACHE_DIR to a folder you may write to."
        )
