"""Provenance: versions, hardware and data of an experiment, so that its numbers can be traced; and peak memory."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from podium import __version__
from podium._runtime import machine
from podium.lab.experiments.datasets import content_of
from podium.lab.experiments.folds import Folds

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "jax", "optuna", "lightgbm", "xgboost")


def versions() -> dict[str, str]:
    versions = {"podium": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def hardware() -> dict[str, Any]:
    return {
        "processor": machine.cpu_model(),
        "cores": machine.usable_cores(),
        "memory": machine.memory(),
        "platform": platform.platform(),
    }


def data_of(folds: Folds, name: str | None, *, test: bool = True) -> dict[str, Any]:
    """The files that are read, with sizes and checksums of their content, without compression."""
    paths = folds.files_read(test=test)
    common = Path(os.path.commonpath([path.parent.resolve() for path in paths]))
    contents = {str(path.resolve().relative_to(common)): content_of(path) for path in paths}
    files = {path: {"bytes": content.size, "sha256": content.sha256} for path, content in contents.items()}
    return {"name": name, "files": files}


def reset_peak_memory() -> None:
    """Begin to measure anew, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory() -> int:
    """The largest memory of this process in bytes, since `reset_peak_memory` where the system can tell."""
    for line in machine.read(Path("/proc/self/status")).splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024
