"""What the operating system lets this process use."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path


@cache
def usable_cores() -> int:
    """Cores that may be used at the same time: by affinity, and by a container's quota."""
    quota = cpu_quota()
    return affinity() if quota is None else max(1, min(affinity(), round(quota)))


def affinity() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def memory() -> int:
    """Bytes of memory: the machine's, or what a container may use of it (control groups 2)."""
    limits = [read(folder / "memory.max").strip() for folder in control_groups()]
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63
    return min([physical, *(int(limit) for limit in limits if limit.isdigit())])


def cpu_quota() -> float | None:
    """Cores that a container's quota allows (control groups 2, then 1); None without a limit."""
    limits = []
    for folder in control_groups():
        words = read(folder / "cpu.max").split()
        if len(words) == 2 and words[0] != "max":
            limits.append(int(words[0]) / int(words[1]))
    quota, period = (read(Path("/sys/fs/cgroup/cpu") / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    if quota.isdigit() and period.isdigit():  # without a limit the quota is -1
        limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cpu_model() -> str:
    """The processor by name."""
    for line in read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        import subprocess

        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or platform.machine()
    return platform.processor() or platform.machine() or "unknown"


@cache
def cpu_family() -> str:
    """The processor as compilers see it: its kind, and a digest of its features. Equal ones run the same code."""
    from hashlib import sha256

    from llvmlite import binding

    features = ",".join(sorted(name for name, has in binding.get_host_cpu_features().items() if has))
    known = f"{platform.machine()} {binding.get_host_cpu_name()}"
    chosen = [os.environ[name] for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES") if os.environ.get(name)]
    return f"{known} {sha256(f'{features} {chosen}'.encode()).hexdigest()[:8]}"


def control_groups() -> list[Path]:
    """The folders of this process's control group and those above it; each may set a limit."""
    root = Path("/sys/fs/cgroup")
    group = next((line[3:] for line in read(Path("/proc/self/cgroup")).splitlines() if line.startswith("0::")), "/")
    folder = root / group.strip().lstrip("/")
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(root))]


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
