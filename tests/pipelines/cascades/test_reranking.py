"""Candidates of other engines: the same rows, scores and order as a search that finds them."""

import itertools

import numpy as np
import pytest
from collection import WORDS, index_of, random_pages

import podium
from podium import Cascade, Stage
from podium.pipelines.cascades.cascade import Trace
from podium.search import Features

HISTORIES = ["built", "segments"]
N = 15
QUERIES = {f"q{number}": " ".join(pair) for number, pair in enumerate(itertools.combinations(WORDS[:6], 2))}
FEATURES = Features.letor("minmax").add("cover", "coverage", "whole").add("first", "score").add("short", "dl", "body")


@pytest.fixture(scope="module")
def pages():
    return random_pages(np.random.default_rng(2), 80)


@pytest.fixture(scope="module")
def indexes(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    return {name: index_of(pages, folder / name, name, np.random.default_rng(3)) for name in HISTORIES}


@pytest.fixture(scope="module")
def qrels(pages):
    rng = np.random.default_rng(4)
    grades = {
        name: {id: sum(word in page["title"].split() for word in text.split()) for id, page in pages.items()}
        for name, text in QUERIES.items()
    }
    return podium.Qrels.from_dict(
        {name: {id: grade for id, grade in inner.items() if rng.random() < 0.6} for name, inner in grades.items()}
    )


@pytest.fixture(scope="module")
def fitted(indexes, qrels):
    data = Cascade(indexes["built"], Stage(features=FEATURES, n=N)).training_data(QUERIES, qrels)
    return podium.LambdaMART(n_estimators=12, max_leaf_nodes=6, min_samples_leaf=5, random_state=1).fit(data)


def rows_by_document(data):
    return {(str(q), d): X.tobytes() for q, d, X in zip(data.qid, data.docids, data.X)}


def is_tied(scores):
    return len(scores) > 4 and scores[3] == scores[4]


def parts(hits):
    return hits.ids, hits.scores, hits.first_ranks, hits.first_scores


def test_candidates_of_a_search_are_ranked_as_the_search_does(indexes, fitted, rng):
    for index in indexes.values():
        cascade = Cascade(index, Stage(fitted, FEATURES, N))
        for text in list(QUERIES.values())[:8]:
            searched, given = Trace(), Trace()
            expected = cascade.search(text, N, trace=searched)
            ids = rng.permutation(index.search(text, N).ids).tolist()
            hits = cascade.rerank(text, ids, trace=given)
            assert parts(hits) == parts(expected)
            if ids:
                assert given.scored.rows.tobytes() == searched.scored.rows.tobytes()
            assert cascade.rerank(text, ids, 3).ids == expected.ids[:3]


def test_documents_that_the_first_stage_does_not_find_come_behind_with_the_score_0(indexes, fitted):
    index = indexes["segments"]
    cascade, text = Cascade(index, Stage(fitted, FEATURES, N)), QUERIES["q0"]
    every = index.search(text, 1000)
    others = [id for id in (index.id(document) for document in range(index.n_slots)) if id not in every.ids][:3]
    assert len(others) == 3
    hits = cascade.rerank(text, [*others, *every.ids[:4]])
    firsts = dict(zip(hits.ids, zip(hits.first_ranks, hits.first_scores)))
    assert {id: firsts[id] for id in every.ids[:4]} == dict(zip(every.ids, zip(range(1, 5), every.scores)))
    assert [firsts[id] for id in others] == [(len(every) + number, 0.0) for number in (1, 2, 3)]


def test_all_given_candidates_are_re_ranked_by_the_first_model(indexes, fitted):
    index, text = indexes["built"], QUERIES["q1"]
    ids = index.search(text, 30).ids
    few = Cascade(index, Stage(fitted, FEATURES, 5)).rerank(text, ids)
    assert parts(few) == parts(Cascade(index, Stage(fitted, FEATURES, 30)).search(text, 30))


def test_unknown_ids_are_left_out_and_named(indexes, fitted):
    cascade, text = Cascade(indexes["built"], Stage(fitted, FEATURES, N)), QUERIES["q0"]
    ids = indexes["built"].search(text, 4).ids
    with pytest.warns(UserWarning, match=r"4 candidates of 8 not in the index \('x1', 'x2', 'x3', ...\); left out"):
        hits = cascade.rerank(text, [*ids, "x1", "x2", "x3", "x4"])
    assert parts(hits) == parts(cascade.rerank(text, ids))
    assert len(cascade.rerank(text, [])) == 0


def test_repeated_ids_and_a_text_are_refused(indexes, fitted):
    cascade = Cascade(indexes["built"], Stage(fitted, FEATURES, N))
    ids = indexes["built"].search(QUERIES["q0"], 2).ids
    with pytest.raises(ValueError, match="is given more than once; give each candidate once"):
        cascade.rerank(QUERIES["q0"], [*ids, ids[1]])
    with pytest.raises(TypeError, match="rerank needs several ids; got the text 'a'"):
        cascade.rerank(QUERIES["q0"], "a")


def test_training_data_of_a_run_are_those_of_the_search_that_wrote_it(indexes, qrels):
    cascade = Cascade(indexes["segments"], Stage(features=FEATURES, n=N))
    run = cascade.run(QUERIES, N)
    for rules in ({}, {"unjudged": "skip"}, {"add_judged": True}):
        expected = cascade.training_data(QUERIES, qrels, **rules)
        data = cascade.training_data(QUERIES, qrels, candidates=run, **rules)
        assert rows_by_document(data) == rows_by_document(expected)
        assert data.y.tolist() == expected.y.tolist()
    clear = {name: text for name, text in QUERIES.items() if not is_tied(cascade.search(text, 5).scores)}
    fewer = cascade.training_data(clear, None, 4, candidates=run)  # of equal scores a run has the larger id first
    assert rows_by_document(fewer) == rows_by_document(cascade.training_data(clear, None, 4))


def test_later_stages_see_the_candidates_of_a_run_too(indexes, fitted, qrels):
    stages = [Stage(fitted, FEATURES, N), Stage(features=FEATURES, n=6)]
    cascade = Cascade(indexes["built"], stages)
    run = Cascade(indexes["built"]).run(QUERIES, N)
    data = cascade.training_data(QUERIES, qrels, N, candidates=run)
    assert rows_by_document(data) == rows_by_document(cascade.training_data(QUERIES, qrels, N))


def test_candidates_without_documents_of_the_index_or_queries_of_the_file_are_named(indexes, qrels):
    cascade = Cascade(indexes["built"], Stage(features=FEATURES, n=N))
    ids = indexes["built"].search(QUERIES["q0"], 3).ids
    run = podium.Run.from_dict({"q0": {**dict.fromkeys(ids, 1.0), "unknown": 2.0}})
    with pytest.warns(UserWarning, match=r"1 candidate not in the index \('unknown'\); left out. Were the"):
        data = cascade.training_data(QUERIES, None, candidates=run)
    assert sorted(data.docids) == sorted(ids)
    assert np.unique(data.qid).tolist() == ["q0"]
    with pytest.raises(ValueError, match=r"no query is in the run, which has 'x'. Do both files use the same"):
        cascade.training_data(QUERIES, None, candidates=podium.Run.from_dict({"x": {"a": 1.0}}))
