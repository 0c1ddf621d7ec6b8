"""Document: what the index is given. Records of mappings, as JSON has them, are turned into documents here.

An id that is not valid Unicode is refused: two of them could become one. In all other texts U+FFFD takes the place of
what is not valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from podium._runtime.words import excerpt

ID_KEYS = ("id", "_id", "docid", "docno", "doc_id")
_BODIES = ("body", "text", "contents", "content")
TEXT_KEYS = (*_BODIES, "title", "query", "passage", "document")  # what a column of texts is called in a header
_TARGETS = ("url", "target", "href", "id")
_WORDS = ("text", "anchor")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 100  # lists and objects within one another: what is read back must not depend on the depth of the stack


@dataclass(slots=True)
class Document:
    """A document. `links` are its links to others, as (URL or id, anchor text); `anchors` texts of links to it."""

    id: str
    body: str = ""
    title: str = ""
    url: str = ""
    links: list[tuple[str, str]] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)  # stored, not searched: clicks, dates, authors, ...


Record = Document | Mapping[str, Any] | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents in columns: most have no more than a few texts."""

    ids: Sequence[str]
    bodies: Sequence[str]
    titles: Sequence[str]
    urls: Sequence[str]
    others: dict[int, Document]  # by place, those with links, anchors or further fields

    def __len__(self) -> int:
        return len(self.ids)

    def stored(self) -> Iterator[dict[str, Any]]:
        """What is kept of each, apart from id and links; the body last, so that it can be cut."""
        for document, (title, body, url) in enumerate(zip(self.titles, self.bodies, self.urls)):
            fields = self.others[document].fields if document in self.others else None
            record = {"title": title, "url": url, "fields": fields, "body": body}
            yield {name: value for name, value in record.items() if value}


def as_batch(records: Sequence[Record]) -> Batch:
    """Documents, mappings or tuples, checked. Pairs (id, body) are checked all at once."""
    if set(map(type, records)) == {tuple} and set(map(len, records)) == {2}:  # type: ignore[arg-type]
        ids, bodies = zip(*records)
        if _are_usual(ids) and set(map(type, bodies)) == {str}:
            nothing = [""] * len(ids)
            ascii = all(map(str.isascii, bodies))
            return Batch(ids, bodies if ascii else [valid_text(body) for body in bodies], nothing, nothing, {})
    documents = [as_document(record) for record in records]
    return Batch(
        [document.id for document in documents],
        [document.body for document in documents],
        [document.title for document in documents],
        [document.url for document in documents],
        {i: document for i, document in enumerate(documents) if document.links or document.anchors or document.fields},
    )


def _are_usual(ids: Sequence[Any]) -> bool:
    """Whether all are ASCII strings that can be ids."""
    if set(map(type, ids)) != {str} or not all(ids):
        return False
    joined = "".join(ids)
    return joined.isascii() and "\0" not in joined


def as_document(record: Record) -> Document:
    """A Document, a mapping with the keys of JSON lines, or a tuple (id, body) or (id, title, body)."""
    if isinstance(record, Document):
        document = record
    elif isinstance(record, tuple):
        if len(record) == 2:
            document = Document(record[0], record[1])
        elif len(record) == 3:
            document = Document(record[0], record[2], record[1])
        else:
            raise ValueError(f"expected (id, body) or (id, title, body); got a tuple of {len(record)}.")
    else:
        document = _from_mapping(record)
    if _is_usual(document):
        return document
    check_id(document.id)
    try:
        return _examined(document)
    except ValueError as error:
        raise ValueError(f"document {excerpt(document.id)}: {error}") from error


def _from_mapping(record: Mapping[str, Any]) -> Document:
    """Values as they are, to be examined."""
    if not isinstance(record, Mapping):
        raise ValueError(f"expected a document with keys such as id, title and body; got {type(record).__name__}.")
    rest = {name: value for name, value in record.items() if value is not None or name not in _BODIES}
    key = next((name for name in ID_KEYS if name in rest), None)
    if key is None:
        raise ValueError(f"expected a key id (or {', '.join(ID_KEYS[1:])}); found {_shown(rest)}.")
    id = id_text(rest.pop(key))
    body = _joined(next((rest.pop(name) for name in _BODIES if name in rest), ""))
    title, url = _joined(rest.pop("title", "")), _joined(rest.pop("url", ""))
    links, anchors = (rest.pop(name, None) for name in ("links", "anchors"))
    return Document(id, body, title, url, [] if links is None else links, [] if anchors is None else anchors, rest)


def id_text(value: Any) -> str:
    """An id of a document or query; JSON has integers too."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the id must be text or an integer; found {excerpt(value)}.")
    return str(value)


def check_id(id: Any) -> None:
    if not isinstance(id, str) or not id:
        raise ValueError(f"the id must be text that is not empty; found {excerpt(id)}.")
    if "\0" in id:
        raise ValueError(f"the id {excerpt(id)} holds a NUL character.")
    if not _is_valid(id):
        raise ValueError(f"the id {excerpt(id)} is not valid Unicode text (UTF-8).")


def valid_text(text: str) -> str:
    """The text with U+FFFD in place of surrogates, which stand for bytes that are not UTF-8 or are half a character."""
    return text if _is_valid(text) else _SURROGATE.sub("\ufffd", text)


def _is_valid(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_usual(document: Document) -> bool:
    """Whether there is nothing to change or to refuse, as nearly always; documents of files come here twice."""
    id, body, title, url = document.id, document.body, document.title, document.url
    return (
        type(id) is type(body) is type(title) is type(url) is str
        and bool(id)
        and "\0" not in id
        and _is_valid(id)
        and _is_valid(body)
        and _is_valid(title)
        and _is_valid(url)
        and not document.anchors
        and (not document.links or _are_pairs(document.links))
        and (not document.fields or _are_plain(document.fields))
    )


def _are_pairs(links: Any) -> bool:
    """Whether these are tuples of two valid texts."""
    if type(links) is not list or set(map(type, links)) != {tuple} or set(map(len, links)) != {2}:
        return False
    texts = list(chain.from_iterable(links))
    return set(map(type, texts)) == {str} and _is_valid("".join(texts))


def _are_plain(fields: Any) -> bool:
    """Whether these are ASCII names with ASCII texts or numbers."""
    if type(fields) is not dict or set(map(type, fields)) != {str}:
        return False
    texts = [value for value in fields.values() if type(value) is str]
    rest = [value for value in fields.values() if type(value) is not str]
    return "".join(fields).isascii() and "".join(texts).isascii() and all(map(_is_number, rest))


def _is_number(value: Any) -> bool:
    kind = type(value)
    return kind is float or kind is bool or value is None or (kind is int and value.bit_length() < 64)


def _examined(document: Document) -> Document:
    """The document with checked types and valid texts."""
    body, title, url = (_text(name, getattr(document, name)) for name in ("body", "title", "url"))
    links = [_link(item) for item in _list("links", document.links)]
    anchors = [_text("anchors", _joined(item)) for item in _list("anchors", document.anchors)]
    if not isinstance(document.fields, Mapping):
        raise ValueError(f"fields must be a mapping; found {type(document.fields).__name__}.")
    fields = dict(_field(name, value) for name, value in document.fields.items())
    return Document(document.id, body, title, url, links, anchors, fields)


def _joined(value: Any) -> Any:
    """JSON writes a text also as null, or as a list of texts."""
    if value is None:
        return ""
    return "\n".join(value) if isinstance(value, list) and all(isinstance(part, str) for part in value) else value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text; found {type(value).__name__}.")
    return valid_text(value)


def _field(name: Any, value: Any) -> tuple[str, Any]:
    """A further field, which is stored as JSON."""
    if not isinstance(name, str):
        raise ValueError(f"the names of further fields must be text; found {excerpt(name)}.")
    if type(value) is str:
        return valid_text(name), valid_text(value)
    if _is_number(value):
        return valid_text(name), value
    try:
        text = json.dumps(value, ensure_ascii=False) if _is_flat(value, _DEEPEST) else ""
    except (TypeError, ValueError) as error:
        raise ValueError(f"{excerpt(name)} must be a value that JSON can hold; {str(error)[:80]}.") from error
    if not text:
        raise ValueError(f"{excerpt(name)} must be nested at most {_DEEPEST} deep.")
    return valid_text(name), value if _is_valid(text) else json.loads(valid_text(text))


def _is_flat(value: Any, deepest: int) -> bool:
    if isinstance(value, (list, tuple)):
        return deepest > 0 and all(_is_flat(item, deepest - 1) for item in value)
    if isinstance(value, Mapping):
        return deepest > 0 and all(_is_flat(item, deepest - 1) for item in value.values())
    return True


def _list(name: str, value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list; found {type(value).__name__}.")
    return value


def _link(item: Any) -> tuple[str, str]:
    if type(item) is list and list(map(type, item)) == [str, str]:  # nearly always
        return valid_text(item[0]), valid_text(item[1])
    if isinstance(item, str):
        return valid_text(item), ""
    if isinstance(item, Mapping):
        target = next((item[key] for key in _TARGETS if key in item), None)
        item = (target, next((item[key] for key in _WORDS if key in item), ""))
    if isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str):
        return valid_text(item[0]), _text("links", _joined(item[1]))
    raise ValueError(f'a link must be a URL, [URL, text] or {{"url": ..., "text": ...}}; found {excerpt(item)}.')


def _shown(record: Mapping[str, Any]) -> str:
    return excerpt(list(record)[:5])[1:].removesuffix("]") or "no keys"
