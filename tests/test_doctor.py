"""The doctor: every fact is there and plausible, every problem gets a sentence."""

import copy
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import podium
from podium import doctor
from podium._runtime import machine as _machine


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return doctor.examine()


def changed(found: dict[str, Any], **parts: Any) -> dict[str, Any]:
    result = copy.deepcopy(found)
    for name, values in parts.items():
        result[name] |= values
    return result


def test_an_examination_is_plain_json(found: dict[str, Any]) -> None:
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found) == [
        "podium",
        "python",
        "tested_pythons",
        "platform",
        "cpu",
        "memory",
        "packages",
        "numba",
        "extras",
        "advice",
    ]


def test_the_machine_is_described(found: dict[str, Any]) -> None:
    assert found["podium"] == podium.__version__
    cpu, memory = found["cpu"], found["memory"]
    assert cpu["model"]
    assert 0 < cpu["usable"] <= cpu["count"]
    if memory["total"] is not None:
        assert memory["total"] > 2**27
        assert memory["available"] is None or memory["available"] <= memory["total"]


def test_core_packages_are_installed(found: dict[str, Any]) -> None:
    assert None not in found["packages"].values()


def test_a_kernel_really_ran_on_every_thread(found: dict[str, Any]) -> None:
    numba = found["numba"]
    assert "error" not in numba
    assert numba["threads"] >= 1
    assert numba["compiles"] is not bool(os.environ.get("NUMBA_DISABLE_JIT"))
    assert Path(numba["cache"]["folder"]).is_absolute()
    assert numba["cache"]["bytes"] >= 0


def test_extras_are_those_of_the_project(found: dict[str, Any]) -> None:
    project = Path(podium.__file__).parent.parent / "pyproject.toml"
    if not project.exists():
        pytest.skip("installed without its sources")
    declared = tomllib.loads(project.read_text())["project"]["optional-dependencies"]
    needed = {
        name: {re.split(r"[>\[]", requirement)[0] for requirement in requirements}
        for name, requirements in declared.items()
        if name not in ("dev", "bench", "docs")
    }
    assert {name: set(extra["versions"]) for name, extra in found["extras"].items()} == needed


def test_the_versions_of_python_that_were_tested_are_listed(found: dict[str, Any]) -> None:
    """Those that the project names. `make test-newer` has the newest that is installed, from 3.12 on."""
    row = dict(doctor.rows(found))["tested with"]
    assert row == "Python 3.11 (all tests), Python 3.13 (tests of threads and searches)"
    project = Path(podium.__file__).parent.parent / "pyproject.toml"
    if not project.exists():
        pytest.skip("installed without its sources")
    facts = tomllib.loads(project.read_text())["project"]
    name = "Programming Language :: Python :: 3."
    assert [f"3.{item.removeprefix(name)}" for item in facts["classifiers"] if item.startswith(name)] == list(
        found["tested_pythons"]
    )
    assert facts["requires-python"] == f">={min(found['tested_pythons'])}"


def test_a_missing_extra_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    extra = doctor._examine_extra("arrow")
    assert not extra["installed"]
    assert extra["install"] == 'pip install "podium[arrow]"'


def test_every_row_has_a_text(found: dict[str, Any]) -> None:
    assert all(what and text for what, text in doctor.rows(found))
    assert len(doctor.sentences(found)) == len(doctor.rows(found)) + max(1, len(found["advice"]))


def test_healthy_means_no_advice(found: dict[str, Any]) -> None:
    healthy = changed(found, numba={"compiles": True, "threads": 1, "cache": {"writable": True}})
    assert list(doctor._advice(healthy)) == []


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"packages": {"scipy": None}}, "not installed: scipy"),
        ({"numba": {"compiles": False}}, "NUMBA_DISABLE_JIT"),
        ({"numba": {"cache": {"writable": False, "folder": "/nowhere"}}}, "NUMBA_CACHE_DIR"),
        ({"numba": {"error": "it hangs"}}, "it hangs"),
    ],
)
def test_each_problem_gets_a_sentence(found: dict[str, Any], parts: dict[str, Any], words: str) -> None:
    base = {"compiles": True, "threads": 1, "cache": {"writable": True}}
    sick = changed(found, **parts | {"numba": base | parts.get("numba", {})})
    (advice,) = doctor._advice(sick)
    assert words in advice


def test_a_hang_is_bounded() -> None:
    assert "did not finish in 0.01 seconds" in doctor._examine_numba(0.01)["error"]


def test_a_failing_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PROBE", "raise RuntimeError('no compiler')")
    numba = doctor._examine_numba(30)
    assert numba["error"].endswith("RuntimeError: no compiler")


def test_a_python_that_does_not_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert "no Python subprocess" in doctor._examine_numba(30)["error"]


def test_rows_work_without_numba(found: dict[str, Any]) -> None:
    sick = {**found, "numba": {"error": "it hangs"}, "memory": {"total": None, "available": None}}
    assert ("Numba", "it hangs") in doctor.rows(sick)
    assert ("memory", "unknown of unknown") in doctor.rows(sick)


def test_the_doctor_imports_nothing_heavy() -> None:
    code = "import sys, podium.doctor; print(sorted({'numpy', 'numba', 'sklearn', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_limits_of_control_groups_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/cgroup": "0::/box/inner\n",
        "/sys/fs/cgroup/box/cpu.max": "150000 100000\n",
        "/sys/fs/cgroup/box/inner/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/box/memory.max": "1073741824\n",
        "/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n",
    }
    monkeypatch.setattr(_machine, "read", lambda path: files.get(path.as_posix(), ""))
    assert _machine.cpu_quota() == 150000 / 100000
    monkeypatch.setattr(_machine, "affinity", lambda: 64)
    assert _machine.usable_cores.__wrapped__() == 2
    assert doctor._examine_memory() == {"total": 2**30, "available": 2**30}
