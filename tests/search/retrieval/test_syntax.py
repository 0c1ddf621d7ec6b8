"""Query syntax: phrases and conditions as a plain reading of the documents has them; any text is a query."""

import re

import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_documents
from hypothesis import given
from hypothesis import strategies as st

from podium.search import Analyser, build_index, open_index
from podium.search.analysis.analyser import split_words
from podium.search.retrieval import clauses, snippets
from podium.search.retrieval.snippets import make_snippet
from podium.search.retrieval.syntax import Clause, parse_query


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


@pytest.mark.parametrize("weighting", ["bm25", "tfidf", "lmir-dir", "lmir-abs"])
def test_skipping_and_adding_up_all_lists_give_the_same(collection, monkeypatch, weighting):
    """Words in one field are searched for with as little as possible; for anything else, all scores are added up."""
    _, index = collection
    rng, queries = np.random.default_rng(2), []
    for _ in range(40):
        words = rng.choice([*WORDS[:12], "unknown", "the"], 6)
        signs = rng.choice(["", "", "+", "-", "whole:", "-whole:"], 6)
        queries.append(" ".join(sign + word for sign, word in zip(signs, words)) + " -x")
    quick = [index.search(query, k, weighting=weighting) for query in queries for k in (1, 10, 100)]
    monkeypatch.setattr(clauses, "_is_word_of", lambda main, asked: False)
    slow = [index.search(query, k, weighting=weighting) for query in queries for k in (1, 10, 100)]
    assert [(hits.ids, hits.scores) for hits in quick] == [(hits.ids, hits.scores) for hits in slow]
    assert sum(map(len, quick)) > 200


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


def plain_snippet(text, terms, width):
    """Every window that a snippet may be, looked at one by one."""
    analyser = Analyser()
    pieces = list(re.finditer(r"\w+", text))
    own = [
        next((term for term in analyser.terms_of(split_words(piece.group())) if term in terms), None)
        for piece in pieces
    ]
    last = max(0, len(pieces) - width)
    starts = {0, *(min(max(0, place - width // 4), last) for place, term in enumerate(own) if term is not None)}
    windows = {start: [term for term in own[start : start + width] if term is not None] for start in starts}
    best = min(windows, key=lambda start: (-len(set(windows[start])), -len(windows[start]), start))
    inside = range(best, min(best + width, len(pieces)))
    first, end = pieces[best].start(), pieces[inside[-1]].end()
    matches = [(pieces[i].start() - first, pieces[i].end() - first) for i in inside if own[i] is not None]
    return text[first:end], tuple(matches)


def test_snippets_are_those_of_a_plain_reading():
    rng, n_matches = np.random.default_rng(1), 0
    words = [
        "laser",
        "Lasers",
        "light",
        "LIGHT",
        "emits",
        "the",
        "\ufb01ne",
        "\u2163",
        "\ufdfa",
        "e\u0301t",
        "x",
        "-",
        "a,b",
    ]
    for _ in range(300):
        text = " ".join(["start", *rng.choice(words, rng.integers(0, 60))])
        terms = {term for term, _ in Analyser().terms(" ".join(rng.choice(words, 3)))}
        width = int(rng.integers(1, 14))
        snippet = make_snippet(text, terms, Analyser(), width)
        assert (snippet.text, snippet.matches) == plain_snippet(text, terms, width)
        n_matches += len(snippet.matches)
    assert n_matches > 200


@pytest.mark.parametrize("n_before", [100, 60_000, 1_000_000])
def test_snippets_of_long_texts_show_a_match(n_before):
    text = "nothing to see. " * (n_before // 16) + "A laser emits light. " + "more of it. " * 10_000
    assert make_snippet(text, {"laser", "light"}, Analyser(), 4).marked() == "A **laser** emits **light**"


def test_snippets_of_long_texts_consider_a_bounded_part(monkeypatch):
    """And no word that is cut in two at its ends."""
    sizes, of = [], snippets._snippet_of
    monkeypatch.setattr(snippets, "_snippet_of", lambda text, *rest: sizes.append(len(text)) or of(text, *rest))
    for text in ("laser " * 2_000_000, "nothing " * 1_000_000 + "laser " * 10, "x" * 10_000_000, " " * 10_000_000):
        make_snippet(text, {"laser"}, Analyser())
    assert max(sizes) <= snippets.MOST_CHARACTERS
    monkeypatch.setattr(snippets, "MOST_CHARACTERS", 20)
    assert make_snippet("a lasers and lasers and laser", {"laser"}, Analyser()).text == "a lasers and lasers"
    assert make_snippet("at the end of it lasers", {"laser"}, Analyser()).text == "end of it lasers"
    assert make_snippet("nothing at all in here, then laser words", {"laser"}, Analyser()).text == "then laser"
    assert make_snippet("x" * 50, {"x"}, Analyser()).text == "x" * 20
