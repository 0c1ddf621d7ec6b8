"""Checkpoints: a training on disk, so that a run that was killed goes on as if nothing had happened.

The file holds all that the next step depends on: the trees, the scores they have given (with DART these are not the sum
of the trees to the last bit), the curves, and what early stopping remembers. Random draws depend on the seed and the
number of the tree alone. So the resumed run ends in the same bytes as one that never stopped.

It is a sealed container, wholly old or wholly new at every moment. What the run is stands in it as sentences, and a
training that differs in one of them refuses the file and says in which.
"""

from __future__ import annotations

import errno
import hashlib
import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from podium import __version__
from podium._files import COMPRESSIONS, refuse_bad_target, remove_left_over
from podium._threads import map_blocks
from podium._words import check_choice, counted
from podium.data import RankingData
from podium.formats.container import open_container, write_container
from podium.formats.kinds import CHECKPOINT
from podium.learners.trees.boosting import Boosting
from podium.learners.trees.forest import FOREST_ARRAYS, Forest, TreeArrays

ERRORS = ("stop", "go on")
_BLOCK = 4 << 20
_TOLD = 3  # differences named in a refusal


def _be_silent(sentence: str) -> None:
    return None


@dataclass(eq=False)
class Checkpoints:
    """Where and how often a training is kept, and what happens when that fails.

    A file that is already there is looked at now: what is no checkpoint, or a damaged one, is never written over.
    """

    path: Path
    every: int = 10  # steps
    errors: str = "stop"  # or "go on"
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
    def of(cls, checkpoint: Any, every: int, errors: str, say: Callable[[str], None] | None = None) -> Checkpoints:
        """A path and its options as one value; such a value stays as it is."""
        if isinstance(checkpoint, Checkpoints):
            return checkpoint
        return cls(Path(checkpoint), every, errors, say=say or _be_silent)

    def write(self, meta: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the file. Where that fails, the old one is still whole, and `errors` says what follows."""
        try:
            write_container(self.path, CHECKPOINT, meta, arrays)
        except OSError as error:
            reason = (error.strerror or str(error)).removesuffix("; nothing was changed")
            if self.errors == "stop":
                told = f"the checkpoint cannot be written ({reason}), and the training stops. {self._what_is_left()}"
                raise OSError(error.errno or errno.EIO, told, str(self.path)) from error
            self._warn(f"{self.path}: the checkpoint cannot be written ({reason}). {self._what_is_left()}")

    def read(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What the file holds, all of it checked; None where there is none."""
        with suppress(OSError):
            remove_left_over(self.path)
        if not self.path.exists():
            return None
        with open_container(self.path, CHECKPOINT) as container:
            return container.meta, container.read_all()

    def end(self) -> None:
        """The training came to its own end: the model is the result now."""
        self.ended = True
        if self.removed_at_end:
            self.remove()

    def remove(self) -> None:
        """Remove the file. A model that is ready is not lost because that fails."""
        try:
            self.path.unlink(missing_ok=True)
            remove_left_over(self.path)
        except OSError as error:
            if self.path.exists():
                reason = error.strerror or str(error)
                warnings.warn(f"{self.path}: could not be removed ({reason}).", UserWarning, stacklevel=2)

    def _what_is_left(self) -> str:
        return "The last one is still whole." if self.path.exists() else "There is no earlier one."

    def _warn(self, sentence: str) -> None:
        """Once: a disk that is full stays so for a while."""
        if not self._warned:
            warnings.warn(f"{sentence} The training goes on all the same.", UserWarning, stacklevel=2)
        self._warned = True


class Watch(Protocol):
    """What a training remembers beside its trees."""

    scores: list[np.ndarray]  # of the evaluation sets
    evals: dict[str, dict[str, list[float]]]
    best: int
    best_value: float
    best_trees: list[TreeArrays]

    def after(self, iteration: int, changes: list[TreeArrays]) -> bool: ...


class Keeper:
    """Writes what `boosting` and `watch` have come to, every few steps, and puts them back there."""

    def __init__(
        self, checkpoints: Checkpoints, boosting: Boosting, watch: Watch, n_trees: int, facts: dict[str, str]
    ) -> None:
        self.checkpoints, self.boosting, self.watch = checkpoints, boosting, watch
        self.n_trees = n_trees
        forest = boosting.forest()
        arrays = [getattr(forest, name) for name in FOREST_ARRAYS]
        start = checksum([*arrays, boosting.scores, *watch.scores], boosting.n_threads)
        self.facts = facts | {"what it starts from": f"{counted(forest.n_trees, 'tree')}, checksum {start}"}

    def after(self, iteration: int, changes: list[TreeArrays]) -> bool:
        """Let the watch look, then write; but not behind the last step, as the model follows at once."""
        stops = self.watch.after(iteration, changes)
        if not stops and iteration % self.checkpoints.every == 0 and iteration < self.n_trees:
            self.checkpoints.write(*self._parts())
        return stops

    def resume(self) -> None:
        """Go on from the file, if there is one and it is of this run."""
        path, found = self.checkpoints.path, self.checkpoints.read()
        if found is None:
            return
        meta, arrays = found
        try:
            differences = differing(self.facts, dict(meta["run"]))
            if not differences:
                self._restore(meta, arrays)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise CHECKPOINT.damaged(path, f"its content is not understood: {error}") from error
        if differences:
            more = f"; and {len(differences) - _TOLD} more" if len(differences) > _TOLD else ""
            told = "; ".join(differences[:_TOLD]) + more
            what = "Delete it to begin anew, or give another path."
            raise ValueError(f"{path}: is the checkpoint of another training ({told}). {what}")
        done = len(self.boosting.trees)
        self.checkpoints.say(f"{path}: {done:,} of {self.n_trees:,} trees are there; the training goes on from them.")

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        boosting, watch = self.boosting, self.watch
        forest = boosting.forest()
        arrays = {name: getattr(forest, name) for name in FOREST_ARRAYS}
        arrays |= {"scores": boosting.scores, "best_value": np.array([watch.best_value], np.float64)}
        if any(best is not tree for best, tree in zip(watch.best_trees, boosting.trees)):
            # DART has changed trees since the best step: their values, never their shape
            arrays["best_leaves"] = np.concatenate([tree.value for tree in watch.best_trees])
        for number, (scores, curves) in enumerate(zip(watch.scores, watch.evals.values())):
            arrays[f"eval_{number}/scores"] = scores
            arrays |= {f"eval_{number}/{name}": np.array(curve, np.float64) for name, curve in curves.items()}
        return {"run": self.facts, "best": int(watch.best), "best_trees": len(watch.best_trees)}, arrays

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        boosting, watch = self.boosting, self.watch
        own = {name: arrays[name] for name in FOREST_ARRAYS}
        forest = Forest(**own, start=boosting.start, n_features=boosting.X.shape[1])
        forest.check()
        boosting.restore(forest, _like(boosting.scores, arrays["scores"]))
        watch.best, watch.best_value = int(meta["best"]), float(arrays["best_value"][0])
        watch.best_trees = boosting.trees[: int(meta["best_trees"])]
        if "best_leaves" in arrays:
            watch.best_trees = _with_values(watch.best_trees, arrays["best_leaves"])
        for number, curves in enumerate(watch.evals.values()):
            watch.scores[number] = _like(watch.scores[number], arrays[f"eval_{number}/scores"])
            for name, curve in curves.items():
                curve[:] = arrays[f"eval_{number}/{name}"].tolist()


def describe_run(model: Any, data: RankingData, evals: Sequence[RankingData], patience: int | None) -> dict[str, str]:
    """What a training is, in words that can be compared: all that its trees depend on, so not the number of threads.

    Of a Python function its name and code are compared, not what it refers to.
    """
    parameters = {field.name: getattr(model, field.name) for field in fields(model)}
    return {
        "the model": type(model).__name__,
        **{name: _told(value) for name, value in parameters.items() if name not in ("n_jobs", "init")},
        "early_stopping_rounds": _told(patience),
        "the training data": _describe_data(data, model.n_jobs),
        "the number of evaluation sets": str(len(evals)),
        **{f"evaluation set {number}": _describe_data(part, model.n_jobs) for number, part in enumerate(evals)},
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
    weights = [np.empty(0) if given is None else given for given in (data.document_weight, data.query_weight)]
    names = np.frombuffer(repr(data.feature_names).encode(), np.uint8)
    total = checksum([data.X, data.y, data.offsets, *weights, names], n_jobs)
    sizes = f"{data.n_rows:,} rows of {data.n_queries:,} queries with {data.n_features:,} features"
    return f"{sizes}, checksum {total}"


def _told(value: Any) -> str:
    """A parameter in words that are the same in every process."""
    plain = value.item() if isinstance(value, np.generic) else value
    code = getattr(plain, "__code__", None)
    told = (
        repr(plain) if code is None else f"{plain!r}, code {zlib.crc32(code.co_code + repr(code.co_consts).encode())}"
    )
    return re.sub(r" at 0x[0-9a-fA-F]+", "", told)


def _like(own: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """A copy of stored scores that training can add to."""
    if stored.shape != own.shape or stored.dtype != own.dtype:
        raise ValueError(f"scores of shape {stored.shape} instead of {own.shape}")
    return stored.copy()


def _with_values(trees: Sequence[TreeArrays], values: np.ndarray) -> list[TreeArrays]:
    ends = np.cumsum([len(tree.value) for tree in trees])
    if len(values) != ends[-1]:
        raise ValueError("the best trees have other leaves")
    return [replace(tree, value=values[end - len(tree.value) : end]) for tree, end in zip(trees, ends.tolist())]
