"""The examples: each runs as a newcomer would run it, and prints what its comments say."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from promises import assert_alike, promised

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOK = ROOT / "examples" / "08_notebook.ipynb"
RUN = "from nbclient.cli import main; main()"


def test_examples_are_numbered_and_short():
    assert [path.name[:3] for path in EXAMPLES] == [f"{number:02}_" for number in range(1, len(EXAMPLES) + 1)]
    assert len(EXAMPLES) == 7
    assert all(len(path.read_text("utf-8").splitlines()) < 40 for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(path, tmp_path):
    known = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=known, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "compiling kernels" not in line] == []
    code = path.read_text("utf-8")
    assert promised(code).count("\n") > 0
    assert_alike(done.stdout.strip(), promised(code), trained=True)


def outputs_of(path):
    """What each cell shows, without progress bars, which have ended, and warnings of compiling."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    results = [[one["data"] for one in cell.get("outputs", []) if "data" in one] for cell in cells]
    texts = [["".join(data.get("text/html", data["text/plain"])) for data in cell] for cell in results]
    return [[text for text in cell if text] for cell in texts]


def test_the_notebook_shows_what_is_stored_in_it(tmp_path):
    again = tmp_path / NOTEBOOK.name
    again.write_bytes(NOTEBOOK.read_bytes())
    known = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    run = [sys.executable, "-c", RUN, "--inplace", str(again)]
    done = subprocess.run(run, cwd=tmp_path, env=known, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    stored, shown = outputs_of(NOTEBOOK), outputs_of(again)
    assert sum(map(len, stored)) == 5
    for before, after in zip(stored, shown, strict=True):
        assert len(before) == len(after)
        for one, other in zip(before, after):
            numbers = [[float(n) for n in re.findall(r"\d+\.\d+", text)] for text in (one, other)]
            assert numbers[1] == pytest.approx(numbers[0], abs=0.02)
            assert re.sub(r"\d+\.\d+", "N", one) == re.sub(r"\d+\.\d+", "N", other)
