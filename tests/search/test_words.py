"""Words: the byte tokeniser gives the words of the definition, whatever the text."""

import re
import unicodedata

import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from podium.search.analysis import Analyser
from podium.search.words import TermNumbers, Vocabulary

ODD = "aZ09_ .-\t\n\0'éßÄжЩё中あ़️ﬁ²½𝔘İıſẞǅΣς\u200d\u0301\ud800"


def defined(text):
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def spelled(vocabulary, texts):
    numbers, ends = vocabulary.numbers(texts)
    words = vocabulary.words()
    return [[words[number] for number in part] for part in np.split(numbers, ends[:-1])]


@given(st.lists(st.text(st.sampled_from(ODD), max_size=40) | st.text(max_size=40), min_size=1, max_size=8))
def test_the_tokeniser_gives_the_words_of_the_definition(texts):
    assert spelled(Vocabulary(), texts) == [defined(text) for text in texts]


def test_every_character_is_split_as_the_definition_says():
    texts = [f"a{chr(code)}b {chr(code)}" for code in range(0x3000)]
    assert spelled(Vocabulary(), texts) == [defined(text) for text in texts]


def test_words_keep_their_numbers_while_the_table_grows():
    rng, vocabulary = np.random.default_rng(1), Vocabulary()
    for _ in range(6):
        texts = [" ".join(f"w{number}" for number in rng.integers(0, 40_000, 3000)) for _ in range(3)]
        assert spelled(vocabulary, texts) == [text.split() for text in texts]
    assert len(set(vocabulary.words())) == len(vocabulary)


def test_terms_are_stems_without_stop_words_at_their_positions():
    analyser, stemmer = Analyser(), Stemmer.Stemmer("english")
    text = "The theory of Relativity and the Theories"
    assert analyser.terms(text) == [
        (stemmer.stemWord("theory"), 1),
        (stemmer.stemWord("relativity"), 3),
        (stemmer.stemWord("theories"), 6),
    ]
    numbers = TermNumbers(analyser)
    found, ends = numbers.numbers([text, "", "of", "relative"])
    assert [None if number < 0 else numbers.terms[number] for number in found] == [
        None, "theori", None, "relat", None, None, "theori", None, "relat",
    ]  # fmt: skip
    assert ends.tolist() == [7, 7, 8, 9]


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("russian", "Скорость света в вакууме", ["скорост", "свет", "вакуум"]),
        ("indonesian", "Pembelajaran mesin dan membaca", ["ajar", "mesin", "baca"]),
        ("none", "Running of the bulls", ["running", "of", "the", "bulls"]),
    ],
)
def test_languages(language, text, terms):
    assert [term for term, _ in Analyser(language).terms(text)] == terms


def test_stop_words_can_be_kept_and_unknown_languages_are_refused():
    assert [term for term, _ in Analyser(stop_words=False).terms("the light")] == ["the", "light"]
    with pytest.raises(ValueError, match=r"language must be one of .* got 'englsh'. Did you mean 'english'"):
        Analyser("englsh")
