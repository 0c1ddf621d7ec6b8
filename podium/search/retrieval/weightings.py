"""Weightings: what a term of the query adds to the score of a document that contains it. A class is the row of one.

In `formula`, N counts all documents, dl the terms of the field, avgdl is the mean of dl, u counts the distinct terms, p
is the share of the term in all terms of the collection. Defaults: k1 and b are Lucene's, mu, lambda (for titles as
queries) and delta those of Zhai and Lafferty, SIGIR 2001.

A language model gives a score to every document; the documents ranked are those with at least one term of the query.
Its logarithm is what a matching term adds to that of a document without any term, and a part that only depends on the
document: impacts stay positive, which lets the same top-k search skip.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.registry import Registry
from podium._runtime.words import check_choice
from podium.search.retrieval import formulas
from podium.search.retrieval.formulas import SATURATION_TEXT, document_number, document_prior, fill_impacts

LARGEST_SCORE = 256.0  # that impacts can hold, of one term
MOST_FEEDBACK = 1000  # documents, and terms, of pseudo-relevance feedback


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

    @property
    def average_length(self) -> float:
        return self.n_terms / self.n_documents


@dataclass(frozen=True)
class Weighting:
    """Base of all. Fields are the parameters."""

    name: ClassVar[str]
    formula: ClassVar[str]
    code: ClassVar[int]  # of `formulas.py`
    largest: ClassVar[float] = LARGEST_SCORE
    uses_average: ClassVar[bool] = False  # length of the documents
    has_prior: ClassVar[bool] = False  # each document has a score, also without any term of the query
    joins_fields: ClassVar[bool] = False
    is_of_postings: ClassVar[bool] = True  # its formula gives a term a value on a posting, so that it is a feature too

    @classmethod
    def parameters(cls) -> dict[str, str]:
        """Names of the parameters, and of the attributes that hold them."""
        return {item.name.rstrip("_"): item.name for item in fields(cls)}

    @classmethod
    def make(cls, settings: Mapping[str, float]) -> Weighting:
        names = cls.parameters()
        try:
            return cls(**{names[name]: float(value) for name, value in settings.items()})
        except OverflowError:  # an integer of hundreds of digits
            raise ValueError(f"{cls.name}: parameters must be finite numbers.") from None

    @property
    def settings(self) -> dict[str, float]:
        return {name: getattr(self, attribute) for name, attribute in self.parameters().items()}

    @property
    def plain(self) -> Weighting:
        """What scores a single field."""
        return self

    def per_document(self, lengths: np.ndarray, uniques: np.ndarray, average: float) -> np.ndarray:
        """x of each document."""
        p, q = self.document_parameters()
        return np.asarray(np.zeros(len(lengths)) + document_number(self.code, p, q, average or 1.0, lengths, uniques))

    def document_parameters(self) -> tuple[float, float]:
        """p and q, from which kernels have x and the prior."""
        return 0.0, 0.0

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        """a, c and e."""
        raise NotImplementedError

    def prior(self, lengths: np.ndarray, uniques: np.ndarray) -> np.ndarray:
        """Per document what each term of the query adds, matching or not; at most 0. Empty: nothing."""
        if not self.has_prior:
            return np.empty(0)
        p, _ = self.document_parameters()
        return np.asarray(np.zeros(len(lengths)) + document_prior(self.code, p, lengths, uniques))

    def constant(self, term: Statistics) -> float:
        """What a term of the query adds to the scores of all documents."""
        return 0.0

    def fill_impacts(
        self, term: Statistics, weight: float, docs: Array, tfs: Array, x: Array, deleted: Array, impacts: Array
    ) -> None:
        """Impacts of a list; 0 for deleted documents."""
        fill_impacts(self.code, *self.per_term(term), weight, docs, tfs, x, deleted, impacts)

    def __str__(self) -> str:
        shown = [f"{name}={value:g}" for name, value in self.settings.items()]
        return f"{self.name}({', '.join(shown)})" if shown else self.name


@dataclass(frozen=True)
class BM25(Weighting):
    """BM25 as Lucene has it; base of the variants."""

    name: ClassVar[str] = "bm25"
    formula: ClassVar[str] = f"idf {SATURATION_TEXT}, idf = ln(1 + (N - df + 1/2) / (df + 1/2))"
    code: ClassVar[int] = formulas.SATURATION
    uses_average: ClassVar[bool] = True
    most_delta: ClassVar[float] = 0.0
    k1: float = 1.2
    b: float = 0.75
    delta: float = 0.0  # of bm25+ and bm25l

    def __post_init__(self) -> None:
        if self.delta and not self.most_delta:
            raise ValueError(f"{self.name} has no delta; bm25+ and bm25l have one.")
        _check_range("k1", self.k1, 0.0, math.inf)
        _check_range("b", self.b, 0.0, 1.0)
        _check_range("delta", self.delta, 0.0, self.most_delta)

    def document_parameters(self) -> tuple[float, float]:
        return self.k1, self.b

    def idf(self, n: int, df: int) -> float:
        return math.log1p((n - df + 0.5) / (df + 0.5))

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return self.idf(term.n_documents, term.df), 0.0, 0.0


class BM25Robertson(BM25):
    """As first published."""

    name: ClassVar[str] = "bm25-robertson"
    formula: ClassVar[str] = f"idf (k1 + 1) {SATURATION_TEXT}, idf = ln((N - df + 1/2) / (df + 1/2)) or 0"

    def idf(self, n: int, df: int) -> float:
        return max(0.0, math.log((n - df + 0.5) / (df + 0.5)))

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        idf = self.idf(term.n_documents, term.df)
        return idf * (self.k1 + 1.0), idf * self.delta, 0.0


class BM25Atire(BM25Robertson):
    """As ATIRE has it."""

    name: ClassVar[str] = "bm25-atire"
    formula: ClassVar[str] = f"idf (k1 + 1) {SATURATION_TEXT}, idf = ln(N / df)"

    def idf(self, n: int, df: int) -> float:
        return math.log(n / df)


@dataclass(frozen=True)
class BM25Plus(BM25Robertson):
    """A term that occurs adds at least delta idf, however long the document is."""

    name: ClassVar[str] = "bm25+"
    formula: ClassVar[str] = f"idf ((k1 + 1) {SATURATION_TEXT} + delta), idf = ln((N + 1) / df)"
    most_delta: ClassVar[float] = 10.0
    delta: float = 1.0

    def idf(self, n: int, df: int) -> float:
        return math.log((n + 1) / df)


@dataclass(frozen=True)
class BM25L(BM25):
    """Relative frequencies are shifted by delta before they saturate."""

    name: ClassVar[str] = "bm25l"
    formula: ClassVar[str] = (
        "idf (k1 + 1) (c + delta) / (k1 + c + delta), c = tf / (1 - b + b dl / avgdl), idf = ln((N + 1) / (df + 1/2))"
    )
    code: ClassVar[int] = formulas.SHIFTED
    most_delta: ClassVar[float] = 10.0
    delta: float = 0.5

    def document_parameters(self) -> tuple[float, float]:
        return 1.0, self.b

    def idf(self, n: int, df: int) -> float:
        return math.log((n + 1) / (df + 0.5))

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return self.idf(term.n_documents, term.df) * (self.k1 + 1.0), self.delta, self.k1 + self.delta


class BM25F(BM25):
    """BM25 of the fields' weighted frequencies; the weights are those of the search."""

    name: ClassVar[str] = "bm25f"
    formula: ClassVar[str] = "bm25 of the weighted sum of tf / (1 - b + b dl / avgdl) over the fields"
    joins_fields: ClassVar[bool] = True
    is_of_postings: ClassVar[bool] = False

    @property
    def plain(self) -> Weighting:
        return BM25(self.k1, self.b)


@dataclass(frozen=True)
class RM3(Weighting):
    """BM25 of the query and of the terms of its best documents (pseudo-relevance feedback); `feedback.py` expands."""

    name: ClassVar[str] = "bm25-rm3"
    formula: ClassVar[str] = (
        "(w c + (1 - w) n p) bm25, w = original_query_weight, c = how often the term is in the query of n terms, "
        "p = sum over the fb_docs best documents of bm25 of the query of tf / dl times their share of these scores, "
        "of the fb_terms terms with the largest p, which add up to 1"
    )
    code: ClassVar[int] = formulas.SATURATION
    uses_average: ClassVar[bool] = True
    is_of_postings: ClassVar[bool] = False
    k1: float = 1.2
    b: float = 0.75
    fb_terms: float = 10.0
    fb_docs: float = 10.0
    original_query_weight: float = 0.5

    def __post_init__(self) -> None:
        _ = self.plain  # checks k1 and b
        _check_integer("fb_terms", self.fb_terms, MOST_FEEDBACK)
        _check_integer("fb_docs", self.fb_docs, MOST_FEEDBACK)
        _check_range("original_query_weight", self.original_query_weight, 0.0, 1.0)

    @property
    def plain(self) -> Weighting:
        return BM25(self.k1, self.b)


class TFIDF(Weighting):
    """Lucene's classic similarity with exact lengths."""

    name: ClassVar[str] = "tfidf"
    formula: ClassVar[str] = "sqrt(tf) idf^2 / sqrt(dl), idf = 1 + ln((N + 1) / (df + 1))"
    code: ClassVar[int] = formulas.ROOT

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return (1.0 + math.log((term.n_documents + 1) / (term.df + 1))) ** 2, 0.0, 0.0


class LanguageModel(Weighting):
    """The logarithm of the probability of the query, given the document."""

    has_prior: ClassVar[bool] = True

    def constant(self, term: Statistics) -> float:
        return math.log(term.probability)


@dataclass(frozen=True)
class Dirichlet(LanguageModel):
    """Dirichlet smoothing."""

    name: ClassVar[str] = "lmir-dir"
    formula: ClassVar[str] = "ln((tf + mu p) / (dl + mu)), p = cf / terms of the collection"
    code: ClassVar[int] = formulas.DIRICHLET
    mu: float = 2000.0

    def __post_init__(self) -> None:
        _check_range("mu", self.mu, 1e-9, math.inf)

    def document_parameters(self) -> tuple[float, float]:
        return self.mu, 0.0

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return 1.0 / (self.mu * term.probability), 0.0, 0.0


@dataclass(frozen=True)
class JelinekMercer(LanguageModel):
    """Interpolation with the collection."""

    name: ClassVar[str] = "lmir-jm"
    formula: ClassVar[str] = "ln((1 - lambda) tf / dl + lambda p), p = cf / terms of the collection"
    code: ClassVar[int] = formulas.JELINEK_MERCER
    lambda_: float = 0.1

    def __post_init__(self) -> None:
        _check_range("lambda", self.lambda_, 1e-9, 1.0 - 1e-9)

    def document_parameters(self) -> tuple[float, float]:
        return math.log(self.lambda_), 0.0

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return (1.0 - self.lambda_) / (self.lambda_ * term.probability), 0.0, 0.0


@dataclass(frozen=True)
class AbsoluteDiscounting(LanguageModel):
    """Absolute discounting."""

    name: ClassVar[str] = "lmir-abs"
    formula: ClassVar[str] = "ln(max(tf - delta, 0) / dl + delta u / dl p), p = cf / terms of the collection"
    code: ClassVar[int] = formulas.ABSOLUTE
    delta: float = 0.7

    def __post_init__(self) -> None:
        _check_range("delta", self.delta, 1e-9, 1.0 - 1e-9)

    def document_parameters(self) -> tuple[float, float]:
        return self.delta, 0.0

    def per_term(self, term: Statistics) -> tuple[float, float, float]:
        return 1.0 / (self.delta * term.probability), self.delta, 0.0


_BUILT_IN: tuple[type[Weighting], ...] = (
    *(BM25, BM25Robertson, BM25Atire, BM25Plus, BM25L, BM25F, RM3, TFIDF),
    *(Dirichlet, JelinekMercer, AbsoluteDiscounting),
)
WEIGHTINGS = Registry("a weighting", {row.name: row for row in _BUILT_IN}, any_name=True)
_CALL = re.compile(r"\s*([\w+-]+)\s*(?:\((.*)\))?\s*")


def parse_weighting(text: str | Weighting) -> Weighting:
    """`bm25`, `bm25(k1=0.9, b=0.4)`, `lmir-dir(mu=1000)`, ..., or a Weighting itself."""
    if isinstance(text, Weighting):
        return text
    call = _CALL.fullmatch(text)
    name = call[1].lower() if call else text
    check_choice("weighting", name, WEIGHTINGS)
    row, settings = WEIGHTINGS[name], {}
    for part in filter(None, ((call and call[2]) or "").split(",")):
        key, _, value = (word.strip() for word in part.partition("="))
        check_choice(f"parameter of {name}", key, row.parameters())
        settings[key] = _number(text, value)
    return row.make(settings)


def _number(text: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected a weighting such as 'bm25(k1=0.9, b=0.4)'; got {text!r}.") from None


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high or value == math.inf:
        raise ValueError(f"{name} must be a number from {low:g} to {high:g}; got {value}.")


def _check_integer(name: str, value: float, most: int) -> None:
    if not (1 <= value <= most and value == int(value)):
        raise ValueError(f"{name} must be an integer from 1 to {most:,}; got {value:g}.")
