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
from podium.formats.letor.parsing import copied_texts
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
def test_where_kernels_cannot_be_kept_they_are_kept_nowhere_and_the_user_is_reported(package, tmp_path, variable, kind):
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


def test_a_disk_that_becomes_full_is_reported_once_and_the_kernel_runs(package, tmp_path):
    code = (
        "import numba.core.caching as caching\n"
        "def full(self, *parts): raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile.save = full\n"
    )
    done = run(package, "-c", code + CODE, NUMBA_CACHE_DIR=str(tmp_path / "kept"))
    assert (done.returncode, done.stdout) == (0, "ab\n")
    assert done.stderr.count("cannot be kept there (No space left on device)") == 1


def test_the_command_line_says_it_in_one_line(package, tmp_path):
    code = (
        "from podium._runtime.compiler import kernels_are_kept\n"
        "from podium.cli import app, main\n"
        "app.command('compile')(lambda: print(kernels_are_kept()))\n"
        "main()\n"
    )
    done = run(package, "-c", code, "compile", NUMBA_CACHE_DIR="/proc/nowhere", HOME=str(tmp_path))
    assert done.stdout == "False\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("podium: /proc/nowhere: compiled kernels cannot be kept there")


EVERYTHING = """
import importlib, pkgutil, podium
for module in pkgutil.walk_packages(podium.__path__, "podium."):
    if module.name != "podium.__main__":
        importlib.import_module(module.name)
"""


def test_kernels_are_kept_where_they_can_be_and_no_import_writes_or_deletes_anything(package, tmp_path):
    old = [tmp_path / "cache" / "podium" / f"kernels-{number}" for number in range(12)]
    for folder in old:
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    before = set(package.rglob("*"))
    done = run(package, "-B", "-c", EVERYTHING, XDG_CACHE_HOME=str(tmp_path / "cache"), HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted((tmp_path / "cache" / "podium").iterdir()) == sorted(old)
    assert not (tmp_path / "home").exists()
    assert set(package.rglob("*")) == before
    done = run(package, "-c", CODE, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    assert len(list((tmp_path / "cache").rglob("*.nbi"))) >= 1
    assert len(list((tmp_path / "cache" / "podium").iterdir())) == 9  # the new one, and the last eight
    assert left_beside_the_sources(package) == []
