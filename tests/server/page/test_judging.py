"""Judgements, as the log has them."""

import json

import pytest

from podium.server.log import Log
from podium.server.page.judging import ANONYMOUS, Judgements


def judgement(query, document, label, rater=None):
    return {"kind": "judgement", "query": query, "document": document, "label": label, "rater": rater}


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path / "log.jsonl", 1_000_000)
    yield log
    log.close()


def test_the_latest_label_of_each_rater_counts_and_the_median_of_raters(log):
    judgements = Judgements(log.path)
    assert judgements.of("tea").ratings == {}
    log.append([judgement("tea", "d1", 4.0, "ann"), judgement("tea", "d1", 1.0, "ann")]).result(10)
    assert judgements.of("tea").labels == {"d1": 1.0}
    log.append([judgement("tea", "d1", 4.0, "bob"), judgement("tea", "d1", 3.0), judgement("tea", 7, 2.0)]).result(10)
    tea = judgements.of("  tea ")
    assert tea.ratings == {"d1": {"ann": 1.0, "bob": 4.0, ANONYMOUS: 3.0}, "7": {ANONYMOUS: 2.0}}
    assert tea.labels == {"d1": 3.0, "7": 2.0}
    assert tea.raters == {ANONYMOUS: 2, "ann": 1, "bob": 1}
    assert tea.n_shared == 1


def test_the_lower_middle_label_of_two_raters_is_taken(log):
    log.append([judgement("tea", "d1", 4.0, "ann"), judgement("tea", "d1", 1.0, "bob")]).result(10)
    assert Judgements(log.path).of("tea").labels == {"d1": 1.0}


def test_numbers_of_queries_are_those_of_their_first_judgements(log):
    judgements = Judgements(log.path)
    log.append([judgement("b", "d", 1.0), judgement("a", "d", 1.0)]).result(10)
    assert [(query.number, query.text) for query in judgements.all()[1]] == [(1, "b"), (2, "a")]
    log.append([judgement("c", "d", 1.0), judgement("a", "d", 2.0), judgement("b", "e", 2.0)]).result(10)
    expected = [(1, "b"), (2, "a"), (3, "c")]
    for read in (judgements, Judgements(log.path)):
        assert [(query.number, query.text) for query in read.all()[1]] == expected
    assert judgements.latest(2) == ["c", "a"]


def test_other_records_and_lines_without_their_ends_are_left_out(log):
    log.append([{"kind": "click", "query": '"judgement"', "document": "d"}, judgement("a", "d", 1.0)]).result(10)
    judgements = Judgements(log.path)
    line = json.dumps(judgement("b", "d", 1.0))
    with open(log.path, "a") as file:
        file.write(line[:20])
        file.flush()
        assert [query.text for query in judgements.all()[1]] == ["a"]
        file.write(line[20:] + "\n")
    assert [query.text for query in judgements.all()[1]] == ["a", "b"]


def test_labels_above_the_scale_are_counted_and_left_out(log):
    log.append([judgement("a", "d", 100.0), judgement("a", "e", 4.0)]).result(10)
    judgements = Judgements(log.path)
    assert judgements.of("a").labels == {"e": 4.0}
    assert judgements.n_off_scale == 1
