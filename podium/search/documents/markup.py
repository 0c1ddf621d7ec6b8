"""Markup: elements of SGML and tags of HTML, each found in one pass over the text, however broken it is."""

from __future__ import annotations

import html
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

_TAG = re.compile(r"<[^<>]*>")
_LONG_NUMBER = re.compile(r"&#[0-9]{4000,};?")  # int() refuses more than 4,300 digits


def plain_text(text: str) -> str:
    """Text without tags, with character references replaced."""
    return unescape(_TAG.sub(" ", text)).strip()


def unescape(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


@dataclass(frozen=True, slots=True)
class Element:
    """`<NAME>content</NAME>` at text[start:end]."""

    name: str  # upper case
    start: int
    end: int
    content: str


def elements(text: str, names: str) -> Iterator[Element]:
    """Elements with one of the names `A|B`, from the left, none within another; without an end tag there is none."""
    tags = [(tag[2].upper(), tag.start(), tag.end(), bool(tag[1])) for tag in _tags_named(names).finditer(text)]
    end_tags: defaultdict[str, deque[tuple[int, int]]] = defaultdict(deque)
    for name, start, end, closes in tags:
        if closes:
            end_tags[name].append((start, end))
    done = 0
    for name, start, end, closes in tags:
        if closes or start < done:
            continue
        waiting = end_tags[name]
        while waiting and waiting[0][0] < end:
            waiting.popleft()
        if waiting:
            stop, done = waiting[0]
            yield Element(name, start, done, text[end:stop])


def without(text: str, removed: Iterable[Element]) -> str:
    """The text with a blank in place of each of its elements."""
    parts, done = [], 0
    for element in removed:
        parts.append(text[done : element.start])
        done = element.end
    return " ".join([*parts, text[done:]])


@lru_cache
def _tags_named(names: str) -> re.Pattern[str]:
    return re.compile(rf"<(/?)({names})>", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """A part of HTML: text, or a start or end tag."""

    kind: str  # "text", "start" or "end"
    text: str  # what it says, or the name of the tag
    attributes: dict[str, str] = field(default_factory=dict)


_NAME = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*+)")
_ATTRIBUTE = re.compile(r"""[\s/]*+(?:(>)|([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?)""")
_RAW = ("script", "style")  # what is inside is no markup


def html_tokens(text: str) -> Iterator[Token]:
    """The tokens of HTML without comments and declarations. A tag that is never closed is text, with all behind it."""
    position, last_comment = 0, text.rfind("-->")
    while position < len(text):
        start = text.find("<", position)
        start = len(text) if start < 0 else start
        if start > position:
            yield Token("text", unescape(text[position:start]))
        position = start
        if start < len(text):
            name = _NAME.match(text, start)
            position, tokens = _no_tag(text, start, last_comment) if name is None else _tag(text, name)
            yield from tokens


def _no_tag(text: str, start: int, last_comment: int) -> tuple[int, list[Token]]:
    """Where a comment or declaration ends; any other < is text. The last comment ends at `last_comment`."""
    if text.startswith("<!--", start) and start + 2 <= last_comment:
        return text.index("-->", start + 2) + 3, []
    if not text.startswith(("<!", "<?", "</"), start):
        return start + 1, [Token("text", "<")]
    end = text.find(">", start)
    return (end + 1, []) if end >= 0 else (len(text), [Token("text", unescape(text[start:]))])


def _tag(text: str, name: re.Match[str]) -> tuple[int, list[Token]]:
    """Where the tag ends, and its tokens."""
    end, attributes = _attributes(text, name.end())
    if end < 0:
        return len(text), [Token("text", unescape(text[name.start() :]))]
    called = name[2].lower()
    if name[1]:
        return end, [Token("end", called)]
    started = Token("start", called, attributes)
    if text[end - 2] == "/" and not attributes.get("href"):  # XHTML: <script src="x"/>
        return end, [started, Token("end", called)]
    if called in _RAW:
        close = _end_tag(called).search(text, end)
        return (len(text) if close is None else close.start()), [started]
    return end, [started]


def _attributes(text: str, position: int) -> tuple[int, dict[str, str]]:
    """Where the tag ends (-1: nowhere), and its attributes; of two with one name the first counts."""
    attributes: dict[str, str] = {}
    while (part := _ATTRIBUTE.match(text, position)) is not None:
        position = part.end()
        if part[1]:
            return position, attributes
        value = next((text_part for text_part in part.group(3, 4, 5) if text_part is not None), "")
        attributes.setdefault(part[2].lower(), unescape(value))
    return -1, attributes


@lru_cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII)
