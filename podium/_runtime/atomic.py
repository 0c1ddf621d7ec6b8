"""Atomic numbers: how threads that run kernels tell each other something, and how one sleeps until another wakes it.

Numba compiles plain loads and stores as if no other thread could touch the array, and may move them out of a loop.
These are really made, each in one piece and in one order for all threads.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine()) if sys.platform == "linux" else None
_WAIT, _WAKE = 128, 129  # of the threads of one process
_YIELD = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
_LONG, _INT = ir.IntType(64), ir.IntType(32)


def _load(typing: Any, array: Any, index: Any) -> Any:
    """array[place], int64, as it is now."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, arguments), "seq_cst", 8)

    return types.int64(array, types.intp), code


def _add(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """array[place] += value, also when several threads do it at once; returns what was there before."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("add", address, arguments[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), code


def _sleep(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Block until another thread calls `wake`, unless array[place] (below 2**31) is no longer `value`.

    It may return early. Where the system has no futex, it lets other threads run first.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _FUTEX is None:
            _call(builder, _YIELD, ir.FunctionType(_INT, []), [])
        else:
            address = _address(context, builder, signature, arguments)
            _futex(builder, address, _WAIT, builder.trunc(arguments[2], _INT))
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), code


def _wake(typing: Any, array: Any, index: Any) -> Any:
    """Wake all threads that sleep on array[place]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _FUTEX is not None:
            address = _address(context, builder, signature, arguments)
            _futex(builder, address, _WAKE, ir.Constant(_INT, 2**31 - 1))
        return context.get_dummy_value()

    return types.void(array, types.intp), code


def _futex(builder: Any, address: Any, operation: int, value: Any) -> None:
    """syscall(SYS_futex, address, operation, value, no timeout); a futex is the low half of a 64-bit number."""
    forever = ir.Constant(_LONG, 0)
    number, operation = ir.Constant(_LONG, _FUTEX), ir.Constant(_LONG, operation)
    arguments = [number, builder.ptrtoint(address, _LONG), operation, builder.zext(value, _LONG), forever]
    _call(builder, "syscall", ir.FunctionType(_LONG, [_LONG], var_arg=True), arguments)


def _call(builder: Any, name: str, kind: Any, arguments: list[Any]) -> None:
    insert: Any = cgutils.get_or_insert_function
    builder.call(insert(builder.module, kind, name), arguments)


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    pointer: Any = cgutils.get_item_pointer
    return pointer(context, builder, kind, array, [arguments[1]], wraparound=False)


load: Any = intrinsic(_load)
add: Any = intrinsic(_add)
sleep: Any = intrinsic(_sleep)
wake: Any = intrinsic(_wake)
