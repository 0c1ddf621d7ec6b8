"""Inputs of the wrong kind: every input of every command, with every kind of file or folder in its place."""

import os
import re
import sys

import pytest
from kinds_of_files import make_files

from podium import cli

# Commands with IN for an input; what they need else is there and good.
COMMANDS = [
    "check IN",
    "check letor.txt IN",
    "eval IN --scores scores",
    "eval letor.txt --scores IN",
    "eval --qrels IN --run answers.run",
    "eval --qrels qrels --run IN",
    "eval --qrels IN --run answers.run -m alpha_nDCG@10",
    "compare IN --scores scores --scores scores",
    "compare letor.txt --scores scores --scores IN",
    "convert IN OUT.csv",
    "convert letor.txt OUT.csv --from csv",
    "models IN",
    "train IN letor.txt --out OUT",
    "train linear IN --out OUT --set max_iter=2",
    "train linear letor.txt --valid IN --out OUT --set max_iter=2",
    "train ranknet letor.txt --pair-file IN --out OUT --set epochs=1",
    "train lambdamart letor.txt --checkpoint IN --out OUT --set n_estimators=2",
    "train lambdamart letor.txt --set init=IN --out OUT --set n_estimators=2",
    "rank IN letor.txt",
    "rank trees.podium IN",
    "rank IN IN",
    "inspect IN",
    "inspect trees.podium --out IN",
    "export IN --to lightgbm --out OUT",
    "export trees.podium --to lightgbm --out OUT --golden OUT.jsonl --data IN",
    "import IN --out OUT",
    "verify IN exported.txt",
    "verify trees.podium IN",
    "verify trees.podium exported.txt --data IN --golden IN",
    "verify trees.podium exported.txt --golden IN",
    "explain IN letor.txt --query q0",
    "explain IN letor.txt --shap",
    "explain IN letor.txt --permutation",
    "explain trees.podium IN --query q0",
    "explain trees.podium IN --permutation",
    "explain trees.podium letor.txt --ablation IN",
    "index IN --out OUT",
    "index IN --out OUT --format jsonl",
    "index IN --out OUT --format trec",
    "search IN wing",
    "search index --queries IN --out OUT",
    "search IN --queries queries.tsv --out OUT",
    "search IN wing --explain",
    "tune-bm25 IN --queries queries.tsv --qrels qrels",
    "tune-bm25 index --queries IN --qrels qrels",
    "tune-bm25 index --queries queries.tsv --qrels IN",
    "features IN queries.tsv --out OUT",
    "features index IN --out OUT",
    "features index queries.tsv --qrels IN --out OUT",
    "features index queries.tsv --features IN --out OUT",
    "cascade IN trees.podium --out OUT",
    "cascade index IN --out OUT",
    "cascade index trees.podium --features IN --out OUT",
    "cascade index --queries IN --qrels qrels --out OUT",
    "cascade index --queries queries.tsv --qrels IN --out OUT",
    "tune linear IN --valid letor.txt --out OUT --trials 1 --set max_iter=2",
    "tune linear letor.txt --valid IN --out OUT --trials 1 --set max_iter=2",
    "cross-validate linear IN --folds 2 --set max_iter=2",
    "auto IN --out OUT --budget 0.01",
    "lab run IN --out OUT",
    "lab show IN",
    "lab report IN --out OUT",
    "lab download IN --to OUT",
]
KINDS = (
    *("letor.txt", "table.csv", "table.parquet", "cache.podium-data", "trees.podium", "index", "cascade", "folder"),
    *(
        "orders.csv",
        "scores",
        "qrels",
        "answers.run",
        "pages.jsonl",
        "logo.svg",
        "empty",
        "noise.bin",
        "torn.gz",
        "exported.txt",
    ),
)
GOOD_ELSEWHERE = {
    "auto": ("letor.txt", "table.csv", "table.tsv", "table.parquet", "cache.podium-data", "packed.txt.gz"),
}
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    files = make_files(tmp_path_factory.mktemp("files"))
    chosen = {name: path for name, path in files.items() if name in KINDS}
    return chosen | {"missing": files["letor.txt"].parent / "missing", "": files["letor.txt"].parent}


@pytest.fixture
def podium(files, monkeypatch, capsys):
    monkeypatch.chdir(files["letor.txt"].parent)

    def run(words):
        monkeypatch.setattr(sys, "argv", ["podium", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


# Advice that a reader of the command line cannot follow: arguments and functions of Python.
PYTHON = re.compile(r"\b[a-z_]+=([\"']|None|True|False)|\b[a-z_.]+\(\)|\bpodium\.\w+|RankingData|\b[Pp]ass\b|np\.")
QUOTED = re.compile(r"""(?<==)(["']).*?\1|"[^"]*"|'[^']*'""")  # what files hold is not advice


@pytest.mark.parametrize("command", COMMANDS)
def test_any_file_in_the_place_of_another_is_refused_in_a_sentence(command, files, podium, tmp_path):
    for kind in files:
        if kind in GOOD_ELSEWHERE.get(command.split()[0], ()):
            continue
        words = [word.replace("IN", kind or ".").replace("OUT", str(tmp_path / "out")) for word in command.split()]
        code, _, err = podium(words)
        assert code in (0, 1, 2), (kind, err)
        if code == 2:
            assert re.search(r"^podium: .*\S$", err, re.MULTILINE), (kind, err)
            assert not PYTHON.search(QUOTED.sub("''", err.splitlines()[-1])), (kind, err)
        if code == 1:  # problems in the data; no document
            assert command.startswith(("check", "index")), (kind, err)
            assert "unexpected" not in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "rank cascade letor.txt",
            "cascade is a cascade; expected the file of a model, such as cascade/stage-1.podium.",
        ),
        ("inspect index", "index is an index; expected the file of a model. podium search index"),
        ("explain cascade letor.txt --query q0", "cascade is a cascade; expected the file of a model"),
        ("cascade index cascade --out x", "cascade is a cascade; expected the file of a model"),
        ("inspect folder", "folder is a folder; expected the file of a model, which podium train makes."),
        ("index torn.gz --out x", "torn.gz: the compressed file is damaged or cut short"),
        (
            "train mart letor.txt --out x --set init=cascade",
            "init must be the file of a saved model; cascade is a folder",
        ),
    ],
)
def test_the_message_says_what_was_found(command, message, podium):
    code, out, err = podium(command.split())
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="this user may read every file")
def test_a_file_that_may_not_be_read_is_an_error_in_a_sentence(files, podium, tmp_path):
    for name, command in (("letor.txt", "check"), ("trees.podium", "inspect"), ("pages.jsonl", "index --out x")):
        path = tmp_path / name
        path.write_bytes(files[name].read_bytes())
        path.chmod(0)
        code, _, err = podium([*command.split(), str(path)])
        assert code == 2
        assert re.fullmatch(rf"podium: {path}.*\n", err)


def test_an_unexpected_error_is_a_sentence_too_unless_the_traceback_is_asked_for(files, podium, monkeypatch):
    monkeypatch.setattr("podium.workflows.evaluating.check_files", lambda *_, **__: {}["defect"])
    code, _, err = podium(["check", "letor.txt"])
    assert code == 1
    assert err == (
        "podium: an unexpected error, KeyError: 'defect'. Please report it with the command; "
        "PODIUM_TRACEBACK=1 shows where it arose.\n"
    )
    monkeypatch.setenv("PODIUM_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["podium", "check", "letor.txt"])
    with pytest.raises(KeyError):
        cli.main()
