"""Formulas of weightings: each is written once, for the impacts of an index, for features, and as it is printed.

With a number x per document and numbers a, c and e per term, a term of the query adds

    SATURATION  a tf / (tf + x) + c              SHIFTED         a (tf + c x) / (tf + e x)
    ROOT        a sqrt(tf) x                     from DIRICHLET  ln(1 + a (tf - c) x)

Functions without a decorator take numbers and arrays alike: NumPy calls them, and kernels compile them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from podium._runtime.compiler import bare_kernel, inlined_bare_kernel
from podium.search.retrieval.topk import UNITS

SATURATION, SHIFTED, ROOT, DIRICHLET, JELINEK_MERCER, ABSOLUTE = range(6)
LARGEST_IMPACT = 2.0**32 - 1
SATURATION_TEXT = "tf / (tf + k1 (1 - b + b dl / avgdl))"

Numbers = Any  # a float, or an array of them


def saturation(a: Numbers, tf: Numbers, x: Numbers) -> Numbers:
    """BM25, with x = k1 times the relative length."""
    return a * tf / (tf + x)


def relative_length(b: float, dl: Numbers, average: float) -> Numbers:
    return 1.0 - b + b * dl / average


def inverse_root(n: Numbers) -> Numbers:
    return 1.0 / np.sqrt(np.maximum(n, 1))


def inverse(n: Numbers) -> Numbers:
    return 1.0 / np.maximum(n, 1)


def dirichlet_prior(mu: float, dl: Numbers) -> Numbers:
    return np.log(mu / (mu + dl))


def absolute_prior(delta: float, dl: Numbers, unique: Numbers) -> Numbers:
    return np.log(delta * np.maximum(unique, 1) / np.maximum(dl, 1))


_saturation, _relative_length = inlined_bare_kernel(saturation), inlined_bare_kernel(relative_length)
_inverse_root, _inverse = inlined_bare_kernel(inverse_root), inlined_bare_kernel(inverse)
_dirichlet_prior, _absolute_prior = inlined_bare_kernel(dirichlet_prior), inlined_bare_kernel(absolute_prior)


@inlined_bare_kernel
def document_number(code: int, p: float, q: float, average: float, dl: float, unique: float) -> Numbers:
    """x of a document; p and q are `Weighting.document_parameters`."""
    if code <= SHIFTED:
        return p * _relative_length(q, dl, average)
    if code == ROOT:
        return _inverse_root(dl)
    if code == DIRICHLET:
        return 1.0
    return _inverse(dl) if code == JELINEK_MERCER else _inverse(unique)


@inlined_bare_kernel
def document_prior(code: int, p: float, dl: float, unique: float) -> Numbers:
    """What each term of the query adds in a language model, whether the document has it or not."""
    if code == DIRICHLET:
        return _dirichlet_prior(p, dl)
    return math.log(p) if code == JELINEK_MERCER else _absolute_prior(p, dl, unique)


@inlined_bare_kernel
def term_value(code: int, a: float, c: float, e: float, tf: float, x: float) -> Numbers:
    """What a term adds to the score of a document that has it."""
    if code == SATURATION:
        return _saturation(a, tf, x) + c
    if code == SHIFTED:
        return a * (tf + c * x) / (tf + e * x)
    if code == ROOT:
        return a * math.sqrt(tf) * x
    return math.log1p(a * (tf - c) * x)


@bare_kernel
def fill_impacts(
    code: int,
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
    """Impacts in units of 2**-24, from 1; 0 for deleted documents."""
    for i in range(len(docs)):
        if len(deleted) and deleted[docs[i]]:
            impacts[i] = 0
            continue
        value = term_value(code, a, c, e, float(tfs[i]), per_document[docs[i]])
        impacts[i] = np.uint32(max(1.0, min(np.rint(value * weight * UNITS), LARGEST_IMPACT)))
