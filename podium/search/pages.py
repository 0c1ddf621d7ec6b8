"""Pages: one document per file of plain text, Markdown or HTML, for folders. The id is the path within the folder."""

from __future__ import annotations

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from podium.search.documents import Document

_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")
PAGE_SUFFIXES = (".txt", ".text", *_MARKDOWN, *_HTML)
_HEADING = re.compile(r"^#+\s+(.*?)\s*#*\s*$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)[^)]*\)")
_SILENT = {"script", "style", "template", "noscript"}
_BLOCKS = {"p", "div", "br", "li", "tr", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "pre"}


def read_page(file: Path, name: str) -> Document:
    """A file as a document; links to other files of the folder become links to their ids."""
    try:
        text = file.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"expected UTF-8 text; found other bytes at byte {error.start}.") from error
    if "\0" in text:
        raise ValueError("expected text; found NUL bytes.")
    if file.suffix.lower() in _HTML:
        page = _Page()
        page.feed(text)
        page.close()
        title, body, links = page.result()
    elif file.suffix.lower() in _MARKDOWN:
        heading = _HEADING.search(text)
        title = heading[1] if heading else ""
        links = [(target, words) for words, target in _LINK.findall(text)]
        body = _LINK.sub(r"\1", text)
        if heading:
            body = body.replace(heading[0], "", 1)
    else:
        title, body, links = "", text, []
    return Document(name, body.strip(), title, "", [(_target(name, target), words) for target, words in links])


def _target(page: str, link: str) -> str:
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    path = unquote(link.partition("#")[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).lstrip("/")


class _Page(HTMLParser):
    """The title, the visible text and the links of HTML."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title: list[str] = []
        self._text: list[str] = []
        self._links: list[tuple[str, list[str]]] = []
        self._silent = 0
        self._in_title = self._in_link = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag == "title":
            self._in_title = True
        elif tag == "a" and dict(attrs).get("href"):
            self._in_link = True
            self._links.append((dict(attrs)["href"] or "", []))
        elif tag in _BLOCKS:
            self._text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "title":
            self._in_title = False
        elif tag == "a":
            self._in_link = False
        elif tag in _BLOCKS:
            self._text.append("\n")

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._in_title:
            self._title.append(data)
            return
        self._text.append(data)
        if self._in_link:
            self._links[-1][1].append(data)

    def result(self) -> tuple[str, str, list[tuple[str, str]]]:
        lines = (" ".join(line.split()) for line in "".join(self._text).split("\n"))
        links = [(target, " ".join("".join(words).split())) for target, words in self._links]
        return " ".join("".join(self._title).split()), "\n".join(filter(None, lines)), links
