"""Outputs: what a command may replace. One rule for all of them:

A file that holds what the command writes is replaced, as is an empty one. Any other file is refused unless the user
says --force, and so is an index or a cascade. A folder with files that are not those of an index or a cascade is always
refused. What a file holds is seen by its first lines or bytes, not by its name.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from podium._runtime.files import is_stream, refuse_own_input
from podium.formats import Format
from podium.formats.errors import FormatError
from podium.formats.kinds import CASCADE_FILE, KINDS, MAGIC, FileKind
from podium.formats.lines import beginning
from podium.search.index.manifest import NAME, write_lock

_HEAD = 1 << 20  # bytes that are looked at
_LINES = 20
_NUMBER = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_SCORE = re.compile(rb"\s*" + _NUMBER + rb"\s*")
_RUN = re.compile(rb"\s*(\S+\s+){3}\d+\s+" + _NUMBER + rb"(\s+\S+)?\s*")
_QRELS = re.compile(rb"\s*(\S+\s+){3}-?\d+\s*")
_PAIRS = re.compile(rb"\s*" + _NUMBER + rb"(\s+qid:\S+)?(\s+\d+:\S+)*\s*(#.*)?")
_FEATURE = re.compile(rb"\s(qid|\d+):")


@dataclass(frozen=True)
class Content:
    """What a file can hold, and how that is seen."""

    name: str  # for messages
    is_in: Callable[[bytes], bool]  # the beginning of a file


def _container(kind: FileKind) -> Content:
    return Content(f"a {kind.name}", lambda head: head.startswith(MAGIC + kind.mark.ljust(8, b"\0")))


def _starts(name: str, *starts: bytes) -> Content:
    return Content(name, lambda head: head.lstrip().lower().startswith(starts))


def _lines_of(head: bytes) -> list[bytes]:
    """The first lines that are whole and not blank."""
    lines = head.removeprefix(b"\xef\xbb\xbf").splitlines()
    whole = lines if len(head) < _HEAD else lines[:-1] or [lines[0].rpartition(b" ")[0]]
    return [line for line in whole if line.strip()][:_LINES]


def _all_lines(pattern: re.Pattern[bytes], every: bool = False) -> Callable[[bytes], bool]:
    """Whether the first lines match, or with `every` all that are looked at: the last one may be somebody's work."""

    def is_in(head: bytes) -> bool:
        lines = [line for line in head.splitlines()[: -1 if len(head) == _HEAD else None] if line.strip()]
        lines = lines if every else _lines_of(head)
        return bool(lines) and all(pattern.fullmatch(line) for line in lines)

    return is_in


def _is_pair_text(head: bytes) -> bool:
    lines = [line for line in _lines_of(head) if not line.lstrip().startswith(b"#")]
    return bool(lines) and all(_PAIRS.fullmatch(line) and _FEATURE.search(line) for line in lines)


def _table(delimiter: bytes, column: bytes) -> Callable[[bytes], bool]:
    """Whether the first line is a header with this column."""

    def is_in(head: bytes) -> bool:
        return column in [cell.strip(b' "') for cell in (_lines_of(head) or [b""])[0].split(delimiter)]

    return is_in


def _is_page(head: bytes) -> bool:
    return head.lstrip()[:9].lower() == b"<!doctype" and b'<meta name="generator" content="Podium">' in head


# What commands write, by the names that they use; the first ones are those of formats of ranking data.
CONTENTS = {
    "letor": Content("ranking data in LETOR text", _is_pair_text),
    "lightgbm": Content("ranking data in LightGBM text", _is_pair_text),
    "csv": Content("ranking data in a CSV table", _table(b",", b"qid")),
    "tsv": Content("ranking data in a TSV table", _table(b"\t", b"qid")),
    "parquet": _starts("a Parquet table", b"par1"),
    **{kind.mark.decode(): _container(kind) for kind in KINDS},
    "scores": Content("one number per line", _all_lines(_SCORE)),
    "run": Content("a TREC run", _all_lines(_RUN)),
    "pool": Content("a pool without any judgement", _all_lines(re.compile(rb"\s*(\S+\s+){3}-1\s*"), every=True)),
    "pool table": _starts("a table of a pool", b"qid\tdocid\truns\tbest_rank"),
    "page": Content("a page that Podium wrote", _is_page),
    "notes": _starts("a page that Podium wrote", b"# autoranker"),
    "svg": Content("a picture that Podium drew", lambda head: b"<svg" in head and b"<dc:title>Podium" in head),
    "png": Content("a picture that Podium drew", lambda head: b"PNG" in head[:4] and b"tEXtSoftware\0Podium" in head),
    "weighting": _starts("a weighting", b"# a weighting of podium"),
    "declaration": _starts("a declaration of features", b"letor = ", b"names = ["),
    "trials.csv": Content("the trials of podium tune", lambda head: head.startswith(b"trial,")),
    "export report": Content("a report of an export", lambda head: head[:1] == b"{" and b'"sha256"' in head),
    "golden": Content("golden rows of an export", lambda head: head.startswith(b'{"row":')),
    "trials.json": Content("the trials of podium tune", lambda head: head[:1] == b"{" and b'"criterion"' in head),
}
CONTENTS["cache"] = CONTENTS["data"]
_OTHERS = (  # never written by a command that could replace one, but good to name
    _starts("a log of podium serve", b'{"podium":"feedback"'),
    Content("TREC judgements", _all_lines(_QRELS)),
    _starts("a web page", b"<!doctype html", b"<html"),
    _starts("a picture", b"<svg", b"\x89png", b"\xff\xd8\xff", b"gif8"),
    _starts("JSON", b"{", b"["),
    Content("a table", lambda head: b"," in (_lines_of(head) or [b""])[0] or b"\t" in head),
)


def refuse_other_kind(
    option: str, path: Path, kind: str, force: bool = False, inputs: Sequence[Path] = (), forced: str = "--force"
) -> None:
    """Refuse to replace an input of the command, and a file that does not hold what is written, before any work.

    `kind` is one of `CONTENTS`.
    """
    refuse_own_input(option, [path], inputs)
    if force or is_stream(path) or not path.is_file():
        return
    wanted, head = CONTENTS[kind], _head_of(path)
    if head.strip() and not wanted.is_in(head):
        raise _refusal(option, path, _name_of(head), wanted.name, forced)


def refuse_bytes(option: str, path: Path, name: str, is_in: Callable[[bytes], bool], force: bool = False) -> None:
    """The same for a file of another program, which its own module recognises by its beginning."""
    if force or is_stream(path) or not path.is_file():
        return
    head = _head_of(path)
    if head.strip() and not is_in(head):
        raise _refusal(option, path, _name_of(head), name)


def refuse_other_data(
    option: str, path: Path, format: Format, force: bool = False, inputs: Sequence[Path] = ()
) -> None:
    """The same for ranking data of a format and the files that belong to it.

    What a format of a plugin looks like is known to its reader only.
    """
    if format.name in CONTENTS:
        refuse_other_kind(option, path, format.name, force, inputs)
    elif path.is_file() and not force and path.stat().st_size and not _is_read(format, path):
        raise _refusal(option, path, _name_of(_head_of(path)), f"ranking data of format {format.name}")
    for beside in () if format.side_files is None else map(Path, format.side_files(path)):
        refuse_other_kind(option, beside, "scores", force)


def _is_read(format: Format, path: Path) -> bool:
    try:
        format.reader(path)
    except Exception:  # it is code of a user
        return False
    return True


def _refusal(option: str, path: Path, holds: str, wanted: str, forced: str = "--force") -> ValueError:
    message = f"{option} {path}: the file is there already and holds {holds}, not {wanted}"
    return ValueError(f"{message}. Choose another name, or add {forced} to replace it.")


def _head_of(path: Path) -> bytes:
    """The beginning of a file, decompressed where that is possible."""
    try:
        return beginning(path, _HEAD)
    except FormatError:
        with open(path, "rb") as raw:
            return raw.read(_HEAD)


def _name_of(head: bytes) -> str:
    return next((content.name for content in (*CONTENTS.values(), *_OTHERS) if content.is_in(head)), "something else")


_LOCK = "write.lock"
_FOLDERS = {"index": (NAME, "an index"), "cascade": (CASCADE_FILE, "a cascade")}
_FILES = re.compile(  # of indexes and cascades
    r"index\.podium|write\.lock|(segment|deleted|links)-\d+\.podium-part|cascade\.podium|stage-\d+\.(podium|toml)"
    r"|table-\d+\.podium-table|\..*\.part",
    re.ASCII,
)


@contextmanager
def new_folder(option: str, folder: Path, kind: str, force: bool) -> Iterator[Path]:
    """Where to write an index or a cascade: the folder itself, or one beside it that replaces it in the end."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{option} {folder}: is a file; expected a new folder.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not names or (names == {_LOCK} and kind == "index"):  # of a writer that was killed before its first commit
        yield folder
        return
    _refuse_other_folder(option, folder, kind)
    if not force:
        more = "--update to add to it, or " if kind == "index" else ""
        raise ValueError(f"{option} {folder}: holds {_FOLDERS[kind][1]} already. Add {more}--force to replace it.")
    with write_lock(folder) if kind == "index" else nullcontext(), _replaced(folder) as beside:
        yield beside


def _refuse_other_folder(option: str, folder: Path, kind: str) -> None:
    mark, name = _FOLDERS[kind]
    strangers = sorted(str(path.relative_to(folder)) for path in _strangers(folder))
    if strangers or not (folder / mark).is_file():
        others = ", ".join([*strangers[:3], *(["..."] if len(strangers) > 3 else [])])
        holds = f"other files ({others})" if others else f"something else than {name}"
        message = f"{option} {folder}: the folder is there already and holds {holds}"
        raise ValueError(f"{message}. Choose a new folder; --force replaces nothing but {name}.")


def _strangers(folder: Path) -> Iterable[Path]:
    """Files and folders in it that are neither of an index nor of a cascade."""
    for path in folder.iterdir():
        if path.is_dir() and path.name == "index" and (folder / CASCADE_FILE).is_file():
            yield from _strangers(path)
        elif path.is_dir() or not _FILES.fullmatch(path.name):
            yield path


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A neighbour that takes the name of the folder in the end, if there is one then."""
    name = f".{folder.name[:100]}.{secrets.token_hex(6)}"
    beside, old = folder.with_name(f"{name}.part"), folder.with_name(f"{name}.old.part")
    try:
        yield beside
        if beside.is_dir():
            _exchange(beside, folder, old)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _exchange(new: Path, folder: Path, old: Path) -> None:
    folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
