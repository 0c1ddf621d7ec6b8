"""Snippets: the part of a text with the most of the query's terms, and where they are in it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from podium.search.analysis import Analyser, split_words

_PIECE = re.compile(r"\w+")


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
    """The `width` words of the text with the most different terms, then the most matches, then the earliest."""
    pieces = list(_PIECE.finditer(text))
    found = [_term_of(piece.group(), terms, analyser) for piece in pieces]
    if not pieces:
        return Snippet("", ())
    places = [place for place, term in enumerate(found) if term is not None]
    last = max(0, len(pieces) - width)
    starts = sorted({0, *(min(max(0, place - width // 4), last) for place in places)})
    best = max(starts, key=lambda start: (*_worth(found[start : start + width]), -start))
    end = min(best + width, len(pieces))
    first, stop = pieces[best].start(), pieces[end - 1].end()
    inside = [pieces[place] for place in places if best <= place < end]
    matches = tuple((piece.start() - first, piece.end() - first) for piece in inside)
    return Snippet(text[first:stop], matches)


def _term_of(piece: str, terms: set[str], analyser: Analyser) -> str | None:
    """A term of the query that these letters contain. NFKC can make several words of them."""
    own = analyser.terms_of(split_words(piece))
    return next((term for term in own if term in terms), None)


def _worth(found: list[str | None]) -> tuple[int, int]:
    matches = [term for term in found if term is not None]
    return len(set(matches)), len(matches)
