"""The examples: each runs as a newcomer would run it, and prints what its comments say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from promises import assert_alike, promised

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


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
