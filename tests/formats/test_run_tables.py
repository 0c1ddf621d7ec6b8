"""Runs and judgements from tables and answers of engines, and back."""

import pytest

import podium
from podium import Qrels, Run

PAIRS = {"q1": {"a": 2.5, "b": 3.5}, "q2": {"a": -1.0}}


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_tables_hold_a_run_and_judgements(backend):
    pytest.importorskip(backend)
    run, qrels = Run.from_dict(PAIRS), Qrels.from_dict(PAIRS)
    assert Run.from_frame(run.to_frame(backend)) == run.ranked()
    assert Qrels.from_frame(qrels.to_frame(backend)) == qrels


def test_columns_can_have_other_names_and_rows_any_order():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"query": [7, 3, 7], "doc": ["x", "y", "z"], "s": [1, 2, 3], "more": [0, 0, 0]})
    run = Run.from_frame(table, qid="query", docid="doc", score="s")
    assert run.to_dict() == {"7": {"x": 1.0, "z": 3.0}, "3": {"y": 2.0}}
    assert run.to_frame()["rank"].tolist() == [1, 2, 1]
    assert run.to_frame()["docid"].tolist() == ["z", "x", "y"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"qid": ["q"], "docid": ["a"]}, "there is no column 'score'; found: qid, docid"),
        ({"qid": ["q", "q"], "docid": ["a", "a"], "score": [1, 2]}, "row 2: query 'q' has document 'a' already"),
        ({"qid": ["q", "r"], "docid": ["a", "b"], "score": [1, None]}, "column 'score' is missing a value in row 2"),
        ({"qid": ["q", None], "docid": ["a", "b"], "score": [1, 2]}, "column 'qid' is missing a value in row 2"),
        ({"qid": ["q"], "docid": ["a"], "score": [float("inf")]}, "query 'q', document 'a': inf is no finite number"),
    ],
)
def test_damaged_tables_are_refused(columns, message):
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=message):
        Run.from_frame(polars.DataFrame(columns))


def hits(*pairs):
    return [{"_index": "i", "_id": id, "_score": score, "_source": {}} for id, score in pairs]


def test_answers_of_elasticsearch_and_opensearch_are_a_run(tmp_path):
    whole = {"took": 3, "hits": {"total": {"value": 2}, "max_score": 3.5, "hits": hits(("b", 3.5), ("a", 2.5))}}
    run = Run.from_hits({"q1": whole, "q2": whole["hits"], 3: hits(("c", 1))})
    assert run.to_dict() == {"q1": {"b": 3.5, "a": 2.5}, "q2": {"b": 3.5, "a": 2.5}, "3": {"c": 1.0}}
    assert Run.from_hits({"q1": {"hits": {"hits": []}}}).to_dict() == {"q1": {}}
    run.to_trec(tmp_path / "es.run", "es")
    assert podium.read_run(tmp_path / "es.run") == run
    assert (tmp_path / "es.run").read_text().startswith("q1 Q0 b 1 3.5 es\n")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "expected {query: answer of the engine}; got list"),
        ({"took": 1, "hits": {"hits": []}}, "got one answer. Give {'q1': answer}"),
        ({"q1": {"error": {"type": "index_not_found"}}}, "query 'q1': the engine answered with an error: .*not_found"),
        ({"q1": {"took": 1}}, "query 'q1': expected an answer with 'hits'; found took"),
        ({"q1": 3}, "query 'q1': expected a list of hits; got int"),
        ({"q1": [{"_score": 1}]}, "query 'q1', hit 1 of 1 hit has no '_id'"),
        ({"q1": hits(("a", 1), ("a", 2))}, "query 'q1', hit 2: document 'a' is there already"),
        ({"q1": hits(("a", None))}, "hit 1: '_score' must be a number; got None. Sorted searches .* track_scores=true"),
        ({"q1": hits(("a", float("nan")))}, "query 'q1', document 'a': nan is no finite number"),
    ],
)
def test_damaged_answers_are_refused(answers, message):
    with pytest.raises(ValueError, match=message):
        Run.from_hits(answers)
