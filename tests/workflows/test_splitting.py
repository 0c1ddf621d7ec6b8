"""Files into parts by query, in any format, whole or not at all."""

import numpy as np
import pytest

import podium
from podium.data.ranking import RankingData
from podium.formats import read_data, write_data
from podium.workflows.splitting import read_parts, split_file

SHARES = {"train": 0.6, "valid": 0.4}
pytestmark = pytest.mark.filterwarnings("ignore:.*no place for")  # weights, in text that these tests write


def make_data(rng, contiguous=True):
    qid = np.repeat(np.arange(1, 11), 3)
    qid = qid if contiguous else rng.permutation(qid)
    X = rng.integers(1, 100, (30, 2)).astype(np.float32)
    weights = {"sample_weight": rng.integers(1, 5, 30), "query_weight": rng.integers(1, 5, 10)}
    return RankingData.from_arrays(X, rng.integers(0, 3, 30), qid, docids=[f"d{n}" for n in range(30)], **weights)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("data.txt", "letor"),
        ("data.txt.gz", "letor"),
        ("data.csv", "csv"),
        ("data.tsv", "tsv"),
        ("data.parquet", "parquet"),
        ("data.podium-data", "cache"),
        ("data.train", "lightgbm"),
    ],
)
def test_parts_of_a_file_are_those_of_its_data_in_its_own_format(name, kind, rng, tmp_path):
    data = make_data(rng)
    write_data(data, tmp_path / name, format=kind)
    made = split_file(tmp_path / name, tmp_path / "parts", SHARES, None, seed=4)
    suffix = name.removeprefix("data")
    assert list(made.written) == [str(tmp_path / "parts" / f"{part}{suffix}") for part in SHARES]
    whole = read_data(tmp_path / name)
    for part, expected in whole.split(SHARES, seed=4).items():
        again = read_data(tmp_path / "parts" / f"{part}{suffix}")
        assert again.X.tolist() == expected.X.tolist()
        assert again.y.tolist() == expected.y.tolist()
        assert again.group.tolist() == expected.group.tolist()
        for extra in ("docids", "sample_weight", "query_weight"):
            values = getattr(expected, extra)
            assert (getattr(again, extra) is None) == (values is None)
            assert values is None or getattr(again, extra).tolist() == values.tolist()


@pytest.mark.filterwarnings("ignore:.*interleaved")
def test_another_format_keeps_what_it_can_and_says_what_it_cannot(rng, tmp_path):
    data = make_data(rng, contiguous=False)
    write_data(data, tmp_path / "data.podium-data")
    made = split_file(tmp_path / "data.podium-data", tmp_path / "text", SHARES, None, target_format="letor")
    assert made.not_kept == ["sample_weight", "query_weight"]
    part = read_data(tmp_path / "text" / "train.txt")
    expected = data.split(SHARES)["train"]
    assert part.docids.tolist() == expected.docids.tolist()
    assert part.qid.tolist() == expected.qid.tolist()


def test_folds_lie_in_folders_as_those_of_letor(rng, tmp_path):
    data = make_data(rng)
    write_data(data, tmp_path / "data.csv")
    made = split_file(tmp_path / "data.csv", tmp_path / "folds", None, 5, seed=2)
    assert len(made.written) == 15
    assert made.left_out == 0
    for number, (train, valid, test) in enumerate(data.letor_folds(5, seed=2), 1):
        for name, part in (("train", train), ("vali", valid), ("test", test)):
            assert read_data(tmp_path / "folds" / f"Fold{number}" / f"{name}.csv").X.tolist() == part.X.tolist()


def test_unlabelled_data_is_split_too(rng, tmp_path):
    data = make_data(rng)
    write_data(RankingData.from_arrays(data.X, None, data.qid), tmp_path / "data.csv")
    split_file(tmp_path / "data.csv", tmp_path / "parts", SHARES, None)
    assert read_data(tmp_path / "parts" / "valid.csv", labels="optional").y is None


def test_a_folder_is_written_whole_or_not_at_all(rng, tmp_path, monkeypatch):
    data = make_data(rng)
    write_data(data, tmp_path / "data.csv")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    before = sorted(tmp_path.rglob("*"))
    for out, parts, error, message in (
        ("mine", SHARES, ValueError, "mine is there already. Choose a new folder for the parts"),
        ("data.csv", SHARES, ValueError, "data.csv is there already"),
        ("no/parts", SHARES, FileNotFoundError, "does not exist. Create it first"),
        ("parts", {"../train": 1.0}, ValueError, "'../train' is not the name of a file"),
        ("parts", {".hidden": 1.0}, ValueError, "is not the name of a file"),
        ("parts", {"train": 0.99, "valid": 0.01}, ValueError, "'valid' has no query"),
    ):
        with pytest.raises(error, match=message):
            split_file(tmp_path / "data.csv", tmp_path / out, parts, None)
    (tmp_path / "mine" / "notes.txt").chmod(0o600)
    write_data(data, tmp_path / "letor.txt")
    lines = (tmp_path / "letor.txt").read_text().splitlines()
    (tmp_path / "letor.txt").write_text("\n".join([*lines[:-1], "2 nonsense"]))
    with pytest.raises(ValueError, match="nonsense"):
        split_file(tmp_path / "letor.txt", tmp_path / "parts", SHARES, None)
    (tmp_path / "letor.txt").unlink()
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "parts").mkdir()  # an empty one is fine
    split_file(tmp_path / "data.csv", tmp_path / "parts", SHARES, None)
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == ["train.csv", "valid.csv"]


def test_formats_without_a_writer_ask_for_another(rng, tmp_path):
    (tmp_path / "data.txt").write_text("1 1:2 # a\n0 1:3 # a\n1 1:5 # b\n")
    with pytest.raises(ValueError, match="format 'letor-comments' can only be read"):
        split_file(tmp_path / "data.txt", tmp_path / "parts", SHARES, None, source_format="letor-comments")
    split_file(
        tmp_path / "data.txt",
        tmp_path / "parts",
        {"a": 0.5, "b": 0.5},
        None,
        source_format="letor-comments",
        target_format="csv",
    )
    assert read_data(tmp_path / "parts" / "a.csv").n_queries == 1


def test_shares_on_the_command_line(tmp_path, rng, monkeypatch, capsys):
    from podium import cli

    assert read_parts("train=0.8, valid=.2") == {"train": 0.8, "valid": 0.2}
    for text, message in (("train", "got 'train'"), ("a=0.5,a=0.5", "names 'a' twice"), ("a=x", "got 'a=x'")):
        with pytest.raises(ValueError, match=message):
            read_parts(text)
    podium.write_letor(make_data(rng), tmp_path / "data.txt")
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr("sys.argv", ["podium", "split", "data.txt", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, capsys.readouterr()

    code, shown = run("--out", "parts", "--parts", "train=0.5,valid=0.2", "--seed", "1")
    assert code == 0
    assert shown.out == (
        "parts/train.txt: 15 rows of 5 queries\n"
        "parts/valid.txt: 6 rows of 2 queries\n"
        "in no part: 3 queries, as the shares add up to less than 1\n"
    )
    for words in ((), ("--parts", "a=1", "--folds", "5")):
        code, shown = run("--out", "other", *words)
        assert code == 2
        assert "Give either parts" in shown.err
