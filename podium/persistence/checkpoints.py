"""Checkpoints: a training on disk, so that a run that was killed resumes as if nothing had happened.

The file is a sealed container, wholly old or wholly new at every moment. What the run is stands in it in words, and a
training that differs in one of them refuses the file and says in which. What else it holds is the state of the learner
and of the monitor.
"""

from __future__ import annotations

import errno
import hashlib
import json
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from podium import __version__
from podium._runtime.files import COMPRESSIONS, real_path, refuse_bad_target, remove_left_over
from podium._runtime.threads import map_blocks
from podium._runtime.warn import warn
from podium._runtime.words import check_choice, counted
from podium.data.given_pairs import GivenPairs
from podium.data.ranking import RankingData
from podium.data.sparse import arrays_of
from podium.formats.container import open_container, write_container
from podium.formats.kinds import CHECKPOINT
from podium.metrics.base import Metric
from podium.metrics.policies import Policy
from podium.models.frame.parameters import UNSAVED, is_auto
from podium.objectives.base import Objective
from podium.persistence.values import from_plain, to_plain

ERRORS = ("stop", "warn")
_BLOCK = 4 << 20
_SHOWN = 3  # differences named in a refusal
_DEEPEST = 5  # how far functions are followed into what they were made with


def _be_silent(sentence: str) -> None:
    return None


@dataclass(eq=False)
class Checkpoints:
    """Where and how often a training is kept, and what happens when that fails.

    A file that is already there is looked at now: what is no checkpoint, or a damaged one, is never written over.
    """

    path: Path
    every: int = 10  # steps
    errors: str = "stop"  # or "warn"
    removed_at_end: bool = True  # otherwise by who calls `remove`, once the model is safe
    say: Callable[[str], None] = _be_silent
    ended: bool = False  # the training came to its own end
    _warned: bool = False

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        steps: Any = self.every
        if not isinstance(steps, (int, np.integer)) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"every must be a whole number of steps from 1; got {self.every!r}.")
        check_choice("checkpoint_errors", self.errors, ERRORS)
        if self.path.name.lower().endswith(COMPRESSIONS):
            raise ValueError(f"{self.path}: a checkpoint cannot be compressed; drop the suffix.")
        try:
            refuse_bad_target(self.path)
        except (PermissionError, FileNotFoundError) as error:
            if self.errors == "stop":
                raise
            self._warn(str(error))
        if self.path.exists():
            with open_container(self.path, CHECKPOINT):  # its header is checked
                pass

    @classmethod
    def of(cls, checkpoint: Any, every: int, errors: str, say: Callable[[str], None] | None) -> Checkpoints | None:
        """A path and its options as one value; such a value, and None, stay as they are."""
        if checkpoint is None or isinstance(checkpoint, Checkpoints):
            return checkpoint
        return cls(Path(checkpoint), every, errors, say=say or _be_silent)

    def write(self, meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the file. Where that fails, the old one is still whole, and `errors` says what follows."""
        try:
            write_container(self.path, CHECKPOINT, meta, arrays)
        except OSError as error:
            reason = (error.strerror or str(error)).removesuffix("; nothing was changed")
            problem = f"the checkpoint cannot be written ({reason})"
            left = "The last one is still whole." if self.path.exists() else "There is no earlier one."
            if self.errors == "stop":
                described = f"{problem}, and the training stops. {left}"
                raise OSError(error.errno or errno.EIO, described, str(self.path)) from error
            self._warn(f"{self.path}: {problem}. {left}")

    def read(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What the file holds, all of it checked; None where there is none."""
        with suppress(OSError):
            remove_left_over(self.path)
        if not self.path.exists():
            return None
        with open_container(self.path, CHECKPOINT) as container:
            run = container.meta.get("run")
            if not isinstance(run, dict) or not all(isinstance(text, str) for text in run.values()):
                raise CHECKPOINT.damaged(self.path, "it does not say which training it is of")
            return container.meta, container.read_all()

    def refuse_other_run(self, here: Mapping[str, str], there: Mapping[str, str]) -> None:
        """Compare what the training is with what stands in the file."""
        differences = differing(here, there)
        if differences:
            more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
            described, advice = "; ".join(differences[:_SHOWN] + more), "Delete it to begin anew, or give another path."
            raise ValueError(f"{self.path}: is the checkpoint of another training ({described}). {advice}")

    def end(self) -> None:
        """The training came to its own end: the model is the result now."""
        self.ended = True
        if self.removed_at_end:
            self.remove()

    def remove(self) -> None:
        """Remove the file. A model that is ready is not lost because that fails."""
        try:
            real_path(self.path).unlink(missing_ok=True)  # a link to it stays
            remove_left_over(self.path)
        except OSError as error:
            if self.path.exists():
                warn(f"{self.path}: could not be removed ({error.strerror or error}).")

    def _warn(self, sentence: str) -> None:
        """Once: a disk that is full stays so for a while."""
        if not self._warned:
            warn(f"{sentence} The training continues.")
        self._warned = True


def describe_run(
    model: Any,
    data: RankingData,
    eval_sets: Sequence[RankingData],
    early_stopping_rounds: int | None,
    pairs: GivenPairs | None = None,
) -> dict[str, str]:
    """What a training is, in words that can be compared: all that its trees depend on, so not the number of threads."""
    words = _describe_data(data, model.n_jobs), [_describe_data(part, model.n_jobs) for part in eval_sets]
    return describe_training(model, *words, early_stopping_rounds, pairs)


def describe_training(
    model: Any,
    data: str,
    eval_sets: Sequence[str],
    early_stopping_rounds: int | None,
    pairs: GivenPairs | None = None,
) -> dict[str, str]:
    """The same of data that are in words already.

    Of Python functions, and of metrics and objectives of the user's own, the code and the numbers, names, arrays and
    functions they hold are compared; not the globals they refer to.
    """
    names = [field.name for field in fields(model) if field.name not in UNSAVED | {"init"}]
    return {
        "the model": type(model).__name__,
        **{name: _describe_parameter(model, name) for name in names},
        "early_stopping_rounds": _describe(early_stopping_rounds),
        "the training data": data,
        **({} if pairs is None else {"the list of given pairs": _describe_pairs(pairs, model.n_jobs)}),
        "the number of evaluation sets": str(len(eval_sets)),
        **{f"evaluation set {number}": words for number, words in enumerate(eval_sets)},
        "the version of Podium": __version__,
    }


def differing(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """`["learning_rate is 0.05 here and 0.1 there"]`"""
    nothing = "not known"
    return [
        f"{name} is {here.get(name, nothing)} here and {there.get(name, nothing)} there"
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]


def checksum(arrays: Sequence[np.ndarray], n_jobs: int | None = None) -> str:
    """A fast one: CRC-32 of blocks, on threads (zlib works without the interpreter lock), and a digest of those."""
    digest = hashlib.blake2b(digest_size=8)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        sums = np.zeros(-(-len(flat) // _BLOCK), dtype="<u4")

        def work(block: int, flat: np.ndarray = flat, sums: np.ndarray = sums) -> None:
            sums[block] = zlib.crc32(flat[block * _BLOCK : (block + 1) * _BLOCK].data)

        map_blocks(work, len(sums), n_jobs)
        digest.update(f"{array.dtype.str} {array.shape} ".encode() + sums.tobytes())
    return digest.hexdigest()


def _describe_data(data: RankingData, n_jobs: int | None) -> str:
    weights = [np.empty(0) if weight is None else weight for weight in (data.sample_weight, data.query_weight)]
    columns = repr(data.feature_names) + ("" if not data.categories else repr(data.categories))
    names = np.frombuffer(columns.encode(), np.uint8)
    labels = [] if data.y is None else [data.y]  # pairs take their place
    starts = [] if data.init_score is None else [data.init_score]
    total = checksum([*arrays_of(data.X), *labels, data.offsets, *weights, names, *starts], n_jobs)
    return f"{data.sizes}, checksum {total}"


def _describe_pairs(pairs: GivenPairs, n_jobs: int | None) -> str:
    arrays = [pairs.first, pairs.second, pairs.target, pairs.weight, pairs.starts]
    return f"{counted(len(pairs), 'pair')}, checksum {checksum(arrays, n_jobs)}"


def _describe_parameter(model: Any, name: str) -> str:
    """A parameter; where the training data decide it, with what they decided: `"'auto', which is 31"`."""
    value, resolved = getattr(model, name, None), getattr(model, "resolved_params_", {})
    return _describe(value) + (f", which is {resolved[name]}" if name in resolved and is_auto(value) else "")


def _describe(value: Any) -> str:
    """A parameter in words that are the same in every process, and others for every other value.

    Of metrics, objectives and policies that is all there is in them, of the user's own also the code of their class.
    """
    try:
        plain = to_plain(value)
    except ValueError:
        return _describe_code(value)
    simple = not isinstance(plain, dict) or plain["type"] in ("tuple", "mapping", "range")
    if isinstance(plain, list) and any(isinstance(item, dict) for item in plain):
        simple = False  # a list of models: what scikit-learn prints of them is not all
    return repr(from_plain(plain)) if simple else json.dumps(plain, sort_keys=True)


def _describe_code(value: Any, depth: int = 0) -> str:
    """A function by its name, its code and what it was made with; another object by its class and what it holds.

    Lists, mappings and the like are left out: they are where functions count their calls.
    """
    if isinstance(value, np.ndarray):
        return f"an array, checksum {checksum([value])}"
    if isinstance(value, tuple):
        return f"({', '.join(_describe_held(value, depth))})"
    if isinstance(value, partial):
        held = [value.func, *value.args, *sorted(value.keywords.items())]
        return f"partial({', '.join(_describe_held(held, depth))})"
    function = getattr(value, "__func__", value)  # of a method
    if hasattr(function, "__code__"):
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        named = sorted((function.__kwdefaults__ or {}).items())
        held = [*cells, *(function.__defaults__ or ()), *named, *filter(None, [getattr(value, "__self__", None)])]
        return f"{function.__qualname__}, {_describe_crc([function])}({', '.join(_describe_held(held, depth))})"
    kind = type(value)
    classes = [one for one in kind.__mro__ if one.__module__.split(".")[0] not in ("podium", "builtins")]
    methods = [part for one in classes for _, part in sorted(vars(one).items()) if hasattr(part, "__code__")]
    held = sorted(getattr(value, "__dict__", {}).items())
    name = getattr(value, "__name__", kind.__qualname__)  # a built-in function has no code to show
    return f"{name}, {_describe_crc(methods)}({', '.join(_describe_held(held, depth))})"


def _describe_held(parts: Sequence[Any], depth: int) -> list[str]:
    """What a function or object was made with, as far as it cannot change by itself."""
    described = []
    for part in parts:
        if isinstance(part, (str, bytes, bool, int, float, complex, np.generic, Metric, Objective, Policy)):
            described.append(_describe(part) if not isinstance(part, (bytes, complex)) else repr(part))
        elif depth < _DEEPEST and (callable(part) or isinstance(part, (tuple, np.ndarray))):
            described.append(_describe_code(part, depth + 1))
    return described


def _describe_crc(functions: Sequence[Any]) -> str:
    return f"code {zlib.crc32(''.join(_code_facts(function.__code__) for function in functions).encode())}"


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a function that is still being defined
        return False


def _code_facts(code: types.CodeType) -> str:
    """Instructions, names and constants, also of the functions inside; not the file and its lines."""
    constants = [_code_facts(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code!r} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"
