"""Outputs: every command that writes a file or folder, onto every kind of file or folder that may be there."""

import hashlib
import shutil
import sys

import pytest
from kinds_of_files import make_files

from podium import cli

DATA = ("letor.txt", "packed.txt.gz", "lightgbm.train")  # LightGBM's text is LETOR without qid
SCORES = ("scores", "lightgbm.train.query")
OUT = "OUT"
SPACE = "--sampler random --space l2_regularization=0.1,1 --set max_iter=2"
TREES = "--set n_estimators=2 --set max_leaf_nodes=2"
# The command, the suffix of its output, and the files that it may replace: those of its own kind.
COMMANDS = {
    "train": (f"train lambdamart letor.txt --out {OUT} {TREES}", ".podium", ("linear.podium", "trees.podium")),
    "tune": (
        f"tune linear letor.txt --valid table.csv --out {OUT} --trials 1 {SPACE}",
        ".podium",
        ("linear.podium", "trees.podium"),
    ),
    "history": (
        f"tune linear letor.txt --valid table.csv --out t.podium --trials 1 {SPACE} --history {OUT}",
        ".csv",
        (),
    ),
    "rank": (f"rank trees.podium table.csv --out {OUT}", ".txt", SCORES),
    "rank a run": (f"rank trees.podium table.csv --out {OUT}", ".run", ("answers.run",)),
    "convert to LETOR": (f"convert table.csv {OUT}", ".txt", DATA),
    "convert to CSV": (f"convert letor.txt {OUT}", ".csv", ("table.csv",)),
    "convert to TSV": (f"convert letor.txt {OUT}", ".tsv", ("table.tsv",)),
    "convert to Parquet": (f"convert letor.txt {OUT}", ".parquet", ("table.parquet",)),
    "convert to a cache": (f"convert letor.txt {OUT}", ".podium-data", ("cache.podium-data",)),
    "convert to LightGBM": (f"convert letor.txt {OUT} --to lightgbm", ".train", DATA),
    "features": (f"features index queries.tsv --qrels qrels --out {OUT}", ".csv", ("table.csv",)),
    "search": (f"search index --queries queries.tsv --out {OUT}", ".run", ("answers.run",)),
    "explain": (f"explain trees.podium letor.txt --query q0 --top 2 --out {OUT}", ".svg", ()),
    "inspect": (f"inspect trees.podium --tree 1 --out {OUT}", ".png", ()),
    "export": (f"export trees.podium --to lightgbm --out {OUT}", ".txt", ("exported.txt",)),
    "export, golden rows": (f"export trees.podium --to lightgbm --out e.txt --golden {OUT}", ".jsonl", ()),
    "import": (f"import exported.txt --out {OUT}", ".podium", ("linear.podium", "trees.podium")),
    "lab report": (f"lab report results --out {OUT}", ".html", ()),
}
pytestmark = pytest.mark.filterwarnings("default")  # what commands warn of is not the subject here


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def podium(files, monkeypatch, capsys):
    monkeypatch.chdir(files["letor.txt"].parent)

    def run(words, out=None):
        words = [str(out) if word == OUT else word for word in words.split()]
        monkeypatch.setattr(sys, "argv", ["podium", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def content(path):
    """Names and bytes of a file, or of all files in a folder."""
    paths = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in paths if one.is_file()}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_file_is_replaced_if_it_holds_what_the_command_writes_and_refused_otherwise(name, files, podium, tmp_path):
    words, suffix, replaced = COMMANDS[name]
    for kind, source in files.items():
        if source.is_dir():
            continue
        out = tmp_path / f"out{suffix}"
        shutil.copyfile(source, out)
        before, file = content(out), out.stat().st_ino
        code, _, err = podium(words, out)
        if kind in (*replaced, "empty"):
            assert (code, out.stat().st_ino != file) == (0, True), (kind, err)
        else:
            assert (code, content(out)) == (2, before), (kind, err)
            assert str(out) in err
            assert "--force" in err
        for path in tmp_path.iterdir():
            path.unlink()
    shutil.copyfile(files["notes.md"], out)
    assert podium(f"{words} --force", out)[0] == 0
    first = content(out)
    assert podium(words, out)[0] == 0  # what the command wrote itself is of its kind
    assert len(content(out)) == len(first) == 1


def test_the_files_beside_the_output_are_protected_too(files, podium, tmp_path):
    (tmp_path / "f.csv.features.toml").write_text("precious = true\n")
    code, _, err = podium(f"features index queries.tsv --qrels qrels --out {OUT}", tmp_path / "f.csv")
    assert code == 2
    assert "f.csv.features.toml: the file is there already and holds something else, not a declaration" in err
    (tmp_path / "d.train.weight").write_text("my diary\n")
    code, _, err = podium(f"convert letor.txt {OUT} --to lightgbm", tmp_path / "d.train")
    assert code == 2
    assert (tmp_path / "d.train.weight").read_text() == "my diary\n"
    assert not (tmp_path / "d.train").exists()


def test_a_page_about_a_choice_replaces_such_a_page_only(files, podium, tmp_path):
    from podium.workflows.outputs import refuse_other_kind

    words = f"auto letor.txt --out a.podium --budget 1 --page {OUT}"
    for name, suffix in (("thesis.html", ".html"), ("notes.md", ".md")):
        out = tmp_path / f"out{suffix}"
        shutil.copyfile(files[name], out)
        code, _, err = podium(words, out)
        assert code == 2
        assert "--page" in err
        assert "--force" in err
    out.write_text("# AutoRanker\n\nA blend\n")
    refuse_other_kind("--page", out, "notes")


@pytest.mark.parametrize("kind", ["index", "cascade"])
def test_folders_are_replaced_by_force_and_only_by_their_kind(kind, files, podium, tmp_path):
    words = f"index pages.jsonl --out {OUT}" if kind == "index" else f"cascade index trees.podium --n 10 --out {OUT}"
    for name, source in files.items():
        out = tmp_path / "out"
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, out)
        before = content(out)
        code, _, err = podium(words, out)
        forced = podium(f"{words} --force", out)[0]
        if name == "empty folder":
            assert code == 0, err
        elif name == kind:
            assert (code, forced) == (2, 0)
            assert f"holds {'an' if kind == 'index' else 'a'} {kind} already" in err
            assert podium(f"search {OUT} wing", out)[0] == 0
        else:
            assert (code, forced, content(out)) == (2, 2, before), name
        shutil.rmtree(out) if out.is_dir() else out.unlink()
        assert list(tmp_path.iterdir()) == []


def test_an_index_with_a_letter_in_it_is_never_removed(files, podium, tmp_path):
    for kind, words in (("index", "index pages.jsonl"), ("cascade", "cascade index trees.podium --n 10")):
        shutil.copytree(files[kind], tmp_path / kind)
        (tmp_path / kind / "letter.txt").write_text("Dear reader,\n")
        code, _, err = podium(f"{words} --out {OUT} --force", tmp_path / kind)
        assert code == 2
        assert "other files (letter.txt)" in err
        assert (tmp_path / kind / "letter.txt").exists()


def test_a_build_that_fails_leaves_the_old_index(files, podium, tmp_path):
    shutil.copytree(files["index"], tmp_path / "ix")
    before = content(tmp_path / "ix")
    assert podium(f"index empty --format jsonl --out {OUT} --force", tmp_path / "ix")[0] == 1
    assert podium(f"index noise.bin --format jsonl --strict --out {OUT} --force", tmp_path / "ix")[0] == 2
    after = {name: digest for name, digest in content(tmp_path / "ix").items() if not name.endswith("write.lock")}
    assert after == {name: digest for name, digest in before.items() if not name.endswith("write.lock")}
    assert [path.name for path in tmp_path.iterdir()] == ["ix"]


def test_the_demo_refuses_a_folder_that_it_did_not_make(podium, tmp_path):
    (tmp_path / "train.txt").write_text("my data\n")
    for out, message in ((tmp_path, "was not made by podium demo"), (tmp_path / "train.txt", "is a file")):
        code, _, err = podium(f"demo --out {OUT}", out)
        assert code == 2
        assert message in err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("train.txt", "my data\n")]


def test_an_input_is_never_replaced_whatever_is_said(files, podium):
    before = content(files["letor.txt"])
    for words in ("train linear letor.txt --out letor.txt", "convert letor.txt letor.txt"):
        code, _, err = podium(f"{words} --force")
        assert code == 2
        assert "which is read here" in err
    assert content(files["letor.txt"]) == before
