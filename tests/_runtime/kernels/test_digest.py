"""Kernels are compiled anew when an edit can change their code, and only then: real edits of real files."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

INNER = '''"""Parts of kernels."""
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from podium._runtime.compiler import inlined_kernel, kernel, overload

FACTOR = 3
TABLE = np.array([1.0, 10.0])
UNUSED = 1


class Pair(NamedTuple):
    first: int
    second: int


@inlined_kernel
def inlined(x):
    """Multiplied."""
    return FACTOR * x  # by the factor


@kernel
def called(x):
    return TABLE[0] + TABLE[1] * x


def chosen(x):
    return x + 5


@overload(chosen)
def _chosen(x):
    return lambda x: x + 5


def _added(builder, value, number):
    return builder.add(value, value.type(number))


def _special(typing, x):
    return types.int64(types.int64), lambda context, builder, signature, arguments: _added(builder, arguments[0], 7)


special = intrinsic(_special)
'''

OUTER = """from parts import inner
from parts.inner import called, chosen, special
from podium._runtime.compiler import kernel


@kernel
def by_inlining(x):
    return inner.inlined(x)


@kernel
def by_calling(x):
    return called(x)


@kernel
def by_choosing(x):
    return chosen(x)


@kernel
def by_intrinsic(x):
    return special(x)


@kernel
def by_field(pair):
    return pair.first


@kernel
def alone(x):
    return x + 1
"""

# Every kernel that Python calls, with its result; `compiled` are those that did not come from the cache.
CALLS = """
import json
from parts import inner, outer
arguments = {"by_field": (inner.Pair(2, 9),)}
results, compiled = {}, []
for name in ("by_inlining", "by_calling", "by_choosing", "by_intrinsic", "by_field", "alone"):
    kernel = getattr(outer, name)
    results[name] = kernel(*arguments.get(name, (2,)))
    compiled += [name] * sum(kernel.stats.cache_misses.values())
print(json.dumps([results, compiled]))
"""
BEFORE = {"by_inlining": 6, "by_calling": 21.0, "by_choosing": 7, "by_intrinsic": 9, "by_field": 2, "alone": 3}


def call_all(folder: Path) -> tuple[dict[str, float], list[str]]:
    done = subprocess.run(
        [sys.executable, "-B", "-c", CALLS],
        cwd=folder,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "kept")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    results, compiled = json.loads(done.stdout)
    return results, compiled


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The two modules and the cache of all their kernels."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "inner.py").write_text(INNER)
    (folder / "parts" / "outer.py").write_text(OUTER)
    assert call_all(folder) == (BEFORE, list(BEFORE))
    return folder


# what is edited -> module, text, new text, and the results that change
EDITS = {
    "nothing": ("inner", "", "", {}),
    "a comment": ("inner", "  # by the factor", "  # by three", {}),
    "a docstring": ("inner", '"""Multiplied."""', '"""The product,\n\n    at length."""', {}),
    "the docstring of the module": ("inner", '"""Parts of kernels."""', '"""Some parts."""\n\n\n# and a comment', {}),
    "formatting": (
        "outer",
        "return inner.inlined(x)",
        "return (\n        inner.inlined(\n            x,\n        )\n    )",
        {},
    ),
    "a comment above the kernels": ("outer", "@kernel\ndef by_inlining", "# one\n@kernel\ndef by_inlining", {}),
    "a value that no kernel reads": ("inner", "UNUSED = 1", "UNUSED = 2", {}),
    "code of a kernel": ("outer", "return x + 1", "return x + 4", {"alone": 2 + 4}),
    "an inlined function of another module": ("inner", "FACTOR * x", "FACTOR * x + 1", {"by_inlining": 3 * 2 + 1}),
    "a number that an inlined function reads": ("inner", "FACTOR = 3", "FACTOR = 4", {"by_inlining": 4 * 2}),
    "a function that is called": ("inner", "+ TABLE[1] * x", "- TABLE[1] * x", {"by_calling": 1.0 - 10.0 * 2}),
    "an array": ("inner", "[1.0, 10.0]", "[1.0, 20.0]", {"by_calling": 1.0 + 20.0 * 2}),
    "the code that types choose": ("inner", "lambda x: x + 5", "lambda x: x + 6", {"by_choosing": 2 + 6}),
    "a number in an intrinsic": ("inner", "arguments[0], 7)", "arguments[0], 8)", {"by_intrinsic": 2 + 8}),
    "a helper of an intrinsic": ("inner", "builder.add(", "builder.sub(", {"by_intrinsic": 2 - 7}),
    "the order of fields": ("inner", "first: int\n    second: int", "second: int\n    first: int", {"by_field": 9}),
}
SAME_RESULTS = {
    "options of a kernel": ("inner", "@inlined_kernel\n", "@kernel\n", ["by_inlining"]),
    "the source that choice is described by": (
        "inner",
        "    return lambda x: x + 5",
        "    return lambda x: 5 + x",
        ["by_choosing"],
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_after_an_edit_those_kernels_are_compiled_anew_whose_code_changes(compiled, tmp_path, edit):
    module, old, new, changes = EDITS[edit]
    assert call_after(compiled, tmp_path, module, old, new) == (BEFORE | changes, list(changes))


@pytest.mark.parametrize("edit", SAME_RESULTS)
def test_other_code_with_the_same_results_is_compiled_anew_too(compiled, tmp_path, edit):
    module, old, new, names = SAME_RESULTS[edit]
    assert call_after(compiled, tmp_path, module, old, new) == (BEFORE, names)


def call_after(compiled, tmp_path, module, old, new):
    folder = shutil.copytree(compiled, tmp_path / "copy")
    path = folder / "parts" / f"{module}.py"
    source = path.read_text()
    assert old in source
    path.write_text(source.replace(old, new, 1) if old else source)
    return call_all(folder)


ALL_DIGESTS = """
import gc, importlib, json, pkgutil
import podium
for module in pkgutil.walk_packages(podium.__path__, "podium."):
    if module.name != "podium.__main__":
        importlib.import_module(module.name)
from numba.core.dispatcher import Dispatcher
from podium._runtime.kernels.digest import digest_of
kernels = [x for x in gc.get_objects() if isinstance(x, Dispatcher) and x.py_func.__module__.startswith("podium.")]
print(json.dumps({f"{x.py_func.__module__}.{x.py_func.__qualname__}": digest_of(x) for x in kernels}))
"""


def test_every_kernel_has_a_digest_which_is_the_same_in_every_process():
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", ALL_DIGESTS],
                env=os.environ | {"PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
                timeout=120,
            ).stdout
        )
        for seed in ("1", "2")
    )
    assert first == second
    assert len(set(first.values())) == len(first) > 300


def test_a_value_that_cannot_be_described_is_an_error(tmp_path):
    code = (
        "from podium._runtime.compiler import kernel\n"
        "class Settings: size = 3\n"
        "settings = Settings()\n"
        "@kernel\n"
        "def size(x): return settings.size\n"
        "try: size(1)\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "a kernel may not read <__main__.Settings object" in done.stdout
