"""Compiled kernels are kept in one folder or nowhere, and the user is told which."""

import hashlib
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
    return [str(path) for path in package.rglob("*") if path.suffix in (".nbi", ".nbc", ".part")]


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


def test_a_disk_that_becomes_full_is_reported_once_and_the_kernel_runs(package, tmp_path):
    code = (
        "import podium._runtime.kernels.cache as cache\n"
        "def full(*parts): raise OSError(28, 'No space left on device')\n"
        "cache._write_sealed = full\n"
    )
    done = run(package, "-c", code + CODE, NUMBA_CACHE_DIR=str(tmp_path / "kept"), HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (0, "ab\n")
    assert done.stderr.count("cannot be kept there (No space left on device)") == 1
    assert left_beside_the_sources(package) == []
    assert not list((tmp_path / "home").rglob("*.nb?"))


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A copy of the sources and a folder with the kernels of CODE."""
    folder = tmp_path_factory.mktemp("warm")
    shutil.copytree(PACKAGE, folder / "site" / "podium", ignore=shutil.ignore_patterns("__pycache__"))
    done = run(folder / "site", "-c", CODE, NUMBA_CACHE_DIR=str(folder / "kept"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    return folder


def files_with_times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.nbc")}


def test_a_comment_in_every_module_and_another_place_of_the_package_compile_nothing(package, warm):
    before = files_with_times(warm / "kept")
    for path in package.rglob("*.py"):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        path.write_text("# a comment\n\n" + "".join(line + "\n" if line.strip() == "" else line for line in lines))
    done = run(package, "-c", CODE, NUMBA_CACHE_DIR=str(warm / "kept"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    assert files_with_times(warm / "kept") == before


def test_kernels_are_loaded_from_where_nothing_can_be_written(warm):
    code = (
        "import os, tempfile\n"
        "def refuse(*parts, **options): raise OSError(30, 'Read-only file system')\n"
        "tempfile.TemporaryFile = os.utime = os.replace = os.mkdir = refuse\n"
    )
    before = files_with_times(warm / "kept")
    assert before
    for path in (warm / "kept").rglob("*.nbc"):
        os.utime(path, (0, 0))  # so long ago that a use would be noted
    done = run(warm / "site", "-c", code + CODE, NUMBA_CACHE_DIR=str(warm / "kept"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    assert set(files_with_times(warm / "kept").values()) == {0}


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: content[::-1]])
def test_a_damaged_file_is_compiled_and_written_anew(warm, damage):
    path = max((warm / "kept").rglob("*.nbc"))
    path.write_bytes(damage(path.read_bytes()))
    done = run(warm / "site", "-c", CODE, NUMBA_CACHE_DIR=str(warm / "kept"))
    assert (done.stdout, done.stderr) == ("ab\n", "")
    content = path.read_bytes()
    assert content[:32] == hashlib.sha256(content[32:]).digest()


def test_processes_that_compile_at_the_same_time_leave_whole_files_only(package, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    start = [sys.executable, "-c", CODE]
    others = [subprocess.Popen(start, cwd=package, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in others] == [b"ab\n"] * 3
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".nbc"}
    for path in files:
        content = path.read_bytes()
        assert content[:32] == hashlib.sha256(content[32:]).digest()


def test_code_of_earlier_sources_is_dropped_a_day_after_its_last_use(warm):
    path = max((warm / "kept").rglob("*.nbc"))
    name, _, types = path.stem.rsplit("-", 2)
    earlier = [path.with_name(f"{name}-{digit * 16}-{types}.nbc") for digit in "ab"]
    for other in earlier:
        other.write_bytes(b"")
    os.utime(earlier[0], (0, 0))
    path.unlink()
    assert run(warm / "site", "-c", CODE, NUMBA_CACHE_DIR=str(warm / "kept")).stderr == ""
    assert [file.exists() for file in (path, *earlier)] == [True, False, True]


def test_the_command_line_says_it_in_one_line(package, tmp_path):
    code = (
        "from podium._runtime.kernels.cache import kernels_are_kept\n"
        "from podium.cli import app, main\n"
        "app.command('compile')(lambda: print(kernels_are_kept()))\n"
        "main()\n"
    )
    done = run(package, "-c", code, "compile", NUMBA_CACHE_DIR="/proc/nowhere", HOME=str(tmp_path))
    assert done.stdout == "False\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("podium: /proc/nowhere/")
    assert "compiled kernels cannot be kept there" in line


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
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) >= 1
    assert len(list((tmp_path / "cache" / "podium").iterdir())) == 9  # the new one, and the last eight
    assert left_beside_the_sources(package) == []
