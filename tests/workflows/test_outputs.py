"""Outputs: what a file holds is seen by its content, and a plugin's format by its reader."""

import pytest
from kinds_of_files import make_files

from podium.formats import Format
from podium.workflows.outputs import CONTENTS, refuse_other_data, refuse_other_kind

# The kinds that a file is taken for; text of LETOR and of LightGBM is alike.
KINDS = {
    "letor.txt": {"letor", "lightgbm"},
    "packed.txt.gz": {"letor", "lightgbm"},
    "lightgbm.train": {"letor", "lightgbm"},
    "lightgbm.train.query": {"scores"},
    "scores": {"scores"},
    "table.csv": {"csv"},
    "table.tsv": {"tsv"},
    "table.parquet": {"parquet"},
    "cache.podium-data": {"data", "cache"},
    "linear.podium": {"model"},
    "trees.podium": {"model"},
    "answers.run": {"run"},
    "empty": set(CONTENTS),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_files(tmp_path_factory.mktemp("files"))


def accepted(path, kind):
    try:
        refuse_other_kind("--out", path, kind)
    except ValueError:
        return False
    return True


def test_every_file_is_taken_for_what_it_holds_and_for_nothing_else(files):
    for name, path in files.items():
        if path.is_file():
            assert {kind for kind in CONTENTS if accepted(path, kind)} == KINDS.get(name, set()), name


@pytest.mark.parametrize(
    ("kind", "text", "is_taken"),
    [
        ("letor", "# a comment\n\n2 qid:a 1:0.5 # d\n", True),
        ("letor", "0 qid:7\n", True),  # all features are 0
        ("letor", "2 qid:a 1:0.5\nnot a row\n", False),
        ("letor", "1 " + " ".join(f"{column}:0.125" for column in range(1, 200_000)), True),  # one long line
        ("letor", "3\n1\n", False),
        ("scores", "1e-05\n-3\n.5\n", True),
        ("scores", "1\nnan\n", False),
        ("run", "a Q0 d1 1 3.0\n", True),  # the tag may be missing
        ("run", "a 0 d1 1\n", False),  # that is a judgement
        ("csv", '"qid",label\n1,0\n', True),
        ("csv", "quid,label\n", False),
        ("declaration", "letor = true\n", True),
        ("page", "<!doctype html><html><body>mine</body></html>", False),
        ("trials.csv", "trial,l2,value\n", True),
    ],
)
def test_the_first_lines_decide(kind, text, is_taken, tmp_path):
    (tmp_path / "file").write_text(text)
    assert accepted(tmp_path / "file", kind) is is_taken


def test_a_format_of_a_plugin_is_known_to_its_reader(tmp_path):
    def reader(path):
        if not path.read_text().startswith("xyz"):
            raise RuntimeError("no xyz")

    format = Format("xyz", (".xyz",), "", (), reader, None)
    path = tmp_path / "a.xyz"
    path.write_text("xyz 1\n")
    refuse_other_data("--out", path, format)
    path.write_text("my diary\n")
    with pytest.raises(ValueError, match="holds something else, not ranking data of format xyz"):
        refuse_other_data("--out", path, format)
    refuse_other_data("--out", path, format, force=True)
