"""Client: a running service from Python, with the standard library only.

client = podium.Client("http://127.0.0.1:8080")
answer = client.rank("products", X)          # answer.scores, answer.order
hits = client.search("coffee grinder")["hits"]
"""

from __future__ import annotations

import http.client
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import numpy as np

from podium.metrics.lists import order_by_score

_RAW, _JSON = "application/octet-stream", "application/json"
_LONGEST_WAIT = 10.0  # seconds between tries


class ServiceError(Exception):
    """A request that the service refused: `status`, `code`, `field` (of the request) and `retry_after` (seconds)."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", f"the service answered {status}.")))
        self.status, self.code = status, error.get("code")
        self.field, self.retry_after = error.get("field"), error.get("retry_after")
        self.request = error.get("request")


@dataclass(frozen=True, eq=False)
class RankAnswer:
    """`scores` in the order of the rows, with the bits of `predict`; `order` has rows, best first."""

    scores: np.ndarray
    order: np.ndarray
    request: str
    model: str  # the sha256 of the model file


class Client:
    """A service at an address such as "http://127.0.0.1:8080"; any number of threads may use one client.

    `retries` is how often a request is sent again that the service was too busy for (429), that came while it ended
    (503), or whose connection broke; the waits are those that the service asks for.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        user: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError(f'expected an address such as "http://127.0.0.1:8080"; got {address!r}.')
        self.address, self._parts = address.rstrip("/"), parts
        self._timeout, self._retries = timeout, retries
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._headers |= {} if user is None else {"X-User": user}
        self._idle: deque[http.client.HTTPConnection] = deque()

    def __repr__(self) -> str:
        return f"Client({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):  # not where the address was refused
            self.close()

    def close(self) -> None:
        """Close the connections; a later request opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def rank(self, model: str, X: Any) -> RankAnswer:
        """Score the rows of one query: X (documents, features), NaN where a value is missing."""
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.dtype.kind not in "fiu":
            raise ValueError(f"X must be an array of numbers (documents, features); got {rows.dtype}, {rows.shape}.")
        body = np.ascontiguousarray(rows, dtype="<f4").tobytes()
        headers, content = self._ask("POST", f"/v1/models/{quote(model, safe='')}:rank", body, _RAW)
        scores = np.frombuffer(content, "<f8").astype(np.float64)
        order = order_by_score(scores, np.array([0, len(scores)]), 1)
        return RankAnswer(scores, order, headers["x-request-id"], headers["x-model-sha256"])

    def search(self, query: str, k: int = 10, *, system: str | None = None, **options: Any) -> dict[str, Any]:
        """The k best documents; `snippets=True` adds titles and texts, `features=True` what the model saw."""
        return self._json("POST", "/v1/search", {"q": query, "k": k, "system": system, **options})

    def explain(self, query: str, k: int = 10, *, system: str | None = None, why: Any = None) -> dict[str, Any]:
        """What features add to the scores of the best k; `why=(a, b)`: why document a is above document b."""
        asked = {"q": query, "k": k, "system": system, "why": None if why is None else list(why)}
        return self._json("POST", "/v1/explain", asked)

    def click(self, request: str, document: str, position: int, **facts: Any) -> None:
        """A document of an answer was clicked; returns when the disk of the service has it."""
        self.feedback([{"kind": "click", "request": request, "document": document, "position": position, **facts}])

    def judge(self, query: str, document: str, label: float, **facts: Any) -> None:
        """Somebody's judgement; returns when the disk of the service has it."""
        self.feedback([{"kind": "judgement", "query": query, "document": document, "label": label, **facts}])

    def feedback(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Clicks and judgements, as /v1/feedback takes them."""
        self._json("POST", "/v1/feedback", {"events": [dict(event) for event in events]})

    def models(self) -> list[dict[str, Any]]:
        """What is served."""
        models: list[dict[str, Any]] = self._json("GET", "/v1/models")["models"]
        return models

    def load(self, name: str, version: str, role: str = "live") -> dict[str, Any]:
        """Put a version of the service's folder in a role: live, canary or shadow."""
        return self._json("POST", f"/v1/models/{quote(name, safe='')}:load", {"version": version, "role": role})

    def is_ready(self) -> bool:
        """Whether requests are taken."""
        try:
            status, _, _ = self._send("GET", "/readyz", b"", "")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Any address that answers JSON."""
        return self._json("GET", f"{path}?{urlencode(parameters)}" if parameters else path)

    def _json(self, method: str, path: str, content: Any = None) -> dict[str, Any]:
        body = b"" if content is None else json.dumps(content).encode()
        _, answer = self._ask(method, path, body, _JSON if body else "")
        values: dict[str, Any] = json.loads(answer)
        return values

    def _ask(self, method: str, path: str, body: bytes, kind: str) -> tuple[dict[str, str], bytes]:
        """Headers and body of an answer; again, where that can help."""
        for left in range(self._retries, -1, -1):
            try:
                status, headers, content = self._send(method, path, body, kind)
            except (OSError, http.client.HTTPException):
                if left == 0 or (method == "POST" and path == "/v1/feedback"):  # which would be recorded twice
                    raise
                continue
            if status == 200:
                return headers, content
            error = _error_of(status, content)
            if status not in (429, 503) or left == 0:
                raise error
            time.sleep(min(_LONGEST_WAIT, error.retry_after or 1))
        raise AssertionError  # the loop returns or raises

    def _send(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, dict[str, str], bytes]:
        connection = self._connection()
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return response.status, {name.lower(): value for name, value in response.getheaders()}, content

    def _connection(self) -> http.client.HTTPConnection:
        """One that no other thread uses."""
        try:
            return self._idle.pop()
        except IndexError:
            parts = self._parts
            make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            return make(str(parts.hostname), parts.port, timeout=self._timeout)


def _error_of(status: int, content: bytes) -> ServiceError:
    try:
        error = json.loads(content)["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": f"the service answered {status}: {content[:200].decode('utf-8', 'replace')}"}
    return ServiceError(status, error)
