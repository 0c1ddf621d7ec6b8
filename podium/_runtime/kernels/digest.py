"""The digest of a kernel: equal as long as the kernel would be compiled to the same code.

It is computed from what the compiler reads and not from source files: the bytecode and constants of the function, the
options it is compiled with, and every global value that it names, functions and kernels with theirs. So a comment, a
docstring, formatting or a module that the kernel does not use change nothing, while an edit of a function that is
copied into the kernel from another module does, and an edit after the import cannot be taken for what was imported.

Libraries, the standard library among them, are described by name: their versions are those of `versions()`. A value
that cannot be described is an error and never left out.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba import extending
from numba.core import config, types
from numba.core.dispatcher import Dispatcher

_Intrinsic: Any = extending._Intrinsic  # type: ignore[attr-defined]
_LIBRARIES = {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names
_HAS_DOCSTRING = 0x4000000  # a flag of code, from Python 3.13 on
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_PLAIN = (type(None), type(...), bool, int, float, complex, str, bytes)

_overloads: dict[Any, Any] = {}


def describe_overload(function: Callable[..., Any], implementation: Callable[..., Any]) -> None:
    """Count the implementation as a part of the function: Numba has the two in a table, where no global leads to."""
    _overloads[function] = implementation


def versions() -> str:
    """What else machine code depends on, apart from the processor."""
    settings: Any = config
    libraries = f"{numba.__version__} {llvmlite.__version__} {np.__version__}"
    return f"{platform.python_implementation()} {sys.version} {libraries} {settings.BOUNDSCHECK} {settings.OPT}"


def digest_of(kernel: Any) -> str:
    """The digest of a kernel and of all functions that it leads to, in hexadecimal."""
    digest, waiting, seen = hashlib.sha256(), [kernel], {id(kernel)}
    while waiting:
        text, functions = _describe_function(waiting.pop())
        digest.update(text.encode())
        new = [function for function in functions if id(function) not in seen]
        seen.update(map(id, new))
        waiting += new
    return digest.hexdigest()


def describe_type(kind: Any) -> str:
    """The type of an argument; fields of named tuples are read by their positions, so their names are a part of it."""
    is_named = isinstance(kind, types.BaseNamedTuple)
    name = _name_of(kind.instance_class) + str(kind.fields) if is_named else ""
    return f"{kind} {name}({', '.join(map(describe_type, getattr(kind, 'types', ())))})"


def _describe_function(value: Any) -> tuple[str, list[Any]]:
    """One function as text, and the functions that it names."""
    function, options = _python_function(value)
    description = _Description()
    lines = [_name_of(function), options]
    lines += [f"{name} = {description.of(part)}" for name, part in _parts(function)]
    return "\n".join(lines), description.functions


def _python_function(value: Any) -> tuple[FunctionType, str]:
    if isinstance(value, Dispatcher):
        return value.py_func, _describe_options(value.targetoptions)
    if isinstance(value, _Intrinsic):
        return value._defn, f"{value._ctor_kwargs} {value._prefer_literal}"
    return value, ""


def _describe_options(options: dict[str, Any]) -> str:
    return str([(name, sorted(o) if isinstance(o, set) else o) for name, o in sorted(options.items())])


def _parts(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Everything that the compiler reads of a function: code, defaults, what it encloses, and globals."""
    yield "code", function.__code__
    yield "defaults", (function.__defaults__, function.__kwdefaults__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        yield name, cell.cell_contents
    for name in _names_in(function.__code__):
        if name in function.__globals__:
            yield from _global_parts(name, function)
    if function in _overloads:
        yield "overload", _overloads[function]


def _global_parts(name: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    """A global value; of a module that is not a library, all that the function may read of it."""
    value = function.__globals__[name]
    yield name, value
    if isinstance(value, ModuleType) and not _is_of_a_library(value.__name__):
        for attribute in _names_in(function.__code__):
            if attribute in vars(value):
                yield f"{name}.{attribute}", vars(value)[attribute]


def _names_in(code: CodeType) -> list[str]:
    """Names of globals and attributes; code inside of the code, such as a comprehension, has the same globals."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names_in(part)]
    return list(dict.fromkeys([*code.co_names, *inner]))


class _Description:
    """Values as text that is the same in every process, and the functions among them."""

    def __init__(self) -> None:
        self.functions: list[Any] = []

    def of(self, value: Any) -> str:
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            return f"{type(value)} {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        if isinstance(value, CodeType):
            return self._of_code(value)
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__}({', '.join(map(self.of, value))})"
        if isinstance(value, (set, frozenset)):
            return f"{type(value).__name__}({', '.join(sorted(map(self.of, value)))})"
        if isinstance(value, dict):
            return self.of(list(value.items()))
        return self._of_object(value)

    def _of_code(self, code: CodeType) -> str:
        """Without the docstring, the name of the file and the numbers of lines."""
        signature = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING
        names = code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars
        numbers = code.co_code.hex(), code.co_exceptiontable.hex()
        return f"{code.co_name} {signature} {names} {numbers} {self.of(_constants(code))}"

    def _of_object(self, value: Any) -> str:
        if isinstance(value, (Dispatcher, _Intrinsic, FunctionType)):
            if not _is_of_a_library(value.__module__):
                self.functions.append(value)
            return _name_of(value)
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, type):
            return self._of_class(value)
        if _is_of_a_library(type(value).__module__):
            text = _name_of(value) if hasattr(value, "__qualname__") else f"{type(value)} {value}"
            if " at 0x" not in text:
                return text
        raise TypeError(f"a kernel may not read {value!r}: its digest could not tell whether it has changed")

    def _of_class(self, value: type) -> str:
        if not _is_of_a_library(value.__module__) and not hasattr(value, "_fields"):
            raise TypeError(f"a kernel may not read {value!r}: of classes, its digest knows named tuples only")
        return f"{_name_of(value)} {getattr(value, '_fields', '')} {self.of(getattr(value, '_field_defaults', None))}"


def _constants(code: CodeType) -> tuple[Any, ...]:
    """All but the docstring, which is the first one; before Python 3.13 there is a None where a function has none."""
    if sys.version_info >= (3, 13):
        return code.co_consts[1:] if code.co_flags & _HAS_DOCSTRING else code.co_consts
    return code.co_consts if code.co_name in _COMPREHENSIONS else code.co_consts[1:]


def _is_of_a_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


def _name_of(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
