"""A small web, written by us: about two thousand pages on eighteen topics, queries, and judgements.

The pages are made from material written by hand: facts, histories, instructions, questions with answers, and the
sentences that encyclopaedias, blogs, forums, shops and link farms put around them. Judgements follow from how a page
was made: a query has an intent, a page has a kind, a subject and an author who cares or does not. So BM25, which sees
words only, is good but not best: titles, addresses, links and their words tell more.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from podium.demo.web.grammar import Draws
from podium.demo.web.linking import link_pages
from podium.demo.web.material import load_topics
from podium.demo.web.pages import Page, make_pages
from podium.demo.web.questions import Question, common_queries, make_questions
from podium.search.documents.document import Document

SEED = 2026


@dataclass(frozen=True)
class Web:
    """The collection. Queries and judgements are by query id, judgements also by document id."""

    pages: list[Page]
    questions: dict[str, Question]

    @property
    def documents(self) -> list[Document]:
        return [Document(page.id, page.body, page.title, page.url, page.links) for page in self.pages]

    @property
    def queries(self) -> dict[str, str]:
        return {name: question.text for name, question in self.questions.items()}

    @property
    def qrels(self) -> dict[str, dict[str, int]]:
        """All pages that are relevant; all others are not."""
        return {
            name: {page.id: grade for page in self.pages if (grade := question.grade(page))}
            for name, question in self.questions.items()
        }


def make_web(seed: int = SEED) -> Web:
    """Make the collection: the same for a seed everywhere."""
    topics, draws = load_topics(), [Draws(seed + part) for part in range(4)]  # a new sentence changes no query
    asked = {thing.name: common_queries(topic, thing, draws[0]) for topic in topics for thing in topic.things}
    pages = make_pages(topics, draws[1], asked)
    link_pages(pages, draws[2])
    questions = make_questions(topics, draws[3])
    return Web(pages, {f"q{number:03d}": question for number, question in enumerate(questions, 1)})


def write_web(web: Web, folder: str | os.PathLike[str]) -> list[Path]:
    """Write pages.jsonl, queries.tsv and qrels.txt; the folder is made if need be."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in ("pages.jsonl", "queries.tsv", "qrels.txt")]
    keys = ("id", "title", "body", "url", "links")
    texts = (
        [json.dumps({key: getattr(document, key) for key in keys}) for document in web.documents],
        [f"{name}\t{text}" for name, text in web.queries.items()],
        [f"{query} 0 {page} {grade}" for query, pages in web.qrels.items() for page, grade in pages.items()],
    )
    for path, lines in zip(paths, texts):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    return paths
