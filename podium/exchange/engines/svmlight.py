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
A file is read as the RankSVM or KernelRankSVM that it is, which can be trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from podium._runtime.compiler import Array
from podium._runtime.files import write_whole
from podium.exchange.claims import TOLERANCE, Claim, Imported, Written
from podium.exchange.forms import Form, LinearSum, refuse_form
from podium.formats.errors import FormatError
from podium.formats.lines import FilePath, number_text, parse_numbers, raw_pieces, shown
from podium.models.frame.inspection import NumberedNames
from podium.models.kernel_svm import KernelRankSVM
from podium.models.svm import RankSVM

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
_ALWAYS, _PER_BYTE = 2**22, 64  # and no more than these: a short file has few vectors, or short ones
_LONGEST = 10  # digits of the number of a feature
_BOM = b"\xef\xbb\xbf"

_PROGRAMS = "SVMlight 6, svm_classify, and SVMrank, svm_rank_classify"
_CONDITIONS = (
    "these programs round weights and features to float32, and write scores with 8 digits",
    "where no term of the sum is much larger than the score",
)
_CLAIM = Claim(TOLERANCE, _PROGRAMS, _CONDITIONS, 1e-6)


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


class _Fault(ValueError):
    """What is wrong, and in which line; the path is known elsewhere."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.message, self.line = message, line


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.removeprefix(_BOM).startswith(_VERSION.encode())


# --- out


def write(form: Form, engine: str | None = None) -> Written:
    if not isinstance(form, LinearSum):
        refuse_form(form, "A file of SVMlight", (LinearSum,))
    with np.errstate(over="ignore"):
        single = form.weights.astype(np.float32).astype(np.float64)
    if not np.isfinite(single).all():
        name = form.names[int(np.argmin(np.isfinite(single)))]
        raise ValueError(f"the weight of feature {name!r} is larger than float32 can be. Train with scaled features.")
    content = model_text(SvmlightModel("linear", np.ones(1), form.weights[None], threshold=-form.intercept))
    rounded = replace(form, weights=single, missing_is_zero=True)
    is_named = not isinstance(form.names, NumberedNames)
    return Written(content, _CLAIM, rounded.scores, ("names of features are not in the file",) if is_named else ())


def write_svmlight_model(path: FilePath, model: SvmlightModel) -> None:
    """Write a model; every number reads back as the same float64."""
    with write_whole(path) as stream:
        stream.write(model_text(model))


def model_text(model: SvmlightModel) -> bytes:
    """A model as the lines of a file."""
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
    lines = [f"{_VERSION} V6.20"]
    lines += [f"{value}{'' if k == _USER else ' '}# {words}" for k, (value, words) in enumerate(zip(values, _HEADER))]
    for factor, vector in zip(model.factors.tolist(), model.vectors):
        stored = np.flatnonzero(vector)
        pairs = [f"{f + 1}:{number_text(value)}" for f, value in zip(stored.tolist(), vector[stored].tolist())]
        lines.append(" ".join([number_text(factor), *pairs, "#"]))
    return "\n".join(lines).encode() + b"\n"


# --- in


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and in which line."""
    parsed = parse(content)
    kind = RankSVM if parsed.kernel == "linear" else KernelRankSVM
    return Imported(kind.of_svmlight(parsed), _CLAIM)


def read_svmlight_model(path: FilePath) -> SvmlightModel:
    """Read a model; vectors become dense."""
    try:
        return parse(b"".join(raw_pieces(path)))
    except _Fault as fault:
        raise FormatError(path, fault.message, fault.line) from None


def parse(content: bytes) -> SvmlightModel:
    """The model of a file's bytes."""
    lines = _numbered(content)
    number, first = next(lines, (1, b""))
    if not first.startswith(_VERSION.encode()):
        raise _Fault(f'expected "{_VERSION} ...", found {shown(first)}. Is it a model of SVMlight?', number)
    header = [_header_value(words, *next(lines, (number, b""))) for words in _HEADER]
    kernel = _whole("kernel type", header[0], len(KERNELS) - 1)
    n_features, n_vectors = (_whole(_HEADER[k], header[k], 2**31 - 1) for k in (6, 8))
    factors, vectors = _room(n_vectors, n_features, content)
    n_read = 0
    for number, line in lines:
        if not line.partition(b"#")[0].strip():
            continue
        if n_read == len(factors):
            raise _Fault(f"expected {len(factors)} vectors, found more.", number)
        factors[n_read] = _read_vector(number, line, vectors[n_read])
        n_read += 1
    if n_read < len(factors):
        raise _Fault(f"expected {len(factors)} vectors, found {n_read}. Is the file cut short?")
    gamma = header[2] if KERNELS[kernel] == "gaussian" else header[3]
    degree = _whole(_HEADER[1], header[1], 10**6)
    return SvmlightModel(KERNELS[kernel], factors, vectors, header[9], degree, gamma, header[4])


def _numbered(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, without its end."""
    text = content.removeprefix(_BOM)
    if b"\0" in text:
        line = text[: text.index(b"\0")].count(b"\n") + 1
        raise _Fault("not plain text (a NUL byte); is it UTF-16 or binary? Expected UTF-8.", line)
    for number, ended in enumerate(text.split(b"\n"), start=1):
        yield number, ended.rstrip(b"\r")


def _room(n_vectors: int, n_features: int, content: bytes) -> tuple[Array, Array]:
    """Factors and vectors to be filled, after it is sure that the file can fill them; n_vectors is one too many."""
    if n_vectors - 1 > content.count(b"\n"):
        raise _Fault(f"expected {n_vectors - 1} vectors, found fewer lines. Is the file cut short?")
    most = min(_MOST_NUMBERS, _ALWAYS + _PER_BYTE * len(content))
    if n_vectors < 1 or n_features * n_vectors > most:
        raise _Fault(f"{n_vectors - 1} vectors of {n_features} features cannot be held in memory.")
    return np.zeros(n_vectors - 1), np.zeros((n_vectors - 1, n_features))


def _header_value(words: str, number: int, line: bytes) -> float:
    value, mark, comment = line.partition(b"#")
    if not mark or not comment.strip().startswith(words[:24].encode()):
        raise _Fault(f'expected "VALUE # {words}", found {shown(line)}.', number)
    if words == _HEADER[_USER]:  # for kernels of one's own
        return 0.0
    numbers, wrong = parse_numbers([value.strip()])
    if wrong is not None:
        raise _Fault(f"expected a number before # {words}, found {shown(value)}.", number)
    return float(numbers[0])


def _whole(words: str, value: float, most: int) -> int:
    if value != int(value) or not 0 <= value <= most:
        raise _Fault(f"{words} must be an integer from 0 to {most:,}; got {value:g}.")
    return int(value)


def _read_vector(number: int, line: bytes, out: Array) -> float:
    """Fill a vector from `factor feature:value ...`; returns the factor."""
    words = line.partition(b"#")[0].split()
    features, marks, values = zip(*(word.partition(b":") for word in words[1:])) if len(words) > 1 else ((), (), ())
    wrong = [not mark or not name.isdigit() or len(name) > _LONGEST for mark, name in zip(marks, features)]
    places = [int(name) for name in features] if not any(wrong) else []
    numbers, bad = parse_numbers([words[0], *values])
    if any(wrong) or bad is not None or any(a >= b for a, b in pairwise(places)):
        raise _Fault(f'expected "FACTOR FEATURE:VALUE ..." in rising order, found {shown(line)}.', number)
    if places and not 1 <= places[0] <= places[-1] <= len(out):
        raise _Fault(f"features must be from 1 to {len(out)}; found {shown(line)}.", number)
    out[np.array(places, np.int64) - 1] = numbers[1:]
    return float(numbers[0])
