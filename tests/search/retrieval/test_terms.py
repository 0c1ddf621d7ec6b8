"""The terms of a query: at most 1,024, by one rule on every path; what is left out is named. Lists are not copied."""

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest

import podium
from podium.search import Analyser, Extractor, Features, build_index, open_index
from podium.search.features import extracting
from podium.search.features.expanding import neighbours
from podium.search.retrieval import fields, ranking
from podium.search.retrieval.terms import MOST_TERMS, limited_words, query_terms

PLAIN = Analyser("none")
WORDS = [f"w{number}" for number in range(MOST_TERMS + 6)]
FIRST, LATE = WORDS[:MOST_TERMS], WORDS[MOST_TERMS:]


def terms(text):
    return [term for own in query_terms(text, PLAIN) for term, _ in own.terms]


@pytest.mark.parametrize("sign", ["", "+", "-", "title:"])
def test_the_first_terms_stay_and_the_rest_is_named(sign):
    query = " ".join(sign + word for word in WORDS)
    with pytest.warns(UserWarning, match=r"1,024 terms; 6 more were left out \('w1024', 'w1025', 'w1026', \.\.\.\)"):
        assert terms(query) == FIRST


def test_repeated_words_and_stop_words_do_not_count():
    text = " ".join(["the", *FIRST, "of", *FIRST])
    english = Analyser("english")
    assert [term for own in query_terms(text, english) for term, _ in own.terms] == FIRST * 2
    assert terms(" ".join(FIRST * 3)) == FIRST * 3


def test_a_known_word_behind_those_left_out_stays():
    with pytest.warns(UserWarning, match="6 more were left out"):
        assert terms(" ".join([*WORDS, WORDS[0]])) == [*FIRST, WORDS[0]]


def test_a_phrase_is_a_term_of_its_own_and_is_left_out_as_a_whole():
    with pytest.warns(UserWarning, match=r"1 more were left out \('w0 w1'"):
        assert terms(" ".join(FIRST) + ' "w0 w1"') == FIRST
    with pytest.warns(UserWarning, match=r"1 more were left out \('w0 w1024'"):
        assert terms(" ".join(FIRST[:-1]) + ' "w0 w1024" w5') == [*FIRST[:-1], "w5"]
    assert terms(" ".join(FIRST[:-1]) + ' "w0 w1"') == [*FIRST[:-1], "w0", "w1"]


def test_a_phrase_of_more_words_is_left_out():
    phrase = '"' + "w0 w1 " * (MOST_TERMS // 2) + '"'
    assert len(terms(phrase)) == MOST_TERMS
    with pytest.warns(UserWarning, match=r"1 more were left out \('w0 w1 w0"):
        assert terms(phrase[:-1] + ' w0"') == []


def test_words_of_plain_queries_follow_the_same_rule():
    rng = np.random.default_rng(2)
    for _ in range(5):
        words = rng.choice([*WORDS, "the", "of"], 20_000).tolist()
        analyser = Analyser("english")
        with pytest.warns(UserWarning, match="left out") as one:
            expected = [term for own in query_terms(" ".join(words), analyser) for term, _ in own.terms]
        with pytest.warns(UserWarning, match="left out") as other:
            found = limited_words(words, analyser)
        assert analyser.terms_of(found) == expected
        assert str(one[0].message) == str(other[0].message)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Documents with some of the first words, of the late ones, and of both."""
    rng, folder = np.random.default_rng(6), tmp_path_factory.mktemp("terms") / "index"
    documents = [
        {"id": f"d{number:02}", "title": " ".join(rng.choice(WORDS, 3)), "body": " ".join(rng.choice(WORDS, 80))}
        for number in range(40)
    ]
    documents += [{"id": "late", "title": LATE[0], "body": " ".join(LATE * 3)}]
    build_index(documents, folder, language="none")
    return open_index(folder)


def found(hits):
    return hits.ids, hits.scores


PATHS = {
    "search": lambda index, text: found(index.search(text, 50)),
    "search with syntax": lambda index, text: found(index.search(f"{text} :", 50)),
    "language model": lambda index, text: found(index.search(text, 50, weighting="lmir-dir")),
    "several fields": lambda index, text: found(index.search(text, 50, fields={"title": 2, "body": 1})),
    "bm25f": lambda index, text: found(index.search(text, 50, weighting="bm25f", fields=["title", "body"])),
    "search_many": lambda index, text: [found(hits) for hits in index.search_many([WORDS[0], text, WORDS[1]], 50)],
    "features": lambda index, text: Extractor(index, FEATURES).values(text, range(index.n_slots)).tolist(),
    "features with syntax": lambda index, text: Extractor(index, FEATURES).values(f"{text} :", [0, 7]).tolist(),
    "explanations": lambda index, text: [one.sentence() for one in Extractor(index, FEATURES).explain(text, 3)],
    "snippets": lambda index, text: [str(index.snippet(document, text)) for document in range(0, 41, 5)],
    "training data": lambda index, text: training_rows(index, text),
    "pairs of neighbours": lambda index, text: neighbours(index, text),
}
FEATURES = Features.letor().keep(["TF(body)", "BM25(whole)"]).add("pairs", "bigrams", "body")


def training_rows(index, text):
    cascade = podium.Cascade(index, podium.Stage(features=FEATURES, n=20))
    return cascade.training_data({"q": text}, {"q": {"d00": 1}}).X.tolist()


@pytest.mark.parametrize("path", PATHS)
def test_every_path_leaves_out_the_same_terms(index, path):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cut = PATHS[path](index, " ".join(WORDS))
    assert {str(warning.message) for warning in seen} == {
        "a query may have 1,024 terms; 6 more were left out ('w1024', 'w1025', 'w1026', ...). Shorten the query."
    }
    assert cut == PATHS[path](index, " ".join(FIRST))


def test_a_known_word_behind_unknown_ones_is_left_out_of_many_queries_too(index):
    """Unknown words count, although no list is read for them."""
    text = " ".join([*(f"unknown{number}" for number in range(MOST_TERMS)), WORDS[0]])
    with pytest.warns(UserWarning, match=r"1 more were left out \('w0'"):
        assert [hits.ids for hits in index.search_many([text, WORDS[0]], 50)] == [[], index.search(WORDS[0], 50).ids]


@pytest.fixture(scope="module")
def dense_index(tmp_path_factory):
    """300 words in each of 1,000 documents: 300,000 postings in the body, and as many in the title."""
    folder, text = tmp_path_factory.mktemp("dense") / "index", " ".join(WORDS[:300])
    build_index([{"id": f"d{number:03}", "title": text, "body": text} for number in range(1000)], folder)
    return open_index(folder)


@pytest.mark.parametrize(
    ("weighting", "searched", "sign"),
    [
        ("bm25", "body", "+"),
        ("bm25", "body", "title:"),
        ("bm25", {"title": 2.0, "body": 1.0}, ""),
        ("bm25", {"title": 2.0, "body": 1.0}, "-url:"),
        ("lmir-dir", "body", "+"),
        ("bm25f", ["title", "body"], "+"),
    ],
)
def test_queries_with_syntax_copy_no_lists(dense_index, weighting, searched, sign):
    """Copies of the lists would take at least 8 bytes per posting: 300 x 1,000 x 8 = 2.4 MB."""
    query = " ".join(sign + word for word in WORDS[:300])
    assert peak_memory(lambda: dense_index.search(query, weighting=weighting, fields=searched)) < 1e6


def test_lists_of_phrases_are_held_one_at_a_time(dense_index):
    query = " ".join(f'"{one} {other}"' for one, other in itertools.pairwise(WORDS[:300]))
    assert peak_memory(lambda: dense_index.search(query, fields="body")) < 1e6


def peak_memory(search):
    """Of a query whose words are known."""
    search()
    tracemalloc.start()
    try:
        search()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("n_blocks", [1, 2, 7])
def test_blocks_of_candidates_change_no_bit(index, monkeypatch, n_blocks):
    rng, features = np.random.default_rng(8), Features.letor().add("covered", "coverage", "body")
    documents = rng.choice(index.n_slots, 60)  # in any order, some twice
    text = " ".join(WORDS[:900:3])
    expected = Extractor(index, features).values(text, documents)
    monkeypatch.setattr(extracting, "_BLOCK_BYTES", -(-60 // n_blocks) * 5 * (2 * 300 + 16))
    np.testing.assert_array_equal(Extractor(index, features).values(text, documents), expected)


def test_features_of_many_terms_and_candidates_need_little_memory(index):
    """In one piece, frequencies would take 5 fields x 1,024 terms x 30,000 candidates x 2 bytes = 307 MB."""
    features = Features.letor().keep([f"TF({name})" for name in ("body", "anchor", "title", "url", "whole")])
    extractor, documents = Extractor(index, features), np.arange(30_000) % index.n_slots
    assert peak_memory(lambda: extractor.values(" ".join(FIRST), documents)) < 64e6


def test_what_an_extractor_remembers_is_below_its_limit(index):
    """Terms, words, phrases and feedback terms together."""
    memory = 300_000
    features = Features.letor().add("pairs", "bigrams", "body").add("more", "feedback", "whole")
    tracemalloc.start()
    try:
        extractor = Extractor(index, features, memory)
        extractor.values("x", [0])
        before = tracemalloc.get_traced_memory()[0]
        for number in range(40):
            start = 20 * number
            extractor.values(" ".join([*WORDS[start : start + 30], f"unknown{number}"]), [number, 40])
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert extractor._terms.values
    assert used - index_memory(index) < memory


def index_memory(index):
    """The statistics of terms, which belong to the fields of the index."""
    return sum(index.field(name)._statistics.n_bytes for name in ("whole", "body", "title", "anchor", "url"))


def test_rankers_and_fields_remember_up_to_their_limits(index, monkeypatch):
    """Words of any number and length, known and unknown."""
    monkeypatch.setattr(ranking, "WORD_MEMORY", 20_000)
    monkeypatch.setattr(fields, "STATISTICS_MEMORY", 20_000)
    small = open_index(index.folder)
    words = [*WORDS, *(f"unknown{number}" for number in range(300)), "long" * 10_000]
    for word in words:
        assert found(small.search(word)) == found(index.search(word))
    ranker = small.ranker()
    for memo in (ranker._words, small.field("whole")._statistics):
        assert len(memo.values) > 0
        assert memo.n_bytes <= 20_000
