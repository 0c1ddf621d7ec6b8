"""SIMD: compare 64 documents with one threshold at once; the results are the bits of one word.

Loops that make such words in plain Numba compile to a shift and an "or" per document. These few lines of LLVM IR use
whole vectors, on any processor: with AVX-512, 64 documents are four comparisons, and writing a byte for those whose bit
is set is one masked store.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from llvmlite import ir
    from numba.core import cgutils, config, types
    from numba.extending import intrinsic

    _settings: Any = config
    _INTERPRETED = bool(_settings.DISABLE_JIT)  # where nothing is compiled, a debugger can step through
except ModuleNotFoundError:  # trees are grown on a GPU without Numba; kernels are Python then
    _INTERPRETED = True

LANES = 64
_WIDTH = 16  # a vector of single precision, where vectors are widest
if not _INTERPRETED:
    _BYTE, _PART, _INDEX = ir.IntType(8), ir.IntType(_WIDTH), ir.IntType(32)


def _greater(typing: Any, words: Any, position: Any, column: Any, threshold: Any) -> Any:
    """Bit k of words[position] = column[k] > threshold; a missing value gives 0."""
    return types.void(words, types.uint64, column, types.float32), _compare(missing=False)


def _greater_or_missing(typing: Any, words: Any, position: Any, column: Any, threshold: Any) -> Any:
    """The same, where a missing value gives 1."""
    return types.void(words, types.uint64, column, types.float32), _compare(missing=True)


def _masked_store(typing: Any, numbers: Any, word: Any, number: Any) -> Any:
    """numbers[k] = number where bit k of the word is set; bytes."""
    return types.void(numbers, types.uint64, types.uint8), _change(lambda builder, old, new: new)


def _masked_add(typing: Any, numbers: Any, word: Any, number: Any) -> Any:
    """numbers[k] += number where bit k of the word is set; bytes."""
    return types.void(numbers, types.uint64, types.uint8), _change(lambda builder, old, new: builder.add(old, new))


def _compare(missing: bool) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, position, column, threshold = arguments
        parts = _pointer(context, builder, signature.args[0], words, position, _PART)
        vector = ir.VectorType(ir.FloatType(), _WIDTH)
        values = _pointer(context, builder, signature.args[2], column, _zero(context), vector)
        limit = _everywhere(builder, threshold, _WIDTH)
        compare = builder.fcmp_unordered if missing else builder.fcmp_ordered
        for part in range(LANES // _WIDTH):  # sixteen bits are stored as they come; joining them first costs more
            at = [ir.Constant(_INDEX, part)]
            answers = compare(">", builder.load(builder.gep(values, at), align=4), limit)
            builder.store(builder.bitcast(answers, _PART), builder.gep(parts, at), align=2)
        return context.get_dummy_value()

    return code


def _change(change: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers, word, number = arguments
        there = _pointer(context, builder, signature.args[0], numbers, _zero(context), ir.VectorType(_BYTE, LANES))
        chosen = builder.bitcast(word, ir.VectorType(ir.IntType(1), LANES))
        old = builder.load(there, align=1)
        new = change(builder, old, _everywhere(builder, number, LANES))
        builder.store(builder.select(chosen, new, old), there, align=1)
        return context.get_dummy_value()

    return code


def _pointer(context: Any, builder: Any, kind: Any, array: Any, position: Any, target: Any) -> Any:
    inside = context.make_array(kind)(context, builder, array)
    find: Any = cgutils.get_item_pointer
    pointer = find(context, builder, kind, inside, [position], wraparound=False)
    return builder.bitcast(pointer, target.as_pointer())


def _zero(context: Any) -> Any:
    return context.get_constant(types.uint64, 0)


def _everywhere(builder: Any, value: Any, lanes: int) -> Any:
    """A vector that has the value in every lane."""
    nothing = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    single = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes))


def _bits(word: np.uint64) -> np.ndarray:
    return np.array([int(word) >> lane & 1 for lane in range(LANES)], dtype=np.bool_)


def _greater_slowly(words: np.ndarray, position: int, column: np.ndarray, threshold: float) -> None:
    words[position] = sum(1 << lane for lane in range(LANES) if column[lane] > threshold)


def _greater_or_missing_slowly(words: np.ndarray, position: int, column: np.ndarray, threshold: float) -> None:
    words[position] = sum(1 << lane for lane in range(LANES) if not column[lane] <= threshold)


def _masked_store_slowly(numbers: np.ndarray, word: np.uint64, number: np.uint8) -> None:
    numbers[_bits(word)] = number


def _masked_add_slowly(numbers: np.ndarray, word: np.uint64, number: np.uint8) -> None:
    numbers[_bits(word)] += number


greater: Any = _greater_slowly if _INTERPRETED else intrinsic(_greater)
greater_or_missing: Any = _greater_or_missing_slowly if _INTERPRETED else intrinsic(_greater_or_missing)
masked_store: Any = _masked_store_slowly if _INTERPRETED else intrinsic(_masked_store)
masked_add: Any = _masked_add_slowly if _INTERPRETED else intrinsic(_masked_add)
