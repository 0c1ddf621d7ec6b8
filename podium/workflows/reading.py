"""Files of data on their way to a model: read with a progress bar, and brought to the columns that are expected.

`locate` finds the file that a path stands for: the command line copies what comes through a pipe, and messages keep the
user's names. A `Reading` is one that also says how files of data are read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.files import refuse_bad_target, refuse_own_input
from podium._runtime.progress import progress
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.categories import Categories
from podium.data.columns import SAME_COLUMNS, are_positions, first_difference
from podium.data.ranking import RankingData
from podium.data.sparse import as_dense
from podium.formats import Format, format_of, formats, read_data
from podium.persistence.storage import refuse_bad_model_path

if TYPE_CHECKING:
    from podium.models.frame.ranker import Ranker

Locate = Callable[[Path], Path]


def itself(path: Path) -> Path:
    """A path that is the name of its file."""
    return path


@dataclass(frozen=True)
class Reading:
    """How files of data are read: where they are, and further arguments of `read_data` for all of them."""

    locate: Locate = itself
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, path: Path) -> Path:
        return self.locate(path)

    def options_for(self, path: Path, kind: Format) -> dict[str, Any]:
        """Arguments for a file of this format; one that it does not take is refused."""
        for name in self.options:
            if name not in (*kind.options, "names"):
                takers = ", ".join(one.name for one in formats() if name in one.options)
                option = OPTIONS.get(name, f"--{name}")
                raise ValueError(f"{option} is for files of format {takers}; {path} is of format {kind.name}.")
        return dict(self.options)


OPTIONS = {"zero_based": "--zero-based or --one-based"}


def read_file(path: Path, locate: Locate = itself, expected: Collection[str] = (), **options: Any) -> RankingData:
    """Read ranking data with a progress bar; `options` are those of `read_data`.

    expected: columns that hold categories where a model, or other data, is from; a file of a format that knows none of
    its types is read so.
    """
    file = locate(path)
    kind = format_of(file, options.get("format"))
    chosen = locate.options_for(path, kind) if isinstance(locate, Reading) else {}
    if expected and "categorical" in kind.options:
        chosen["categorical"] = list(dict.fromkeys((*chosen.get("categorical", ()), *expected)))
    with progress(f"reading {path.name}") as report:
        return read_data(file, progress=report, **chosen, **options)


def read_files(paths: Sequence[Path], locate: Locate = itself, **options: Any) -> RankingData:
    """Read files as one data set, rows in their order; a query must be in one of them.

    Sparse text leaves out what is 0, so a file may lack the last features of another.
    """
    parts = [read_file(path, locate, **options) for path in paths]
    if len(parts) == 1:
        return parts[0]
    widest = max(range(len(parts)), key=lambda number: parts[number].n_features)
    columns = replace(Columns.of_data(parts[widest], paths[widest]), categories=None)
    alike = [columns.give(part, path) for part, path in zip(parts, paths)]
    return RankingData.concat(alike, names=list(map(str, paths)))


def open_model(path: Path, locate: Locate = itself) -> Ranker:
    """The model of a file; a cascade and an index are folders that hold some."""
    from podium.models.frame.ranker import Ranker
    from podium.persistence.saving import load

    if path.is_dir():
        inside = next((file for file in sorted(path.glob("stage-*.podium"))), None)
        search = f'podium search {path} "some words" searches it'
        if inside is not None:
            raise IsADirectoryError(f"{path} is a cascade; expected the file of a model, such as {inside}. {search}.")
        if (path / "index.podium").is_file():
            raise IsADirectoryError(f"{path} is an index; expected the file of a model. {search}.")
        raise IsADirectoryError(f"{path} is a folder; expected the file of a model, which podium train makes.")
    ranker = load(locate(path))
    assert isinstance(ranker, Ranker)  # a file holds nothing else
    return ranker


def read_with_model(model: Path, data: Path, locate: Locate) -> tuple[Ranker, RankingData]:
    ranker = open_model(model, locate)
    columns = Columns.of_model(ranker, model)
    return ranker, columns.give(read_file(data, locate, columns.categories or (), labels="optional"), data)


def refuse_bad_out(out: Path, inputs: Sequence[Path], *, model: bool = False) -> None:
    """Refuse, before the work, outputs that cannot be written or would replace an input."""
    if model:
        refuse_bad_model_path(out)
    else:
        refuse_bad_target(out)
    refuse_own_input("--out", [out], inputs)


def warn_if_trained_on(valid: RankingData, path: Path, train: RankingData, train_file: Path) -> None:
    """Warn of validation data whose queries are all training queries, with the same rows and labels."""
    if valid.n_features != train.n_features or not valid.n_queries:
        return
    known = set(_fingerprints(train))
    if all(fingerprint in known for fingerprint in _fingerprints(valid)):
        what = f"{path}: every query in it is in {train_file} too, with the same documents and labels"
        warn(f"{what}. Its values say nothing about new queries; give other queries to --valid.")


def _fingerprints(data: RankingData) -> Iterator[tuple[int, int]]:
    """Of each query, whatever it is called: checksums of its features and its labels."""
    labels = np.zeros(data.n_rows) if data.y is None else data.y
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        rows = data.rows[start:end]
        X = np.ascontiguousarray(as_dense(data.X[rows]))
        yield zlib.crc32(X.tobytes()), zlib.crc32(np.ascontiguousarray(labels[rows], np.float64).tobytes())


@dataclass(frozen=True)
class Columns:
    """The features that data should have: those of a model, or of the data it is trained on."""

    whose: str
    number: int
    names: tuple[str, ...] | None
    trained: bool  # whether it is too late to have more
    categories: Categories | None = field(default_factory=dict)  # None: those that the data has

    @classmethod
    def of_model(cls, model: Ranker, path: Path | str) -> Columns:
        names = getattr(model, "feature_names_in_", None)
        names = None if names is None else tuple(names)
        return cls(f"the model {path}", model.n_features_in_, names, True, model.categories_)

    @classmethod
    def of_data(cls, data: RankingData, path: Path) -> Columns:
        return cls(str(path), data.n_features, data.feature_names, False, data.categories or {})

    def give(self, data: RankingData, path: Path) -> RankingData:
        """The data with these features.

        Sparse text leaves out what is 0, so it may lack the last ones. Named ones must be the same in the same order;
        a file without names is taken by position, with a warning. Categories get the numbers that they have here.
        """
        difference = first_difference(data.feature_names or (), self.names or (), self.whose)
        if difference:
            raise ValueError(f"{path}: {difference}. {SAME_COLUMNS}")
        if self.names is not None and data.feature_names is None and not are_positions(self.names):
            warn(f"{path} has no feature names; its columns are taken for those of {self.whose} by position.")
        data = self._widened(data, path)
        if self.categories is not None:
            X = data.features_in(self.categories, str(path), self.whose)
            data = data if X is data.X else replace(data, X=X, categories=self.categories)
        if self.names is None or data.feature_names is not None:
            return data
        return replace(data, feature_names=self.names)

    def _widened(self, data: RankingData, path: Path) -> RankingData:
        if data.n_features == self.number:
            return data
        sizes = f"{path} has {counted(data.n_features, 'feature')}, {self.whose} {self.number:,}"
        if data.feature_names is not None:
            raise ValueError(f"{sizes}. {SAME_COLUMNS}")
        if data.n_features > self.number:
            raise ValueError(f"{sizes}. {self._advice(data.n_features)}")
        warn(f"{sizes}; the last {self.number - data.n_features:,} count as 0.")
        X = np.zeros((data.n_rows, self.number), dtype=np.float32)
        X[:, : data.n_features] = data.X
        return replace(data, X=X)

    def _advice(self, number: int) -> str:
        if self.trained:
            return "Give data with the features of the model, or train it again on data that has all of these."
        return f'If the last ones are 0 in all of {self.whose}, name the last one there: add "{number}:0" to a line.'
