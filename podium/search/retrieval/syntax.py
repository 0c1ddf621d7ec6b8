"""Query syntax: words, "phrases", +must, -not and field:word. Everything else is text, so any text is a query.

    +laser "speed of light" -title:sound    ->  laser must occur, the phrase may, sound must not be in the title

A sign counts at the beginning of a word only, a field only if there is one of this name, a quotation mark only with a
second one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FIELD_NAMES = "whole|body|title|anchor|url"
_CLAUSE = re.compile(rf'([+-](?=["\w]))?(?:({FIELD_NAMES}):(?=["\w]))?(?:"([^"]*)"|([^\s"]+))')


@dataclass(frozen=True)
class Clause:
    """A part of a query: a text, in a field or in those searched (None), and whether it must, may or must not occur."""

    text: str
    field: str | None = None
    phrase: bool = False
    must: bool = False
    must_not: bool = False


def is_plain(text: str) -> bool:
    """Whether a text has nothing that could be syntax."""
    return not ('"' in text or ":" in text or "+" in text or "-" in text)


def parse_query(text: str) -> list[Clause]:
    """The clauses of a query; any text has some."""
    clauses = []
    for match in _CLAUSE.finditer(text):
        sign, name, phrase, word = match.groups()
        begins = match.start() == 0 or text[match.start() - 1].isspace()
        if not begins:  # a+b, and what stands behind a closing quotation mark
            sign = None
        content = word if phrase is None else phrase
        clauses.append(Clause(content, name, phrase is not None, sign == "+", sign == "-"))
    return clauses
