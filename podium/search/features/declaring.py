"""Declaration: which features there are, in which order, and what each of them means.

A feature has a name, a kind (its formula), mostly a field, and settings of the kind. LETOR's 46 are a list of such
declarations; further ones come from a TOML table or are Python functions:

    letor = true                # the 46 first
    normalize = "minmax"        # within the query, as LETOR does; left out: raw values

    [[feature]]
    name = "BM25(title), k1 = 0.4"
    kind = "bm25"
    field = "title"
    k1 = 0.4

    [[feature]]
    name = "clicks"
    kind = "stored"             # a number that the index keeps of each document
    key = "clicks"
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

from podium._runtime.once import once
from podium._runtime.words import check_choice, excerpt
from podium.formats.errors import FormatError
from podium.search.index.links import FACTS
from podium.search.index.segments import FIELDS
from podium.search.retrieval.weightings import WEIGHTINGS, Weighting, parse_weighting

LETOR_FIELDS = ("body", "anchor", "title", "url", "whole")
NORMALIZATIONS = ("minmax",)
FUNCTION = "function"
_LARGEST = (2.0 - 2.0**-23) * 2.0**127  # of float32, the type of features


def fits_float32(value: Any) -> bool:
    """Whether this is a number that a feature can have; integers may have any number of digits."""
    return isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST


@dataclass(frozen=True)
class Kind:
    """How features of a kind are computed."""

    formula: str
    of_field: bool = False
    settings: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


_SUM = "sum over the terms of the query of"
_WEIGHTED = {
    "bm25": "idf tf / (tf + k1 (1 - b + b dl / avgdl)), idf = ln(1 + (N - df + 1/2) / (df + 1/2))",
    "bm25-robertson": "idf (k1 + 1) tf / (tf + k1 (1 - b + b dl / avgdl)), idf = ln((N - df + 1/2) / (df + 1/2)) or 0",
    "bm25-atire": "idf (k1 + 1) tf / (tf + k1 (1 - b + b dl / avgdl)), idf = ln(N / df)",
    "bm25+": "idf ((k1 + 1) tf / (tf + k1 (1 - b + b dl / avgdl)) + delta), idf = ln((N + 1) / df)",
    "bm25l": "idf (k1 + 1) (c + delta) / (k1 + c + delta), c = tf / (1 - b + b dl / avgdl), "
    "idf = ln((N + 1) / (df + 1/2))",
    "tfidf": "sqrt(tf) idf^2 / sqrt(dl), idf = 1 + ln((N + 1) / (df + 1))",
    "lmir-dir": "ln((tf + mu p) / (dl + mu)), p = cf / terms of the collection",
    "lmir-jm": "ln((1 - lambda) tf / dl + lambda p), p = cf / terms of the collection",
    "lmir-abs": "ln(max(tf - delta, 0) / dl + delta u / dl p), p = cf / terms of the collection",
}
_BY_BM25 = ("bigrams", "feedback")
# Of a term that no document has in the field, none of these sums has a part.
KINDS: dict[str, Kind] = {
    "tf": Kind("occurrences of the terms of the query", True),
    "idf": Kind(f"{_SUM} ln(N / df)", True),
    "tf*idf": Kind("TF times IDF: (occurrences of the terms) x (sum of ln(N / df))", True),
    "tf*idf-sum": Kind(f"{_SUM} tf ln(N / df)", True),
    "dl": Kind("number of terms in the field", True),
    "coverage": Kind("share of the distinct terms of the query that occur", True),
    **{
        name: Kind(
            f"{_SUM} {formula}",
            True,
            tuple(item.name.rstrip("_") for item in fields(WEIGHTINGS[name]) if item.name != "variant"),
        )
        for name, formula in _WEIGHTED.items()
    },
    "bigrams": Kind(
        "sum over neighbouring terms of the query of BM25 of both as a phrase, which is a term of its own",
        True,
        ("k1", "b"),
    ),
    "feedback": Kind(
        "BM25 of the most typical terms of the best documents, weighted by the mean of tf / dl times ln(N / df)",
        True,
        ("documents", "terms", "k1", "b"),
    ),
    "fact": Kind("a fact about the document in the collection", settings=("fact",), required=("fact",)),
    "stored": Kind("a number stored with the document", settings=("key", "default"), required=("key",)),
    "score": Kind("the score of the stage before"),
    "query-length": Kind("number of terms in the query"),
    FUNCTION: Kind("a Python function"),
}


@dataclass(frozen=True)
class Feature:
    """One feature. `function` takes a `QueryDocuments` and returns one number per document."""

    name: str
    kind: str
    field: str | None = None
    settings: Mapping[str, Any] = dataclass_field(default_factory=dict)
    function: Callable[[Any], Any] | None = None
    about: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ValueError(f"a feature needs a name; got {self.name!r}.")
        check_choice(f"feature {self.name!r}: kind", self.kind, KINDS)
        kind = KINDS[self.kind]
        if kind.of_field:
            check_choice(f"feature {self.name!r}: field", self.field, FIELDS)
        elif self.field is not None:
            raise ValueError(f"feature {self.name!r}: kind {self.kind} is not about a field; got {self.field!r}.")
        for name in self.settings:
            check_choice(f"feature {self.name!r}: setting", name, kind.settings)
        for name in kind.required:
            if name not in self.settings:
                raise ValueError(f"feature {self.name!r}: kind {self.kind} needs {name}.")
        if self.kind == "fact":
            check_choice(f"feature {self.name!r}: fact", self.settings["fact"], FACTS)
        if (self.kind == FUNCTION) != callable(self.function):
            raise ValueError(f"feature {self.name!r}: kind function and a Python function belong together.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, value in self.settings.items():
            if name in ("fact", "key"):
                if not isinstance(value, str) or not value:
                    raise ValueError(f"feature {self.name!r}: {name} must be text; got {value!r}.")
            elif isinstance(value, bool) or not fits_float32(value):
                raise ValueError(f"feature {self.name!r}: {name} must be a finite number; got {excerpt(value)}.")
        for name in ("documents", "terms"):
            value = self.settings.get(name, 1)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"feature {self.name!r}: {name} must be an integer from 1; got {value!r}.")
        if self.kind == "feedback" and self.field == "anchor":
            raise ValueError(
                f"feature {self.name!r}: feedback reads the documents' own texts; anchor is not among them."
            )
        if self.kind in _WEIGHTED or self.kind in _BY_BM25:
            _ = self.weighting

    @once
    def weighting(self) -> Weighting:
        """The weighting whose scores this feature has."""
        own = {name: value for name, value in self.settings.items() if name not in ("documents", "terms")}
        given = ",".join(f"{name}={value!r}" for name, value in own.items())
        try:
            return parse_weighting(f"{'bm25' if self.kind in _BY_BM25 else self.kind}({given})")
        except ValueError as error:
            raise ValueError(f"feature {self.name!r}: {error}") from error

    @property
    def is_weighted(self) -> bool:
        return self.kind in _WEIGHTED

    @property
    def formula(self) -> str:
        """In words."""
        if self.about:
            return self.about
        found = KINDS[self.kind].formula
        return f"{found}: {self.settings['fact']}" if self.kind == "fact" else found

    def as_dict(self) -> dict[str, Any]:
        """As a row of a TOML table."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind}
        found |= {} if self.field is None else {"field": self.field}
        return found | dict(self.settings) | ({"about": self.about} if self.about else {})

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Feature:
        rest = dict(row)
        missing = [name for name in ("name", "kind") if name not in rest]
        if missing:
            raise ValueError(f"a feature needs {' and '.join(missing)}; found {rest!r}.")
        name, kind = rest.pop("name"), rest.pop("kind")
        if kind == FUNCTION:
            raise ValueError(f"feature {name!r}: a function cannot be declared in a file; use Features.add in Python.")
        return cls(name, kind, rest.pop("field", None), about=rest.pop("about", ""), settings=rest)


def _letor() -> tuple[Feature, ...]:
    """LETOR 4.0's 46, in its order: feature by feature, then field by field, then what is known of the document."""
    found = [
        Feature(f"{kind.upper()}({name})", kind, name)
        for kind in ("tf", "idf", "tf*idf", "dl")
        for name in LETOR_FIELDS
    ]
    models = {"BM25": "bm25", "LMIR.ABS": "lmir-abs", "LMIR.DIR": "lmir-dir", "LMIR.JM": "lmir-jm"}
    found += [Feature(f"{shown}({name})", kind, name) for name in LETOR_FIELDS for shown, kind in models.items()]
    facts = {
        "PageRank": "pagerank",
        "inlinks": "inlinks",
        "outlinks": "outlinks",
        "slashes in URL": "slashes",
        "length of URL": "url_length",
        "child pages": "children",
    }
    return (*found, *(Feature(name, "fact", settings={"fact": fact}) for name, fact in facts.items()))


LETOR = _letor()


@dataclass(frozen=True)
class Features:
    """Features in their order. `normalize="minmax"`: (x - min) / (max - min) over the candidates of the query."""

    features: tuple[Feature, ...] = LETOR
    normalize: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if self.normalize is not None:
            check_choice("normalize", self.normalize, NORMALIZATIONS)
        if not self.features:
            raise ValueError("expected at least one feature; got none.")
        names = [feature.name for feature in self.features]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"feature {twice!r} is declared more than once; names must differ.")

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
        own = {feature.name: feature for feature in self.features}
        for name in names:
            check_choice("feature", name, own)
        return replace(self, features=tuple(own[name] for name in names))

    def to_toml(self) -> str:
        """The declaration as a TOML table, which `from_toml` reads; functions cannot be written."""
        for feature in self.features:
            if feature.kind == FUNCTION:
                message = f"feature {feature.name!r} is a Python function, which no file can hold"
                raise ValueError(f"{message}. Store its values in the index and declare a feature of kind 'stored'.")
        has_letor = self.features[: len(LETOR)] == LETOR
        lines = [f"letor = {'true' if has_letor else 'false'}"]
        lines += [] if self.normalize is None else [f"normalize = {_toml_value(self.normalize)}"]
        for feature in self.features[len(LETOR) if has_letor else 0 :]:
            lines += ["", "[[feature]]"]
            lines += [f"{key} = {_toml_value(value)}" for key, value in feature.as_dict().items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str, path: str = "the declaration of features") -> Features:
        try:
            table = tomllib.loads(text)
            for key in table:
                check_choice("key", key, ("letor", "normalize", "feature"))
            if not isinstance(table.get("letor", False), bool):
                raise ValueError(f"letor must be true or false; got {table['letor']!r}.")
            rows = table.get("feature", [])
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("features must be tables: [[feature]].")
            more = tuple(Feature.from_json(row) for row in rows)
            return cls((LETOR if table.get("letor", False) else ()) + more, table.get("normalize"))
        except (ValueError, RecursionError) as error:  # tomllib's errors are ValueErrors
            raise FormatError(path, str(error)) from error

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Features:
        """Read a TOML file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(path, f"is not valid UTF-8 ({error}).") from error
        return cls.from_toml(text, os.fspath(path))

    @classmethod
    def of(cls, given: Any) -> Features:
        """`letor`, the path of a TOML file, a list of `Feature`s, or Features."""
        if isinstance(given, Features):
            return given
        if isinstance(given, str) and given == "letor":
            return cls.letor()
        if isinstance(given, (str, os.PathLike)):
            return cls.read(given)
        if isinstance(given, Sequence) and all(isinstance(item, Feature) for item in given):
            return cls(tuple(given))
        raise ValueError(f"features must be 'letor', the path of a TOML file or Features; got {given!r:.80}.")


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(float(value)) if isinstance(value, float) else str(value)
