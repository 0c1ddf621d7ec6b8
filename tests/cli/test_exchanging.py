"""Export, import and verify on the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest

import podium
from podium import cli
from podium.formats import write_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(3)
    X = random.standard_normal((200, 4)).astype(np.float32)
    data = podium.RankingData.from_arrays(X, np.round(np.clip(X[:, 0] + 1, 0, 3)), np.repeat(np.arange(10), 20))
    podium.LambdaMART(n_estimators=5, n_jobs=1).fit(data).save(tmp_path / "m.podium")
    podium.Linear(max_iter=5).fit(data).save(tmp_path / "linear.podium")
    write_data(data, tmp_path / "data.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, monkeypatch, capsys):
    def call(words):
        monkeypatch.setattr(sys, "argv", ["podium", *words.split()])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def test_a_model_goes_out_is_verified_and_comes_back(run, folder):
    code, out, err = run("export m.podium --to lightgbm --out m.txt --json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report == json.loads((folder / "m.txt.report.json").read_text())
    assert report["claim"]["kind"] == "bits"
    code, out, _ = run("verify m.podium m.txt --data data.txt --json")
    assert code == 0
    assert json.loads(out)["n_rows"] == json.loads(out)["n_equal"] == 200
    code, out, _ = run("import m.txt --out back.podium --json")
    assert (code, json.loads(out)["model"]) == (0, "ImportedForest")
    X = podium.read_data(folder / "data.txt").X
    first, second = (podium.load(folder / name).predict(X) for name in ("m.podium", "back.podium"))
    np.testing.assert_array_equal(first, second)


def test_another_model_is_not_what_the_file_holds(run, folder):
    run("export m.podium --to lightgbm --out m.txt")
    data = podium.read_data(folder / "data.txt")
    podium.LambdaMART(n_estimators=6, n_jobs=1).fit(data).save(folder / "other.podium")
    code, out, _ = run("verify other.podium m.txt")
    assert code == 1
    assert "The model is exported as other bytes today." in out


def test_golden_rows_stand_for_a_program_that_cannot_be_asked(run, folder):
    run("export m.podium --to lightgbm --out m.txt --golden g.jsonl --data data.txt")
    lines = [json.loads(line) for line in (folder / "g.jsonl").read_text().splitlines()]
    assert len(lines) == 200
    scored = [line | {"score": line["expected"]} for line in lines]
    (folder / "scored.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scored))
    assert run("verify m.podium m.txt --golden scored.jsonl")[0] == 0
    scored[7]["score"] += 1e-9
    (folder / "scored.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scored))
    code, out, _ = run("verify m.podium m.txt --golden scored.jsonl")
    assert code == 1
    assert "199 of 200 rows as expected" in out


def test_a_model_can_go_through_a_pipe_and_leaves_no_report(run, folder):
    run("export m.podium --to lightgbm --out m.txt")
    (folder / "m.txt.report.json").unlink()
    command = [sys.executable, "-m", "podium", "export", "m.podium", "--to", "lightgbm", "--out", "-"]
    done = subprocess.run(command, capture_output=True, cwd=folder, check=True)
    assert done.stdout == (folder / "m.txt").read_bytes()
    assert b"the same bits" in done.stderr
    assert not list(folder.glob("*report.json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export linear.podium --to lightgbm --out x", "holds trees; this model is one of linear models. Export it as"),
        ("export m.podium --to lightgm --out x", "Did you mean 'lightgbm'?"),
        ("export m.podium --to lightgbm --out m.podium", "m.podium"),
        ("export m.podium --to lightgbm --out x --data data.txt", "--golden"),
        (
            "export m.podium --to lightgbm --out x --golden data.txt",
            "ranking data in LETOR text, not golden rows",
        ),
        ("import data.txt --out x", "begins as none of the models that are read: "),
        ("import data.txt --from lightgbm --out x", "is no model in LightGBM's text: "),
        ("import m.txt --out m.txt", "m.txt"),
        ("verify m.podium data.txt", "data.txt"),
        ("verify m.podium m.txt --data data.txt --golden data.txt", "--golden has rows of its own."),
    ],
)
def test_errors_say_what_was_expected(words, message, run, folder):
    run("export m.podium --to lightgbm --out m.txt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, _, err = run(words)
    assert code == 2, err
    assert message in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
