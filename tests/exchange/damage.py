"""Damaged model files: each is refused with a sentence, or scores as a plain reader of the same bytes does.

A plain reader is a function (content, X) -> scores, written in plain Python without a line of the package; it may fail
in any way on what is damaged. It must not be more lenient than the format: what the package accepts, it can read too.
Where the order of a sum is free, it gives (score, by how much it may differ) per row.
"""

import re
import warnings

import numpy as np

NUMBERS = b"-1 0 1 2 3 7 65536 2147483647 -2147483648 4294967295 1e400 -0.0 nan inf 0.5 1e-46 null [] {} true".split()
NUMBERS += [b"99999999999999999999", b"", b'"x"']
MOST_FEATURES = 2_000  # of a file whose scores are compared


def damaged(content, seed):
    """The same file with one to three things wrong: bits, cuts, copies, swapped pieces, other numbers."""
    random = np.random.default_rng([seed, 11])
    for _ in range(random.integers(1, 4)):
        content = _EDITS[random.integers(len(_EDITS))](content, random)
    return content


def _some_place(content, random):
    return int(random.integers(len(content) + 1))


def _flip(content, random):
    if not content:
        return content
    at = int(random.integers(len(content)))
    return content[:at] + bytes([content[at] ^ (1 << int(random.integers(8)))]) + content[at + 1 :]


def _cut(content, random):
    return content[: _some_place(content, random)]


def _remove(content, random):
    at = _some_place(content, random)
    return content[:at] + content[at + int(random.integers(1, 40)) :]


def _copy(content, random):
    start, to = _some_place(content, random), _some_place(content, random)
    return content[:to] + content[start : start + int(random.integers(1, 60))] + content[to:]


def _digits(content):
    """Places of numbers in a text."""
    return [match.span() for match in re.finditer(rb"-?\d[\d.eE+-]*", content)]


def _number(content, random):
    spans = _digits(content)
    if not spans:
        return _flip(content, random)
    start, end = spans[random.integers(len(spans))]
    return content[:start] + NUMBERS[random.integers(len(NUMBERS))] + content[end:]


def _other_number(content, random):
    """A number that stands elsewhere in the file: children become those of other nodes."""
    spans = _digits(content)
    if not spans:
        return _flip(content, random)
    (start, end), (first, last) = (spans[random.integers(len(spans))] for _ in range(2))
    return content[:start] + content[first:last] + content[end:]


_EDITS = [_flip, _cut, _remove, _copy, _number, _number, _other_number, _other_number]


def judge(read, plain, content, seed):
    """ "refused" or "taken"; anything else than a ValueError, or scores that the plain reader does not give, fails."""
    try:
        model = read(content).model
        n_features = model.n_features_in_
        X = rows(min(n_features, MOST_FEATURES), seed)
        if n_features > MOST_FEATURES:
            return "taken"
        X = X if model.takes_missing(fitted=True) else np.nan_to_num(X)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            scores = model.predict(X)
    except ValueError as error:
        return "refused" if str(error) else "an error without a word"
    expected = np.asarray(plain(content, X), np.float64)
    if expected.ndim == 2:
        expected, slack = expected.T
        assert (np.abs(scores - expected) <= slack).all(), (scores, expected)
    else:
        np.testing.assert_array_equal(scores, expected)
    return "taken"


def rows(n_features, seed, n_rows=12):
    random = np.random.default_rng([seed, 13])
    X = random.choice(
        np.array([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-36, -1e-36, 40.0, np.nan], np.float32), (n_rows, n_features)
    )
    X[::2] = random.standard_normal(X[::2].shape).astype(np.float32)
    return X


def count_verdicts(read, plain, content, edits, first=0):
    """How many of so many damaged files were refused, and how many scored."""
    verdicts = {"refused": 0, "taken": 0}
    for seed in range(first, first + edits):
        verdicts[judge(read, plain, damaged(content, seed), seed)] += 1
    return verdicts
