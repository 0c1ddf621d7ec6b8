"""Data sets of the field: what is known about each, where it lies, and how to get it.

A data set lies under $PODIUM_DATA, in a folder of its name in letters of any case, as the publisher lays it out:
parts S1 to S5, folders Fold1 to Fold5 with train, vali and test, or these three files alone; plain or compressed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from podium._runtime.files import COMPRESSIONS, open_bytes
from podium._runtime.words import check_choice
from podium.lab.experiments.folds import FoldFiles, GivenFolds, rotation

VARIABLE = "PODIUM_DATA"
_PLAIN_SUFFIXES = ("", ".txt", ".dat", ".letor")
_VALID_NAMES = ("vali", "valid", "validation", "dev")


@dataclass(frozen=True)
class Archive:
    """A file that the publisher offers for download."""

    url: str
    file: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Content:
    """A file of a data set as published, without its compression."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Dataset:
    """What is published about a data set."""

    name: str
    about: str
    page: str
    terms: str
    features: int
    queries: int | None = None
    rows: int | None = None
    folders: tuple[str, ...] = ()  # other names of its folder
    prefix: str = ""  # of its files: set1.train.txt
    note: str = ""  # what else is known, and what is not
    convert: str = ""  # how its files, which no layout has, become those that are looked for
    has_test: bool = True  # whether labels of a test part are published; without, queries of all files are divided
    development: str = ""  # why its test parts are no test any more, where they were used to develop Podium
    archive: Archive | None = None
    contents: dict[str, Content] = field(default_factory=dict)  # by the name of a file without suffixes

    def advice(self) -> str:
        """What to do to have it."""
        target = f"${VARIABLE}/{self.name}"
        if self.archive is not None:
            return (
                f"Read its terms at {self.page} ({self.terms}), then run: "
                f"podium lab download {self.name} --accept-licence, which writes to {target}."
            )
        if self.convert:
            return f"Get its files by hand; its page was {self.page} ({self.terms}). Then run: {self.convert}"
        return (
            f"Download it by hand from {self.page} ({self.terms}) and unpack it to the folder {target}, "
            "so that it holds S1 to S5, or Fold1 to Fold5, or train, vali and test."
        )


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
DATASETS = TypeAdapter(dict[str, Dataset]).validate_python(_TABLES)


@dataclass(frozen=True)
class Located:
    """A data set with its folder."""

    dataset: Dataset
    folder: Path
    folds: GivenFolds

    @property
    def files(self) -> tuple[Path, ...]:
        return self.folds.files_read()

    def problems(self) -> list[str]:
        """Files that are not as published, as far as that is known; reads them."""
        return [problem for path in self.files for problem in self._problems_of(path)]

    def _problems_of(self, path: Path) -> Iterator[str]:
        known = self.dataset.contents.get(_stem(path))
        if known is None:
            return
        content = content_of(path)
        if content.size != known.size:
            yield f"{path}: expected {known.size:,} bytes of content but found {content.size:,}. Get the file again."
        elif content.sha256 != known.sha256:
            yield f"{path}: expected the SHA-256 {known.sha256} but found {content.sha256}. Get the file again."


def find_dataset(name: str, root: str | os.PathLike[str] | None = None, *, test: bool = True) -> Located:
    """The data set of this name, under $PODIUM_DATA or `root`; where it is not, an error says what to do.

    Without `test`, files of test parts may be missing.
    """
    check_choice("data set", name.lower(), DATASETS)
    dataset = DATASETS[name.lower()]
    located = locate(dataset, root, test=test)
    if located is None:
        folder = os.environ.get(VARIABLE) if root is None else os.fspath(root)
        where = f"the folder {folder}" if folder else f"the variable {VARIABLE}, which is not set"
        raise ValueError(f"data set {dataset.name}: not found in {where}. {dataset.advice()}")
    return located


def locate(dataset: Dataset, root: str | os.PathLike[str] | None = None, *, test: bool = True) -> Located | None:
    """The data set in this folder, or None."""
    parent = os.environ.get(VARIABLE) if root is None else root
    if not parent or not Path(parent).is_dir():
        return None
    for folder in _folders_called({dataset.name, *dataset.folders}, Path(parent)):
        for inner in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
            folds = layout_of(inner, dataset.prefix, test=test and dataset.has_test)
            if folds is not None:
                return Located(dataset, inner, folds)
    return None


def layout_of(folder: Path, prefix: str = "", *, test: bool = True) -> GivenFolds | None:
    """The folds of a folder by its files: S1 to S5, Fold1 to Fold5, or train, valid and test; None for others.

    Without `test`, a fold may have no file for its test part.
    """
    files = {_stem(path).lower(): path for path in sorted(folder.iterdir()) if path.is_file() and _is_text(path)}
    parts = [files[f"s{number}"] for number in range(1, 6) if f"s{number}" in files]
    if len(parts) == 5:
        return rotation(parts)
    folders = {path.name.lower(): path for path in folder.iterdir() if path.is_dir()}
    numbered = sorted((name for name in folders if re.fullmatch(r"fold\d+", name)), key=lambda name: int(name[4:]))
    folds = [_splits(name[4:], folders[name], prefix, test) for name in numbered]
    if folds and all(fold is not None for fold in folds):
        return GivenFolds(tuple(fold for fold in folds if fold is not None))
    alone = _splits("1", folder, prefix, test)
    return None if alone is None else GivenFolds((alone,))


def _splits(name: str, folder: Path, prefix: str, test: bool) -> FoldFiles | None:
    """train, vali and test of a folder, whatever stands before them: `mq2008.train`, `set1.train.txt`."""
    parts: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem = _stem(path).lower()
        if path.is_file() and _is_text(path) and stem.startswith(prefix):
            part = re.split(r"[._-]", stem)[-1]
            parts.setdefault("valid" if part in _VALID_NAMES else part, path)
    if not ({"train", "test"} if test else {"train"}) <= parts.keys():
        return None
    train, valid, tested = ((parts[part],) if part in parts else () for part in ("train", "valid", "test"))
    return FoldFiles(name, train, valid, tested)


def content_of(path: Path) -> Content:
    """Checksum and size of a file without its compression."""
    digest, size = hashlib.sha256(), 0
    with open_bytes(path) as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return Content(digest.hexdigest(), size)


def overview(root: str | os.PathLike[str] | None = None, *, check: bool = False) -> list[dict[str, Any]]:
    """What is known, and where it lies, as plain values; `check` compares files with what was published."""
    lines = []
    for dataset in DATASETS.values():
        located = locate(dataset, root)
        sizes = {"features": dataset.features, "queries": dataset.queries, "rows": dataset.rows}
        line: dict[str, Any] = {"name": dataset.name, "about": dataset.about, **sizes, "page": dataset.page}
        line |= {"note": dataset.note or None}
        line |= {"folder": None if located is None else str(located.folder), "advice": dataset.advice()}
        if located is not None:
            line |= {"folds": list(located.folds.names), "files": [str(path) for path in located.files], "advice": None}
        if located is not None and check:
            line["problems"] = located.problems()
        lines.append(line)
    return lines


def _folders_called(names: set[str], root: Path) -> Iterator[Path]:
    """Folders with these names, in letters of any case, with any hyphens; also one level further down."""
    wanted = {_letters(name) for name in names}
    first = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    second = [inner for path in first for inner in sorted(path.iterdir()) if inner.is_dir()]
    yield from (path for path in (*first, *second) if _letters(path.name) in wanted)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _stem(path: Path) -> str:
    """The name without compression and the suffix of plain text: `S1.txt.xz` -> `S1`."""
    name = path.name
    for suffixes in (COMPRESSIONS, _PLAIN_SUFFIXES[1:]):
        suffix = Path(name).suffix
        name = name.removesuffix(suffix) if suffix.lower() in suffixes else name
    return name


def _is_text(path: Path) -> bool:
    return not path.name.startswith(".") and not path.name.lower().endswith(
        (".query", ".md", ".json", ".toml", ".part")
    )
