"""Snippets: the part of a text with the most of the query's terms, and where they are in it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice

from podium.search.analysis.analyser import Analyser, split_words

MOST_CHARACTERS = 50_000  # of a text that are considered
_MOST_SOUGHT = 4  # terms that are looked for behind them
_PIECE, _INSIDE = re.compile(r"\w+"), re.compile(r"\w\w")


@dataclass(frozen=True)
class Snippet:
    """A part of a document's text, with places (start, end) of the words that match."""

    text: str
    matches: tuple[tuple[int, int], ...]

    def marked(self, before: str = "**", after: str = "**") -> str:
        """The text with marks around the words that match."""
        parts, last = [], 0
        for start, end in self.matches:
            parts += [self.text[last:start], before, self.text[start:end], after]
            last = end
        return "".join([*parts, self.text[last:]])

    def __str__(self) -> str:
        return self.marked()


def make_snippet(text: str, terms: set[str], analyser: Analyser, width: int = 30) -> Snippet:
    """The `width` words of the text with the most different terms, then the most matches, then the earliest.

    The time is bounded: of a long text, the first characters are considered; if these have no term, those around the
    next place with the letters of one.
    """
    beginning = _excerpt(text, 0)
    snippet = _snippet_of(beginning, terms, analyser, width)
    if snippet.matches or len(text) <= MOST_CHARACTERS:
        return snippet
    later = [position for term in sorted(terms)[:_MOST_SOUGHT] if (position := text.find(term, len(beginning))) >= 0]
    if not later:
        return snippet
    other = _snippet_of(_excerpt(text, max(0, min(later) - MOST_CHARACTERS // 2)), terms, analyser, width)
    return other if other.matches else snippet


def _snippet_of(text: str, terms: set[str], analyser: Analyser, width: int) -> Snippet:
    pieces = _PIECE.findall(text)
    if not pieces:
        return Snippet("", ())
    term_of = _terms_of(set(pieces), terms, analyser)
    places = [number for number, piece in enumerate(pieces) if piece in term_of]
    best = _best_start(places, [term_of[pieces[number]] for number in places], len(pieces), width)
    inside = list(islice(_PIECE.finditer(text), best, best + width))
    first, stop = inside[0].start(), inside[-1].end()
    matches = tuple((one.start() - first, one.end() - first) for one in inside if one.group() in term_of)
    return Snippet(text[first:stop], matches)


def _excerpt(text: str, start: int) -> str:
    """At most MOST_CHARACTERS, without words that are cut in two, unless there are no others."""
    end = min(start + MOST_CHARACTERS, len(text))
    whole = part = text[start:end]
    if start > 0 and _INSIDE.match(text, start - 1):
        part = part[_PIECE.match(part).end() :]  # type: ignore[union-attr]
    if part and end < len(text) and _INSIDE.match(text, end - 1):
        part = part[: -_PIECE.match(part[::-1]).end()]  # type: ignore[union-attr]
    return part or whole


def _terms_of(pieces: set[str], terms: set[str], analyser: Analyser) -> dict[str, str]:
    """The pieces that contain a term of the query, and which. NFKC can make several words of one piece."""
    owners, words = [], []
    for piece in pieces:
        of_piece = [piece.lower()] if piece.isascii() else split_words(piece)  # ASCII letters are one word
        words += of_piece
        owners += [piece] * len(of_piece)
    term_of: dict[str, str] = {}
    for piece, term in zip(owners, analyser.terms_of(words)):
        if term in terms:
            term_of.setdefault(piece, term)
    return term_of


def _best_start(places: list[int], terms: list[str], n_pieces: int, width: int) -> int:
    """Where the best window begins, among 0 and those with a match after a quarter of their words."""
    starts = sorted({0, *(min(max(0, number - width // 4), max(0, n_pieces - width)) for number in places)})
    inside: Counter[str] = Counter()  # terms of the window, which moves over places[low:high]
    low = high = best = 0
    most = (-1, -1)
    for start in starts:
        while high < len(places) and places[high] < start + width:
            inside[terms[high]] += 1
            high += 1
        while low < high and places[low] < start:
            inside[terms[low]] -= 1
            if not inside[terms[low]]:
                del inside[terms[low]]
            low += 1
        if (len(inside), high - low) > most:
            best, most = start, (len(inside), high - low)
    return best
