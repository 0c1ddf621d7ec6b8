"""Options of commands that read data: every format, with and without labels, names, categories and compression."""

import itertools
import json
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from podium import LambdaMART, RankingData, cli, load
from podium.formats import read_data, write_data

NAMES = ("BM25(title)", "shop")
COLOURS = ["amber", "blue", "cyan"]


@pytest.fixture
def podium(monkeypatch, capsys, tmp_path):
    """Run the command line in a folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def rows(rng, n=120, first=0):
    """A frame with columns of other names than usual; the label follows the colour and the score."""
    colour = rng.choice(COLOURS, n)
    score = rng.integers(0, 8, n) / 4
    grade = (score > 1) + (colour == "blue") * 1
    return pd.DataFrame(
        {"grade": grade, "query": first + np.arange(n) // 10, "url": [f"d{k}" for k in range(n)], "note": "x"}
        | {"BM25(title)": score, "colour": colour}
    )


COLUMNS = ["--label", "grade", "--qid", "query", "--docid", "url", "--drop", "note"]
FEW = ["--set", "n_estimators=3", "--set", "min_samples_leaf=2", "--set", "max_leaf_nodes=4"]
WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_with_text_goes_through_every_command(podium, tmp_path, rng, name):
    train, valid, new = rows(rng), rows(rng, first=500), rows(rng, first=900).drop(columns="grade")
    valid.loc[valid["colour"] == "amber", "colour"] = None  # this file numbers its colours in another way
    for part, frame in (("train", train), ("valid", valid), ("new", new)):
        WRITERS[name](frame, tmp_path / f"{part}-{name}")
    files = [f"{part}-{name}" for part in ("train", "valid", "new")]
    code, _, err = podium("train", "lambdamart", files[0], "--valid", files[1], "--out", "m.podium", *COLUMNS, *FEW)
    assert code == 0, err
    model = load("m.podium")
    assert model.categories_ == {"colour": COLOURS}
    assert list(model.feature_names_in_) == ["BM25(title)", "colour"]
    few = {"n_estimators": 3, "min_samples_leaf": 2, "max_leaf_nodes": 4, "categorical": ["colour"]}
    features = ["BM25(title)", "colour"]
    expected = LambdaMART(**few).fit(train[features], train["grade"], train["query"])
    for frame, file in ((train, files[0]), (valid, files[1]), (new, files[2])):
        code, out, err = podium("rank", "m.podium", file, "--json", *COLUMNS)
        assert (code, err) == (0, "")
        np.testing.assert_array_equal(json.loads(out)["scores"], expected.predict(frame[features]))
    code, out, err = podium("check", *files[:2], "--json", *COLUMNS)
    assert code in (0, 1)
    assert not {"different-names", "different-kinds"} & {one["code"] for one in json.loads(out)["findings"]}
    code, out, _ = podium("explain", "m.podium", files[2], "--query", "900", *COLUMNS)
    assert code == 0
    assert "BM25(title)" in out or "colour" in out
    assert podium("convert", files[0], "again.parquet", *COLUMNS)[0] == 0
    again = read_data("again.parquet")
    assert (again.categories, again.docids[3]) == ({"colour": tuple(COLOURS)}, "d3")
    assert "BM25(title)" in podium("inspect", "m.podium")[1] or "colour" in podium("inspect", "m.podium")[1]


@pytest.mark.parametrize(
    ("suffix", "labelled"), list(itertools.product(["txt", "txt.xz", "csv", "podium-data"], [True, False]))
)
def test_names_of_a_file_make_every_format_say_them(podium, tmp_path, rng, suffix, labelled):
    """`--names` says what a file without names, or with the same ones, has; a table must have them in its header."""
    X = rng.random((40, 2)).astype(np.float32)
    names = NAMES if suffix == "csv" else None
    data = RankingData.from_arrays(X, (X[:, 0] > 0.5) * 1, np.arange(40) // 8, feature_names=names)
    write_data(data, tmp_path / f"train.{suffix}")
    new = RankingData.from_arrays(X, data.y if labelled else None, data.qid, feature_names=names)
    write_data(new, tmp_path / f"new.{suffix}")
    (tmp_path / "names.txt").write_text("BM25(title)\nshop\n\n")
    asked = ["--names", "names.txt"]
    assert podium("train", "lambdamart", f"train.{suffix}", "--out", "m.podium", *asked, *FEW)[0] == 0
    assert tuple(load("m.podium").feature_names_in_) == NAMES
    assert "BM25(title)" in podium("inspect", "m.podium")[1]
    code, out, err = podium("rank", "m.podium", f"new.{suffix}", "--json", *asked)
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(json.loads(out)["scores"], load("m.podium").predict(pd.DataFrame(X, columns=NAMES)))
    assert podium("convert", f"new.{suffix}", "again.txt", *asked)[0] == 0
    assert read_data("again.txt", labels="optional").feature_names == NAMES
    (tmp_path / "other.txt").write_text("PageRank\nshop\n")
    code, _, err = podium("rank", "m.podium", f"new.{suffix}", "--names", "other.txt")
    assert code == 2
    assert "feature 1 is " in err
    assert "'PageRank'" in err
    assert "'BM25(title)'" in err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("t.txt", ["--label", "x"], "--label is for files of format csv, tsv, parquet; t.txt is of format letor"),
        ("t.txt", ["--drop", "a,b"], "--drop is for files of format csv"),
        (
            "t.csv",
            ["--zero-based"],
            "--zero-based or --one-based is for files of format letor, lightgbm, letor-comments",
        ),
        ("t.csv", ["--drop", "title"], "no column 'title'"),
        ("t.csv", ["--label", "rel"], "no column 'rel'; found: label, qid, a"),
        ("t.csv", ["--names", "none.txt"], "none.txt: No such file"),
    ],
)
def test_options_that_do_not_fit_the_file_are_refused_before_anything_is_written(
    podium, tmp_path, name, options, message
):
    (tmp_path / "t.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    (tmp_path / "t.csv").write_text("label,qid,a\n1,1,2\n0,1,3\n")
    code, _, err = podium("train", "mart", name, "--out", "m.podium", *options)
    assert code == 2
    assert message in err
    assert not (tmp_path / "m.podium").exists()


def test_letor_text_counts_features_from_zero_if_it_is_asked_to(podium, tmp_path):
    (tmp_path / "t.txt").write_text("1 qid:1 0:2 1:5\n0 qid:1 0:3 1:4\n")
    code, _, err = podium("convert", "t.txt", "t.csv")
    assert code == 2
    assert "--zero-based" in err
    assert podium("convert", "t.txt", "t.csv", "--zero-based")[0] == 0
    assert read_data("t.csv").X.tolist() == [[2, 5], [3, 4]]
    (tmp_path / "lgb").write_text("1 1:2\n0 1:3\n")  # a file in LightGBM's layout counts from 0
    (tmp_path / "lgb.query").write_text("2\n")
    assert podium("convert", "lgb", "one.csv", "--one-based")[0] == 0
    assert podium("convert", "lgb", "zero.csv")[0] == 0
    assert read_data("one.csv").X.tolist() == [[2], [3]]
    assert read_data("zero.csv").X.tolist() == [[0, 2], [0, 3]]


def test_several_training_files_are_one_data_set(podium, tmp_path, rng):
    """As the file that has them all, whatever their formats: the bytes of the models are the same."""
    parts = [rows(rng, 60, first) for first in (0, 100, 200)]
    whole = pd.concat(parts)
    names = ["S1.csv", "S2.parquet", "S3.csv.gz"]
    for name, frame in zip(names, parts):
        WRITERS["t.parquet" if "parquet" in name else "t.csv"](frame, tmp_path / name)
    whole.to_csv(tmp_path / "whole.csv", index=False)
    valid = rows(rng, 40, 300)
    valid.to_csv(tmp_path / "S4.csv", index=False)
    for files, out in ((names, "parts.podium"), (["whole.csv"], "whole.podium")):
        words = ["train", "lambdamart", *files, "--valid", "S4.csv", "--out", out, *COLUMNS, *FEW]
        code, said, _ = podium(*words)
        assert code == 0
        assert "180 documents of 18 queries" in said
    assert (tmp_path / "parts.podium").read_bytes() == (tmp_path / "whole.podium").read_bytes()


def test_several_letor_files_may_lack_the_last_features(podium, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 2:1\n0 qid:1 1:3 2:0\n")
    (tmp_path / "b.txt").write_text("1 qid:2 1:2\n0 qid:2 1:3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = podium("train", "mart", "b.txt", "a.txt", "--out", "m.podium", *FEW)
    assert code == 0
    assert "b.txt has 1 feature, a.txt 2; the last 1 count as 0" in err
    assert load("m.podium").n_features_in_ == 2


def test_a_query_in_two_training_files_is_refused(podium, tmp_path):
    """Whether the same id in two files is one query only the user knows."""
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n0 qid:1 1:3\n")
    (tmp_path / "b.txt").write_text("1 qid:2 1:2\n0 qid:1 1:3\n")
    code, _, err = podium("train", "mart", "a.txt", "b.txt", "--out", "m.podium")
    assert code == 2
    assert "query '1' is in a.txt and in b.txt" in err
    assert "If these are rows of one query, join them first; if they are two queries, give them different ids." in err
    assert podium("train", "mart", "a.txt", "b.txt", "--out", "b.txt")[0] == 2
    assert (tmp_path / "b.txt").read_text().startswith("1 qid:2")
