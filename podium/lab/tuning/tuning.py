"""Tuning: settings of a model chosen on validation data.

Trial by trial the model is trained on one part and judged on another, which also decides the number of trees, rounds
or epochs. Neither part is test data, and nothing else reaches this module: what it chooses cannot have looked at
the labels of a test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

from podium._runtime.progress import notebook_progress
from podium._runtime.words import counted
from podium.data.ranking import RankingData
from podium.evaluation.leaderboard import Name, best_first
from podium.lab.tuning.samplers import Proposal, Sampler, make_sampler
from podium.lab.tuning.spaces import Choices, Space, parse_space
from podium.metrics.base import Metric
from podium.models.frame.estimator import clone
from podium.models.frame.init_model import refuse_fitted_inits
from podium.models.frame.parameters import INTEGER, NUMBER
from podium.models.frame.plan import Progress
from podium.models.frame.ranker import Ranker
from podium.pipelines.auto.criteria import criterion_value, criterion_words, parse_criterion

_NOTES = {"pruned": "pruned", "out": "out of time", "failed": "failed"}  # by the first word of a note
_ASKED_PER_TRIAL = 20  # settings that were tried already are not tried again

Report = Callable[[int, int, str], None]  # trials done, trials in all, what is known


@dataclass(frozen=True)
class Trial:
    """One setting that tuning tried; `value` is None where the trial was pruned or failed, for the reason in `note`."""

    settings: dict[str, Any]
    value: float | None
    step: int | None = None  # the best step: trees, rounds or epochs
    seconds: float = 0.0
    note: str = ""


def rank_trials(trials: Mapping[Name, Trial], criterion: str) -> list[Name]:
    """The best trial first; criterion: what was chosen by, such as "ndcg@10 (letor4)"."""
    values = {name: math.nan if trial.value is None else trial.value for name, trial in trials.items()}
    return best_first(values, is_maximised(criterion))


def is_maximised(criterion: str) -> bool:
    return parse_criterion(criterion.partition(" ")[0]).higher_is_better


@dataclass(frozen=True)
class Tuned:
    """What tuning tried, and what it chose."""

    trials: tuple[Trial, ...]
    chosen: dict[str, Any]  # to be set on the model; trained on the same rows with these, it is `model`
    model: Ranker  # the best one, fitted
    seconds: float
    criterion: str  # such as "ndcg@10 (standard)"
    sampler: str  # "optuna" or "random"
    best: int  # the number of the best trial, from 0

    @property
    def value(self) -> float:
        """What the best trial reached on the validation data."""
        value = self.trials[self.best].value
        assert value is not None
        return value

    def ranked(self) -> list[tuple[int, Trial]]:
        """Trials that gave a model, with their numbers from 0, best first."""
        known = {number: trial for number, trial in enumerate(self.trials) if trial.value is not None}
        return [(number, known[number]) for number in rank_trials(known, self.criterion)]

    @property
    def resolved(self) -> dict[str, Any]:
        """Of the parameters that may be "auto", the values that the training of the best model had."""
        return dict(getattr(self.model, "resolved_params_", {}))

    def summary(self) -> str:
        """`"20 trials (optuna): 12 complete, 7 pruned, 1 failed"`"""
        notes = [trial.note.split()[0].rstrip(":") for trial in self.trials if trial.note]
        others = [f"{notes.count(word)} {words}" for word, words in _NOTES.items() if word in notes]
        listed = ", ".join([f"{len(self.trials) - len(notes)} complete", *others])
        return f"{counted(len(self.trials), 'trial')} ({self.sampler}): {listed}"

    def as_dict(self) -> dict[str, Any]:
        chosen, trials = plain_value(self.chosen), [asdict(trial) for trial in self.trials]
        shown: dict[str, Any] = {"model": type(self.model).__name__, "criterion": self.criterion}
        shown |= {"sampler": self.sampler, "value": self.value, "chosen": chosen}
        shown |= {"resolved_params": self.resolved} if self.resolved else {}
        return shown | {"seconds": self.seconds, "trials": trials}


def tune(
    model: Ranker,
    space: Mapping[str, Any] | None,
    train: RankingData,
    valid: RankingData,
    *,
    metric: str = "ndcg@10",
    policy: str = "standard",
    trials: int = 20,
    seconds: float | None = None,
    random_state: int = 0,
    sampler: str = "auto",
    report: Report | None = None,
) -> Tuned:
    """Choose settings for `model` out of `space` by training on `train` and judging by `valid`.

    `space` is `{parameter: [choices]}` or `{parameter: {"low": .., "high": .., "log": ..}}`; None takes the default
    space of the model. `metric` may be a sum, "map+meanndcg". The settings of the model itself are tried first, where
    they lie within the space. A trial that fails is recorded, and the others are tried. With `seconds` no
    trial begins after that time; without, the result depends on the arguments only. `sampler` is "optuna" (extra
    `tune`), "random", or "auto" for the first one that is installed.
    """
    if not INTEGER.holds(trials) or trials < 1:
        raise ValueError(f"trials must be an integer from 1; got {trials!r}.")
    if seconds is not None and not (NUMBER.holds(seconds) and 0 < seconds < np.inf):
        raise ValueError(f"seconds must be above 0 and finite, or None; got {seconds!r}.")
    if not INTEGER.holds(random_state) or random_state < 0:
        raise ValueError(f"random_state must be an integer from 0; got {random_state!r}.")
    parsed = parse_space(model, default_space(model) if space is None else space)
    _refuse_fitted_inits(model, parsed)
    search = _Search(model, parsed, train, valid, parse_criterion(metric, policy), seconds)
    proposing = make_sampler(sampler, parsed, parsed.settings_of(model, train), random_state, search.n_steps)
    with notebook_progress(f"tuning {type(model).__name__}") as bar:
        return search.run(proposing, trials, bar if report is None else report)


class _Search:
    """The trials of one call of `tune`."""

    def __init__(
        self, model: Ranker, space: Space, train: RankingData, valid: RankingData, metric: Metric, seconds: float | None
    ) -> None:
        valid.labels_for("tune")
        self.model, self.space, self.train, self.valid, self.metric = model, space, train, valid, metric
        self.started = perf_counter()
        self.deadline = np.inf if seconds is None else self.started + seconds
        self.steps = _deciding_parameter(model, space)
        self.n_steps = 1 if self.steps is None else int(model.get_params(deep=False)[self.steps])
        self.trials: list[Trial] = []
        self.best, self.best_value, self.best_model = -1, -np.inf, model
        self.chosen: dict[str, Any] = {}

    def run(self, sampler: Sampler, trials: int, report: Report | None) -> Tuned:
        seen: list[dict[str, Any]] = []
        for _ in range(_ASKED_PER_TRIAL * trials):
            if len(self.trials) == trials or len(seen) >= self.space.size or perf_counter() > self.deadline:
                break
            proposal = sampler.ask()
            if proposal.settings in seen:
                sampler.tell(proposal, self._known(seen.index(proposal.settings)), pruned=True)
                continue
            seen.append(proposal.settings)
            self._try(proposal, sampler)
            if report is not None:
                report(len(self.trials), trials, "" if self.best < 0 else f"best {self._shown(self.best_value):.4f}")
        return self._result(sampler)

    def _known(self, number: int) -> float | None:
        """The value of an earlier trial, more being better."""
        value = self.trials[number].value
        return None if value is None else self._shown(value)

    def _shown(self, value: float) -> float:
        """The metric itself from a value of which more is better, and back."""
        return value if self.metric.higher_is_better else -value

    def _try(self, proposal: Proposal, sampler: Sampler) -> None:
        started, settings = perf_counter(), proposal.settings
        watcher = _Watcher(proposal, self.metric, self.deadline if self.best >= 0 else np.inf)
        try:
            model = self._fit(settings, watcher)
            value = None if watcher.note else criterion_value(model.predict(self.valid), self.valid, self.metric)
            note = watcher.note
        except Exception as error:  # whatever one setting leads to, the others are tried
            model, value, note = self.model, None, f"failed: {error}"
        step = None if self.steps is None or value is None else int(model.best_iteration_)
        shown = None if value is None else self._shown(value)
        self.trials.append(Trial(plain_value(settings), shown, step, perf_counter() - started, note))
        sampler.tell(proposal, value, pruned=bool(watcher.note))
        if value is not None and value > self.best_value:
            self.best, self.best_value, self.best_model = len(self.trials) - 1, value, model
            self.chosen = settings | self._decided(model)

    def _fit(self, settings: Mapping[str, Any], watcher: _Watcher) -> Ranker:
        model: Ranker = clone(self.model).set_params(**settings)
        eval_metric = model.eval_metric
        options: dict[str, Any] = {}
        if self.steps is not None:
            model.set_params(eval_metric=self.metric)
            options = {"early_stopping_rounds": max(20, self.n_steps // 5), "callbacks": [watcher]}
        if self.steps is not None or _chooses_weights(model) or _chooses_plan(model):
            options |= {"eval_set": self.valid}
        model.fit(self.train, **options)
        model.eval_metric = eval_metric
        return model

    def _decided(self, model: Any) -> dict[str, Any]:
        """What the validation data decided in the training itself."""
        decided: dict[str, Any] = {} if self.steps is None else {self.steps: int(model.best_iteration_)}
        if _chooses_plan(model):
            decided["plan"] = model.plan_
        return decided | ({"weights": model.weights_.tolist()} if _chooses_weights(model) else {})

    def _result(self, sampler: Sampler) -> Tuned:
        if not self.trials:
            raise ValueError(
                f"{type(self.model).__name__}: the time was over before the first trial began. Give more seconds."
            )
        if self.best < 0:
            first = self.trials[0]
            raise ValueError(
                f"{type(self.model).__name__}: no trial of {len(self.trials)} gave a model. The first one, with "
                f"{first.settings}, {first.note} Change the space, or the settings that all trials share."
            )
        seconds = perf_counter() - self.started
        search = tuple(self.trials), self.chosen, self.best_model, seconds
        return Tuned(*search, criterion_words(self.metric), sampler.name, self.best)


class _Watcher:
    """A callback that ends a trial: as hopeless, or because the time is over."""

    def __init__(self, proposal: Proposal, metric: Metric, deadline: float) -> None:
        self.proposal, self.metric, self.deadline = proposal, metric, deadline
        self.note, self._best = "", -np.inf

    def __call__(self, progress: Progress) -> bool:
        value = progress.evals["eval_0"][self.metric.name][-1]
        self._best = max(self._best, value if self.metric.higher_is_better else -value)
        if self.proposal.is_hopeless(progress.iteration, self._best):
            self.note = f"pruned after {progress.iteration} of {progress.total}"
        elif perf_counter() > self.deadline:
            self.note = f"out of time after {progress.iteration} of {progress.total}"
        return bool(self.note)


def _refuse_fitted_inits(model: Ranker, space: Space) -> None:
    """Refuse a fitted `init`, of the model and of what may be tried."""
    refuse_fitted_inits(model, "tune")
    for name, dimension in space.dimensions.items():
        for choice in dimension.values if isinstance(dimension, Choices) else ():
            refuse_fitted_inits(clone(model).set_params(**{name: choice}), "tune")


def plain_value(value: Any) -> Any:
    """A setting as JSON has it; models and other objects as they are written in Python."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def default_space(model: Ranker) -> Mapping[str, Any]:
    """The space of the model's class, or an error that asks for one."""
    if not model.search_space:
        raise ValueError(f'{type(model).__name__} has no default space; give one, such as {{"parameter": [1, 2]}}.')
    return model.search_space


def _deciding_parameter(model: Ranker, space: Space) -> str | None:
    """The parameter that the learning curve decides: the number of steps, unless it is searched for or shapes them.

    Where the learning rate falls until the last epoch, a net that stops at its best epoch is another one than a net
    with so many epochs.
    """
    parameters, steps = model.get_params(deep=False), model.steps_parameter
    if steps is None or steps in space.dimensions:
        return None
    shaping = {"schedule": "constant", "warmup": 0.0}
    shaped = (name in space.dimensions or parameters[name] != shaping[name] for name in shaping if name in parameters)
    return None if any(shaped) else steps


def _chooses_plan(model: Ranker) -> bool:
    """Whether it is an AutoRanker, which makes a plan of its parameters; with that plan it chooses nothing again."""
    return "plan" in (parameters := model.get_params(deep=False)) and parameters["plan"] is None


def _chooses_weights(model: Ranker) -> bool:
    return getattr(model, "weights", None) in ("greedy", "coordinate")
