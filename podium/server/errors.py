"""Refusals: every request that is not answered gets the same JSON, with the place of the problem and what was expected.

{"error": {"status": 400, "code": "bad_request", "message": "features[3][2]: expected a number; got 'x'. ...",
           "field": "features[3][2]", "expected": "a number", "request": "5f0c..."}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    429: "busy",
    500: "internal",
    503: "unavailable",
}
FAILED = "the service failed; its log has the reason."


@dataclass(eq=False)
class Refusal(Exception):
    """A request that is not answered, and why."""

    status: int
    message: str
    field: str | None = None  # of the request, such as features[3][2]
    expected: str | None = None
    retry_after: int | None = None  # seconds

    def __str__(self) -> str:
        return self.message

    def as_dict(self, request: str) -> dict[str, Any]:
        error: dict[str, Any] = {"status": self.status, "code": CODES[self.status], "message": self.message}
        details = {"field": self.field, "expected": self.expected, "retry_after": self.retry_after, "request": request}
        return {"error": error | {name: value for name, value in details.items() if value is not None}}


def wrong(field: str, expected: str, value: Any, advice: str = "") -> Refusal:
    """A part of the request that is not what was expected."""
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}..."
    return Refusal(400, f"{field}: expected {expected}; got {shown}.{f' {advice}' if advice else ''}", field, expected)


def unknown(field: str, what: str, name: Any, known: Any) -> Refusal:
    """A name that the service does not have; `what` is "model", "version" and the like."""
    from podium._runtime.words import did_you_mean

    names = ", ".join(sorted(known)) or "none"
    message = f"{field}: no {what} is called {str(name)[:60]!r}; there are: {names}.{did_you_mean(name, known)}"
    return Refusal(404, message, field, f"one of: {names}")
