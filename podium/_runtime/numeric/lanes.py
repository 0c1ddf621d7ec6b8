"""Sums in 32 lanes: number k goes to lane k % 32, and the lanes are folded, the upper half onto the lower one.

The order of the additions is fixed, so the bits are the same with vectors of any width and in a warp of a GPU. The
compiler may regroup no sum of floats by itself, and so would add them one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 32
_VECTOR = 8  # numbers per vector of the code below; arrays are read so many at a time


def _add_slowly(values: np.ndarray, n: int) -> Any:
    lanes = np.zeros(LANES, np.float32)
    for start in range(0, n, LANES):
        part = values[start : min(start + LANES, n)]
        lanes[: len(part)] += part
    return fold(lanes)


def fold(lanes: np.ndarray) -> Any:
    """The sum of 32 lanes; further axes are added one by one."""
    half = LANES // 2
    while half:
        lanes = lanes[:half] + lanes[half : 2 * half]
        half //= 2
    return lanes[0]


def _add_two_slowly(one: np.ndarray, two: np.ndarray, n: int) -> tuple[Any, Any]:
    return _add_slowly(one, n), _add_slowly(two, n)


def _add_sizes_slowly(values: np.ndarray, n: int) -> Any:
    return _add_slowly(np.abs(values), n)


def _intrinsics() -> tuple[Any, Any]:
    from llvmlite import ir
    from numba import extending
    from numba.core import cgutils, types

    intrinsic: Any = extending.intrinsic
    tools: Any = cgutils
    kinds: Any = types

    vector, index = ir.VectorType(ir.FloatType(), _VECTOR), ir.IntType(32)

    def half_of(builder: Any, value: Any, width: int) -> Any:
        """The lower `width` numbers of a vector plus the next ones."""
        nothing = ir.Constant(value.type, ir.Undefined)
        pick = [ir.Constant(ir.VectorType(index, width), [first + k for k in range(width)]) for first in (0, width)]
        return builder.fadd(*(builder.shuffle_vector(value, nothing, one) for one in pick))

    def size_of(builder: Any, value: Any) -> Any:
        kind = ir.FunctionType(vector, [vector])
        return builder.call(tools.get_or_insert_function(builder.module, kind, f"llvm.fabs.v{_VECTOR}f32"), [value])

    def sums_of(context: Any, builder: Any, kind: Any, arrays: Any, n: Any, sizes: bool) -> list[Any]:
        """One sum per array, made side by side: additions wait for each other."""
        pointers = [context.make_array(kind)(context, builder, array).data for array in arrays]
        starts: list[Any] = [builder.bitcast(pointer, vector.as_pointer()) for pointer in pointers]
        zeros = ir.Constant(vector, [0.0] * _VECTOR)
        sums = [[tools.alloca_once_value(builder, zeros) for _ in range(4)] for _ in arrays]

        def add(part: int, number: Any) -> None:
            for start, parts in zip(starts, sums):
                value = builder.load(builder.gep(start, [number]), align=4)
                value = size_of(builder, value) if sizes else value
                builder.store(builder.fadd(builder.load(parts[part]), value), parts[part])

        vectors = builder.udiv(n, n.type(_VECTOR))
        whole = builder.udiv(vectors, n.type(4))
        with tools.for_range(builder, whole) as loop:
            for part in range(4):
                add(part, builder.add(builder.mul(loop.index, n.type(4)), n.type(part)))
        first = builder.mul(whole, n.type(4))
        for part in range(3):
            number = builder.add(first, n.type(part))
            with builder.if_then(builder.icmp_unsigned("<", number, vectors)):
                add(part, number)
        return [folded(builder, [builder.load(part) for part in parts]) for parts in sums]

    def folded(builder: Any, parts: list[Any]) -> Any:
        total = builder.fadd(builder.fadd(parts[0], parts[2]), builder.fadd(parts[1], parts[3]))
        width = _VECTOR // 2
        while width:
            total = half_of(builder, total, width)
            width //= 2
        return builder.extract_element(total, ir.Constant(index, 0))

    def add_lanes(typing: Any, one: Any, two: Any, n: Any) -> Any:
        pair = kinds.UniTuple(kinds.float32, 2)

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sums = sums_of(context, builder, signature.args[0], arguments[:2], arguments[2], False)
            return context.make_tuple(builder, pair, sums)

        return pair(one, two, kinds.int64), code

    def add_sizes(typing: Any, values: Any, n: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return sums_of(context, builder, signature.args[0], arguments[:1], arguments[1], True)[0]

        return kinds.float32(values, kinds.int64), code

    return intrinsic(add_lanes), intrinsic(add_sizes)


def _are_compiled() -> bool:
    try:
        from numba.core import config
    except ModuleNotFoundError:  # kernels are Python then
        return False
    settings: Any = config
    return not settings.DISABLE_JIT


# Of float32 arrays whose first n numbers count, a multiple of 8: the sums of two, and the sum of the sizes.
lane_sums: Any
lane_sizes: Any
lane_sums, lane_sizes = _intrinsics() if _are_compiled() else (_add_two_slowly, _add_sizes_slowly)
