"""Weightings: what a term of the query adds to the score of a document that contains it.

    bm25             idf tf / (tf + k1 (1 - b + b dl / avgdl))        idf = ln(1 + (N - df + 1/2) / (df + 1/2)), Lucene
    bm25-robertson   the same times (k1 + 1), with                    idf = ln((N - df + 1/2) / (df + 1/2)), at least 0
    bm25-atire       the same times (k1 + 1), with                    idf = ln(N / df)
    bm25l            idf (k1 + 1) (c + d) / (k1 + c + d), c = tf / (1 - b + b dl / avgdl), d = 0.5,
                                                                      idf = ln((N + 1) / (df + 1/2))
    bm25+            idf ((k1 + 1) tf / (tf + k1 (1 - b + b dl / avgdl)) + d), d = 1,
                                                                      idf = ln((N + 1) / df)
    tfidf            sqrt(tf) idf^2 / sqrt(dl)                        idf = 1 + ln((N + 1) / (df + 1)), Lucene's classic
    lmir-dir         ln((tf + mu p) / (dl + mu))                       p = cf / terms of the collection
    lmir-jm          ln((1 - lambda) tf / dl + lambda p)
    lmir-abs         ln(max(tf - delta, 0) / dl + delta u / dl p)      u = distinct terms of the document
    bm25f            bm25 of the weighted sum of tf / (1 - b + b dl / avgdl) over the fields

N counts all documents, avgdl is their mean length, dl the terms of the field. Defaults: k1 = 1.2 and b = 0.75 (Lucene);
mu = 2000, lambda = 0.1 for titles as queries and delta = 0.7 (Zhai and Lafferty, SIGIR 2001).

A language model gives a score to every document; the documents ranked are those with at least one term of the query.
Its logarithm is what a matching term adds to that of a document without any term, and a part that only depends on the
document: impacts stay positive, which lets the same top-k search skip.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from podium._runtime.compiler import bare_kernel
from podium._runtime.words import check_choice
from podium.search.retrieval.topk import UNITS

SATURATION, SHIFTED, ROOT, LOGARITHM = range(4)
_LARGEST = 2.0**32 - 1


@dataclass(frozen=True)
class Statistics:
    """What is known of a term in a field of the collection; deleted documents are not counted."""

    n_documents: int
    df: int
    cf: int  # occurrences
    n_terms: int  # occurrences of all terms

    @property
    def probability(self) -> float:
        """The share of this term in the collection."""
        return self.cf / self.n_terms


@dataclass(frozen=True)
class Weighting:
    """Base of all: a formula is one of four kinds, a number per document and a few per term."""

    kind: ClassVar[int]
    names: ClassVar[tuple[str, ...]]
    variant: str

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        raise NotImplementedError

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        raise NotImplementedError

    def prior(self, lengths: np.ndarray, uniques: np.ndarray) -> np.ndarray:
        """Per document what each term of the query adds, matching or not; at most 0. Empty: nothing."""
        return np.empty(0)

    def constant(self, found: Statistics) -> float:
        """What a term of the query adds to the scores of all documents."""
        return 0.0

    def __str__(self) -> str:
        shown = [f"{item.name}={getattr(self, item.name):g}" for item in fields(self) if item.name != "variant"]
        return f"{self.variant}({', '.join(shown)})" if shown else self.variant


@dataclass(frozen=True)
class BM25(Weighting):
    """BM25 and its variants."""

    kind: ClassVar[int] = SATURATION
    names: ClassVar[tuple[str, ...]] = ("bm25", "bm25-robertson", "bm25-atire", "bm25+", "bm25l")
    variant: str = "bm25"
    k1: float = 1.2
    b: float = 0.75
    delta: float | None = None  # of bm25+ and bm25l

    def __post_init__(self) -> None:
        check_choice("weighting", self.variant, self.names)
        usual = {"bm25+": 1.0, "bm25l": 0.5}.get(self.variant, 0.0)
        if self.delta is not None and usual == 0.0 and self.delta != 0.0:
            raise ValueError(f"{self.variant} has no delta; bm25+ and bm25l have one.")
        object.__setattr__(self, "delta", usual if self.delta is None else self.delta)
        object.__setattr__(self, "kind", SHIFTED if self.variant == "bm25l" else SATURATION)
        _check_range("k1", self.k1, 0.0, math.inf)
        _check_range("b", self.b, 0.0, 1.0)
        _check_range("delta", self.delta, 0.0, 10.0)

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        relative = 1.0 - self.b + self.b * lengths / (average or 1.0)
        return np.asarray(relative if self.variant == "bm25l" else self.k1 * relative)

    def idf(self, found: Statistics) -> float:
        n, df = found.n_documents, found.df
        if self.variant == "bm25":
            return math.log1p((n - df + 0.5) / (df + 0.5))
        if self.variant == "bm25-robertson":
            return max(0.0, math.log((n - df + 0.5) / (df + 0.5)))
        if self.variant == "bm25-atire":
            return math.log(n / df)
        return math.log((n + 1) / (df + (0.5 if self.variant == "bm25l" else 0.0)))

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        idf, delta = self.idf(found), self.delta or 0.0
        if self.variant == "bm25l":
            return idf * (self.k1 + 1.0), delta, self.k1 + delta
        return idf * (1.0 if self.variant == "bm25" else self.k1 + 1.0), idf * delta, 0.0


@dataclass(frozen=True)
class TFIDF(Weighting):
    """Lucene's classic similarity with exact lengths."""

    kind: ClassVar[int] = ROOT
    names: ClassVar[tuple[str, ...]] = ("tfidf",)
    variant: str = "tfidf"

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        return np.asarray(1.0 / np.sqrt(np.maximum(lengths, 1)))

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        return (1.0 + math.log((found.n_documents + 1) / (found.df + 1))) ** 2, 0.0, 0.0


@dataclass(frozen=True)
class LanguageModel(Weighting):
    """The logarithm of the probability of the query, given the document."""

    kind: ClassVar[int] = LOGARITHM
    names: ClassVar[tuple[str, ...]] = ("lmir-dir", "lmir-jm", "lmir-abs")

    def constant(self, found: Statistics) -> float:
        return math.log(found.probability)


@dataclass(frozen=True)
class Dirichlet(LanguageModel):
    """Dirichlet smoothing."""

    names: ClassVar[tuple[str, ...]] = ("lmir-dir",)
    variant: str = "lmir-dir"
    mu: float = 2000.0

    def __post_init__(self) -> None:
        _check_range("mu", self.mu, 1e-9, math.inf)

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        return np.ones(len(lengths))

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        return 1.0 / (self.mu * found.probability), 0.0, 0.0

    def prior(self, lengths: np.ndarray, uniques: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(self.mu / (self.mu + lengths)))


@dataclass(frozen=True)
class JelinekMercer(LanguageModel):
    """Interpolation with the collection."""

    names: ClassVar[tuple[str, ...]] = ("lmir-jm",)
    variant: str = "lmir-jm"
    lambda_: float = 0.1

    def __post_init__(self) -> None:
        _check_range("lambda", self.lambda_, 1e-9, 1.0 - 1e-9)

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        return np.asarray(1.0 / np.maximum(lengths, 1))

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        return (1.0 - self.lambda_) / (self.lambda_ * found.probability), 0.0, 0.0

    def prior(self, lengths: np.ndarray, uniques: np.ndarray) -> np.ndarray:
        return np.full(len(lengths), math.log(self.lambda_))


@dataclass(frozen=True)
class AbsoluteDiscounting(LanguageModel):
    """Absolute discounting."""

    names: ClassVar[tuple[str, ...]] = ("lmir-abs",)
    variant: str = "lmir-abs"
    delta: float = 0.7

    def __post_init__(self) -> None:
        _check_range("delta", self.delta, 1e-9, 1.0 - 1e-9)

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        return np.asarray(1.0 / np.maximum(uniques, 1))

    def per_term(self, found: Statistics) -> tuple[float, float, float]:
        return 1.0 / (self.delta * found.probability), self.delta, 0.0

    def prior(self, lengths: np.ndarray, uniques: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(self.delta * np.maximum(uniques, 1) / np.maximum(lengths, 1)))


@dataclass(frozen=True)
class BM25F(BM25):
    """BM25 of the fields' weighted frequencies; the weights are those of the search."""

    names: ClassVar[tuple[str, ...]] = ("bm25f",)
    variant: str = "bm25f"

    def __post_init__(self) -> None:
        _check_range("k1", self.k1, 0.0, math.inf)
        _check_range("b", self.b, 0.0, 1.0)
        object.__setattr__(self, "delta", 0.0)

    @property
    def plain(self) -> BM25:
        """What scores a single field, and gives the idf of all."""
        return BM25("bm25", self.k1, self.b)

    def idf(self, found: Statistics) -> float:
        return self.plain.idf(found)


_CLASSES: tuple[type[Any], ...] = (BM25, BM25F, TFIDF, Dirichlet, JelinekMercer, AbsoluteDiscounting)
WEIGHTINGS: dict[str, type[Weighting]] = {name: kind for kind in _CLASSES for name in kind.names}
_CALL = re.compile(r"\s*([\w+-]+)\s*(?:\((.*)\))?\s*")


def parse_weighting(text: str | Weighting) -> Weighting:
    """`bm25`, `bm25(k1=0.9, b=0.4)`, `lmir-dir(mu=1000)`, ..., or a Weighting itself."""
    if isinstance(text, Weighting):
        return text
    found = _CALL.fullmatch(text)
    name = found[1].lower() if found else text
    check_choice("weighting", name, WEIGHTINGS)
    kind = WEIGHTINGS[name]
    known = {item.name.rstrip("_"): item.name for item in fields(kind) if item.name != "variant"}
    given: dict[str, Any] = {"variant": name}
    for part in filter(None, ((found and found[2]) or "").split(",")):
        key, _, value = (word.strip() for word in part.partition("="))
        check_choice(f"parameter of {name}", key, known)
        given[known[key]] = _number(text, value)
    return kind(**given)


def _number(text: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected a weighting such as 'bm25(k1=0.9, b=0.4)'; got {text!r}.") from None


def _check_range(name: str, value: float | None, low: float, high: float) -> None:
    if value is None or not low <= value <= high or value == math.inf:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}; got {value}.")


@bare_kernel
def fill_impacts(
    kind: int,
    a: float,
    c: float,
    e: float,
    weight: float,
    docs: np.ndarray,
    tfs: np.ndarray,
    per_document: np.ndarray,
    deleted: np.ndarray,
    impacts: np.ndarray,
) -> None:
    """Impacts in units of 2**-24, from 1; 0 for deleted documents. With x = per_document[doc], a kind is

    SATURATION  a tf / (tf + x) + c              SHIFTED    a (tf + c x) / (tf + e x)
    ROOT        a sqrt(tf) x                     LOGARITHM  ln(1 + a (tf - c) x)
    """
    for i in range(len(docs)):
        if len(deleted) and deleted[docs[i]]:
            impacts[i] = 0
            continue
        tf, x = float(tfs[i]), per_document[docs[i]]
        if kind == SATURATION:
            value = a * tf / (tf + x) + c
        elif kind == SHIFTED:
            value = a * (tf + c * x) / (tf + e * x)
        elif kind == ROOT:
            value = a * math.sqrt(tf) * x
        else:
            value = math.log1p(a * (tf - c) * x)
        impacts[i] = np.uint32(max(1.0, min(np.rint(value * weight * UNITS), _LARGEST)))
