"""Collections: documents from files. JSON lines, TREC SGML, SMART, CSV, TSV, Parquet, and folders of text files.

A record that is no document is left out, named by file and line or row, and counted; `strict=True` stops there instead.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium._runtime.files import plain_suffix
from podium._runtime.words import check_choice, excerpt
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, beginning, numbered_lines, shown
from podium.search.documents.document import ID_KEYS, TEXT_KEYS, Document, as_document
from podium.search.documents.markup import elements, plain_text, without
from podium.search.documents.pages import PAGE_SUFFIXES, read_page
from podium.search.documents.rows import LONGEST_CELL, table_rows

_SUFFIXES = {f".{name}": name for name in ("jsonl", "csv", "tsv", "parquet", "trec")}
_SUFFIXES |= {".ndjson": "jsonl", ".json": "jsonl", ".sgml": "trec", ".sgm": "trec"}
_KEPT = 20  # messages
_CITATION = "5"  # the type of .X rows of SMART collections that are citations; others are derived from them


@dataclass
class Faults:
    """Records that were left out: how many, and the first messages."""

    strict: bool = False
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, path: FilePath, problem: object, line: int | None = None, unit: str = "line") -> None:
        error = FormatError(path, str(problem), line, unit=unit)
        if self.strict:
            raise error
        self.count += 1
        if len(self.messages) < _KEPT:
            self.messages.append(str(error))


def read_documents(
    path: str | os.PathLike[str], *, format: str | None = None, strict: bool = False, faults: Faults | None = None
) -> Iterator[Document]:
    """The documents of a file or folder, one at a time. Records left out are noted in `faults`."""
    path = Path(path)
    path.stat()  # what is missing is an error here, not when the first document is asked for
    noted = Faults(strict) if faults is None else faults
    kind = format or document_format(path)
    check_choice("format", kind, DOCUMENT_FORMATS)
    if kind != "folder" and path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a file of format {kind}.")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} cannot be read.")
    if path.is_file() and not path.stat().st_size:
        return iter(())
    return DOCUMENT_FORMATS[kind](path, noted)


def document_format(path: Path) -> str:
    """The format of a file, by its name, else by what it begins with."""
    if path.is_dir():
        return "folder"
    format = _SUFFIXES.get(plain_suffix(path))
    if format is not None:
        return format
    start = beginning(path, 4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "jsonl"  # nothing in any format
    for mark, name in ((b"<DOC", "trec"), (b".I", "smart"), (b"{", "jsonl")):
        if start.upper().startswith(mark):
            return name
    if plain_suffix(path) in PAGE_SUFFIXES:
        return "folder"
    raise FormatError(
        path, f"no known collection of documents begins with {shown(start[:20])}. Name its format (format=, --format)."
    )


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, compressed or not. Bytes that are not UTF-8 become surrogates, as in `Texts`."""
    for number, line in numbered_lines(path):
        yield number, line.decode("utf-8", "surrogateescape")


def _json_lines(path: Path, faults: Faults) -> Iterator[Document]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            faults.add(path, f"expected a JSON object, found {excerpt(line)} ({error}).", number)
            continue
        yield from _checked(path, record, faults, number)


def _checked(path: Path, record: Any, faults: Faults, line: int, unit: str = "line") -> Iterator[Document]:
    try:
        yield as_document(record)
    except ValueError as error:
        faults.add(path, error, line, unit)


_DOCUMENT_TAG = re.compile(r"<(/?)DOC(?:\s[^<>]*)?>", re.IGNORECASE | re.ASCII)
_TREC_TITLES = "TITLE|HEADLINE|HL|TTL|TI|H3"


def _trec(path: Path, faults: Faults) -> Iterator[Document]:
    inside: list[str] | None = None  # the lines of a document that has begun
    begun, stray = 0, False
    for number, tag, text in _trec_parts(path):
        if tag is None:
            if inside is not None:
                inside.append(text)
            elif not stray and plain_text(text):
                stray = True
                faults.add(path, f"expected <DOC>, found {excerpt(text.strip())}.", number)
            continue
        if inside is not None and tag == "</":
            yield from _trec_document(path, "\n".join(inside), faults, begun)
        elif inside is not None:
            faults.add(path, "<DOC> without </DOC> before the next one.", begun)
        elif tag == "</" and not stray:
            faults.add(path, "</DOC> without <DOC> before it.", number)
        inside, begun, stray = ([] if tag == "<" else None), number, False
    if inside is not None:
        faults.add(path, "<DOC> without </DOC>; is the file cut short?", begun)


def _trec_parts(path: Path) -> Iterator[tuple[int, str | None, str]]:
    """(line, "<" of a start tag or "</" of an end tag of DOC, "") or (line, None, text)."""
    for number, line in text_lines(path):
        if "<" not in line:
            yield number, None, line
            continue
        position = 0
        for tag in _DOCUMENT_TAG.finditer(line):
            if tag.start() > position:
                yield number, None, line[position : tag.start()]
            yield number, f"<{tag[1]}", ""
            position = tag.end()
        if position < len(line):
            yield number, None, line[position:]


def _trec_document(path: Path, text: str, faults: Faults, line: int) -> Iterator[Document]:
    parts = list(elements(text, f"DOCNO|DOCHDR|URL|{_TREC_TITLES}"))
    ids = dict.fromkeys(part.content.strip() for part in parts if part.name == "DOCNO")
    if len(ids) != 1:
        listed = ", ".join(map(excerpt, list(ids)[:2])) or "none"
        faults.add(path, f"expected <DOCNO>id</DOCNO> once within <DOC>; found {listed}.", line)
        return
    header = [word for part in parts if part.name == "DOCHDR" for word in part.content.split(None, 1)[:1]]
    urls = [part.content.strip() for part in parts if part.name == "URL"]
    titles = [plain_text(part.content) for part in parts if part.name not in ("DOCNO", "DOCHDR", "URL")]
    record = {"id": next(iter(ids)), "title": " ".join(titles), "url": next(iter([*urls, *header]), "")}
    yield from _checked(path, record | {"body": plain_text(without(text, parts))}, faults, line)


_SMART_MARK = re.compile(r"\.([A-Z])(?:\s+(.*))?$")


def smart_records(path: Path, faults: Faults) -> Iterator[tuple[int, str, dict[str, list[str]]]]:
    """(line, id, lines by mark) of each record; a mark that is repeated goes on."""
    number, name, parts, mark = 0, "", dict[str, list[str]](), ""
    for line_number, line in text_lines(path):
        match = _SMART_MARK.match(line)
        if match is not None and match[1] == "I":
            if number:
                yield number, name, parts
            number, name, parts, mark = line_number, (match[2] or "").strip(), {}, ""
        elif match is not None and number:
            mark = match[1]
            parts.setdefault(mark, []).extend([match[2]] if match[2] else [])
        elif number and mark:
            parts[mark].append(line)
        elif line.strip():
            faults.add(path, f"expected a mark such as .I 1 or .W, found {excerpt(line)}.", line_number)
    if number:
        yield number, name, parts


def _smart(path: Path, faults: Faults) -> Iterator[Document]:
    for line, name, parts in smart_records(path, faults):
        joined = {mark: "\n".join(lines).strip() for mark, lines in parts.items()}
        rows = [row.split() for row in parts.get("X", [])]
        links = [row[2 if row[0] == name else 0] for row in rows if len(row) == 3 and row[1] == _CITATION]
        further = {"A": "author", "B": "source", "K": "keywords", "C": "categories", "N": "notes"}
        record = {"id": name, "title": joined.get("T", ""), "body": joined.get("W", "")}
        record |= {label: joined[mark] for mark, label in further.items() if joined.get(mark)}
        yield from _checked(path, record | {"links": [link for link in links if link != name]}, faults, line)


def _csv(separator: str) -> Callable[[Path, Faults], Iterator[Document]]:
    def read(path: Path, faults: Faults) -> Iterator[Document]:
        rows = table_rows(_table_lines(path), separator)
        first, header = next(rows, (1, None))
        if header is None:
            faults.add(path, "has no header; expected names of columns such as id, title and body.", first)
            return
        names, is_empty = _column_names(path, header), True
        for line, row in rows:
            is_empty = False
            yield from _table_document(path, names, row, faults, line)
        if is_empty and not any(name in ID_KEYS for name in names):  # a row without a header?
            faults.add(path, f"expected a header with a column id, found {excerpt(separator.join(header))}.", first)

    return read


def _tsv(path: Path, faults: Faults) -> Iterator[Document]:
    """A table with a header, or lines `id<tab>text`, as MS MARCO has them: quotation marks are part of the text."""
    first = next((line.split("\t") for _, line in text_lines(path) if line.strip()), [])
    if len(first) != 2 or first[0].strip() in ID_KEYS or first[1].strip().lower() in TEXT_KEYS:
        yield from _csv("\t")(path, faults)
        return
    for number, line in text_lines(path):
        name, tab, text = line.partition("\t")
        if tab:
            yield from _checked(path, (name.strip(), text), faults, number)
        elif line.strip():
            faults.add(path, f"expected id<tab>text, found {excerpt(line)}.", number)


def _table_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that end in a line feed, a carriage return or both."""
    number = 0
    for _, text in text_lines(path):
        for line in text.split("\r"):
            number += 1
            yield number, line


def _column_names(path: Path, header: Sequence[str]) -> list[str]:
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, 1)]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise FormatError(path, f"column names must differ; found {excerpt(twice)} twice.", 1)
    return names


def _table_document(
    path: Path, names: list[str], row: list[str] | None, faults: Faults, line: int
) -> Iterator[Document]:
    if row is None:
        faults.add(path, "a quotation mark is not closed in this line.", line)
    elif len(row) != len(names):
        faults.add(path, f"expected {len(names)} columns, found {len(row)}.", line)
    elif max(map(len, row)) > LONGEST_CELL:
        name = names[[len(cell) > LONGEST_CELL for cell in row].index(True)]
        faults.add(path, f"expected cells of at most {LONGEST_CELL >> 10} KiB; {excerpt(name)} is longer.", line)
    else:
        yield from _filled(path, dict(zip(names, row)), faults, line)


def _filled(path: Path, record: Mapping[str, Any], faults: Faults, line: int, unit: str = "line") -> Iterator[Document]:
    """The document of a row without its empty cells (NaN is one too); lists of links are written as JSON."""
    filled = {name: value for name, value in record.items() if value not in ("", None) and value == value}
    for name in ("links", "anchors"):
        if isinstance(filled.get(name), str):
            try:
                filled[name] = json.loads(filled[name])
            except (ValueError, RecursionError):
                faults.add(path, f"{name} must be a list in JSON; found {excerpt(filled[name])}.", line, unit)
                return
    yield from _checked(path, filled, faults, line, unit)


def _parquet(path: Path, faults: Faults) -> Iterator[Document]:
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError as error:
        raise ImportError(f'{path}: Parquet files need pyarrow. Run: pip install "podium[arrow]"') from error
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            _column_names(path, file.schema_arrow.names)
            for batch in file.iter_batches(1024):
                for row in _parquet_rows(batch):
                    number += 1
                    if isinstance(row, str):
                        faults.add(path, row, number, "row")
                    else:
                        yield from _filled(path, row, faults, number, "row")
    except (ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk; damaged pages have no number
            raise
        raise FormatError(path, f"not a Parquet file, or damaged: {error}") from error


def _parquet_rows(batch: Any) -> Iterator[dict[str, Any] | str]:
    """The rows of a batch; a message in place of one that Python has no values for."""
    try:
        rows = batch.to_pylist()
    except (ValueError, OverflowError, ImportError):  # one row at a time then
        rows = (_parquet_row(batch, row) for row in range(batch.num_rows))
    yield from rows


def _parquet_row(batch: Any, number: int) -> dict[str, Any] | str:
    row = {}
    for name, column in zip(batch.schema.names, batch.columns):
        value = column[number]
        try:
            row[name] = value.as_py()
        except UnicodeDecodeError:
            row[name] = value.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
        except (ValueError, OverflowError, ImportError) as error:
            return f"column {excerpt(name)} has a value that cannot be read ({str(error)[:80]})."
    return row


def _folder(path: Path, faults: Faults) -> Iterator[Document]:
    root = path if path.is_dir() else path.parent
    files = sorted(child for child in path.rglob("*") if child.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix.lower() in PAGE_SUFFIXES:
            try:
                yield as_document(read_page(file, file.relative_to(root).as_posix()))
            except (ValueError, OSError) as error:
                faults.add(file, error)


DOCUMENT_FORMATS: dict[str, Callable[[Path, Faults], Iterator[Document]]] = {
    "jsonl": _json_lines,
    "trec": _trec,
    "smart": _smart,
    "csv": _csv(","),
    "tsv": _tsv,
    "parquet": _parquet,
    "folder": _folder,
}
