"""The command line: results on standard output, one sentence for an error, exit codes 0, 1 and 2."""

import json
import sys
import warnings

import numpy as np
import pytest

from podium import cli
from podium.metrics import METRICS, POLICIES

DATA = """\
2 qid:a 1:0.9 2:1 # docid = d1
0 qid:a 1:0.5 2:2 # docid = d2
1 qid:a 1:0.1 2:3 # docid = d3
0 qid:b 1:0.3 2:1 # docid = d1
1 qid:b 1:0.8 2:5 # docid = d4
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.txt").write_text(DATA)
    (tmp_path / "good.txt").write_text("3\n1\n2\n1\n2\n")
    (tmp_path / "bad.txt").write_text("1\n3\n2\n2\n1\n")
    (tmp_path / "qrels").write_text("a 0 d1 2\na 0 d2 0\na 0 d3 1\nb 0 d4 1\nc 0 d9 1\n")
    (tmp_path / "run").write_text("a Q0 d1 1 3.0 x\na Q0 d3 2 2.0 x\nb Q0 d1 1 9.0 x\nb Q0 d4 2 8.0 x\n")
    return tmp_path


@pytest.fixture
def podium(monkeypatch, capsys):
    """Run the command line in this process: (exit code, standard output, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


def test_version_and_help(podium):
    import podium as package

    assert podium("--version") == (0, f"podium {package.__version__}\n", "")
    code, out, _ = podium("--help")
    assert code == 0
    for command in ("check", "eval", "compare", "convert", "demo", "doctor"):
        assert f"  {command} " in out


@pytest.mark.parametrize("command", ["check", "eval", "compare", "convert", "demo", "doctor"])
def test_every_command_knows_json(podium, command):
    code, out, _ = podium(command, "--help")
    assert code == 0
    assert "--json" in out


def test_eval_prints_a_table_with_the_policys_name(podium, folder):
    code, out, err = podium("eval", "data.txt", "--scores", "good.txt", "-m", "ndcg@10", "-m", "map")
    assert (code, err) == (0, "")
    assert "standard" in out
    assert "ndcg@10" in out
    assert "1.0000" in out


def test_eval_json_is_alone_on_standard_output_and_unrounded(podium, folder):
    code, out, _ = podium(
        "eval", "data.txt", "--scores", "bad.txt", "-m", "rr", "--policy", "letor4", "--json", "--per-query"
    )
    found = json.loads(out)
    assert code == 0
    assert found["policy"] == "letor4"
    assert found["metrics"] == {"rr": (1 / 2 + 1 / 2) / 2}
    assert found["per_query"]["b"] == {"rr": 1 / 2}


def test_eval_under_all_policies_shows_each_side_by_side(podium, folder):
    code, out, _ = podium(
        "eval", "data.txt", "--scores", "bad.txt", "-m", "ndcg@2", "-m", "err", "--policy", "all", "--json"
    )
    found = {part["policy"]: part for part in json.loads(out)["policies"]}
    assert code == 0
    assert list(found) == list(POLICIES)
    assert set(found["letor4"]["metrics"]) == {"ndcg@2", "err"}
    assert set(found["sklearn"]["metrics"]) == {"ndcg@2"}
    assert "averaged over ties" in " ".join(found["sklearn"]["notes"])
    code, out, _ = podium("eval", "data.txt", "--scores", "bad.txt", "--policy", "all")
    assert code == 0
    assert all(name in out for name in POLICIES)


def test_eval_of_a_run_tells_missing_queries(podium, folder):
    code, out, _ = podium("eval", "--qrels", "qrels", "--run", "run", "-m", "rr")
    assert code == 0
    assert "trec" in out
    assert "0.7500" in out
    assert "1 of 3 judged queries are not in the run ('c')" in out
    code, out, _ = podium("eval", "--qrels", "qrels", "--run", "run", "-m", "rr", "--missing", "zero", "--json")
    assert json.loads(out)["metrics"]["rr"] == (1 + 1 / 2 + 0) / 3


def test_eval_shows_the_bracket_and_each_query(podium, folder):
    (folder / "flat.txt").write_text("1\n1\n1\n1\n1\n")
    code, out, _ = podium("eval", "data.txt", "--scores", "flat.txt", "-m", "rr", "--bracket", "--per-query")
    assert code == 0
    assert "0.5000 .. 1.0000" in out
    assert "query\trr\na\t0.500000\nb\t0.500000\n" in out


def test_scores_follow_the_order_of_the_file_also_when_queries_are_interleaved(podium, folder):
    lines = DATA.splitlines()
    (folder / "mixed.txt").write_text("\n".join([lines[0], lines[3], lines[1], lines[4], lines[2]]))
    (folder / "scores.txt").write_text("3\n1\n1\n2\n2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, err = podium("eval", "mixed.txt", "--scores", "scores.txt", "-m", "ndcg", "--json")
    assert code == 0
    assert err.startswith("podium: mixed.txt: rows of query")
    assert json.loads(out)["metrics"]["ndcg"] == 1


def test_compare_says_who_wins(podium, folder):
    code, out, _ = podium("compare", "data.txt", "--scores", "bad.txt", "--scores", "good.txt", "-m", "ndcg")
    assert code == 0
    assert "good.txt" in out
    assert "of 2 queries" in out
    code, out, _ = podium("compare", "data.txt", "--scores", "bad.txt", "--scores", "good.txt", "--json")
    assert json.loads(out)["comparisons"][0]["wins"] == 2
    code, out, _ = podium("compare", "data.txt", "--scores", "bad.txt", "--scores", "good.txt", "--latex")
    assert "\\begin{tabular}" in out


def test_check_speaks_in_sentences_and_exits_with_what_it_found(podium, folder):
    code, out, _ = podium("check", "data.txt")
    assert code in (0, 1)
    assert out.strip()
    code, out, _ = podium("check", "data.txt", "--json")
    assert {"findings"} <= set(json.loads(out))


@pytest.mark.parametrize("target", ["out.csv", "out.tsv.gz", "out.podium-data", "out.parquet", "out.txt.xz"])
def test_convert_there_and_back_keeps_the_data(podium, folder, target):
    from podium.formats import read_data

    code, out, err = podium("convert", "data.txt", target)
    assert (code, err) == (0, "")
    assert out.startswith(f"{target}: 5 rows, 2 queries, 2 features\n")
    assert ("no place for comments" in out) == target.startswith(("out.csv", "out.tsv", "out.parquet"))
    code, _, _ = podium("convert", target, "back.txt", "--json")
    assert code == 0
    before, after = read_data(folder / "data.txt"), read_data(folder / "back.txt")
    np.testing.assert_array_equal(before.X, after.X)
    assert before.qid.tolist() == after.qid.tolist()
    assert before.docids.tolist() == after.docids.tolist()


def test_demo_runs_the_main_job(podium, folder):
    code, out, err = podium("demo")
    assert (code, err) == (0, "")
    for policy in ("standard", "letor4", "trec"):
        assert policy in out
    assert "randomisation" in out
    assert (folder / "demo" / "train.txt").exists()


def test_doctor_names_versions_threads_and_extras(podium):
    code, out, _ = podium("doctor", "--json")
    found = json.loads(out)
    assert code == (1 if found["advice"] else 0)
    assert {"python", "cpu", "numba", "extras"} <= set(found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "data.txt"], "Give DATA with --scores FILE, or --qrels FILE with --run FILE"),
        (["eval", "--qrels", "qrels"], "Give DATA with --scores FILE, or --qrels FILE with --run FILE"),
        (["eval", "none.txt", "--scores", "good.txt"], "none.txt: No such file"),
        (["eval", "data.txt", "--scores", "good.txt", "-m", "ndgc@10"], "Did you mean 'ndcg@10'?"),
        (["eval", "data.txt", "--scores", "good.txt", "--policy", "letor"], "Did you mean 'letor4'?"),
        (["eval", "data.txt", "--scores", "qrels"], "qrels"),
        (["compare", "data.txt", "--scores", "good.txt"], "needs two systems or more"),
        (["check", "qrels"], "qrels, line 1"),
        (["convert", "data.txt", "no/where.csv"], "does not exist"),
        (["check", "."], "is a folder"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(podium, folder, words, message):
    code, out, err = podium(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_the_help_of_eval_names_metrics_that_exist(podium):
    _, out, _ = podium("eval", "--help")
    named = [word.strip(",.").split("@")[0].split("(")[0] for word in out.split() if "@" in word]
    assert named
    assert set(named) <= set(METRICS)
