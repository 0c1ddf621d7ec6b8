"""Kernels of features: one pass over the postings of the query's terms, then one formula per column.

Shapes: n candidates, T distinct terms, F fields, C columns.
frequencies  (F, T, n) uint16, how often a term occurs in a field of a candidate
lengths      (F, n) float64, terms of the field; uniques likewise, distinct terms
counts       (T,) float64, how often a term occurs in the query
"""

from __future__ import annotations

import math

from podium._runtime.compiler import Array, bare_kernel
from podium.search.retrieval import formulas

TF, TFIDF_TOTALS, TFIDF_SUM, LENGTH, COVERAGE, CONSTANT = range(formulas.ABSOLUTE + 1, formulas.ABSOLUTE + 7)


@bare_kernel
def fill_frequencies(
    docs: Array,
    tfs: Array,
    ranges: Array,
    own_lengths: Array,
    own_uniques: Array,
    wanted: Array,
    base: int,
    frequencies: Array,
    lengths: Array,
    uniques: Array,
) -> None:
    """One field of one segment. `wanted` (n,) are its candidates, ascending, numbered from `base`; all else is theirs.

    Term t has the postings ranges[t, 0]:ranges[t, 1]. They are searched by steps of doubling width: few comparisons
    where most candidates have the term, and few where its list is long.
    """
    n = len(wanted)
    for i in range(n):
        doc = wanted[i] - base
        lengths[i], uniques[i] = own_lengths[doc], own_uniques[doc]
    for t in range(len(ranges)):
        posting, end = ranges[t, 0], ranges[t, 1]
        for i in range(n):
            doc = wanted[i] - base
            if posting >= end:
                break
            if docs[posting] < doc:
                step, low = 1, posting
                while low + step < end and docs[low + step] < doc:
                    low += step
                    step *= 2
                high = min(low + step, end)  # docs[low] < doc, and the one at `high` is not below
                while low + 1 < high:
                    middle = (low + high) >> 1
                    if docs[middle] < doc:
                        low = middle
                    else:
                        high = middle
                posting = high
                if posting >= end:
                    break
            if docs[posting] == doc:
                frequencies[t, i] = tfs[posting]


@bare_kernel
def fill_columns(
    frequencies: Array,
    lengths: Array,
    uniques: Array,
    counts: Array,
    codes: Array,
    fields: Array,
    document_numbers: Array,
    term_numbers: Array,
    constants: Array,
    n_known: Array,
    rows: Array,
    places: Array,
    out: Array,
) -> None:
    """out[rows[i], places[c]] of all candidates i and columns c.

    document_numbers (C, 3): p, q and the average length; term_numbers (T, C, 3): a, c and e; constants (C,) and n_known
    (C,): sums over the terms of the query. Codes up to ABSOLUTE are those of `retrieval/formulas.py`, where a term
    without occurrences has only the prior.
    """
    for column in range(len(codes)):
        code, f = codes[column], fields[column]
        p, q, average = document_numbers[column, 0], document_numbers[column, 1], document_numbers[column, 2]
        constant, known, out_column = constants[column], n_known[column], places[column]
        for i in range(len(rows)):
            dl, unique, value = lengths[f, i], uniques[f, i], 0.0
            if code <= formulas.ABSOLUTE:
                x = formulas.document_number_kernel(code, p, q, average, dl, unique)
                if code >= formulas.DIRICHLET and known > 0.0:
                    value = constant + known * formulas.document_prior_kernel(code, p, dl, unique)
                for t in range(len(counts)):
                    tf = float(frequencies[f, t, i])
                    if tf > 0.0:
                        a, c, e = term_numbers[t, column, 0], term_numbers[t, column, 1], term_numbers[t, column, 2]
                        value += counts[t] * formulas.term_value_kernel(code, a, c, e, tf, x)
            elif code == CONSTANT:
                value = constant
            elif code == LENGTH:
                value = dl
            elif code <= TFIDF_TOTALS:
                for t in range(len(counts)):
                    value += counts[t] * float(frequencies[f, t, i])
                if code == TFIDF_TOTALS:
                    value *= constant
            elif code == TFIDF_SUM:
                for t in range(len(counts)):
                    value += counts[t] * float(frequencies[f, t, i]) * term_numbers[t, column, 0]
            else:
                for t in range(len(counts)):
                    value += 1.0 if frequencies[f, t, i] > 0 else 0.0
                value /= max(len(counts), 1)
            out[rows[i], out_column] = value


@bare_kernel
def scale_to_range(values: Array, n_ranged: int) -> None:
    """(x - min) / (max - min) per column, in place; 0 where it is constant. The first `n_ranged` rows give the range.

    A missing value (NaN) stays one and does not count.
    """
    for column in range(values.shape[1]):
        low, high = math.inf, -math.inf
        for row in range(n_ranged):
            value = float(values[row, column])
            if value == value:
                low, high = min(low, value), max(high, value)
        for row in range(len(values)):
            value = float(values[row, column])
            if value == value:  # float64 holds the difference of any two float32
                values[row, column] = (value - low) / (high - low) if high > low else 0.0
