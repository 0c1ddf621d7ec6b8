"""Tasks: one search or one run of an experiment, from the data to the stored file."""

from __future__ import annotations

import io
import math
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from podium.data.ranking import RankingData
from podium.evaluation.evaluating import evaluate
from podium.evaluation.leaderboard import best_first
from podium.explain.permutation import permutation_importance
from podium.lab.experiments.experiment import Experiment, ModelSpec
from podium.lab.experiments.folds import Fold, Folds
from podium.lab.experiments.looks import record_look
from podium.lab.experiments.making import PICK, make, members_of, needed_by
from podium.lab.experiments.provenance import peak_memory, reset_peak_memory
from podium.lab.experiments.records import ModelRun, Search, defined
from podium.lab.experiments.results import (
    mean_of_known,
    read_model_run,
    read_search,
    run_file,
    save_run,
    save_search,
    search_file,
)
from podium.lab.tuning import tuning
from podium.lab.tuning.tuning import is_maximised, plain_value
from podium.metrics.policies import get_policy
from podium.metrics.registry import parse_metric
from podium.models.frame.inspection import feature_names
from podium.models.frame.ranker import Ranker
from podium.models.frame.transforms import KINDS

_PERMUTATION_SECONDS = 3.0  # what permutation importances may take per run


@dataclass(frozen=True)
class Task:
    """What a worker does: choose the settings of a model in a fold, or train it with a seed and test it."""

    kind: str  # "search" or "run"
    model: str
    fold: str
    seed: int = 0

    def __str__(self) -> str:
        seed = f", seed {self.seed}" if self.kind == "run" else ", tuning"
        return f"{self.model}, fold {self.fold}{seed}"

    def file(self, folder: Path) -> Path:
        if self.kind == "search":
            return search_file(folder, self.model, self.fold)
        return run_file(folder, self.model, self.fold, self.seed)


@dataclass(frozen=True)
class Validation:
    """What a model reached on the validation part: the criterion, and by policy and metric."""

    criterion: float | None
    values: dict[str, dict[str, float | None]] = field(default_factory=dict)


@dataclass
class Session:
    """An experiment with its data, in one process; the fold in use stays in memory."""

    experiment: Experiment
    folds: Folds
    folder: Path
    threads: int = 1
    plugins: tuple[str, ...] = ()
    _fold: Fold | None = field(default=None, repr=False)

    def perform(self, task: Task) -> None:
        """Do the task and write its file."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            if task.kind == "search":
                save_search(self.folder, self._search(task))
                return
            run = self._run(task)
        run.notes.extend(dict.fromkeys(str(warning.message) for warning in caught))
        save_run(self.folder, run)

    def fold(self, name: str) -> Fold:
        if self._fold is None or self._fold.name != name:
            self._fold = None  # so that two folds are never in memory
            self._fold = self.folds.load(name, test=self.experiment.on == "test")
        return self._fold

    def _search(self, task: Task) -> Search:
        experiment, spec, fold = self.experiment, self.experiment.models[task.model], self.fold(task.fold)
        model = self._make(task, self._chosen(needed_by(experiment, task.model), task.fold))
        criterion, policy, budget = experiment.judged_by, experiment.policies[0], experiment.budget
        options: dict[str, Any] = {"metric": criterion, "policy": policy, "sampler": spec.sampler}
        options |= {"trials": spec.trials or budget.trials, "seconds": spec.seconds or budget.seconds}
        tuned = tuning.tune(model, spec.space, fold.train, fold.valid, **options)
        chosen = plain_value(tuned.chosen)
        return Search(task.model, task.fold, f"{criterion} ({policy})", tuned.trials, chosen, tuned.seconds)

    def _stored_search(self, name: str, fold: str) -> Search | None:
        """Of a model that is tuned."""
        return read_search(search_file(self.folder, name, fold)) if self.experiment.models[name].space else None

    def _chosen(self, names: Iterable[str], fold: str) -> dict[str, Mapping[str, Any]]:
        """By model, what tuning chose in the fold."""
        searches = {name: self._stored_search(name, fold) for name in names}
        return {name: {} if search is None else search.chosen for name, search in searches.items()}

    def _make(self, task: Task, chosen: Mapping[str, Any]) -> Ranker:
        """The model of a task, unfitted."""
        model = make(self.experiment, task.model, task.fold, chosen, task.seed, self.threads)
        if model.eval_metric is None:
            policy = get_policy(self.experiment.policies[0])
            model.set_params(eval_metric=parse_metric(self.experiment.metrics[0], policy))
        return model

    def _run(self, task: Task) -> ModelRun:
        experiment, spec, fold = self.experiment, self.experiment.models[task.model], self.fold(task.fold)
        picked = self._picked(task)
        if picked is not None and not self._folds_in(spec):
            return self._copied(task, picked)
        source = task if picked is None else replace(task, model=picked.model)
        chosen = self._chosen([*needed_by(experiment, source.model), source.model], task.fold)
        tested = fold.valid if fold.test is None else fold.test
        reset_peak_memory()
        started = time.perf_counter()
        if picked is None:
            model, validation = self._train(task, spec, chosen, fold)
        else:
            model = self._folded(source, chosen, fold, picked.settings)
            validation = Validation(picked.validation, picked.validation_values)
        fit_seconds, memory = time.perf_counter() - started, peak_memory()
        started = time.perf_counter()
        scores = model.predict(tested)
        predict_seconds = time.perf_counter() - started
        if fold.test is not None:
            record_look(self.folder, task.model, task.fold, task.seed)
        per_query, values = judge(scores, tested, experiment.metrics_of(task.model), experiment.policies)
        trained = experiment.models[source.model]
        fixed = trained.settings | trained.by_fold.get(task.fold, {})
        settings = {**fixed, **chosen[source.model], **_steps_of(model)}
        is_first = task.seed == experiment.seeds_of(task.model)[0]
        return ModelRun(
            task.model,
            task.fold,
            task.seed,
            settings if picked is None else {"picked": picked.model} | settings,
            tuple(map(str, tested.query_ids)),
            per_query,
            values,
            curves=_named_curves(model),
            importances=_importances(model, fold.valid, predict_seconds, is_first),
            fit_seconds=fit_seconds,
            predict_seconds=predict_seconds,
            peak_memory=memory,
            model_bytes=_size_of(model),
            validation=validation.criterion,
            validation_values=validation.values,
        )

    def _folds_in(self, spec: ModelSpec) -> bool:
        """Whether the validation part is trained on in the end; not where it is what models are judged by."""
        return spec.refit == "train+valid" and self.experiment.on == "test"

    def _picked(self, task: Task) -> ModelRun | None:
        """Of a pick, the run of the member that is best on the validation part, on average over its seeds.

        A member without this seed, as nothing in it is random, has one run for all.
        """
        members = members_of(self.experiment, task.model)
        if not members:
            return None
        runs = {name: self._runs_of(name, task.fold) for name in members}
        means = {name: mean_of_known(run.validation for run in runs[name].values()) for name in members}
        best = best_first(means, is_maximised(self.experiment.judged_by))[0]
        if math.isnan(means[best]):
            raise ValueError(f"no member has a value on the validation part of fold {task.fold}.")
        return runs[best].get(task.seed, next(iter(runs[best].values())))

    def _runs_of(self, name: str, fold: str) -> dict[int, ModelRun]:
        """Finished runs of a model, by seed."""
        seeds = self.experiment.seeds_of(name)
        return {seed: read_model_run(run_file(self.folder, name, fold, seed)) for seed in seeds}

    def _copied(self, task: Task, run: ModelRun) -> ModelRun:
        """The run of a member as that of the pick."""
        shown = self.experiment.metrics_of(task.model)

        def part(values: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
            return {policy: {metric: by_metric[metric] for metric in shown} for policy, by_metric in values.items()}

        return replace(
            run,
            model=task.model,
            seed=task.seed,
            settings={"picked": run.model} | run.settings,
            per_query=part(run.per_query),
            values=part(run.values),
            validation_values=part(run.validation_values),
        )

    def _train(self, task: Task, spec: ModelSpec, chosen: Mapping[str, Any], fold: Fold) -> tuple[Ranker, Validation]:
        """The trained model, and its values on the validation part, which are measured before that is folded in."""
        folded = self._folds_in(spec)
        steps: dict[str, Any] = {}
        search = self._stored_search(task.model, task.fold) if folded else None
        validation = Validation(None if search is None else search.best_value)
        if not folded or spec.early_stopping_rounds is not None or self._is_picked_from(task.model):
            model = self._make(task, chosen)
            # Without this, nets stop early; the curve is only recorded here.
            rounds = spec.early_stopping_rounds or False
            model.fit(fold.train, eval_set=[fold.valid], early_stopping_rounds=rounds)
            validation = self._validate(task, model, fold.valid)
            steps = _steps_of(model) if spec.early_stopping_rounds is not None else {}
        if not folded:
            return model, validation
        return self._folded(task, chosen, fold, steps), validation

    def _folded(self, task: Task, chosen: Mapping[str, Any], fold: Fold, steps: Mapping[str, Any]) -> Ranker:
        """The model trained on the training and the validation part, with the number of steps in `steps`."""
        both = RankingData.concat([fold.train, fold.valid])
        model = self._make(task, chosen)
        name = model.steps_parameter
        if name is not None and name in steps:
            model.set_params(**{name: steps[name]})
        return model.fit(both)

    def _is_picked_from(self, name: str) -> bool:
        """Whether the value on the validation part decides something, and tuning has not measured it."""
        specs = self.experiment.models
        picked = any(name in spec.members for spec in specs.values() if spec.kind.lower() == PICK)
        return picked and not specs[name].space

    def _validate(self, task: Task, model: Ranker, data: RankingData) -> Validation:
        scores, criterion = model.predict(data), self.experiment.judged_by.split("+")
        evaluation = evaluate(scores, data, metrics=criterion, policy=self.experiment.policies[0])
        _, values = judge(scores, data, self.experiment.metrics_of(task.model), self.experiment.policies)
        return Validation(defined(sum(evaluation[name] for name in criterion)), values)


def judge(
    scores: np.ndarray, data: RankingData, metrics: tuple[str, ...], policies: tuple[str, ...]
) -> tuple[dict[str, dict[str, list[float | None]]], dict[str, dict[str, float | None]]]:
    """Values per query, and their means, by policy and metric."""
    evaluations = {policy: evaluate(scores, data, metrics=metrics, policy=policy) for policy in policies}
    per_query = {
        policy: {name: [defined(value) for value in one.per_query[name]] for name in metrics}
        for policy, one in evaluations.items()
    }
    means = {policy: {name: defined(one[name]) for name in metrics} for policy, one in evaluations.items()}
    return per_query, means


def _steps_of(model: Ranker) -> dict[str, Any]:
    """The number of steps of a fitted model, by the name of its parameter."""
    name = model.steps_parameter
    return {} if name is None or not hasattr(model, "best_iteration_") else {name: int(model.best_iteration_)}


def _named_curves(model: Ranker) -> dict[str, dict[str, list[float]]]:
    return {
        "valid" if name == "eval_0" else name: {
            metric: [float(value) for value in curve] for metric, curve in curves_of_set.items()
        }
        for name, curves_of_set in getattr(model, "evals_", {}).items()
        if all(np.isfinite(curve).all() for curve in curves_of_set.values())
    }


def _importances(model: Ranker, valid: RankingData, predict_seconds: float, first: bool) -> dict[str, float]:
    """Shares of the features: as the model has them or, where it has none and scoring is quick, by permutation."""
    names = list(map(str, feature_names(model)))
    shares = getattr(model, "feature_importances_", None)
    if shares is not None:
        columns = list(map(str, model.column_names_))
        if len(columns) != len(shares):
            return {}
        owner = {name: name for name in names} | {f"{kind}({name})": name for name in names for kind in KINDS}
        totals = dict.fromkeys(names, 0.0)
        for column, share in zip(columns, shares):
            if column in owner:
                totals[owner[column]] += float(share)
        return totals
    if not first or valid.n_features * max(predict_seconds, 1e-3) > _PERMUTATION_SECONDS:
        return {}
    importances = permutation_importance(model, valid, repeats=1)
    return {name: float(drop) for name, drop, _ in importances.sorted()}


def _size_of(model: Any) -> int:
    if hasattr(model, "file_size"):
        return int(model.file_size())
    file = io.BytesIO()
    try:
        model.save(file)
    except ValueError:  # an estimator of scikit-learn that no model file can hold
        return 0
    return len(file.getvalue())
