"""Formulas of weightings: each is written once, for the impacts of an index, for features, and as it is printed.

With a number x per document and numbers a, c and e per term, a term of the query adds

    SATURATION  a tf / (tf + x) + c              SHIFTED         a (tf + c x) / (tf + e x)
    ROOT        a sqrt(tf) x                     from DIRICHLET  ln(1 + a (tf - c) x)

Functions without a decorator take numbers and arrays alike: NumPy calls them, and kernels compile them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from podium._runtime.compiler import Array, bare_kernel, inlined_bare_kernel
from podium.search.retrieval.topk import UNITS

SATURATION, SHIFTED, ROOT, DIRICHLET, JELINEK_MERCER, ABSOLUTE = range(6)
LARGEST_IMPACT = 2.0**32 - 1
SATURATION_TEXT = "tf / (tf + k1 (1 - b + b dl / avgdl))"

Numbers = Any  # a float, or an array of them


def document_number(code: int, p: float, q: float, average: float, dl: Numbers, unique: Numbers) -> Numbers:
    """x of a document; p and q are `Weighting.document_parameters`."""
    if code <= SHIFTED:
        return p * (1.0 - q + q * dl / average)
    if code == ROOT:
        return 1.0 / np.sqrt(np.maximum(dl, 1))
    if code == DIRICHLET:
        return 1.0
    return 1.0 / np.maximum(dl if code == JELINEK_MERCER else unique, 1)


def document_prior(code: int, p: float, dl: Numbers, unique: Numbers) -> Numbers:
    """What each term of the query adds in a language model, whether the document has it or not."""
    if code == DIRICHLET:
        return np.log(p / (p + dl))
    if code == JELINEK_MERCER:
        return p
    return np.log(p * np.maximum(unique, 1) / np.maximum(dl, 1))


def term_value(code: int, a: Numbers, c: Numbers, e: Numbers, tf: Numbers, x: Numbers) -> Numbers:
    """What a term adds to the score of a document that has it."""
    if code == SATURATION:
        return a * tf / (tf + x) + c
    if code == SHIFTED:
        return a * (tf + c * x) / (tf + e * x)
    if code == ROOT:
        return a * np.sqrt(tf) * x
    return np.log1p(a * (tf - c) * x)


def saturated(idf: float, tf: Array, x: Numbers) -> Array:
    """BM25 of frequencies, with x = k1 times the relative length."""
    return np.asarray(term_value(SATURATION, idf, 0.0, 0.0, tf, x))


document_number_kernel = inlined_bare_kernel(document_number)
document_prior_kernel = inlined_bare_kernel(document_prior)
term_value_kernel = inlined_bare_kernel(term_value)


@bare_kernel
def fill_impacts(
    code: int, a: float, c: float, e: float, scale: float, docs: Array, tfs: Array, x: Array, deleted: Array, out: Array
) -> None:
    """Impacts in units of 2**-24, from 1; 0 for deleted documents."""
    for i in range(len(docs)):
        if len(deleted) and deleted[docs[i]]:
            out[i] = 0
            continue
        value = term_value_kernel(code, a, c, e, float(tfs[i]), x[docs[i]])
        out[i] = np.uint32(max(1.0, min(np.rint(value * scale * UNITS), LARGEST_IMPACT)))
