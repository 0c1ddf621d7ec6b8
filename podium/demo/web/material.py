"""The material, written by hand: topics with six things each (topics/*.toml), and sentences (sentences.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

_DOUBLED = ("put", "set", "get", "dig", "cut", "fit", "pat")


@dataclass(frozen=True, eq=False)
class Thing:
    """What a page can be about. Texts are patterns (grammar.py)."""

    topic: str
    name: str
    also: str  # another name, used by links to pages and by queries, never by the pages
    what: str  # a definition: "a firm yellow cheese"
    task: str  # what people want to do: "make gouda at home"
    wanted: str  # the same as a query
    goods: str  # what is sold: "a wheel of farm gouda"
    facts: list[str]
    past: list[str]
    steps: list[str]
    trouble: list[str]  # a question, its answer, and a query for it
    plural: bool = False

    @property
    def doing(self) -> str:
        """The task as a noun: "make gouda" -> "making gouda"."""
        verb, _, rest = self.task.partition(" ")
        stem = verb + verb[-1] if verb in _DOUBLED else verb[:-1] if verb.endswith("e") else verb
        return f"{stem}ing {rest}"

    @property
    def item(self) -> str:
        """The goods without an article: "a wheel of farm gouda" -> "wheel of farm gouda"."""
        article, _, rest = self.goods.partition(" ")
        return rest if article in ("a", "an") else self.goods


@dataclass(frozen=True, eq=False)
class Topic:
    name: str
    word: str  # what people add to a name in a query: "gouda cheese"
    people: str
    place: str
    remarks: list[str]
    things: list[Thing] = field(repr=False)


@cache
def load_topics() -> tuple[Topic, ...]:
    folder = files(__package__) / "topics"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".toml"))
    return tuple(_topic(tomllib.loads((folder / name).read_text("utf-8"))) for name in names)


@cache
def load_sentences() -> dict[str, dict[str, list[str]]]:
    """{kind of page: {part of it: patterns}}."""
    read = tomllib.loads((files(__package__) / "sentences.toml").read_text("utf-8"))
    return {kind: {part: _lines(text) for part, text in parts.items()} for kind, parts in read.items()}


def _topic(record: dict[str, Any]) -> Topic:
    things = []
    for thing in record.pop("things"):
        lists = {name: _lines(thing[name]) for name in ("facts", "past", "steps")}
        things.append(Thing(topic=record["name"], **(thing | lists)))
    return Topic(things=things, **(record | {"remarks": _lines(record["remarks"])}))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]
