"""Queries from files, and the runs that searching for them gives.

TSV lines `id<tab>text`, with or without a header, JSON lines with id and text, TREC topics (the title is the query) and
SMART (.I and .W).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.words import check_choice, excerpt
from podium.data.texts import Texts
from podium.formats.errors import FormatError
from podium.formats.trec import Run
from podium.search.documents.collections import Faults, smart_records, text_lines
from podium.search.documents.document import TEXT_KEYS, check_id, id_text, valid_text
from podium.search.searcher import Searcher

_BATCH = 1000  # queries between two reports of progress


def read_queries(
    path: str | os.PathLike[str], *, format: str | None = None, by_position: bool = False
) -> dict[str, str]:
    """{id: text} in the order of the file. `by_position` numbers the queries from 1, as Cranfield's judgements do."""
    path = Path(path)
    kind = format or _format(path)
    check_choice("format", kind, _READERS)
    queries: dict[str, str] = {}
    for number, (line, name, text) in enumerate(_READERS[kind](path), 1):
        key = str(number) if by_position else name
        if not key or not text.strip():
            raise FormatError(path, "expected a query with an id and a text that is not empty.", line)
        try:
            check_id(key)
        except ValueError as error:
            raise FormatError(path, str(error), line) from error
        if key in queries:
            message = f"query {excerpt(key)} is there already. Number queries by position, or rename one."
            raise FormatError(path, message, line)
        queries[key] = valid_text(text.strip())
    if not queries:
        raise FormatError(path, f"has no queries; expected format {kind}.")
    return queries


def _format(path: Path) -> str:
    start = next((line for _, line in text_lines(path) if line.strip()), "").lstrip()
    if start.startswith(".I"):
        return "smart"
    if start.startswith("{"):
        return "jsonl"
    return "trec" if start.startswith("<") else "tsv"


Records = Iterator[tuple[int, str, str]]  # line, id, text
_ID_NAMES = ("id", "_id", "qid", "query_id")


def _tsv(path: Path) -> Records:
    first = True
    for number, line in text_lines(path):
        if line.strip():
            name, tab, text = line.partition("\t")
            is_header, first = first and name.strip().lower() in _ID_NAMES and text.strip().lower() in TEXT_KEYS, False
            if is_header:
                continue
            if not tab:
                raise FormatError(path, f"expected id<tab>text, found {excerpt(line)}.", number)
            yield number, name.strip(), text


def _json_lines(path: Path) -> Records:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            name = id_text(next(record[key] for key in ("id", "_id", "qid") if key in record))
            text = id_text(next(record[key] for key in ("text", "query", "title") if key in record))  # or a number
        except (ValueError, TypeError, StopIteration, RecursionError) as error:
            message = f"expected a JSON object with id and text, found {excerpt(line)}."
            raise FormatError(path, message, number) from error
        yield number, name, text


_TOPIC_TAG = re.compile(r"<(/?)top(?:ic)?(\s[^<>]*)?>", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"<num(?:ber)?>\s*+(?:Number:\s*+)?([^\s<]+)|number\s*+=\s*+\"([^\"]+)\"", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|query)>\s*+(?:Topic:)?([^<]*)", re.IGNORECASE)


def _trec(path: Path) -> Records:
    text = "\n".join(line for _, line in text_lines(path))
    line, counted, begun = 1, 0, None
    for tag in _TOPIC_TAG.finditer(text):
        line += text.count("\n", counted, tag.start())
        counted = tag.start()
        if (begun is None) == bool(tag[1]):
            raise FormatError(path, "expected <top> and </top> in turn.", line)
        if begun is not None:
            yield begun[0], *_topic(path, begun[0], begun[1] + text[begun[2] : tag.start()])
        begun = None if tag[1] else (line, tag[2] or "", tag.end())
    if begun is not None:
        raise FormatError(path, "<top> without </top>; is the file cut short?", begun[0])


def _topic(path: Path, line: int, text: str) -> tuple[str, str]:
    """The id and the title of a topic."""
    number, title = _NUMBER.search(text), _TITLE.search(text)
    if number is None or title is None:
        raise FormatError(path, "expected <num> and <title> within <top>.", line)
    return number[1] or number[2], " ".join(title[1].split())


def _smart(path: Path) -> Records:
    for line, name, parts in smart_records(path, Faults(strict=True)):
        yield line, name, " ".join(" ".join(parts.get("W", [])).split())


_READERS = {"tsv": _tsv, "jsonl": _json_lines, "trec": _trec, "smart": _smart}


def as_queries(queries: Any) -> dict[str, str]:
    """{id: text} as it was given, checked; ids that are no text become text."""
    if not isinstance(queries, Mapping):
        raise ValueError(f"queries must be {{id: text}}; got {type(queries).__name__}.")
    for name, text in queries.items():
        if not isinstance(text, str):
            raise ValueError(f"queries must be {{id: text}}; the text of {name!r} is {type(text).__name__}.")
    return {str(name): text for name, text in queries.items()}


def search_run(
    searcher: Searcher,
    queries: Mapping[str, str],
    k: int = 1000,
    *,
    n_jobs: int | None = None,
    report: Any = None,
    **first_stage: Any,
) -> Run:
    """The k best documents per query as a TREC run; `first_stage` has the weighting and fields of an index.

    `report(done, all)` is called after each batch of queries, unless it is None.
    """
    texts = list(queries.values())
    ids: list[str] = []
    scores: list[float] = []
    sizes: list[int] = []
    for start in range(0, len(texts), _BATCH):
        for hits in searcher.search_many(texts[start : start + _BATCH], k, n_jobs=n_jobs, **first_stage):
            ids += hits.ids
            scores += hits.scores
            sizes.append(len(hits))
        if report is not None:
            report(min(start + _BATCH, len(texts)), len(texts))
    names = np.array(list(queries), dtype=object)
    return Run(names, np.cumsum([0, *sizes], dtype=np.int64), Texts.of(ids), np.array(scores, np.float64))
