"""Faults of a built site: links and anchors that lead nowhere, ids that stand twice, and what a browser would fetch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "use": "href"}
FETCHED_LINKS = ("stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest")
IN_STYLES = re.compile(r"url\(\s*[\"']?((?:https?:)?//[^)\"']+)|@import\s+(?:url\()?[\"']?((?:https?:)?//[^)\"';]+)")
ELSEWHERE = re.compile(r"(?:https?:)?//")


@dataclass
class Page(HTMLParser):
    """What one page has and points to."""

    path: Path
    ids: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)  # of links, and of files of this site
    fetched: list[str] = field(default_factory=list)  # from elsewhere

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if "id" in values:
            self.ids.append(values["id"])
        self.fetched += [match[0] for match in IN_STYLES.finditer(values.get("style", ""))]
        if tag == "a":
            self._link(values.get("href", ""))
        elif tag == "link":
            self._file(values.get("href", ""), fetched=any(kind in values.get("rel", "") for kind in FETCHED_LINKS))
        elif tag in FETCHED:
            self._file(values.get(FETCHED[tag]) or values.get("xlink:href", ""), fetched=True)

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.fetched += [match[0] for match in IN_STYLES.finditer(data)]

    def _link(self, target: str) -> None:
        if target and not re.match(r"[a-z][a-z0-9+.-]*:", target) and not target.startswith("//"):
            self.targets.append(target)

    def _file(self, target: str, fetched: bool) -> None:
        if fetched and ELSEWHERE.match(target):
            self.fetched.append(target)
        elif not target.startswith("data:"):
            self._link(target)


def faults_of(site: Path) -> list[str]:
    """One line per fault, in the order of the pages."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    lines = [f"{page.path.relative_to(site)}: {fault}" for page in pages.values() for fault in _faults(page, pages)]
    for path in sorted(site.rglob("*.css")):
        found = IN_STYLES.finditer(path.read_text("utf-8"))
        lines += [f"{path.relative_to(site)}: fetches {match[0]}" for match in found]
    return lines


def _faults(page: Page, pages: dict[Path, Page]) -> list[str]:
    twice = sorted({name for name in page.ids if page.ids.count(name) > 1})
    faults = [f"id {name!r} stands twice" for name in twice]
    faults += [f"fetches {target}" for target in page.fetched]
    for target in dict.fromkeys(page.targets):
        address, anchor = urldefrag(unquote(target))
        path = (page.path.parent / address.partition("?")[0]).resolve() if address else page.path.resolve()
        if not path.exists():
            faults.append(f"link to {target}: no such file")
        elif anchor and path in pages and anchor not in pages[path].ids:
            faults.append(f"link to {target}: no such anchor")
    return faults
