"""The command line: results on standard output, one sentence for an error, exit codes 0, 1 and 2."""

import importlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from podium import cli
from podium.formats import _FORMATS, read_data
from podium.metrics import METRICS, POLICIES
from podium.search import WEIGHTINGS
from podium.search.features.kinds import _KINDS

SPLITS = ["test.txt", "train.txt", "valid.txt"]
COMMANDS = [command.name for command in cli.app.registered_commands]
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
    for command in COMMANDS:
        assert f"  {command} " in out


@pytest.mark.parametrize("command", COMMANDS)
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


def test_eval_and_compare_draw_what_they_print_and_print_no_more_for_it(podium, folder):
    pytest.importorskip("matplotlib")
    scored = ["data.txt", "--scores", "bad.txt"]
    plain = podium("eval", *scored, "-m", "ndcg_cut_3", "-m", "map")[1]
    drawn = podium("eval", *scored, "-m", "ndcg_cut_3", "-m", "map", "--out", "curves.svg")[1]
    assert drawn == f"{plain}curves.svg: written\n"
    assert ">ndcg@k (standard)<" in (folder / "curves.svg").read_text()
    shutil.copy("run", "other")
    runs = json.loads(podium("eval", "qrels", "run", "other", "-m", "rr", "--out", "runs.png", "--json")[1])
    assert runs["written"] == "runs.png"
    assert {tuple(one["metrics"]) for one in runs["runs"].values()} == {("rr",)}
    found = json.loads(podium("eval", "qrels", "run", "-m", "rr", "--out", "runs.png", "-q", "--json")[1])
    assert [list(found["metrics"]), list(found["per_query"]["a"])] == [["rr"], ["rr"]]
    systems = ["data.txt", "--scores", "bad.txt", "--scores", "good.txt"]
    assert podium("compare", *systems, "--out", "moved.svg")[1].endswith("moved.svg: written\n")
    assert "good.txt minus bad.txt: mean +" in (folder / "moved.svg").read_text()
    assert json.loads(podium("compare", *systems, "--out", "moved.svg", "--json")[1])["written"] == "moved.svg"
    for words, message in (
        (["eval", *scored, "--out", "data.txt"], "the suffix of a picture must be one of .svg, .png; got '.txt'"),
        (["eval", *scored, "--out", "no/a.svg"], "the folder no does not exist"),
        (["eval", *scored, "--policy", "all", "--out", "a.svg"], "--out draws one policy"),
        (["compare", *systems, "--out", "a.pdf"], "the suffix of a picture must be one of .svg, .png; got '.pdf'"),
    ):
        code, out, err = podium(*words)
        assert (code, out) == (2, "")
        assert message in err


def test_check_speaks_in_sentences_and_exits_with_what_it_found(podium, folder):
    code, out, _ = podium("check", "data.txt")
    assert (code, out) == (0, "data.txt: 5 documents of 2 queries, and nothing to complain about.\n")
    code, out, _ = podium("check", "data.txt", "--json")
    assert (code, json.loads(out)["findings"]) == (0, [])
    (folder / "faulty.txt").write_text("40 qid:a 1:0.9\n0 qid:a 1:0.5\n")
    code, out, _ = podium("check", "faulty.txt", "--json")
    assert (code, [finding["level"] for finding in json.loads(out)["findings"]][:1]) == (1, ["error"])


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
    for _ in range(2):  # a second time into the same folder
        code, out, err = podium("demo")
        assert (code, err) == (0, "")
        assert "cascade beats BM25 by 0." in out
    names = sorted(path.name for path in (folder / "demo").iterdir())
    assert names == sorted([".podium-demo", "plain_sum.scores", "report.html", "results", *SPLITS, "web"])
    page = (folder / "demo" / "report.html").read_text("utf-8")
    shown = re.search(r"cascade │ (0\.\d{4}) .* (0\.\d{4} to 0\.\d{4})", out)
    mean, low, high = (
        f"{float(number):.3f}" for number in (shown[1], *shown[2].split(" to "))
    )  # as the interval allows
    assert f"The best model is cascade: NDCG@10 {mean} (95% interval {low} to {high})" in page
    assert "Report: demo/report.html" in out.splitlines()[-1]
    names = sorted(path.name for path in (folder / "demo" / "web").iterdir())
    assert names == ["cascade", "index", "pages.jsonl", "qrels.txt", "queries.tsv"]
    steps = re.findall(r"^ +podium (.*)$", out, re.MULTILINE)
    for line in [step for step in steps if not step.startswith("serve ")]:  # which goes on until Ctrl-C
        assert podium(*shlex.split(line))[0] == 0, line
    code, out, err = podium("search", "demo/web/mart", "where do bagels come from", "--k", "3")
    assert (code, err) == (0, "")
    assert "bagels" in out
    code, out, _ = podium("demo", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["systems"]["cascade"]["metrics"]["ndcg@10"] > found["systems"]["BM25"]["metrics"]["ndcg@10"] + 0.1
    assert found["web"]["queries"] > 150
    assert found["query"]["bm25"] != found["query"]["cascade"]


def test_demo_without_matplotlib_says_how_to_get_the_report(podium, folder, monkeypatch):
    monkeypatch.setattr("podium.demo.show.find_spec", lambda name: None)
    code, out, err = podium("demo", "--out", "plain")
    assert (code, err) == (0, "")
    last = out.splitlines()[-1]
    assert last == "For a report with charts: pip install 'podium[report]', then podium lab report plain/results"
    assert not (folder / "plain" / "report.html").exists()
    assert podium("lab", "report", "plain/results", "--out", "plain/report.html")[0] == 0
    assert (folder / "plain" / "report.html").exists()


def test_doctor_names_versions_threads_and_extras(podium):
    code, out, _ = podium("doctor", "--json")
    found = json.loads(out)
    assert code == (1 if found["advice"] else 0)
    assert {"python", "cpu", "numba", "extras"} <= set(found)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "data.txt"], "Give DATA with --scores FILE, or QRELS RUN..., or --qrels FILE with --run FILE"),
        (
            ["eval", "--qrels", "qrels"],
            "Give DATA with --scores FILE, or QRELS RUN..., or --qrels FILE with --run FILE",
        ),
        (["eval", "none.txt", "--scores", "good.txt"], "none.txt: No such file"),
        (["eval", "data.txt", "--scores", "good.txt", "-m", "ndgc@10"], "Did you mean 'ndcg@10'?"),
        (["eval", "data.txt", "--scores", "good.txt", "--policy", "letor"], "Did you mean 'letor4'?"),
        (["eval", "data.txt", "--scores", "qrels"], "qrels"),
        (["compare", "data.txt", "--scores", "good.txt"], "needs two systems or more"),
        (
            ["compare", "data.txt", "--scores", "good.txt", "--scores", "bad.txt", "--interval", "bc"],
            "interval must be one of bounded, t, studentised, bca; got 'bc'. Did you mean 'bca'?",
        ),
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


SMALL = ["--set", "n_estimators=6", "--set", "max_leaf_nodes=4", "--set", "min_samples_leaf=3"]
AUTO = "learning_rate=0.05, feature_fraction=1.0, extra_trees=False"  # for fewer than 150 queries and 400 rows
TRAIN = ["train", "lambdamart", "train.txt", "--valid", "valid.txt", "--out", "m.podium", *SMALL]


def letor_lines(rng, n_queries, first_query=1, docids=True):
    """Eight documents per query with two features; the first one, with some noise, makes the label."""
    lines = []
    for query in range(first_query, first_query + n_queries):
        for place, (x, other, noise) in enumerate(rng.random((8, 3))):
            label = int(3 * min(0.999, 0.8 * x + 0.2 * noise))
            lines.append(f"{label} qid:{query} 1:{x:.4f} 2:{other:.4f}" + (f" # docid = d{place}" if docids else ""))
    return lines


@pytest.fixture
def work(tmp_path, monkeypatch, rng):
    """A folder with data to train on, to validate by and to test with."""
    monkeypatch.chdir(tmp_path)
    for name, n_queries, first in (("train", 40, 1), ("valid", 15, 101), ("test", 15, 201)):
        (tmp_path / f"{name}.txt").write_text("\n".join(letor_lines(rng, n_queries, first)) + "\n")
    return tmp_path


def without_warnings_as_errors(run, *words):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        return run(*words)


def test_training_ranking_and_evaluating_files_gives_the_number_that_python_gives(podium, work):
    import podium as package

    code, out, err = podium(*TRAIN, "--early-stopping", "3", "--json")
    assert (code, err) == (0, "")
    trained = json.loads(out)
    assert podium("rank", "m.podium", "test.txt", "--out", "test.scores")[0] == 0
    _, out, _ = podium("eval", "test.txt", "--scores", "test.scores", "-m", "ndcg@10", "--json")

    train, valid, test = (package.read_letor(f"{name}.txt") for name in ("train", "valid", "test"))
    model = package.LambdaMART(n_estimators=6, max_leaf_nodes=4, min_samples_leaf=3)
    model.fit(train, eval_set={"valid.txt": valid}, early_stopping_rounds=3)
    model.save("python.podium")
    assert (work / "m.podium").read_bytes() == (work / "python.podium").read_bytes()
    assert trained["trees"] == trained["best_iteration"] == model.best_iteration_
    judged = package.evaluate(model.predict(valid), valid, metrics=["ndcg@10"])
    assert trained["metrics"] == {"valid.txt": {"ndcg@10": judged["ndcg@10"]}}
    tested = package.evaluate(model.predict(test), test, metrics=["ndcg@10"])
    assert json.loads(out)["metrics"] == {"ndcg@10": tested["ndcg@10"]}
    assert tested["ndcg@10"] > 0.8


def test_train_says_what_was_trained_and_with_json_nothing_else(podium, work):
    code, out, err = podium(*TRAIN, "--valid", "test.txt")
    lines = out.splitlines()
    assert code == 0
    assert lines[0] == f"LambdaMART: 6 trees; trained on 320 documents of 40 queries with {AUTO}"
    assert lines[1].startswith("valid.txt: ndcg@10 0.")
    assert lines[2].startswith("test.txt: ndcg@10 0.")
    assert lines[3:] == ["m.podium: written"]
    assert err.startswith("podium: trained in ")
    code, out, err = podium(*TRAIN, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert list(found) == [
        *("model", "out", "trees", "best_iteration", "best_score", "policy", "metrics", "seconds", "parameters"),
        *("resolved_params", "interrupted"),
    ]
    assert (found["model"], found["out"], found["policy"]) == ("lambdamart", "m.podium", "standard")
    assert found["parameters"]["n_estimators"] == 6
    assert found["parameters"]["learning_rate"] == "auto"
    assert found["resolved_params"] == {
        **{"learning_rate": 0.05, "feature_fraction": 1.0, "extra_trees": False},
        **{"max_leaf_nodes": 4, "min_samples_leaf": 3},
    }


def test_train_needs_no_validation_data(podium, work):
    code, out, _ = podium("train", "MART", "train.txt", "--out", "m.podium", *SMALL, "--json")
    assert code == 0
    assert json.loads(out)["metrics"] == {}


def write_pairs(path):
    """In every query: document d0 above d1 for sure, d2 above d3 for three judges of four, twice as important."""
    lines = [f"{query} d0 d1\n{query} d2 d3 0.75 2  # four judges\n" for query in range(1, 41)]
    path.write_text("# judged in May\n" + "".join(lines))


def test_training_on_a_pair_file_writes_the_model_that_python_writes(podium, work):
    import podium as package

    write_pairs(work / "pairs.txt")
    words = ["train", "boosted", "train.txt", "--out", "m.podium", *SMALL, "--set", "objective=hinge"]
    code, out, err = podium(*words, "--pair-file", "pairs.txt", "--valid", "valid.txt", "--json")
    trained = json.loads(out)
    assert (code, err) == (0, "")
    assert (trained["pairs"], list(trained)[-1]) == (80, "pairs")
    data = package.read_letor("train.txt")
    first, second = (np.arange(40)[:, None] * 8 + np.array(pair) for pair in ([0, 2], [1, 3]))
    pairs = first.ravel(), second.ravel(), np.tile([1.0, 0.75], 40), np.tile([1.0, 2.0], 40)
    model = package.Boosted(objective="hinge", n_estimators=6, max_leaf_nodes=4, min_samples_leaf=3)
    valid = {"valid.txt": package.read_letor("valid.txt")}
    model.fit(data.X, qid=data.qid, pairs=pairs, eval_set=valid).save("python.podium")
    assert (work / "m.podium").read_bytes() == (work / "python.podium").read_bytes()
    code, out, _ = podium(*words, "--pair-file", "pairs.txt")
    assert out.splitlines()[0] == f"Boosted: 6 trees; trained on 80 pairs in 320 documents of 40 queries with {AUTO}"


def test_a_table_without_labels_has_pairs(podium, work):
    write_pairs(work / "pairs.txt")
    rows = [f"{query},d{place},{place % 3}.5" for query in range(1, 41) for place in range(8)]
    (work / "train.csv").write_text("qid,docid,x\n" + "\n".join(rows) + "\n")
    words = ["train", "linear", "train.csv", "--out", "m.podium"]
    assert podium(*words, "--pair-file", "pairs.txt")[0] == 0
    code, _, err = podium(*words)
    assert (code, "label" in err) == (2, True)


def test_checkpoints_of_a_pair_file_know_its_pairs(podium, work):
    write_pairs(work / "pairs.txt")
    (work / "other.txt").write_text("1 d0 d1\n")
    words = ["train", "linear", "train.txt", "--out", "m.podium", "--checkpoint", "run.check", "--every", "1"]
    import podium as package

    def stop_at_2(progress):
        if progress.iteration == 2:
            raise KeyError("stopped")

    data = package.read_letor("train.txt")
    pairs = package.read_pairs("pairs.txt", data)
    with pytest.raises(KeyError):
        package.Linear().fit(data, pairs=pairs, checkpoint="run.check", every=1, callbacks=[stop_at_2])
    code, _, err = podium(*words, "--pair-file", "other.txt")
    assert (code, "the list of given pairs is 1 pair, checksum" in err) == (2, True)
    assert podium(*words, "--pair-file", "pairs.txt")[0] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 d0 d9", "pairs.txt, line 1: there is no document 'd9' in query '1'"),
        ("99 d0 d1", "pairs.txt, line 1: there is no query '99'"),
        ("1 d0 d1 2", "pairs.txt, line 1: the probability (column 4"),
    ],
)
def test_a_bad_line_of_a_pair_file_is_one_sentence_and_exit_code_2(podium, work, line, message):
    (work / "pairs.txt").write_text(line + "\n")
    code, out, err = podium("train", "linear", "train.txt", "--out", "m.podium", "--pair-file", "pairs.txt")
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not (work / "m.podium").exists()


def test_the_number_of_threads_does_not_change_the_model_file(podium, work):
    files = []
    for jobs in ("1", "2"):
        assert podium(*TRAIN, "--jobs", jobs, "--seed", "7", "--set", "row_fraction=0.5")[0] == 0
        files.append((work / "m.podium").read_bytes())
    assert files[0] == files[1]
    assert podium(*TRAIN, "--jobs", "2", "--seed", "8", "--set", "row_fraction=0.5")[0] == 0
    assert (work / "m.podium").read_bytes() != files[0]


def test_lambdasmart_starts_from_the_saved_model_that_init_names(podium, work):
    import podium as package

    assert podium("train", "mart", "train.txt", "--out", "base.podium", *SMALL)[0] == 0
    words = ["train", "lambdasmart", "train.txt", "--out", "m.podium", *SMALL, "--set", "init=base.podium", "--json"]
    code, out, _ = podium(*words)
    assert code == 0
    assert json.loads(out)["parameters"]["init"] == "base.podium"
    test, base, model = package.read_letor("test.txt"), package.load("base.podium"), package.load("m.podium")
    np.testing.assert_allclose(model.predict(test), model.forest_.scores(test.X) + base.predict(test))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lambdamrt"], "model must be one of regressiontree, mart, "),
        (["lambdamrt"], "got 'lambdamrt'. Did you mean 'lambdamart'?"),
        (["lambdamart", "--set", "learning_rat=1"], "Did you mean 'learning_rate'?"),
        (["mart", "--set", "sigma=1"], "MART: a parameter must be one of objective, pair_exponent, learning_rate, "),
        (["lambdamart", "--set", "learning_rate"], "--set takes name=value, such as learning_rate=0.05"),
        (
            ["lambdamart", "--set", "learning_rate=fast"],
            "learning_rate must be above 0 and at most 1,000, or \"auto\"; got 'fast'",
        ),
        (["lambdamart", "--set", "learning_rate=-1"], "LambdaMART: learning_rate must be above 0 and at most 1,000"),
        (
            ["lambdamart", "--set", "learning_rate=nan"],
            'learning_rate must be above 0 and at most 1,000, or "auto"; got nan',
        ),
        (["lambdamart", "--set", "learning_rate=none"], "at most 1,000, or \"auto\"; got 'none'"),
        (["lambdamart", "--set", "n_estimators=2.5"], "must be an integer from 1 to 1,000,000; got '2.5'"),
        (["lambdamart", "--set", "n_estimators=1", "--set", "n_estimators=2"], "n_estimators=... is given twice (1 an"),
        (
            ["lambdamart", "--set", "growth=leafs"],
            "growth must be one of leaf, level, oblivious; got 'leafs'. Did you mean 'leaf'",
        ),
        (["lambdamart", "--set", "normalize=l2"], "normalize must be one of None, auto, lightgbm, xgboost; got 'l2'"),
        (["lambdamart", "--set", "sigma=0"], "LambdaMART: sigma must be above 0; got 0.0"),
        (["lambdamart", "--set", "metric=ndgc@10"], "Did you mean 'ndcg@10'?"),
        (["boosted", "--set", "objective=ranket"], "Did you mean 'ranknet'?"),
        (["lambdamart", "--jobs", "0"], "--jobs must be positive, or -1 for all cores; got 0"),
        (["lambdamart", "--jobs", "1", "--set", "n_jobs=2"], "Give --jobs or --set n_jobs=..., not both"),
        (["lambdamart", "--seed", "-1"], "--seed must be an integer from 0; got -1"),
        (["lambdamart", "--early-stopping", "5"], "--early-stopping needs validation data. Add --valid FILE"),
        (["lambdasmart"], "On the command line, name a model's file: --set init=FILE"),
        (["lambdasmart", "--set", "init=good.txt"], "good.txt: is no Podium model"),
        (["lambdamart", "--out", "no/m.podium"], "no/m.podium: the folder no does not exist"),
        (["lambdamart", "--out", "."], "is a folder"),
        (["lambdamart", "--out", "m.podium.gz"], "a model file cannot be compressed"),
        (["lambdamart", "--valid", "good.txt", "--out", "good.txt"], "--out good.txt would replace good.txt"),
        (["lambdamart", "--pair-file", "good.txt"], "LambdaMART takes no pairs with the objective 'lambda'"),
        (["linear", "--pair-file", "good.txt", "--out", "good.txt"], "--out good.txt would replace good.txt"),
        (["lambdamart"], "none.txt: No such file"),
    ],
)
def test_train_refuses_what_is_wrong_before_it_looks_at_the_data(podium, folder, words, message):
    """There is no training data, and only the last case gets so far as to say so."""
    out_file = [] if "--out" in words else ["--out", "m.podium"]
    code, out, err = podium("train", words[0], "none.txt", *words[1:], *out_file)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_a_run_of_a_model_is_read_back_by_eval(podium, work):
    podium(*TRAIN)
    code, out, _ = podium("rank", "m.podium", "test.txt", "--out", "test.run", "--tag", "mine")
    assert (code, out) == (0, "test.run: a TREC run of 120 documents for 15 queries\n")
    rows = [line.split() for line in (work / "test.run").read_text().splitlines()]
    assert {(row[1], row[5]) for row in rows} == {("Q0", "mine")}
    assert [int(row[3]) for row in rows[:8]] == [1, 2, 3, 4, 5, 6, 7, 8]
    labels = [line.split() for line in (work / "test.txt").read_text().splitlines()]
    (work / "qrels").write_text("".join(f"{row[1][4:]} 0 {row[-1]} {row[0]}\n" for row in labels))
    podium("rank", "m.podium", "test.txt", "--out", "test.scores")
    words = ["-m", "ndcg@5", "-m", "map", "--policy", "standard", "--json"]
    _, by_run, _ = podium("eval", "--qrels", "qrels", "--run", "test.run", *words)
    _, by_scores, _ = podium("eval", "test.txt", "--scores", "test.scores", *words)
    assert json.loads(by_run)["metrics"] == json.loads(by_scores)["metrics"]


def test_the_best_of_a_run_are_kept_in_a_file_on_standard_output_and_in_json(podium, work):
    podium(*TRAIN)
    whole = podium("rank", "m.podium", "test.txt", "--format", "trec")[1].splitlines()
    best = [line for line in whole if int(line.split()[3]) <= 2]
    assert podium("rank", "m.podium", "test.txt", "--format", "trec", "--top", "2")[1].splitlines() == best
    podium("rank", "m.podium", "test.txt", "--out", "best.trec", "--top", "2")
    assert (work / "best.trec").read_text().splitlines() == best
    found = json.loads(podium("rank", "m.podium", "test.txt", "--format", "trec", "--top", "2", "--json")[1])
    assert (found["model"], found["documents"], found["queries"]) == ("lambdamart", 120, 15)
    pairs = [(query, document, score) for query, inner in found["run"].items() for document, score in inner.items()]
    assert pairs == [(row[0], row[2], float(row[4])) for row in map(str.split, best)]


def test_documents_without_ids_are_called_by_their_place_in_the_file(podium, work, rng):
    podium(*TRAIN)
    lines = letor_lines(rng, 2, docids=False)
    (work / "bare.txt").write_text("\n".join(lines) + "\n")
    scores = list(map(float, podium("rank", "m.podium", "bare.txt")[1].split()))
    rows = [line.split() for line in podium("rank", "m.podium", "bare.txt", "--format", "trec")[1].splitlines()]
    assert sorted(int(row[2]) for row in rows) == list(range(1, 17))
    assert all(float(row[4]) == scores[int(row[2]) - 1] for row in rows)


def test_scores_of_a_model_follow_the_file_where_queries_are_interleaved(podium, work, rng):
    podium(*TRAIN)
    lines = (work / "test.txt").read_text().splitlines()
    order = rng.permutation(len(lines))
    (work / "mixed.txt").write_text("\n".join(lines[row] for row in order) + "\n")
    scores = podium("rank", "m.podium", "test.txt")[1].splitlines()
    assert len(scores) == len(lines)
    code, out, err = without_warnings_as_errors(podium, "rank", "m.podium", "mixed.txt")
    assert code == 0
    assert "interleaved" in err
    assert out.splitlines() == [scores[row] for row in order]
    found = without_warnings_as_errors(podium, "rank", "m.podium", "mixed.txt", "--json")[1]
    assert json.loads(found)["scores"] == list(map(float, out.split()))


def test_sparse_data_may_lack_its_last_features_which_are_then_zero(podium, work):
    dense = [line.replace(line.split()[3], "2:0") for line in (work / "valid.txt").read_text().splitlines()]
    sparse = [line.replace(" 2:0", "") for line in dense]
    for name, lines in (("dense", dense), ("sparse", sparse)):
        (work / f"{name}.txt").write_text("\n".join(lines) + "\n")
    words = ["train", "lambdamart", "train.txt", "--out", "m.podium", *SMALL, "--json"]
    _, of_dense, _ = podium(*words, "--valid", "dense.txt")
    code, of_sparse, err = without_warnings_as_errors(podium, *words, "--valid", "sparse.txt")
    assert code == 0
    assert "sparse.txt has 1 feature, train.txt 2; the last 1 count as 0" in err
    assert json.loads(of_dense)["metrics"]["dense.txt"] == json.loads(of_sparse)["metrics"]["sparse.txt"]
    scores = podium("rank", "m.podium", "dense.txt")[1]
    code, out, err = without_warnings_as_errors(podium, "rank", "m.podium", "sparse.txt")
    assert (code, out) == (0, scores)
    assert "sparse.txt has 1 feature, the model m.podium 2" in err


def test_other_columns_than_those_of_the_training_are_refused(podium, work):
    podium(*TRAIN)
    wide = (work / "test.txt").read_text().replace(" #", " 3:1 #")
    (work / "wide.txt").write_text(wide)
    code, _, err = podium("rank", "m.podium", "wide.txt")
    assert code == 2
    assert "wide.txt has 3 features, the model m.podium 2. Give data with the features of the model" in err
    code, _, err = podium(*TRAIN, "--valid", "wide.txt")
    assert code == 2
    assert "wide.txt has 3 features, train.txt 2. If the last ones are 0 in all of train.txt, name the last" in err
    assert 'add "3:0" to a line' in err
    code, _, err = podium("train", "lambdasmart", "wide.txt", "--out", "s.podium", "--set", "init=m.podium")
    assert code == 2
    assert "wide.txt has 3 features, the model m.podium 2" in err


@pytest.mark.filterwarnings("ignore:.*every query in it is in")  # the validation data are the training data
def test_named_columns_must_be_those_of_the_training(podium, work):
    table = "label,qid,{}\n" + "".join(f"{row % 3},{row // 6},{row % 5},{row % 7}\n" for row in range(60))
    for name, columns in (("good", "bm25,links"), ("bad", "bm25,lenks"), ("short", "bm25")):
        lines = table.format(columns).splitlines()
        kept = [",".join(line.split(",")[: 3 if name == "short" else 4]) for line in lines]
        (work / f"{name}.csv").write_text("\n".join(kept) + "\n")
    every = ["--set", "feature_fraction=1", "--set", "extra_trees=false"]  # one feature alone says nothing
    assert podium("train", "mart", "good.csv", "--valid", "good.csv", "--out", "m.podium", *SMALL, *every)[0] == 0
    assert podium("rank", "m.podium", "good.csv")[0] == 0
    code, _, err = podium("rank", "m.podium", "bad.csv")
    assert code == 2
    assert "bad.csv: feature 2 is 'lenks', that of the model m.podium 'links'" in err
    code, _, err = podium("rank", "m.podium", "short.csv")
    assert code == 2
    assert "short.csv has 1 feature, the model m.podium 2. Named features must be the same" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.txt", "test.txt"], "train.txt: is no Podium model; it begins with"),
        (["none.podium", "test.txt"], "none.podium: No such file"),
        (["m.podium", "none.txt"], "none.txt: No such file"),
        (["m.podium", "test.txt", "--format", "run"], "--format must be one of scores, trec; got 'run'"),
        (["m.podium", "test.txt", "--top", "3"], "--top is for TREC runs"),
        (["m.podium", "test.txt", "--tag", "x"], "--tag is for TREC runs"),
        (["m.podium", "test.txt", "--out", "x.run", "--tag", "two words"], "tag must be one word without blanks"),
        (["m.podium", "test.txt", "--out", "no/x.run"], "the folder no does not exist"),
        (["m.podium", "test.txt", "--out", "test.txt"], "--out test.txt would replace test.txt"),
        (["m.podium", "twice.txt", "--out", "x.run"], "twice.txt: query '1' has document 'd' more than once"),
    ],
)
def test_rank_refuses_what_is_wrong_and_writes_nothing(podium, work, words, message):
    podium(*TRAIN)
    (work / "twice.txt").write_text("1 qid:1 1:1 2:1 # docid = d\n0 qid:1 1:2 2:1 # docid = d\n")
    before = {path.name: path.read_bytes() for path in work.iterdir()}
    code, out, err = podium("rank", *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert {path.name: path.read_bytes() for path in work.iterdir()} == before


def test_models_lists_every_model_and_the_parameters_of_one(podium):
    from podium.models.registry import MODELS

    code, out, err = podium("models")
    assert (code, err) == (0, "")
    assert all(f" {name.lower()} " in out for name in MODELS)
    found = json.loads(podium("models", "--json")[1])["models"]
    assert [entry["class"] for entry in found] == list(MODELS)
    code, out, _ = podium("models", "lambdamart")
    assert code == 0
    assert out.startswith("lambdamart: boosted trees x lambda of a metric\n")
    parameters = {
        entry["name"]: entry for entry in json.loads(podium("models", "LambdaMART", "--json")[1])["parameters"]
    }
    assert parameters["max_depth"] == {
        "name": "max_depth",
        "default": None,
        "allowed": "an integer from 1 to 65,536, or None",
        "about": "Maximum depth of a tree; None for no limit.",
    }
    code, out, err = podium("models", "lamdamart")
    assert (code, out) == (2, "")
    assert "Did you mean 'lambdamart'?" in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal that a program can be")
def test_a_terminal_shows_the_metric_and_ctrl_c_keeps_the_trees_so_far(work):
    import pty

    import podium as package

    terminal, end = pty.openpty()
    words = [*TRAIN[: -len(SMALL)], *SMALL[2:], "--set", "n_estimators=1000000"]
    command = [sys.executable, "-c", "from podium.cli import main; main()", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=end, env=os.environ | {"TERM": "xterm"})
    os.close(end)
    shown = b""
    while b"ndcg@10 0." not in shown:
        shown += os.read(terminal, 4096)
    assert b"training LambdaMART" in shown
    process.send_signal(signal.SIGINT)
    while b"trained in" not in shown:
        shown += os.read(terminal, 4096)
    out = process.communicate(timeout=60)[0].decode()
    os.close(terminal)
    trees = package.load("m.podium").forest_.n_trees
    assert process.returncode == 130
    assert trees >= 1
    assert out.startswith(f"stopped by Ctrl-C; what was trained until then is kept\nLambdaMART: {trees:,} tree")


def test_ctrl_c_writes_the_trees_so_far_and_leaves_the_checkpoint(podium, work, monkeypatch):
    import podium as package
    from podium.workflows import training

    def interrupt_at(step):
        def after(progress):
            if progress.iteration == step:
                raise KeyboardInterrupt

        return lambda report: after

    words = [*TRAIN, "--checkpoint", "run.checkpoint", "--every", "2"]
    monkeypatch.setattr(training, "_show_on", interrupt_at(3))
    code, out, _ = podium(*words, "--json")
    assert code == 130
    assert json.loads(out)["interrupted"] is True
    assert package.load("m.podium").forest_.n_trees == json.loads(out)["trees"] == 3
    assert (work / "run.checkpoint").exists()
    monkeypatch.setattr(training, "_show_on", interrupt_at(0))
    code, out, _ = podium(*words, "--json")
    assert code == 0
    assert json.loads(out)["interrupted"] is False
    assert not (work / "run.checkpoint").exists()


def test_ctrl_c_before_the_first_tree_writes_nothing(podium, work, monkeypatch):
    from podium.models.frame import fitting

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "run_steps", interrupt)
    code, out, err = podium(*TRAIN)
    assert (code, out) == (130, "")
    assert err == "podium: stopped before the first tree; m.podium is not written.\n"
    assert not (work / "m.podium").exists()


def test_inspect_shows_the_trees_the_features_and_the_parameters(podium, work):
    podium(*TRAIN)
    code, out, err = podium("inspect", "m.podium")
    assert (code, err) == (0, "")
    assert out.startswith("LambdaMART: ")
    assert "n_estimators=6" in out
    found = json.loads(podium("inspect", "m.podium", "--json")[1])
    assert found["n_trees"] == len(found["trees"])
    assert found["bundles"] == []
    code, out, _ = podium("inspect", "m.podium", "--tree", "1")
    assert code == 0
    assert out.count(" row") == 2 * found["trees"][0]["leaves"] - 1
    assert json.loads(podium("inspect", "m.podium", "--tree", "1", "--json")[1])["text"] == out.strip()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # matplotlib's own
def test_inspect_draws_a_tree_or_the_learning_curves(podium, work):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    podium(*TRAIN)
    code, out, _ = podium("inspect", "m.podium", "--tree", "1", "--out", "tree.svg")
    assert code == 0
    assert out.endswith("tree.svg: written\n")
    found = json.loads(podium("inspect", "m.podium", "--out", "curves.png", "--json")[1])
    assert found["written"] == "curves.png"
    assert (work / "tree.svg").read_text().startswith("<?xml")
    code, out, _ = podium("inspect", "m.podium", "--tree", "1", "--depth", "1", "--out", "top.svg")
    assert code == 0
    assert "more lea" in (work / "top.svg").read_text()
    assert podium("inspect", "m.podium", "--tree", "1", "--node", "1", "--out", "part.svg")[0] == 0
    code, out, _ = podium("inspect", "m.podium", "--importance", "split", "--out", "importance.svg")
    assert code == 0
    assert out.endswith("importance.svg: written\n")
    found = json.loads(podium("inspect", "m.podium", "--importance", "gain", "--json")[1])
    assert found["kind"] == "gain"
    assert max(found["features"].values()) > 0
    for words, message in (
        (["--depth", "1"], "--depth and --node are about the drawing of a tree"),
        (["--tree", "1", "--importance", "gain"], "Give --tree N or --importance KIND, not both"),
        (["--importance", "weight"], "kind must be one of gain, split, cover; got 'weight'"),
    ):
        code, out, err = podium("inspect", "m.podium", *words)
        assert (code, out) == (2, "")
        assert message in err
    assert (work / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # matplotlib's own
def test_explain_says_why_documents_stand_where_they_do(podium, work):
    podium(*TRAIN)
    run = [line.split() for line in podium("rank", "m.podium", "test.txt", "--format", "trec")[1].splitlines()]
    query = run[0][0]
    first, second, last = run[0][2], run[1][2], run[7][2]
    code, out, err = podium("explain", "m.podium", "test.txt", "--query", query, "--top", "2")
    assert (code, err) == (0, "")
    assert out.startswith(f"query {query}: 8 documents, mean score ")
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == [f"1. {first}", f"2. {second}"]
    code, out, _ = podium("explain", "m.podium", "test.txt", "--query", query, "--documents", last, first)
    assert code == 0
    assert out.startswith(f"Document {first} is ranked above document {last} by ")
    code, out, _ = podium("explain", "m.podium", "test.txt", "--query", query, "--lambdas", "-m", "map")
    assert code == 0
    assert out.startswith("lambda, map (policy standard): 8 documents, ")
    assert out.splitlines()[-8].split()[:2] == ["1", first]
    words = ["--lambdas", "--out", "lambdas.svg", "--json"]
    found = json.loads(podium("explain", "m.podium", "test.txt", "--query", query, *words)[1])
    assert sum(document["lambda"] for document in found["documents"]) == pytest.approx(0, abs=1e-9)
    assert found["written"] == "lambdas.svg"
    words = ["--documents", first, last, "--out", "why.svg", "--json"]
    found = json.loads(podium("explain", "m.podium", "test.txt", "--query", query, *words)[1])
    assert found["difference"] == float(run[0][4]) - float(run[7][4])
    assert sum(reason["contribution"] for reason in found["reasons"]) == pytest.approx(found["difference"], abs=1e-9)
    assert (work / "why.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--documents", "a", "b", "--top", "3"], "Give one of --documents I J, --top K and --lambdas"),
        (["--lambdas", "--top", "3"], "Give one of --documents I J, --top K and --lambdas"),
        (["--metric", "map"], "--metric is for --permutation, --ablation and --lambdas"),
        (["--out", "why.pdf"], "the suffix of a picture must be one of .svg, .png; got '.pdf'"),
        (["--out", "no/why.svg"], "no/why.svg: the folder no does not exist"),
        ([], "none.podium: No such file"),
    ],
)
def test_explain_refuses_what_is_wrong_before_it_looks_at_the_data(podium, folder, words, message):
    code, out, err = podium("explain", "none.podium", "none.txt", "--query", "a", *words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.fixture
def piped(monkeypatch, capfdbinary):
    """Run the command line with standard input from a file: (exit code, bytes of output, bytes of error)."""

    def run(*words, source=os.devnull):
        monkeypatch.setattr(sys, "argv", ["podium", *map(str, words)])
        with open(source) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            with pytest.raises(SystemExit) as stopped:
                cli.main()
        captured = capfdbinary.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@contextmanager
def a_pipe_of(path, folder):
    """The name of a pipe through which the content of a file comes."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as writer:
        done = writer.submit(lambda: pipe.write_bytes(path.read_bytes()))
        yield pipe
        done.result(10)
    pipe.unlink()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with data and a model."""
    from podium.demo.letor import demo_splits
    from podium.formats import write_data
    from podium.models.trees.named import LambdaMART

    folder = tmp_path_factory.mktemp("trained")
    data = demo_splits(n_queries=20).train
    for name in ("train.txt", "train.podium-data", "train.parquet", "train.csv", "train.txt.zst"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_data(data, folder / name)
    LambdaMART(n_estimators=3, min_samples_leaf=5).fit(folder_data(folder)).save(folder / "m.podium")
    (folder / "scores.txt").write_text("\n".join(map(str, range(data.n_rows))) + "\n")
    return folder


def folder_data(folder):
    from podium.formats import read_data

    return read_data(folder / "train.txt")


def test_a_dash_is_standard_output_and_the_report_goes_to_standard_error(piped, trained, folder):
    options = ["--set", "n_estimators=3", "--set", "min_samples_leaf=5"]
    code, out, err = piped("train", "lambdamart", trained / "train.txt", "--out", "-", *options)
    assert (code, out) == (0, (trained / "m.podium").read_bytes())
    assert b"/dev/stdout: written" in err
    scores = piped("rank", trained / "m.podium", trained / "train.txt")[1]
    for name in ("-", "/dev/stdout"):
        code, out, err = piped("rank", trained / "m.podium", trained / "train.txt", "--out", name)
        assert (code, out) == (0, scores)
        assert b"scores, one per line" in err
    code, out, err = piped("convert", trained / "train.podium-data", "-", "--to", "csv")
    assert (code, out) == (0, (trained / "train.csv").read_bytes())
    assert err.startswith(b"/dev/stdout: ")
    assert not (folder / "-").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "mart", "data.txt", "--out", "-"],
        ["rank", "data.txt", "data.txt", "--out", "/dev/stdout"],
        ["convert", "data.txt", "-"],
    ],
)
def test_json_and_a_file_do_not_both_go_to_standard_output(piped, folder, words):
    code, out, err = piped(*words, "--json")
    assert (code, out) == (2, b"")
    assert b"and --json would both go to standard output" in err


@pytest.mark.filterwarnings("ignore:the data has feature names")  # the model was trained on text, which has none
@pytest.mark.parametrize("name", ["train.txt", "train.txt.zst", "train.podium-data", "train.parquet"])
def test_data_come_through_standard_input_and_pipes(piped, trained, folder, name):
    model = trained / "m.podium"
    scores = piped("rank", model, trained / "train.txt")[1]
    assert scores.count(b"\n") > 100
    for word in ("-", "/dev/stdin"):
        assert piped("rank", model, word, source=trained / name) == (0, scores, b"")
    with a_pipe_of(trained / name, folder) as pipe:
        assert piped("rank", model, pipe) == (0, scores, b"")


def test_scores_runs_judgements_and_models_come_through_standard_input(piped, trained, folder):
    data, scores = trained / "train.txt", trained / "scores.txt"
    wanted = piped("eval", data, "--scores", scores, "--json")
    assert wanted[0] == 0
    assert piped("eval", data, "--scores", "-", "--json", source=scores) == wanted
    assert piped("eval", "-", "--scores", scores, "--json", source=data) == wanted
    with a_pipe_of(scores, folder) as pipe:
        assert piped("eval", "-", "--scores", pipe, "--json", source=data) == wanted
    wanted = piped("eval", "--qrels", "qrels", "--run", "run", "--json")
    assert piped("eval", "--qrels", "-", "--run", "run", "--json", source="qrels") == wanted
    assert piped("eval", "--qrels", "qrels", "--run", "-", "--json", source="run") == wanted
    wanted = piped("inspect", trained / "m.podium")
    assert piped("inspect", "-", source=trained / "m.podium") == wanted
    code, out, _ = piped("check", "data.txt", "--json")
    assert piped("check", "-", "--json", source="data.txt")[:2] == (code, out.replace(b"data.txt", b"-"))
    assert piped("convert", "--from", "csv", "-", "out.txt", source=trained / "train.csv")[0] == 0
    assert piped("rank", trained / "m.podium", "out.txt") == piped("rank", trained / "m.podium", data)


def test_a_real_pipeline(trained):
    podium = f"{sys.executable} -c 'from podium.cli import main; main()'"
    line = f"set -o pipefail; {podium} convert train.csv - | {podium} convert - out.csv"
    done = subprocess.run(["bash", "-c", line], cwd=trained, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout.startswith(b"out.csv: ")) == (0, True)
    assert (trained / "out.csv").read_text().count("\n") == (trained / "train.csv").read_text().count("\n")


@pytest.mark.filterwarnings("default")
def test_messages_about_standard_input_call_it_so_and_it_is_read_once(piped, folder, monkeypatch):
    (folder / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "temporary"))
    code, _, err = piped("check", "-", source="bad.txt")
    assert code == 2
    assert err.startswith(b"podium: standard input, line 1: expected 'qid:<id>'")
    (folder / "mixed.txt").write_text(DATA + DATA)
    err = piped("check", "-", source="mixed.txt")[2]
    assert err.startswith(b'podium: standard input: rows of query "a" are at lines 1-3 and again')
    code, _, err = piped("eval", "-", "--scores", "-", source="data.txt")
    assert (code, err) == (2, b"podium: -: standard input can be read once only. Give a file for the other.\n")
    assert os.listdir(folder / "temporary") == []


@pytest.mark.parametrize("target", ["data.txt", "./data.txt", "../{}/data.txt", "link", "hard", "{}"])
@pytest.mark.parametrize("source", ["data.txt", "link"])
def test_convert_refuses_its_own_input_as_output(podium, folder, target, source):
    (folder / "link").symlink_to("data.txt")
    os.link(folder / "data.txt", folder / "hard")
    target = str(folder / "data.txt") if target == "{}" else target.format(folder.name)
    code, out, err = podium("convert", source, target)
    assert (code, out) == (2, "")
    assert f"would replace {source}, which is read here." in err
    assert (folder / "data.txt").read_text() == DATA


def test_convert_refuses_files_beside_its_input_and_unknown_suffixes(podium, folder):
    (folder / "rank.train").write_text("1 0:1\n0 0:2\n")
    (folder / "rank.train.query").write_text("2\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for words in (
        ["rank.train", "rank.train.query", "--to", "letor"],
        ["rank.train", "rank.train", "--to", "lightgbm"],
        ["rank.train.query", "rank.train", "--from", "letor", "--to", "lightgbm"],
    ):
        assert "which is read here" in podium("convert", *words)[2]
    for name in ("out.parqet", "out.foo", "out.foo.gz"):
        code, _, err = podium("convert", "data.txt", name)
        assert code == 2
        assert "no format has names that end in" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert podium("convert", "data.txt", "out.foo", "--to", "csv")[0] == 0
    assert (folder / "out.foo").read_text().startswith("label,qid")


def test_a_model_is_written_through_a_link_with_the_mode_of_the_old_one(podium, trained, folder):
    target = folder / "real.podium"
    target.write_bytes(b"")
    target.chmod(0o640)
    (folder / "link.podium").symlink_to("real.podium")
    data = str(trained / "train.txt")
    code, _, err = podium("train", "mart", data, "--out", "link.podium", "--set", "n_estimators=2")
    assert code == 0, err
    assert (folder / "link.podium").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert podium("inspect", "link.podium")[0] == 0


DOCUMENTS = """{"id": "d1", "title": "Wings", "body": "lift and drag of wings"}
{"id": "d2", "body": "drag of a tail"}
{"id": "d3"
"""


@pytest.fixture
def documents(folder):
    (folder / "docs.jsonl").write_text(DOCUMENTS)
    (folder / "queries.tsv").write_text("a\twing lift\nb\tdrag\n")
    return folder


def test_index_reports_documents_and_bad_records(podium, documents):
    code, out, err = podium("index", "docs.jsonl", "--out", "ix")
    assert code == 0
    assert out.startswith("ix: 2 documents, 2 read at ")
    assert out.endswith("1 record left out.\n")
    assert "podium: docs.jsonl, line 3: expected a JSON object" in err
    code, out, _ = podium("index", "docs.jsonl", "--out", "ix", "--update", "--json")
    assert (code, json.loads(out)["documents"], json.loads(out)["left_out"]) == (0, 2, 1)


def test_index_counts_documents_that_a_later_one_replaces(podium, folder):
    (folder / "twice.jsonl").write_text('{"id": "a", "body": "x"}\n{"id": "a", "body": "y"}\n{"id": "b"}\n')
    code, out, _ = podium("index", "twice.jsonl", "--out", "ix")
    assert code == 0
    assert out.startswith("ix: 2 documents, 3 read at ")
    assert out.endswith("1 document replaced by a later one with the same id.\n")
    code, out, _ = podium("index", "twice.jsonl", "--out", "ix", "--update", "--json")
    assert (code, json.loads(out)["replaced"]) == (0, 3)


def test_index_says_how_many_bad_records_it_does_not_name(podium, folder):
    (folder / "bad.jsonl").write_text('{"id": "a"}\n' + "bad\n" * 25)
    code, out, err = podium("index", "bad.jsonl", "--out", "ix")
    assert code == 0
    assert out.endswith("25 records left out.\n")
    lines = err.splitlines()
    assert [lines[0][:27], lines[19][:28], lines[20:]] == [
        "podium: bad.jsonl, line 2: ",
        "podium: bad.jsonl, line 21: ",
        ["podium: 5 more records left out."],
    ]


EMPTY = {
    "empty.jsonl": b"",
    "empty.csv": b"",
    "empty.tsv": b"",
    "empty.trec": b"",
    "empty.parquet": b"",
    "empty": b"",
    "mark.csv": b"\xef\xbb\xbf",
    "blank.jsonl": b"\n\n",
    "blank.csv": b"\n\n",
    "header.csv": b"id,title,body\n",
    "headerless.csv": b"7,some text\n",
    "headerless2.csv": b"7,some text\n8,other text\n",
    "headerless.tsv": b"7\ta title\t" + b"x" * 1000 + b"\n8\tother\ttext\n",
    "prose.trec": b"no document",
    "bad.jsonl": b'{"id": null}\n',
}


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("name", [*EMPTY, "pages"])
def test_index_of_nothing_fails_and_leaves_no_index(podium, folder, name, update):
    if name in EMPTY:
        (folder / name).write_bytes(EMPTY[name])
    else:
        (folder / name).mkdir()
    more = ["--update"] if update else []
    code, out, err = podium("index", name, "--out", "deep/ix", *more)
    assert (code, out) == (1, "")
    assert err.endswith(f"podium: no document in {name}: no index was written or changed.\n")
    assert max(map(len, err.splitlines())) < 80 + 150
    assert not (folder / "deep").exists()
    code, out, _ = podium("index", name, "--out", "deep/ix", *more, "--json")
    assert (code, json.loads(out)["documents"], json.loads(out)["read"]) == (1, 0, 0)


def test_index_of_nothing_does_not_change_an_index(podium, documents):
    podium("index", "docs.jsonl", "--out", "ix")
    before = {path.name: path.read_bytes() for path in (documents / "ix").iterdir()}
    (documents / "empty.jsonl").write_text("")
    code, out, _ = podium("index", "empty.jsonl", "--out", "ix", "--update", "--json")
    assert (code, json.loads(out)["documents"]) == (1, 2)
    assert {path.name: path.read_bytes() for path in (documents / "ix").iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["docs.jsonl", "missing.jsonl"], "missing.jsonl: No such file"),
        (["missing"], "missing: No such file"),
        (["docs.jsonl", "cut.jsonl.gz"], "cut.jsonl.gz: the compressed file is damaged or cut short"),
        (["docs.jsonl", "cut.csv.gz"], "cut.csv.gz: the compressed file is damaged or cut short"),
        (["docs.jsonl", "--strict"], "docs.jsonl, line 3: expected a JSON object"),
        (["docs.jsonl", "--language", "klingon"], "language must be one of"),
    ],
)
def test_an_error_of_index_leaves_no_folder(podium, documents, arguments, message):
    import gzip

    whole = gzip.compress(b"id,body\n" + b"1,some text that is long enough\n" * 100)
    for name in ("cut.jsonl.gz", "cut.csv.gz"):
        (documents / name).write_bytes(whole[:-12])
    code, out, err = podium("index", *arguments, "--out", "deep/ix")
    assert (code, out) == (2, "")
    assert message in err
    assert not (documents / "deep").exists()


HOSTILE = "a\x1b[31mred\x07\x9b2J\u202e\x7fz"
CLEAN = "a[31mred2Jz"


def test_control_characters_of_documents_do_not_reach_the_terminal(podium, folder):
    records = [{"id": HOSTILE, "title": HOSTILE, "body": f"lift {HOSTILE} drag"}, {"id": "two\nlines", "body": "fin"}]
    (folder / "docs.jsonl").write_text("\n".join(map(json.dumps, records)) + f"\n{HOSTILE}\n")
    code, out, err = podium("index", "docs.jsonl", "--out", "ix")
    assert code == 0
    for args in (["lift"], ["fin"], ["lift", "--json"]):
        code, out, more = podium("search", "ix", *args)
        assert code == 0
        err += more
        assert all(line.isprintable() for line in out.splitlines())
        assert (CLEAN in out) == (args == ["lift"])
        if "--json" in args:
            assert json.loads(out)["hits"][0]["id"] == HOSTILE
    assert len(podium("search", "ix", "fin")[1].splitlines()) == 2  # the id, and the snippet
    assert all(line.isprintable() for line in err.splitlines())
    code, _, err = podium("search", f"no{HOSTILE}", "x")
    assert (code, err) == (
        2,
        f"podium: No index at no{CLEAN}. Build one with: podium index DOCUMENTS --out no{CLEAN}\n",
    )


def test_control_characters_of_queries_and_ids_do_not_reach_tables(podium, folder):
    (folder / "run").write_text(f"{HOSTILE} Q0 d1 1 3.0 x\n")
    (folder / "qrels").write_text(f"{HOSTILE} 0 d1 1\n")
    code, out, _ = podium("eval", "--qrels", "qrels", "--run", "run", "--per-query")
    assert code == 0
    assert CLEAN in out
    assert all(line.replace("\t", "").isprintable() for line in out.splitlines())


def test_tables_of_the_terminal_have_no_control_characters_but_their_own(monkeypatch):
    from rich.table import Table
    from rich.text import Text

    from podium.cli.terminal import console

    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table("model")
    table.add_row(Text(HOSTILE))
    console(stream).print(table)
    shown = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())  # the style of the header
    assert CLEAN in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_index_stops_at_a_bad_record_if_strict_and_leaves_no_index(podium, documents):
    code, out, err = podium("index", "docs.jsonl", "--out", "ix", "--strict")
    assert (code, out) == (2, "")
    assert "docs.jsonl, line 3: expected a JSON object" in err
    assert podium("search", "ix", "drag")[0] == 2
    assert podium("index", "queries.tsv", "--out", ".")[0] == 2  # a folder with other files


def test_search_prints_ranks_scores_titles_and_snippets(podium, documents):
    podium("index", "docs.jsonl", "--out", "ix")
    code, out, err = podium("search", "ix", "wing drag")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[::2] == ["1", "d1"]
    assert lines[0].endswith("Wings")
    assert lines[1].strip() == "lift and **drag** of **wings**"
    assert lines[2].split()[::2] == ["2", "d2"]
    code, out, _ = podium("search", "ix", "title:wings", "--json", "--weighting", "lmir-jm", "--field", "title=2")
    assert [hit["id"] for hit in json.loads(out)["hits"]] == ["d1"]
    assert podium("search", "ix", "nowhere")[1] == "No document matches.\n"


def test_search_writes_a_run_for_a_file_of_queries(podium, documents):
    podium("index", "docs.jsonl", "--out", "ix", "--no-texts")
    code, out, _ = podium("search", "ix", "--queries", "queries.tsv", "--out", "found.run", "--tag", "x")
    assert (code, out) == (0, "found.run: 2 queries, 3 documents\n")
    rows = [line.split() for line in (documents / "found.run").read_text().splitlines()]
    assert [(row[0], row[2], row[3], row[5]) for row in rows] == [
        ("a", "d1", "1", "x"),
        ("b", "d2", "1", "x"),
        ("b", "d1", "2", "x"),
    ]
    assert podium("search", "ix", "--queries", "queries.tsv")[0] == 2
    assert podium("search", "ix", "a", "--queries", "queries.tsv", "--out", "r")[0] == 2
    assert podium("search", "ix", "drag", "--field", "title=x")[0] == 2
    code, _, err = podium("search", "nothing", "drag")
    assert (code, err) == (2, "podium: No index at nothing. Build one with: podium index DOCUMENTS --out nothing\n")


TOML = """
letor = true

[[feature]]
name = "cover"
kind = "coverage"
field = "whole"
"""


@pytest.fixture
def collection(documents, podium):
    """An index, queries and judgements; the documents about tails are relevant."""
    words = ["wing", "tail", "drag", "lift", "gust"]
    rows = [
        {"id": f"p{number}", "title": words[number % 5], "body": f"{words[number % 3]} {words[number % 4]} flow " * 2}
        for number in range(40)
    ]
    (documents / "pages.jsonl").write_text("\n".join(map(json.dumps, rows)))
    texts = {f"q{number}": f"{word} flow" for number, word in enumerate(words)}
    (documents / "texts.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in texts.items()))
    judged = [f"q{q} 0 p{number} {int(words[number % 5] == words[q])}" for q in range(5) for number in range(30)]
    (documents / "judged").write_text("\n".join(judged))
    (documents / "more.toml").write_text(TOML)
    assert podium("index", "pages.jsonl", "--out", "ix")[0] == 0
    return documents


def test_features_are_written_with_names_labels_and_ids(podium, collection):
    from podium import read_data
    from podium.search import Features

    code, out, err = podium("features", "ix", "texts.tsv", "--qrels", "judged", "--out", "train.txt", "--n", "20")
    assert (code, err) == (0, "")
    told = "train.txt: 100 rows, 5 queries, 46 features; names and formulas in train.txt.features.toml\n"
    assert out == told
    lines = (collection / "train.txt").read_text().splitlines()
    assert lines[0].startswith("# features: [")
    assert " #docid = p" in lines[1]
    assert Features.read(collection / "train.txt.features.toml") == replace(Features.letor(), n=20)
    code, out, _ = podium("features", "ix", "texts.tsv", "--qrels", "judged", "--out", "t.csv", "--n", "20", "--json")
    found = json.loads(out)
    assert (found["rows"], found["queries"], found["queries_left_out"], found["written"]) == (100, 5, 0, "t.csv")
    assert found["features"] == list(Features.letor().names)
    text, table = read_data(collection / "train.txt"), read_data(collection / "t.csv")
    np.testing.assert_array_equal(text.X, table.X)
    assert found["relevant"] == (text.y > 0).sum() > 0
    assert text.feature_names == table.feature_names == Features.letor().names
    (collection / "train.txt").write_text("\n".join(lines[1:]) + "\n")  # the declaration beside it has the names too
    assert read_data(collection / "train.txt").feature_names == Features.letor().names
    options = ["--features", "more.toml", "--normalize", "minmax", "--unjudged", "skip", "--add-judged"]
    code, out, _ = podium("features", "ix", "texts.tsv", "--qrels", "judged", "--out", "s.csv", *options, "--json")
    assert (code, json.loads(out)["rows"]) == (0, 150)
    assert read_data(collection / "s.csv").X.max() <= 1
    assert Features.read(collection / "s.csv.features.toml").normalize == "minmax"
    code, out, _ = podium("features", "ix", "texts.tsv", "--out", "new.txt", "--n", "3")
    assert (code, read_data(collection / "new.txt", labels="optional").y) == (0, None)
    code, out, err = podium("features", "ix", "texts.tsv", "--out", "-", "--n", "1")
    assert (code, err) == (0, "/dev/stdout: 5 rows, 5 queries, 46 features\n")
    assert not list(collection.glob("*stdout*"))
    assert podium("features", "ix", "--queries", "texts.tsv", "--out", "other.txt", "--n", "3")[0] == 0
    assert (collection / "other.txt").read_bytes() == (collection / "new.txt").read_bytes()
    assert podium("features", "ix", "--out", "a.txt")[0] == 2
    assert podium("features", "ix", "texts.tsv", "--out", "texts.tsv")[0] == 2
    assert podium("features", "ix", "texts.tsv", "--out", "a.xyz")[0] == 2
    code, _, err = podium("features", "ix", "texts.tsv", "--out", "a.txt", "--normalize", "zscore")
    assert (code, err) == (2, "podium: normalize must be one of minmax; got 'zscore'.\n")


def test_what_a_module_registers_is_known_to_the_command_line(podium, collection, monkeypatch):
    (collection / "more_names.py").write_text(
        "from podium.formats import register_format\n"
        "from podium.formats.letor import read_letor, write_letor\n"
        "from podium.search import register_feature, register_weighting\n"
        "register_weighting('raw', lambda tf, lengths, df, n, average: tf, formula='tf')\n"
        "register_feature('rank', lambda asked: range(len(asked.documents)), formula='rank from 0')\n"
        "register_format('backup', suffixes=['.bak'], reader=read_letor, writer=write_letor)\n"
    )
    (collection / "rank.toml").write_text('[[feature]]\nname = "rank"\nkind = "rank"\n')
    for table, name in ((WEIGHTINGS, "raw"), (_KINDS, "rank"), (_FORMATS, "backup")):
        monkeypatch.setitem(table, name, None)  # so that it is removed at the end
        del table[name]
    monkeypatch.syspath_prepend(collection)
    importlib.import_module("more_names")
    _, out, _ = podium("search", "ix", "flow", "--weighting", "raw", "--json", "--k", "2")
    assert [hit["score"] for hit in json.loads(out)["hits"]] == [2.0, 2.0]
    options = ("--features", "rank.toml", "--weighting", "raw", "--qrels", "judged")
    assert podium("features", "ix", "texts.tsv", *options, "--out", "f.bak")[0] == 0
    assert read_data(collection / "f.bak").X[:3, 0].tolist() == [0.0, 1.0, 2.0]
    assert podium("convert", "f.bak", "f.csv")[0] == 0


def test_searching_an_index_loads_no_library_of_models(collection):
    heavy = ("sklearn", "pandas", "scipy.sparse", "matplotlib", "narwhals", "podium.models", "podium.lab")
    code = (
        "import sys; from podium import cli; sys.argv = ['podium', 'search', 'ix', 'tail flow', '--json']\n"
        f"try: cli.main()\nexcept SystemExit: print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=collection)
    assert done.stdout.splitlines()[-1] == "[]"


def test_tables_of_behaviour_go_from_a_csv_file_to_an_explained_search(podium, collection):
    (collection / "logs").mkdir()
    table = collection / "logs" / "clicks.csv"
    documents = [hit["id"] for hit in json.loads(podium("search", "ix", "tail flow", "--json")[1])["hits"]]
    rows = [f"Tail  FLOW,{id},{clicks}" for clicks, id in enumerate(documents, 1)]
    table.write_text("\n".join(["query,document,clicks", *rows]))
    features = '[[feature]]\nname = "BM25"\nkind = "bm25"\nfield = "whole"\n\n'
    features += '[[feature]]\nname = "clicks"\nkind = "table"\nfile = "clicks.csv"\n'
    features += 'by = "query_document"\ncolumn = "clicks"\nmissing = 0\n\n'
    features += '[[feature]]\nname = "log"\nkind = "log1p"\nof = "clicks"\n'
    (collection / "logs" / "clicks.toml").write_text(features)
    options = ["--qrels", "judged", "--features", "logs/clicks.toml", "--n", "25"]
    code, _, err = podium("features", "ix", "texts.tsv", *options, "--out", "logs/clicks.csv")
    assert code == 2
    assert "logs/clicks.csv" in err
    assert podium("features", "ix", "texts.tsv", *options, "--out", "clicked.csv")[0] == 0
    written = (collection / "clicked.csv.features.toml").read_text()
    assert 'file = "logs/clicks.csv"' in written
    assert podium("train", "linear", "clicked.csv", "--out", "clicked.podium")[0] == 0
    made = ["cascade", "ix", "clicked.podium", "--features", "clicked.csv.features.toml", "--n", "25", "--out"]
    assert podium(*made, "clicked.cascade")[0] == 0
    table.write_text(table.read_text().replace(",1\n", ",2\n"))
    code, _, err = podium(*made, "other.cascade")
    assert code == 2
    assert "clicks.csv has other values than when the feature was declared" in err
    table.unlink()
    code, out, _ = podium("search", "clicked.cascade", "TAIL flow", "--explain", "--json", "--k", "25")
    explained = json.loads(out)
    values = {hit["id"]: {share["name"]: share["value"] for share in hit["features"]} for hit in explained["hits"]}
    clicks = {id: own["clicks"] for id, own in values.items()}
    assert {id: clicks[id] for id in documents} == dict(zip(documents, range(1, 11)))
    assert sum(clicks.values()) == sum(range(1, 11))
    assert explained["formulas"]["log"] == "natural logarithm of 1 + another feature: clicks"


def test_a_cascade_is_made_searched_and_explained(podium, collection):
    options = ["--features", "more.toml", "--n", "25"]
    assert podium("features", "ix", "texts.tsv", "--qrels", "judged", "--out", "train.podium-data", *options)[0] == 0
    assert podium("train", "linear", "train.podium-data", "--out", "m.podium", "--set", "objective=ranknet")[0] == 0
    code, out, err = podium("cascade", "ix", "m.podium", "--out", "cascade", *options)
    assert (code, err) == (0, "")
    assert out == "cascade: 40 documents, bm25; linear re-ranks 25 by 47 features\n"
    code, out, _ = podium("search", "cascade", "tail flow", "--k", "3")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "rank (first stage)  score  document")
    assert lines[1].split()[0] == "1"
    assert lines[1].endswith("tail")
    code, out, _ = podium("search", "cascade", "tail flow", "--json")
    hits = json.loads(out)["hits"]
    assert sorted(hits[0]) == ["first_rank", "first_score", "id", "score"]
    assert len({hit["first_rank"] for hit in hits}) == 10
    code, out, _ = podium("search", "cascade", "tail flow", "--explain", "--json", "--k", "2")
    found = json.loads(out)
    shares = [feature["share"] for feature in found["hits"][0]["features"]]
    assert len(shares) == 47
    assert found["formulas"]["TF(body)"] == "occurrences of the terms of the query"
    assert sum(shares) == pytest.approx(found["hits"][0]["score"] - found["mean_score"], abs=1e-5)
    code, out, _ = podium("search", "cascade", "tail flow", "--explain", "--k", "2")
    assert "(+" in out.splitlines()[3]
    code, out, _ = podium("search", "cascade", "--queries", "texts.tsv", "--out", "c.run", "--k", "30")
    assert (code, out) == (0, "c.run: 5 queries, 150 documents\n")
    assert podium("eval", "--qrels", "judged", "--run", "c.run")[0] == 0
    rows = [line.split() for line in (collection / "c.run").read_text().splitlines()]
    assert [float(row[4]) for row in rows if row[0] == "q1"][:10] == [hit["score"] for hit in hits]
    for words in (
        ["search", "cascade", "x", "--weighting", "tfidf"],
        ["search", "cascade", "x", "--field", "title"],
        ["search", "cascade", "--queries", "texts.tsv", "--out", "r", "--explain"],
        ["search", "ix", "x", "--explain"],
        ["cascade", "ix", "m.podium", "--out", "cascade", *options],
        ["cascade", "ix", "m.podium", "--out", "other"],
        ["cascade", "ix", "m.podium", "m.podium", "m.podium", "--out", "other", *options, "--n", "5"],
        ["search", "cascade/index", "x", "--explain"],
    ):
        code, out, err = podium(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), words
    code, out, _ = podium("cascade", "ix", "m.podium", "m.podium", "--out", "two", *options, "--n", "5", "--json")
    assert [stage["n"] for stage in json.loads(out)["stages"]] == [25, 5]
    assert podium("search", "two", "tail flow")[0] == 0


def test_a_cascade_is_chosen_by_judged_queries_or_keeps_the_first_stage(podium, collection):
    judged = ["--queries", "texts.tsv", "--qrels", "judged", "--n", "25"]
    code, out, err = podium("cascade", "ix", *judged, "--out", "chosen")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "ndcg@10 (standard) on 5 queries that the models had not seen, 5 folds"
    names = ["first stage", "z-score sum", "linear", "small trees", "blend"]
    assert [line.startswith(name) for line, name in zip(lines[2:], names)] == [True] * 5
    assert lines[7].startswith("Chosen: ")
    assert re.fullmatch(r"chosen: 40 documents, bm25; (linear|blend|lambdamart) re-ranks 25 by 47 features", lines[-1])
    assert podium("search", "chosen", "tail flow", "--explain", "--k", "3")[0] == 0
    options = ["--features", "more.toml", "--metric", "map", "--folds", "3", "--seed", "4", "--jobs", "1", "--json"]
    code, out, _ = podium("cascade", "ix", *judged, *options, "--out", "other", "--weighting", "lmir-jm")
    found = json.loads(out)
    assert (code, found["written"], found["choice"]["metric"], found["choice"]["folds"]) == (0, "other", "map", 3)
    assert [one["name"] for one in found["choice"]["tried"]] == names
    texts = dict(line.split("\t") for line in (collection / "texts.tsv").read_text().splitlines())
    hits = {name: searched_hits(podium, "ix", text) for name, text in texts.items()}
    (collection / "best").write_text("\n".join(f"{name} 0 {found[0][0]} 1" for name, found in hits.items()))
    code, out, _ = podium("cascade", "ix", *judged[:2], "--qrels", "best", "--n", "25", "--out", "same")
    assert (code, out.splitlines()[-1]) == (0, "same: 40 documents, bm25; the order of the first stage")
    assert {name: searched_hits(podium, "same", text) for name, text in texts.items()} == hits
    code, out, _ = podium("cascade", "ix", *judged[:2], "--qrels", "best", "--n", "25", "--out", "json", "--json")
    assert json.loads(out)["stages"] == [{"model": None, "features": 46, "n": 25}]
    assert "No stage has a model" in podium("search", "same", "tail flow", "--explain")[1]
    code, out, err = podium("cascade", "same", *judged, "--out", "of a cascade")
    assert (code, out, "same is a cascade; expected an index. Give same/index" in err) == (2, "", True)
    assert podium("cascade", "same/index", *judged, "--out", "of its index")[0] == 0


def searched_hits(podium, folder, text):
    """(id, score) of the documents, best first."""
    hits = json.loads(podium("search", folder, text, "--k", "30", "--json")[1])["hits"]
    return [(hit["id"], hit["score"]) for hit in hits]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m.podium", "--queries", "texts.tsv", "--qrels", "judged"], "and no MODEL"),
        (["--queries", "texts.tsv"], "--queries FILE with --qrels FILE"),
        (["--qrels", "judged"], "--queries FILE with --qrels FILE"),
        ([], "Give one MODEL or more, or --queries FILE with --qrels FILE"),
        (["m.podium", "--folds", "3"], "which --metric, --folds and the like belong to"),
        (["--queries", "texts.tsv", "--qrels", "judged", "--n", "5", "--n", "3"], "at most once"),
        (["--queries", "texts.tsv", "--qrels", "judged", "--metric", "ndgc"], "Did you mean"),
    ],
)
def test_models_and_judgements_for_a_cascade_are_not_mixed(podium, collection, words, message):
    code, out, err = podium("cascade", "ix", *words, "--out", "mixed")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (collection / "mixed").exists()
