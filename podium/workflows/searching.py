"""Searching files: an index of documents, runs for files of queries, features of candidates, cascades."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.files import is_stream, refuse_bad_target, refuse_own_input, write_whole
from podium._runtime.progress import progress
from podium._runtime.warn import LossWarning, warn
from podium._runtime.words import counted
from podium.formats.kinds import CASCADE_FILE
from podium.workflows.outputs import new_folder, refuse_other_data, refuse_other_kind
from podium.workflows.reading import Locate, itself

if TYPE_CHECKING:  # one query to an index needs neither data nor models
    from podium.data.ranking import RankingData
    from podium.formats.trec import Run
    from podium.pipelines.cascades.cascade import Cascade
    from podium.search.documents.collections import Faults
    from podium.search.features.declaring import Features
    from podium.search.indexing import Built
    from podium.search.searcher import Searcher
    from podium.search.tuning import TunedWeighting


def index_files(
    documents: Sequence[Path],
    out: Path,
    *,
    format: str | None = None,
    strict: bool = False,
    force: bool = False,
    locate: Locate = itself,
    **settings: Any,
) -> tuple[Built, Faults]:
    """Index documents of files and folders; bad records are left out and noted, unless `strict`.

    With `force`, an index that is there is replaced once the new one is complete.
    """
    from podium.search import Faults, read_documents
    from podium.search.indexing import index_documents

    if force and settings.get("update"):
        raise ValueError("Give --update to add to the index or --force to replace it, not both.")
    with nullcontext(out) if settings.get("update") else new_folder("--out", out, "index", force) as folder:
        faults = Faults(strict)
        sources = [read_documents(locate(path), format=format, faults=faults) for path in documents]
        with progress("indexing") as report:
            built = index_documents(sources, folder, report=report, **settings)
    return replace(built, folder=out), faults


def is_cascade(folder: Path) -> bool:
    return (folder / CASCADE_FILE).exists()


def open_cascade(folder: Path) -> Cascade:
    from podium.pipelines.cascades.saving import load_cascade

    return load_cascade(folder)


def open_searched(folder: Path) -> Searcher:
    """Open an index folder or a cascade folder. An index needs none of the modules of models."""
    from podium.search import open_index

    return open_cascade(folder) if is_cascade(folder) else open_index(folder)


def search_file(
    searched: Searcher,
    queries: Path,
    out: Path,
    *,
    k: int = 1000,
    tag: str = "podium",
    by_position: bool = False,
    locate: Locate = itself,
    **options: Any,
) -> Run:
    """Search an index or a cascade for the queries of a file, and write a TREC run."""
    from podium.formats.trec import write_run
    from podium.search import read_queries, search_run

    refuse_bad_target(out)
    texts = read_queries(locate(queries), by_position=by_position)
    with progress("searching") as report:
        run = search_run(searched, texts, k, report=report, **options)
    write_run(run, out, tag)
    return run


def tune_files(
    folder: Path,
    queries: Path,
    qrels: Path,
    out: Path | None = None,
    picture: Path | None = None,
    *,
    by_position: bool = False,
    locate: Locate = itself,
    **options: Any,
) -> TunedWeighting:
    """Tune a weighting on the queries and judgements of files, save it and draw it if asked for.

    `options` are those of `tune_weighting`.
    """
    from podium.formats.trec import read_qrels
    from podium.search import open_index, read_queries, tune_weighting

    if is_cascade(folder):
        raise ValueError(f"{folder} is a cascade, whose weighting is set. Tune that of its index, and make it anew.")
    index, texts = open_index(folder), read_queries(locate(queries), by_position=by_position)
    for path in (out, picture):
        if path is not None:
            refuse_bad_target(path)
    with progress("tuning") as report:
        tuned = tune_weighting(index, texts, read_qrels(locate(qrels)), report=report, **options)
    if out is not None:
        tuned.save(out)
    if picture is not None:
        from podium.explain.drawings import draw_tuning

        draw_tuning(tuned, picture)
    return tuned


@dataclass(frozen=True)
class FeatureFile:
    """Features that were written to a file, and their declaration next to it."""

    out: Path
    declaration: Path | None
    data: RankingData
    labelled: bool
    skipped: int  # queries without rows

    def as_dict(self) -> dict[str, Any]:
        data = self.data
        sizes = {"rows": data.n_rows, "queries": data.n_queries, "features": list(data.feature_names or ())}
        declared = None if self.declaration is None else str(self.declaration)
        relevant = int((data.y > 0).sum()) if self.labelled and data.y is not None else None
        written = {"written": str(self.out), "declaration": declared}
        return sizes | {"relevant": relevant, "queries_left_out": self.skipped} | written

    def sentence(self) -> str:
        left_out = f"; {counted(self.skipped, 'query', 'queries')} without rows" if self.skipped else ""
        declared = "" if self.declaration is None else f"; names and formulas in {self.declaration}"
        return f"{self.data.sizes}{left_out}{declared}"


@dataclass(frozen=True)
class FeatureRequest:
    """Which features of which documents: the best n per query of a file, and judged ones."""

    queries: Path
    qrels: Path | None = None
    features: Path | None = None
    normalize: str | None = None
    n: int | None = None  # that of the features' declaration, or 1,000
    unjudged: str = "irrelevant"
    add_judged: bool = False
    by_position: bool = False
    run: Path | None = None  # of another engine: its documents, instead of those that the index finds


def features_file(
    index: Path, request: FeatureRequest, out: Path, *, force: bool = False, locate: Locate = itself, **first_stage: Any
) -> FeatureFile:
    """Write the features that are asked for, and OUT.features.toml, which declares them.

    LightGBM text has labels in any case: without qrels they are 0, with a warning.
    """
    from podium.formats import files_of, format_of, write_data
    from podium.formats.trec import read_qrels, read_run
    from podium.pipelines.cascades.cascade import DEPTH, Cascade, Stage
    from podium.search import read_queries

    kind = format_of(out, "letor" if is_stream(out) else None, reading=False)
    refuse_bad_target(out)
    qrels, inputs = request.qrels, [request.queries, request.qrels, request.features, request.run]
    features = declared_features(request.features, request.normalize, locate)
    tables = [Path(feature.settings["file"]) for feature in features.features if feature.table is not None]
    refuse_own_input("--out", files_of(out, kind), [str(path) for path in (*inputs, *tables) if path is not None])
    declaration = None if is_stream(out) else out.with_name(f"{out.name}.features.toml")
    refuse_other_data("--out", out, kind, force)
    if declaration is not None:
        refuse_other_kind("--out", declaration, "declaration", force)
    n = request.n or features.n or DEPTH
    stage = Stage(features=replace(features, n=n), n=n)
    cascade = Cascade(index, stage, **first_stage)
    texts = read_queries(locate(request.queries), by_position=request.by_position)
    judged = None if qrels is None else read_qrels(locate(qrels))
    with progress("features") as report:
        rules: dict[str, Any] = {"unjudged": request.unjudged, "add_judged": request.add_judged}
        rules["candidates"] = None if request.run is None else read_run(locate(request.run))
        data = cascade.training_data(texts, judged, **rules, report=report)
    written = data
    if data.y is None and kind.needs_labels:
        message = f"{out}: without --qrels the rows have no labels, and {kind.name} text needs some: all are 0"
        warn(f"{message}. Rank with this file, do not train on it; .csv and .podium-data files can be without labels.")
        written = replace(data, y=np.zeros(data.n_rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)  # names are in the declaration
        write_data(written, out, format=kind.name)
    if declaration is not None:
        with write_whole(declaration) as stream:
            folder = declaration.absolute().parent
            beside = stage.features.to_toml(lambda feature: os.path.relpath(feature.settings["file"], folder), True)
            stream.write(beside.encode())
    return FeatureFile(out, declaration, data, judged is not None, len(texts) - data.n_queries)


@dataclass(frozen=True)
class Judgements:
    """Judged queries, and the rules that `Cascade.fit` chooses by: metric, policy, folds, random_state, n_jobs."""

    queries: Path
    qrels: Path
    by_position: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)


def declared_features(path: Path | None, normalize: str | None, locate: Locate = itself) -> Features:
    """The features of a TOML file, or LETOR's 46; `normalize` replaces what the file says."""
    from podium.search import Features

    features = Features.letor()
    if path is not None:
        located = locate(path)  # what comes through a pipe is read elsewhere
        features = Features.read(located, path.parent if located == path else Path())
    return features if normalize is None else replace(features, normalize=None if normalize == "none" else normalize)


def make_cascade(
    index: Path,
    models: Sequence[Path],
    out: Path,
    *,
    features: Sequence[Path] = (),
    normalize: str | None = None,
    n: Sequence[int] = (),
    locate: Locate = itself,
    **first_stage: Any,
) -> Cascade:
    """Save an index and models, one per stage, as a cascade; features and n are one for all, or one per model."""
    from podium.pipelines.cascades.cascade import Cascade, Stage
    from podium.pipelines.cascades.saving import refuse_bad_folder
    from podium.workflows.reading import open_model

    refuse_bad_folder(out)
    _refuse_cascade(index)
    declarations = _one_per_model("--features", list(features) or [None], models)
    depths: list[Any] = _one_per_model("--n", list(n) or [None], models)
    stages = []
    for path, declaration, depth in zip(models, declarations, depths):
        try:
            stages.append(Stage(open_model(path, locate), declared_features(declaration, normalize, locate), depth))
        except ValueError as error:
            raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    cascade = Cascade(index, stages, **first_stage)
    cascade.save(out)
    return cascade


def fit_cascade(
    index: Path,
    judgements: Judgements,
    out: Path,
    *,
    features: Path | None = None,
    normalize: str | None = None,
    n: int | None = None,
    locate: Locate = itself,
    **first_stage: Any,
) -> Cascade:
    """Choose a re-ranker, or none, by judged queries, and save the cascade."""
    from podium.formats.trec import read_qrels
    from podium.pipelines.cascades.cascade import Cascade, Stage
    from podium.pipelines.cascades.saving import refuse_bad_folder
    from podium.search import read_queries

    refuse_bad_folder(out)
    _refuse_cascade(index)
    stage: Any = {} if n is None else {"n": n}
    cascade = Cascade(index, Stage(features=declared_features(features, normalize, locate), **stage), **first_stage)
    texts = read_queries(locate(judgements.queries), by_position=judgements.by_position)
    qrels = read_qrels(locate(judgements.qrels))
    with progress("choosing a re-ranker") as report:
        fitted = cascade.fit(texts, qrels, report=report, **judgements.rules)
    fitted.save(out)
    return fitted


def _refuse_cascade(folder: Path) -> None:
    if is_cascade(folder):
        raise ValueError(f"{folder} is a cascade; expected an index. Give {folder / 'index'}, the one inside it.")


def _one_per_model(option: str, values: list[Any], models: Sequence[Path]) -> list[Any]:
    if len(values) not in (1, len(models)):
        raise ValueError(
            f"{option} is given {len(values)} times for {counted(len(models), 'model')}; give one or as many."
        )
    return values * len(models) if len(values) == 1 else values
