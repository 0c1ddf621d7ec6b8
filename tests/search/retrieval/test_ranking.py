"""Ranking: scores are the formulas', for every weighting, field and history of the index; ties are by id."""

import itertools

import bm25s
import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_documents

from podium.search import WEIGHTINGS, Analyser, build_index, open_index, parse_weighting
from podium.search.retrieval import many

HISTORIES = ["built", "segments", "merged"]


def terms_of(text):
    return [term for term, _ in Analyser().terms(text)]


def by_field(documents):
    split = {name: {field: terms_of(text) for field, text in own.items()} for name, own in documents.items()}
    return {name: own | {"whole": own["title"] + own["body"]} for name, own in split.items()}


def assert_ranked(hits, expected, k):
    """Scores as expected, best first, equal ones by id. Scores are exact to 2**-24 per term."""
    assert len(hits) == min(k, len(expected))
    np.testing.assert_allclose(hits.scores, sorted(expected.values(), reverse=True)[:k], atol=2e-6)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.id], abs=2e-6)
    for one, other in itertools.pairwise(hits):
        assert one.score > other.score or (one.score == other.score and one.id < other.id)


@pytest.fixture(scope="module", params=HISTORIES)
def collection(request, tmp_path_factory):
    rng = np.random.default_rng(7)
    documents = random_documents(rng, 60)
    return documents, index_of(documents, tmp_path_factory.mktemp("index"), request.param, rng)


@pytest.mark.parametrize("weighting", sorted(set(WEIGHTINGS) - {"bm25f", "bm25-rm3"}))
@pytest.mark.parametrize("field", ["whole", "body", "title"])
def test_scores_are_those_of_the_formula(collection, weighting, field):
    documents, index = collection
    rng, fields = np.random.default_rng(3), by_field(documents)
    own = {name: parts[field] for name, parts in fields.items()}
    for k, n_terms in itertools.product((1, 5, 100), (1, 2, 4, 9)):
        words = rng.choice([*WORDS, "unknown", "the"], n_terms).tolist()
        expected = oracles.search_scores(own, terms_of(" ".join(words)), weighting)
        assert_ranked(index.search(" ".join(words), k, weighting=weighting, fields=field), expected, k)


def test_field_weights_add_the_scores_of_fields(collection):
    documents, index = collection
    fields, query = by_field(documents), WORDS[:3]
    parts = {
        field: oracles.search_scores({name: own[field] for name, own in fields.items()}, query, "bm25")
        for field in ("title", "body")
    }
    for weights in ({"title": 3.0, "body": 1.0}, {"title": 0.25, "body": 0.5}):
        expected: dict[str, float] = {}
        for field, weight in weights.items():
            for name, score in parts[field].items():
                expected[name] = expected.get(name, 0.0) + weight * score
        hits = index.search(" ".join(query), 50, fields=weights)
        assert len(hits) == min(50, len(expected))
        for hit in hits:
            assert hit.score == pytest.approx(expected[hit.id], abs=1e-5)


def test_bm25f_adds_frequencies_before_they_saturate(collection):
    documents, index = collection
    weights, query = {"title": 2.0, "body": 1.0}, [WORDS[0], WORDS[3], WORDS[5]]
    expected = oracles.bm25f_scores(by_field(documents), query, weights)
    hits = index.search(" ".join(query), 100, weighting="bm25f", fields=weights)
    assert {hit.id for hit in hits} == set(expected)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.id], abs=1e-5)


def test_a_word_that_is_repeated_counts_twice(collection):
    _, index = collection
    once, twice = index.search(WORDS[0], 100), index.search(f"{WORDS[0]} {WORDS[0]}", 100)
    assert twice.ids == once.ids
    assert twice.scores == [2 * score for score in once.scores]


def test_a_query_of_ten_thousand_words_is_scored_exactly(collection):
    _, index = collection
    words = WORDS * 350
    short, long = index.search(" ".join(WORDS), 20), index.search(" ".join(words), 20)
    assert long.ids == short.ids
    assert long.scores == [350 * score for score in short.scores]


ODD_QUERIES = [
    "",
    "the of",
    "nowhere",
    " ".join(WORDS * 5),
    f'"{WORDS[0]} {WORDS[1]}"',
    f"+{WORDS[0]} -{WORDS[1]}",
    "é" + WORDS[0],
]


@pytest.mark.parametrize(
    ("weighting", "fields"),
    [("bm25", "whole"), ("bm25", {"title": 5.0}), ("bm25", {"title": 2.0, "body": 1.0}), ("bm25f", "whole"),
     ("tfidf", "body"), ("lmir-dir", "whole")],
)  # fmt: skip
def test_search_many_gives_what_search_gives(collection, weighting, fields):
    """Plain queries of any length, words twice, stop words, unknown words, syntax; blocks of any size."""
    _, index = collection
    rng, words = np.random.default_rng(5), [*WORDS, "unknown", "the"]
    queries = [" ".join(rng.choice(words, n)) for n in (1, 2, 3, 5, 9, 30) for _ in range(12)] + ODD_QUERIES
    options = {"weighting": weighting, "fields": fields}
    for k, jobs in ((1, 1), (5, 4), (1000, 2)):
        together = index.search_many(queries, k, n_jobs=jobs, **options)
        alone = [index.search(query, k, **options) for query in queries]
        assert [(hits.query, hits.ids, hits.scores) for hits in together] == [
            (hits.query, hits.ids, hits.scores) for hits in alone
        ]
        assert [hits.documents.tolist() for hits in together] == [hits.documents.tolist() for hits in alone]


def test_search_many_of_nothing(collection):
    assert collection[1].search_many([]) == []


def test_blocks_of_queries_do_not_grow_with_k(collection, monkeypatch):
    """A block has room for k results per query."""
    sizes, search_lists = [], many._search_lists
    monkeypatch.setattr(many, "_MOST_RESULTS", 100)
    monkeypatch.setattr(many, "_search_lists", lambda *args: sizes.append(len(args[3])) or search_lists(*args))
    _, index = collection
    assert len(index.search_many(WORDS * 3, 20, n_jobs=1)) == 3 * len(WORDS)
    assert max(sizes, default=0) <= 5
    assert sizes or len(index.segments) > 1


def test_statistics_of_fields_are_those_of_the_live_documents(collection):
    documents, index = collection
    fields = by_field(documents)
    assert len(index) == len(documents)
    for field in ("whole", "body", "title"):
        own = {name: parts[field] for name, parts in fields.items()}
        found = index.field(field)
        assert found.n_terms == sum(map(len, own.values()))
        for term in [*WORDS[:8], "nowhere"]:
            statistics = found.statistics(term)
            assert (statistics.df, statistics.cf) == (
                sum(term in terms for terms in own.values()),
                sum(terms.count(term) for terms in own.values()),
            )
            docs, tfs = found.postings(term)
            assert {index.id(doc): tf for doc, tf in zip(docs.tolist(), tfs.tolist())} == {
                name: terms.count(term) for name, terms in own.items() if term in terms
            }
        for name, terms in own.items():
            number = index.number(name)
            assert (found.lengths[number], found.uniques[number]) == (len(terms), len(set(terms)))


def test_bm25_is_that_of_bm25s(tmp_path):
    """bm25s's Lucene variant, from the same terms."""
    rng = np.random.default_rng(11)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 30))) for _ in range(300)]
    build_index([(f"{number:03}", text) for number, text in enumerate(texts)], tmp_path / "index", language="none")
    index = open_index(tmp_path / "index")
    other = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    other.index([text.split() for text in texts], show_progress=False)
    for query in [WORDS[:1], WORDS[2:5], WORDS[4:12]]:
        scores = other.get_scores(query)
        hits = index.search(" ".join(query), 300)
        np.testing.assert_allclose(hits.scores, scores[[int(name) for name in hits.ids]], atol=1e-5)
        assert len(hits) == (scores > 0).sum()


def test_weightings_by_name():
    assert str(parse_weighting("BM25( k1 = 0.9 , b=0.4 )")) == "bm25(k1=0.9, b=0.4, delta=0)"
    assert parse_weighting("lmir-jm(lambda=0.5)").lambda_ == 0.5
    with pytest.raises(ValueError, match=r"weighting must be one of .* got 'bm52'. Did you mean 'bm25'"):
        parse_weighting("bm52")
    with pytest.raises(ValueError, match=r"parameter of bm25 must be one of k1, b, delta; got 'mu'"):
        parse_weighting("bm25(mu=3)")
    with pytest.raises(ValueError, match=r"b must be a number from 0 to 1; got 2\.0"):
        parse_weighting("bm25(b=2)")
    with pytest.raises(ValueError, match=r"such as 'bm25\(k1=0.9, b=0.4\)'"):
        parse_weighting("bm25(k1=x)")


def test_bad_arguments_are_named(collection):
    _, index = collection
    with pytest.raises(ValueError, match="k must be an integer from 1; got 0"):
        index.search("x", 0)
    with pytest.raises(ValueError, match=r"field must be one of .* got 'titel'. Did you mean 'title'"):
        index.search("x", fields="titel")
    with pytest.raises(ValueError, match="lmir-dir searches one field"):
        index.search("x", weighting="lmir-dir", fields=["title", "body"])
    with pytest.raises(ValueError, match="above 0"):
        index.search("x", fields={"title": 0})
