"""Compiled kernels are kept in one folder or nowhere, and the user is told which."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import podium

PACKAGE = Path(podium.__file__).parent
CODE = """
import numpy as np
from podium.data.texts import Texts
from podium.formats.letor_parsing import copied_texts
print(copied_texts(np.frombuffer(b"abcd", np.uint8), np.array([[0, 2], [2, 3]]))[0])
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the sources, in which anything that is left behind is seen."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "podium", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "site"


def run(package: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=package,
        env=kept | {"PYTHONPATH": str(package)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def left_beside_the_sources(package: Path) -> list[str]:
    return [str(path) for path in package.rglob("*") if path.suffix in (".nbi", ".nbc")]


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("kind", ["a file", "below a file", "a read-only file system"])
def test_where_kernels_cannot_be_kept_they_are_kept_nowhere_and_the_user_is_told(package, tmp_path, variable, kind):
    (tmp_path / "file").write_text("")
    folder = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "x", "a read-only file system": "/proc"}
    done = run(package, "-c", CODE, **{variable: str(folder[kind])}, HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (0, "ab\n")
    assert done.stderr.count("compiled kernels cannot be kept there") == 1
    assert str(folder[kind]) in done.stderr
    assert "Set NUMBA_CACHE_DIR to a folder that can be written to." in done.stderr
    assert left_beside_the_sources(package) == []
    assert not (tmp_path / "home").exists()


def test_a_folder_below_that_cannot_be_written_to_sends_nothing_to_another_place(package, tmp_path):
    code = (
        "import pathlib, numba.core.caching as caching\n"
        "def refuse(self): raise PermissionError(13, 'Permission denied')\n"
        "for name in ('UserProvidedCacheLocator', '_UserProvidedCacheLocator'):\n"
        "    if hasattr(caching, name): getattr(caching, name).ensure_cache_path = refuse\n"
    )
    done = run(package, "-c", code + CODE, NUMBA_CACHE_DIR=str(tmp_path / "kept"), HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (0, "ab\n")
    assert done.stderr.count("compiled kernels cannot be kept there") == 1
    assert left_beside_the_sources(package) == []
    assert not list((tmp_path / "home").rglob("*.nb?"))


def test_a_disk_that_becomes_full_is_told_once_and_the_kernel_runs(package, tmp_path):
    code = (
        "import numba.core.caching as caching\n"
        "def full(self, *parts): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile.save = full\n"
    )
    done = run(package, "-c", code + CODE, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert (done.returncode, done.stdout) == (0, "ab\n")
    assert done.stderr.count("cannot be kept there (No space left on device)") == 1


def test_the_command_line_says_it_in_one_line(package, tmp_path):
    command = ("-c", "from podium.cli.commands import main; main()", "inspect", "none.podium")
    done = run(package, *command, NUMBA_CACHE_DIR="/proc/nowhere", HOME=str(tmp_path))
    first, second = done.stderr.splitlines()
    assert first.startswith("podium: /proc/nowhere: compiled kernels cannot be kept there")
    assert second == "podium: none.podium: No such file or directory"


def test_kernels_are_kept_where_they_can_be_and_importing_podium_makes_no_folder(package, tmp_path):
    done = run(package, "-c", "import podium, podium.cli.commands", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "cache").exists()
    done = run(package, "-c", CODE, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    assert len(list((tmp_path / "cache").rglob("*.nbi"))) >= 1
    assert left_beside_the_sources(package) == []
