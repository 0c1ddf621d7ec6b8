"""The page: one HTML file that needs nothing else, in light and dark, on paper and on a phone.

Text that comes from data is escaped where it enters; `Html` marks what is markup already, so that the type checker
tells the two apart. A `Block` is markup with the tables in it, which are also written as files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NamedTuple, NewType

Html = NewType("Html", str)


class File(NamedTuple):
    """A table as other programs read it."""

    name: str
    csv: str
    latex: str


@dataclass(frozen=True)
class Block:
    """Markup, and the tables that it shows."""

    html: Html
    files: tuple[File, ...] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page with an entry in its table of contents; two narrow ones may stand beside each other."""

    key: str
    title: str
    blocks: Sequence[Block]
    narrow: bool = False


def write_page(title: str, lead: str, facts: Mapping[str, str], sections: Sequence[Section]) -> str:
    """The whole page, in English whatever the names in the data are; `facts`: first numbers, by what they are of."""
    tiles = "".join(
        f'<div class="fact"><strong>{text(value)}</strong><span>{text(what)}</span></div>'
        for what, value in facts.items()
    )
    links = "".join(f'<li><a href="#{part.key}">{text(part.title)}</a></li>' for part in sections)
    body = "\n".join(_section(part) for part in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Podium">
<title>{text(title)}</title>
<style>
{_resource("style.css")}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
<p class="lead">{text(lead)}</p>
<div class="facts">{tiles}</div>
<nav aria-label="Contents"><ul>{links}</ul></nav>
</header>
<main>
{body}
</main>
<script>
{_resource("sort.js")}</script>
</body>
</html>
"""


def text(content: object) -> Html:
    """Anything as text of the page."""
    return Html(escape(str(content)))


def paragraph(content: str) -> Block:
    return Block(Html(f"<p>{text(content)}</p>"))


def heading(content: str) -> Block:
    """Of a part of a section."""
    return Block(Html(f"<h3>{text(content)}</h3>"))


def figure(picture: Html, caption: str) -> Block:
    """A picture and what to see in it."""
    return Block(Html(f"<figure>{picture}<figcaption>{text(caption)}</figcaption></figure>"))


def side_by_side(blocks: Sequence[Block]) -> Block:
    """Beside each other where the page is wide enough."""
    cells = "".join(f"<div>{block.html}</div>" for block in blocks)
    return Block(Html(f'<div class="grid">{cells}</div>'), _files(blocks))


def stacked(blocks: Sequence[Block]) -> Block:
    """Below each other, as one cell of what is side by side."""
    return Block(Html("".join(block.html for block in blocks)), _files(blocks))


def folded(summary: str, *blocks: Block, printed: bool = True) -> Block:
    """Content that opens on demand; on paper it is open unless it is too long for that."""
    kind, content = "" if printed else ' class="screen"', "".join(block.html for block in blocks)
    return Block(Html(f"<details{kind}><summary>{text(summary)}</summary>{content}</details>"), _files(blocks))


def _files(blocks: Iterable[Block]) -> tuple[File, ...]:
    return tuple(file for block in blocks for file in block.files)


def _section(part: Section) -> str:
    name, blocks = f"{part.key}-title", "\n".join(block.html for block in part.blocks)
    title, kind = f'<h2 id="{name}">{text(part.title)}</h2>', ' class="narrow"' if part.narrow else ""
    return f'<section id="{part.key}"{kind} aria-labelledby="{name}">\n{title}\n{blocks}\n</section>'


def _resource(name: str) -> str:
    return files("podium.lab.report").joinpath(name).read_text("utf-8")
