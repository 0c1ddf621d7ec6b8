"""Collections: documents from files. JSON lines, TREC SGML, SMART, CSV, TSV, Parquet, and folders of text files.

A record that is no document is left out, named by file and line, and counted; `strict=True` stops there instead.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium._runtime.files import open_bytes, plain_suffix
from podium._runtime.words import check_choice
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, line_blocks, shown
from podium.search.documents import Document, as_document
from podium.search.pages import PAGE_SUFFIXES, read_page

_SUFFIXES = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".sgml": "trec",
    ".sgm": "trec",
    ".trec": "trec",
}
_KEPT = 20  # messages
_CITATION = "5"  # the type of .X rows of SMART collections that are citations; others are derived from them


@dataclass
class Faults:
    """Records that were left out: how many, and the first messages."""

    strict: bool = False
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, path: FilePath, problem: object, line: int | None = None) -> None:
        error = FormatError(path, str(problem), line)
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
    noted = Faults(strict) if faults is None else faults
    kind = format or document_format(path)
    check_choice("format", kind, DOCUMENT_FORMATS)
    if kind != "folder" and path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a file of format {kind}.")
    return DOCUMENT_FORMATS[kind](path, noted)


def document_format(path: Path) -> str:
    """The format of a file, by its name, else by what it begins with."""
    if path.is_dir():
        return "folder"
    found = _SUFFIXES.get(plain_suffix(path))
    if found is not None:
        return found
    with open_bytes(path) as stream:
        start = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    for mark, name in ((b"<DOC", "trec"), (b".I", "smart"), (b"{", "jsonl")):
        if start.upper().startswith(mark):
            return name
    if plain_suffix(path) in PAGE_SUFFIXES:
        return "folder"
    raise FormatError(path, f"no known collection of documents begins with {shown(start[:20])}. Name its format.")


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file, compressed or not."""
    for first, block in line_blocks(path):
        for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            yield number, line.decode("utf-8", "replace").rstrip("\r")


def _json_lines(path: Path, faults: Faults) -> Iterator[Document]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            faults.add(path, f"expected a JSON object, found {line[:60]!r} ({error}).", number)
            continue
        yield from _checked(path, record, faults, number)


def _checked(path: Path, record: Any, faults: Faults, line: int) -> Iterator[Document]:
    try:
        yield as_document(record)
    except ValueError as error:
        faults.add(path, error, line)


_TAG = re.compile(r"<[^>]*>")
_TREC_TITLE = re.compile(r"<(TITLE|HEADLINE|HL|TTL|TI|H3)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TREC_NUMBER = re.compile(r"<DOCNO>(.*?)</DOCNO>", re.IGNORECASE | re.DOTALL)
_TREC_URL = re.compile(r"<URL>(.*?)</URL>", re.IGNORECASE | re.DOTALL)
_TREC_HEADER = re.compile(r"<DOCHDR>\s*(\S*).*?</DOCHDR>", re.IGNORECASE | re.DOTALL)


def _trec(path: Path, faults: Faults) -> Iterator[Document]:
    lines: list[str] | None = None
    begun = 0
    for number, line in text_lines(path):
        mark = line.strip().upper()
        if mark.startswith("<DOC>"):
            if lines is not None:
                faults.add(path, "<DOC> without </DOC> before the next one.", begun)
            lines, begun = [line.strip()[5:]], number
            mark = lines[0].upper()
        elif lines is not None:
            lines.append(line)
        if mark.endswith("</DOC>") and lines is not None:
            yield from _trec_document(path, "\n".join(lines), faults, begun)
            lines = None
    if lines is not None:
        faults.add(path, "<DOC> without </DOC>; is the file cut short?", begun)


def _trec_document(path: Path, text: str, faults: Faults, line: int) -> Iterator[Document]:
    found = _TREC_NUMBER.search(text)
    if found is None:
        faults.add(path, "expected <DOCNO>id</DOCNO> within <DOC>; found none.", line)
        return
    header, url = _TREC_HEADER.search(text), _TREC_URL.search(text)
    title = " ".join(_plain(match[2]) for match in _TREC_TITLE.finditer(text))
    body = text
    for pattern in (_TREC_NUMBER, _TREC_HEADER, _TREC_URL, _TREC_TITLE):
        body = pattern.sub(" ", body)
    address = url[1].strip() if url else header[1] if header else ""
    yield from _checked(
        path, {"id": found[1].strip(), "title": title, "body": _plain(body), "url": address}, faults, line
    )


def _plain(text: str) -> str:
    return html.unescape(_TAG.sub(" ", text)).strip()


_SMART_MARK = re.compile(r"\.([A-Z])(?:\s+(.*))?$")


def smart_records(path: Path, faults: Faults) -> Iterator[tuple[int, str, dict[str, list[str]]]]:
    """(line, id, lines by mark) of each record; a mark that is repeated goes on."""
    number, name, parts, mark = 0, "", dict[str, list[str]](), ""
    for line_number, line in text_lines(path):
        found = _SMART_MARK.match(line)
        if found is not None and found[1] == "I":
            if number:
                yield number, name, parts
            number, name, parts, mark = line_number, (found[2] or "").strip(), {}, ""
        elif found is not None and number:
            mark = found[1]
            parts.setdefault(mark, []).extend([found[2]] if found[2] else [])
        elif number and mark:
            parts[mark].append(line)
        elif line.strip():
            faults.add(path, f"expected a mark such as .I 1 or .W, found {line[:60]!r}.", line_number)
    if number:
        yield number, name, parts


def _smart(path: Path, faults: Faults) -> Iterator[Document]:
    for line, name, parts in smart_records(path, faults):
        joined = {mark: "\n".join(own).strip() for mark, own in parts.items()}
        rows = [row.split() for row in parts.get("X", [])]
        links = [row[2 if row[0] == name else 0] for row in rows if len(row) == 3 and row[1] == _CITATION]
        further = {"A": "author", "B": "source", "K": "keywords", "C": "categories", "N": "notes"}
        record = {"id": name, "title": joined.get("T", ""), "body": joined.get("W", "")}
        record |= {label: joined[mark] for mark, label in further.items() if joined.get(mark)}
        yield from _checked(path, record | {"links": [link for link in links if link != name]}, faults, line)


def _csv(separator: str) -> Callable[[Path, Faults], Iterator[Document]]:
    def read(path: Path, faults: Faults) -> Iterator[Document]:
        with open_bytes(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="") as stream:
            rows = csv.reader(stream, delimiter=separator)
            try:
                names = next(rows, None)
                if names is None:
                    raise FormatError(path, "has no header; expected names of columns such as id, title and body.")
                for row in rows:
                    if len(row) == len(names):
                        yield from _checked(path, _filled(dict(zip(names, row))), faults, rows.line_num)
                    elif row:
                        faults.add(path, f"expected {len(names)} columns, found {len(row)}.", rows.line_num)
            except csv.Error as error:
                raise FormatError(path, f"not a table of text: {error}.", rows.line_num) from error

    return read


def _filled(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its empty cells; lists of links are written as JSON."""
    found = {name: value for name, value in record.items() if value not in ("", None)}
    for name in ("links", "anchors"):
        if isinstance(found.get(name), str):
            found[name] = json.loads(found[name])
    return found


def _parquet(path: Path, faults: Faults) -> Iterator[Document]:
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError as error:
        raise ImportError(f'{path}: Parquet files need pyarrow. Run: pip install "podium[arrow]"') from error
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(1024):
                for row in batch.to_pylist():
                    number += 1
                    yield from _checked(path, _filled(row), faults, number)
    except ArrowException as error:
        raise FormatError(path, f"not a Parquet file, or damaged: {error}") from error


def _folder(path: Path, faults: Faults) -> Iterator[Document]:
    root = path if path.is_dir() else path.parent
    files = sorted(own for own in path.rglob("*") if own.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix.lower() in PAGE_SUFFIXES:
            try:
                yield read_page(file, file.relative_to(root).as_posix())
            except ValueError as error:
                faults.add(file, error)


DOCUMENT_FORMATS: dict[str, Callable[[Path, Faults], Iterator[Document]]] = {
    "jsonl": _json_lines,
    "trec": _trec,
    "smart": _smart,
    "csv": _csv(","),
    "tsv": _csv("\t"),
    "parquet": _parquet,
    "folder": _folder,
}
