"""`podium tune`: the best model in a file, trials as a table, JSON or CSV; bad input before any work."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podium
from podium import cli
from podium.demo.letor import demo_splits


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    splits = demo_splits(n_queries=30)
    podium.write_letor(replace(splits.train, feature_names=None), folder / "train.txt")
    podium.write_letor(replace(splits.valid, feature_names=None), folder / "valid.txt")
    return folder


@pytest.fixture
def run(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["podium", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


SMALL = ("--set", "n_estimators=8", "--space", "max_leaf_nodes=3:12:log", "--space", "growth=leaf,level")


def test_tune_writes_the_best_model_and_the_history(run, folder) -> None:
    files = ("tune", "lambdamart", "train.txt", "--valid", "valid.txt", "--out", "m.podium", "--trials", "4")
    code, out, err = run(*files, *SMALL, "--history", "trials.csv", "--metric", "map")
    assert code == 0, err
    assert "map (standard)" in out
    assert "4 trials (optuna): " in out
    assert "chosen: max_leaf_nodes=" in out
    lines = list(csv.DictReader((folder / "trials.csv").read_text().splitlines()))
    assert [line["trial"] for line in lines] == ["1", "2", "3", "4"]
    best = max(float(line["value"]) for line in lines if line["value"])
    model, valid = podium.load(folder / "m.podium"), podium.read_letor(folder / "valid.txt")
    assert podium.evaluate(model.predict(valid), valid, metrics="map")["map"] == pytest.approx(best, abs=1e-12)
    code, out, err = run(*files, *SMALL, "--history", "trials.json", "--metric", "map", "--json")
    found = json.loads(out)
    assert found["chosen"]["max_leaf_nodes"] == model.max_leaf_nodes
    assert found["value"] == best
    kept = json.loads((folder / "trials.json").read_text())
    assert [trial["value"] for trial in kept["trials"]] == [trial["value"] for trial in found["trials"]]
    assert (found["written"], found["history"]) == ("m.podium", "trials.json")


def test_tune_without_a_space_takes_the_default_one(run, folder) -> None:
    words = ("--valid", "valid.txt", "--out", "l.podium", "--trials", "2", "--sampler", "random", "--json")
    code, out, err = run("tune", "mart", "train.txt", *words, "--set", "n_estimators=5")
    assert code == 0, err
    found = json.loads(out)
    assert found["sampler"] == "random"
    assert set(found["chosen"]) == {*podium.MART.search_space, "n_estimators"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--space", "max_leaf_node=3:9"], "Did you mean 'max_leaf_nodes'"),
        (["--space", "growth=leef,level"], "growth must be one of leaf, level, oblivious; got 'leef'"),
        (["--space", "max_leaf_nodes"], "--space takes name=low:high"),
        (["--space", "max_leaf_nodes=3:9", "--space", "max_leaf_nodes=3,4"], "is given twice"),
        (["--space", "learning_rate=a:b"], "learning_rate must be above 0"),
        (["--space", "transform=[1"], "expected a list in JSON"),
        (["--history", "trials.txt"], "--history: the suffix must be one of .json, .csv"),
        (["--history", "nowhere/trials.csv"], "the folder nowhere does not exist"),
        (["--out", "nowhere/m.podium"], "nowhere"),
        (["--out", "train.txt"], "train.txt"),
        (["--metric", "ndgc"], "Did you mean 'ndcg'"),
        (["--sampler", "hyperband"], "sampler must be one of auto, optuna, random"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, folder, words, message) -> None:
    before = (folder / "train.txt").read_bytes()
    given = [] if "--out" in words else ["--out", "x.podium"]
    code, out, err = run("tune", "lambdamart", "train.txt", "--valid", "valid.txt", *given, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not (folder / "x.podium").exists()
    assert (folder / "train.txt").read_bytes() == before


def test_choices_with_commas_are_written_in_json(run, folder) -> None:
    words = ("--valid", "valid.txt", "--out", "t.podium", "--trials", "2", "--set", "n_estimators=3", "--json")
    code, out, err = run("tune", "mart", "train.txt", *words, "--space", 'transform=[["raw", "rank"], ["zscore"]]')
    assert code == 0, err
    assert sorted(trial["settings"]["transform"] for trial in json.loads(out)["trials"]) == [
        ["raw", "rank"],
        ["zscore"],
    ]
    model = podium.load(folder / "t.podium")
    assert np.isfinite(model.predict(podium.read_letor(folder / "valid.txt"))).all()


def test_cross_validate_prints_one_row_per_fold(run, folder) -> None:
    words = ("cross-validate", "mart", "train.txt", "--folds", "3", "--set", "n_estimators=3", "-m", "map")
    code, out, err = run(*words, "--policy", "letor4")
    assert code == 0, err
    assert [line.split()[1] for line in out.splitlines() if line.startswith("\u2502")] == ["1", "2", "3", "all", "sd"]
    code, out, _ = run(*words, "--policy", "letor4", "--json")
    found, data = json.loads(out), podium.read_letor(folder / "train.txt")
    own = podium.cross_validate(podium.MART(n_estimators=3), data, folds=3, metrics=["map"], policy="letor4")
    assert found["metrics"] == {"map": own.evaluation["map"]}
    assert [fold["metrics"]["map"] for fold in found["folds"]] == [fold["map"] for fold in own.folds]
    code, _, err = run(*words[:3], "--folds", "1000")
    assert code == 2
    assert "folds must be an integer from 2 to the number of queries" in err


def test_auto_writes_a_model_and_a_page(run, folder) -> None:
    words = ("auto", "train.txt", "--valid", "valid.txt", "--out", "a.podium", "--budget", "0.001")
    code, out, err = run(*words, "--page", "auto.html", "--metric", "map+ndcg@10")
    assert code == 0, err
    assert "map+ndcg@10 (standard)" in out
    assert "linear: left out, because it does not support missing values." in out
    assert "too small to compare anything: trees, pairwise, 7 leaves was trained." in out
    assert "left out" in out
    assert "Spent: choosing" in out
    assert "a.podium: written\nauto.html: written" in out
    assert "What was tried" in (folder / "auto.html").read_text()
    assert run("rank", "a.podium", "valid.txt", "--out", "a.scores")[0] == 0
    valid = podium.read_letor(folder / "valid.txt")
    scores = np.array((folder / "a.scores").read_text().split(), float)
    np.testing.assert_allclose(scores, podium.load(folder / "a.podium").predict(valid), rtol=1e-6)
    code, out, err = run(*words, "--page", "auto.md", "--json", "--set", "folds=3", "--seed", "1")
    assert code == 0, err
    found = json.loads(out)
    assert found["page"] == "auto.md"
    assert set(found["plan"]) == {"members", "weights"}
    assert set(found["timing"]) == {"choosing", "training", "compiling"}
    assert any("trees, pairwise, 7 leaves: left out" in one for one in found["left_out"])
    assert set(found["left_out"]) <= set(found["why"])
    code, out, err = run(*words[:-1], "600", "--set", "families=trees", "--set", "folds=2", "--set", "divisions=1")
    assert code == 0, err
    assert "Chosen: trees, " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--page", "auto.txt"], "--page: the suffix must be one of .html, .md"),
        (["--budget", "0"], "budget must be"),
        (["--refit", "test"], "refit must be one of train, all"),
        (["--metric", "nope"], "metric must be"),
        (["--test", "test.txt"], "No such option"),
    ],
)
def test_auto_refuses_bad_input_and_takes_no_test_data(run, folder, words, message) -> None:
    code, out, err = run("auto", "train.txt", "--out", "y.podium", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert not (folder / "y.podium").exists()
