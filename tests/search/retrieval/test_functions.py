"""Weightings of a user: a Python function of arrays ranks as a naive loop over all documents does."""

import math

import numpy as np
import pytest
from collection import WORDS, index_of, random_documents

from podium.search import WEIGHTINGS, Analyser, Extractor, Feature, Features, parse_weighting, register_weighting
from podium.search.features.kinds import feature_kinds


def poisson(tf, lengths, df, n_documents, average_length, *, c=1.0):
    """Raw frequencies, normalised by length, times idf; a term that is in a title of one word scores far above 256."""
    return tf * np.log1p(c * average_length / lengths) * 1000.0 * math.log(1 + n_documents / df)


@pytest.fixture
def registered():
    register_weighting("poisson", poisson, formula="1000 tf ln(1 + c avgdl / dl) ln(1 + N / df)", largest=2.0**20)
    yield "poisson"
    del WEIGHTINGS["poisson"]


def naive_scores(documents, query, c):
    """{document: score} of those with a term of the query, one by one."""
    average = sum(map(len, documents.values())) / len(documents)
    scores = {}
    for name, terms in documents.items():
        for term in query:
            if term in terms:
                df = sum(term in other for other in documents.values())
                idf = math.log(1 + len(documents) / df)
                value = terms.count(term) * math.log1p(c * average / len(terms)) * 1000.0 * idf
                scores[name] = scores.get(name, 0.0) + value
    return scores


@pytest.mark.parametrize("history", ["built", "segments", "merged"])
@pytest.mark.parametrize("field", ["whole", "title"])
def test_the_best_documents_are_those_of_a_naive_loop(registered, tmp_path, history, field):
    rng = np.random.default_rng(7)
    pages = random_documents(rng, 60)
    index = index_of(pages, tmp_path, history, rng)
    parts = ("title", "body") if field == "whole" else (field,)
    documents = {
        name: [term for part in parts for term, _ in Analyser().terms(page[part])] for name, page in pages.items()
    }
    for k, n_terms, c in ((1, 1, 1.0), (5, 3, 1.0), (5, 4, 2.5), (100, 9, 1.0)):
        query = rng.choice(WORDS, n_terms).tolist()
        expected = naive_scores(documents, query, c)
        assert max(expected.values()) > 256
        for hits in (
            index.search(" ".join(query), k, weighting=f"poisson(c={c})", fields=field),
            index.search_many([" ".join(query)], k, weighting=f"poisson(c={c})", fields=field)[0],
        ):
            assert len(hits) == min(k, len(expected))
            np.testing.assert_allclose(hits.scores, sorted(expected.values(), reverse=True)[:k], atol=1e-2)
            assert [expected[id] for id in hits.ids] == pytest.approx(hits.scores, abs=1e-2)
        extractor = Extractor(index, Features([Feature("score", "poisson", field, {"c": c})]))
        values = extractor.values(" ".join(query), hits.documents)[:, 0]
        np.testing.assert_allclose(values, [expected[id] for id in hits.ids], rtol=1e-6)


def test_a_registered_weighting_is_printed_and_a_kind_of_features(registered):
    assert str(parse_weighting("poisson(c=3)")) == "poisson(c=3)"
    assert feature_kinds()["poisson"].formula.endswith("1000 tf ln(1 + c avgdl / dl) ln(1 + N / df)")
    with pytest.raises(ValueError, match="parameter of poisson must be one of c; got 'k1'"):
        parse_weighting("poisson(k1=3)")


def test_a_name_stands_for_one_object(registered):
    register_weighting("poisson", poisson, formula="the same object again changes nothing")
    for name in ("poisson", "bm25"):
        with pytest.raises(ValueError, match=f"'{name}' is the name of a weighting already, "):
            register_weighting(name, lambda tf, lengths, df, n, average: tf, formula="tf")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda tf, lengths, df, n, average: -tf, "scores of a term from 0 to below 256; got -"),
        (lambda tf, lengths, df, n, average: tf / 0.0, "scores of a term from 0 to below 256; got inf"),
        (lambda tf, lengths, df, n, average: 1.0, "one score per posting"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(tmp_path, function, message):
    rng = np.random.default_rng(7)
    index = index_of(random_documents(rng, 9), tmp_path, "built", rng)
    register_weighting("bad", function, formula="none")
    try:
        with np.errstate(divide="ignore"), pytest.raises(ValueError, match=message):
            index.search(WORDS[0], weighting="bad")
    finally:
        del WEIGHTINGS["bad"]
