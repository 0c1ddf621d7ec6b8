"""From data to a model and from a model to a ranking: what `podium train` and `podium rank` do between their files."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from podium._runtime.files import plain_suffix, refuse_bad_target, refuse_own_input
from podium._runtime.progress import NotedReport, progress
from podium._runtime.words import check_choice, counted
from podium.data.columns import SAME_COLUMNS, are_positions, first_difference
from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.formats.scores import score_lines, write_scores
from podium.formats.trec import Run, run_lines, write_run
from podium.models.ranker import Callback, Progress, Ranker
from podium.models.registry import Plan
from podium.persistence.checkpoints import Checkpoints
from podium.persistence.storage import refuse_bad_model_path

RANKING_FORMATS = ("scores", "trec")


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
    patience: int | None = None,
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
                early_stopping_rounds=patience,
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

    def sentence(self) -> str:
        if self.format == "scores":
            return f"{counted(self.data.n_rows, 'score')}, one per line in the order of {self.source}"
        queries = counted(self.run.n_queries, "query", "queries")
        return f"a TREC run of {counted(len(self.run), 'document')} for {queries}"

    @cached_property
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
