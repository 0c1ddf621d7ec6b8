"""C99, out: a file of tables and one loop over them, with the bits of `predict`.

A tree is walked by `i = left[i] + (x != x ? missing_right[i] : x > threshold[i])` until left[i] is i. All numbers are
hexadecimal, so no compiler rounds them. Sums have no products in them, and products go through a volatile variable, so
that no compiler makes one fused multiply-add of both (gcc does, and knows no FP_CONTRACT).

Names come from users: they are strings of plain characters, all others in octal.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.claims import DOUBLE, Claim, Written
from podium.exchange.forms import Form, LinearSum, Trees, as_trees
from podium.learners.trees.scoring.categories import CategorySets
from podium.models.imported import TINY, ZERO_MISSING

_TIMEOUT = 300.0  # seconds that a compiler may take
_ENGINE = "C99"
_BITS = "compiled without -ffast-math and its parts, for a processor that computes in IEEE float and double (not x87)"
_WIDTH = 110  # characters of a line of numbers

# --- the lines of a file; what differs between models is in tables and macros

_HEAD = """\
/* A model for ranking as tables and one loop over them; C99, no other files, no memory is allocated.

   double podium_score(const float *row);                             the score of a document of PODIUM_FEATURES values
   void podium_scores(const float *rows, size_t n, double *scores);   of n documents, one behind the other

   The order of the values is that of podium_feature_names. Missing values are NaN, so that -ffast-math and
   -ffinite-math-only break them; -O3 and -march=native change no bit. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "Missing values are NaN: compile this file without -ffast-math and -ffinite-math-only."
#endif
"""
_NAMES = """
double podium_score(const float *row);
void podium_scores(const float *rows, size_t n, double *scores);

/* The features, in the order of a row. */"""
_CATEGORIES = "/* The categories of a feature: its value is the place of one of them in this list. */"
_NODES = """
/* Trees one behind the other, each from its root: x <= threshold goes to left, others to left + 1. Leaves are their
   own left. A feature from PODIUM_FEATURES on is a set of categories: 0 if its left side has the value, 1 if the right
   side has it; what neither has goes where missing values go. */"""
_ZEROS = """
/* Features whose values from -1e-35 to 1e-35 are missing. */"""
_SETS = """
/* Set k has the sorted categories set_values[set_start[k]] up to set_start[k + 1] of the feature set_feature[k]. */"""
_SIDE_OF = """
static float side_of(uint32_t set, float x) {
    uint32_t low = set_start[set], high = set_start[set + 1];
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (set_values[middle] <= x) low = middle; else high = middle;
    }
    return set_values[low] == x ? (float)set_sides[low] : NAN;
}
"""
_VALUE_OF = """
static float value_of(const float *row, uint32_t f) {
    float x = row[f];"""
_VALUE_OF_SETS = """
static float value_of(const float *row, uint32_t f) {
    uint32_t set = f - PODIUM_FEATURES;
    float x = row[f < PODIUM_FEATURES ? f : (f = set_feature[set])];"""
_ZERO_MISSING = "    if (zero_missing[f] && x >= -PODIUM_TINY && x <= PODIUM_TINY) x = NAN;"
_SIDE = "    if (set < PODIUM_SETS) x = side_of(set, x);"
_VALUE_END = """\
    return x;
}
"""
_WALK = """
static uint32_t goes_right(const float *row, uint32_t i) {
    float x = value_of(row, feature[i]);
    return x != x ? missing_right[i] : x > threshold[i];
}

double podium_score(const float *row) {"""
_SUM_OF = {"float": "    float sum = PODIUM_START;", "double": "    double sum = PODIUM_START;"}
_TREES = """\
    for (uint32_t tree = 0; tree < PODIUM_TREES; tree++) {
        uint32_t i = roots[tree];
        while (left[i] != i) i = left[i] + goes_right(row, i);
        sum += value[i];
    }
    return (double)sum * PODIUM_FACTOR / PODIUM_DIVISOR;
}
"""
_LINEAR = """
double podium_score(const float *row) {
    double sum = 0;
    for (uint32_t f = 0; f < PODIUM_FEATURES; f++) {
        float x = row[f];"""
_MISSING_IS_ZERO = "        if (x != x) x = 0;"
_LINEAR_END = """\
        volatile double product = weights[f] * x; /* rounded before it is added */
        sum += product;
    }
    return sum + PODIUM_INTERCEPT;
}
"""
_ALL = """
void podium_scores(const float *rows, size_t n, double *scores) {
    for (size_t i = 0; i < n; i++) scores[i] = podium_score(rows + i * PODIUM_FEATURES);
}
"""
_PIECES = (
    _HEAD, _NAMES, _CATEGORIES, _NODES, _ZEROS, _SETS, _SIDE_OF, _VALUE_OF, _VALUE_OF_SETS, _ZERO_MISSING, _SIDE,
    _VALUE_END, _WALK, *_SUM_OF.values(), _TREES, _LINEAR, _MISSING_IS_ZERO, _LINEAR_END, _ALL,
)  # fmt: skip
_LINES = frozenset(line for piece in _PIECES for line in piece.split("\n")) | {"", "};"}
_VALUE = r"-?(?:INFINITY|0x[0-9a-f.]+p[+-][0-9]+f?|[0-9]+)"
_DATA = (
    rf"#define PODIUM_[A-Z]+ {_VALUE}",
    r"static const (?:float|double|uint8_t|uint16_t|uint32_t) [a-z_]+\[[0-9]+\] = \{",
    r"const char \*const podium_(?:feature_names|categories_[0-9]+)\[[0-9]+\] = \{",
    rf"    (?:{_VALUE},? ?)*",
    r'    "(?:[ !#-.0-;=@-\[\]-~]|\\[0-7]{3})*",',
)


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(_HEAD[:60].encode())


def write(form: Form, engine: str | None = None) -> Written:
    pieces = [_HEAD]
    if isinstance(form, LinearSum):
        _add_linear(pieces, form)
        conditions = () if form.missing_is_zero else ("rows have no missing values",)
        claim, expected = Claim(DOUBLE, _ENGINE, (_BITS, *conditions)), form.scores
    else:
        trees = _trees(form)
        _add_trees(pieces, trees)
        conditions = () if len(trees.forest.sets) == 0 else ("categories are integers, as the model numbers them",)
        sums = np.float32 if trees.forest.value.dtype == np.float32 else np.float64
        claim, expected = trees.claim(sums, _ENGINE, (_BITS, *conditions)), trees.scores
    pieces.append(_ALL)
    return Written("\n".join(pieces).encode("ascii"), claim, expected)


def _trees(form: Form) -> Trees:
    """As the format takes them: it has factors and divisors, so that none changes a value."""
    where, takes = "C source", (Trees, LinearSum)
    if not isinstance(form, Trees):
        return as_trees(form, where, takes=takes)
    plain = as_trees(replace(form, factor=1.0, divisor=1.0), where, zero_missing=True, takes=takes)
    return replace(plain, factor=form.factor, divisor=form.divisor)


def _add_linear(pieces: list[str], form: LinearSum) -> None:
    pieces += _macros({"FEATURES": len(form.weights), "INTERCEPT": form.intercept})
    pieces += [_NAMES, *_texts("podium_feature_names", form.names), ""]
    pieces += [*_table("weights", "double", form.weights), _LINEAR]
    pieces += [_MISSING_IS_ZERO] if form.missing_is_zero else []
    pieces.append(_LINEAR_END)


def _add_trees(pieces: list[str], trees: Trees) -> None:
    forest, sets = trees.forest, trees.forest.sets
    zeros = trees.prepared == ZERO_MISSING
    numbers: dict[str, float] = {"FEATURES": forest.n_features, "TREES": forest.n_trees}
    numbers |= {"START": float(forest.start), "FACTOR": float(trees.factor), "DIVISOR": float(trees.divisor)}
    numbers |= ({"SETS": len(sets)} if len(sets) else {}) | ({"TINY": float(TINY)} if zeros.any() else {})
    pieces += [*_macros(numbers), _NAMES, *_texts("podium_feature_names", trees.names)]
    for column, name in enumerate(trees.names):
        if name in trees.categories:
            pieces += ["", _CATEGORIES, *_texts(f"podium_categories_{column}", map(str, trees.categories[name]))]
    pieces += _tables(trees)
    if zeros.any():
        pieces += [_ZEROS, *_table("zero_missing", "uint8_t", zeros)]
    if len(sets):
        pieces += [_SETS, *_set_tables(sets), _SIDE_OF]
    pieces.append(_VALUE_OF_SETS if len(sets) else _VALUE_OF)
    pieces += ([_ZERO_MISSING] if zeros.any() else []) + ([_SIDE] if len(sets) else [])
    pieces += [_VALUE_END, _WALK, _SUM_OF[_sum_type(trees)], _TREES]


def _set_tables(sets: CategorySets) -> Iterable[str]:
    for name, values in (("set_feature", sets.feature), ("set_start", sets.start)):
        yield from _table(name, "uint32_t", values)
    yield from _table("set_values", "float", sets.values)
    yield from _table("set_sides", "uint8_t", sets.sides)


def _sum_type(trees: Trees) -> str:
    return "float" if trees.forest.value.dtype == np.float32 else "double"


def _tables(trees: Trees) -> Iterable[str]:
    """The nodes."""
    forest = trees.forest
    narrow = "uint16_t" if forest.width <= 2**16 else "uint32_t"
    yield _NODES
    yield from _table("feature", narrow, forest.feature)
    yield from _table("threshold", "float", forest.threshold)
    yield from _table("left", "uint32_t", forest.left)
    yield from _table("missing_right", "uint8_t", forest.missing_right)
    yield from _table("value", _sum_type(trees), forest.value)
    yield from _table("roots", "uint32_t", forest.roots[:-1])


def _macros(numbers: dict[str, float]) -> list[str]:
    return [f"#define PODIUM_{name} {_text(value)}" for name, value in numbers.items()]


def _text(number: float) -> str:
    """A number as C has it, exactly; 0 is 0, and -0 is not."""
    if isinstance(number, int):
        return str(number)
    if np.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    mantissa, _, exponent = float(number).hex().partition("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return "0" if mantissa == "0x0" else f"{mantissa}p{exponent}"


def _table(name: str, kind: str, values: Array) -> Iterable[str]:
    """An array, which C wants to have at least one member; equal numbers are written once."""
    filled = values if len(values) else np.zeros(1, values.dtype)
    if filled.dtype.kind == "f":
        bits, numbers = np.unique(filled.view(f"i{filled.dtype.itemsize}"), return_inverse=True)
        suffix = "f" if kind == "float" else ""
        texts = map(_text, bits.view(filled.dtype).tolist())
        distinct = [text + suffix if "p" in text else text for text in texts]
    else:
        distinct_values, numbers = np.unique(filled, return_inverse=True)
        distinct = [str(int(value)) for value in distinct_values.tolist()]
    yield f"static const {kind} {name}[{len(filled)}] = {{"
    yield from _wrapped([distinct[number] for number in numbers.tolist()])
    yield "};"


def _wrapped(words: Sequence[str]) -> Iterable[str]:
    line: list[str] = []
    room = _WIDTH
    for word in words:
        if len(word) + 2 > room and line:
            yield f"    {', '.join(line)},"
            line, room = [], _WIDTH
        line.append(word)
        room -= len(word) + 2
    yield f"    {', '.join(line)}"


def _texts(name: str, texts: Iterable[str]) -> Iterable[str]:
    listed = list(texts) or [""]
    yield f"const char *const {name}[{len(listed)}] = {{"
    yield from (f'    "{_escaped(one)}",' for one in listed)
    yield "};"


def _escaped(text: str) -> str:
    r"""Plain characters as they are, all others in octal: no quotation mark, no \, no trigraph (??/), no comment."""
    data = text.encode("utf-8", "backslashreplace")
    return "".join(chr(byte) if re.match(rb"[ !#-.0-;=@-\[\]-~]", bytes([byte])) else f"\\{byte:03o}" for byte in data)


# --- the compiler

_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "model.c"

int main(int n_arguments, char **arguments) {
    static float row[PODIUM_FEATURES + 1];
    size_t n = n_arguments > 1 ? strtoul(arguments[1], NULL, 10) : 0;
    for (size_t i = 0; i < n; i++) {
        double score;
        if (fread(row, sizeof(float), PODIUM_FEATURES, stdin) != PODIUM_FEATURES) return 1;
        score = podium_score(row);
        if (fwrite(&score, sizeof score, 1, stdout) != 1) return 1;
    }
    return 0;
}
"""


def run(path: str, X: Array, flags: Sequence[str] = ("-O2",)) -> tuple[Array, str]:
    """Scores by the compiled file, which must hold what `write` writes and nothing else: it is code that is run."""
    compiler = next((one for one in map(shutil.which, ("cc", "gcc", "clang")) if one), None)
    if compiler is None:
        advice = "Install gcc or clang, or export with golden rows and verify these"
        raise ValueError(f"no C compiler is installed: there is no cc, gcc or clang. {advice}.")
    text = Path(path).read_text(encoding="ascii")
    _refuse_other_code(text)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("model.c", text), ("main.c", _MAIN)):
            (Path(folder) / name).write_text(content, encoding="ascii")
        program = str(Path(folder) / "scores")
        _output([compiler, "-std=c99", *flags, "-o", program, str(Path(folder) / "main.c")])
        scores = np.frombuffer(_output([program, str(len(rows))], rows.tobytes()))
    if len(scores) != len(rows):
        raise ValueError(f"expected {len(rows)} scores; the program wrote {len(scores)}.")
    version = _output([compiler, "--version"]).decode("utf-8", "replace").splitlines()[0]
    return scores, f"{version} {' '.join(flags)}"


def _refuse_other_code(text: str) -> None:
    """Refuse lines that `write` never writes, before a compiler reads them."""
    data = re.compile("|".join(f"(?:{one})" for one in _DATA))
    for number, line in enumerate(text.split("\n"), start=1):
        if line not in _LINES and not data.fullmatch(line):
            raise ValueError(f"line {number} is none that an export has: {line[:60]!r}. Export the model again.")


def _output(command: Sequence[str], sent: bytes = b"") -> bytes:
    done = subprocess.run(command, input=sent, capture_output=True, timeout=_TIMEOUT)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        said = next((line for line in lines if "error" in line), "".join(lines[:1]))
        raise ValueError(f"{Path(command[0]).name} ended with status {done.returncode}: {said}")
    return done.stdout
