"""Model files of SVMlight and SVMrank: `score(x) = sum over vectors of factor * kernel(vector, x) - threshold`.

    SVM-light Version V6.20
    0 # kernel type
    3 # kernel parameter -d
    1 # kernel parameter -g
    1 # kernel parameter -s
    1 # kernel parameter -r
    empty# kernel parameter -u
    46 # highest feature index
    9630 # number of training documents
    2 # number of support vectors plus 1
    0 # threshold b, each following line is a SV (starting with alpha*y)
    1 1:0.5 3:-0.25 #

Kernels are 0 linear, 1 polynomial `(s a.b + r)^d`, 2 Gaussian `exp(-g |a - b|^2)`, 3 sigmoid `tanh(s a.b + r)`.
SVMrank writes a linear model as one vector with factor 1. Features count from 1, and those that are 0 are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from podium._runtime.files import write_whole
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, number_text, numbered_lines, parse_numbers, shown

KERNELS = ("linear", "polynomial", "gaussian", "sigmoid")
_VERSION = "SVM-light Version"
_HEADER = (
    "kernel type",
    "kernel parameter -d",
    "kernel parameter -g",
    "kernel parameter -s",
    "kernel parameter -r",
    "kernel parameter -u",
    "highest feature index",
    "number of training documents",
    "number of support vectors plus 1",
    "threshold b, each following line is a SV (starting with alpha*y)",
)
_USER = _HEADER.index("kernel parameter -u")
_MOST_NUMBERS = 2**28  # of a dense matrix of all vectors


@dataclass(frozen=True, eq=False)
class SvmlightModel:
    """A scoring function as SVMlight stores it."""

    kernel: str
    factors: np.ndarray  # (vectors,) float64: alpha * y
    vectors: np.ndarray  # (vectors, features) float64
    threshold: float = 0.0
    degree: int = 3
    gamma: float = 1.0  # of the Gaussian: -g; of the others: -s
    constant: float = 1.0

    @property
    def n_features(self) -> int:
        return int(self.vectors.shape[1])


def write_svmlight_model(path: FilePath, model: SvmlightModel) -> None:
    """Write a model; every number reads back as the same float64."""
    gamma = number_text(model.gamma)
    inner, scale = (gamma, "1") if model.kernel == "gaussian" else ("1", gamma)
    values = (
        str(KERNELS.index(model.kernel)),
        str(model.degree),
        inner,
        scale,
        number_text(model.constant),
        "empty",
        str(model.n_features),
        str(len(model.factors)),
        str(len(model.factors) + 1),
        number_text(model.threshold + 0.0),
    )
    with write_whole(path) as stream:
        lines = [f"{_VERSION} V6.20"]
        lines += [
            f"{value}{'' if k == _USER else ' '}# {words}" for k, (value, words) in enumerate(zip(values, _HEADER))
        ]
        stream.write("\n".join(lines).encode() + b"\n")
        for factor, vector in zip(model.factors.tolist(), model.vectors):
            stored = np.flatnonzero(vector)
            pairs = [f"{f + 1}:{number_text(value)}" for f, value in zip(stored.tolist(), vector[stored].tolist())]
            stream.write(" ".join([number_text(factor), *pairs, "#"]).encode() + b"\n")


def read_svmlight_model(path: FilePath) -> SvmlightModel:
    """Read a model; vectors become dense."""
    lines = numbered_lines(path)
    number, first = next(lines, (1, b""))
    if not first.startswith(_VERSION.encode()):
        raise FormatError(path, f'expected "{_VERSION} ...", found {shown(first)}. Is it a model of SVMlight?', number)
    header = [_header_value(path, words, next(lines, (number, b""))) for words in _HEADER]
    kernel = _whole(path, "kernel type", header[0], len(KERNELS) - 1)
    n_features, n_vectors = (_whole(path, _HEADER[k], header[k], 2**31 - 1) for k in (6, 8))
    if n_vectors < 1 or n_features * n_vectors > _MOST_NUMBERS:
        raise FormatError(path, f"{n_vectors - 1} vectors of {n_features} features cannot be held in memory.")
    factors, vectors = np.zeros(n_vectors - 1), np.zeros((n_vectors - 1, n_features))
    n_read = 0
    for number, line in lines:
        if not line.partition(b"#")[0].strip():
            continue
        if n_read == len(factors):
            raise FormatError(path, f"expected {len(factors)} vectors, found more.", number)
        factors[n_read] = _read_vector(path, number, line, vectors[n_read])
        n_read += 1
    if n_read < len(factors):
        raise FormatError(path, f"expected {len(factors)} vectors, found {n_read}. Is the file cut short?")
    gamma = header[2] if KERNELS[kernel] == "gaussian" else header[3]
    return SvmlightModel(
        KERNELS[kernel], factors, vectors, header[9], _whole(path, _HEADER[1], header[1], 10**6), gamma, header[4]
    )


def _header_value(path: FilePath, words: str, numbered: tuple[int, bytes]) -> float:
    number, line = numbered
    value, mark, comment = line.partition(b"#")
    if not mark or not comment.strip().startswith(words[:24].encode()):
        raise FormatError(path, f'expected "VALUE # {words}", found {shown(line)}.', number)
    if words == _HEADER[_USER]:  # for kernels of one's own
        return 0.0
    numbers, wrong = parse_numbers([value.strip()])
    if wrong is not None:
        raise FormatError(path, f"expected a number before # {words}, found {shown(value)}.", number)
    return float(numbers[0])


def _whole(path: FilePath, words: str, value: float, most: int) -> int:
    if value != int(value) or not 0 <= value <= most:
        raise FormatError(path, f"{words} must be an integer from 0 to {most:,}; got {value:g}.")
    return int(value)


def _read_vector(path: FilePath, number: int, line: bytes, out: np.ndarray) -> float:
    """Fill a vector from `factor feature:value ...`; returns the factor."""
    words = line.partition(b"#")[0].split()
    features, marks, values = zip(*(word.partition(b":") for word in words[1:])) if len(words) > 1 else ((), (), ())
    wrong = [word for word, mark, name in zip(words[1:], marks, features) if not mark or not name.isdigit()]
    places = [int(name) for name in features] if not wrong else []
    numbers, bad = parse_numbers([words[0], *values])
    if wrong or bad is not None or any(a >= b for a, b in pairwise(places)):
        raise FormatError(path, f'expected "FACTOR FEATURE:VALUE ..." in rising order, found {shown(line)}.', number)
    if places and not 1 <= places[0] <= places[-1] <= len(out):
        raise FormatError(path, f"features must be from 1 to {len(out)}; found {shown(line)}.", number)
    out[np.array(places, np.int64) - 1] = numbers[1:]
    return float(numbers[0])
