"""Numbers that two threads look at: kernels have no other way to tell each other something while both are running.

Numba compiles plain loads and stores as if nobody else could touch the array, and may leave them out of a loop. These
are really made, each in one piece, and everything written before a `store` or `add` is seen by whoever sees its value.
"""

from __future__ import annotations

import sys
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

_GIVE_WAY = "SwitchToThread" if sys.platform == "win32" else "sched_yield"

give_way = types.ExternalFunction(_GIVE_WAY, types.int32())
"""Let another thread run, if one is waiting for this processor."""


def _load(typing: Any, array: Any, place: Any) -> Any:
    """array[place], int64, as it is now."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, arguments), "acquire", 8)

    return types.int64(array, types.intp), code


def _store(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """array[place] = value, after everything that was written before."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[2], _address(context, builder, signature, arguments), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), code


def _add(typing: Any, array: Any, place: Any, value: Any) -> Any:
    """array[place] += value, also when several threads do it at once; returns what was there before."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("add", address, arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), code


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    pointer: Any = cgutils.get_item_pointer
    return pointer(context, builder, kind, array, [arguments[1]], wraparound=False)


load: Any = intrinsic(_load)
store: Any = intrinsic(_store)
add: Any = intrinsic(_add)
