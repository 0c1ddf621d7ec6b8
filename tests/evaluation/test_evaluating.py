"""Evaluation: input in any order, weights, notes, brackets, runs against judgements."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import narwhals as nw
import numpy as np
import pytest

from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate, evaluate_run
from podium.formats.trec import Qrels, Run
from podium.metrics import POLICIES, Metric
from podium.metrics.additive import NDCG


def test_queries_may_come_in_any_order():
    scores, labels, queries = [3, 9, 1, 5], [1, 0, 0, 2], ["b", "a", "b", "a"]
    result = evaluate(scores, labels, qid=queries, metrics=["rr"])
    assert list(result.queries) == ["b", "a"]
    np.testing.assert_array_equal(result.per_query["rr"], [1, 1 / 2])


def test_results_are_keyed_by_the_spelling_given():
    result = evaluate([1, 2], [0, 1], qid=[1, 1], metrics=["NDCG@10", "MRR", "ap"])
    assert list(result) == ["NDCG@10", "MRR", "ap"]


def test_query_weights_weigh_every_query_also_an_empty_one():
    result = evaluate([1, 2, 3], [0, 1, 0], qid=[1, 1, 2], metrics=["ndcg"], policy="lightgbm", query_weight=[1, 3])
    assert result["ndcg"] == (1 * 1 + 3 * 1) / 4
    result = evaluate([1, 2, 3], [0, 1, 0], qid=[1, 1, 2], metrics=["ndcg"], query_weight=[1, 3])
    assert result["ndcg"] == (1 * 1 + 3 * 0) / 4


def test_sample_weights_multiply_gains_and_pairs():
    scores, labels, weights = [3, 2, 1], [1, 0, 1], [0.5, 1, 2]
    result = evaluate(
        scores, labels, qid=[1, 1, 1], sample_weight=weights, metrics=["p@3", "recall@2", "dcg", "ndcg", "map", "auc"]
    )
    assert result["p@3"] == pytest.approx((0.5 + 2) / 3)
    assert result["recall@2"] == pytest.approx(0.5 / 2.5)
    assert result["dcg"] == pytest.approx(0.5 + 2 / 2)
    assert result["ndcg"] == pytest.approx((0.5 + 2 / 2) / (2 + 0.5 / np.log2(3)))
    assert result["map"] == pytest.approx((0.5 * 1 + 2 * 2 / 3) / 2.5)
    assert result["auc"] == pytest.approx(0.5 * 1 / (0.5 * 1 + 1 * 2))


@pytest.mark.parametrize("ties", ["standard", "letor4", "trec", "sklearn"])
def test_sample_weights_of_one_change_nothing(ties, rng):
    n = 200
    scores, labels, queries = rng.integers(0, 5, n), rng.integers(0, 3, n), rng.integers(0, 12, n)
    docids = [f"d{number}" for number in range(n)]
    names = ["ndcg@5", "dcg", "map", "p@5", "recall@5", "rbp(0.5)", "auc", "inversions", "meanndcg"]
    plain = evaluate(scores, labels, qid=queries, docids=docids, metrics=names, policy=ties)
    weighted = evaluate(
        scores, labels, qid=queries, docids=docids, metrics=names, policy=ties, sample_weight=np.ones(n)
    )
    for name in names:
        np.testing.assert_allclose(plain.per_query[name], weighted.per_query[name], atol=1e-12)


def test_metrics_without_a_weighted_form_refuse_sample_weights():
    with pytest.raises(ValueError, match="rr does not support sample_weight"):
        evaluate([1, 2], [0, 1], qid=[1, 1], metrics=["rr"], sample_weight=[1, 2])


def test_undefined_queries_are_left_out_and_counted():
    result = evaluate([2, 1, 1], [1, 0, 1], qid=[1, 1, 2], metrics=["auc"])
    assert result["auc"] == 1
    assert np.isnan(result.per_query["auc"][1])
    assert result.notes == ("auc is undefined for 1 of 2 queries (one label only); they are left out.",)


def test_rmax_is_the_largest_label_of_the_data_and_is_reported():
    result = evaluate([2, 1, 1], [1, 0, 3], qid=[1, 1, 2], metrics=["err@10"])
    np.testing.assert_allclose(result.per_query["err@10"], [1 / 8, 7 / 8])
    assert "err@10: rmax = 3." in result.notes


def test_the_bracket_shows_how_far_ties_could_move_the_number():
    result = evaluate([1, 1, 1], [0, 1, 0], qid=[1, 1, 1], metrics=["rr"], policy="letor4", bracket=True)
    assert result["rr"] == 1 / 2
    assert result.bracket["rr"] == (1 / 3, 1)


def test_ranking_data_brings_its_queries_documents_and_weights():
    data = RankingData.from_arrays(
        [[1], [2], [3]], [1, 0, 2], qid=[5, 6, 5], docids=["a", "b", "c"], query_weight=[1, 3]
    )
    result = evaluate(data.X[:, 0], data, metrics=["rr"])
    assert result["rr"] == (1 * 1 + 3 * 0) / 4
    assert list(result.queries) == [5, 6]


def test_the_number_of_threads_changes_nothing(rng):
    n = 300_000
    scores, labels = rng.standard_normal(n), rng.integers(0, 3, n).astype(float)
    queries = np.sort(rng.integers(0, 900, n))
    one, two = (evaluate(scores, labels, qid=queries, metrics=["ndcg@10", "map"], n_jobs=jobs) for jobs in (1, 2))
    for name in one:
        np.testing.assert_array_equal(one.per_query[name], two.per_query[name])


def test_scores_that_differ_only_in_the_last_bits_are_still_ordered(rng):
    n = 500
    base = 1e6 + rng.permutation(n) * 2.0**-32
    base[::7] = -1e300
    labels = rng.integers(0, 5, n).astype(float)
    found = evaluate(base, labels, qid=np.zeros(n, int), metrics=["dcg"], policy="letor4", gain="linear")["dcg"]
    order = np.argsort(-base, kind="stable")
    weights = 1 / np.log2(np.maximum(np.arange(1, n + 1), 2))
    assert found == pytest.approx(labels[order] @ weights, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": [1, 2]}, r"scores has shape \(2,\), the labels have 3 rows"),
        ({"scores": [1, float("nan"), 2]}, r"scores\[1\] is NaN"),
        ({"y": [0, -1, 2]}, r"y\[1\] is -1.0; labels must be finite numbers, 0 or larger"),
        ({"qid": None}, "qid is missing"),
        ({"qid": [1, 2]}, r"Did you pass group sizes as qid\? Use group="),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": ["ndgc@10"]}, "Did you mean 'ndcg@10'"),
        ({"query_weight": [1, -2]}, r"query_weight\[1\] is -2.0"),
        ({"query_weight": [1, 2, 3]}, "query_weight has 3 entries, the data has 2 queries"),
        ({"n_jobs": 0}, "n_jobs must be positive"),
    ],
)
def test_bad_input_is_named(arguments, message):
    usual = {"scores": [1, 2, 3], "y": [0, 1, 2], "qid": [1, 1, 2]} | arguments
    with pytest.raises(ValueError, match=message):
        evaluate(usual.pop("scores"), usual.pop("y"), **usual)


def test_json_has_plain_unrounded_numbers():
    result = evaluate([2, 1, 3], [1, 0, 1], qid=["a", "a", "b"], metrics=["auc", "ndcg@10"], bracket=True)
    read = json.loads(json.dumps(result.as_dict(per_query=True), allow_nan=False))
    assert read["policy"] == "standard"
    assert read["metrics"]["ndcg@10"] == result["ndcg@10"]
    assert read["per_query"]["b"] == {"auc": None, "ndcg@10": 1.0}


QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"a": 1}, "q3": {"x": 1}}
RUN = {"q1": {"a": 0.1, "z": 0.9}, "q2": {"a": 3.0}, "q9": {"a": 1.0}}


def test_a_run_is_scored_against_all_judged_documents():
    result = evaluate_run(Qrels.from_dict(QRELS), Run.from_dict(RUN), metrics=["map", "ndcg", "recall@10"])
    assert list(result.queries) == ["q1", "q2"]
    np.testing.assert_allclose(result.per_query["map"], [(1 / 2) / 2, 1])  # b is relevant and was not found
    ideal = 2 + 1 / np.log2(3)
    np.testing.assert_allclose(result.per_query["ndcg"], [2 / np.log2(3) / ideal, 1])
    np.testing.assert_allclose(result.per_query["recall@10"], [1 / 2, 1])


def test_queries_missing_on_either_side_are_reported():
    result = evaluate_run(Qrels.from_dict(QRELS), Run.from_dict(RUN), metrics=["rr"])
    assert result["rr"] == (1 / 2 + 1) / 2
    assert result.notes[0].startswith("1 of 3 judged queries are not in the run ('q3'); they are left out")
    assert result.notes[1] == "1 query of the run without judgements ('q9') left out."


def test_missing_queries_can_count_as_zero():
    result = evaluate_run(Qrels.from_dict(QRELS), Run.from_dict(RUN), metrics=["rr"], missing="zero", bracket=True)
    assert result["rr"] == (1 / 2 + 1 + 0) / 3
    assert list(result.queries) == ["q1", "q2", "q3"]
    assert result.bracket["rr"] == pytest.approx((result["rr"], result["rr"]))


def test_a_run_for_other_queries_is_refused_in_clear_words():
    with pytest.raises(ValueError, match=r"0 of 1 run queries are in the qrels .* same query ids"):
        evaluate_run(Qrels.from_dict(QRELS), Run.from_dict({"301": {"a": 1}}))


def test_runs_equal_pytrec_eval_when_documents_are_missing_on_both_sides(rng):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels = {f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in rng.permutation(30)[:12]} for q in range(20)}
    run = {f"q{q}": {f"d{d}": int(rng.integers(0, 6)) / 3 for d in rng.permutation(30)[:15]} for q in range(20)}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"map", "ndcg", "ndcg_cut.5", "P.5"}).evaluate(run)
    ours = evaluate_run(Qrels.from_dict(qrels), Run.from_dict(run), metrics=["map", "ndcg", "ndcg@5", "p@5"])
    for name, other in {"map": "map", "ndcg": "ndcg", "ndcg@5": "ndcg_cut_5", "p@5": "P_5"}.items():
        expected = [theirs[str(query)][other] for query in ours.queries]
        np.testing.assert_allclose(ours.per_query[name], expected, atol=1e-12)


@pytest.mark.parametrize("own", POLICIES)
@pytest.mark.parametrize("given", [None, *POLICIES])
def test_a_metric_keeps_its_own_policy_or_the_conflict_is_refused(own, given, rng):
    """A metric under `standard` was made without a policy: it follows the one that is given."""
    scores, labels, qid = rng.integers(0, 4, 60), rng.integers(0, 3, 60), np.arange(60) // 7
    docids = np.array([f"d{k}" for k in range(60)])
    metric = NDCG(5, policy=POLICIES[own])
    call = {"qid": qid, "docids": docids, "metrics": [metric]}
    if given is not None and own not in ("standard", given):
        with pytest.raises(ValueError, match=f"ndcg@5 has the policy '{own}', but policy='{given}' was passed"):
            evaluate(scores, labels, policy=given, **call)
        return
    result = evaluate(scores, labels, policy=given, **call)
    by_name = evaluate(scores, labels, policy=given or own, **(call | {"metrics": "ndcg@5"}))
    assert result.policy == by_name.policy == (given or own)
    assert dict(result) == dict(by_name)


def test_metrics_of_different_policies_are_refused(rng):
    scores, labels, qid = rng.random(20), rng.integers(0, 3, 20), np.arange(20) // 5
    letor = NDCG(5, policy=POLICIES["letor4"])
    for others in (["map"], [NDCG(3)], [NDCG(3, policy=POLICIES["lightgbm"])]):
        for metrics in ([letor, *others], [*others, letor]):
            with pytest.raises(ValueError, match="Evaluate one policy at a time"):
                evaluate(scores, labels, qid=qid, metrics=metrics)
    both = evaluate(scores, labels, qid=qid, metrics=[letor, "map"], policy="letor4")
    assert both.policy == "letor4"
    varied = evaluate(scores, labels, qid=qid, metrics=(metric for metric in [letor]), gain="linear")
    assert varied.policy == "letor4, gain linear"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"ties": "random"}, {"short": "pad"}, {"discount": "ln"}, {"gain": "cubic"}, {"gain": (2.0, 1.0)}),
        *({"name": ""}, {"empty": float("nan")}, {"relevant": "1"}, {"precision": "k"}, {"average_precision": "k"}),
    ],
)
def test_policies_with_rules_that_do_not_exist_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must|falls|name"):
        replace(POLICIES["standard"], **wrong)


@pytest.mark.parametrize("cutoff", [0, -1, 2.5, True, "10", float("nan"), float("inf"), 10**400])
def test_a_cutoff_is_a_whole_number_from_one(cutoff):
    with pytest.raises(ValueError, match="ndcg: the cutoff must be an integer from 1; got"):
        NDCG(cutoff)


def test_equal_cutoffs_are_equal_metrics():
    assert {NDCG(10), NDCG(10.0), NDCG(np.int64(10))} == {NDCG(10)}
    assert NDCG(10.0).name == "ndcg@10"


def test_a_custom_metric_says_itself_that_it_pools_queries_and_what_a_reader_should_know():
    @dataclass(frozen=True)
    class TopLabel(Metric):
        base_name: ClassVar[str] = "top_label"

        pools_queries = True

        def value(self, ranked_labels, judged=None):
            return float(ranked_labels[0])

        def notes(self):
            return ("the label of the first document of all.",)

    found = evaluate([0.1, 0.2, 0.9, 0.3], [3, 0, 1, 2], qid=[1, 1, 2, 2], metrics=[TopLabel()])
    assert found.per_query["top_label"].tolist() == [1.0, 1.0]  # of one list over both queries; alone query 1 has 0
    assert "top_label: the label of the first document of all." in found.notes


def test_evaluating_loads_no_significance_tests():
    code = "import sys, podium.evaluation.evaluating; print([m for m in sys.modules if m.endswith('significance')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_evaluation_is_a_table_of_means_or_of_values_per_query():
    result = evaluate([3, 9, 1, 5], [1, 0, 0, 2], qid=["b", "a", "b", "a"], metrics=["rr", "p@1"])
    assert result.to_frame().to_dict("list") == {"metric": ["rr", "p@1"], "mean": [3 / 4, 1 / 2]}
    for backend in ("pandas", "polars", "pyarrow"):
        frame = result.to_frame(per_query=True, backend=backend)
        columns = {name: list(nw.from_native(frame)[name].to_list()) for name in ("query", "rr", "p@1")}
        assert columns == {"query": ["b", "a"], "rr": [1.0, 1 / 2], "p@1": [1.0, 0.0]}
    with pytest.raises(ValueError, match="backend"):
        result.to_frame(backend="excel")


def test_texts_of_a_run_are_a_column_of_their_own():
    qrels, run = Qrels.from_dict({"q": {"d": 1, "e": 0}}), Run.from_dict({"q": {"d": 2.0, "f": 1.0}})
    frame = evaluate_run(qrels, run, metrics=["map", "relstring_5"]).to_frame(per_query=True)
    assert list(frame.columns) == ["query", "map", "relstring_5"]
    assert frame["map"].tolist() == [1.0]


def test_a_notebook_shows_means_policy_and_notes_escaped():
    shown = evaluate([1, 1], [0, 1], qid=["<q>", "<q>"], metrics=["ndcg@10"], policy="trec", bracket=True)._repr_html_()
    assert "1 query, policy trec" in shown
    assert "ties fall to the order of the input" in shown
    assert "from worst to best" in shown
    assert "<q>" not in shown
