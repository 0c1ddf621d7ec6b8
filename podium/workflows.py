"""From files to files: train, rank, evaluate, compare, explain and check. The command line calls these and prints.

`locate` finds the file that a path stands for: the command line copies what comes through a pipe, and messages keep the
user's names.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from podium._runtime.files import plain_suffix, refuse_bad_target, refuse_own_input, write_whole
from podium._runtime.once import once
from podium._runtime.progress import NotedReport, progress
from podium._runtime.words import check_choice, counted
from podium.data.columns import SAME_COLUMNS, are_positions, first_difference
from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.evaluation.evaluating import Evaluation, evaluate, evaluate_run, evaluate_under_all
from podium.formats import read_data
from podium.formats.scores import read_scores, score_lines, write_scores
from podium.formats.trec import Run, read_qrels, read_run, run_lines, write_run
from podium.persistence.storage import refuse_bad_model_path

# Models bring scikit-learn, and evaluating files needs none.
if TYPE_CHECKING:
    from podium.evaluation.comparison import Comparison
    from podium.explain.attributions import ShapSummary
    from podium.explain.drops import ImportanceDrops
    from podium.explain.queries import QueryExplained
    from podium.explain.reasons import Why
    from podium.lint.rules import Report
    from podium.models.frame.ranker import Callback, Progress, Ranker
    from podium.models.registry import Plan
    from podium.persistence.checkpoints import Checkpoints
    from podium.pipelines.cascades.cascade import Cascade
    from podium.search.documents.collections import Faults
    from podium.search.features.declaring import Features
    from podium.search.indexing import Built
    from podium.search.reading import Index

RANKING_FORMATS = ("scores", "trec")

Locate = Callable[[Path], Path]


def itself(path: Path) -> Path:
    """A path that is the name of its file."""
    return path


def read_file(path: Path, locate: Locate = itself, **options: Any) -> RankingData:
    """Read ranking data with a progress bar; `options` are those of `read_data`."""
    with progress(f"reading {path.name}") as report:
        return read_data(locate(path), progress=report, **options)


def train_files(
    plan: Plan,
    train_file: Path,
    valid_files: Sequence[Path],
    out: Path,
    *,
    early_stopping_rounds: int | None = None,
    checkpoints: Checkpoints | None = None,
    locate: Locate = itself,
) -> Training:
    """Train the model on one file, evaluated on the others after each step, and write it to `out`."""
    from podium.models.frame.starting import is_fitted

    refuse_bad_out(out, [train_file, *valid_files], model=True)
    data = read_file(train_file, locate)
    base = getattr(plan.model, "init", None)
    if base is not None and is_fitted(base):
        data = Columns.of_model(base, plan.parameters["init"]).give(data, train_file)
    columns = Columns.of_data(data, train_file)
    valid = {str(path): columns.give(read_file(path, locate), path) for path in valid_files}
    return train(plan, data, valid, out, early_stopping_rounds, checkpoints)


def rank_file(
    model: Path,
    data: Path,
    *,
    format: str = "scores",
    tag: str = "podium",
    top: int | None = None,
    locate: Locate = itself,
) -> Ranking:
    """Score every document of a file with a saved model. The file needs no labels."""
    ranker, rows = _read_with_model(model, data, locate)
    return Ranking(data, rows, ranker.predict(rows), format, tag, top, type(ranker).__name__.lower())


def explain_file(
    model: Path,
    data: Path,
    query: str,
    *,
    documents: tuple[str, str] | None = None,
    top: int = 5,
    locate: Locate = itself,
) -> QueryExplained | Why:
    """Explain the top documents of a query, or why one of two documents is ranked above the other."""
    from podium.explain import queries

    ranker, rows = _read_with_model(model, data, locate)
    if documents is None:
        return queries.explain_top(ranker, rows, query, top)
    return queries.explain_pair(ranker, rows, query, documents)


def study_file(
    model: Path,
    data: Path,
    kind: str,
    *,
    train: Path | None = None,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    metric: str | None = None,
    locate: Locate = itself,
) -> ImportanceDrops | ShapSummary:
    """What each feature of a model is worth on the data: kind is "shap", "permutation" or "ablation" (with `train`)."""
    from podium import explain

    ranker, rows = _read_with_model(model, data, locate)
    if kind == "shap":
        return explain.shap_summary(ranker, rows)
    if kind == "permutation":
        return explain.permutation_importance(ranker, rows, metric=metric)
    if train is None:
        raise ValueError("an ablation needs training data.")
    learned = Columns.of_model(ranker, model).give(read_file(train, locate), train)
    with progress("training without features") as report:
        return explain.ablation(ranker, learned, rows, groups=groups, metric=metric, report=report)


def _read_with_model(model: Path, data: Path, locate: Locate) -> tuple[Ranker, RankingData]:
    from podium.persistence.saving import load

    ranker = load(locate(model))
    return ranker, Columns.of_model(ranker, model).give(read_file(data, locate, labels="optional"), data)


def evaluate_files(
    data: Path, scores: Path, metrics: Sequence[str], policy: str = "standard", *, locate: Locate = itself, **rules: Any
) -> list[Evaluation]:
    """Evaluate a file of scores with the labels of a data file; policy "all" gives one evaluation per policy.

    `rules` are further arguments of `evaluate`.
    """
    judged = read_file(data, locate)
    numbers = read_scores(locate(scores), judged.n_rows)
    return _under(policy, metrics, lambda names, one: evaluate(numbers, judged, metrics=names, policy=one, **rules))


def evaluate_run_files(
    qrels: Path, run: Path, metrics: Sequence[str], policy: str = "trec", *, locate: Locate = itself, **rules: Any
) -> list[Evaluation]:
    """Evaluate a TREC run with TREC judgements; `rules` are further arguments of `evaluate_run`."""
    judged, ranked = read_qrels(locate(qrels)), read_run(locate(run))
    return _under(policy, metrics, lambda names, one: evaluate_run(judged, ranked, metrics=names, policy=one, **rules))


def _under(policy: str, metrics: Sequence[str], work: Callable[[list[str], str], Evaluation]) -> list[Evaluation]:
    return evaluate_under_all(metrics, work) if policy == "all" else [work(list(metrics), policy)]


def compare_files(data: Path, scores: Sequence[Path], *, locate: Locate = itself, **options: Any) -> Comparison:
    """Compare files of scores with the labels of a data file; `options` are those of `compare`."""
    from podium.evaluation.comparing import compare

    judged = read_file(data, locate)
    systems = {_system_name(path, scores): read_scores(locate(path), judged.n_rows) for path in scores}
    return compare(systems, judged, **options)


def _system_name(path: Path, paths: Sequence[Path]) -> str:
    """The file's name, or its whole path where two files share a name."""
    return path.name if sum(other.name == path.name for other in paths) == 1 else str(path)


def check_files(files: Sequence[Path], *, locate: Locate = itself) -> Report:
    """Check data files; several are the splits of one experiment."""
    from podium.lint.checks import check

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*become one number in float32")  # it is a finding
        paths = {str(path): locate(path) for path in files}
        parts = {name: read_file(path, labels="optional") for name, path in paths.items()}
    return check(parts, paths)


def index_files(
    documents: Sequence[Path],
    out: Path,
    *,
    format: str | None = None,
    strict: bool = False,
    locate: Locate = itself,
    **settings: Any,
) -> tuple[Built, Faults]:
    """Index documents of files and folders; bad records are left out and noted, unless `strict`."""
    from podium.search import Faults, read_documents
    from podium.search.indexing import index_documents

    faults = Faults(strict)
    sources = [read_documents(locate(path), format=format, faults=faults) for path in documents]
    with progress("indexing") as report:
        return index_documents(sources, out, report=report, **settings), faults


def open_searched(folder: Path) -> Index | Cascade:
    """Open an index folder or a cascade folder."""
    from podium.persistence.saving import CASCADE_FILE, load
    from podium.search import open_index

    found: Index | Cascade = load(folder) if (folder / CASCADE_FILE).exists() else open_index(folder)
    return found


def search_file(
    searched: Index | Cascade,
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
    from podium.search import Index, read_queries, search_run

    refuse_bad_target(out)
    texts = read_queries(locate(queries), by_position=by_position)
    with progress("searching") as report:
        if isinstance(searched, Index):
            run = search_run(searched, texts, k, report=report, **options)
        else:
            run = searched.run(texts, k, report=report)
    write_run(run, out, tag)
    return run


@dataclass(frozen=True)
class FeatureFile:
    """Features that were written to a file, and their declaration next to it."""

    out: Path
    declaration: Path | None
    data: RankingData
    labelled: bool
    skipped: int  # queries without rows

    def to_json(self) -> dict[str, Any]:
        data = self.data
        found = {"rows": data.n_rows, "queries": data.n_queries, "features": list(data.feature_names or ())}
        declared = None if self.declaration is None else str(self.declaration)
        relevant = int((data.y > 0).sum()) if self.labelled and data.y is not None else None
        written = {"written": str(self.out), "declaration": declared}
        return found | {"relevant": relevant, "queries_left_out": self.skipped} | written

    def sentence(self) -> str:
        data = self.data
        sizes = f"{counted(data.n_rows, 'row')}, {counted(data.n_queries, 'query', 'queries')}"
        left_out = f"; {counted(self.skipped, 'query', 'queries')} without rows" if self.skipped else ""
        declared = "" if self.declaration is None else f"; names and formulas in {self.declaration}"
        return f"{sizes}, {counted(data.n_features, 'feature')}{left_out}{declared}"


def features_file(
    index: Path,
    queries: Path,
    out: Path,
    *,
    qrels: Path | None = None,
    features: Path | None = None,
    normalize: str | None = None,
    n: int = 1000,
    unjudged: str = "irrelevant",
    add_judged: bool = False,
    by_position: bool = False,
    locate: Locate = itself,
    **first_stage: Any,
) -> FeatureFile:
    """Write the features of the best n documents per query, and OUT.features.toml, which declares them.

    LETOR and LightGBM text have labels in any case: without qrels they are 0.
    """
    from podium._runtime.files import is_stream
    from podium.formats import files_of, format_of, write_data
    from podium.pipelines.cascades.cascade import Cascade, Stage
    from podium.search import read_queries

    kind = format_of(out, "letor" if is_stream(out) else None, reading=False)
    refuse_bad_target(out)
    inputs = [path for path in (queries, qrels, features) if path is not None]
    refuse_own_input("--out", files_of(out, kind), [str(path) for path in inputs])
    stage = Stage(features=declared_features(features, normalize, locate), n=n)
    cascade = Cascade(index, stage, **first_stage)
    texts = read_queries(locate(queries), by_position=by_position)
    judged = None if qrels is None else read_qrels(locate(qrels))
    with progress("features") as report:
        data = cascade.training_data(texts, judged, unjudged=unjudged, add_judged=add_judged, report=report)
    written = data
    if data.y is None and kind.name in ("letor", "lightgbm"):
        written = replace(data, y=np.zeros(data.n_rows))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*has no place for")  # names are in the declaration
        write_data(written, out, format=kind.name)
    declaration = None if is_stream(out) else out.with_name(f"{out.name}.features.toml")
    if declaration is not None:
        with write_whole(declaration) as stream:
            stream.write(stage.features.to_toml().encode())
    return FeatureFile(out, declaration, data, judged is not None, len(texts) - data.n_queries)


def declared_features(path: Path | None, normalize: str | None, locate: Locate = itself) -> Features:
    """The features of a TOML file, or LETOR's 46; `normalize` replaces what the file says."""
    from podium.search import Features

    found = Features.letor() if path is None else Features.read(locate(path))
    return found if normalize is None else replace(found, normalize=None if normalize == "none" else normalize)


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
    from podium.persistence.saving import load
    from podium.pipelines.cascades.cascade import Cascade, Stage
    from podium.pipelines.cascades.saving import refuse_bad_folder

    refuse_bad_folder(out)
    declarations = _one_per_model("--features", list(features) or [None], models)
    depths = _one_per_model("--n", list(n) or [1000], models)
    stages = []
    for path, declaration, depth in zip(models, declarations, depths):
        try:
            stages.append(Stage(load(locate(path)), declared_features(declaration, normalize, locate), depth))
        except ValueError as error:
            raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    cascade = Cascade(index, stages, **first_stage)
    cascade.save(out)
    return cascade


def _one_per_model(option: str, given: list[Any], models: Sequence[Path]) -> list[Any]:
    if len(given) not in (1, len(models)):
        raise ValueError(
            f"{option} is given {len(given)} times for {counted(len(models), 'model')}; give one or as many."
        )
    return given * len(models) if len(given) == 1 else given


@dataclass(frozen=True)
class Training:
    """What came out of a training."""

    plan: Plan
    out: Path
    n_rows: int
    n_queries: int
    tried: int  # steps taken; those after the best one are dropped
    evaluations: Mapping[str, Evaluation]  # of the saved model, by validation set
    seconds: float
    interrupted: bool = False  # by Ctrl-C, before it came to its own end

    @property
    def name(self) -> str:
        return type(self.plan.model).__name__

    @property
    def steps(self) -> int:
        """Trees or rounds of the saved model."""
        return int(self.plan.model.best_iteration_)

    @property
    def unit(self) -> str:
        return self.plan.model._UNIT

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.name.lower(),
            "out": str(self.out),
            f"{self.unit}s": self.steps,
            "best_iteration": self.steps,
            "policy": self.plan.model._judging_metric().policy.name,
            "metrics": {name: found.to_json()["metrics"] for name, found in self.evaluations.items()},
            "seconds": self.seconds,
            "parameters": self.plan.parameters,
            "interrupted": self.interrupted,
        }

    def sentences(self) -> list[str]:
        best = f", the best of {self.tried} tried" if self.tried > self.steps else ""
        source = f"{counted(self.n_rows, 'document')} of {counted(self.n_queries, 'query', 'queries')}"
        stopped = ["stopped by Ctrl-C; what was trained until then is kept"] if self.interrupted else []
        return [
            *stopped,
            f"{self.name}: {counted(self.steps, self.unit)}{best}; trained on {source}",
            *(
                f"{name}: {metric} {value:.4f} (policy {found.policy})"
                for name, found in self.evaluations.items()
                for metric, value in found.items()
            ),
            f"{self.out}: written",
        ]


def train(
    plan: Plan,
    data: RankingData,
    valid: Mapping[str, RankingData],
    out: Path,
    early_stopping_rounds: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Training:
    """Train the model on the data, write it to `out`, then judge what was written by the validation sets.

    Ctrl-C ends the training; the trees so far are written. Without any there is nothing to write, and it is raised.
    """
    model, started, interrupted = plan.model, perf_counter(), False
    with progress(f"training {type(model).__name__}") as report:
        try:
            model.fit(
                data,
                eval_set=list(valid.values()) or None,
                early_stopping_rounds=early_stopping_rounds,
                callbacks=[_show_on(report)],
                checkpoint=checkpoints,
            )
        except KeyboardInterrupt:
            if not hasattr(model, "best_iteration_"):
                _say(f"stopped before the first {model._UNIT}; {out} is not written.")
                raise
            interrupted = True
    seconds = perf_counter() - started
    if model.best_iteration_ == 0:
        raise ValueError(f"{out}: not one {model._UNIT} was kept, so nothing is written.")
    model.save(out)  # before anything else can go wrong
    if checkpoints is not None and checkpoints.ended:
        checkpoints.remove()
    metric = model._judging_metric()
    found = {name: evaluate(model.predict(part), part, metrics=[metric]) for name, part in valid.items()}
    tried = max([model.best_iteration_, *(len(curves[metric.name]) for curves in model.evals_.values())])
    return Training(plan, out, data.n_rows, data.n_queries, tried, found, seconds, interrupted)


def _show_on(report: NotedReport) -> Callback:
    """A progress bar over trees, with the metric of the first validation set."""

    def after(step: Progress) -> None:
        curves = next(iter(step.evals.values()), {})
        report(step.iteration, step.total, "  ".join(f"{name} {curve[-1]:.4f}" for name, curve in curves.items()))

    return after


def plan_checkpoints(path: Path | None, every: int | None, errors: str | None, out: Path) -> Checkpoints | None:
    """Checkpoints that stay until the model is written: killed in between, the next run has it in a moment."""
    from podium.persistence.checkpoints import Checkpoints

    if path is None:
        if every is not None or errors is not None:
            option = "--every" if errors is None else "--checkpoint-errors"
            raise ValueError(f"{option} needs a checkpoint file. Add --checkpoint FILE.")
        return None
    if path.resolve() == out.resolve():
        raise ValueError(f"--checkpoint {path} is --out too. Choose another name for one of them.")
    return Checkpoints(path, every or 10, errors or "stop", removed_at_end=False, say=_say)


def _say(sentence: str) -> None:
    print(f"podium: {sentence}", file=sys.stderr)


@dataclass(frozen=True)
class Ranking:
    """The documents of a data file as a model scores them, on their way to a scores file or a TREC run."""

    source: Path
    data: RankingData
    scores: np.ndarray  # one per row of the data, in its order
    format: str
    tag: str = "podium"
    top: int | None = None
    model: str = ""  # its name

    def write(self, path: Path) -> None:
        if self.format == "scores":
            write_scores(self.scores, path)
        else:
            write_run(self.run, path, self.tag)

    def lines(self) -> Iterator[bytes]:
        """What `write` writes."""
        return score_lines(self.scores) if self.format == "scores" else run_lines(self.run, self.tag)

    def to_json(self) -> dict[str, Any]:
        if self.format == "scores":
            return {"scores": self.scores.tolist()}
        return {"run": self.run.to_dict()}

    def overview(self) -> dict[str, Any]:
        """The model and the sizes, as plain values."""
        sizes = {"documents": self.data.n_rows, "queries": self.data.n_queries}
        return {"model": self.model, **sizes, "format": self.format}

    def sentence(self) -> str:
        if self.format == "scores":
            return f"{counted(self.data.n_rows, 'score')}, one per line in the order of {self.source}"
        queries = counted(self.run.n_queries, "query", "queries")
        return f"a TREC run of {counted(len(self.run), 'document')} for {queries}"

    @once
    def run(self) -> Run:
        """Best first. Where the data has no document ids, a document is called by its place in the file, from 1."""
        data = self.data
        if data.docid_texts is None:
            data = replace(data, docid_texts=Texts.of([str(row + 1) for row in range(data.n_rows)]))
        try:
            return Run.from_scores(data, self.scores).ranked(self.top)
        except ValueError as error:
            raise ValueError(f"{self.source}: {error}") from error


def ranking_format(out: Path | None, given: str | None, tag: str | None, top: int | None) -> str:
    """What to write: as requested, or by the file name; `answers.run` and `answers.trec.gz` are TREC runs."""
    if given is not None:
        check_choice("--format", given, RANKING_FORMATS)
    by_name = "trec" if out is not None and plain_suffix(out) in (".run", ".trec") else "scores"
    found = given or by_name
    if found == "scores" and (tag is not None or top is not None):
        option = "--tag" if tag is not None else "--top"
        raise ValueError(f"{option} is for TREC runs; a scores file has one number per document. Add --format trec.")
    return found


def refuse_bad_out(out: Path, inputs: Sequence[Path], *, model: bool = False) -> None:
    """Refuse, before the work, outputs that cannot be written or would replace an input."""
    if model:
        refuse_bad_model_path(out)
    else:
        refuse_bad_target(out)
    refuse_own_input("--out", [out], inputs)


@dataclass(frozen=True)
class Columns:
    """The features that data should have: those of a model, or of the data it is trained on."""

    whose: str
    number: int
    names: tuple[str, ...] | None
    trained: bool  # whether it is too late to have more

    @classmethod
    def of_model(cls, model: Ranker, path: Path | str) -> Columns:
        names = getattr(model, "feature_names_in_", None)
        return cls(f"the model {path}", model.n_features_in_, None if names is None else tuple(names), True)

    @classmethod
    def of_data(cls, data: RankingData, path: Path) -> Columns:
        return cls(str(path), data.n_features, data.feature_names, False)

    def give(self, data: RankingData, path: Path) -> RankingData:
        """The data with these features.

        Sparse text leaves out what is 0, so it may lack the last ones. Named ones must be the same in the same order;
        a file without names is taken by position, with a warning.
        """
        self._refuse_other_names(data, path)
        if self.names is not None and data.feature_names is None and not are_positions(self.names):
            message = f"{path} has no feature names; its columns are taken for those of {self.whose} by position."
            warnings.warn(message, UserWarning, stacklevel=2)
        data = self._widened(data, path)
        if self.names is None or data.feature_names is not None:
            return data
        return replace(data, feature_names=self.names)

    def _widened(self, data: RankingData, path: Path) -> RankingData:
        if data.n_features == self.number:
            return data
        found = f"{path} has {counted(data.n_features, 'feature')}, {self.whose} {self.number:,}"
        if data.feature_names is not None:
            raise ValueError(f"{found}. {SAME_COLUMNS}")
        if data.n_features > self.number:
            raise ValueError(f"{found}. {self._advice(data.n_features)}")
        warnings.warn(f"{found}; the last {self.number - data.n_features:,} count as 0.", UserWarning, stacklevel=2)
        X = np.zeros((data.n_rows, self.number), dtype=np.float32)
        X[:, : data.n_features] = data.X
        return replace(data, X=X)

    def _refuse_other_names(self, data: RankingData, path: Path) -> None:
        found = first_difference(data.feature_names or (), self.names or (), self.whose)
        if found:
            raise ValueError(f"{path}: {found}. {SAME_COLUMNS}")

    def _advice(self, number: int) -> str:
        if self.trained:
            return "Give data with the features of the model, or train it again on data that has all of these."
        return f'If the last ones are 0 in all of {self.whose}, name the last one there: add "{number}:0" to a line.'
