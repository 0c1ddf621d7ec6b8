"""Folds: what a model is trained on, what its settings are chosen on, and what it is tested on.

    rotation   five parts S1 to S5; fold i trains on S_i, S_i+1 and S_i+2, validates on S_i+3 and is tested on S_i+4
    k-fold     queries dealt out to k parts by a seed; fold i is tested on part i and validates on the next one
    given      train, valid and test are files

No query is in two parts of a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from podium._runtime.words import check_choice
from podium.data.ranking import RankingData
from podium.data.sparse import is_sparse
from podium.formats import read_data

_HELD_OUT = 5  # without a validation file, every fifth query of the training part


@dataclass(frozen=True)
class Fold:
    """The parts of one fold; `test` is None where nobody may see it."""

    name: str
    train: RankingData
    valid: RankingData
    test: RankingData | None

    def __post_init__(self) -> None:
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        owner: dict[str, str] = {}
        for part, data in parts.items():
            for query in () if data is None else map(str, data.query_ids):
                if query in owner:
                    raise ValueError(
                        f"fold {self.name}: query {query} is in {owner[query]} and in {part}; a query must be in one "
                        "part only. Give files that share no query id."
                    )
                owner[query] = part


@dataclass(frozen=True)
class FoldFiles:
    """One fold as files; several of a part are read one behind the other."""

    name: str
    train: tuple[Path, ...]
    valid: tuple[Path, ...]
    test: tuple[Path, ...]

    def files_read(self, *, test: bool = True) -> tuple[Path, ...]:
        return (*self.train, *self.valid, *self.test) if test else (*self.train, *self.valid)


@dataclass(frozen=True)
class GivenFolds:
    """Folds that files define. Without validation files, every fifth query of the training part, drawn by the seed."""

    folds: tuple[FoldFiles, ...]
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(fold.name for fold in self.folds)

    def files_read(self, *, test: bool = True) -> tuple[Path, ...]:
        """All files that folds are loaded from; without `test`, those of test parts only where others need them."""
        return tuple(dict.fromkeys(path for fold in self.folds for path in fold.files_read(test=test)))

    @property
    def turns(self) -> bool:
        """Whether the validation part of a fold is a test part of another one."""
        tested = {path for fold in self.folds for path in fold.test}
        return any(path in tested for fold in self.folds for path in fold.valid)

    def load(self, name: str, *, test: bool = True) -> Fold:
        """The fold of this name; without `test`, its test part is not read."""
        check_choice("fold", name, self.names)
        files = self.folds[self.names.index(name)]
        read = _read_alike(files.files_read(test=test))
        train = RankingData.concat([read[path] for path in files.train])
        tested = RankingData.concat([read[path] for path in files.test]) if test else None
        if files.valid:
            return Fold(name, train, RankingData.concat([read[path] for path in files.valid]), tested)
        parts = deal_queries(train.n_queries, min(_HELD_OUT, train.n_queries), self.seed)
        return Fold(name, train.subset(parts != 0), train.subset(parts == 0), tested)


@dataclass(frozen=True)
class QueryFolds:
    """k folds over the queries of all files."""

    paths: tuple[Path, ...]
    k: int = 5
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(number + 1) for number in range(self.k))

    @property
    def turns(self) -> bool:
        """The validation part of a fold is the test part of the next one."""
        return True

    def files_read(self, *, test: bool = True) -> tuple[Path, ...]:
        """All files: each has queries of every part."""
        return self.paths

    def load(self, name: str, *, test: bool = True) -> Fold:
        """The fold of this name; without `test`, its test part is left out."""
        check_choice("fold", name, self.names)
        read = _read_alike(self.paths)
        data = RankingData.concat([read[path] for path in self.paths])
        if not 3 <= self.k <= data.n_queries:
            raise ValueError(
                f"folds.k must be from 3 (train, valid, test) to the number of queries, {data.n_queries}; got {self.k}."
            )
        parts, number = deal_queries(data.n_queries, self.k, self.seed), int(name) - 1
        tested, valid = parts == number, parts == (number + 1) % self.k
        left = data.subset(tested) if test else None
        return Fold(name, data.subset(~tested & ~valid), data.subset(valid), left)


Folds = GivenFolds | QueryFolds


def rotation(parts: Sequence[Path], seed: int = 0) -> GivenFolds:
    """The official folds of LETOR over S1 to S5."""
    n = len(parts)
    if n < 3:
        raise ValueError(f"a rotation needs at least 3 parts, LETOR has 5; got {n}.")
    turned = ([Path(parts[(fold + shift) % n]) for shift in range(n)] for fold in range(n))
    folds = (
        FoldFiles(str(number), tuple(order[:-2]), (order[-2],), (order[-1],))
        for number, order in enumerate(turned, start=1)
    )
    return GivenFolds(tuple(folds), seed)


def deal_queries(n_queries: int, k: int, seed: int) -> np.ndarray:
    """(queries,) int64: the part of each query; sizes differ by at most one."""
    return np.random.default_rng(seed).permutation(np.arange(n_queries) % k)


def _read_alike(paths: Iterable[Path]) -> dict[Path, RankingData]:
    """The files, each as wide as the widest: sparse text leaves out features that are 0 in all of a file."""
    read = {path: read_data(path) for path in dict.fromkeys(paths)}
    width = max(data.n_features for data in read.values())
    return {path: _widened(data, width) for path, data in read.items()}


def _widened(data: RankingData, width: int) -> RankingData:
    if data.n_features == width or is_sparse(data.X) or data.feature_names is not None:
        return data  # what cannot be widened is refused where parts are joined or scored
    X = np.zeros((data.n_rows, width), dtype=np.float32)
    X[:, : data.n_features] = data.X
    return replace(data, X=X)
