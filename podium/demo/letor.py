"""A small ranking data set in the manner of LETOR, made by code: synthetic documents, synthetic judgements.

A collection of documents has fixed qualities (links, length, age, spam); each query draws candidates from it and adds
how well they match. What makes a document relevant depends on the kind of query:

- *known-item* queries want the page whose title and address match, all the more if it is well linked;
- *topic* queries want a body that matches, best of a middling length;
- *news* queries want a body that matches and is recent.

Spam ruins any document. So no single feature and no weighted sum orders all queries well, and trees can.

The draws are the raw words of PCG64, a stream NumPy does not change between versions, and only operations that
IEEE 754 rounds exactly follow (no exp, no log, no library normal): the same seed gives the same bytes everywhere.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from podium.data.ranking import RankingData

Columns = dict[str, np.ndarray]

# The names say what such a feature would measure on real pages; the values here are made up.
FEATURE_NAMES = (
    *("bm25_body", "bm25_title", "bm25_anchor", "bm25_url", "tf_body", "tf_title", "tfidf_body", "lm_dirichlet_body"),
    *("coverage_body", "coverage_title", "proximity_body", "body_length", "title_length", "url_slashes", "pagerank"),
    *("inlinks", "outlinks", "age_days", "spam_score", "click_rate", "dwell_seconds", "query_terms", "crawl_batch"),
    *("shard_position",),
)
_COLLECTION = 9973  # documents; a prime, so that every step through it visits them all
_SHORTEST, _LONGEST = 5, 120  # documents per query
_CUTOFFS = (0.6, 1.7, 2.8, 3.7)  # relevance needed for labels 1, 2, 3 and 4


class Splits(NamedTuple):
    """Each query lies in one of the three."""

    train: RankingData
    valid: RankingData
    test: RankingData


def make_letor(seed: int = 2008, n_queries: int = 300) -> RankingData:
    """Make the synthetic data set: about 43 documents per query, 24 features, labels 0 to 4, some values missing."""
    if n_queries < 1:
        raise ValueError(f"n_queries must be at least 1; got {n_queries}.")
    draws = _Draws(seed)
    collection, queries = _make_collection(draws), _make_queries(draws, n_queries)
    of_query, document = _make_candidates(draws, queries["length"])
    quality = {name: values[document] for name, values in collection.items()}
    query = {name: values[of_query] for name, values in queries.items()}
    n = len(document)
    match = _make_matches(draws, n)
    relevance = _relevance(query, quality, match) + 0.4 * draws.bell(n)
    features = _link_and_page_features(quality) | _match_features(draws, query, quality, match)
    features |= _click_features(draws, relevance)
    features |= {"crawl_batch": draws.whole(n, 1, 40), "shard_position": draws.uniform(n)}  # noise
    return RankingData.from_arrays(
        np.stack([np.round(features[name], 4) for name in FEATURE_NAMES], axis=1),
        np.searchsorted(_CUTOFFS, relevance, side="right"),
        qid=of_query + 1,
        docids=[f"D-{number:06d}" for number in document],
        feature_names=FEATURE_NAMES,
    )


def demo_splits(seed: int = 2008, n_queries: int = 300) -> Splits:
    """The data set in three parts: 60, 20 and 20 percent of the queries."""
    if n_queries < 5:
        raise ValueError(f"n_queries must be at least 5, for three parts with a query each; got {n_queries}.")
    data = make_letor(seed, n_queries)
    valid, test = n_queries * 3 // 5, n_queries * 4 // 5
    return Splits(data.subset(slice(valid)), data.subset(slice(valid, test)), data.subset(slice(test, None)))


def write_demo(folder: str | os.PathLike[str], seed: int = 2008, n_queries: int = 300) -> list[Path]:
    """Write train.txt, valid.txt and test.txt in LETOR format; the folder is made if need be."""
    from podium.formats.letor import write_letor

    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for name, part in demo_splits(seed, n_queries)._asdict().items():
        paths.append(Path(folder) / f"{name}.txt")
        write_letor(replace(part, feature_names=None), paths[-1])  # LETOR numbers its features
    return paths


class _Draws:
    """Random numbers from the raw words of a bit generator, by exact arithmetic only."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, n: int) -> np.ndarray:
        """n numbers in [0, 1)."""
        words = np.asarray(self._bits.random_raw(n))
        return np.asarray((words >> np.uint64(11)) * 2.0**-53)

    def whole(self, n: int, low: int, high: int) -> np.ndarray:
        """n integers from low to high, both included."""
        steps: np.ndarray = np.floor((high - low + 1) * self.uniform(n))
        return steps.astype(np.int64) + low

    def bell(self, n: int) -> np.ndarray:
        """n numbers of mean 0 and variance 1: four uniform ones added, close enough to a normal distribution."""
        total = self.uniform(n) + self.uniform(n) + self.uniform(n) + self.uniform(n)
        return np.asarray((total - 2.0) * 1.7320508075688772)


def _make_collection(draws: _Draws) -> Columns:
    n = _COLLECTION
    fame, age = draws.uniform(n), draws.uniform(n)
    return {
        "fame": fame * fame,  # few pages are well linked
        "length": draws.uniform(n),
        "age": age * age,
        "spam": draws.uniform(n),
        "slashes": draws.whole(n, 1, 6),
        "title": draws.whole(n, 2, 14),
        "jitter": draws.bell(n),
    }


def _make_queries(draws: _Draws, n: int) -> Columns:
    kind = draws.uniform(n)
    known_item, news = kind < 0.35, kind >= 0.75
    span = draws.uniform(n)
    terms = np.where(known_item, draws.whole(n, 1, 3), np.where(news, draws.whole(n, 2, 4), draws.whole(n, 4, 8)))
    return {
        "length": (_SHORTEST + np.floor((_LONGEST - _SHORTEST + 1) * span * span)).astype(np.int64),
        "known_item": known_item,
        "news": news,
        "terms": terms,
        "rarity": 0.5 + 2.0 * draws.uniform(n),  # of its words: the scale of its scores
        "supply": 0.5 * draws.bell(n),  # how much of the collection answers it
    }


def _make_candidates(draws: _Draws, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The query and the document of each row; no document twice in a query."""
    of_query = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(of_query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    start, step = draws.whole(len(lengths), 0, _COLLECTION - 1), draws.whole(len(lengths), 1, _COLLECTION - 1)
    return of_query, (start[of_query] + number * step[of_query]) % _COLLECTION


def _make_matches(draws: _Draws, n: int) -> Columns:
    body = draws.bell(n)
    title = 0.4 * body + 0.9 * draws.bell(n)
    return {
        "body": body,
        "title": title,
        "url": 0.5 * title + 0.85 * draws.bell(n),
        "anchor": 0.5 * title + 0.85 * draws.bell(n),
        "proximity": 0.5 * body + 0.85 * draws.bell(n),
    }


def _relevance(query: Columns, quality: Columns, match: Columns) -> np.ndarray:
    known_item = 0.8 * match["title"] + 0.5 * match["url"] + 2.0 * quality["fame"] * np.maximum(match["title"], 0.0)
    from_middle = 4.0 * (quality["length"] - 0.5)
    topic = 1.1 * match["body"] + 0.3 * match["proximity"] + 0.8 / (1.0 + from_middle * from_middle) - 0.3
    in_months = 20.0 * quality["age"]
    news = 0.8 * match["body"] + 2.0 / (1.0 + in_months * in_months) - 0.4
    wanted = np.where(query["known_item"], known_item, np.where(query["news"], news, topic))
    return np.asarray(wanted + query["supply"] - 2.0 * (quality["spam"] > 0.8))


def _match_features(draws: _Draws, query: Columns, quality: Columns, match: Columns) -> Columns:
    """Scores as a search engine would give them: the scale depends on the query, noise on the field."""
    n, scale = len(match["body"]), query["rarity"]

    def score(field: str, noise: float, base: float) -> np.ndarray:
        return np.maximum(scale * (base + 2.0 * (match[field] + noise * draws.bell(n))), 0.0)

    def counted(field: str, most: np.ndarray) -> np.ndarray:
        return np.clip(np.round(most * (0.5 + 0.2 * (match[field] + 0.6 * draws.bell(n)))), 0, most)

    bm25, long = score("body", 0.3, 8.0), 0.5 + quality["length"]
    return {
        "bm25_body": bm25,
        "bm25_title": score("title", 0.3, 4.0),
        "bm25_anchor": score("anchor", 0.5, 3.0),
        "bm25_url": score("url", 0.5, 2.0),
        "tf_body": np.round(long * (12.0 + 4.0 * (match["body"] + 0.8 * draws.bell(n)))),
        "tf_title": counted("title", quality["title"]),
        "tfidf_body": bm25 * (1.0 + 0.2 * quality["jitter"] / (3.0 + np.abs(quality["jitter"]))),  # nearly a copy
        "lm_dirichlet_body": -30.0 * query["terms"] + score("body", 0.6, 8.0),
        "coverage_body": counted("body", query["terms"]) / query["terms"],
        "coverage_title": counted("title", query["terms"]) / query["terms"],
        "proximity_body": 1.0 / (1.0 + np.maximum(3.0 - match["proximity"] - 0.5 * draws.bell(n), 0.0)),
        "query_terms": query["terms"],
    }


def _link_and_page_features(quality: Columns) -> Columns:
    fame, spread = quality["fame"], 1.0 + 0.2 * quality["jitter"]
    return {
        "body_length": np.round(40.0 + 4000.0 * quality["length"] * quality["length"]),
        "title_length": quality["title"],
        "url_slashes": quality["slashes"],
        "pagerank": 0.15 + 9.0 * fame * fame,
        "inlinks": np.round(np.maximum(2000.0 * fame * fame * fame * spread, 0.0)),
        "outlinks": np.round(10.0 + 30.0 * np.abs(quality["jitter"])),
        "age_days": np.round(1.0 + 1500.0 * quality["age"]),
        "spam_score": np.round(100.0 * quality["spam"]),
    }


def _click_features(draws: _Draws, relevance: np.ndarray) -> Columns:
    """What users did, as far as they saw the document: noisy, and missing for the rest."""
    n = len(relevance)
    unseen, unread = draws.uniform(n) < 0.4, draws.uniform(n) < 0.3
    pull = np.maximum(relevance + 3.0 + 2.2 * draws.bell(n), 0.0)
    dwell = np.maximum(relevance + 3.0 + 2.8 * draws.bell(n), 0.0)
    return {
        "click_rate": np.where(unseen, np.nan, pull / (6.0 + pull)),
        "dwell_seconds": np.where(unseen | unread, np.nan, np.round(8.0 * dwell, 1)),
    }
