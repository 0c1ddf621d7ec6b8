"""Questions: what people ask, and which pages answer it.

A judgement follows from what a page was made for: the thing, the kind of page, and the care of its author. It never
looks at words.
"""

from __future__ import annotations

from dataclasses import dataclass

from podium.demo.web.grammar import Draws, expand
from podium.demo.web.material import Thing, Topic
from podium.demo.web.pages import Page
from podium.demo.web.writers import Slots

# What each kind of page is worth to somebody with this intent, if it was made with care.
WORTH = {
    "overview": {"article": 4, "intro": 3, "compare": 2, "guide": 1, "history": 1, "glossary": 1, "copy": 1},
    "task": {"guide": 4, "diary": 2, "answers": 1, "intro": 1, "article": 1, "thread": 1, "copy": 1},
    "past": {"history": 4, "article": 2, "intro": 1, "copy": 1},
    "trouble": {"answers": 4, "thread": 2, "guide": 2, "copy": 1},
    "goods": {"product": 4, "catalogue": 2, "compare": 1},
    "kinds": {"hub": 4, "glossary": 3, "links": 2, "compare": 1, "article": 1},
}
_ASKED = {
    "overview": ("what {is} {x}", "{named}", "{x} facts", "{x} explained", "about {x}"),
    "task": ("{wanted}", "{wanted}", "{task}", "how to {task}"),
    "past": ("history of {x}", "{x} history", "origin of {x}", "where {do} {x} come from", "{x} in old times"),
    "trouble": ("{trouble}",),
    "goods": ("buy {item}", "{item} price", "cheap {item}", "{item} for sale", "order {item}"),
    "kinds": ("all about {topic}", "{topic} for beginners", "introduction to {topic}", "{topic} overview"),
}
_ASKED_BY_OTHER_NAME = {
    "overview": ("{also} {word}", "about {also} {word}"),
    "task": ("{other_task}",),
    "past": ("{also} {word} history", "origin of {also} {word}"),
    "trouble": ("{also} {trouble}",),
}
INTENTS = tuple(intent for intent in WORTH if intent != "kinds")
_OTHER_NAME_SHARE = 0.2
_CARE = (0.35, 0.65)  # a page that was made with less is worth one grade less, for each


@dataclass(frozen=True)
class Question:
    text: str
    intent: str
    topic: Topic
    thing: Thing | None

    def grade(self, page: Page) -> int:
        """0 to 4."""
        # Pages about a topic as a whole are about all of its things.
        about_it = self.thing is None or not page.things or self.thing in page.things
        if page.topic is not self.topic or not about_it:
            return 0
        worth = WORTH[self.intent].get(page.kind, 0)
        return min(worth, max(1, worth - sum(page.care < least for least in _CARE)))


def make_questions(topics: tuple[Topic, ...], draws: Draws) -> list[Question]:
    """Two questions per thing, of different intents, and one per topic, in random order."""
    made = []
    for topic in topics:
        made.append(_ask(topic, None, "kinds", draws))
        for thing in topic.things:
            made += [_ask(topic, thing, intent, draws) for intent in draws.some(INTENTS, 2)]
    return draws.some(made, len(made))


def common_queries(topic: Topic, thing: Thing, draws: Draws) -> list[str]:
    """Queries that sites with pages of search results have seen."""
    return [_text(topic, thing, intent, draws) for intent in draws.some(INTENTS, draws.below(3))]


def _ask(topic: Topic, thing: Thing | None, intent: str, draws: Draws) -> Question:
    return Question(_text(topic, thing, intent, draws, _OTHER_NAME_SHARE), intent, topic, thing)


def _text(topic: Topic, thing: Thing | None, intent: str, draws: Draws, other_name: float = 0.0) -> str:
    main = thing or topic.things[0]
    slots = Slots(draws, topic, main, topic.things[-1])
    slots["other_task"] = main.task.replace(main.name, main.also)
    slots["named"] = main.name if topic.word in main.name else f"{main.name} {topic.word}"
    by_other_name = intent in _ASKED_BY_OTHER_NAME and draws.chance(other_name)
    return expand(draws.pick((_ASKED_BY_OTHER_NAME if by_other_name else _ASKED)[intent]), draws, slots)
