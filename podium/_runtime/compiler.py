"""The only place that sets compiler options.

Every kernel is a serial function without the interpreter lock: any number of Python threads may call it at once. None
uses Numba's own threads, which abort the process when two Python threads enter them, spin between two calls and keep
the processor from others, and take seconds to compile.

Compiled code is kept between processes by `kernels/cache.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

try:
    import numba

    from podium._runtime.kernels.cache import KernelCache

    _HAS_NUMBA = True
except ModuleNotFoundError:  # the JAX half of an objective runs without; kernels are Python then
    _HAS_NUMBA = False

Array: TypeAlias = np.ndarray  # a short name, for signatures of kernels
Function = TypeVar("Function", bound=Callable[..., Any])

# numpy's rules for division (no exception inside a loop); NaN keeps its meaning, so no fast-math here. Nobody calls
# kernels from C, and a door for that would be compiled too.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# One thread adds up a query in one order, so regrouping its sums still gives the same bits for any number of threads.
_REGROUPED = {"reassoc", "contract", "nsz"}


def kernel(function: Function) -> Function:
    """Compile a serial kernel on first call."""
    return _compile(function, {})


def fast_kernel(function: Function) -> Function:
    """Compile a serial kernel whose sums may be regrouped, so that they vectorise; NaN and infinity keep meaning.

    How they are regrouped is the compiler's choice, made anew for every copy of a function. So no other kernel may call
    one that adds up: which of the copies runs would depend on what was compiled and what came from the cache. Sums
    inside other kernels are `inlined_kernel`s.
    """
    return _compile(function, {"fastmath": _REGROUPED})


def inlined_kernel(function: Function) -> Function:
    """A `fast_kernel` copied into its callers: an argument that is a constant there selects its branch for good."""
    return _compile(function, {"fastmath": _REGROUPED, "inline": "always"})


def copied_kernel(function: Function) -> Function:
    """A `kernel` copied into its callers, with its sums in their order."""
    return _compile(function, {"inline": "always"})


def bare_kernel(function: Function) -> Function:
    """Compile a serial kernel that counts no references to arrays, and so may make no array; views of arrays are fine.

    Numba counts a reference for each array that a function gets or slices, with an atomic instruction each. A function
    of many arrays that is called for one document at a time spends most of its time there.
    """
    return _compile(function, {"_nrt": False})


def inlined_bare_kernel(function: Function) -> Function:
    """A `bare_kernel` that LLVM copies into its callers: a call would pass seven numbers per array."""
    return _compile(function, {"_nrt": False, "forceinline": True})


def readonly(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels see one kind of input, so each is compiled once (memory maps are read-only too)."""
    view = array.view()
    view.flags.writeable = False
    return view


def overload(function: Callable[..., Any]) -> Callable[[Function], Function]:
    """In kernels, the decorated function stands for `function`: it chooses the code by the types of its arguments."""

    def register(implementation: Function) -> Function:
        from numba import extending

        from podium._runtime.kernels.digest import describe_overload

        describe_overload(function, implementation)
        return extending.overload(function, inline="always")(implementation)

    return register


def _compile(function: Function, options: dict[str, Any]) -> Function:
    if not _HAS_NUMBA:
        return function
    compiled: Any = numba.njit(**_OPTIONS, **options)(function)
    if hasattr(compiled, "enable_caching"):  # otherwise nothing is compiled: NUMBA_DISABLE_JIT
        compiled._cache = KernelCache(compiled)
    return compiled  # type: ignore[no-any-return]
