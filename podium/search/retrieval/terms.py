"""The terms of a query: one rule for searches, features and snippets.

A query has at most 1,024 terms. They are counted in the order of the text, each distinct one once; a phrase counts as a
further one, and needs all its words. What has no room is named in a warning and left out, so that the time and memory
of a query are bounded, whatever its text.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from podium._runtime.warn import warn
from podium.search.analysis.analyser import Analyser
from podium.search.retrieval.syntax import Clause, is_plain, parse_query

MOST_TERMS = 1024
_MOST_NAMED, _LONGEST_NAME = 3, 40


class ClauseTerms(NamedTuple):
    """A clause, and its terms with their positions in it."""

    clause: Clause
    terms: list[tuple[str, int]]

    @property
    def is_phrase(self) -> bool:
        return self.clause.phrase and len(self.terms) > 1


def query_terms(text: str, analyser: Analyser) -> list[ClauseTerms]:
    """The clauses of a query with their terms; plain text is one clause."""
    clauses = [Clause(text)] if is_plain(text) else parse_query(text)
    limit, result = _Limit(), []
    for clause in clauses:
        clause_terms = ClauseTerms(clause, analyser.terms(clause.text))
        if clause_terms.is_phrase:
            fits = limit.has_room_for_phrase(clause_terms.terms)
            result.append(clause_terms if fits else ClauseTerms(clause, []))
        else:
            result.append(ClauseTerms(clause, [pair for pair in clause_terms.terms if limit.has_room(pair[0])]))
    limit.report()
    return result


def limited_words(words: list[str], analyser: Analyser) -> list[str]:
    """The words of a plain query whose terms have room: those that `query_terms` has."""
    if len(words) <= MOST_TERMS:
        return words
    limit = _Limit()
    pairs = zip(words, analyser.terms_of(words))
    words = [word for word, term in pairs if term is not None and limit.has_room(term)]
    limit.report()
    return words


class _Limit:
    """Counts distinct terms and phrases up to the most."""

    def __init__(self) -> None:
        self._counted: set[Hashable] = set()
        self._left_out: dict[Hashable, str] = {}

    def has_room(self, term: str) -> bool:
        return self._count({term}, term, term)

    def has_room_for_phrase(self, terms: list[tuple[str, int]]) -> bool:
        words, key = [term for term, _ in terms], tuple(terms)
        if len(words) > MOST_TERMS:  # repeated words make a phrase longer, and its search slower
            self._left_out[key] = _phrase_name(words)
            return False
        return self._count({key, *words}, key, _phrase_name(words))

    def _count(self, wanted: set[Hashable], key: Hashable, name: str) -> bool:
        wanted = wanted - self._counted
        if len(self._counted) + len(wanted) > MOST_TERMS:
            self._left_out[key] = name
            return False
        self._counted |= wanted
        return True

    def report(self) -> None:
        if self._left_out:
            names = [name[:_LONGEST_NAME] for name in list(self._left_out.values())[:_MOST_NAMED]]
            more = ", ..." if len(self._left_out) > _MOST_NAMED else ""
            warn(
                f"a query may have {MOST_TERMS:,} terms; {len(self._left_out):,} more were left out "
                f"({', '.join(map(repr, names))}{more}). Shorten the query."
            )


def _phrase_name(words: list[str]) -> str:
    return " ".join(words[:_LONGEST_NAME])
