"""Writers: the title and the body of a page, one function per kind of page.

`care` in [0, 1) is how much an author cares: it decides how much of the material a page has.
"""

from __future__ import annotations

from collections.abc import Callable

from podium.demo.web.grammar import Draws, expand
from podium.demo.web.material import Thing, Topic, load_sentences

PEOPLE = (
    *("Anna", "Tom", "Nina", "Oskar", "Mei", "Paul", "Ida", "Jonas", "Clara", "Sam", "Ruth", "Ben", "Lea", "Hugo"),
    *("Vera", "Amir", "Greta", "Luis", "Edith", "Karl"),
)
TOWNS = (
    *("Alderby", "Brackenford", "Crowmarket", "Dunholt", "Elmsworth", "Farrow", "Greyhaven", "Hollin", "Ivelsea"),
    *("Kettlewick", "Larkmoor", "Millbeck", "Northam", "Oxhill", "Pennick", "Quarley", "Rushden", "Saltery"),
    *("Thornby", "Upwater", "Velmere", "Wickham"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "March", "April", "May", "June", "August", "September", "October", "November")


class Slots(dict[str, str]):
    """What the slots of a pattern stand for; those about nothing in particular are drawn anew each time."""

    def __init__(self, draws: Draws, topic: Topic, thing: Thing, other: Thing) -> None:
        super().__init__(_words(topic) | _names(thing, other))
        self.draws, self.thing, self.other = draws, thing, other

    def __missing__(self, name: str) -> str:
        if name in ("Town", "TOWN"):  # where it happens: the same in all of a page
            self["Town"] = self["town"]
            self["TOWN"] = self["Town"].upper()
            return self[name]
        return _DRAWN[name](self)

    def say(self, pattern: str) -> str:
        return expand(pattern, self.draws, self)

    def line(self, kind: str, part: str) -> str:
        """One sentence of this part of a kind of page."""
        return self.say(self.draws.pick(load_sentences()[kind][part]))

    def lines(self, kind: str, part: str, n: int) -> list[str]:
        return [self.say(pattern) for pattern in self.draws.some(load_sentences()[kind][part], n)]

    def sentences(self, patterns: list[str], n: int) -> list[str]:
        """n of the sentences, some with a few words before them."""
        return [self._led(pattern) for pattern in self.draws.some(patterns, n)]

    def _led(self, pattern: str) -> str:
        if not self.draws.chance(0.3):
            return self.say(pattern)
        about = pattern in self.thing.facts or pattern in self.thing.past
        lead = self.line("leads", "named" if about and self.draws.chance(0.5) else "lines")
        return f"{lead} {self.say(pattern)}"


def _words(topic: Topic) -> dict[str, str]:
    words = {"topic": topic.name, "word": topic.word, "people": topic.people, "place": topic.place}
    return words | {"Topic": _capital(topic.name), "People": _capital(topic.people)}


def _names(thing: Thing, other: Thing) -> dict[str, str]:
    words = {"x": thing.name, "X": _capital(thing.name), "also": thing.also, "what": thing.what, "task": thing.task}
    words |= {"doing": thing.doing, "Doing": _capital(thing.doing), "wanted": thing.wanted, "goods": thing.goods}
    words |= {"item": thing.item, "Item": _capital(thing.item), "question": thing.trouble[0], "cure": thing.trouble[1]}
    words |= {"trouble": thing.trouble[2], "y": other.name, "ywhat": other.what, "query": thing.wanted}
    words |= {"yis": "are" if other.plural else "is", "yhas": "have" if other.plural else "has"}
    forms = {"is": ("is", "are"), "was": ("was", "were"), "has": ("has", "have"), "do": ("does", "do")}
    forms |= {"it": ("it", "they"), "them": ("it", "them")}
    words |= {name: pair[thing.plural] for name, pair in forms.items()}
    return words | {"s": "" if thing.plural else "s"}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_DRAWN: dict[str, Callable[[Slots], str]] = {
    "person": lambda slots: slots.draws.pick(PEOPLE),
    "town": lambda slots: slots.draws.pick(TOWNS),
    "weekday": lambda slots: slots.draws.pick(WEEKDAYS),
    "month": lambda slots: slots.draws.pick(MONTHS),
    "year": lambda slots: str(slots.draws.between(2004, 2023)),
    "oldyear": lambda slots: str(slots.draws.between(1580, 1890)),
    "number": lambda slots: str(slots.draws.between(3, 480)),
    "price": lambda slots: f"{slots.draws.between(3, 240)}.{slots.draws.pick(('00', '50', '90'))}",
    "score": lambda slots: f"{slots.draws.between(3, 4)}.{slots.draws.below(10)}",
    "fact": lambda slots: slots.say(slots.draws.pick(slots.thing.facts)),
    "yfact": lambda slots: slots.say(slots.draws.pick(slots.other.facts)),
    "step": lambda slots: slots.say(slots.draws.pick(slots.thing.steps)),
}


def _paragraphs(*parts: list[str]) -> str:
    return "\n\n".join(" ".join(part) for part in parts if part)


def _share(care: float, n: int) -> int:
    """How many of n sentences an author with this much care writes down."""
    return min(n, 1 + int(care * n))


def article(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    first = [slots.line("article", "opens"), *slots.sentences(thing.facts, _share(care, 5))]
    second = [
        *slots.lines("article", "middles", draws.between(1, 2)),
        *slots.sentences(thing.past, draws.between(1, 2)),
    ]
    third = [*slots.sentences(topic.remarks, draws.below(2)), slots.line("article", "closes")]
    return _paragraphs(first, second, third)


def intro(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    first = [slots.line("intro", "opens"), *slots.sentences(thing.facts, _share(care, 3))]
    second = [
        *slots.lines("intro", "middles", draws.between(1, 2)),
        *slots.sentences(topic.remarks, draws.between(1, 2)),
    ]
    third = [*slots.sentences(thing.steps, draws.below(2)), slots.line("intro", "closes")]
    return _paragraphs(*draws.some([first, second], 2), third)


def guide(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    steps = draws.ordered(thing.steps, _share(care + 0.3, len(thing.steps)))
    words = draws.ordered(load_sentences()["guide"]["between"], len(steps))
    led = [
        f"{slots.say(word)} {slots.say(step)}" if draws.chance(0.5) else slots.say(step)
        for word, step in zip(words, steps)
    ]
    first = [slots.line("guide", "opens"), *slots.sentences(topic.remarks, draws.below(3))]
    last = [*slots.lines("guide", "tips", draws.between(1, 2)), *slots.sentences(thing.facts, draws.below(3))]
    if draws.chance(0.3 + care / 2):
        last.append(slots.say("{question} {cure}"))
    return _paragraphs(first, led, [*last, slots.line("guide", "closes")])


def history(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    first = [slots.line("history", "opens"), *slots.sentences(thing.past, _share(care + 0.3, len(thing.past)))]
    second = [*slots.lines("history", "middles", draws.between(1, 1 + int(3 * care))), slots.line("history", "closes")]
    return _paragraphs(first, *draws.some([slots.sentences(thing.facts, draws.below(3)), second], 2))


def answers(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    first = [slots.line("answers", "opens"), slots.line("answers", "replies")]
    second = [*slots.sentences(thing.steps, _share(care, 2)), *slots.sentences(thing.facts, _share(care, 2) - 1)]
    third = [*slots.sentences(topic.remarks, draws.below(3)), slots.line("answers", "closes")]
    return _paragraphs(first, second, third) if draws.chance(0.7) else _paragraphs(first + second, third)


def product(slots: Slots, topic: Topic, care: float) -> str:
    first = [slots.line("product", "opens"), *slots.sentences(slots.thing.facts, _share(care, 2) - 1)]
    return _paragraphs(first, slots.lines("product", "middles", slots.draws.between(2, 4)))


def thread(slots: Slots, topic: Topic, care: float) -> str:
    first = [slots.line("thread", "asks")]
    replies = [[text] for text in slots.lines("thread", "answers", slots.draws.between(2, 5))]
    if care > 0.5 and not any(slots["cure"] in reply[0] for reply in replies):
        replies.append([slots.say("{person} wrote: {cure} {step}")])
    return _paragraphs(first, *replies, [slots.line("thread", "closes")])


def diary(slots: Slots, topic: Topic, care: float) -> str:
    thing, draws = slots.thing, slots.draws
    first = [slots.line("diary", "opens"), *slots.lines("diary", "middles", draws.between(1, 2))]
    second = [
        *draws.some([slots.say(step) for step in thing.steps], _share(care, 3)),
        *slots.sentences(topic.remarks, 1),
    ]
    third = [*slots.lines("diary", "middles", draws.between(1, 3)), slots.line("diary", "closes")]
    return _paragraphs(first, second, third)


def news(slots: Slots, topic: Topic, care: float) -> str:
    first = [slots.line("news", "opens"), *slots.lines("news", "middles", slots.draws.between(2, 3))]
    return _paragraphs(first, slots.sentences(slots.thing.facts, _share(care, 2) - 1))


def compare(slots: Slots, topic: Topic, care: float) -> str:
    first, middle = slots.line("compare", "opens"), load_sentences()["compare"]["middles"]
    second = [slots.say(pattern) for pattern in slots.draws.ordered(middle, 2 + _share(care, 2))]
    return _paragraphs([first], second, [slots.line("compare", "closes")])


def tag(slots: Slots, topic: Topic, care: float) -> str:
    kinds = slots.draws.some(("diary", "guide", "thread", "news", "compare"), 4)
    posts = [_capital(slots.line(kind, "titles").rstrip("?")) for kind in kinds]
    return _paragraphs([slots.line("tag", "opens")], [f"{post}." for post in posts])


def results(slots: Slots, topic: Topic, care: float) -> str:
    return _paragraphs(slots.lines("results", "opens", slots.draws.between(1, 2)))


def stuffed(slots: Slots, topic: Topic, care: float) -> str:
    first = [f"{slots.line('stuffed', 'runs')}." for _ in range(slots.draws.between(1, 2))]
    return _paragraphs(first, [*slots.sentences(slots.thing.facts, 1), slots.line("stuffed", "fillers")])


def catalogue(slots: Slots, topic: Topic, care: float) -> str:
    goods = [_capital(f"{thing.item}.") for thing in slots.draws.some(topic.things, 6)]
    return _paragraphs([slots.line("catalogue", "opens")], goods, slots.lines("product", "middles", 1))


def glossary(slots: Slots, topic: Topic, care: float) -> str:
    lines = [[_capital(f"{thing.name}: {thing.what}.")] for thing in topic.things]
    return _paragraphs([slots.line("glossary", "opens")], *lines)


def hub(slots: Slots, topic: Topic, care: float) -> str:
    names = [f"{_capital(thing.name)}, {thing.what}." for thing in slots.draws.some(topic.things, 4)]
    return _paragraphs([slots.line("hub", "opens")], names, slots.sentences(topic.remarks, 2))


def links(slots: Slots, topic: Topic, care: float) -> str:
    return _paragraphs([slots.line("links", "opens")], slots.sentences(topic.remarks, 1))


def about(slots: Slots, topic: Topic, care: float) -> str:
    return _paragraphs([slots.line("about", "opens")], slots.sentences(topic.remarks, 1))


_ALL: tuple[Callable[[Slots, Topic, float], str], ...] = (
    *(article, intro, guide, history, answers, product, thread, diary, news, compare),
    *(tag, results, stuffed, catalogue, glossary, hub, links, about),
)
WRITERS = {writer.__name__: writer for writer in _ALL}
