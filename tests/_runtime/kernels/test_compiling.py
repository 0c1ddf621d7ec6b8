"""A fit that compiles says so once, and the seconds of compiling are not those of a training."""

import json
import os
import pty
import subprocess
import sys

import pytest

SENTENCE = "podium: compiling kernels, which takes about 30 seconds, once per machine"
FIT = """
import numpy as np
import podium
from podium._runtime.kernels import compiling
compiling._WORTH_A_SENTENCE = 0.0  # seconds
X = np.arange(40.0).reshape(20, 2)
y, qid = np.arange(20) % 3, np.repeat([1, 2], 10)
"""


def run(code, folder, stderr=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-c", FIT + code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), "TERM": "xterm", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=True,
        timeout=300,
    )


def test_the_first_fit_says_once_that_kernels_are_compiled_and_the_next_process_nothing(tmp_path):
    two = "for _ in range(2): podium.Linear(max_iter=2).fit(X, y, qid=qid)\nprint('done')"
    first, second = run(two, tmp_path), run(two, tmp_path)
    assert [first.stdout, second.stdout] == ["done\n"] * 2
    assert len(first.stderr.splitlines()) == 1
    assert first.stderr.startswith(SENTENCE)
    assert second.stderr == ""


def test_what_is_compiled_outside_of_a_fit_is_not_announced(tmp_path):
    assert run("podium.evaluate(X[:, 0], y, qid=qid)", tmp_path).stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_shows_how_many_kernels_were_compiled_so_far(tmp_path):
    ours, theirs = pty.openpty()
    slow = "compiling._WORTH_A_SENTENCE = 0.2\n"  # the second kernel is announced while it is compiled
    with os.fdopen(theirs, "wb") as stderr:
        run(slow + "podium.Linear(max_iter=2).fit(X, y, qid=qid)", tmp_path, stderr)
    output = b""
    while SENTENCE.encode() not in output or b"compiling: " not in output:
        output += os.read(ours, 1 << 16)
    os.close(ours)


def test_the_seconds_of_a_training_do_not_have_those_of_compiling(tmp_path):
    code = f"""
import json, time
from pathlib import Path
from podium.models.registry import plan_model
from podium.workflows.training import train
compiling.announce_nothing()
before, start = compiling.compile_seconds(), time.perf_counter()
data = podium.RankingData.from_arrays(X, y, qid)
trained = train(plan_model("linear", ["max_iter=2"], 1, 0), data, {{}}, Path({str(tmp_path / "m.podium")!r}))
print(json.dumps([trained.seconds, time.perf_counter() - start, compiling.compile_seconds() - before]))
"""
    training, passed, compiled = json.loads(run(code, tmp_path).stdout)
    assert compiled > 0
    assert 0 < training <= passed - compiled
