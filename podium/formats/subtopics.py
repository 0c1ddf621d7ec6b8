"""Judgements per subtopic, as TREC's diversity tracks have them: lines of `qid subtopic docno relevance`.

A query has several aspects, or intents, and a document is judged for each of them. Subtopics are words of any kind, and
belong to their query: subtopic 1 of one query is not that of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.once import once
from podium._runtime.words import counted
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, numbered_lines, parse_numbers, shown
from podium.formats.trec import Qrels

FORM = "qid subtopic docno relevance"
_NO_SUBTOPIC = {"0", "Q0"}  # what the column holds where it means nothing
_Judged = dict[str, dict[str, dict[str, float]]]  # query -> document -> subtopic -> judgement


@dataclass(frozen=True, eq=False, repr=False)
class SubtopicQrels:
    """Judgements of documents for each subtopic of a query. Pair p has judgements `starts[p]:starts[p + 1]`."""

    documents: Qrels  # each judged document once, with its largest judgement; in falling order of ids within a query
    starts: Array  # (pairs + 1,) int64
    subtopics: Array  # (judgements,) int64: the number of the subtopic within its query, from 0
    judgements: Array  # (judgements,) float64, finite
    names: tuple[tuple[str, ...], ...]  # of the subtopics of each query, by number

    def __post_init__(self) -> None:
        for name in ("starts", "subtopics", "judgements"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    @classmethod
    def read(cls, path: FilePath) -> SubtopicQrels:
        """Read `qid subtopic docno relevance` lines, compressed or not; a line that begins with # is a comment."""
        return _read(path)

    @classmethod
    def from_dict(cls, judged: Mapping[Any, Mapping[Any, Mapping[Any, float]]]) -> SubtopicQrels:
        """Make it from `{query id: {subtopic: {document id: judgement}}}`; ids that are no text become text."""
        by_document: _Judged = {}
        for query, subtopics in _items(judged, "{query: {subtopic: {document: judgement}}}"):
            documents = by_document.setdefault(query, {})
            for subtopic, judgements in _items(subtopics, f"{{subtopic: {{document: judgement}}}} for query {query!r}"):
                for docid, value in _items(judgements, f"{{document: judgement}} for subtopic {subtopic!r}"):
                    where = f"query {query!r}, subtopic {subtopic!r}, document {docid!r}"
                    documents.setdefault(docid, {})[subtopic] = _finite(value, where)
        return _made(by_document)

    def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
        """`{query id: {subtopic: {document id: judgement}}}`."""
        result: dict[str, dict[str, dict[str, float]]] = {}
        starts, docids = self.starts.tolist(), list(self.documents.docid_texts)
        offsets = self.documents.offsets.tolist()
        for q, query in enumerate(self.documents.query_ids):
            by_subtopic: dict[str, dict[str, float]] = {name: {} for name in self.names[q]}
            for pair in range(offsets[q], offsets[q + 1]):
                for k in range(starts[pair], starts[pair + 1]):
                    by_subtopic[self.names[q][self.subtopics[k]]][docids[pair]] = float(self.judgements[k])
            result[query] = by_subtopic
        return result

    @once
    def numbered(self) -> Qrels:
        """The documents with the numbers of their pairs in place of labels."""
        qrels = self.documents
        return Qrels(qrels.query_ids, qrels.offsets, qrels.docid_texts, np.arange(len(qrels), dtype=np.float64))

    @property
    def n_queries(self) -> int:
        return self.documents.n_queries

    def __len__(self) -> int:
        return len(self.judgements)

    def __repr__(self) -> str:
        queries = counted(self.n_queries, "query", "queries")
        subtopics = counted(sum(map(len, self.names)), "subtopic")
        return f"SubtopicQrels({counted(len(self), 'judgement')}, {queries}, {subtopics})"


def _read(path: FilePath) -> SubtopicQrels:
    lines: dict[tuple[str, str, str], int] = {}
    labels: list[bytes] = []
    for line, words in _rows(path):
        *names, label = words
        query, subtopic, docid = (name.decode("utf-8", "surrogateescape") for name in names)
        earlier = lines.setdefault((query, subtopic, docid), line)
        if earlier != line:
            what = f"document {shown(names[2])} of query {query!r} and subtopic {subtopic!r}"
            raise FormatError(path, f"{what} is already at line {earlier}; remove one of them.", line)
        labels.append(label)
    if not lines:
        raise FormatError(path, f"has no rows; expected lines of {FORM!r}.")
    numbers = _numbers(path, labels, list(lines.values()))
    judged: _Judged = {}
    for (query, subtopic, docid), number in zip(lines, numbers):
        judged.setdefault(query, {}).setdefault(docid, {})[subtopic] = number
    named = {subtopic for _, subtopic, _ in lines}
    if named <= _NO_SUBTOPIC:
        column = f"column 2 is {' or '.join(map(repr, sorted(named)))} in all lines: these judgements have no subtopics"
        raise FormatError(path, f"expected lines of {FORM!r}; {column}, which measures such as alpha_nDCG need.")
    return _made(judged)


def _rows(path: FilePath) -> Iterator[tuple[int, list[bytes]]]:
    for number, line in numbered_lines(path):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if len(words) != 4:
            count = f"found {len(words)}: {shown(line.strip())}. Ids must not hold blanks."
            raise FormatError(path, f"expected 4 columns ({FORM}), {count}", number)
        yield number, words


def _numbers(path: FilePath, words: list[bytes], lines: list[int]) -> list[float]:
    numbers, bad = parse_numbers(words)
    if bad is not None:
        message = f"the relevance (column 4 of {FORM!r}) must be a finite number; found {shown(words[bad])}."
        raise FormatError(path, message, lines[bad])
    result: list[float] = numbers.tolist()
    return result


def _items(value: Any, expected: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected {expected}; got {type(value).__name__}.")
    names = [str(key) for key in value]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there more than once, as number and as text; expected {expected}.")
    return list(zip(names, value.values()))


def _finite(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where}: {value!r} is not a finite number.")
    return number


def _made(judged: _Judged) -> SubtopicQrels:
    """In falling order of document ids: of equal gains, the best order takes the first, as ndeval does."""
    judged = {query: dict(sorted(inner.items(), key=_by_bytes, reverse=True)) for query, inner in judged.items()}
    pairs = [judgements for documents in judged.values() for judgements in documents.values()]
    numbers = [
        {name: number for number, name in enumerate(dict.fromkeys(chain.from_iterable(documents.values())))}
        for documents in judged.values()
    ]
    subtopics = [
        number[name]
        for number, documents in zip(numbers, judged.values())
        for judgements in documents.values()
        for name in judgements
    ]
    labels = {
        query: {docid: max(judgements.values()) for docid, judgements in documents.items()}
        for query, documents in judged.items()
    }
    values = np.array([value for judgements in pairs for value in judgements.values()], dtype=np.float64)
    return SubtopicQrels(
        Qrels.from_dict(labels),
        np.cumsum([0, *map(len, pairs)], dtype=np.int64),
        np.array(subtopics, dtype=np.int64),
        values,
        tuple(map(tuple, numbers)),
    )


def _by_bytes(item: tuple[str, Any]) -> bytes:
    return item[0].encode("utf-8", "surrogateescape")
