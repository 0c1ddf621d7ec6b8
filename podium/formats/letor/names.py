"""Names of features: LETOR text has numbers only, so names stand in a comment before its rows, or in a file beside it.

The comment is `# features: ["BM25(title)", "PageRank"]`, a list in JSON, for features 1, 2, ... A file of names has one
per line, or is a declaration of features (`.features.toml`), as `podium features` writes it beside its output.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from podium._runtime.files import COMPRESSIONS
from podium._runtime.words import counted
from podium.data.columns import first_difference
from podium.data.ranking import RankingData, as_feature_names
from podium.data.sparse import is_sparse
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, numbered_lines

DECLARATION = ".features.toml"
_MARK = b"features:"


def names_line(names: Sequence[str]) -> bytes:
    return b"# features: " + json.dumps(list(names), ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def names_before(path: FilePath, comments: bytes) -> tuple[str, ...] | None:
    """The names in the lines before the first row."""
    for number, line in enumerate(comments.split(b"\n"), 1):
        text = line.strip().removeprefix(b"#").strip()
        if not text.startswith(_MARK) or not text.removeprefix(_MARK).lstrip().startswith(b"["):
            continue
        try:
            return _checked(json.loads(text.removeprefix(_MARK).decode("utf-8", "surrogateescape")))
        except (ValueError, TypeError, RecursionError) as error:
            message = f'expected names of features such as # features: ["BM25", "PageRank"]; {error}'
            raise FormatError(path, message, number) from error
    return None


def read_names(path: FilePath) -> tuple[str, ...]:
    """The names in a file: one per line, or a declaration of features."""
    try:
        if os.fspath(path).endswith(".toml"):
            names = _declared_names(path)
            if names is None:
                raise ValueError("names none of its features. Add names = [...], in the order of the columns.")
            return names
        lines = [line.decode("utf-8") for _, line in numbered_lines(path)]
        while lines and not lines[-1].strip():
            lines.pop()
        return _checked([line.strip() for line in lines])
    except FormatError:
        raise
    except (ValueError, TypeError) as error:  # text that is no UTF-8 is a ValueError too
        raise FormatError(path, f"is no file of names, one per line: {error}") from error


def names_beside(path: FilePath) -> tuple[tuple[str, ...], str] | None:
    """The names that a declaration next to a data file has, and the name of that file."""
    name = os.fspath(path)
    plain = name[: -len(Path(name).suffix)] if Path(name).suffix.lower() in COMPRESSIONS else name
    for file in (name + DECLARATION, plain + DECLARATION):
        if os.path.isfile(file):
            names = _declared_names(file)
            return None if names is None else (names, file)
    return None


def with_names(
    data: RankingData, names: Sequence[str], where: FilePath, source: str, absent: float | None = None
) -> RankingData:
    """Data of the file `where` with these names, which are those of `source`; its own ones must be the same.

    absent: what the last features are, where the file may leave them out; None where it may not.
    """
    if data.feature_names is not None:
        difference = first_difference(data.feature_names, names, source)
        if difference:
            raise FormatError(where, f"{difference}. Leave these names out, or correct them.")
    missing = len(names) - data.n_features
    if missing > 0 and absent is not None and data.feature_names is None and not is_sparse(data.X):
        data = replace(data, X=np.pad(data.X, ((0, 0), (0, missing)), constant_values=absent))
    if len(names) != data.n_features:
        sizes = f"has {counted(data.n_features, 'feature')}, and {source} {counted(len(names), 'name')}"
        raise FormatError(where, f"{sizes}; expected one name per feature.")
    return replace(data, feature_names=as_feature_names(names, data.n_features))


def _declared_names(path: FilePath) -> tuple[str, ...] | None:
    """The names in a declaration of features; None where it takes LETOR's features without saying their names."""
    try:
        table = tomllib.loads(Path(path).read_text("utf-8"))
        if "names" in table:
            return _checked(table["names"])
        return None if table.get("letor", False) else _checked([row["name"] for row in table["feature"]])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FormatError(path, f"is no declaration of features ({error}).") from error


def _checked(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("expected a list of names, none of them empty.")
    return as_feature_names(names, len(names)) or ()
