"""Links: how pages point to one another, and in which words.

Sites have menus. Beyond these, authors link to what they like, often in words that the page itself does not use;
farms and result pages link to each other, in the words of queries.
"""

from __future__ import annotations

from podium.demo.web.grammar import Draws, expand
from podium.demo.web.pages import Page
from podium.demo.web.writers import Slots

_VAGUE = ("here", "this page", "read more", "found this", "link", "source", "more", "see this")
_ANCHORS = {
    "article": ("{x}", "{also}", "{x} explained", "what {is} {x}", "{x} ({also})", "about {also}", "{x} ({word})"),
    "intro": ("{x}", "{also}", "introduction to {x}", "{x} for beginners", "about {also}"),
    "guide": ("{task}", "how to {task}", "{wanted}", "{doing}", "{also}: instructions", "{wanted} ({also})"),
    "history": ("history of {x}", "origin of {x}", "where {x} come{s} from", "{also}: its history", "old {x}"),
    "answers": ("{trouble}", "{question}", "{trouble} ({also})", "help with {x}", "{x} problems", "{also} trouble"),
    "product": ("buy {item}", "{item}", "{item} for sale", "order {also}", "where to buy {goods}"),
    "compare": ("{x} or {y}", "difference"),
    "thread": ("{trouble}", "discussion", "{x} thread"),
    "diary": ("nice story", "{x}", "her notes"),
    "news": ("{x} in the news", "report"),
    "tag": ("{x}", "more on {x}"),
    "hub": ("{topic}", "all about {topic}", "kinds of {topic}", "{topic} society"),
    "glossary": ("{topic} words", "kinds of {topic}", "{topic} glossary", "types of {topic}"),
    "links": ("links",),
    "catalogue": ("{topic} shop", "buy {topic}"),
    "about": ("home", "about"),
    "results": ("{query}",),
    "stuffed": ("{x}", "buy {x}", "{wanted}", "best {x}", "{x} history"),
}
# Links that a page of this kind gets from authors who come across it, if it was made with all care.
_POPULARITY = {"article": 16, "intro": 8, "guide": 13, "history": 11, "answers": 9, "product": 7, "hub": 12}
_POPULARITY |= {"glossary": 6, "compare": 4, "thread": 2, "diary": 2, "news": 2, "catalogue": 4, "tag": 1}
_LINKING = ("article", "intro", "guide", "history", "answers", "thread", "diary", "news", "compare", "links", "tag")


def link_pages(pages: list[Page], draws: Draws) -> None:
    """Give each page its links."""
    _link_menus(pages, draws)
    by_topic: dict[str, list[Page]] = {}
    for page in pages:
        by_topic.setdefault(page.topic.name, []).append(page)
    for pages_of_topic in by_topic.values():
        _link_authors(pages_of_topic, draws)
    for kinds, most in ((("results",), 4), (("stuffed",), 7)):
        _link_among([page for page in pages if page.kind in kinds], most, draws)


def _anchor(page: Page, draws: Draws, vague: float) -> str:
    if draws.chance(vague):
        return draws.pick(_VAGUE)
    main = page.things[0] if page.things else page.topic.things[0]
    other = page.things[1] if len(page.things) > 1 else page.topic.things[-1]
    slots = Slots(draws, page.topic, main, other)
    if page.text:
        slots["query"] = page.text
    return expand(draws.pick(_ANCHORS[page.kind]), draws, slots)


def _link_menus(pages: list[Page], draws: Draws) -> None:
    """The front pages of sites (and of an almanac's topics) list what lies below; the pages link back."""
    fronts = {page.url: page for page in pages if page.kind in ("hub", "about", "catalogue")}
    for page in pages:
        front = fronts.get(page.url.rpartition("/")[0]) or fronts.get(f"https://{page.site}")
        if front is not None and front is not page:
            front.links.append((page.url, page.title))
            page.links.append((front.url, draws.pick(("home", "up", front.title))))


def _link_authors(pages: list[Page], draws: Draws) -> None:
    sources = [page for page in pages if page.kind in _LINKING]
    lists = [page for page in pages if page.kind == "links"]
    for page in pages:
        n = int(_POPULARITY.get(page.kind, 0) * page.care * page.care * (0.4 + 0.9 * draws.uniform()))
        near = [source for source in sources if set(source.things) & set(page.things)] if page.things else sources
        for _ in range(n):
            source = draws.pick(near if draws.chance(0.5) else lists if draws.chance(0.3) else sources)
            if source is not page:
                source.links.append((page.url, _anchor(page, draws, vague=0.3)))


def _link_among(pages: list[Page], most: int, draws: Draws) -> None:
    for page in pages:
        for target in draws.some(pages, draws.between(1, most)):
            if target is not page:
                page.links.append((target.url, _anchor(target, draws, vague=0.1)))
