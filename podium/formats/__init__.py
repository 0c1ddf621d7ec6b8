"""Formats: ranking data in and out of files, one module or folder per format, chosen by the file's name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from podium._runtime.files import plain_suffix
from podium._runtime.registry import Registry
from podium._runtime.words import check_choice, did_you_mean
from podium.formats.errors import FormatError

if TYPE_CHECKING:
    from podium._runtime.progress import Report
    from podium.data.ranking import RankingData
    from podium.formats.lines import FilePath

__all__ = ["Format", "formats", "read_data", "register_format", "write_data"]

LABELS = ("required", "optional", "ignored")  # what is expected of a file


@dataclass(frozen=True)
class Format:
    """A kind of file for ranking data. Every one keeps features, labels and which rows belong to a query."""

    name: str
    suffixes: tuple[str, ...]
    about: str
    keeps: tuple[str, ...]  # of what only some data has, named as in RankingData where it has a name there
    reader: Callable[..., RankingData]  # of a path
    writer: Callable[..., None] | None  # of data and a path
    passed: tuple[str, ...] = ()  # arguments of `read_data` that the reader takes too
    options: tuple[str, ...] = ()  # further arguments of the reader that the command line has options for
    needs_labels: bool = False  # of data to be written
    leaves_out_zeros: bool = False  # whether rows may have fewer features than others
    side_files: Callable[[FilePath], Sequence[str]] | None = None  # files that belong to one of this name

    def drops(self, data: RankingData) -> list[str]:
        """What this data has and a file of this format does not keep."""
        texts = {"docids": data.docid_texts, "comments": data.comment_texts}
        extras = {name: getattr(data, name) for name in _EXTRAS}
        present = [name for name, value in {**texts, **extras}.items() if value is not None]
        present += [] if data.is_contiguous else [_ORDER]
        return [name for name in ["query_ids", *present] if name not in self.keeps]


def _late(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is called: a start needs one format at most."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(import_module(f"podium.formats.{module}"), name)(*arguments, **options)

    return call


def _format(name: str, suffixes: tuple[str, ...], about: str, keeps: tuple[str, ...], **more: Any) -> Format:
    """A format of the module of its name, with functions that are called so too."""
    return Format(name, suffixes, about, keeps, _late(name, f"read_{name}"), _late(name, f"write_{name}"), **more)


def _table(name: str, about: str) -> Format:
    reader, writer = (partial(_late("tables", f"{verb}_table"), kind=name) for verb in ("read", "write"))
    return Format(name, (f".{name}",), about, _TABLE, reader, writer, passed=("labels",), options=_COLUMNS)


_ORDER = "the order of interleaved rows"
_EXTRAS = ("feature_names", "sample_weight", "query_weight", "categories", "init_score")
_TABLE = (_ORDER, "query_ids", "docids", "feature_names", "sample_weight", "query_weight", "categories")
_COLUMNS = ("label", "qid", "docid", "drop", "categorical")
_BUILT_IN = (
    _format(
        "letor",
        ("", ".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat"),
        "LETOR text: label qid:ID 1:value ... # comment",
        (_ORDER, "query_ids", "docids", "comments", "feature_names"),
        passed=("labels", "progress"),
        options=("zero_based",),
        leaves_out_zeros=True,
    ),
    _table("csv", "a table of text, columns separated by commas"),
    _table("tsv", "a table of text, columns separated by tabs"),
    _table("parquet", "a table in Apache Parquet; needs podium[arrow]"),
    _format(
        "lightgbm",
        (),
        "LightGBM text without qid, and a FILE.query next to it",
        ("sample_weight", "init_score"),
        passed=("labels",),
        options=("zero_based",),
        leaves_out_zeros=True,
        needs_labels=True,
        side_files=_late("lightgbm", "side_files"),
    ),
    _format("cache", (".podium-data",), "binary, checked, opens at once", (*_TABLE, "comments", "init_score")),
    Format(
        "letor-comments",
        (),
        "LETOR text with the query id as its comment: label 1:value ... # ID",
        (_ORDER, "query_ids"),
        _late("letor", "read_letor_comments"),
        None,
        passed=("labels", "progress"),
        options=("zero_based",),
        leaves_out_zeros=True,
    ),
)
_FORMATS = Registry("a format", {row.name: row for row in _BUILT_IN}, any_name=True)


def register_format(
    name: str,
    *,
    suffixes: Sequence[str],
    reader: Callable[..., RankingData],
    writer: Callable[..., None] | None = None,
    about: str = "",
    keeps: Sequence[str] = (),
) -> None:
    """Add a format: `reader(path)` returns RankingData, `writer(data, path)` writes a file.

    Both also get further options of `read_data` and `write_data`. `suffixes`, such as [".xyz"], are those of its file
    names, and no other format's. `keeps` names what it keeps beside features, labels and queries, as in RankingData:
    "query_ids", "docids", "comments", "feature_names", "sample_weight", "query_weight", "categories", "init_score".
    """
    row = Format(name, tuple(suffixes), about, (_ORDER, *keeps), reader, writer)
    for other in _FORMATS.values():
        for suffix in set(row.suffixes) & set(other.suffixes):
            if other.name != name:
                raise ValueError(f"format {name!r}: names that end in {suffix!r} are those of {other.name!r}.")
    _FORMATS.register(name, row)


def formats() -> tuple[Format, ...]:
    """All formats, for lists and help texts."""
    return tuple(_FORMATS.values())


def format_of(path: str | os.PathLike[str], name: str | None = None, *, reading: bool = True) -> Format:
    """The format called `name`, or the one that follows from the path.

    When reading, a `.query` file next to the path means LightGBM's layout, and any suffix that is not known LETOR: what
    the file holds is seen soon enough. When writing, such a suffix is refused: it is more likely a mistake.
    """
    if name is not None:
        check_choice("format", name, _FORMATS)
        return _FORMATS[name]
    suffix = plain_suffix(path)
    row = next((item for item in _FORMATS.values() if suffix in item.suffixes), None)
    if not reading:
        return _refuse_unknown(path, suffix) if row is None else row
    if row is None or row.name in ("letor", "csv", "tsv"):
        from podium.formats.lightgbm import beside

        return row or _FORMATS["letor"] if beside(path, ".query") is None else _FORMATS["lightgbm"]
    return row


def _refuse_unknown(path: str | os.PathLike[str], suffix: str) -> NoReturn:
    known = [suffix for item in _FORMATS.values() for suffix in item.suffixes if suffix]
    message = f"{os.fspath(path)}: no format has names that end in {suffix!r}; expected one of {', '.join(known)}"
    more = "Otherwise name the format: format= in Python, --to in podium convert."
    raise ValueError(f"{message}.{did_you_mean(suffix, known)} {more}")


def files_of(path: str | os.PathLike[str], kind: Format) -> list[str]:
    """The file of this name, and those that this format has next to it, whether they are there or not."""
    return [os.fspath(path), *(() if kind.side_files is None else kind.side_files(path))]


def read_data(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    labels: str = "required",
    names: Sequence[str] | FilePath | None = None,
    progress: Report | None = None,
    **options: Any,
) -> RankingData:
    """Read ranking data; `options` go to the reader of its format (`read_letor`, `read_table`, ...).

    `labels`: "required" refuses a file without them, "optional" reads them if there are any, "ignored" leaves them
    out, so that `y` is None; labels must be valid even where they are ignored. `names` are the names of the features,
    or a file with one name per line; where the file has names, these must be the same. `progress(done, total)` is
    called while a LETOR file is read; the other formats are done before it would matter.
    """
    check_choice("labels", labels, LABELS)
    kind = format_of(path, format)
    passed = {name: value for name, value in (("labels", labels), ("progress", progress)) if name in kind.passed}
    data = kind.reader(path, **passed, **options)
    if data.y is None and labels == "required":
        raise FormatError(path, 'has no labels. To rank its documents, read it with labels="optional".')
    if names is not None:
        data = _named(data, path, names, kind)
    return replace(data, y=None) if labels == "ignored" and data.y is not None else data


def _named(data: RankingData, path: FilePath, names: Sequence[str] | FilePath, kind: Format) -> RankingData:
    from podium.formats.letor.names import read_names, with_names

    absent = 0.0 if kind.leaves_out_zeros else None
    if isinstance(names, (str, os.PathLike)):
        return with_names(data, read_names(names), path, os.fspath(names), absent)
    return with_names(data, list(names), path, "names", absent)


def write_data(data: RankingData, path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write ranking data; `options` go to the writer of its format. The file is wholly old or wholly new."""
    kind = format_of(path, format, reading=False)
    if kind.writer is None:
        raise ValueError(f"{os.fspath(path)}: format {kind.name!r} has no writer; it can only be read.")
    kind.writer(data, path, **options)
