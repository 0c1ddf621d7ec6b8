"""The first stage: BM25, and the totals TF, IDF and TF*IDF of a small index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from podium.lab.worked.example import MARGINS, SURVEY, Example, formula, number
from podium.search import Extractor, Feature, Features, Index, build_index, open_index

_PAGES = {"a": "fox fox fox den", "b": "hare den", "c": "hare", "d": "den", "e": "den den"}


def retrieval_examples() -> Iterator[Example]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        build_index([{"id": name, "body": text} for name, text in _PAGES.items()], path)
        index = open_index(path)
        yield from _bm25(index)
        yield from _totals(index)
    yield from _letor()


def _bm25(index: Index) -> Iterator[Example]:
    """The lecture leaves idf open: that of Robertson, ln((N - df + 1/2) / (df + 1/2))."""
    best = next(iter(index.search("fox", weighting="bm25-robertson(k1=1.2, b=0.75)")))
    by_hand = "ln((5 - 1 + 1/2) / (1 + 1/2)) * 3*(1.2 + 1) / (3 + 1.2*(1 - 0.75 + 0.75*4/2))"
    what = "BM25, k1 = 1.2, b = 0.75: N = 5, df = 1, tf = 3, length 4, average 2"
    yield formula(SURVEY, what, by_hand, by_hand, best.score)


def _totals(index: Index) -> Iterator[Example]:
    kinds = ("tf", "idf", "tf*idf")
    features = Features(tuple(Feature(kind, kind, "body") for kind in kinds))
    values = Extractor(index, features).values("fox den", [index.number("a")])[0]
    idf = "ln(5/1) + ln(5/4)"
    by_hand = "3 + 1", idf, f"(3 + 1) * ({idf})"
    for kind, arithmetic, ours in zip(kinds, by_hand, values):
        what = f"{kind.upper()} of a query of two terms, added up: tf 3 and 1, df 1 and 4, N = 5"
        yield formula(MARGINS, what, arithmetic, arithmetic, ours)


def _letor() -> Iterator[Example]:
    """Four counts of five fields each, four models of five fields each, then six of the page."""
    names = Features().names
    positions = (
        ("IDF(body)", "6", "5 + 1"),
        ("DL(whole)", "20", "4*5"),
        ("BM25(body)", "21", "4*5 + 1"),
        ("BM25(anchor)", "25", "4*5 + 4 + 1"),
        ("LMIR.DIR(whole)", "39", "4*5 + 4*4 + 3"),
        ("PageRank", "41", "4*5 + 4*5 + 1"),
        ("child pages", "46", "4*5 + 4*5 + 6"),
    )
    for name, printed, by_hand in positions:
        yield number(MARGINS, f"number of the feature {name} of LETOR", printed, by_hand, names.index(name) + 1)
