"""Pages: one document per file of plain text, Markdown or HTML, for folders. The id is the path within the folder."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from podium.search.documents.document import Document
from podium.search.documents.markup import html_tokens

_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")
PAGE_SUFFIXES = (".txt", ".text", *_MARKDOWN, *_HTML)
_LINK_TEXT = re.compile(r"\[([^\[\]]*)\]\((?=[^)\s])")
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
        title, body, links = _html(text)
    elif file.suffix.lower() in _MARKDOWN:
        title, body, links = _markdown(text)
    else:
        title, body, links = "", text, []
    return Document(name, body.strip(), title, "", [(_target(name, target), words) for target, words in links])


Links = list[tuple[str, str]]  # target, words


def _markdown(text: str) -> tuple[str, str, Links]:
    """The first heading is the title."""
    lines = text.split("\n")
    number, heading = next(
        ((number, words) for number, line in enumerate(lines) if (words := _heading(line))), (-1, "")
    )
    if number >= 0:
        del lines[number]
    title, of_title = _without_links(heading)
    body, of_body = _without_links("\n".join(lines))
    return title, body, of_title + of_body


def _heading(line: str) -> str:
    """`## Wings ##` -> `Wings`; nothing for any other line. `# C#` is about C#."""
    text = line.lstrip("#")
    if text == line or not text[:1].isspace():
        return ""
    text = text.strip()
    closed = text.rstrip("#")
    return closed.rstrip() if closed[-1:].isspace() or not closed else text


def _without_links(text: str) -> tuple[str, Links]:
    """`[words](target "title")` -> `words`, and the links."""
    parts: list[str] = []
    links: Links = []
    done = 0
    for link in _LINK_TEXT.finditer(text):
        if link.start() < done:
            continue
        end = text.find(")", link.end())
        if end < 0:
            break
        parts += [text[done : link.start()], link[1]]
        links.append((text[link.end() : end].split(None, 1)[0], link[1]))
        done = end + 1
    return "".join([*parts, text[done:]]), links


def _html(text: str) -> tuple[str, str, Links]:
    page = _Page()
    for token in html_tokens(text):
        if token.kind == "text":
            page.add(token.text)
        elif token.kind == "start":
            page.start(token.text, token.attributes)
        else:
            page.end(token.text)
    return page.result()


def _target(page: str, link: str) -> str:
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    path = unquote(link.partition("#")[0])
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)).lstrip("/")


class _Page:
    """The title, the visible text and the links of HTML."""

    def __init__(self) -> None:
        self._title: list[str] = []
        self._text: list[str] = []
        self._links: list[tuple[str, list[str]]] = []
        self._silent = 0
        self._in_title = self._in_link = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag == "title":
            self._in_title = True
        elif tag == "a" and attributes.get("href"):
            self._in_link = True
            self._links.append((attributes["href"], []))
        elif tag in _BLOCKS:
            self._text.append("\n")

    def end(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag == "title":
            self._in_title = False
        elif tag == "a":
            self._in_link = False
        elif tag in _BLOCKS:
            self._text.append("\n")

    def add(self, data: str) -> None:
        if self._silent:
            return
        if self._in_title:
            self._title.append(data)
            return
        self._text.append(data)
        if self._in_link:
            self._links[-1][1].append(data)

    def result(self) -> tuple[str, str, Links]:
        lines = (" ".join(line.split()) for line in "".join(self._text).split("\n"))
        links = [(target, " ".join("".join(words).split())) for target, words in self._links]
        return " ".join("".join(self._title).split()), "\n".join(filter(None, lines)), links
