"""Weighting files: a weighting and the fields that it searches, as a small TOML table.

    weighting = "bm25"

    [parameters]
    k1 = 0.9
    b = 0.4

    [fields]
    whole = 1.0
    title = 0.5

`podium tune-bm25 --out` writes one, and `--weighting FILE` of other commands takes it.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium._runtime.files import write_whole
from podium._runtime.words import check_choice
from podium.formats.errors import FormatError
from podium.search.reading import field_weights
from podium.search.retrieval.weightings import WEIGHTINGS, Weighting, parse_weighting

if TYPE_CHECKING:
    from podium.search.searcher import Fields

SUFFIX = ".toml"
BEGINNING = "# A weighting of Podium"
_LARGEST = 1 << 16  # bytes
_KEYS = ("weighting", "parameters", "fields")


def write_weighting(
    path: str | os.PathLike[str], weighting: str | Weighting, fields: Fields = "whole", *, note: str = ""
) -> None:
    """Write a weighting with its fields to a file; `note` is added as a comment. Numbers read back exactly."""
    chosen = parse_weighting(weighting)
    tables = {"parameters": chosen.settings, "fields": field_weights(fields)}
    lines = [" ".join(f"{BEGINNING}{f': {note}' if note else ''}".split()), f'weighting = "{chosen.name}"']
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {float(value)!r}" for key, value in values.items())]
    with write_whole(path) as stream:
        stream.write("\n".join([*lines, ""]).encode())


def read_weighting(path: str | os.PathLike[str]) -> tuple[Weighting, dict[str, float]]:
    """The weighting of a file, and the fields to search with their weights."""
    content = Path(path).read_bytes()
    if len(content) > _LARGEST:
        raise FormatError(path, f"larger than {_LARGEST >> 10} KiB; expected a file of podium tune-bm25.")
    try:
        table = tomllib.loads(content.decode("utf-8"))
        for key in table:
            check_choice("key", key, _KEYS)
        if not isinstance(table.get("weighting"), str):
            raise ValueError('expected weighting = "bm25" or another name')
        return _weighting(table), field_weights(_numbers(table, "fields") or "whole")
    except (ValueError, RecursionError) as error:  # tomllib's and Unicode's errors are ValueErrors
        raise FormatError(path, f"{str(error).rstrip('.')}. podium tune-bm25 --out writes such files.") from error


def _weighting(table: dict[str, Any]) -> Weighting:
    name = table["weighting"]
    check_choice("weighting", name, WEIGHTINGS)
    row, settings = WEIGHTINGS[name], _numbers(table, "parameters")
    for key in settings:
        check_choice(f"parameter of {name}", key, row.parameters())
    return row.make(settings)


def _numbers(table: dict[str, Any], key: str) -> dict[str, float]:
    values = table.get(key, {})
    if not isinstance(values, dict):
        raise ValueError(f"{key} must be a table of numbers: [{key}]")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{key}: {name} must be a number; got {value!r}")
    return values
