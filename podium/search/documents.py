"""Document: what the index is given. Records of mappings, as JSON has them, are turned into documents here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_IDS = ("id", "_id", "docid", "docno", "doc_id")
_BODIES = ("body", "text", "contents", "content")
_TARGETS = ("url", "target", "href", "id")
_WORDS = ("text", "anchor")


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
        for place, (title, body, url) in enumerate(zip(self.titles, self.bodies, self.urls)):
            fields = self.others[place].fields if place in self.others else None
            record = {"title": title, "url": url, "fields": fields, "body": body}
            yield {name: value for name, value in record.items() if value}


def as_batch(records: Sequence[Record]) -> Batch:
    """Documents, mappings or tuples, checked. Pairs (id, body) are checked all at once."""
    if set(map(type, records)) == {tuple} and set(map(len, records)) == {2}:  # type: ignore[arg-type]
        ids, bodies = zip(*records)
        if _are_usual(ids) and set(map(type, bodies)) == {str}:
            nothing = [""] * len(ids)
            return Batch(ids, bodies, nothing, nothing, {})
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
    _check(document)
    return document


def _from_mapping(record: Mapping[str, Any]) -> Document:
    if not isinstance(record, Mapping):
        raise ValueError(f"expected a document with keys such as id, title and body; got {type(record).__name__}.")
    rest = dict(record)
    key = next((name for name in _IDS if name in rest), None)
    if key is None:
        raise ValueError(f"expected a key id (or {', '.join(_IDS[1:])}); found {_shown(rest)}.")
    number = rest.pop(key)
    body = next((rest.pop(name) for name in _BODIES if name in rest), "")
    document = Document(_id_text(number), _text("body", body))
    document.title, document.url = _text("title", rest.pop("title", "")), _text("url", rest.pop("url", ""))
    document.links = [_link(item) for item in _list("links", rest.pop("links", None))]
    document.anchors = [_text("anchors", item) for item in _list("anchors", rest.pop("anchors", None))]
    document.fields = rest
    return document


def _id_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"the id must be text or an integer; found {value!r}.")
    return str(value)


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text; found {type(value).__name__}.")
    return value


def _list(name: str, value: Any) -> Iterable[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list; found {type(value).__name__}.")
    return value


def _link(item: Any) -> tuple[str, str]:
    if isinstance(item, str):
        return item, ""
    if isinstance(item, Mapping):
        target = next((item[key] for key in _TARGETS if key in item), None)
        item = (target, next((item[key] for key in _WORDS if key in item), ""))
    if isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str):
        return item[0], _text("links", item[1])
    raise ValueError(f'a link must be a URL, [URL, text] or {{"url": ..., "text": ...}}; found {item!r:.60}.')


def _check(document: Document) -> None:
    id = document.id
    texts = type(document.body) is str and type(document.title) is str and type(document.url) is str
    if texts and type(id) is str and id.isascii() and id and "\0" not in id:  # nearly always
        return
    if not isinstance(document.id, str) or not document.id:
        raise ValueError(f"the id must be text that is not empty; found {document.id!r}.")
    if "\0" in document.id:
        raise ValueError(f"the id {document.id!r} holds a NUL character.")
    try:
        document.id.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the id {document.id!r} is not valid Unicode.") from None
    for name in ("body", "title", "url"):
        if not isinstance(getattr(document, name), str):
            raise ValueError(f"{name} must be text; found {type(getattr(document, name)).__name__}.")


def _shown(record: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, list(record)[:5])) or "no keys"
