"""Fitting: carries out a training plan. Steps of any learner, watched by a monitor, stored in checkpoints.

A checkpoint holds all that the next step depends on: the learner's state, the curves, and what early stopping
remembers. So the resumed run ends in the same bytes as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from podium._runtime.interrupts import check_interrupts, undisguised_interrupts
from podium._runtime.kernels.compiling import compilation_announced
from podium._runtime.progress import NotedReport, notebook_progress
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.given_pairs import GivenPairs
from podium.data.ranking import RankingData
from podium.formats.kinds import CHECKPOINT
from podium.learners.monitor import Curves, Monitor
from podium.learners.stored import read_count, read_numbers, refuse_other_names
from podium.models.frame.arguments import (
    check_callbacks,
    check_early_stopping,
    check_verbose,
    eval_sets_of,
    has_eval_sets,
    training_data,
)
from podium.models.frame.constant_features import constant_features
from podium.models.frame.holding_out import VALIDATION, Division, check_validation, divide
from podium.models.frame.imputing import Imputation
from podium.models.frame.init_model import check_init_scores, fit_init, init_offset, init_scores, scores_per_row
from podium.models.frame.inspection import column_names
from podium.models.frame.parameters import value_of
from podium.models.frame.plan import (
    Callback,
    FitOptions,
    Interrupted,
    Progress,
    TrainingPlan,
    TrainingRows,
    ordered_queries,
)
from podium.models.frame.ranker import Ranker
from podium.models.frame.taking_pairs import check_takes_pairs, read_pairs
from podium.models.frame.transforms import Transform
from podium.persistence.checkpoints import Checkpoints, checksum, describe_run


@compilation_announced()
def train(
    model: Ranker, plan: TrainingPlan[Any], X: Any, y: Any, qid: Any, options: FitOptions, more: int | None = None
) -> None:
    """`fit`, or with `more` so many further steps of the fitted model; its parameters have been checked."""
    check_verbose(options.verbose)
    say = print if options.verbose else None
    checkpoints = Checkpoints.of(options.checkpoint, options.every, options.checkpoint_errors, say)
    is_evaluated = has_eval_sets(options.eval_set) or value_of(model, "validation_fraction") is not None
    check_early_stopping(options.early_stopping_rounds, is_evaluated)
    check_validation(model, options)
    check_callbacks(options.callbacks)
    check_takes_pairs(model, plan, options.pairs)
    if more is None:
        model.fitted_parameters_ = {name: value_of(model, name) for name in model.scoring_parameters}
        model.categories_ = model.find_names(X)
    whole = training_data(model, X, y, qid, options, known=more is not None)
    model.refuse_unsupported(whole.X, "the training data")
    division = divide(model, whole)
    if division.is_held is not None:
        read_pairs(options.pairs, whole)  # all are checked, with the rows that the caller knows
    rows = _training_rows(model, plan, division, (X, y, qid), options, more is not None)
    with notebook_progress(f"training {type(model).__name__}") as report:
        callbacks = [*options.callbacks, *printing(options.verbose), _showing(report)]
        _run(model, plan, rows, callbacks, checkpoints, more)


def _training_rows(
    model: Ranker,
    plan: TrainingPlan[Any],
    division: Division,
    arguments: tuple[Any, Any, Any],
    options: FitOptions,
    continued: bool,
) -> TrainingRows:
    """What the learner is made of: columns, what training starts from, and what it is watched by."""
    data = division.training
    model.n_queries_ = data.n_queries
    pairs = read_pairs(division.pairs(options.pairs), data)
    _warn_if_nothing_to_learn(plan, data, pairs)
    if division.is_held is None:
        eval_sets = eval_sets_of(model, options.eval_set)
    else:
        eval_sets = {VALIDATION: division.validation(model, *arguments[:2])}
    check_init_scores(model, data, list(eval_sets.values()))
    data = model.transformed(data) if continued else _fit_columns(model, data)
    eval_sets = {name: model.transformed(part) for name, part in eval_sets.items()}
    if not continued:
        model.init_ = None
        if model.init is not None:
            fit_init(model, *division.arguments(*arguments, options))
    check_interrupts()
    scores = scores_per_row(model, division.whole.n_rows)
    return TrainingRows(
        data,
        init_scores(model, data, None if scores is None else scores[division.rows]),
        list(eval_sets.values()),
        list(eval_sets),
        _eval_offsets(model, list(eval_sets.values()), division, scores),
        _rounds(model, options, division),
        continued,
        model.n_jobs,
        pairs,
    )


def _eval_offsets(
    model: Ranker, eval_sets: Sequence[RankingData], division: Division, scores: np.ndarray | None
) -> list[np.ndarray | float]:
    """What evaluation sets start from; one score per row of `fit` is known of held-out rows alone."""
    if division.is_held is not None and scores is not None:
        return [division.held_scores(scores)]
    return [init_offset(model, part) for part in eval_sets]


def _rounds(model: Ranker, options: FitOptions, division: Division) -> Any:
    """early_stopping_rounds: queries are held out to stop early, so None asks for it too."""
    rounds: Any = options.early_stopping_rounds
    if rounds is True or (rounds is None and division.is_held is not None):
        return model.default_patience
    return rounds


def _fit_columns(model: Ranker, data: RankingData) -> RankingData:
    """Learn from the training data what is made of features, and make it of these."""
    kinds, unchanged = value_of(model, "transform"), model.untransformed_features()
    model.transform_ = None if kinds is None else Transform.fit(kinds, data, unchanged, model.n_jobs)
    model.imputation_ = None
    data = model.transformed(data)
    model.imputation_ = imputation = Imputation.fit(model, data.X, model.imputation_weights(data))
    return data if imputation is None else imputation.apply_to(data, column_names(model))


def _run(
    model: Ranker,
    plan: TrainingPlan[Any],
    rows: TrainingRows,
    callbacks: Sequence[Callback],
    checkpoints: Checkpoints | None,
    more: int | None,
) -> None:
    """Let the learner take its steps; what it has learned becomes the fitted state."""
    learner = plan.make_learner(rows)
    try:
        for part, offset in zip(rows.eval_sets, rows.eval_offsets, strict=True):
            learner.follow(part, offset)
        planned = plan.n_steps if isinstance(plan.n_steps, int) else plan.n_steps()
        n_steps = planned if more is None else learner.n_steps + more
        check_interrupts()

        def report(steps: int, curves: Curves) -> bool:
            progress = Progress(model, steps, n_steps, curves)
            answers = [bool(callback(progress)) for callback in callbacks]  # all are called
            return any(answers)

        patience = plan.patience(rows)
        eval_sets = dict(zip(rows.eval_names, rows.eval_sets, strict=True))
        monitor = Monitor(learner, eval_sets, model.evaluation_metrics(), patience, report, model.n_jobs)
        checkpointer = None
        if checkpoints is not None:
            description = describe_run(model, rows.data, rows.eval_sets, rows.early_stopping_rounds, rows.pairs)
            described = description | {"steps": str(n_steps)}
            checkpointer = Checkpointer(checkpoints, monitor, n_steps, described, model.step_word)
            checkpointer.resume()
        _take_steps(model, plan, monitor, n_steps, checkpointer)
        if not _warn_if_constant(model, plan, rows) and plan.explain is not None:
            plan.explain(learner, monitor.steps)  # only then has the learner a better reason to give
        keep_result(model, plan, monitor)
    finally:
        if plan.close is not None:
            plan.close(learner)
    if checkpoints is not None:
        checkpoints.end()


def _take_steps(
    model: Ranker, plan: TrainingPlan[Any], monitor: Monitor, n_steps: int, checkpointer: Checkpointer | None
) -> None:
    try:
        with undisguised_interrupts():
            run_steps(monitor, n_steps, checkpointer)
    except KeyboardInterrupt as interrupt:
        if not monitor.steps:
            raise
        keep_result(model, plan, monitor)
        stopped = f"stopped after {counted(monitor.learner.n_steps, model.step_word)}; what was learned is kept."
        raise Interrupted(stopped) from interrupt


def keep_result(model: Ranker, plan: TrainingPlan[Any], monitor: Monitor) -> None:
    """What was learned up to the last completed step, or the best one, becomes the fitted state."""
    learner, (snapshot, curves) = monitor.learner, monitor.result()
    learner.keep(snapshot)
    plan.keep(learner)
    model.best_iteration_, model.evals_ = learner.n_steps, curves
    model.best_score_ = monitor.score_after(learner.n_steps)


def _warn_if_nothing_to_learn(plan: TrainingPlan[Any], data: RankingData, pairs: GivenPairs | None) -> None:
    if pairs is not None:
        if (pairs.target[pairs.weight > 0] == 0.5).all():
            n = int((pairs.weight > 0).sum())
            warn(f"all of {counted(n, 'pair')} have the probability 1/2; no document is above another.")
        return
    if plan.uses_labels and plan.learns_from_pairs and not ordered_queries(data) and data.n_rows > 1:
        warn(f"0 of {data.n_queries} queries have two different labels; the model is constant.")


def _warn_if_constant(model: Ranker, plan: TrainingPlan[Any], rows: TrainingRows) -> bool:
    """Warn where the columns that the learner sees tell nothing apart that it is to rank; whether they do not."""
    by_label = plan.uses_labels and rows.pairs is None
    constant = constant_features(rows.ungrouped, by_query=plan.learns_from_pairs, by_label=by_label)
    if constant is not None:
        warn(f"{type(model).__name__}: {constant}, so there is nothing to learn. Check the features.")
    return constant is not None


def printing(every: int | None) -> list[Callback]:
    """What prints the values of evaluation sets every so many steps."""

    def show(progress: Progress) -> None:
        if every and progress.iteration % every == 0:
            by_set = [(part, *item) for part, curves in progress.evals.items() for item in curves.items()]
            numbers = [f"{part} {metric} {curve[-1]:.4f}" for part, metric, curve in by_set]
            print(f"{progress.iteration}/{progress.total}  {'  '.join(numbers)}", flush=True)

    return [show] if every else []


def _showing(report: NotedReport) -> Callback:
    """What moves a progress bar."""
    return lambda progress: report(progress.iteration, progress.total)


def run_steps(monitor: Monitor, n_steps: int, checkpointer: Checkpointer | None = None) -> bool:
    """Take steps until there are `n_steps`, or the monitor or the learner ends it: then True."""
    learner = monitor.learner
    while learner.n_steps < n_steps and not learner.is_done:
        before = learner.n_steps
        learner.step()
        if learner.n_steps == before or monitor.after_step():  # no step was left to take, or it was the last
            return True
        if checkpointer is not None:
            checkpointer.after_step()
    return learner.is_done


class Checkpointer:
    """Writes the state of a training every few steps, and resumes from it."""

    def __init__(
        self, checkpoints: Checkpoints, monitor: Monitor, n_steps: int, description: dict[str, str], step_word: str
    ) -> None:
        learner = monitor.learner
        self.checkpoints, self.learner, self.monitor, self.n_steps = checkpoints, learner, monitor, n_steps
        self._steps_before, self._step_word = learner.n_steps, step_word
        _, arrays = learner.state(learner.snapshot())
        start = checksum([arrays[name] for name in sorted(arrays)])
        before = f"{counted(learner.n_steps, step_word)}, checksum {start}"
        self.description = description | {"what it starts from": before}

    def after_step(self) -> None:
        """Write; but not after the last step, as the model follows at once."""
        done = self.learner.n_steps
        if done % self.checkpoints.every == 0 and done < self.n_steps:
            self.checkpoints.write(*self._parts())

    def resume(self) -> None:
        """Continue from the file, if there is one and it is of this run."""
        path, stored = self.checkpoints.path, self.checkpoints.read()
        if stored is None:
            return
        meta, arrays = stored
        self.checkpoints.refuse_other_run(self.description, meta["run"])
        try:
            restore_training(self.monitor, self._steps_before, self.n_steps, meta, arrays)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CHECKPOINT.damaged(path, f"its content is not understood: {error}") from error
        done, total = self.learner.n_steps, counted(self.n_steps, self._step_word)
        self.checkpoints.say(f"{path}: resuming after {done:,} of {total}.")

    def _parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        meta, arrays = self.learner.state(self.monitor.best_snapshot)
        watched, curves = self.monitor.state()
        return {"run": self.description} | meta | watched, arrays | curves


def restore_training(
    monitor: Monitor, steps_before: int, n_steps: int, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Check the monitor's part, let the learner check its own and continue, then continue with the monitor."""
    learner, names = monitor.learner, {*monitor.curve_names(), "best_value"}
    refuse_other_names({"best", "run"}, meta.keys() & {"best", "run"})
    refuse_other_names(names, arrays.keys() & names)
    best, best_value = read_count(meta, "best", n_steps), read_numbers(arrays, "best_value", 1, unset=-np.inf)
    learned = {name: array for name, array in arrays.items() if name not in names}
    steps = learner.checked_steps(learned) - steps_before
    curves = {name: read_numbers(arrays, name, steps, unset=np.nan).tolist() for name in monitor.curve_names()}
    snapshot = learner.restore({key: meta[key] for key in meta.keys() - {"best", "run"}}, learned)
    monitor.restore(best, float(best_value[0]), snapshot, curves)
