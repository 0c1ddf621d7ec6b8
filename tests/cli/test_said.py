"""What would be silently wrong on the command line is said, once, on standard error."""

import gzip
import sys
import warnings

import pytest
from kinds_of_files import make_files

from podium import cli
from podium.formats import read_data
from podium.persistence.saving import load
from podium.search import Features


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def podium(files, monkeypatch, capsys):
    monkeypatch.chdir(files["letor.txt"].parent)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *map(str, words)])
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            with pytest.raises(SystemExit) as stopped:
                cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_features_without_judgements_are_unlabelled_where_the_format_allows_it(podium, tmp_path):
    for name in ("f.csv", "f.podium-data", "f.txt"):
        code, _, err = podium("features", "index", "queries.tsv", "--n", "5", "--out", tmp_path / name)
        assert (code, err) == (0, "")
        assert read_data(tmp_path / name, labels="optional").y is None


def test_a_cascade_re_ranks_at_the_n_of_its_training_data(podium, tmp_path):
    data, declared = tmp_path / "f.csv", tmp_path / "f.csv.features.toml"
    assert podium("features", "index", "queries.tsv", "--qrels", "qrels", "--n", "7", "--out", data)[0] == 0
    assert Features.read(declared).n == 7
    assert podium("train", "linear", data, "--set", "max_iter=3", "--out", tmp_path / "m")[0] == 0
    words = ("cascade", "index", tmp_path / "m", "--features", declared)
    code, out, err = podium(*words, "--out", tmp_path / "seven")
    assert (code, err) == (0, "")
    assert "linear re-ranks 7 by 46 features" in out
    code, _, err = podium(*words, "--n", "20", "--out", tmp_path / "twenty")
    assert code == 0
    assert err.count("computed of the best 7 documents per query; this stage re-ranks 20.") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was said when the cascade was made
        assert [load(tmp_path / name).stages[0].n for name in ("seven", "twenty")] == [7, 20]
    code, _, _ = podium("features", "index", "queries.tsv", "--features", declared, "--out", tmp_path / "g.csv")
    assert (code, Features.read(tmp_path / "g.csv.features.toml").n) == (0, 7)
    code, _, err = podium("cascade", "index", tmp_path / "m", "--out", tmp_path / "unknown")
    assert (code, err) == (0, "")  # nothing is recorded, so nothing is contradicted


@pytest.mark.parametrize("n", ["0", "-1", "true", '"5"', "2.5"])
def test_a_declaration_with_a_wrong_n_is_refused(n, podium, tmp_path):
    (tmp_path / "bad.toml").write_text(f"letor = true\nn = {n}\n")
    code, _, err = podium("features", "index", "queries.tsv", "--features", tmp_path / "bad.toml", "--out", "x.csv")
    assert code == 2
    assert "must be an integer from 1" in err


def test_validation_data_that_were_trained_on_are_warned_of(files, podium, tmp_path):
    with gzip.open(tmp_path / "other.txt.gz", "wb") as packed:
        packed.write(files["letor.txt"].read_bytes().replace(b"qid:q", b"qid:x"))
    lines = files["letor.txt"].read_text().splitlines(keepends=True)
    (tmp_path / "part.txt").write_text("".join(line for line in lines if "qid:q1" in line or "qid:q3" in line))
    other = lines[9].replace(" 1:", " 1:9", 1)  # one value of one document
    (tmp_path / "new.txt").write_text("".join([*lines[:9], other]))
    train = ("train", "linear", "letor.txt", "--set", "max_iter=2", "--out", tmp_path / "m", "--force")
    for valid in ("letor.txt", "packed.txt.gz", tmp_path / "other.txt.gz", tmp_path / "part.txt"):
        code, _, err = podium(*train, "--valid", valid)
        assert code == 0
        assert err.count("every query in it is in letor.txt too") == 1, valid
    code, _, err = podium(*train, "--valid", tmp_path / "new.txt")
    assert code == 0
    assert "every query" not in err
    words = ("tune", "linear", "letor.txt", "--valid", "letor.txt", "--trials", "1", "--sampler", "random")
    code, _, err = podium(*words, "--set", "max_iter=2", "--out", tmp_path / "t")
    assert code == 0
    assert err.count("every query in it is in letor.txt too") == 1


def test_a_run_that_contradicts_itself_is_warned_of(podium, tmp_path):
    (tmp_path / "run").write_text("q0 Q0 p0 1 1 me\nq0 Q0 p1 2 2 me\n")
    code, _, err = podium("eval", "--qrels", "qrels", "--run", tmp_path / "run")
    assert code == 0
    assert err.count("scores contradict ranks (1 query, 1 document ") == 1


def test_a_name_of_lightgbm_is_answered_on_the_command_line(podium, tmp_path):
    for words in (
        ("train", "lambdamart", "letor.txt", "--out", tmp_path / "m", "--set", "num_leaves=31"),
        ("tune", "mart", "letor.txt", "--valid", "letor.txt", "--out", tmp_path / "m", "--space", "num_leaves=3,4"),
    ):
        code, out, err = podium(*words)
        assert (code, out) == (2, "")
        assert err.endswith("has no parameter 'num_leaves'. It is called max_leaf_nodes here.\n")
