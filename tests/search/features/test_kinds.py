"""Kinds of features: one row each; a user's function becomes one, in Python and in TOML."""

import numpy as np
import pytest
from collection import WORDS, index_of, random_documents

from podium.search import Extractor, Feature, Features, parse_weighting, register_feature
from podium.search.features.kinds import _KINDS, feature_kinds
from podium.search.retrieval.formulas import SATURATION_TEXT, saturated

K1, B = 0.9, 0.4


def long_title(documents, *, field, limit, unit="terms"):
    """1 where the field has more than `limit` terms."""
    assert unit == "terms"
    return documents.index.field(field).lengths[documents.documents] > limit


@pytest.fixture
def registered():
    register_feature("long", long_title, formula="whether the field has more than `limit` terms")
    yield "long"
    del _KINDS["long"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    rng = np.random.default_rng(7)
    return index_of(random_documents(rng, 40), tmp_path_factory.mktemp("index"), "built", rng)


def test_a_registered_function_is_a_kind_in_python_and_in_toml(registered, index):
    features = Features([Feature("dl", "dl", "title")]).add("long title", "long", "title", limit=2)
    read = Features.from_toml(features.to_toml())
    assert read == features
    values = Extractor(index, read).values(WORDS[0], np.arange(40))
    np.testing.assert_array_equal(values[:, 1], values[:, 0] > 2)
    assert read.features[1].formula == "whether the field has more than `limit` terms"


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"field": "title"}, "kind long needs limit"),
        ({"limit": 2}, "field must be one of"),
        ({"field": "title", "limit": "2"}, "limit must be a finite number"),
        ({"field": "title", "limit": 2, "unit": 3}, "unit must be text"),
        ({"field": "title", "limit": 2, "width": 3}, "setting must be one of limit, unit"),
    ],
)
def test_settings_of_a_registered_kind_are_checked(registered, declared, message):
    with pytest.raises(ValueError, match=message):
        Features.letor().add("long title", "long", **declared)


def test_a_name_stands_for_one_kind(registered):
    register_feature("long", long_title, formula="whether the field has more than `limit` terms")
    for name in ("long", "tf", "bm25"):
        with pytest.raises(ValueError, match=f"'{name}' is the name of a kind of features already, podium"):
            register_feature(name, lambda documents: documents.scores, formula="score")


def test_index_feature_and_printed_formula_have_one_saturation(index):
    field, weighting = index.field("body"), f"bm25(k1={K1}, b={B})"
    hits = index.search(WORDS[0], 40, weighting=weighting, fields="body")
    tf = np.array([field.frequency(WORDS[0], document) for document in hits.documents.tolist()], float)
    x = K1 * (1 - B + B * field.lengths[hits.documents] / field.average_length)
    expected = saturated(parse_weighting(weighting).per_term(field.statistics(WORDS[0]))[0], tf, x)
    np.testing.assert_allclose(hits.scores, expected, atol=2**-24)
    values = Extractor(index, Features([Feature("s", "bm25", "body", {"k1": K1, "b": B})])).values(
        WORDS[0], hits.documents
    )
    np.testing.assert_array_equal(values[:, 0], expected.astype(np.float32))
    for kind in ("bm25", "bm25-robertson", "bm25-atire", "bm25+"):
        assert SATURATION_TEXT in feature_kinds()[kind].formula
