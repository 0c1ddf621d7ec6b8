"""A file of ranking data into parts by query: files of one new folder, or the folds of LETOR, folders in it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium._runtime.files import COMPRESSIONS, new_folder, plain_suffix, refuse_bad_folder
from podium._runtime.warn import LossWarning
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.formats import Format, format_of, write_data
from podium.workflows.reading import Locate, itself, read_file

LETOR_NAMES = ("train", "vali", "test")  # of the files of a fold, as LETOR calls them
_NAME = re.compile(r"[\w-][\w.-]*")


@dataclass(frozen=True)
class SplitFiles:
    """What was written: sizes by file, and how many queries are in none."""

    written: Mapping[str, tuple[int, int]]  # rows and queries
    left_out: int
    not_kept: list[str]  # of what the data had

    def as_dict(self) -> dict[str, Any]:
        sizes = {name: {"rows": rows, "queries": queries} for name, (rows, queries) in self.written.items()}
        return {"written": sizes, "queries_left_out": self.left_out, "not_kept": self.not_kept}

    def sentences(self) -> list[str]:
        lines = [
            f"{name}: {counted(rows, 'row')} of {counted(queries, 'query', 'queries')}"
            for name, (rows, queries) in self.written.items()
        ]
        if self.left_out:
            lines.append(
                f"in no part: {counted(self.left_out, 'query', 'queries')}, as the shares add up to less than 1"
            )
        if self.not_kept:
            lost = ", ".join(self.not_kept)
            lines.append(f"This format has no place for {lost}; a .podium-data file keeps everything (--to cache).")
        return lines


def split_file(
    source: Path,
    out: Path,
    parts: Mapping[str, float] | None,
    folds: int | None,
    *,
    seed: int = 0,
    source_format: str | None = None,
    target_format: str | None = None,
    locate: Locate = itself,
) -> SplitFiles:
    """Divide a file by `parts`, shares by name, or into LETOR's folds; the folder `out` is whole, or not there."""
    if (parts is None) == (folds is None):
        raise ValueError("Give either parts, such as --parts train=0.8,valid=0.2, or a number of --folds.")
    refuse_bad_folder(out, "the parts")
    for name in parts or ():
        if not _NAME.fullmatch(name):
            raise ValueError(f"parts: {name!r} is not the name of a file. Use letters, digits, '-', '_' and '.'.")
    read_kind = format_of(locate(source), source_format)
    kind = read_kind if target_format is None else format_of(source, target_format)
    if kind.writer is None:
        raise ValueError(f"{source}: format {kind.name!r} can only be read. Name another one with --to.")
    data = read_file(source, locate, format=source_format, labels="optional")
    made, suffix = _divided(data, parts, folds, seed), _suffix(source, read_kind, kind)
    with new_folder(out) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # what is lost is reported, for all formats alike
        for name, part in made.items():
            (folder / name).parent.mkdir(exist_ok=True)
            write_data(part, folder / f"{name}{suffix}", format=kind.name)
    sizes = {str(out / f"{name}{suffix}"): (part.n_rows, part.n_queries) for name, part in made.items()}
    used = sum(part.n_queries for part in made.values())
    return SplitFiles(sizes, 0 if parts is None else data.n_queries - used, kind.drops(data))


def _divided(
    data: RankingData, parts: Mapping[str, float] | None, folds: int | None, seed: int
) -> dict[str, RankingData]:
    """Parts by the names of their files, without suffixes."""
    if parts is not None:
        return data.split(parts, seed)
    return {
        f"Fold{number}/{name}": part
        for number, fold in enumerate(data.letor_folds(folds or 0, seed), 1)
        for name, part in zip(LETOR_NAMES, fold, strict=True)
    }


def _suffix(source: Path, read_kind: Format, kind: Format) -> str:
    """That of the source, compression included, or one of another format."""
    plain = plain_suffix(source)
    if kind.name == read_kind.name and plain:
        return plain + (source.suffix if source.suffix.lower() in COMPRESSIONS else "")
    return next((suffix for suffix in kind.suffixes if suffix), ".txt")


def read_parts(text: str) -> dict[str, float]:
    """`train=0.8,valid=0.2` -> {"train": 0.8, "valid": 0.2}"""
    parts: dict[str, float] = {}
    for word in text.split(","):
        name, _, share = (piece.strip() for piece in word.partition("="))
        try:
            value = float(share)
        except ValueError:
            raise ValueError(f"--parts must be NAME=SHARE,..., such as train=0.8,valid=0.2; got {word!r}.") from None
        if name in parts:
            raise ValueError(f"--parts names {name!r} twice. Give each part a name of its own.")
        parts[name] = value
    return parts
