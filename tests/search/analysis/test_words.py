"""Words: the byte tokeniser gives the words of the definition, whatever the text."""

import random
import re
import unicodedata

import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from podium.search.analysis import words
from podium.search.analysis.analyser import Analyser, normalise
from podium.search.analysis.words import TermNumbers, Vocabulary
from tests.scaling import assert_doubling_is_cheap

ODD = "aZ09_ .-\t\n\0'éßÄжЩё中あ़️ﬁ²½𝔘İıſẞǅΣς\u200d\u0301\ud800"


def defined(text):
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def spelled(vocabulary, texts):
    numbers, ends = vocabulary.numbers(texts)
    known = vocabulary.words()
    return [[known[number] for number in part] for part in np.split(numbers, ends[:-1])]


@given(st.lists(st.text(st.sampled_from(ODD), max_size=40) | st.text(max_size=40), min_size=1, max_size=8))
def test_the_tokeniser_gives_the_words_of_the_definition(texts):
    assert spelled(Vocabulary(), texts) == [defined(text) for text in texts]


@given(st.lists(st.lists(st.text("abC1_", min_size=1, max_size=30), max_size=6), max_size=12))
def test_words_of_any_length_are_told_apart(texts):
    """Up to 8 bytes a word is its own key; longer ones are compared."""
    vocabulary, seen = Vocabulary(), []
    for own in texts:
        lowered = [word.lower() for word in own]
        seen += lowered
        assert spelled(vocabulary, [" ".join(own)]) == [lowered]
    assert vocabulary.words() == list(vocabulary.texts()) == list(dict.fromkeys(seen))


@pytest.mark.parametrize(("threads", "most"), [(1, 10**6), (2, 10**6), (5, 10**6), (1, 1), (2, 100), (1, 2000)])
def test_threads_and_chunks_change_no_number(rng, monkeypatch, threads, most):
    """Words that appear for the first time in several parts at once, and parts without any text."""
    texts = [" ".join(f"w{number}" * 2 for number in rng.integers(0, 50, size)) for size in [0, 3, 400, 0, 7, 90, 1]]
    expected, ends = Vocabulary().numbers(texts)
    monkeypatch.setattr(words, "_WORTH_THREADS", 0)
    monkeypatch.setattr(words, "_MOST_AT_ONCE", most)
    monkeypatch.setattr(words, "usable_threads", lambda n_jobs: threads)
    vocabulary = Vocabulary()
    for _ in range(2):
        found, found_ends = vocabulary.numbers(texts)
        assert found.tolist() == expected.tolist()
        assert found_ends.tolist() == ends.tolist()


@pytest.mark.parametrize("language", ["english", "porter", "none"])
def test_terms_are_those_of_the_definition(rng, language):
    """Also where a stem is empty, as that of s is by porter."""
    analyser = Analyser(language)
    numbers = TermNumbers(analyser)
    letters = np.array(list("sieng"))
    for _ in range(3):
        texts = [
            " ".join("".join(rng.choice(letters, rng.integers(1, 6))) for _ in range(40)) + " the" for _ in range(5)
        ]
        found, _ = numbers.numbers(texts)
        expected = [term for text in texts for term in analyser.terms_of(text.split())]
        assert [None if number < 0 else numbers.terms[number] for number in found] == expected
    assert len(set(numbers.terms)) == len(numbers.terms)


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


def test_many_combining_marks_are_normalised_as_by_nfkc():
    """They are put in order before; NFKC's own way takes time with the square of their number."""
    rng = random.Random(0)
    marks = ["\u0300", "\u0316", "\u0344", "\u0f73", "\u0345", "\u3099", "\ufb1e", "\u034f", "\u2126", "\u1dc0"]
    for _ in range(300):
        sizes = rng.choices([0, 1, 31, 32, 33, 300], k=4)
        text = "".join(rng.choice(["a", "é", "ế", " ", "か"]) + "".join(rng.choices(marks, k=size)) for size in sizes)
        assert normalise(text) == unicodedata.normalize("NFKC", text).casefold()
    assert_doubling_is_cheap(normalise, lambda n: "a" + "\u0300\u0316" * n, 10_000)
