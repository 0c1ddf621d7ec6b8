"""Query syntax: phrases and conditions as a plain reading of the documents has them; any text is a query."""

import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_documents
from hypothesis import given
from hypothesis import strategies as st

from podium.search import Analyser, build_index, open_index
from podium.search.syntax import Clause, parse_query


@pytest.fixture(scope="module", params=["built", "segments"])
def collection(request, tmp_path_factory):
    rng = np.random.default_rng(9)
    documents = random_documents(rng, 80)
    return documents, index_of(documents, tmp_path_factory.mktemp("index"), request.param, rng)


def positions(text):
    return {position: term for term, position in Analyser().terms(text)}


def has(document, word, field=None):
    fields = ("title", "body") if field is None else (field,)
    return any(word in document[name].split() for name in fields)


def names(documents, condition):
    return {name for name, document in documents.items() if condition(document)}


def test_clauses():
    assert parse_query('+laser "speed of light" -title:sound a-b c:d "') == [
        Clause("laser", must=True),
        Clause("speed of light", phrase=True),
        Clause("sound", "title", must_not=True),
        Clause("a-b"),
        Clause("c:d"),
    ]
    assert parse_query('x"y z"+w -- - + title: "" -"q"') == [
        Clause("x"),
        Clause("y z", phrase=True),
        Clause("w"),
        Clause("--"),
        Clause("-"),
        Clause("+"),
        Clause("title:"),
        Clause("", phrase=True),
        Clause("q", phrase=True, must_not=True),
    ]


@pytest.mark.parametrize("length", [2, 3])
def test_phrases_are_found_where_the_words_stand_in_order(collection, length):
    documents, index = collection
    rng = np.random.default_rng(length)
    seen = 0
    for _ in range(40):
        words = rng.choice(WORDS[: 8 - 2 * length], length).tolist()
        phrase = [(word, offset) for offset, word in enumerate(words)]
        counts = {
            name: sum(oracles.phrase_count(positions(own[field]), phrase) for field in ("title", "body"))
            for name, own in documents.items()
        }
        hits = index.search(f'"{" ".join(words)}"', 100)
        assert set(hits.ids) == {name for name, count in counts.items() if count}
        docs, tfs = index.field("whole").phrase_postings(phrase)
        assert {index.id(doc): tf for doc, tf in zip(docs.tolist(), tfs.tolist())} == {
            name: count for name, count in counts.items() if count
        }
        seen += len(hits)
    assert seen > 20


def test_a_stop_word_in_a_phrase_stands_for_any_word(tmp_path):
    build_index([("a", "the speed of light"), ("b", "speed light"), ("c", "speed by light")], tmp_path / "i")
    index = open_index(tmp_path / "i")
    assert index.search('"speed of light"').ids == ["a", "c"]
    assert index.search('"speed light"').ids == ["b"]
    assert index.search('"of"').ids == []


@pytest.mark.parametrize("weighting", ["bm25", "lmir-dir", "bm25f"])
def test_conditions_choose_documents(collection, weighting):
    documents, index = collection
    a, b, c = WORDS[:3]
    cases = {
        f"+{a} {b}": lambda own: has(own, a),
        f"{a} -{b}": lambda own: has(own, a) and not has(own, b),
        f"+{a} +{b} -{c}": lambda own: has(own, a) and has(own, b) and not has(own, c),
        f"title:{a}": lambda own: has(own, a, "title"),
        f"+title:{a} body:{b}": lambda own: has(own, a, "title"),
        f"{a} -body:{b}": lambda own: has(own, a) and not has(own, b, "body"),
        f"+nowhere {a}": lambda own: False,
        f"+{a}-{b}": lambda own: has(own, a) and has(own, b),
    }
    for query, condition in cases.items():
        assert set(index.search(query, 100, weighting=weighting).ids) == names(documents, condition), query


def test_conditions_do_not_change_scores(collection):
    _, index = collection
    a, b = WORDS[:2]
    plain = dict(zip(*[(hits := index.search(f"{a} {b}", 200)).ids, hits.scores]))
    for hit in index.search(f"+{a} {b}", 200):
        assert hit.score == plain[hit.id]


@given(st.text(st.sampled_from("ab \"':+-^~*()[]{}<>/\\.,!?&|titlebody:é\n\0")) | st.text())
def test_any_text_is_a_query(text):
    for clause in parse_query(text):
        assert isinstance(clause.text, str)
    ANY.search(text)


@pytest.fixture(scope="module", autouse=True)
def small_index(tmp_path_factory):
    global ANY
    folder = tmp_path_factory.mktemp("any") / "index"
    build_index([("1", "a title body of text"), ("2", "b é")], folder)
    ANY = open_index(folder)


ANY = None


def test_snippets_show_the_densest_part_and_mark_every_match(tmp_path):
    filler = "nothing to see here " * 30
    build_index([("a", f"{filler} Lasers emit light; a LASER. {filler}")], tmp_path / "i")
    hit = open_index(tmp_path / "i").search("laser light emitting -sound")[0]
    snippet = hit.snippet(width=8)
    assert [snippet.text[start:end] for start, end in snippet.matches] == ["Lasers", "emit", "light", "LASER"]
    assert "**Lasers** **emit** **light**; a **LASER**" in snippet.marked()
    assert "<b>Lasers</b>" in snippet.marked("<b>", "</b>")
    assert len(snippet.text.split()) <= 9
