"""Training from files to a model file."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from podium._runtime.compiler import Array
from podium._runtime.kernels.compiling import compile_seconds
from podium._runtime.progress import NotedReport, progress
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.evaluation.evaluating import Evaluation, evaluate
from podium.formats.pairs import read_pairs
from podium.models.frame.estimator import is_fitted
from podium.models.frame.holding_out import VALIDATION, divide
from podium.models.frame.inspection import settings_words
from podium.models.frame.parameters import value_of
from podium.models.frame.plan import Callback, Progress
from podium.models.frame.resolving import differing_values
from podium.models.frame.taking_pairs import check_takes_pairs
from podium.models.registry import Plan
from podium.persistence.checkpoints import Checkpoints
from podium.workflows.reading import Columns, Locate, itself, read_file, read_files, refuse_bad_out, warn_if_trained_on


def train_files(
    plan: Plan,
    sources: Sequence[Path],
    valid_files: Sequence[Path],
    out: Path,
    *,
    early_stopping_rounds: int | None = None,
    checkpoints: Checkpoints | None = None,
    pair_file: Path | None = None,
    locate: Locate = itself,
) -> Training:
    """Train the model on files, evaluated on others after each step, and write it to `out`.

    pair_file: pairs of documents of the training files, which take the place of labels.
    """
    pair_files = [] if pair_file is None else [pair_file]
    refuse_bad_out(out, [*sources, *valid_files, *pair_files], model=True)
    check_takes_pairs(plan.model, plan.model.training_plan(), pair_file)
    beside_pairs = "ignored" if value_of(plan.model, "validation_fraction") is None else "optional"
    judged = "required" if pair_file is None else beside_pairs
    data = read_files(sources, locate, expected=_expected(plan.model), labels=judged)
    pairs = None if pair_file is None else read_pairs(locate(pair_file), data)
    base = getattr(plan.model, "init", None)
    if base is not None and is_fitted(base):
        data = Columns.of_model(base, plan.parameters["init"]).give(data, sources[0])
    columns = Columns.of_data(data, sources[0])
    valid = {str(path): columns.give(read_file(path, locate, columns.categories or ()), path) for path in valid_files}
    for path, part in zip(valid_files, valid.values()):
        warn_if_trained_on(part, path, data, sources[0])
    return train(plan, data, valid, out, early_stopping_rounds, checkpoints, pairs)


def _expected(model: Any) -> list[str]:
    """Columns of categories, as far as they are known before the data are read: to the model, or to its init model."""
    listed = [name for name in getattr(model, "categorical", None) or () if isinstance(name, str)]
    return [*listed, *getattr(getattr(model, "init", None), "categories_", {})]


def _by_file_name(valid: Mapping[str, RankingData]) -> dict[str, RankingData]:
    """The sets by the names of their files, which become names of curves: a model holds no folders of a machine."""
    names = [Path(path).name for path in valid]
    numbered = (name if names.count(name) == 1 else f"{name} {n}" for n, name in enumerate(names, 1))
    return dict(zip(numbered, valid.values()))


@dataclass(frozen=True)
class Training:
    """What came out of a training."""

    plan: Plan
    out: Path
    n_rows: int  # that were trained on
    n_queries: int
    tried: int  # steps taken; those after the best one are dropped
    evaluations: Mapping[str, Evaluation]  # of the saved model, by validation set
    seconds: float  # without those of compiling kernels
    interrupted: bool = False  # by Ctrl-C, before it was done
    n_pairs: int | None = None  # that were given in place of labels

    @property
    def steps(self) -> int:
        """Trees or rounds of the saved model."""
        return int(self.plan.model.best_iteration_)

    def as_dict(self) -> dict[str, Any]:
        resolved = getattr(self.plan.model, "resolved_params_", {})
        return {
            "model": type(self.plan.model).__name__.lower(),
            "out": str(self.out),
            f"{self.plan.model.step_word}s": self.steps,
            "best_iteration": self.steps,
            "best_score": self.plan.model.best_score_,
            "policy": self.plan.model.evaluation_metric().policy.name,
            "metrics": {name: evaluation.as_dict()["metrics"] for name, evaluation in self.evaluations.items()},
            "seconds": self.seconds,
            "parameters": self.plan.parameters,
            **({"resolved_params": resolved} if resolved else {}),
            "interrupted": self.interrupted,
            **({} if self.n_pairs is None else {"pairs": self.n_pairs}),
        }

    def sentences(self) -> list[str]:
        model = self.plan.model
        best = f", the best of {self.tried} tried" if self.tried > self.steps else ""
        source = f"{counted(self.n_rows, 'document')} of {counted(self.n_queries, 'query', 'queries')}"
        source = source if self.n_pairs is None else f"{counted(self.n_pairs, 'pair')} in {source}"
        auto = f" with {settings_words(differing_values(model))}" if differing_values(model) else ""
        stopped = ["stopped by Ctrl-C; what was trained until then is kept"] if self.interrupted else []
        return [
            *stopped,
            f"{type(model).__name__}: {counted(self.steps, model.step_word)}{best}; trained on {source}{auto}",
            *(
                f"{name}: {metric} {value:.4f} (policy {evaluation.policy})"
                for name, evaluation in self.evaluations.items()
                for metric, value in evaluation.items()
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
    pairs: tuple[Array, Array, Array, Array] | None = None,
) -> Training:
    """Train the model on the data, write it to `out`, then judge what was written by the validation sets.

    `pairs` of rows take the place of labels.

    Ctrl-C ends the training; the trees so far are written. Without any there is nothing to write, and it is raised.
    """
    model = plan.model
    watched: dict[str, Any] = {"checkpoint": checkpoints, "early_stopping_rounds": early_stopping_rounds}
    watched |= {} if pairs is None else {"pairs": pairs}  # a plugin's fit may have no such argument
    seconds, interrupted = fit_and_save(plan, data, valid, out, **watched)
    division, judged = divide(model, data), dict(valid)
    if division.is_held is not None:
        held_out = division.validation(model, data, None)
        judged[f"{VALIDATION} ({counted(held_out.n_queries, 'query', 'queries')} held out)"] = held_out
    n_pairs = None if pairs is None else len(division.pairs(pairs)[0])
    n_rows, n_queries = division.training.n_rows, division.training.n_queries
    evaluations = judged_by(model, judged)
    return Training(plan, out, n_rows, n_queries, steps_tried(model), evaluations, seconds, interrupted, n_pairs)


def fit_and_save(
    plan: Plan, data: Any, valid: Mapping[str, RankingData], out: Path, *, checkpoint: Any, **options: Any
) -> tuple[float, bool]:
    """Fit the model and write it; returns the seconds without those of compiling, and whether Ctrl-C ended it."""
    model, interrupted = plan.model, False
    compiled_before, started = compile_seconds(), perf_counter()
    with progress(f"training {type(model).__name__}") as report:
        watched: dict[str, Any] = {"callbacks": [_show_on(report)], "checkpoint": checkpoint}
        try:
            model.fit(data, eval_set=_by_file_name(valid) or None, **watched, **options)
        except KeyboardInterrupt:
            if not hasattr(model, "best_iteration_"):
                _say(f"stopped before the first {model.step_word}; {out} is not written.")
                raise
            interrupted = True
    seconds = perf_counter() - started - (compile_seconds() - compiled_before)
    if model.best_iteration_ == 0:
        raise ValueError(f"{out}: not one {model.step_word} was kept, so nothing is written.")
    model.save(out)  # before anything else can go wrong
    if checkpoint is not None and checkpoint.ended:
        checkpoint.remove()
    return seconds, interrupted


def judged_by(model: Any, judged: Mapping[str, RankingData]) -> dict[str, Evaluation]:
    metrics = model.evaluation_metrics()
    return {name: evaluate(model.predict(part), part, metrics=metrics) for name, part in judged.items()}


def steps_tried(model: Any) -> int:
    curves = [curve for curves in model.evals_.values() for curve in curves.values()]
    return max(int(model.best_iteration_), *map(len, curves), 0)


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
