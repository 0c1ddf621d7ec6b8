"""podium eval QRELS RUN..., trec_eval's lines, and podium compare of runs."""

import csv
import io
import json
import sys

import pytest

import podium
from podium import cli
from podium.evaluation.trec_lines import trec_lines

QRELS = "2 0 a 1\n2 0 d 0\n10 0 a 1\n10 0 b 0\n10 0 c 12\n3 0 z 1\n"
BM25 = "2 Q0 d 1 2.0 bm25\n2 Q0 a 2 1.5 bm25\n10 Q0 b 1 3.0 bm25\n10 Q0 a 2 2.5 bm25\n10 Q0 x 3 1.0 bm25\n"
LTR = "10 Q0 c 1 0.9 ltr\n10 Q0 a 2 0.8 ltr\n2 Q0 a 1 0.7 ltr\n2 Q0 d 2 0.4 ltr\n3 Q0 z 1 1 ltr\n"


RUNS = "--qrels q --run bm25.run --run ltr.run"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    for name, text in (("q", QRELS), ("bm25.run", BM25), ("ltr.run", LTR)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    def run(line):
        monkeypatch.setattr(sys, "argv", ["podium", *line.split()])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return captured.out if not stop.value.code else captured.err

    return run


def test_the_lines_of_trec_eval_are_in_its_order_and_format(run):
    assert run(
        "eval q bm25.run --format trec -q -m relstring -m num_rel -m map -m num_q -m runid -m gm_map"
    ).splitlines() == [
        "num_rel               \t10\t2",
        "map                   \t10\t0.2500",
        "relstring             \t10\t'01-'",
        "num_rel               \t2\t1",
        "map                   \t2\t0.5000",
        "relstring             \t2\t'01'",
        "runid                 \tall\tbm25",
        "num_q                 \tall\t2",
        "num_rel               \tall\t3",
        "map                   \tall\t0.3750",
        "gm_map                \tall\t0.3536",
    ]


def test_the_options_of_trec_eval(run):
    complete = run("eval q bm25.run --format trec -c -q -m num_q -m num_rel -m map").splitlines()
    assert complete[-3:] == [
        "num_q                 \tall\t3",
        "num_rel               \tall\t4",
        "map                   \tall\t0.2500",
    ]
    assert not [line for line in complete if "\t3\t" in line]  # the missing query has no lines
    assert run("eval q bm25.run --format trec -M 1 -m num_ret").split() == ["num_ret", "all", "2"]
    assert run("eval q bm25.run --format trec -l2 -m num_rel").split() == ["num_rel", "all", "1"]
    names = [line.split()[0] for line in run("eval q bm25.run --format trec").splitlines()]
    assert names[:10] == [
        "runid",
        "num_q",
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "map",
        "gm_map",
        "Rprec",
        "bpref",
        "recip_rank",
    ]
    assert names[10:] == [f"iprec_at_recall_{k / 10:.2f}" for k in range(11)] + [
        f"P_{k}" for k in (5, 10, 15, 20, 30, 100, 200, 500, 1000)
    ]


def test_all_trec_has_all_measures_in_the_order_of_trec_eval(run):
    names = [line.split()[0] for line in run("eval q bm25.run --format trec -m all_trec -q").splitlines()]
    first = names[: names.index("num_nonrel_judged_ret") + 1]
    roots = list(dict.fromkeys(name.rstrip("0123456789.").rstrip("_") for name in first))
    assert roots == [
        "num_ret",
        "num_rel",
        "num_rel_ret",
        "map",
        "Rprec",
        "bpref",
        "recip_rank",
        "iprec_at_recall",
        "P",
        "relstring",
        "recall",
        "infAP",
        "Rprec_mult",
        "utility",
        "11pt_avg",
        "binG",
        "G",
        "ndcg",
        "ndcg_rel",
        "Rndcg",
        "ndcg_cut",
        "map_cut",
        "relative_P",
        "success",
        "set_P",
        "set_relative_P",
        "set_recall",
        "set_map",
        "set_F",
        "num_nonrel_judged_ret",
    ]


def test_measures_with_parameters_are_named_as_trec_eval_names_them(run):
    measures = "-mP.7,3 -m ndcg_cut.10 -m utility.2,-1,0,0 -m relstring.2 -m Rprec_mult.5.0,0.2"
    names = [line.split()[0] for line in run(f"eval q bm25.run --format trec -q {measures}").splitlines()]
    assert names[:7] == [
        "P_3",
        "P_7",
        "relstring_2",
        "Rprec_mult_0.20",
        "Rprec_mult_5.00",
        "utility_2,-1,0,0",
        "ndcg_cut_10",
    ]


def test_runs_stand_side_by_side(run):
    out = run("eval q bm25.run ltr.run -m ndcg_cut_10 -m num_q -m runid")
    assert "│ metric      ┃ bm25.run ┃ judged ┃ ltr.run ┃ judged ┃"[1:] in out
    assert "│ ndcg_cut_10 │   0.3404 │ 0.8333 │  1.0000 │ 1.0000 │" in out
    assert "│ runid       │     bm25 │        │     ltr │        │" in out
    assert "│ num_q       │        2 │        │       3 │        │" in out
    assert "bm25.run: 1 of 3 judged queries are not in the run" in out
    same = json.loads(run("eval --qrels q --run bm25.run --run ltr.run -m map --json"))
    assert list(same["runs"]) == ["bm25.run", "ltr.run"]
    assert same["runs"]["ltr.run"]["metrics"]["map"] == 1.0
    assert same["runs"]["bm25.run"]["judged"] == {"map": pytest.approx((1 + 2 / 3) / 2)}


DIVERSE = "2 1 a 1\n2 2 d 1\n10 1 a 1\n10 1 b 0\n10 2 b 1\n"


def test_qrels_with_subtopics_are_read_when_a_measure_needs_them(run, tmp_path):
    (tmp_path / "diverse").write_text(DIVERSE)
    assert "│ alpha_nDCG@5 │   1.0000 │ 0.8333 │" in run("eval diverse bm25.run ltr.run -m alpha_nDCG@5 -m judged@5")
    assert run("eval diverse bm25.run --format trec -q -m StRecall@1 -m num_ret").splitlines()[-3:] == [
        "StRecall@1            \t2\t0.5000",
        "num_ret               \tall\t5",
        "StRecall@1            \tall\t0.5000",
    ]
    compared = json.loads(run("compare --qrels diverse --run bm25.run --run ltr.run -m ERR_IA@2 --json"))
    assert compared["judged"]["ERR_IA@2"] == {"bm25.run": 1.0, "ltr.run": 0.75}
    assert "line 5: document 'b' of query '10' is already at line 4; remove one of them, or ask for measures" in run(
        "eval diverse bm25.run -m ndcg"
    )
    assert "ndcg needs one judgement per document" in run("eval diverse bm25.run -m ndcg -m StRecall@5")
    assert "q: expected lines of 'qid subtopic docno relevance'; column 2 is '0'" in run(
        "eval q bm25.run -m alpha_nDCG"
    )


def test_judged_has_one_column_for_all_policies(run):
    out = run("eval q bm25.run -m map -m relstring --policy all")
    assert out.count("┃ judged ┃") == 1
    assert "┃ ranklib ┃ judged ┃" in out


def test_one_run_is_shown_as_ever(run):
    assert run("eval q bm25.run -m map") == run("eval --qrels q --run bm25.run -m map")
    assert json.loads(run("eval q bm25.run -m all_trec --json"))["texts"]["relstring"] == {"2": "01", "10": "01-"}
    assert "letor4" in run("eval q bm25.run -m map -m num_ret --policy all")


def test_runs_are_compared(run):
    result = json.loads(run(f"compare {RUNS} -m recip_rank --json --per-query"))
    assert result["policy"] == "trec"
    assert result["metrics"] == {"recip_rank": {"bm25.run": 0.5, "ltr.run": 1.0}}
    (row,) = result["comparisons"]
    assert (row["wins"], row["losses"], row["queries"]) == (2, 0, 2)
    assert result["per_query"]["3"] == {"recip_rank": {"bm25.run": None, "ltr.run": 1.0}}
    rows = list(csv.DictReader(io.StringIO(run(f"compare {RUNS} -m recip_rank --csv"))))
    assert (rows[0]["system"], rows[0]["wins"], rows[0]["difference"]) == ("ltr.run", "2", "0.5")
    queries = run(f"compare {RUNS} -m recip_rank --csv -q --missing zero").splitlines()
    assert queries[0] == "metric,query,bm25.run,ltr.run,bm25.run : ltr.run"
    assert queries[-1] == "recip_rank,3,0.0,1.0,ltr.run"
    assert "\\toprule" in run("compare --qrels q --run bm25.run --run ltr.run --latex")


def test_compare_takes_runs_in_python(run):
    qrels, first, second = podium.read_qrels("q"), podium.read_run("bm25.run"), podium.read_run("ltr.run")
    compared = podium.compare({"a": first, "b": second}, qrels, metrics="AP")
    assert compared.means["AP"]["b"] == 1.0
    assert compared.policy == "trec"
    with pytest.raises(TypeError, match=r"system 'b' must be a podium.Run; got list"):
        podium.compare({"a": first, "b": [1.0]}, qrels)
    with pytest.raises(ValueError, match="num_ret is a count; a comparison needs a measure whose mean"):
        podium.compare({"a": first, "b": second}, qrels, metrics=["num_ret"])
    with pytest.raises(ValueError, match="runid is a text; a comparison needs a measure whose mean"):
        podium.compare({"a": first, "b": second}, qrels, metrics=["runid"])
    official = list(podium.compare({"a": first, "b": second}, qrels, metrics=["official", "map"]).means)
    assert official[:4] == ["map", "Rprec", "bpref", "recip_rank"]  # no counts, texts and geometric means
    with pytest.raises(ValueError, match="got qid together with Qrels"):
        podium.compare({"a": first, "b": second}, qrels, qid=[1])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("eval", "Give DATA with --scores FILE, or QRELS RUN"),
        ("eval q", "Give DATA with --scores FILE, or QRELS RUN"),
        ("eval q bm25.run --run ltr.run", "Give DATA with --scores"),
        ("eval q bm25.run --scores s", "Give DATA with --scores FILE, or QRELS RUN... without --scores"),
        ("eval q bm25.run ltr.run --policy all", "--policy all shows one run under all policies"),
        ("eval q bm25.run bm25.run", "bm25.run is given more than once"),
        ("eval q bm25.run --format xml", "--format must be table or trec; got 'xml'"),
        ("eval q bm25.run --format trec --json", "--format trec prints trec_eval's lines"),
        ("eval q bm25.run --format trec --policy standard", "--format trec prints trec_eval's lines"),
        ("eval bm25.run q", "expected 4 columns"),
        ("compare --qrels q --run bm25.run", "a comparison needs two systems or more"),
        ("compare q --run bm25.run --run ltr.run", "Give DATA with --scores A --scores B, or --qrels FILE"),
        ("compare --qrels q --run bm25.run --run ltr.run -m gm_map", "gm_map is a geometric mean"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(run, line, message):
    assert message in run(line)


def test_a_name_that_trec_eval_lacks_comes_last():
    qrels, answer = podium.Qrels.from_dict({"1": {"a": 1}}), podium.Run.from_dict({"1": {"a": 1.0}})
    result = podium.evaluate_run(qrels, answer, metrics=["Judged@1", "map"])
    assert [line.split()[0] for line in trec_lines(result)] == ["map", "Judged@1"]
