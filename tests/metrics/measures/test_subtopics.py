"""Measures of subtopics: plain loops, arithmetic by hand, and judgements of the other kind refused."""

from math import log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import SUBTOPIC_ORACLES

import podium
from podium.evaluation.evaluating import evaluate_run
from podium.formats.subtopics import SubtopicQrels
from podium.formats.trec import Qrels, Run

QRELS = SubtopicQrels.from_dict({"1": {"price": {"a": 1, "b": 1}, "history": {"b": 1, "c": 1}, "unmet": {"a": 0}}})
RUN = Run.from_dict({"1": {"a": 3.0, "x": 2.0, "c": 1.0}})


def value_of(name, qrels=QRELS, run=RUN, **rules):
    return evaluate_run(qrels, run, metrics=[name], **rules)[name]


def test_values_by_hand():
    """a has price (gain 1), x nothing, c history (1). The best order is b (2), c (1/2, after b), a (1/2)."""
    best = 2 + 0.5 / log2(3) + 0.5 / log2(4)
    assert value_of("alpha_nDCG@3") == pytest.approx((1 + 1 / log2(4)) / best, abs=1e-15)
    assert value_of("alpha_nDCG@1") == pytest.approx(1 / 2, abs=1e-15)
    assert value_of("alpha_nDCG(alpha=0)@1") == pytest.approx(1 / 2, abs=1e-15)
    most = 2 * (1 + 0.5 / log2(3) + 0.25 / log2(4))  # all documents relevant to both subtopics
    assert value_of("alpha_DCG@3") == pytest.approx((1 + 1 / log2(4)) / most, abs=1e-15)
    assert value_of("ERR_IA@3") == pytest.approx((1 + 1 / 3) / (2 * (1 + 0.5 / 2 + 0.25 / 3)), abs=1e-15)
    assert value_of("nERR_IA@3") == pytest.approx((1 + 1 / 3) / (2 + 0.5 / 2 + 0.5 / 3), abs=1e-15)
    assert value_of("NRBP") == pytest.approx((1 + 0.25) * (1 - 0.25) / 2, abs=1e-15)
    assert value_of("nNRBP") == pytest.approx((1 + 0.25) / (2 + 0.25 + 0.125), abs=1e-15)
    assert value_of("StRecall@2") == 1 / 2
    assert value_of("P_IA@3") == pytest.approx((1 / 3 + 1 / 3) / 2, abs=1e-15)
    assert value_of("AP_IA") == pytest.approx((1 / 1 / 2 + 1 / 3 / 2) / 2, abs=1e-15)


judgements = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 2), min_size=1)
worlds = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["1", "2", "x"]), judgements, min_size=1),
        st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("name", SUBTOPIC_ORACLES)
@given(world=worlds)
@settings(max_examples=40, deadline=None)
def test_a_measure_equals_the_plain_loop(name, world):
    qrels = SubtopicQrels.from_dict({q: judged for q, (judged, _) in enumerate(world)})
    run = Run.from_dict({q: {doc: -k for k, doc in enumerate(ranked)} for q, (_, ranked) in enumerate(world)})
    values = evaluate_run(qrels, run, metrics=[name]).per_query[name]
    expected = [SUBTOPIC_ORACLES[name](ranked, judged) for judged, ranked in world]
    assert values == pytest.approx(expected, abs=1e-12)


def test_other_queries_depth_and_missing_queries_change_nothing_but_the_mean():
    judged = {"1": {"s": {"a": 1, "b": 1}, "t": {"c": 1}}, "2": {"s": {"d": 1}}, "3": {"u": {"e": 1}}}
    qrels, run = SubtopicQrels.from_dict(judged), Run.from_dict({"2": {"d": 1.0}, "1": {"x": 3.0, "a": 2.0, "c": 1.0}})
    alone = SubtopicQrels.from_dict({"1": judged["1"]})
    both = evaluate_run(qrels, run, metrics=["alpha_nDCG", "ERR_IA"], missing="zero")
    single = evaluate_run(alone, run, metrics=["alpha_nDCG", "ERR_IA"])
    for name, values in both.per_query.items():
        assert values.tolist() == [single[name], 1.0, 0.0]
    assert value_of("alpha_nDCG@9", alone, run, depth=1) == 0.0
    assert value_of("StRecall", alone, run, depth=2) == 1 / 2


def test_equal_scores_are_ranked_by_falling_id():
    run = Run.from_dict({"1": {"a": 1.0, "b": 1.0, "x": 1.0}})  # x, b, a
    assert value_of("alpha_nDCG@2", run=run) == pytest.approx(2 / log2(3) / (2 + 0.5 / log2(3)))


def test_names_of_ndeval_and_ir_measures_print_back_as_given():
    names = ["alpha-nDCG@10", "alpha_nDCG(alpha=0.3)@10", "ERR-IA@10", "MAP-IA", "strec@2", "P-IA@2", "nERR-IA@3"]
    result = evaluate_run(QRELS, RUN, metrics=names)
    assert list(result) == names
    assert result["MAP-IA"] == value_of("ap_ia")
    metric = podium.metrics.parse_metric("alpha_nDCG(alpha=0.3)@10", runs=True)
    assert (metric.name, metric.own_name) == ("alpha_nDCG(alpha=0.3)@10", "alpha_ndcg@10(alpha=0.3)")
    assert podium.metrics.parse_metric(metric.own_name, runs=True) == metric


def test_judged_and_counts_are_known_of_judgements_per_subtopic_too():
    result = evaluate_run(QRELS, RUN, metrics=["judged@2", "num_ret", "num_q", "runid", "alpha_nDCG@2"])
    assert (result["judged@2"], result["num_ret"], result.judged) == (0.5, 3.0, {"alpha_nDCG@2": 0.5})


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: value_of("ndcg@10"), "ndcg@10 needs one judgement per document, and the qrels have one per subtopic"),
        (lambda: value_of("num_rel"), "num_rel needs one judgement per document"),
        (
            lambda: value_of("alpha_nDCG@5", QRELS.documents),
            "alpha_nDCG@5 needs judgements per subtopic, and the qrels",
        ),
        (lambda: value_of("alpha_nDCG", bracket=True), "bracket orders tied documents by their labels"),
        (lambda: value_of("alpha_nDCG", policy="sklearn"), "has no value averaged over ties"),
        (lambda: value_of("alpha_nDCG(alpha=1.5)"), "alpha must be between 0 and 1; got 1.5"),
        (lambda: value_of("NRBP(beta=1)"), "beta must be from 0 to below 1; got 1.0"),
        (lambda: value_of("alpha_nDCG@9999999"), "the cutoff must be at most 1,000,000; got 9999999"),
        (lambda: value_of("alpha_nDCG(judged_only=True)@5"), "'judged_only' is not supported"),
        (lambda: podium.evaluate([1.0], [1], qid=[1], metrics="alpha_nDCG@5"), "measures a run against its qrels"),
    ],
)
def test_what_cannot_be_is_refused(work, message):
    with pytest.raises(ValueError, match=message.replace("(", "[(]")):
        work()


def test_runs_are_compared_by_measures_of_subtopics():
    compared = podium.compare({"a": RUN, "b": Run.from_dict({"1": {"b": 1.0}})}, QRELS, metrics=["alpha_nDCG@2"])
    assert compared.means["alpha_nDCG@2"]["b"] == pytest.approx(2 / (2 + 0.5 / log2(3)))
    assert compared.judged == {"alpha_nDCG@2": {"a": 0.5, "b": 1.0}}


def test_without_subtopics_the_largest_judgement_counts():
    qrels = SubtopicQrels.from_dict({"1": {"s": {"a": 1, "b": 0}, "t": {"a": 2, "c": 1}}})
    assert qrels.documents == Qrels.from_dict({"1": {"c": 1, "b": 0, "a": 2}})
