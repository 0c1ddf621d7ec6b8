"""Commands on several runs, from files to files."""

import json
import sys

import pytest

import podium
from podium import cli

QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 x 0\nq2 0 y 2\nq3 0 x 1\n"
ONE = "q1 Q0 b 1 2.5 s\nq1 Q0 a 2 1.5 s\nq2 Q0 x 1 9 s\nq2 Q0 y 2 8 s\nq3 Q0 x 1 1 s\n"
TWO = "q1 Q0 a 1 0.5 s\nq1 Q0 c 2 0.25 s\nq2 Q0 y 1 0.75 s\nq3 Q0 z 1 0.5 s\n"


@pytest.fixture
def podium_command(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for name, text in (("qrels", QRELS), ("one.run", ONE), ("two.run", TWO)):
        (tmp_path / name).write_text(text)

    def call(words):
        monkeypatch.setattr(sys, "argv", ["podium", *words.split()])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capfd.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return call


def test_fuse_writes_what_the_library_returns(podium_command, tmp_path):
    code, out, _ = podium_command("fuse one.run two.run --out f.run --method rrf(k=3) --weights 2,1 --top 2")
    assert (code, out) == (0, "f.run: 3 queries, 6 documents, rrf(k=3), weights one.run 2, two.run 1\n")
    runs = [podium.read_run(tmp_path / name) for name in ("one.run", "two.run")]
    assert podium.read_run(tmp_path / "f.run") == podium.fuse(runs, method="rrf(k=3)", weights=[2, 1], top=2)


def test_fuse_to_standard_output_reports_on_standard_error(podium_command):
    code, out, err = podium_command("fuse one.run two.run --out - --tag mine")
    assert code == 0
    assert out.splitlines()[0] == f"q1 Q0 a 1 {1 / 62 + 1 / 61} mine"
    assert "3 queries, 7 documents, rrf(k=60)" in err


def test_fuse_chooses_weights_by_judgements(podium_command, tmp_path):
    words = "fuse one.run two.run --out f.run --method combsum --qrels qrels --folds 3 --metric map"
    code, out, _ = podium_command(f"{words} --json")
    written = json.loads(out)
    assert code == 0
    assert written["tuned"]["metric"] == "map"
    assert written["weights"] == written["tuned"]["weights"]
    runs = {name: podium.read_run(tmp_path / name) for name in ("one.run", "two.run")}
    assert podium.read_run(tmp_path / "f.run") == podium.fuse(runs, method="combsum", weights=written["weights"])
    assert "cross-validated" in podium_command(words)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fuse one.run --out f.run", "fuse needs 2 runs or more; got 1."),
        ("fuse one.run one.run --out f.run", "one.run is given more than once; give each run once."),
        ("fuse one.run two.run --out one.run", "--out one.run would replace one.run, which is read here"),
        ("fuse one.run two.run --out qrels", "--out qrels: the file is there already and holds TREC judgements"),
        ("fuse one.run two.run --out f.run --weights 1;2", "--weights must be numbers such as 0.7,0.3; got '1;2'."),
        ("fuse one.run two.run --out f.run --weights 1,2 --qrels qrels", "Give --weights, or --qrels"),
        ("fuse one.run two.run --out f.run --metric map", "which needs judgements. Add --qrels FILE."),
        ("fuse one.run two.run --out f.run --method rff", "got 'rff'. Did you mean 'rrf'?"),
        ("fuse one.run qrels --out f.run", "qrels, line 1: expected 5 or 6 columns"),
    ],
)
def test_bad_calls_end_with_2_and_say_what_to_do(words, message, podium_command, tmp_path):
    code, _, err = podium_command(words)
    assert code == 2
    assert message in err
    assert (tmp_path / "one.run").read_text() == ONE
    assert not (tmp_path / "f.run").exists()


@pytest.mark.filterwarnings("default")
def test_features_of_the_candidates_of_any_engine(podium_command, tmp_path):
    from podium.search import build_index

    pages = [
        {"id": name, "body": text} for name, text in (("a", "red fox"), ("b", "red"), ("c", "fox den"), ("d", "x"))
    ]
    build_index(pages, tmp_path / "index")
    (tmp_path / "queries.tsv").write_text("q1\tred fox\nq2\tden\n")
    (tmp_path / "other.run").write_text("q1 Q0 c 1 0.9 t\nq1 Q0 z 2 0.8 t\nq1 Q0 d 3 0.7 t\nq1 Q0 a 4 0.6 t\n")
    words = "features index queries.tsv --run other.run --n 3 --out rows.csv"
    code, out, err = podium_command(words)
    assert code == 0, err
    assert "rows.csv: 2 rows, 1 query" in out
    assert "podium: 1 candidate not in the index ('z'); left out." in err
    assert podium.read_data(tmp_path / "rows.csv", labels="optional").docids.tolist() == ["c", "d"]
    assert podium_command("features index queries.tsv --run other.run --out other.run")[0] == 2


def test_pool_writes_a_table_or_judgements_that_are_to_be_made(podium_command, tmp_path):
    code, out, _ = podium_command("pool one.run two.run --depth 1 --qrels qrels --out pool.qrels")
    assert (code, out) == (
        0,
        "pool.qrels: 3 queries, 1 document to judge, the best 1 of each run; 5 already judged, left out\n",
    )
    assert (tmp_path / "pool.qrels").read_text() == "q3 0 z -1\n"
    written = json.loads(podium_command("pool one.run two.run --depth 2 --out pool.tsv --json")[1])
    assert written == {"queries": 3, "documents": 7, "depth": 2, "already_judged": 0, "written": "pool.tsv"}
    lines = (tmp_path / "pool.tsv").read_text().splitlines()
    assert lines[:3] == ["qid\tdocid\truns\tbest_rank", "q1\ta\t2\t1", "q1\tb\t1\t1"]


def test_pool_replaces_a_pool_but_no_judgement(podium_command, tmp_path):
    for name in ("pool.qrels", "pool.tsv"):
        assert podium_command(f"pool one.run two.run --out {name}")[0] == 0
        assert podium_command(f"pool one.run two.run --out {name}")[0] == 0
    lines = (tmp_path / "pool.qrels").read_text().splitlines()
    begun = "\n".join([*lines * 10, lines[-1].replace("-1", "2")])
    (tmp_path / "pool.qrels").write_text(begun)
    code, _, err = podium_command("pool one.run two.run --out pool.qrels")
    assert (code, (tmp_path / "pool.qrels").read_text()) == (2, begun)
    assert "the file is there already and holds TREC judgements, not a pool without any judgement" in err
    assert podium_command("pool one.run two.run --out pool.qrels --force")[0] == 0


def test_overlap_prints_a_row_per_pair(podium_command):
    code, out, _ = podium_command("overlap one.run two.run")
    assert code == 0
    assert "one.run │ two.run │" in out
    values = json.loads(podium_command("overlap one.run two.run --json --per-query --p 0.5")[1])
    assert values["pairs"][0]["runs"] == ["one.run", "two.run"]
    assert values["pairs"][0]["per_query"]["q3"] == {"rbo": 0.0, "tau": -1.0, "common": 0.0}
    assert podium_command("overlap one.run two.run --p 2")[0] == 2
    assert podium_command("overlap one.run two.run --per-query")[0] == 2
