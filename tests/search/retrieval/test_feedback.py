"""Feedback: scores are those of plain dictionaries, the same bits for every history of an index and way to search."""

import itertools

import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_documents

import podium
from podium.formats.container import write_container
from podium.formats.kinds import CASCADE
from podium.search import Analyser, IndexWriter, build_index, open_index, parse_weighting, search_run
from podium.search.features.kinds import feature_kinds
from podium.search.retrieval import clauses

HISTORIES = ["built", "segments", "merged"]
DEFAULTS = {"k1": 1.2, "b": 0.75, "fb_terms": 10, "fb_docs": 10, "original_query_weight": 0.5}
SETTINGS = [
    {},
    {"fb_docs": 1, "fb_terms": 3},
    {"fb_docs": 3, "fb_terms": 1, "original_query_weight": 0.2},
    {"fb_docs": 1000, "fb_terms": 1000, "k1": 0.0, "original_query_weight": 0.9},
    {"original_query_weight": 0.0, "b": 0.0, "k1": 2.0},
    {"original_query_weight": 1.0, "k1": 0.9, "b": 0.4},
]


def named(settings):
    return f"bm25-rm3({', '.join(f'{key}={value}' for key, value in settings.items())})"


def by_field(documents):
    split = {
        name: {field: [term for term, _ in Analyser().terms(text)] for field, text in own.items()}
        for name, own in documents.items()
    }
    return {name: own | {"whole": own["title"] + own["body"]} for name, own in split.items()}


@pytest.fixture(scope="module")
def documents():
    return random_documents(np.random.default_rng(7), 60)


@pytest.fixture(scope="module")
def indexes(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    return {history: index_of(documents, folder / history, history, np.random.default_rng(7)) for history in HISTORIES}


def assert_ranked(hits, expected, k):
    """Scores as expected, best first, equal ones by id. Weights are in units of 2**-20 for up to 16 words."""
    assert len(hits) == min(k, len(expected))
    np.testing.assert_allclose(hits.scores, sorted(expected.values(), reverse=True)[:k], atol=1e-5)
    for hit in hits:
        assert hit.score == pytest.approx(expected[hit.id], abs=1e-5)
    for one, other in itertools.pairwise(hits):
        assert one.score > other.score or (one.score == other.score and one.id < other.id)


@pytest.mark.parametrize("settings", SETTINGS, ids=named)
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("field", ["whole", "body", "title"])
def test_scores_are_those_of_plain_dictionaries(documents, indexes, history, field, settings):
    rng, fields = np.random.default_rng(3), by_field(documents)
    for k, n_terms in itertools.product((1, 5, 100), (1, 2, 4, 9)):
        words = rng.choice([*WORDS, "unknown", "the"], n_terms).tolist()
        expected = oracles.rm3_scores(fields, [((word,), field) for word in words], DEFAULTS | settings, field=field)
        hits = indexes[history].search(" ".join(words), k, weighting=named(settings), fields=field)
        assert_ranked(hits, expected, k)


@pytest.mark.parametrize("seed", range(12))
def test_any_small_collection_is_ranked_as_by_plain_dictionaries(tmp_path, seed):
    """Few documents, many ties, empty fields; queries with repeated, unknown and required words."""
    rng = np.random.default_rng(seed)
    own = random_documents(rng, int(rng.integers(1, 25)))
    index, fields = index_of(own, tmp_path, HISTORIES[seed % 3], rng), by_field(own)
    for _ in range(15):
        settings = {
            "fb_docs": int(rng.integers(1, 6)),
            "fb_terms": int(rng.integers(1, 8)),
            "original_query_weight": round(float(rng.random()), 2),
            "b": round(float(rng.random()), 2),
        }
        words = rng.choice([*WORDS[:8], "unknown"], rng.integers(1, 5)).tolist()
        must = rng.random() < 0.3
        allowed = {id for id, parts in fields.items() if words[0] in parts["body"]} if must else None
        field, k = str(rng.choice(["body", "title"])) if not must else "body", int(rng.integers(1, 30))
        expected = oracles.rm3_scores(
            fields, [((word,), field) for word in words], DEFAULTS | settings, allowed, field=field
        )
        text = ("+" if must else "") + " ".join(words)
        assert_ranked(index.search(text, k, weighting=named(settings), fields=field), expected, k)


@pytest.mark.parametrize("settings", SETTINGS, ids=named)
def test_phrases_conditions_and_fields_hold_in_both_searches(documents, indexes, settings):
    fields = by_field(documents)
    for a, b, c, d in [(0, 1, 2, 3), (4, 0, 1, 7), (1, 1, 0, 5), (2, 9, 3, 0)]:
        one, two, three, four = WORDS[a], WORDS[b], WORDS[c], WORDS[d]
        words, whole = [((one,), "whole"), ((three,), "whole")], {id: own["whole"] for id, own in fields.items()}
        cases = {
            f"+{one} {three}": (words, {id for id, terms in whole.items() if one in terms}),
            f"{one} {three} -{four}": (words, {id for id, terms in whole.items() if four not in terms}),
            f'"{one} {two}" {three}': ([((one, two), "whole"), words[1]], None),
            f"title:{one} {three} whole:{three}": ([((one,), "title"), words[1], words[1]], None),
            f"{one} {three} -title:{four}": (
                words,
                {id for id, own in fields.items() if four not in own["title"]},
            ),
        }
        for text, (parts, allowed) in cases.items():
            expected = oracles.rm3_scores(fields, parts, DEFAULTS | settings, allowed)
            for index in indexes.values():
                assert_ranked(index.search(text, 100, weighting=named(settings)), expected, 100)
                assert_ranked(index.search_many([text], 7, weighting=named(settings))[0], expected, 7)


def ranking(hits):
    return hits.ids, hits.scores


QUERIES = ["", "the of", "nowhere", " ".join(WORDS * 5), f'"{WORDS[0]} {WORDS[1]}"', f"+{WORDS[0]} -{WORDS[1]}"]


def random_queries(rng):
    words = [*WORDS, "unknown", "the"]
    return [" ".join(rng.choice(words, n)) for n in (1, 2, 3, 5, 9, 30) for _ in range(6)] + QUERIES


@pytest.mark.parametrize("settings", SETTINGS, ids=named)
def test_segments_and_merges_change_no_bit(indexes, settings):
    for text in random_queries(np.random.default_rng(5)):
        built, *others = (
            ranking(indexes[history].search(text, 40, weighting=named(settings))) for history in HISTORIES
        )
        assert others == [built, built]


@pytest.mark.parametrize("history", HISTORIES)
def test_search_many_gives_what_search_gives_on_any_number_of_threads(indexes, history):
    queries, weighting = random_queries(np.random.default_rng(5)), named(SETTINGS[2])
    alone = [ranking(indexes[history].search(text, 5, weighting=weighting)) for text in queries]
    for jobs in (1, 2, 4):
        folder = indexes[history].folder  # opened anew: nothing is remembered
        together = open_index(folder).search_many(queries, 5, weighting=weighting, n_jobs=jobs)
        assert [ranking(hits) for hits in together] == alone
    run = search_run(
        indexes[history], {str(number): text for number, text in enumerate(queries)}, 5, weighting=weighting
    )
    assert list(run.docid_texts) == [id for ids, _ in alone for id in ids]


def test_with_all_weight_on_the_query_the_scores_are_those_of_bm25(indexes):
    for index, text in itertools.product(indexes.values(), random_queries(np.random.default_rng(9))):
        weighted = index.search(text, 30, weighting="bm25-rm3(original_query_weight=1)", fields={"whole": 3.0})
        assert ranking(weighted) == ranking(index.search(text, 30, fields={"whole": 3.0}))


def test_both_ways_to_add_up_weighted_impacts_give_the_same_scores(indexes, monkeypatch):
    """In a window of documents, skipping what cannot be among the best, and for all documents."""
    queries = random_queries(np.random.default_rng(11))
    fast = [ranking(indexes["segments"].search(text, 3, weighting="bm25-rm3")) for text in queries]
    monkeypatch.setattr(clauses, "_is_word_of", lambda main, asked: False)
    assert [ranking(indexes["segments"].search(text, 3, weighting="bm25-rm3")) for text in queries] == fast


def test_words_that_no_document_has_change_nothing(indexes):
    index = indexes["segments"]
    plain = index.search(f"{WORDS[2]} {WORDS[5]}", weighting="bm25-rm3")
    more = index.search(f"nowhere {WORDS[2]} the {WORDS[5]} unknown title:nowhere", weighting="bm25-rm3")
    assert ranking(more) == ranking(plain)


def test_deleted_documents_give_no_terms(tmp_path):
    build_index([("a", "laser photon"), ("b", "laser gas"), ("c", "photon sensor"), ("d", "gas stove")], tmp_path / "i")
    assert open_index(tmp_path / "i").search("laser", weighting="bm25-rm3").ids == ["a", "b", "c", "d"]
    with IndexWriter(tmp_path / "i") as writer:
        writer.delete("b")
    assert open_index(tmp_path / "i").search("laser", weighting="bm25-rm3").ids == ["a", "c"]


def test_the_expansion_is_the_arithmetic_of_the_formula(tmp_path):
    """One document of four terms is the feedback; each of laser, light, photon and beam has p = 1/4."""
    build_index([("a", "laser light photon beam"), ("b", "sound")], tmp_path / "i", language="none")
    ranker = open_index(tmp_path / "i").ranker("bm25-rm3(original_query_weight=0.75)")
    assert ranker.expansion("laser laser nowhere") == {
        "laser": 0.75 * 2 + 0.25 * 2 * 0.25,
        **dict.fromkeys(["beam", "light", "photon"], 0.25 * 2 * 0.25),
    }
    assert ranker.expansion("nowhere") == {}


def test_of_equal_terms_the_first_ones_are_taken(tmp_path):
    build_index([("a", "laser light photon beam"), ("b", "sound")], tmp_path / "i", language="none")
    ranker = open_index(tmp_path / "i").ranker("bm25-rm3(fb_terms=2)")
    assert ranker.expansion("laser") == {"laser": 0.5 + 0.5 / 2, "beam": 0.5 / 2}


def test_a_query_with_its_feedback_has_at_most_1024_terms(tmp_path):
    words = [f"w{number:04}k" for number in range(1100)]
    build_index([("a", " ".join(words)), ("b", " ".join(words[:3]))], tmp_path / "i", language="none")
    index = open_index(tmp_path / "i")
    ranker = index.ranker("bm25-rm3(fb_terms=1000)")
    assert len(ranker.expansion(" ".join(words[76:]))) == 1024
    assert len(ranker.expansion(" ".join(words[79:]))) == 1021 + 3
    full = " ".join(words[76:])
    assert ranking(index.search(full, weighting="bm25-rm3")) == ranking(index.search(full))
    with pytest.warns(UserWarning, match="a query may have 1,024 terms; 76 more were left out"):
        index.search(" ".join(words), weighting="bm25-rm3")


@pytest.mark.parametrize(
    ("weighting", "message"),
    [
        ("bm25-rm3(fb_docs=0)", "fb_docs must be an integer from 1 to 1,000; got 0"),
        ("bm25-rm3(fb_terms=2.5)", r"fb_terms must be an integer from 1 to 1,000; got 2\.5"),
        ("bm25-rm3(fb_terms=nan)", "fb_terms must be an integer from 1 to 1,000; got nan"),
        ("bm25-rm3(fb_terms=inf)", "fb_terms must be an integer from 1 to 1,000; got inf"),
        ("bm25-rm3(original_query_weight=1.5)", r"original_query_weight must be a number from 0 to 1; got 1\.5"),
        ("bm25-rm3(b=2)", r"b must be a number from 0 to 1; got 2\.0"),
        ("bm25-rm3(fb_doc=2)", r"parameter of bm25-rm3 must be one of .*; got 'fb_doc'. Did you mean 'fb_docs'"),
        ("bm25rm3", "Did you mean 'bm25-rm3'"),
    ],
)
def test_bad_parameters_are_named(weighting, message):
    with pytest.raises(ValueError, match=message):
        parse_weighting(weighting)


def test_what_has_no_texts_is_refused(indexes, tmp_path):
    for fields, message in [
        ({"title": 2, "body": 1}, "bm25-rm3 searches one field; got title, body"),
        ("anchor", "field anchor is not among them. Search another one"),
    ]:
        with pytest.raises(ValueError, match=message):
            indexes["built"].search("x", weighting="bm25-rm3", fields=fields)
    build_index([("a", "laser light")], tmp_path / "i", keep_texts=False)
    with pytest.raises(ValueError, match=r"was built with keep_texts=False\. Build it with them"):
        open_index(tmp_path / "i").search("laser", weighting="bm25-rm3")


def test_it_is_printed_and_no_kind_of_features():
    text = "bm25-rm3(k1=1.2, b=0.75, fb_terms=10, fb_docs=20, original_query_weight=0.5)"
    assert str(parse_weighting("bm25-rm3( fb_docs = 20 )")) == text
    assert parse_weighting(text) == parse_weighting("bm25-rm3(fb_docs=20)")
    assert "bm25-rm3" not in feature_kinds()


def test_a_cascade_keeps_the_parameters_of_its_first_stage(indexes, documents, tmp_path):
    weighting = "bm25-rm3(fb_docs=3, fb_terms=5, original_query_weight=0.25)"
    queries = {word: word for word in WORDS[:4]}
    qrels = {word: {id: int(word in own["body"]) for id, own in documents.items()} for word in queries}
    cascade = podium.Cascade(indexes["segments"], podium.Stage(n=20), weighting=weighting)
    model = podium.Linear().fit(cascade.training_data(queries, qrels))
    cascade.with_model(model).save(tmp_path / "cascade")
    loaded = podium.load(tmp_path / "cascade")
    assert loaded.weighting == parse_weighting(weighting)
    for text in queries:
        hits = loaded.search(text, 20)
        first = indexes["built"].search(text, 20, weighting=weighting)
        assert sorted(zip(hits.first_ranks, hits.ids)) == list(enumerate(first.ids, 1))


def test_an_index_without_live_documents_finds_nothing(tmp_path):
    build_index([("a", "laser light")], tmp_path / "i")
    with IndexWriter(tmp_path / "i") as writer:
        writer.delete("a")
    assert open_index(tmp_path / "i").search("laser +light", weighting="bm25-rm3").ids == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"fb_docs": 0.0}, "fb_docs must be an integer from 1 to 1,000; got 0"),
        ({"fb_terms": "many"}, "could not convert string to float"),
        ({"mu": 3.0}, "'mu'"),
    ],
)
def test_a_cascade_with_bad_parameters_is_refused_when_it_is_opened(indexes, documents, tmp_path, facts, message):
    qrels = {WORDS[0]: {id: int(WORDS[1] in own["body"]) for id, own in documents.items()}}
    cascade = podium.Cascade(indexes["built"], podium.Stage(n=20), weighting="bm25-rm3")
    model = podium.Linear().fit(cascade.training_data({WORDS[0]: WORDS[0]}, qrels))
    cascade.with_model(model).save(tmp_path / "cascade")
    assert podium.load(tmp_path / "cascade").weighting == parse_weighting("bm25-rm3")
    weighting = {"variant": "bm25-rm3", "k1": 1.2, **facts}
    changed = {"stages": [{"n": 20}], "weighting": weighting, "fields": "whole"}
    write_container(tmp_path / "cascade" / "cascade.podium", CASCADE, changed, {})
    with pytest.raises(ValueError, match=message):
        podium.load(tmp_path / "cascade")
