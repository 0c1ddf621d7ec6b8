"""Judgements per subtopic: files and dictionaries, and what is wrong in them."""

import gzip

import pytest

from podium import SubtopicQrels
from podium.formats.errors import FormatError

TEXT = "# a comment\n1 price a 1\n\n1 price b 1\n1\thistory b 2\n2 1 a 0\n1 history c 1\n"
JUDGED = {"1": {"price": {"a": 1, "b": 1}, "history": {"b": 2, "c": 1}}, "2": {"1": {"a": 0}}}


def test_a_file_and_a_dictionary_are_the_same(tmp_path):
    (tmp_path / "q").write_text(TEXT)
    (tmp_path / "q.gz").write_bytes(gzip.compress(TEXT.encode()))
    for qrels in (SubtopicQrels.read(tmp_path / "q"), SubtopicQrels.read(tmp_path / "q.gz")):
        assert qrels.to_dict() == JUDGED == SubtopicQrels.from_dict(JUDGED).to_dict()
        assert repr(qrels) == "SubtopicQrels(5 judgements, 2 queries, 3 subtopics)"
    assert SubtopicQrels.from_dict({1: {2: {3: 1}}}).to_dict() == {"1": {"2": {"3": 1}}}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 price d", r"line 8: expected 4 columns \(qid subtopic docno relevance\), found 3: '1 price d'"),
        ("1 price d 1 2", "line 8: expected 4 columns .*, found 5"),
        ("1 price d x", "line 8: the relevance .column 4 of .* must be a finite number; found 'x'"),
        ("1 price d nan", "line 8: .* found 'nan'"),
        ("1 price d 1e999", "line 8: .* found '1e999'"),
        (
            "1 price a 0",
            "line 8: document 'a' of query '1' and subtopic 'price' is already at line 2; remove one of them",
        ),
        ("1 price d\0 0", "line 8: not plain text"),
    ],
)
def test_damage_is_reported_with_its_line(tmp_path, line, message):
    (tmp_path / "q").write_text(f"{TEXT}{line}\n")
    with pytest.raises(FormatError, match=message):
        SubtopicQrels.read(tmp_path / "q")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows; expected lines of 'qid subtopic docno relevance'"),
        ("1 0 a 1\n1 0 b 0\n", "column 2 is '0' in all lines: these judgements have no subtopics"),
        ("1 0 a 1\n1 Q0 b 0\n", "column 2 is '0' or 'Q0' in all lines"),
    ],
)
def test_a_file_without_subtopics_is_refused(tmp_path, text, message):
    (tmp_path / "q").write_text(text)
    with pytest.raises(FormatError, match=message):
        SubtopicQrels.read(tmp_path / "q")


@pytest.mark.parametrize(
    ("judged", "message"),
    [
        ([], "expected {query: {subtopic: {document: judgement}}}; got list"),
        ({"1": {"a": 1}}, "expected {document: judgement} for subtopic 'a'; got int"),
        ({"1": [1]}, "expected {subtopic: {document: judgement}} for query '1'; got list"),
        ({"1": {"s": {"a": float("nan")}}}, "document .a.: nan is not a finite number"),
        ({"1": {"s": {1: 0, "1": 1}}}, "is there more than once, as number and as text"),
        ({"1": {"s": {"a": "much"}}}, "query '1', subtopic 's', document 'a': 'much' is not a finite number"),
    ],
)
def test_a_dictionary_of_another_shape_is_refused(judged, message):
    with pytest.raises(ValueError, match=message):
        SubtopicQrels.from_dict(judged)
