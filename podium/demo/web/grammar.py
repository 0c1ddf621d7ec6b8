"""Patterns to sentences: "[Good|Fine] {x}" has alternatives in brackets, which may be nested, and slots in braces."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")


class Draws:
    """Random choices. Only `random()` is used, whose numbers Python promises to keep for a seed."""

    def __init__(self, seed: int) -> None:
        self.uniform = random.Random(seed).random

    def below(self, n: int) -> int:
        return int(self.uniform() * n)

    def between(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, share: float) -> bool:
        return self.uniform() < share

    def pick(self, items: Sequence[_Item]) -> _Item:
        return items[self.below(len(items))]

    def some(self, items: Sequence[_Item], n: int) -> list[_Item]:
        """n of the items at most, in random order, none twice."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(n, len(left)))]

    def ordered(self, items: Sequence[_Item], n: int) -> list[_Item]:
        """n of the items at most, in their order."""
        return [items[number] for number in sorted(self.some(range(len(items)), n))]


def expand(pattern: str, draws: Draws, slots: Mapping[str, str]) -> str:
    """One of the sentences of a pattern; it begins with a capital letter if it ends as a sentence does."""
    while "[" in pattern:
        pattern = _ALTERNATIVES.sub(lambda match: draws.pick(match[1].split("|")), pattern)
    text = pattern.format_map(slots) if "{" in pattern else pattern
    return text[:1].upper() + text[1:] if text.endswith((".", "!", "?", ":", '"')) else text
