"""Queries from files, and the runs that searching for them gives.

TSV lines `id<tab>text`, JSON lines with id and text, TREC topics (the title is the query) and SMART (.I and .W).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.words import check_choice
from podium.data.texts import Texts
from podium.formats.errors import FormatError
from podium.formats.trec import Run
from podium.search.collections import Faults, smart_records, text_lines
from podium.search.reading import Fields, Hits, Index
from podium.search.weightings import Weighting

_BATCH = 1000  # queries between two reports of progress


def read_queries(
    path: str | os.PathLike[str], *, format: str | None = None, by_position: bool = False
) -> dict[str, str]:
    """{id: text} in the order of the file. `by_position` numbers the queries from 1, as Cranfield's judgements do."""
    path = Path(path)
    kind = format or _format(path)
    check_choice("format", kind, _READERS)
    found: dict[str, str] = {}
    for place, (line, name, text) in enumerate(_READERS[kind](path), 1):
        key = str(place) if by_position else name
        if not key or not text.strip():
            raise FormatError(path, "expected a query with an id and a text that is not empty.", line)
        if key in found:
            raise FormatError(path, f"query {key!r} is there already. Number queries by position, or rename one.", line)
        found[key] = text.strip()
    if not found:
        raise FormatError(path, f"has no queries; expected format {kind}.")
    return found


def _format(path: Path) -> str:
    start = next((line for _, line in text_lines(path) if line.strip()), "").lstrip()
    if start.startswith(".I"):
        return "smart"
    if start.startswith("{"):
        return "jsonl"
    return "trec" if start.startswith("<") else "tsv"


Records = Iterator[tuple[int, str, str]]  # line, id, text


def _tsv(path: Path) -> Records:
    for number, line in text_lines(path):
        if line.strip():
            name, tab, text = line.partition("\t")
            if not tab:
                raise FormatError(path, f"expected id<tab>text, found {line[:60]!r}.", number)
            yield number, name.strip(), text


def _json_lines(path: Path) -> Records:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            name = next(record[key] for key in ("id", "_id", "qid") if key in record)
            text = next(record[key] for key in ("text", "query", "title") if key in record)
        except (ValueError, TypeError, StopIteration, RecursionError) as error:
            message = f"expected a JSON object with id and text, found {line[:60]!r}."
            raise FormatError(path, message, number) from error
        yield number, str(name), str(text)


_TOPIC = re.compile(r"<top(?:ic)?\b([^>]*)>(.*?)</top(?:ic)?>", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"<num(?:ber)?>\s*(?:Number:)?\s*([^\s<]+)|number\s*=\s*\"([^\"]+)\"", re.IGNORECASE)
_TITLE = re.compile(r"<(?:title|query)>\s*(?:Topic:)?(.*?)(?=<)", re.IGNORECASE | re.DOTALL)


def _trec(path: Path) -> Records:
    lines = [line for _, line in text_lines(path)]
    text = "\n".join(lines)
    for topic in _TOPIC.finditer(text):
        line = text.count("\n", 0, topic.start()) + 1
        number = _NUMBER.search(topic[1] + topic[2])
        title = _TITLE.search(topic[2] + "<")
        if number is None or title is None:
            raise FormatError(path, "expected <num> and <title> within <top>.", line)
        yield line, number[1] or number[2], " ".join(title[1].split())


def _smart(path: Path) -> Records:
    for line, name, parts in smart_records(path, Faults(strict=True)):
        yield line, name, " ".join(" ".join(parts.get("W", [])).split())


_READERS = {"tsv": _tsv, "jsonl": _json_lines, "trec": _trec, "smart": _smart}


def search_run(
    index: Index,
    queries: Mapping[str, str],
    k: int = 1000,
    *,
    weighting: str | Weighting = "bm25",
    fields: Fields = "whole",
    n_jobs: int | None = None,
    report: Any = None,
) -> Run:
    """The k best documents per query as a TREC run."""

    def search(texts: Sequence[str]) -> Sequence[Hits]:
        return index.search_many(texts, k, weighting=weighting, fields=fields, n_jobs=n_jobs)

    return gather_run(search, queries, report)


def gather_run(search: Callable[[Sequence[str]], Sequence[Hits]], queries: Mapping[str, str], report: Any) -> Run:
    """What a search finds for each query, batch by batch; `report(done, all)` after each batch, unless it is None."""
    texts = list(queries.values())
    ids: list[str] = []
    scores: list[float] = []
    sizes: list[int] = []
    for start in range(0, len(texts), _BATCH):
        for hits in search(texts[start : start + _BATCH]):
            ids += hits.ids
            scores += hits.scores
            sizes.append(len(hits))
        if report is not None:
            report(min(start + _BATCH, len(texts)), len(texts))
    names = np.array(list(queries), dtype=object)
    return Run(names, np.cumsum([0, *sizes], dtype=np.int64), Texts.of(ids), np.array(scores, np.float64))
