"""`podium lab` on the command line: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import podium
from podium import cli
from podium.cli.lab import app

Command = Callable[..., tuple[int, str, str]]

EXPERIMENT = """
name = "tiny"
metrics = ["map", "ndcg@5"]
policies = ["standard", "letor4"]
baseline = "A"
[data]
files = ["all.txt"]
[folds]
k = 3
[models.A]
kind = "linear"
max_iter = 5
seeds = [0]
[models.B]
kind = "ranksvm"
C = 0.1
[models.LightGBM]
n_estimators = 2
seeds = [0]
[[published]]
title = "A table"
model = "A"
policy = "letor4"
values = { map = [0.5, 0.5, 0.5] }
"""


@pytest.fixture
def podium_lab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["podium", "lab", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    X = rng.random((12 * 6, 3), dtype=np.float32)
    data = podium.RankingData.from_arrays(X, (3 * X[:, 0]).round(), np.repeat(np.arange(12), 6))
    podium.write_letor(data, tmp_path / "all.txt")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_prints_leaderboards_published_tables_and_what_is_left_out(
    podium_lab: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podium.lab.experiments.making.is_installed", lambda name: False)
    code, out, errors = podium_lab("run", "exp.toml", "--jobs", "1", "--no-report")
    assert (code, errors) == (0, "")
    for text in (
        "tiny: policy standard, mean of 3 test parts",
        "tiny: policy letor4",
        "Differences from A with 95 % intervals over the queries of all test parts; p of the randomisation test.",
        "A table: published, ours (A, policy letor4, test part) and the difference",
        "left out: LightGBM: lightgbm is not installed. Install it with: pip install lightgbm",
        "lab-tiny: 6 runs; results.json, results.csv, queries.csv",
    ):
        assert text in out
    code, out, errors = podium_lab("run", "exp.toml", "--json", "--no-report")
    found = json.loads(out)
    assert (code, errors) == (0, "")
    assert {line["model"] for line in found["leaderboard"]} == {"A", "B"}
    assert found["published"][0]["metrics"]["map"]["published_mean"] == 0.5
    assert found["left_out"].keys() == {"LightGBM"}
    assert found["failures"] == []


def test_a_failure_is_told_and_the_exit_code_is_1(podium_lab: Command, folder: Path) -> None:
    bad = '[models.Bad]\nkind = "pointwise"\nestimator = "logistic_regression"\nrelevant = 99.0\n'
    (folder / "exp.toml").write_text(EXPERIMENT.replace("[models.B]", f"{bad}[models.B]"))
    words = ("run", "exp.toml", "--models", "Bad,A", "--folds", "2", "--jobs", "1", "--no-report", "--out", "out")
    code, out, errors = podium_lab(*words)
    assert code == 1
    assert "out: 1 run;" in out
    assert errors.startswith("podium: Bad, fold 2, seed 0: ValueError: ")


def test_models_whose_names_have_commas_can_be_chosen(podium_lab: Command, folder: Path) -> None:
    """As those of the preset: "A", "A, by halves", "A, by halves, again"."""
    halves = '[models."A, by halves"]\nkind = "linear"\nmax_iter = 3\nseeds = [0]\n'
    (folder / "exp.toml").write_text(
        EXPERIMENT.replace("[models.B]", f"{halves}{halves.replace('halves', 'halves, again')}[models.B]")
    )
    words = ("run", "exp.toml", "--folds", "2", "--jobs", "1", "--no-report", "--out", "out", "--json", "--models")
    for asked, chosen in (
        ("A, by halves, again", {"A, by halves, again"}),
        ("A,by halves,A", {"A, by halves, again", "A, by halves", "A"}),
    ):
        code, out, _ = podium_lab(*words, asked)
        assert code == 0
        assert {line["model"] for line in json.loads(out)["leaderboard"]} == chosen
    code, _, errors = podium_lab(*words, "A, by thirds")
    assert code == 2
    assert "got 'by thirds'" in errors


def test_the_report_is_written_where_it_can_be(
    podium_lab: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    words = ("run", "exp.toml", "--models", "A", "--folds", "1", "--jobs", "1", "--out", "out")
    code, out, _ = podium_lab(*words)
    assert code == 0
    assert out.endswith("out/report.html: written\n")
    assert "<html" in (folder / "out" / "report.html").read_text()[:200]
    monkeypatch.setattr("podium.cli.lab_tables.find_spec", lambda name: None)
    _, out, _ = podium_lab(*words)
    assert out.endswith("For a report: pip install 'podium[report]', then: podium lab report out\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "exp.toml", "--folds", "7"), "folds must be one of 1, 2, 3; got '7'."),
        (("run", "exp.toml", "--models", "C"), "models must be one of A, B, LightGBM; got 'C'."),
        (("run", "exp.toml", "--on", "tset"), "on: input should be 'test' or 'valid'; got 'tset'."),
        (("run", "exp.toml", "--out", "all.txt"), "all.txt: is a file; expected a folder for results."),
        (("run", "exp.toml", "--out", "."), ".: holds other files and no results of an experiment."),
        (("run", "mq2080"), "mq2080: no such file, and no such preset. Did you mean 'mq2008'?"),
        (("show", "nowhere.toml"), "nowhere.toml: no such file."),
        (("download", "mslr-web10k", "--to", "."), "data set mslr-web10k: its publisher allows no direct download."),
        (("download", "istella-s", "--to", "."), "data set istella-s: its terms have to be accepted first."),
        (("run", "exp.toml", "--jobs", "1", "--jobs", "2"), "--jobs is given 2 times; give it once."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    podium_lab: Command, folder: Path, words: tuple[str, ...], message: str
) -> None:
    code, out, errors = podium_lab(*words)
    assert (code, out) == (2, "")
    assert errors.startswith(f"podium: {message}"), errors
    assert errors.count("\n") == 1
    assert not (folder / "lab-tiny").exists()


def test_slips_of_a_file_are_told_with_its_name(podium_lab: Command, folder: Path) -> None:
    (folder / "exp.toml").write_text(EXPERIMENT.replace("max_iter", "max_itr"))
    code, _, errors = podium_lab("run", "exp.toml")
    assert code == 2
    assert errors == "podium: exp.toml: models.A.max_itr: unknown parameter. Did you mean 'max_iter'?\n"


def test_show_prints_the_preset_as_it_can_be_changed(podium_lab: Command, folder: Path) -> None:
    code, out, _ = podium_lab("show", "mq2008")
    assert code == 0
    (folder / "mine.toml").write_text(out)
    assert podium_lab("show", "mine.toml")[1] == out
    plain: Any = json.loads(podium_lab("show", "mq2008", "--json")[1])
    assert plain["models"]["RankSVM (published C)"]["by_fold"]["4"]["C"] == pytest.approx(0.2 / 470, rel=1e-4)


def test_data_lists_every_data_set(podium_lab: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_DATA", str(folder))
    for number in range(1, 6):
        (folder / "MQ2008").mkdir(exist_ok=True)
        (folder / "MQ2008" / f"S{number}.txt").write_text("1 qid:1 1:1\n")
    code, out, _ = podium_lab("data")
    assert code == 0
    assert "istella-s: Read its terms at" in out
    assert "mq2008: " not in out
    code, out, errors = podium_lab("data", "--json", "--check")
    assert code == 1
    assert errors.count("bytes of content but found") == 5
    assert next(line for line in json.loads(out) if line["name"] == "mq2008")["folder"] == str(folder / "MQ2008")


@pytest.mark.parametrize("command", [command.name for command in app.registered_commands])
def test_every_command_knows_json(podium_lab: Command, command: str) -> None:
    code, out, _ = podium_lab(command, "--help")
    assert code == 0
    assert "--json" in out


def test_worked_numbers_are_printed_with_their_slips(podium_lab: Command) -> None:
    code, out, err = podium_lab("worked-numbers")
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[2:-1]] for line in out.splitlines() if line.startswith("│")]
    assert ["DCG@5 of labels 0 1 0 1 1", "1.45", "1/log2(3) + 1/log2(5) + 1/log2(6)", "1.4485", "yes"] in rows
    assert ["MART on 17 points: first tree, left leaf", "-1.027", "13/9 - 42/17", "-1.0261", "no"] in rows
    assert "Rounded before subtracting: 1.444 - 2.471 is -1.027, but 13/9 - 42/17 is -1.0261." in out
    agreed, differed = sum(row[-1] == "yes" for row in rows), sum(row[-1] == "no" for row in rows)
    summary = f"{agreed + differed} examples: {agreed} agree with the source, {differed} do not."
    assert out.splitlines()[-1] == summary


def test_worked_numbers_as_json_have_the_same_examples(podium_lab: Command) -> None:
    code, out, _ = podium_lab("worked-numbers", "--json")
    report = json.loads(out)
    assert code == 0
    assert report["unexpected"] == 0
    assert report["agree"] + report["differ"] == len(report["examples"])
    assert all(one["agrees"] == (one["slip"] == "") for one in report["examples"])
    auc = next(one for one in report["examples"] if one["what"] == "AUC of labels 1 0 1 0 0")
    assert auc["printed_value"] == pytest.approx(1 / 6)
    assert auc["ours"] == auc["expected"] == pytest.approx(5 / 6)


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["table", "json"])
def test_a_worked_number_that_podium_misses_is_named_and_ends_in_1(
    podium_lab: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    from podium.lab.worked import measures

    monkeypatch.setattr(measures, "discounts", lambda n, kind: np.full(n, 0.25))
    code, out, err = podium_lab("worked-numbers", *words)
    assert code == 1
    assert err.splitlines()[0].startswith(
        "podium: discount of rank 1: expected 1/log2(2) = 1 but Podium computes 0.25."
    )
    assert len(err.splitlines()) == 5
    assert not words or json.loads(out)["unexpected"] == 5


def test_asking_the_lab_for_help_loads_no_worked_numbers() -> None:
    code = (
        "import sys; sys.argv[1:] = ['lab', '--help']; from podium.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith(('podium.lab', 'podium.models', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "worked-numbers" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
