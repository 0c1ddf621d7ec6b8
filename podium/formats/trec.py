"""TREC files: qrels (judgements) and runs (rankings of a system), one pair of query and document per line.

Columns are separated by blanks or tabs, so ids hold no blanks. A line that begins with `#` is a
comment, as in trec_eval; elsewhere a `#` is an ordinary letter. Queries keep the order of
first appearance and documents the order of the file. A negative relevance (spam or unjudged in some tracks) is kept;
evaluation counts it as 0. The score decides the order of a run; ranks that contradict it are warned of, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.compiler import Array, readonly
from podium._runtime.files import write_whole
from podium._runtime.once import once
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.query_ids import group_rows, object_array
from podium.data.ranking import RankingData
from podium.data.text_hashing import first_repeat
from podium.data.texts import Texts
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, line_blocks, number_text, parse_numbers, shown
from podium.formats.trec_text import NO_RANK, Block, scan_block

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """One number for each pair of query and document. Query q owns pairs `offsets[q]:offsets[q + 1]`."""

    query_ids: Array  # (queries,) str (object), each once
    offsets: Array  # (queries + 1,) int64
    docid_texts: Texts  # one per pair, each once in a query
    values: Array  # (pairs,) float64, finite

    def __post_init__(self) -> None:
        for name in ("query_ids", "offsets", "values"):
            object.__setattr__(self, name, readonly(getattr(self, name)))

    @classmethod
    def from_dict(cls, pairs: Mapping[Any, Mapping[Any, float]]) -> Self:
        """Make it from `{query id: {document id: number}}`; ids that are no text become text."""
        _refuse_other_than_dicts(cls.__name__, pairs)
        documents = [str(docid) for inner in pairs.values() for docid in inner]
        numbers = list(chain.from_iterable(inner.values() for inner in pairs.values()))
        offsets = np.cumsum([0, *(len(inner) for inner in pairs.values())], dtype=np.int64)
        return cls(*_checked(list(map(str, pairs)), offsets, documents, numbers))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """`{query id: {document id: number}}`, in this order."""
        documents, numbers = list(self.docid_texts), self.values.tolist()
        parts = pairwise(self.offsets.tolist())
        return {query: dict(zip(documents[a:b], numbers[a:b])) for query, (a, b) in zip(self.query_ids, parts)}

    @once
    def docids(self) -> Array:
        """One document id per pair (dtype object)."""
        return readonly(self.docid_texts.to_array())

    @property
    def n_queries(self) -> int:
        return len(self.query_ids)

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        arrays = ("query_ids", "offsets", "values")
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in arrays)
        return same and self.docid_texts == other.docid_texts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(len(self), 'pair')}, {counted(self.n_queries, 'query', 'queries')})"


class Qrels(Pairs):
    """Relevance judgements: a label for each judged pair of query and document."""

    @property
    def labels(self) -> Array:
        """(pairs,) float64; a negative one counts as 0 in evaluation."""
        return self.values

    @classmethod
    def from_frame(cls, frame: Any, *, qid: str = "qid", docid: str = "docid", label: str = "label") -> Self:
        """Make it from a pandas, polars or pyarrow table with a row per judged document; other columns are ignored."""
        from podium.formats.run_tables import pairs_of_frame

        return cls.from_dict(pairs_of_frame(frame, qid, docid, label))

    def to_frame(self, backend: str = "pandas") -> Any:
        """A table with columns qid, docid and label: "pandas", "polars" or "pyarrow"."""
        from podium.formats.run_tables import frame_of_pairs

        return frame_of_pairs(self, "label", backend)

    @classmethod
    def from_data(cls, data: RankingData) -> Self:
        """The labels of ranking data, which must have document ids."""
        return cls(*_columns_of(data, data.labels_for("qrels"), "qrels"))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """`{query id: {document id: label}}`; whole labels are Python ints, as pytrec_eval wants them."""
        plain = super().to_dict()
        return {query: {doc: _as_int(label) for doc, label in inner.items()} for query, inner in plain.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Run(Pairs):
    """A system's answer: a score for each retrieved pair of query and document."""

    tag: str | None = None  # the name of the run: the last column of its file

    @property
    def scores(self) -> Array:
        """(pairs,) float64, finite."""
        return self.values

    @classmethod
    def from_frame(cls, frame: Any, *, qid: str = "qid", docid: str = "docid", score: str = "score") -> Self:
        """Make it from a pandas, polars or pyarrow table with a row per retrieved document."""
        from podium.formats.run_tables import pairs_of_frame

        return cls.from_dict(pairs_of_frame(frame, qid, docid, score))

    def to_frame(self, backend: str = "pandas") -> Any:
        """A table with columns qid, docid, score and rank, best first: "pandas", "polars" or "pyarrow"."""
        from podium.formats.run_tables import frame_of_pairs

        return frame_of_pairs(self.ranked(), "score", backend)

    @classmethod
    def from_hits(cls, answers: Mapping[Any, Any]) -> Self:
        """Make it from `{query id: answer}`, answers being the JSON of searches by Elasticsearch or OpenSearch."""
        from podium.formats.run_tables import pairs_of_hits

        return cls.from_dict(pairs_of_hits(answers))

    def to_trec(self, path: FilePath, tag: str = "podium") -> None:
        """Write it as a TREC file: `write_run`."""
        write_run(self, path, tag)

    @classmethod
    def from_scores(cls, data: RankingData, scores: Any) -> Self:
        """Scores for ranking data (one per row, in its order), which must have document ids."""
        return cls(*_columns_of(data, scores, "a run"))

    def ranked(self, top: int | None = None) -> Self:
        """The same answer with the documents of each query best first, or the best `top` of them only."""
        if top is not None and top < 1:
            raise ValueError(f"top must be an integer from 1; got {top}.")
        orders = [order[:top] for _, order in _ranked(self)]
        rows = np.concatenate([np.empty(0, np.int64), *orders])
        offsets = np.cumsum([0, *map(len, orders)], dtype=np.int64)
        return type(self)(self.query_ids, offsets, self.docid_texts.take(rows), self.values[rows], self.tag)


@dataclass(frozen=True)
class _Layout:
    what: str
    form: str
    fewest: int
    most: int
    value: int  # the column of the number, from 0
    value_name: str
    repeats: str  # what to do about a document that is twice in a query
    rank: int = NO_RANK  # the column of the rank


_SUBTOPICS = "remove one of them, or ask for measures of subtopics, such as alpha_nDCG@20, if column 2 has these"
_QRELS = _Layout("qrels", "qid iteration docno relevance", 4, 4, 3, "relevance", _SUBTOPICS)
_RUN = _Layout("a run", "qid Q0 docno rank score tag", 5, 6, 4, "score", "remove one of them", rank=3)
_BLANK_BYTES = b" \t\n\r\x0b\x0c"  # what bytes.split takes for blanks
_NOT_IN_NAMES = np.isin(np.arange(256), list(_BLANK_BYTES + b"\0"))


def refuse_other_than(kind: type[Pairs], value: Any, what: str) -> None:
    """Refuse what is no Qrels, or no Run, and say how to get one."""
    if isinstance(value, kind):
        return
    name = kind.__name__
    if isinstance(value, Mapping):
        advice = f"Use podium.{name}.from_dict({{query: {{document: number}}}})"
    elif isinstance(value, (str, os.PathLike)):
        advice = f"Read the file with podium.read_{name.lower()}"
    else:
        advice = f"podium.read_{name.lower()} and podium.{name}.from_dict make one"
    raise TypeError(f"{what} must be a podium.{name}; got {type(value).__name__}. {advice}.")


def _refuse_other_than_dicts(name: str, pairs: Any) -> None:
    expected = f"expected podium.{name} or {{query: {{document: number}}}}"
    if not isinstance(pairs, Mapping):
        raise ValueError(f"{expected}; got {type(pairs).__name__}.")
    for query, inner in pairs.items():
        if not isinstance(inner, Mapping):
            advice = "Of hits, make {hit.id: hit.score for hit in hits}"
            raise ValueError(f"{expected}; got {type(inner).__name__} for query {query!r}. {advice}.")


def read_qrels(path: FilePath) -> Qrels:
    """Read `qid iteration docno relevance` lines (the iteration is ignored), compressed or not."""
    return Qrels(*_read(path, _QRELS)[0])


def read_run(path: FilePath) -> Run:
    """Read `qid Q0 docno rank score tag` lines (the tag may be missing), compressed or not.

    The score decides; where ranks say otherwise, a warning counts the documents.
    """
    columns, tag = _read(path, _RUN)
    return Run(*columns, tag)


def write_qrels(qrels: Qrels, path: FilePath) -> None:
    """Write `qid 0 docno relevance` lines. A query without documents has no line."""
    refuse_other_than(Qrels, qrels, "write_qrels: the judgements")
    _refuse_names_with_blanks(qrels)
    documents, labels = list(qrels.docid_texts), list(map(number_text, qrels.labels.tolist()))
    with write_whole(path) as stream:
        for query, (start, end) in zip(qrels.query_ids, pairwise(qrels.offsets.tolist())):
            lines = [f"{query} 0 {doc} {label}\n" for doc, label in zip(documents[start:end], labels[start:end])]
            stream.write("".join(lines).encode("utf-8", "surrogateescape"))


def write_run(run: Run, path: FilePath, tag: str = "podium") -> None:
    """Write `qid Q0 docno rank score tag` lines, best first; ties by document id, descending, as trec_eval has it.

    Scores read back exactly (float64). A query without documents has no line.
    """
    refuse_other_than(Run, run, "write_run: the run")
    with write_whole(path) as stream:
        stream.writelines(run_lines(run, tag))


def run_lines(run: Run, tag: str = "podium") -> Iterator[bytes]:
    """The text of a run file, one query at a time."""
    _refuse_names_with_blanks(run)
    if not tag or _NOT_IN_NAMES[list(tag.encode())].any():
        raise ValueError(f"tag must be one word without blanks; got {tag!r}.")
    for query, order in _ranked(run):
        documents, scores = list(run.docid_texts.take(order)), run.scores[order].tolist()
        rows = zip(range(1, len(order) + 1), documents, map(number_text, scores))
        lines = [f"{query} Q0 {doc} {rank} {score} {tag}\n" for rank, doc, score in rows]
        yield "".join(lines).encode("utf-8", "surrogateescape")


Columns = tuple[Array, Array, Texts, Array]  # the fields of Pairs


def _read(path: FilePath, layout: _Layout) -> tuple[Columns, str | None]:
    """The columns of a file, and the last tag in it."""
    queries: dict[bytes, int] = {}
    blocks: list[_Rows] = []
    tag: str | None = None
    for first_line, text in line_blocks(path):
        block = scan_block(text, layout.fewest, layout.most, layout.value, layout.rank)
        if block.wrong[0] >= 0:
            line, n_words = block.wrong
            raise _wrong_count(path, first_line + line, text.split(b"\n")[line], n_words, layout)
        if len(block.lines):
            blocks.append(_rows_of(path, first_line, block, queries, layout))
            tag = text[slice(*block.tag)].decode("utf-8", "surrogateescape") or None
    if not blocks:
        raise FormatError(path, f"has no rows; expected lines of {layout.form!r}.")
    codes, values, lines, ranks = (
        np.concatenate([getattr(rows, name) for rows in blocks]) for name in ("codes", "values", "lines", "ranks")
    )
    texts = Texts.concat([rows.documents for rows in blocks])
    order, offsets, _ = group_rows(codes)
    if layout.rank != NO_RANK:
        _warn_of_contradictions(path, codes, ranks, values, lines)
    if order is not None:
        texts, values, lines = texts.take(order), values[order], lines[order]
    names = [query.decode("utf-8", "surrogateescape") for query in queries]
    _refuse_repeats_in_file(path, names, offsets, texts, lines, layout.repeats)
    return (object_array(names), offsets, texts, values), tag


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of one block of a file."""

    codes: Array  # the number of the query
    documents: Texts
    values: Array
    ranks: Array
    lines: Array


def _rows_of(path: FilePath, first_line: int, block: Block, queries: dict[bytes, int], layout: _Layout) -> _Rows:
    """Number the queries by first appearance in the file."""
    new = np.flatnonzero(block.queries[:, 0] >= 0)
    words = [block.text[start:end] for start, end in block.queries[new].tolist()]
    numbers = np.array([queries.setdefault(word, len(queries)) for word in words], dtype=np.int64)
    codes = np.repeat(numbers, np.diff(np.append(new, len(block.lines))))
    values = _finished(path, first_line, block, layout)
    ranks = np.zeros(len(codes)) if np.isnan(block.ranks).any() else block.ranks
    documents = Texts(block.documents, np.concatenate([np.zeros(1, np.int64), block.ends]))
    return _Rows(codes, documents, values, ranks, block.lines + first_line)


def _finished(path: FilePath, first_line: int, block: Block, layout: _Layout) -> Array:
    """The values, those that the kernel is not sure of by Python."""
    rows = np.flatnonzero(np.isnan(block.values))
    if not len(rows):
        return block.values
    words = [block.text[start:end] for start, end in block.words[rows].tolist()]
    values = block.values.copy()
    values[rows] = _numbers(path, words, block.lines[rows] + first_line, layout)
    return values


def _warn_of_contradictions(path: FilePath, queries: Array, ranks: Array, scores: Array, lines: Array) -> None:
    """Warn of documents with a higher score than the one that is ranked right above them."""
    same = queries[1:] == queries[:-1]
    in_order = (ranks[1:] > ranks[:-1]) & (scores[1:] <= scores[:-1])
    if (in_order | ~same).all() and int((~same).sum()) == int(queries.max()):
        return  # as nearly all files are
    order = np.lexsort((ranks, queries))
    queries, ranks, scores = queries[order], ranks[order], scores[order]
    wrong = (queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]) & (scores[1:] > scores[:-1])
    if not wrong.any():
        return
    number, line = len(np.unique(queries[1:][wrong])), int(lines[order][1:][wrong].min())
    where = f"{counted(number, 'query', 'queries')}, {counted(int(wrong.sum()), 'document')}"
    what = f"scores contradict ranks ({where} with a higher score than the one ranked above)"
    message = f"{os.fspath(path)}, line {line}: {what}"
    warn(f"{message}. The scores decide, as in trec_eval; higher is better.")


def _numbers(path: FilePath, words: list[bytes], lines: Array, layout: _Layout) -> Array:
    numbers, bad = parse_numbers(words)
    if bad is not None:
        message = f"the {layout.value_name} (column {layout.value + 1} of {layout.form!r}) must be a finite number; "
        raise FormatError(path, f"{message}found {shown(words[bad])}.", int(lines[bad]))
    return numbers


def _columns_of(data: RankingData, values: Any, what: str) -> Columns:
    if data.docid_texts is None:
        raise ValueError(
            f"The data has no document ids, and {what} needs them. "
            "Read them from a file that has some, or pass docids= to RankingData.from_arrays."
        )
    numbers, texts = np.array(values, dtype=np.float64), data.docid_texts
    if numbers.shape == (data.n_rows,) and not data.is_contiguous:
        numbers, texts = numbers[data.rows], texts.take(data.rows)
    return _checked(list(map(str, data.query_ids)), data.offsets, list(texts), numbers)


def _checked(queries: list[str], offsets: Array, documents: list[str], values: Any) -> Columns:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected one number per document: {error}.") from None
    if numbers.shape != (len(documents),):
        raise ValueError(f"expected one number per document ({len(documents)}); got shape {numbers.shape}.")
    if len(set(queries)) < len(queries):
        twice = next(query for query in queries if queries.count(query) > 1)
        raise ValueError(f"query {twice!r} is there more than once, as number and as text.")
    for query, (start, end) in zip(queries, pairwise(offsets.tolist())):
        repeat = _first_repeat(documents[start:end])
        if repeat is not None:
            raise ValueError(f"query {query!r} has document {documents[start + repeat]!r} more than once.")
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        query = queries[int(np.searchsorted(offsets, row, side="right")) - 1]
        raise ValueError(f"query {query!r}, document {documents[row]!r}: {numbers[row]} is no finite number.")
    return object_array(queries), offsets, Texts.of(documents), numbers


def _refuse_repeats_in_file(
    path: FilePath, queries: list[str], offsets: Array, documents: Texts, lines: Array, advice: str
) -> None:
    repeat = first_repeat(documents.data, documents.offsets, offsets)
    if repeat is None:
        return
    row, earlier = repeat
    query = queries[int(np.searchsorted(offsets, row, side="right")) - 1]
    word = shown(documents[row].encode("utf-8", "surrogateescape"))
    message = f"document {word} of query {query!r} is already at line {lines[earlier]}; {advice}."
    raise FormatError(path, message, int(lines[row]))


def _first_repeat(names: list[Any]) -> int | None:
    if len(set(names)) == len(names):
        return None
    first = {name: number for number, name in reversed(list(enumerate(names)))}
    return next(number for number, name in enumerate(names) if first[name] < number)


def _wrong_count(path: FilePath, line: int, text: bytes, n_words: int, layout: _Layout) -> FormatError:
    expected = f"{layout.most}" if layout.fewest == layout.most else f"{layout.fewest} or {layout.most}"
    other = next(kind for kind in (_QRELS, _RUN) if kind is not layout)
    hint = f"Is it {other.what}?" if other.fewest <= n_words <= other.most else "Ids must not hold blanks."
    message = f"expected {expected} columns ({layout.form}), found {n_words}: {shown(text.strip())}. {hint}"
    return FormatError(path, message, line)


def _refuse_names_with_blanks(pairs: Pairs) -> None:
    for what, texts in (("query id", Texts.of(pairs.query_ids)), ("document id", pairs.docid_texts)):
        lengths, bad = np.diff(texts.offsets), np.flatnonzero(_NOT_IN_NAMES[texts.data])
        if len(lengths) and lengths.min() == 0:
            raise ValueError(f"{what} number {int(lengths.argmin())} is empty; TREC files cannot hold that.")
        if len(bad):
            row = int(np.searchsorted(texts.offsets, bad[0], side="right")) - 1
            raise ValueError(f"{what} {texts[row]!r} holds a blank; TREC files separate columns by blanks.")
    comment = next((query for query in pairs.query_ids if str(query).startswith("#")), None)
    if comment is not None:
        raise ValueError(f"query id {comment!r} begins with #, which makes its lines comments; rename it.")
    if pairs.n_queries and str(pairs.query_ids[0]).startswith("\ufeff"):
        raise ValueError(f"query id {pairs.query_ids[0]!r} begins with a byte order mark, which readers drop.")


def _ranked(run: Run) -> Iterator[tuple[str, Array]]:
    """Each query with its pairs, best first; equal scores by document id, descending."""
    for query, (start, end) in zip(run.query_ids, pairwise(run.offsets.tolist())):
        order = start + np.argsort(-run.scores[start:end], kind="stable")
        scores = run.scores[order]
        edges = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1], [True]]))
        for first, last in pairwise(edges.tolist()):
            if last - first > 1:
                order[first:last] = _by_docid(run.docid_texts, order[first:last])
        yield query, order


def _by_docid(texts: Texts, rows: Array) -> list[int]:
    data, starts, ends = texts.data, texts.offsets[rows].tolist(), texts.offsets[rows + 1].tolist()
    keys = [data[start:end].tobytes() for start, end in zip(starts, ends)]  # bytes, as strcmp compares them
    return [row for _, row in sorted(zip(keys, rows.tolist()), reverse=True)]


def _as_int(label: float) -> float:
    return int(label) if label == int(label) else label
