"""Formats: ranking data in and out of files, one module or folder per format, chosen by the file's name."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from podium._runtime.files import plain_suffix
from podium._runtime.words import check_choice, did_you_mean
from podium.formats.errors import FormatError

if TYPE_CHECKING:
    from podium._runtime.progress import Report
    from podium.data.ranking import RankingData
    from podium.formats.lines import FilePath

__all__ = ["Format", "formats", "read_data", "write_data"]


@dataclass(frozen=True)
class Format:
    """A kind of file for ranking data. Every one keeps features, labels and which rows belong to a query."""

    name: str
    suffixes: tuple[str, ...]
    about: str
    keeps: tuple[str, ...]  # of what only some data has, named as in RankingData where it has a name there

    def drops(self, data: RankingData) -> list[str]:
        """What this data has and a file of this format does not keep."""
        texts = {"docids": data.docid_texts, "comments": data.comment_texts}
        extras = {name: getattr(data, name) for name in ("feature_names", "sample_weight", "query_weight")}
        present = [name for name, value in {**texts, **extras}.items() if value is not None]
        present += [] if data.is_contiguous else [_ORDER]
        return [name for name in ["query_ids", *present] if name not in self.keeps]


_ORDER = "the order of interleaved rows"
_TABLE = (_ORDER, "query_ids", "docids", "feature_names", "sample_weight", "query_weight")
_LETOR = ("", ".txt", ".letor", ".svm", ".svmlight", ".libsvm", ".dat")
_TEXT = (_ORDER, "query_ids", "docids", "comments")
_FORMATS = {
    item.name: item
    for item in (
        Format("letor", _LETOR, "LETOR text: label qid:ID 1:value ... # comment", _TEXT),
        Format("csv", (".csv",), "a table of text, columns separated by commas", _TABLE),
        Format("tsv", (".tsv",), "a table of text, columns separated by tabs", _TABLE),
        Format("parquet", (".parquet",), "a table in Apache Parquet; needs podium[arrow]", _TABLE),
        Format("lightgbm", (), "LightGBM text without qid, and a FILE.query next to it", ("sample_weight",)),
        Format("cache", (".podium-data",), "binary, checked, opens at once", (*_TABLE, "comments")),
    )
}


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
    found = next((item for item in _FORMATS.values() if suffix in item.suffixes), None)
    if not reading:
        return _refuse_unknown(path, suffix) if found is None else found
    if found is None or found.name in ("letor", "csv", "tsv"):
        from podium.formats.lightgbm import beside

        return found or _FORMATS["letor"] if beside(path, ".query") is None else _FORMATS["lightgbm"]
    return found


def _refuse_unknown(path: str | os.PathLike[str], suffix: str) -> NoReturn:
    known = [suffix for item in _FORMATS.values() for suffix in item.suffixes if suffix]
    message = f"{os.fspath(path)}: no format has names that end in {suffix!r}; expected one of {', '.join(known)}"
    more = "Otherwise name the format: format= in Python, --to in podium convert."
    raise ValueError(f"{message}.{did_you_mean(suffix, known)} {more}")


def files_of(path: str | os.PathLike[str], kind: Format) -> list[str]:
    """The file of this name, and those that this format has next to it, whether they are there or not."""
    if kind.name != "lightgbm":
        return [os.fspath(path)]
    from podium.formats.lightgbm import side_files

    return [os.fspath(path), *side_files(path)]


def read_data(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    labels: str = "required",
    progress: Report | None = None,
    **options: Any,
) -> RankingData:
    """Read ranking data; `options` go to the reader of its format (`read_letor`, `read_table`, ...).

    `labels`: "required" refuses a file without them, "optional" reads them if there are any, "ignored" leaves them
    out, so that `y` is None. LETOR and LightGBM text always have labels, which must be valid even where they are
    ignored. `progress(done, total)` is called while a LETOR file is read; the other formats are done before it would
    matter.
    """
    from podium.formats.frames import LABELS

    check_choice("labels", labels, LABELS)
    kind = format_of(path, format).name
    if kind in ("csv", "tsv", "parquet"):
        from podium.formats.tables import read_table

        return read_table(path, kind=kind, labels=labels, **options)
    data = _read(path, kind, progress, options)
    if data.y is None and labels == "required":
        raise FormatError(path, 'has no labels. To rank its documents, read it with labels="optional".')
    return replace(data, y=None) if labels == "ignored" and data.y is not None else data


def _read(path: FilePath, kind: str, progress: Report | None, options: dict[str, Any]) -> RankingData:
    if kind == "letor":
        from podium.formats.letor import read_letor

        return read_letor(path, progress=progress, **options)
    if kind == "lightgbm":
        from podium.formats.lightgbm import read_lightgbm

        return read_lightgbm(path, **options)
    from podium.formats.cache import read_cache

    return read_cache(path, **options)


def write_data(data: RankingData, path: str | os.PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write ranking data; `options` go to the writer of its format. The file is wholly old or wholly new."""
    kind = format_of(path, format, reading=False).name
    if kind == "letor":
        from podium.formats.letor import write_letor

        write_letor(data, path, **options)
    elif kind == "lightgbm":
        from podium.formats.lightgbm import write_lightgbm

        write_lightgbm(data, path, **options)
    elif kind == "cache":
        from podium.formats.cache import write_cache

        write_cache(data, path, **options)
    else:
        from podium.formats.tables import write_table

        write_table(data, path, kind=kind, **options)
