"""Declaration: which features there are, in which order, and what each of them means.

A feature has a name, a kind (its formula), mostly a field, and settings of the kind. LETOR's 46 are a list of such
declarations; further ones come from a TOML table or are Python functions:

    letor = true                # the 46 first
    normalize = "minmax"        # within the query, as LETOR does; left out: raw values
    n = 100                     # documents per query that they were computed of, and that a cascade re-ranks by them

    [[feature]]
    name = "BM25(title), k1 = 0.4"
    kind = "bm25"
    field = "title"
    k1 = 0.4

    [[feature]]
    name = "price"
    kind = "stored"             # a number that the index keeps of each document
    key = "price"

    [[feature]]
    name = "clicks"
    kind = "table"              # a number that a table has of the query and the document
    file = "clicks.csv"         # beside the declaration
    by = "query_document"
    column = "clicks"
    missing = 0.0               # where the table has no row
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

from podium._runtime.once import once
from podium._runtime.words import check_choice, did_you_mean, excerpt
from podium.formats.errors import FormatError
from podium.search.features.behaviour import BY, Table
from podium.search.features.behaviour_files import SUFFIX, read_behaviour
from podium.search.features.columns import fits_float32
from podium.search.features.kinds import FUNCTION, FeatureKind, feature_kinds
from podium.search.index.links import FACTS
from podium.search.index.segments import FIELDS
from podium.search.retrieval.weightings import BM25, WEIGHTINGS, Weighting

LETOR_FIELDS = ("body", "anchor", "title", "url", "whole")
NORMALIZATIONS = ("minmax",)


@dataclass(frozen=True)
class Feature:
    """One feature. `function` takes a `QueryDocuments` and returns one number per document."""

    name: str
    kind: str
    field: str | None = None
    settings: Mapping[str, Any] = dataclass_field(default_factory=dict)
    function: Callable[[Any], Any] | None = None
    about: str = ""
    table: Table | None = dataclass_field(default=None, compare=False, repr=False)  # its digest is a setting

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"a feature needs a name; got {self.name!r}.")
        check_choice(f"feature {self.name!r}: kind", self.kind, feature_kinds())
        if self.row.of_field:
            check_choice(f"feature {self.name!r}: field", self.field, FIELDS)
        elif self.field is not None:
            raise ValueError(f"feature {self.name!r}: kind {self.kind} is not about a field; got {self.field!r}.")
        for name in self.settings:
            check_choice(f"feature {self.name!r}: setting", name, self.row.settings)
        for name in self.row.required:
            if name not in self.settings:
                raise ValueError(f"feature {self.name!r}: kind {self.kind} needs {name}.")
        if self.kind == "fact":
            check_choice(f"feature {self.name!r}: fact", self.settings["fact"], FACTS)
        if (self.kind == FUNCTION) != callable(self.function):
            raise ValueError(f"feature {self.name!r}: kind function and a Python function belong together.")
        self._check_values()
        if self.kind == "table":
            self._read_table()

    def _check_values(self) -> None:
        for name, value in self.settings.items():
            if name in self.row.texts:
                if not isinstance(value, str) or not value:
                    raise ValueError(f"feature {self.name!r}: {name} must be text; got {value!r}.")
            elif self.kind == "table" and isinstance(value, float) and math.isnan(value):
                continue  # a missing value, for models that know them
            elif isinstance(value, bool) or not fits_float32(value):
                raise ValueError(f"feature {self.name!r}: {name} must be a finite number; got {excerpt(value)}.")
        _ = self.weighting  # checks its parameters
        if self.kind != "feedback":
            return
        for name in ("documents", "terms"):
            value = self.settings.get(name, 1)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"feature {self.name!r}: {name} must be an integer from 1; got {value!r}.")
        if self.field == "anchor":
            raise ValueError(
                f"feature {self.name!r}: feedback reads the documents' own texts; anchor is not among them."
            )

    def _read_table(self) -> None:
        """Read the table now: whatever becomes of its file, the feature stays what was declared."""
        settings = dict(self.settings)
        check_choice(f"feature {self.name!r}: by", settings["by"], BY)
        for key in ("query", "document"):
            if key in settings and key not in settings["by"].split("_"):
                raise ValueError(f"feature {self.name!r}: a table by {settings['by']} has no column of {key}.")
        settings["file"] = os.path.abspath(settings["file"])
        if isinstance(settings["missing"], float) and math.isnan(settings["missing"]):
            settings["missing"] = math.nan  # the one that equals itself in a mapping
        if self.table is None:
            object.__setattr__(self, "table", _read_columns(settings, [settings["column"]]))
        assert self.table is not None
        digest = self.table.digests[settings["column"]]
        if settings.setdefault("digest", digest) != digest:
            message = f"feature {self.name!r}: {settings['file']} has other values than when the feature was declared"
            raise ValueError(f"{message}. Compute the features and train anew, or leave out its digest.")
        object.__setattr__(self, "settings", settings)

    @property
    def row(self) -> FeatureKind:
        return feature_kinds()[self.kind]

    @once
    def weighting(self) -> Weighting:
        """The weighting whose scores this feature has; BM25 unless the kind is another."""
        weighting = WEIGHTINGS.get(self.kind, BM25)
        settings = {name: value for name, value in self.settings.items() if name in weighting.parameters()}
        try:
            return weighting.make(settings if self.is_weighted or self.row.expands else {})
        except ValueError as error:
            raise ValueError(f"feature {self.name!r}: {error}") from error

    @property
    def is_weighted(self) -> bool:
        return self.kind in WEIGHTINGS

    @property
    def formula(self) -> str:
        """In words."""
        formula = self.about or self.row.formula
        return f"{formula}: {self.settings[self.row.names]}" if self.row.names and not self.about else formula

    def as_dict(self) -> dict[str, Any]:
        """As a row of a TOML table."""
        row: dict[str, Any] = {"name": self.name, "kind": self.kind}
        row |= {} if self.field is None else {"field": self.field}
        return row | dict(self.settings) | ({"about": self.about} if self.about else {})

    @classmethod
    def from_json(cls, row: Mapping[str, Any], table: Table | None = None) -> Feature:
        rest = dict(row)
        missing = [name for name in ("name", "kind") if name not in rest]
        if missing:
            raise ValueError(f"a feature needs {' and '.join(missing)}; found {rest!r}.")
        name, kind = rest.pop("name"), rest.pop("kind")
        if kind == FUNCTION:
            raise ValueError(f"feature {name!r}: a function cannot be declared in a file; use Features.add in Python.")
        return cls(name, kind, rest.pop("field", None), about=rest.pop("about", ""), settings=rest, table=table)


def _letor() -> tuple[Feature, ...]:
    """LETOR 4.0's 46, in its order: feature by feature, then field by field, then what is known of the document."""
    features = [
        Feature(f"{kind.upper()}({name})", kind, name)
        for kind in ("tf", "idf", "tf*idf", "dl")
        for name in LETOR_FIELDS
    ]
    models = {"BM25": "bm25", "LMIR.ABS": "lmir-abs", "LMIR.DIR": "lmir-dir", "LMIR.JM": "lmir-jm"}
    features += [Feature(f"{shown}({name})", kind, name) for name in LETOR_FIELDS for shown, kind in models.items()]
    facts = {
        "PageRank": "pagerank",
        "inlinks": "inlinks",
        "outlinks": "outlinks",
        "slashes in URL": "slashes",
        "length of URL": "url_length",
        "child pages": "children",
    }
    return (*features, *(Feature(name, "fact", settings={"fact": fact}) for name, fact in facts.items()))


LETOR = _letor()


@dataclass(frozen=True)
class Features:
    """Features in their order. `normalize="minmax"`: (x - min) / (max - min) over the candidates of the query.

    `n`: how many documents per query the training data have, where that is known.
    """

    features: tuple[Feature, ...] = LETOR
    normalize: str | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if self.normalize is not None:
            check_choice("normalize", self.normalize, NORMALIZATIONS)
        if self.n is not None and (type(self.n) is not int or self.n < 1):
            raise ValueError(f"n, the documents per query, must be an integer from 1; got {self.n!r}.")
        if not self.features:
            raise ValueError("expected at least one feature; got none.")
        names = [feature.name for feature in self.features]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"feature {twice!r} is declared more than once; names must differ.")
        for number, feature in enumerate(self.features):
            of = feature.settings.get("of")
            if feature.row.derive is not None and of not in names[:number]:
                message = f"feature {feature.name!r}: of must name a feature that is declared before it; got {of!r}"
                raise ValueError(f"{message}.{did_you_mean(of, names[:number])}")

    @classmethod
    def letor(cls, normalize: str | None = None) -> Features:
        """LETOR's 46."""
        return cls(LETOR, normalize)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def __len__(self) -> int:
        return len(self.features)

    def add(
        self, name: str, kind: str | Callable[[Any], Any], field: str | None = None, about: str = "", **settings: Any
    ) -> Features:
        """These features and one more: of a kind, or computed by a Python function of a `QueryDocuments`."""
        if callable(kind):
            more = Feature(name, FUNCTION, field, settings, kind, about)
        else:
            more = Feature(name, kind, field, {key.rstrip("_"): value for key, value in settings.items()}, about=about)
        return replace(self, features=(*self.features, more))

    def keep(self, names: Sequence[str]) -> Features:
        """Only the named features, in this order."""
        by_name = {feature.name: feature for feature in self.features}
        for name in names:
            check_choice("feature", name, by_name)
        return replace(self, features=tuple(by_name[name] for name in names))

    def to_toml(self, file_of: Callable[[Feature], str] | None = None, with_names: bool = False) -> str:
        """The declaration as a TOML table, which `from_toml` reads; functions cannot be written.

        Tables are named by their whole path, or as `file_of` says. `with_names` begins with all names in a list, for
        readers of a file of these features.
        """
        for feature in self.features:
            if feature.kind == FUNCTION:
                message = f"feature {feature.name!r} is a Python function, which no file can hold"
                raise ValueError(f"{message}. Store its values in the index and declare a feature of kind 'stored'.")
        has_letor = self.features[: len(LETOR)] == LETOR
        lines = [f"names = [{', '.join(map(_toml_value, self.names))}]"] if with_names else []
        lines += [f"letor = {'true' if has_letor else 'false'}"]
        lines += [] if self.normalize is None else [f"normalize = {_toml_value(self.normalize)}"]
        lines += [] if self.n is None else [f"n = {self.n}"]
        for feature in self.features[len(LETOR) if has_letor else 0 :]:
            lines += ["", "[[feature]]"]
            row = feature.as_dict()
            if feature.table is not None and file_of is not None:
                row["file"] = file_of(feature)
            lines += [f"{key} = {_toml_value(value)}" for key, value in row.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(
        cls,
        text: str,
        path: str = "the declaration of features",
        folder: str | os.PathLike[str] = ".",
        only_inside: bool = False,
    ) -> Features:
        """`folder` is where the files of tables are; `only_inside`: nowhere else, as in a saved cascade."""
        try:
            table = tomllib.loads(text)
            for key in table:
                check_choice("key", key, ("names", "letor", "normalize", "n", "feature"))
            if not isinstance(table.get("letor", False), bool):
                raise ValueError(f"letor must be true or false; got {table['letor']!r}.")
            rows = table.get("feature", [])
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("features must be tables: [[feature]].")
            rows = [_with_file(row, Path(folder), only_inside) for row in rows]
            tables = _shared_tables(rows)
            more = tuple(Feature.from_json(row, tables.get(_table_of(row))) for row in rows)
            features = cls((LETOR if table.get("letor", False) else ()) + more, table.get("normalize"), table.get("n"))
            if table.get("names", list(features.names)) != list(features.names):
                raise ValueError("names must be those of the features, in their order; or leave names out.")
            return features
        except (ValueError, RecursionError) as error:  # tomllib's errors are ValueErrors
            raise FormatError(path, str(error)) from error

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None, only_inside: bool = False
    ) -> Features:
        """Read a TOML file. The files of tables are relative to `folder`, by default that of the TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(path, f"is not valid UTF-8 ({error}).") from error
        return cls.from_toml(text, os.fspath(path), Path(path).parent if folder is None else folder, only_inside)

    @classmethod
    def of(cls, features: Any) -> Features:
        """`letor`, the path of a TOML file, a list of `Feature`s, or Features."""
        if isinstance(features, Features):
            return features
        if isinstance(features, str) and features == "letor":
            return cls.letor()
        if isinstance(features, (str, os.PathLike)):
            return cls.read(features)
        if isinstance(features, Sequence) and all(isinstance(item, Feature) for item in features):
            return cls(tuple(features))
        raise ValueError(f"features must be 'letor', the path of a TOML file or Features; got {features!r:.80}.")


def _with_file(row: dict[str, Any], folder: Path, only_inside: bool) -> dict[str, Any]:
    """The declaration of a feature, with the file of its table as a path of its own."""
    file = row.get("file")
    if row.get("kind") != "table" or not isinstance(file, str) or not file:
        return row
    if only_inside and (Path(file).name != file or not file.endswith(SUFFIX)):
        raise ValueError(f"feature {row.get('name')!r}: expected a table of this folder; found {excerpt(file)}.")
    return row | {"file": os.path.abspath(folder / file)}


def _table_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Features with the same one are columns of one table."""
    settings = [row.get(key) for key in ("kind", "file", "by", "query", "document")]
    return tuple(value if isinstance(value, str) else repr(value) for value in settings)


def _shared_tables(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], Table]:
    """Tables with columns of several features, each read once; faults are reported where a feature reads its own."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("kind") == "table" and row.get("by") in BY:
            texts = all(isinstance(row.get(key, ""), str) for key in ("file", "column", "query", "document"))
            if texts and row.get("file") and row.get("column"):
                groups.setdefault(_table_of(row), []).append(row)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    columns = {key: list(dict.fromkeys(row["column"] for row in group)) for key, group in several.items()}
    return {key: _read_columns(group[0], columns[key]) for key, group in several.items()}


def _read_columns(settings: Mapping[str, Any], columns: list[str]) -> Table:
    path = Path(settings["file"])
    if not path.exists():
        advice = "A path is relative to the file that declares the feature, in Python to the working directory"
        raise FileNotFoundError(f"{path}: there is no such table. {advice}.")
    names = {key: settings[key] for key in ("query", "document") if key in settings}
    return read_behaviour(path, settings["by"], columns, **names)


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(float(value)) if isinstance(value, float) else str(value)
