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


@pytest.fixture
def environment(tmp_path):
    """A virtual environment in the current folder, as far as the demo can see."""
    script = tmp_path / ".venv" / "bin" / "podium"
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    sources = str(Path(podium.__file__).parent.parent)
    return tmp_path, os.environ | {"PATH": "/usr/bin:/bin", "PYTHONPATH": sources, "COLUMNS": "200"}


def test_the_program_is_named_as_it_is_called(environment, monkeypatch):
    folder, variables = environment
    script = folder / ".venv" / "bin" / "podium"
    monkeypatch.chdir(folder)
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
@pytest.mark.parametrize("program", [".venv/bin/podium", f"{shlex.quote(sys.executable)} -m podium"])
def test_the_next_steps_run_as_they_are_printed(environment, program):
    folder, variables = environment

    def run(command):
        return subprocess.run(
            command, shell=True, cwd=folder, env=variables, capture_output=True, text=True, timeout=900, check=True
        ).stdout

    printed = run(f"{program} demo")
    steps = re.findall(r"^   (\S.* (?:search|features|train|cascade) .*)$", printed.partition("Next steps")[2], re.M)
    assert len(steps) == 4
    for step in steps:
        run(step)
    assert any((folder / "demo" / "web" / "mart").iterdir())


@pytest.mark.slow
def test_the_service_starts_as_the_demo_prints_it(environment):
    folder, variables = environment
    command = [sys.executable, "-m", "podium", "demo"]
    printed = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=True).stdout
    (step,) = re.findall(r"^   \S.* -m podium serve (.*)$", printed.partition("Next steps")[2], re.M)
    with serving(*shlex.split(step), cwd=folder) as service:
        hits = podium.Client(service.address).search("where do bagels come from")["hits"]
    assert len(hits) == 10
