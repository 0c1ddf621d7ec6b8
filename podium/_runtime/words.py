"""Words for people: the nearest name to a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def did_you_mean(word: Any, choices: Iterable[str], cutoff: float = 0.6) -> str:
    """A sentence to put behind an error, or nothing: `" Did you mean 'ndcg'?"`."""
    near = get_close_matches(str(word), list(choices), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def check_choice(what: str, given: Any, choices: Iterable[str]) -> None:
    """Refuse a name that is none of the choices."""
    choices = list(choices)
    if given not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}; got {given!r}.{did_you_mean(given, choices)}")


def counted(number: int, one: str, several: str | None = None) -> str:
    """`counted(1, "row")` -> `1 row`, `counted(2000, "query", "queries")` -> `2,000 queries`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
