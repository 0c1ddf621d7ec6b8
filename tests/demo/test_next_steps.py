"""The commands that the demo prints run exactly as they are printed, however it was called."""

import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from serving import serving

import podium
from podium._runtime.words import program_name

SCRIPT = f"#!{sys.executable}\nfrom podium.cli import main\nmain()\n"


SCRIPT_NAME, MODULE = ".venv/bin/podium", f"{shlex.quote(sys.executable)} -m podium"


def make_environment(folder):
    """A virtual environment in a folder, as far as the demo can see when that is the current one."""
    script = folder / ".venv" / "bin" / "podium"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    sources = str(Path(podium.__file__).parent.parent)
    return os.environ | {"PATH": "/usr/bin:/bin", "PYTHONPATH": sources, "COLUMNS": "200"}


def run(command, folder, variables):
    return subprocess.run(
        command, shell=True, cwd=folder, env=variables, capture_output=True, text=True, timeout=900, check=True
    ).stdout


@pytest.fixture(scope="module")
def demo(request, tmp_path_factory):
    """How the demo was called, where, and the next steps that it printed."""
    folder = tmp_path_factory.mktemp("demo")
    variables = make_environment(folder)
    return request.param, folder, variables, run(f"{request.param} demo", folder, variables).partition("Next steps")[2]


def test_the_program_is_named_as_it_is_called(tmp_path, monkeypatch):
    variables = make_environment(tmp_path)
    script = tmp_path / ".venv" / "bin" / "podium"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", variables["PATH"])
    for called, name in {
        str(script): ".venv/bin/podium",
        ".venv/bin/podium": ".venv/bin/podium",
        "podium": "podium",
        "train.py": "podium",
        "/elsewhere/my tools/podium": "'/elsewhere/my tools/podium'",
        "/elsewhere/podium/__main__.py": f"{shlex.quote(sys.executable)} -m podium",
    }.items():
        monkeypatch.setattr(sys, "argv", [called])
        assert program_name() == name
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program_name() == "podium"


@pytest.mark.slow
@pytest.mark.parametrize("demo", [SCRIPT_NAME, MODULE], indirect=True)
def test_the_next_steps_run_as_they_are_printed(demo):
    _, folder, variables, printed = demo
    steps = re.findall(r"^   (\S.* (?:search|features|train|cascade) .*)$", printed, re.M)
    assert len(steps) == 4
    for step in steps:
        run(step, folder, variables)
    assert any((folder / "demo" / "web" / "mart").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("demo", [MODULE], indirect=True)
def test_the_service_starts_as_the_demo_prints_it(demo):
    program, folder, _, printed = demo
    (step,) = re.findall(rf"^   {re.escape(program)} serve (.*)$", printed, re.M)
    with serving(*shlex.split(step), cwd=folder) as service:
        hits = podium.Client(service.address).search("where do bagels come from")["hits"]
    assert len(hits) == 10
