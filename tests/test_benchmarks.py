"""What benchmarks print, and how a run of all of them becomes results.md."""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import podium

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("_report")


@pytest.fixture
def quality(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("_quality")


# --- rows


@pytest.mark.parametrize(
    ("cells", "line", "table_line"),
    [
        (
            ("a", "b", "0.4", "at most 0.5", True),
            "RESULT | a | b | 0.4 | at most 0.5 | met",
            "| a | b | 0.4 | at most 0.5 |",
        ),
        (
            ("a", "b", "0.6", "at most 0.5", np.False_),
            "RESULT | a | b | 0.6 | at most 0.5 | missed",
            "| a | b | 0.6 | **missed** at most 0.5 |",
        ),
        (("a", "", "3 s"), "RESULT | a |  | 3 s |  |", "| a |  | 3 s |  |"),
    ],
)
def test_a_result_is_printed_read_and_shown_with_its_verdict(report, capsys, cells, line, table_line):
    report.print_result(*cells)
    printed = capsys.readouterr().out
    assert printed == f"{line}\n"
    (row,), faults = report.rows_of(f"# a title\n{printed}12 s\n")
    assert (row.table_line(), faults) == (table_line, [])
    assert row.line() == line


def test_bars_are_counted_and_rows_without_one_are_not(report):
    rows = [report.Row("a", "", "1", "2", met) for met in (True, False, False)] + [report.Row("a", "", "1")]
    assert report.bars_line(rows) == "3 bars, 2 missed"
    assert report.bars_line(rows[:1]) == "1 bars, none missed"


@pytest.mark.parametrize("cells", [("a", "b", "1", "2"), ("a", "b", "1", "", True), ("a | b", "", "1")])
def test_a_bar_without_a_verdict_a_verdict_without_a_bar_and_a_divided_cell_are_refused(report, cells):
    with pytest.raises(ValueError, match=r"A row has a bar|divides the cells"):
        report.print_result(*cells)


def test_a_line_that_is_no_row_is_a_fault_and_the_others_are_kept(report):
    rows, faults = report.rows_of("RESULT | a | b | 1 | 2\nRESULT | a | b | 1 | 2 | met\n")
    assert [row.what for row in rows] == ["a"]
    assert len(faults) == 1
    assert "'RESULT | a | b | 1 | 2'" in faults[0]


def calls_of(name, tree):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


@pytest.mark.parametrize("script", sorted(FOLDER.glob("bench_*.py")), ids=lambda script: script.stem)
def test_every_bar_of_a_benchmark_comes_with_its_verdict(script):
    text = script.read_text(encoding="utf-8")
    assert '"RESULT' not in text, "print rows by print_result"
    tree = ast.parse(text)
    for call in calls_of("print_result", tree) + calls_of("Row", tree):
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        given = len(call.args) + len(call.keywords)
        assert starred or given in (3, 5), f"line {call.lineno}: a bar needs whether it was met"


# --- differences


def test_every_part_has_the_same_weight_and_undefined_queries_are_left_out(quality):
    own = [np.array([1.0, 1.0, np.nan]), np.zeros(4)]
    found = quality.compare_means({"x": (own, [np.zeros(3), np.zeros(4)])})["x"]
    assert found.mean == pytest.approx((1 + 0) / 2)
    assert quality.mean_of(own) == pytest.approx((1 + 0) / 2)


def test_p_values_of_one_table_are_corrected_together(quality):
    """All of n equal differences: 2 of 2^n sign patterns are as extreme. Holm: the smaller p twice, then the larger."""
    table = {"three": ([np.ones(3)], [np.zeros(3)]), "five": ([np.ones(5)], [np.zeros(5)])}
    found = quality.compare_means(table)
    assert (found["three"].p, found["five"].p) == pytest.approx((2 / 8, 2 / 32))
    assert (found["three"].corrected, found["five"].corrected) == pytest.approx((2 / 8, 2 * 2 / 32))
    shown = "+1.0000 (no interval: too few non-zero differences; p = 0.062, by Holm over 2: 0.12)"
    assert str(found["five"]) == shown
    assert "Holm" not in str(quality.compare_means({"five": table["five"]})["five"])


def test_a_difference_is_that_of_podium_compare(quality):
    rng = np.random.default_rng(0)
    qid, y = np.repeat(np.arange(40), 8), rng.integers(0, 3, 320)
    systems = {name: y + rng.normal(0, scale, 320) for name, scale in (("other", 1.5), ("own", 0.8))}
    expected = podium.compare(systems, y, qid=qid, metrics=["ndcg@10"]).rows[0]
    values = {
        name: [np.asarray(podium.evaluate(s, y, qid=qid, metrics=["ndcg@10"]).per_query["ndcg@10"])]
        for name, s in systems.items()
    }
    found = quality.compare_means({"x": (values["own"], values["other"])})["x"]
    assert found.mean == pytest.approx(expected.difference)
    assert (found.low, found.high) == pytest.approx(expected.interval)
    assert found.p == pytest.approx(expected.p_values["randomisation"]["none"])
    assert f"({found.low:+.4f} to {found.high:+.4f}" in str(found).replace("95 % over queries: ", "")


# --- the run of all


def git(folder, *command):
    names = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *names, *command], cwd=folder, check=True, capture_output=True)


def test_the_commit_says_when_the_tree_is_dirty_and_is_unknown_outside_git(report, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    assert report.commit_of(tmp_path) == "unknown"
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.py").write_text("1\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "--quiet", "--message", "a")
    clean = report.commit_of(tmp_path)
    assert set(clean) <= set("0123456789abcdef")
    (tmp_path / "a.py").write_text("2\n")
    assert report.commit_of(tmp_path) == f"{clean} and uncommitted changes"


ROW = "print('RESULT | {} | x | 1 | at most 0 | missed')\n"
COUNTED = "open('runs.txt', 'a').write(__file__[-4])\n"  # the letter of bench_a.py


@pytest.fixture
def folder(tmp_path):
    """A folder of two benchmarks, with the results of an earlier run."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name in ("run_all.py", "_report.py"):
        shutil.copy(FOLDER / name, folder)
    (folder / "bench_a.py").write_text(COUNTED + ROW.format("first"))
    (folder / "bench_b.py").write_text(COUNTED + ROW.format("second"))
    (folder / "results.md").write_text("earlier\n")
    return folder


def run(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PODIUM_DATA", None)
    command = [sys.executable, str(folder / "run_all.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_complete_run_replaces_the_results_and_names_what_failed(folder):
    (folder / "bench_c.py").write_text(ROW.format("third") + "raise SystemExit(3)\n")
    (folder / "bench_d.py").write_text("print('No GPU: nothing to measure.')\n")
    done, text = run(folder), (folder / "results.md").read_text()
    assert done.returncode == 1
    assert "These did not finish: bench_c.py" in done.stderr
    assert "3 bars, 3 missed." in text
    assert "**Did not finish:** bench_c.py (exit status 3)" in text
    assert "Nothing to measure here: bench_d.py." in text
    assert "PODIUM_DATA was not set" in text
    assert " UTC, commit unknown, 0 minutes." in text
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert table[2:] == [f"| {name} | x | 1 | **missed** at most 0 |" for name in ("first", "second", "third")]
    assert not (folder / ".unfinished").exists()


def test_some_scripts_alone_leave_the_results_as_they_were(folder):
    done = run(folder, "--only", "bench_b.py")
    assert done.returncode == 0
    assert "| second | x | 1 | **missed** at most 0 |" in done.stdout
    assert (folder / "results.md").read_text() == "earlier\n"
    assert not (folder / ".unfinished").exists()


KILLING = """import os, signal, pathlib
if not pathlib.Path("killed.txt").exists():
    pathlib.Path("killed.txt").touch()
    os.kill(os.getppid(), signal.SIGKILL)
    raise SystemExit
"""


def test_a_killed_run_leaves_the_results_alone_and_goes_on_where_it_was(folder):
    (folder / "bench_b.py").write_text(KILLING + COUNTED + ROW.format("second"))
    assert run(folder).returncode < 0
    assert (folder / "results.md").read_text() == "earlier\n"
    assert run(folder, "--resume").returncode == 0
    assert (folder / "runs.txt").read_text() == "ab"
    assert "2 bars, 2 missed." in (folder / "results.md").read_text()


def test_a_run_does_not_go_on_with_other_code(folder):
    (folder / "bench_b.py").write_text(KILLING)
    run(folder)
    (folder / "bench_b.py").write_text(ROW.format("second"))
    done = run(folder, "--resume")
    assert done.returncode == 1
    assert "Other code than when this run started" in done.stderr
    assert (folder / "results.md").read_text() == "earlier\n"


def test_code_that_changes_during_a_run_ends_it(folder):
    (folder / "bench_a.py").write_text("open('bench_b.py', 'a').write('# changed')\n" + ROW.format("first"))
    done = run(folder)
    assert done.returncode == 1
    assert "Other code than when this run started" in done.stderr
    assert (folder / "results.md").read_text() == "earlier\n"


def test_there_is_nothing_to_resume_without_an_unfinished_run(folder):
    assert "Start one without --resume" in run(folder, "--resume").stderr
