"""Coverage of judgements: beside each value of a run stands how much of what it depends on is judged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import podium
from podium.formats.trec import Qrels, Run

NAMES = ["ndcg@2", "P_5", "map", "recip_rank", "gm_map", "num_ret", "runid", "judged@2", "set_P"]
COVERED = {"ndcg@2": 2, "P_5": 5, "map": None, "recip_rank": None, "gm_map": None, "set_P": None}
QRELS = Qrels.from_dict({"1": {"a": 1, "b": -1}, "2": {"c": 1}, "3": {"z": 1}})
RUN = Run.from_dict({"1": {"x": 3.0, "a": 2.0, "b": 1.0}, "2": {"c": 1.0}})


def test_the_share_that_is_judged_is_that_of_the_cutoff():
    judged = podium.evaluate_run(QRELS, RUN, metrics=NAMES).judged
    assert judged == pytest.approx({name: ((1 / 2 if k == 2 else 2 / 3) + 1) / 2 for name, k in COVERED.items()})


def test_queries_that_the_run_lacks_count_where_they_count_in_the_value():
    result = podium.evaluate_run(QRELS, RUN, metrics=["ndcg@2", "judged@2"], missing="zero")
    assert result.judged["ndcg@2"] == result["judged@2"] == pytest.approx((1 / 2 + 1 + 0) / 3)


def test_depth_and_undefined_queries_are_left_out():
    assert podium.evaluate_run(QRELS, RUN, metrics="map", depth=1).judged["map"] == (0 + 1) / 2
    qrels = Qrels.from_dict({"1": {"a": 1, "x": 0}, "2": {"c": 0}})
    run = Run.from_dict({"1": {"a": 1.0, "x": 2.0}, "2": {"y": 2.0, "c": 1.0}})
    result = podium.evaluate_run(qrels, run, metrics="auc", policy="standard")
    assert result.judged == {"auc": 1.0}


documents = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@given(rows=st.lists(st.tuples(documents, documents), min_size=1, max_size=5), k=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_it_is_the_measure_judged(rows, k):
    qrels = Qrels.from_dict({q: dict.fromkeys(judged, 1) for q, (judged, _) in enumerate(rows)})
    run = Run.from_dict({q: {doc: -i for i, doc in enumerate(ranked)} for q, (_, ranked) in enumerate(rows)})
    result = podium.evaluate_run(qrels, run, metrics=[f"ndcg@{k}", f"judged@{k}", "map", "judged"])
    assert result.judged == pytest.approx({f"ndcg@{k}": result[f"judged@{k}"], "map": result["judged"]})
    shares = [sum(doc in judged for doc in ranked[:k]) / len(ranked[:k]) for judged, ranked in rows]
    assert result.judged[f"ndcg@{k}"] == pytest.approx(sum(shares) / len(shares))


def test_it_is_part_of_all_that_is_printed_of_a_comparison():
    other = Run.from_dict({"1": {"a": 1.0}, "2": {"c": 1.0}})
    compared = podium.compare({"base": RUN, "new": other}, QRELS, metrics=["ndcg@2"])
    assert compared.judged == {"ndcg@2": {"base": 0.75, "new": 1.0}}
    assert compared.as_dict()["judged"] == compared.judged
    header, line = (text.split(",") for text in compared.to_csv().splitlines())
    assert dict(zip(header, line))["baseline_judged"] == "0.75"
    assert dict(zip(header, line))["system_judged"] == "1.0"
    assert "% Judged, of what NDCG@2 depends on: base 0.7500, new 1.0000" in compared.to_latex()
    assert "(judged 0.7500), new 1.0000 (judged 1.0000)" in str(compared)
    assert [column.header for column in compared.table().columns][:3] == ["system", "mean", "judged"]
    page = compared._repr_html_()
    assert page.index(">mean<") < page.index(">judged<") < page.index(">change<")


def test_it_is_in_notebooks_and_frames():
    result = podium.evaluate_run(QRELS, RUN, metrics=["ndcg@2", "num_ret"])
    assert ">judged<" in result._repr_html_()
    assert result.to_frame().fillna(-1).to_dict("list")["judged"] == [0.75, -1]
    assert "judged" not in podium.evaluate([1.0], [1], qid=[1]).to_frame()


def test_scores_of_labelled_rows_have_no_coverage():
    result = podium.evaluate([1.0, 2.0], [0, 1], qid=[1, 1])
    assert result.judged == {}
    assert "judged" not in result.as_dict()
    compared = podium.compare({"a": [1.0, 2.0], "b": [2.0, 1.0]}, [0, 1], qid=[1, 1])
    assert "judged" not in compared.to_csv() + compared.to_latex() + str(compared)
