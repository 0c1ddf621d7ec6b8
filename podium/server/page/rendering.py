"""Rendering: templates to HTML, the files beside them, and errors for people."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from podium.server.errors import Refusal

_FOLDER = Path(__file__).parent
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
HTML = "text/html; charset=utf-8"
_TITLES = {
    400: "This request cannot be answered",
    401: "The token is needed",
    403: "Refused",
    404: "Not here",
    429: "Busy",
    503: "Not available now",
}


def _read(name: str) -> tuple[bytes, str]:
    path = _FOLDER / "static" / name
    return path.read_bytes(), _KINDS[path.suffix]


STATIC: Mapping[str, tuple[bytes, str]] = {name: _read(name) for name in ("page.css", "page.js", "icon.svg")}
_DIGESTS = {name: hashlib.sha256(content).hexdigest()[:12] for name, (content, _) in STATIC.items()}


def static_address(name: str) -> str:
    """Another content has another address, so that browsers can keep what they have."""
    return f"/static/{name}?v={_DIGESTS[name]}"


def _signed(value: float | None, digits: int = 3) -> str:
    return "missing" if value is None else f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _plain(value: float | None) -> str:
    return "missing" if value is None else f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _alpha(value: float) -> str:
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = static_address
    environment.filters |= {"signed": _signed, "plain": _plain, "alpha": _alpha}
    return environment


_ENVIRONMENT = _environment()


def html_of(template: str, values: Mapping[str, Any]) -> str:
    return _ENVIRONMENT.get_template(template).render(values)


def page(text: str, status: int = 200) -> Response:
    """An answer of HTML. What is in it belongs to one visitor."""
    return Response(text, status, {"cache-control": "private, no-cache"}, HTML)


def error_page(refusal: Refusal, request: str) -> bytes:
    """The refusal in words."""
    title = _TITLES.get(refusal.status, "This did not work")
    values = {"refusal": refusal, "title": title, "request_id": request, "has_session": False}
    return html_of("error.html", values).encode()


def prefers_html(accept: str) -> bool:
    """Whether HTML is named, with a higher quality than JSON."""
    qualities = {"text/html": 0.0, "application/json": 0.0}
    for item in accept.lower().split(","):
        kind, *options = [part.strip() for part in item.split(";")]
        if kind in qualities:
            qualities[kind] = max(qualities[kind], _quality(options))
    return qualities["text/html"] > qualities["application/json"]


def _quality(options: list[str]) -> float:
    text = next((option[2:] for option in options if option.startswith("q=")), "1")
    try:
        return float(text)
    except ValueError:
        return 0.0
