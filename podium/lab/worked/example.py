"""Example: a number that a source prints, the arithmetic that a reader can redo, and what Podium computes.

A `number` is printed by the source and agrees if ours rounds to it. A `formula` is printed without numbers: it is
evaluated as printed at inputs chosen here, and agrees if ours is equal to that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from podium.lab.worked.arithmetic import decimals_of, value_of

RANKNET = "Lecture on RankNet, LambdaRank and LambdaMART (in Indonesian)"
SURVEY = "Lecture on learning to rank (in Russian)"
MARGINS = "Lecture on support vector machines for ranking (in Indonesian)"
DERIVATIVES = "Notes on the derivatives of LambdaMART"
LIGHTGBM = "Paper on LightGBM and MQ2008 (in Indonesian)"
SOURCES = RANKNET, SURVEY, MARGINS, DERIVATIVES, LIGHTGBM

Kind = Literal["number", "formula"]
_EQUAL = 2e-6  # gradients and leaf values are float32


@dataclass(frozen=True)
class Example:
    """One line of the table. `slip` says why the source differs, where it does."""

    source: str
    kind: Kind
    what: str
    printed: str  # arithmetic
    by_hand: str  # arithmetic
    ours: float
    slip: str = ""

    @property
    def printed_value(self) -> float:
        return value_of(self.printed)

    @property
    def expected(self) -> float:
        return value_of(self.by_hand)

    @property
    def is_expected(self) -> bool:
        """Whether Podium computes what the arithmetic gives."""
        return _equal(self.ours, self.expected)

    @property
    def agrees(self) -> bool:
        """Whether ours is what the source prints, to the digits printed."""
        decimals = decimals_of(self.printed) if self.kind == "number" else None
        if decimals is None:
            return _equal(self.ours, self.printed_value)
        return abs(self.ours - self.printed_value) <= 0.5 * 10.0**-decimals + 1e-9

    @property
    def digits(self) -> int:
        """How many decimals are shown: those printed, and at least four."""
        return max(4, (decimals_of(self.printed) or 0) if self.kind == "number" else 0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "kind": self.kind,
            "what": self.what,
            "printed": self.printed,
            "printed_value": self.printed_value,
            "by_hand": self.by_hand,
            "expected": self.expected,
            "ours": self.ours,
            "is_expected": self.is_expected,
            "agrees": self.agrees,
            "slip": self.slip,
        }


def number(source: str, what: str, printed: str, by_hand: str, ours: float, slip: str = "") -> Example:
    """A number that the source prints."""
    return Example(source, "number", what, printed, by_hand, float(ours), slip)


def formula(source: str, what: str, printed: str, by_hand: str, ours: float, slip: str = "") -> Example:
    """A formula of the source, at inputs of ours."""
    return Example(source, "formula", what, printed, by_hand, float(ours), slip)


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_EQUAL, abs_tol=_EQUAL)
