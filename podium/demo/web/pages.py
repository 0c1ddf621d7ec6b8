"""Pages: which pages there are, at which addresses, and how much care each author took."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from podium.demo.web.grammar import Draws
from podium.demo.web.material import Thing, Topic
from podium.demo.web.writers import WRITERS, Slots

BLOGS = (
    *("ninasnotebook", "rainydays", "the-slow-kitchen", "oskarwrites", "backgarden", "tinyattic", "leftoverpaint"),
    *("muddyboots", "letters-home", "secondbreakfast", "quietcorner", "halfpastnine", "bramblelane"),
)
PAPERS = ("weeklypost", "valleyherald", "northern-courier")
SHOPS = {"larder": "Larder", "oldmillgoods": "Old Mill Goods", "penny-and-sons": "Penny and Sons"}
FINDERS = ("findit", "answerbox", "quick-results")
FARMS = ("best4you", "topdeals", "infohub24", "all-about-it", "megaguide")
MIRRORS = ("copypages", "webcache")
_COPIED = ("article", "guide", "history")


@dataclass
class Page:
    url: str
    title: str
    body: str
    kind: str
    topic: Topic
    things: tuple[Thing, ...]  # what it is about, none for pages about the topic as a whole
    care: float
    text: str = ""  # what a page of search results was made for
    links: list[tuple[str, str]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.url.removeprefix("https://")

    @property
    def site(self) -> str:
        return self.id.partition("/")[0]


def make_pages(topics: tuple[Topic, ...], draws: Draws, asked: dict[str, list[str]]) -> list[Page]:
    """All pages of the web; `asked` has queries for a thing by its name, for which pages of search results are made."""
    maker = _Maker(draws)
    for topic in topics:
        for thing in topic.things:
            maker.make_about(topic, thing, asked[thing.name])
        maker.make_general(topic)
    return maker.pages


class _Maker:
    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.pages: list[Page] = []
        self._urls: dict[str, int] = {}

    def make_about(self, topic: Topic, thing: Thing, asked: list[str]) -> None:
        name, task, draws = slug(thing.name), slug(thing.task), self.draws
        society, craft = society_site(topic), f"{slug(topic.place)}.example"
        subject, first = (topic, thing), len(self.pages)
        self._add("article", f"almanac.example/{slug(topic.name)}/{name}", *subject, low=0.5)
        self._add("intro", f"{society}/{name}", *subject)
        self._add("guide", f"handbook.example/{slug(topic.name)}/{task}", *subject, low=0.35)
        self._add("history", f"museum.example/{slug(topic.name)}/{name}", *subject, low=0.35)
        self._add("answers", f"{society}/help/{slug(thing.trouble[2])}", *subject, low=0.3)
        for blog in draws.some(BLOGS, draws.between(2, 3)):
            self._add("diary", f"{blog}.example/{self._date()}/{self._post(thing)}", *subject)
        for shop in draws.some(list(SHOPS), draws.between(1, 2)):
            address = f"{shop}.example/shop/{slug(topic.name)}/{slug(thing.item)}-{draws.between(100, 999)}"
            self._add("product", address, *subject)
        for _ in range(draws.between(1, 3)):
            self._add("thread", f"askaround.example/board/{draws.between(20, 80)}/t/{self._number()}", *subject)
        self._add("news", f"{draws.pick(PAPERS)}.example/{self._date()}/{slug(thing.name)}-{self._number()}", *subject)
        self._add("compare", f"{draws.pick(BLOGS)}.example/versus/{name}", *subject)
        for kind, address, share in (
            ("intro", f"{craft}/{name}.html", 0.5),
            ("guide", f"{craft}/how-to/{task}.html", 0.7),
            ("guide", f"{draws.pick(BLOGS)}.example/{self._date()}/{task}", 0.5),
            ("history", f"{society}/past/{name}", 0.5),
            ("history", f"{draws.pick(PAPERS)}.example/{self._date()}/{name}-story", 0.4),
            ("answers", f"askaround.example/answers/{self._number()}", 0.7),
            ("answers", f"{craft}/questions/{name}", 0.4),
            ("tag", f"{draws.pick(BLOGS)}.example/tag/{name}", 0.4),
        ):
            if draws.chance(share):
                self._add(kind, address, *subject)
        self._make_spam(topic, thing, asked)
        if draws.chance(0.6):
            self._copy(draws.pick([page for page in self.pages[first:] if page.kind in _COPIED]))

    def _make_spam(self, topic: Topic, thing: Thing, asked: list[str]) -> None:
        draws = self.draws
        for text in asked:
            self._add("results", f"{draws.pick(FINDERS)}.example/{slug(text)}", topic, thing, text=text)
        for _ in range(draws.below(2)):
            words = f"{slug(thing.name)}-{slug(thing.wanted)}"
            self._add("stuffed", f"{draws.pick(FARMS)}.example/{words}/{slug(thing.item)}.html", topic, thing)

    def make_general(self, topic: Topic) -> None:
        name, society = slug(topic.name), society_site(topic)
        self._add("hub", f"almanac.example/{name}", topic, low=0.7)
        self._add("hub", society, topic, low=0.4)
        self._add("glossary", f"{society}/glossary", topic)
        self._add("glossary", f"handbook.example/{name}/words", topic)
        self._add("links", f"{society}/links", topic)
        self._add("links", f"{self.draws.pick(BLOGS)}.example/links/{name}", topic)
        self._add("about", f"{slug(topic.place)}.example", topic)
        for shop in SHOPS:
            self._add("catalogue", f"{shop}.example/shop/{name}", topic)

    def _add(
        self, kind: str, address: str, topic: Topic, thing: Thing | None = None, low: float = 0.0, text: str = ""
    ) -> None:
        main = thing or self.draws.pick(topic.things)
        other = self.draws.pick([thing for thing in topic.things if thing is not main])
        slots = Slots(self.draws, topic, main, other)
        slots["query"], slots["shop"] = text, SHOPS.get(address.partition(".")[0], "")
        care = low + (1.0 - low) * self.draws.uniform()
        title = slots.line(kind, "titles")
        body = WRITERS[kind](slots, topic, care)
        about = () if thing is None else (main, other) if kind == "compare" else (main,)
        title = title[:1].upper() + title[1:]
        self.pages.append(Page(self._unique(f"https://{address}"), title, body, kind, topic, about, care, text))

    def _copy(self, page: Page) -> None:
        """Somebody else's page, cut short, at another address."""
        words = page.body.split(" ")
        body = " ".join(words[: self.draws.between(len(words) // 2, len(words) - 1)])
        url = self._unique(f"https://{self.draws.pick(MIRRORS)}.example/c/{self._number()}/{slug(page.title)}.html")
        self.pages.append(Page(url, page.title, body, "copy", page.topic, page.things, 0.0))

    def _unique(self, url: str) -> str:
        """The address, with a number where there is such a page already."""
        times = self._urls[url] = self._urls.get(url, 0) + 1
        return url if times == 1 else f"{url}-{times}"

    def _number(self) -> int:
        return self.draws.between(10_000, 99_999)

    def _date(self) -> str:
        return f"{self.draws.between(2005, 2023)}/{self.draws.between(1, 12):02d}"

    def _post(self, thing: Thing) -> str:
        return self.draws.pick((slug(thing.name), f"{slug(thing.name)}-again", "notes", "a-long-day", "small-news"))


def society_site(topic: Topic) -> str:
    return f"www.{slug(topic.name)}-society.example"


def slug(text: str) -> str:
    """Text as part of an address: "Pu-erh, please" -> "pu-erh-please"."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
