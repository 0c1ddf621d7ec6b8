"""Versions: a model, a cascade or an index as it is served: loaded, identified by its digest, and warm.

A version never changes. What is served under a name is replaced as a whole (`registry.py`).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from podium.formats.kinds import CASCADE_FILE
from podium.models.frame.ranker import Ranker
from podium.models.frame.scoring import Scorer
from podium.persistence.saving import load
from podium.pipelines.cascades.cascade import Cascade
from podium.search.index.manifest import NAME as MANIFEST
from podium.search.reading import Index, open_index
from podium.server.errors import Refusal

_WARM_ROWS = (1, 2, 16, 100, 1000)  # each way through a forest, and what it compiles
_WARM_QUERIES = ("a", "the best of all", '"two words" +more -less')


@dataclass(frozen=True, eq=False)
class Version:
    """What is served: `model` scores rows, `searcher` answers queries; a cascade has both, an index no model."""

    label: str
    path: Path
    digest: str  # sha256 of the file, or of the files of a folder but for the index, which has a generation
    model: Ranker | None = None
    searcher: Cascade | Index | None = None
    generation: int | None = None
    names: tuple[str, ...] = ()  # of the model's features
    categories: Mapping[int, Mapping[Any, float]] = field(default_factory=dict)  # numbers of names, by column
    seconds_per_row: float = 0.0
    seconds_per_search: float = 0.0
    _scorer: Scorer | None = None

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def kind(self) -> str:
        kinds = {Cascade: "cascade", Index: "index"}
        return "model" if self.searcher is None else kinds[type(self.searcher)]

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """One float64 score per document of one query, with the bits of `predict`."""
        assert self.model is not None
        assert self._scorer is not None
        if rows.shape[1] != self.n_features:
            message = f"features: expected {self.n_features:,} per document; got {rows.shape[1]:,}."
            raise Refusal(400, message, "features", f"{self.n_features:,} numbers per document")
        try:
            self.model.refuse_unsupported(rows, "the features", fitted=True)
            return self._scorer.exact(rows)
        except ValueError as error:
            raise Refusal(400, f"features: {error}", "features", "rows that the model can score") from None

    def about(self) -> dict[str, Any]:
        """What the service says of it."""
        about: dict[str, Any] = {"version": self.label, "kind": self.kind, "sha256": self.digest}
        if self.model is not None:
            about |= {"model": type(self.model).__name__, "features": list(self.names)}
            about["microseconds_per_document"] = round(1e6 * self.seconds_per_row, 3)
        if self.searcher is not None:
            index = self.searcher.index if isinstance(self.searcher, Cascade) else self.searcher
            about |= {"generation": self.generation, "documents": len(index)}
            about["microseconds_per_search"] = round(1e6 * self.seconds_per_search, 1)
        return about


def load_version(path: Path, label: str | None = None) -> Version:
    """Load a model file, the folder of a cascade or an index, and warm it: nothing is left to be compiled."""
    label = path.stem if label is None else label
    digest = digest_of(path)
    if not path.is_dir():
        version = _of_model(path, label, digest, load(path))
        if digest_of(path) != digest:
            raise ValueError(f"{path} has changed while it was read. Give each version a file of its own.")
        return version
    if not (path / CASCADE_FILE).exists():
        index = open_index(path)
        return _warm_searcher(Version(label, path, digest, searcher=index, generation=index.manifest.generation))
    cascade: Cascade = load(path)
    model = cascade.stages[-1].model
    generation = cascade.index.manifest.generation
    if model is None:
        return _warm_searcher(Version(label, path, digest, searcher=cascade, generation=generation))
    scored = _of_model(path, label, digest, model, cascade.stages[-1].features.names)
    facts = scored.__dict__ | {"searcher": cascade, "generation": generation}
    return _warm_searcher(Version(**facts))


def digest_of(path: Path) -> str:
    """sha256 of a file; of a folder, of the files that stand in it, with their names. The manifest has the index's."""
    digest = hashlib.sha256()
    if not path.is_dir():
        _add_file(digest, path)
        return digest.hexdigest()
    cascade = (path / CASCADE_FILE).exists()
    files = sorted(item for item in path.iterdir() if item.is_file()) if cascade else []
    for file in [*files, (path / "index" if cascade else path) / MANIFEST]:
        digest.update(f"{file.name} ".encode())
        _add_file(digest, file)
    return digest.hexdigest()


def _add_file(digest: Any, path: Path) -> None:
    try:
        with open(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    except FileNotFoundError:
        message = f"{path}: there is no such file. Give a model, or a folder of podium index or podium cascade."
        raise FileNotFoundError(message) from None


def _of_model(path: Path, label: str, digest: str, model: Any, names: Sequence[str] | None = None) -> Version:
    if not isinstance(model, Ranker):
        raise ValueError(f"{path} holds {type(model).__name__}, which scores no rows.")
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    listed = tuple(map(str, names if names is not None else range(model.n_features_in_)))
    numbers = {
        listed.index(column): {name: float(number) for number, name in enumerate(known)}
        for column, known in model.categories_.items()
    }
    scorer = model.scorer()
    seconds = _warm_scorer(scorer, model)
    return Version(
        label, path, digest, model, names=listed, categories=numbers, seconds_per_row=seconds, _scorer=scorer
    )


def _warm_scorer(scorer: Scorer, model: Ranker) -> float:
    """Score rows of several numbers, twice; the seconds per row of a hundred."""
    random = np.random.default_rng(0)
    seconds = 0.0
    for n_rows in _WARM_ROWS:
        rows = random.random((n_rows, model.n_features_in_), np.float32)
        scorer.exact(rows)
        started = time.perf_counter()
        scorer.exact(rows)
        if n_rows == 100:
            seconds = (time.perf_counter() - started) / n_rows
    return seconds


def _warm_searcher(version: Version) -> Version:
    """Search, also for terms that are in the index: the second time is what a search takes."""
    searcher = version.searcher
    assert searcher is not None
    for query in _WARM_QUERIES:
        searcher.search(query, 10)
    started = time.perf_counter()
    searcher.search(_WARM_QUERIES[1], 10)
    return Version(**version.__dict__ | {"seconds_per_search": time.perf_counter() - started})
