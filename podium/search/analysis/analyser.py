r"""Analysis: from text to terms.

    words   all matches of \w+ in casefold(NFKC(text))
    terms   the words without stop words, each reduced to its stem

This is the definition, in Python. Indexing uses `words.py`, which gives the same words and handles each distinct one
once. A word keeps its position, also behind stop words, so that "theory of relativity" is found as written.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from typing import Any

from podium._runtime.words import check_choice
from podium.search.analysis.stopwords import STOP_WORDS

VERSION = 1  # to be raised with any change of the terms of a text: stored indexes are then refused

_WORD = re.compile(r"\w+")
_LONG = 256  # characters
_MANY_MARKS = re.compile(r"[^\w\x00-\x7f]{32,}")
PLAIN = "none"


def normalise(text: str) -> str:
    """The characters that words are made of."""
    if text.isascii():  # then NFKC changes nothing
        return text.lower()
    if _is_unbroken(text):
        text = _MANY_MARKS.sub(_in_order, text)
    return unicodedata.normalize("NFKC", text).casefold()


def _is_unbroken(text: str) -> bool:
    """Whether there are so many characters without a blank that they could be marks only; most texts have blanks."""
    place = 0
    while place < len(text) - _LONG:
        place = text.rfind(" ", place, place + _LONG) + 1
        if not place:
            return True
    return False


def _in_order(marks: re.Match[str]) -> str:
    """Combining marks in the order that NFKC gives them; for NFKC itself that takes the square of their number."""
    runs: list[list[str]] = [[]]
    for letter in "".join(unicodedata.normalize("NFKD", mark) for mark in marks[0]):
        if not unicodedata.combining(letter):
            runs.append([letter])  # what stands behind it is ordered by itself
        else:
            runs[-1].append(letter)
    return "".join(letter for run in runs for letter in sorted(run, key=unicodedata.combining))


def split_words(text: str) -> list[str]:
    r"""All matches of \w+ in casefold(NFKC(text))."""
    return _WORD.findall(normalise(text))


class Analyser:
    """Words to terms for one language: `english` (the default), any other of PyStemmer, or `none` for no stems."""

    def __init__(self, language: str = "english", stop_words: bool = True) -> None:
        import Stemmer

        check_choice("language", language, [*Stemmer.algorithms(), PLAIN])
        self.language, self.has_stop_words = language, bool(stop_words)
        self.stop_words = STOP_WORDS.get(language, frozenset()) if stop_words else frozenset()
        # Every distinct word is stemmed once and kept here, so the stemmer needs no memory of its own.
        self._stemmer: Any = None if language == PLAIN else Stemmer.Stemmer(language, 0)
        self._lock = threading.Lock()  # a stemmer works on one word at a time

    @property
    def name(self) -> str:
        """As it is stored in an index: `english`, or `english, all words`."""
        return self.language if self.has_stop_words else f"{self.language}, all words"

    def terms_of(self, words: Iterable[str]) -> list[str | None]:
        """One term per word; None for a stop word."""
        words = list(words)
        if self._stemmer is None:
            stems: list[str] = words
        else:
            with self._lock:
                stems = self._stemmer.stemWords(words)
        return [None if word in self.stop_words else stem for word, stem in zip(words, stems)]

    def terms(self, text: str) -> list[tuple[str, int]]:
        """The terms of a text with their positions."""
        found = enumerate(self.terms_of(split_words(text)))
        return [(term, position) for position, term in found if term is not None]

    def as_dict(self) -> dict[str, Any]:
        import Stemmer

        return {
            "language": self.language,
            "stop_words": self.has_stop_words,
            "version": VERSION,
            "stemmer": Stemmer.version(),
        }

    @classmethod
    def from_json(cls, facts: dict[str, Any], path: str) -> Analyser:
        """The analyser that an index was built with; refused where this version would give other terms."""
        if facts["version"] != VERSION:
            message = f"was built with version {facts['version']} of the text analysis; this version has {VERSION}"
            raise ValueError(f"{path} {message}. Build the index again with podium index.")
        try:
            analyser = cls(facts["language"], facts["stop_words"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        found = analyser.as_dict()["stemmer"]
        if analyser._stemmer is not None and facts["stemmer"] != found:
            message = f"was built with PyStemmer {facts['stemmer']}; installed is {found}, which may stem otherwise"
            raise ValueError(f"{path} {message}. Build the index again, or install PyStemmer {facts['stemmer']}.")
        return analyser
