"""Running an experiment: its tasks over processes, continued where an earlier run ended.

A task is finished when its file is there, and files are written whole, so a run that was killed repeats only what was
under way. Searches come before the runs that need them. A task that fails is reported, and the others are run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium._runtime import plugins
from podium._runtime.files import write_whole
from podium._runtime.progress import notebook_progress
from podium._runtime.threads import usable_threads
from podium._runtime.warn import warn
from podium._runtime.words import check_choice
from podium.lab.experiments.datasets import DATASETS, find_dataset
from podium.lab.experiments.experiment import Experiment, ModelSpec, Published, read_experiment
from podium.lab.experiments.folds import Folds
from podium.lab.experiments.making import PICK, entry_of, members_of, needed_by, reason_to_leave_out
from podium.lab.experiments.protocols import MAY_CHANGE, digest_of, joined, plain_of, protocol_of, rows_of
from podium.lab.experiments.provenance import data_of, hardware, versions
from podium.lab.experiments.results import Results, save_about, write_tables
from podium.lab.experiments.tasks import Session, Task
from podium.lab.experiments.workers import Answer, Workers, end_if_starting

Report = Callable[[float, float, str], None]
_FAILURES, _ABOUT, _LOCK = "failures.json", "experiment.json", "run.lock"


@dataclass(frozen=True)
class Failure:
    """A task that did not finish."""

    model: str
    fold: str
    seed: int | None  # None: the search
    error: str
    details: str = ""

    def __str__(self) -> str:
        what = "tuning" if self.seed is None else f"seed {self.seed}"
        return f"{self.model}, fold {self.fold}, {what}: {self.error}"


@dataclass(frozen=True)
class Outcome:
    """What came out of `run`."""

    folder: Path
    results: Results
    failures: tuple[Failure, ...]
    left_out: dict[str, str]  # models that need what is not installed, and what that is
    done: int  # tasks of this call; those of earlier ones were finished already
    rows: Mapping[str, str] = field(default_factory=dict)  # model of the experiment -> its row in the results

    @property
    def is_complete(self) -> bool:
        return not self.failures


def run(
    experiment: Experiment | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    n_jobs: int | None = None,
    models: Sequence[str] | None = None,
    folds: Sequence[str] | None = None,
    base: str | os.PathLike[str] | None = None,
    threads: int = 1,
    report: Report | None = None,
) -> Outcome:
    """Run an experiment, or what is missing of it, and write its results to a folder.

    experiment: an `Experiment`, a mapping with its words, a TOML file, or the name of a preset. `models` and `folds`
    select some of them; `n_jobs` is the number of processes (None: one per core), each with `threads` threads; `base`
    is the folder that files of the data are relative to, by default that of the TOML file. In a script, call it under
    `if __name__ == "__main__":`, as processes need.
    """
    end_if_starting()
    experiment, beside = _as_experiment(experiment)
    known_folds = experiment.folds_in(beside if base is None else base)
    target = Path(folder)
    experiment.refuse_other_folds(known_folds.names)
    chosen = _selected("models", models, list(experiment.models))
    chosen_folds = _selected("folds", folds, list(known_folds.names))
    processes = usable_threads(n_jobs)
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads must be an integer from 1; got {threads!r}.")
    _refuse_bad_folder(target)
    _warn_of_other_content(experiment)
    target.mkdir(parents=True, exist_ok=True)
    with _alone_in(target):
        about, experiment, rows = _begin(target, experiment, known_folds)
        chosen = [rows[name] for name in chosen]
        left_out = {name: why for name in chosen if (why := reason_to_leave_out(experiment, name)) is not None}
        if left_out != about.get("left_out"):
            save_about(target, about | {"left_out": left_out})
        tasks = list(_plan(experiment, [name for name in chosen if name not in left_out], chosen_folds))
        missing = [task for task in tasks if not task.file(target).is_file()]
        session = Session(experiment, known_folds, target, threads, tuple(plugins.imported))
        failed: dict[Task, Answer] = {}
        try:
            with notebook_progress(f"running {experiment.name}") as bar:
                _perform(missing, session, processes, failed, bar if report is None else report, len(tasks))
        finally:
            failures = tuple(map(_failure, failed.values()))
            _finish(target, failures)
        return Outcome(target, Results.load(target), failures, left_out, len(missing), rows)


def _warn_of_other_content(experiment: Experiment) -> None:
    """Of a known data set whose files are not those that were published."""
    if experiment.data.name is not None and experiment.data.folder is None:
        for problem in find_dataset(experiment.data.name, test=experiment.on == "test").problems():
            warn(problem)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder. The system's lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / _LOCK, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{folder}: another run writes its results here. Wait for it, or choose another."
            ) from None
        yield


def _as_experiment(experiment: Any) -> tuple[Experiment, Path]:
    if isinstance(experiment, Experiment):
        return experiment, Path()
    if isinstance(experiment, Mapping):
        return Experiment(**experiment), Path()
    return read_experiment(experiment)


def _selected(what: str, names: Sequence[str] | None, known: list[str]) -> list[str]:
    if names is None:
        return known
    if not names:
        raise ValueError(f"{what}: expected at least one of {', '.join(known)} but found none.")
    for name in names:
        check_choice(what, name, known)
    return [name for name in known if name in names]


def _plan(experiment: Experiment, models: list[str], folds: list[str]) -> Iterator[Task]:
    """All tasks, fold by fold, searches first. Members of a pick are run with it."""
    asked = {*models, *(member for name in models for member in members_of(experiment, name))}
    trained = [name for name in experiment.models if name in asked]
    needed = dict.fromkeys([*(other for name in trained for other in needed_by(experiment, name)), *trained])
    for fold in folds:
        yield from (Task("search", name, fold) for name in needed if experiment.models[name].space)
        yield from (Task("run", name, fold, seed) for name in trained for seed in experiment.seeds_of(name))


def _needs(experiment: Experiment, task: Task) -> set[Task]:
    """Tasks that have to be finished before: searches, and the runs that a pick picks from."""
    names = needed_by(experiment, task.model) + ([task.model] if task.kind == "run" else [])
    searches = {Task("search", name, task.fold) for name in names if experiment.models[name].space}
    members = members_of(experiment, task.model)
    return searches | {Task("run", name, task.fold, seed) for name in members for seed in experiment.seeds_of(name)}


def _perform(
    missing: list[Task], session: Session, n_jobs: int, failed: dict[Task, Answer], report: Report | None, total: int
) -> None:
    waiting, unfinished, done = list(missing), set(missing), total - len(missing)
    workers = Workers(min(n_jobs, max(len(missing), 1)), session)
    try:
        while waiting or workers.running:
            for task in list(waiting):
                needs = _needs(session.experiment, task)
                if not needs.isdisjoint(failed):
                    waiting.remove(task)
                    cause = min((one for one in needs if one in failed), key=str)
                    failed[task] = Answer(task, f"it needs {cause}, which failed: {failed[cause].error}")
                elif workers.free and needs.isdisjoint(unfinished):
                    waiting.remove(task)
                    workers.begin(task)
            for answer in workers.answers() if workers.running else ():
                unfinished.discard(answer.task)
                done += 1
                if answer.error:
                    failed[answer.task] = answer
                if report is not None:
                    report(done, total, str(answer.task))
    finally:
        workers.end()


def _failure(answer: Answer) -> Failure:
    task = answer.task
    return Failure(task.model, task.fold, task.seed if task.kind == "run" else None, answer.error, answer.details)


def _refuse_bad_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; expected a folder for results.")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    if not {*names} <= {_LOCK} and _ABOUT not in names:
        raise ValueError(f"{folder}: holds other files and no results of an experiment. Choose a new folder.")


def _begin(folder: Path, experiment: Experiment, folds: Folds) -> tuple[dict[str, Any], Experiment, dict[str, str]]:
    """Begin a folder of results, or go on in the one that is there: its description, all rows, and those asked for."""
    about = _about(experiment, folds)
    if not (folder / _ABOUT).is_file():
        about["protocols"] = [protocol_of(experiment, 1, list(experiment.models))]
        save_about(folder, about)
        return about, experiment, {name: name for name in experiment.models}
    before: dict[str, Any] = Results.load(folder).about
    _refuse_other_rules(folder, before, about)
    stored = Experiment(source=str(folder / _ABOUT), **before["experiment"])
    rows = rows_of(experiment, stored)
    together = joined(experiment, stored, rows)
    protocols, digest = before.get("protocols", []), digest_of(experiment)
    if digest not in [protocol["digest"] for protocol in protocols]:
        new = [row for row in rows.values() if row not in stored.models]
        protocols = [*protocols, protocol_of(experiment, len(protocols) + 1, new)]
    stays = {key: before[key] for key in ("versions", "hardware", "left_out") if key in before}
    about = _about(together, folds) | stays | {"protocols": protocols}
    if about != before:
        save_about(folder, about)
    for part in [*folder.glob("*/.*.part"), *folder.glob(".*.part")]:  # of a run that was killed while it wrote
        part.unlink(missing_ok=True)
    return about, together, rows


def _refuse_other_rules(folder: Path, before: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Refuse what would not be comparable with the rows that are there."""
    for key in ("experiment", "data"):
        old, new = ({name: one[key][name] for name in one[key] if name not in MAY_CHANGE} for one in (before, about))
        difference = _first_difference(old, new, "" if key == "experiment" else "data")
        if difference is not None:
            path, there, here = difference
            raise ValueError(
                f"{folder}: holds results of another experiment: {path} is {there} there and {here} here. Choose "
                "another folder, or delete this one."
            )


def _about(experiment: Experiment, folds: Folds) -> dict[str, Any]:
    plain = plain_of(experiment)
    keys = ("name", "title", "metrics", "policies", "seeds", "baseline", "on")
    return {
        **{key: plain[key] for key in keys},
        "criterion": f"{experiment.judged_by} ({experiment.policies[0]})",
        "folds": list(folds.names),
        "turns": folds.turns,
        "development": _development(experiment.data.name),
        "models": {name: _described(experiment.models[name], plain["models"][name]) for name in experiment.models},
        "published": [_table(table, folds) for table in experiment.published],
        "data": data_of(folds, experiment.data.name, test=experiment.on == "test"),
        "versions": versions(),
        "hardware": hardware(),
        "experiment": plain,
    }


def _development(name: str | None) -> str:
    return "" if name is None else DATASETS[name.lower()].development


def _described(spec: ModelSpec, plain: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says about a model."""
    described = spec.about or ("" if spec.kind.lower() == PICK else entry_of(spec.kind).about)
    settings = {name: value for name, value in plain.items() if name in spec.settings}
    rest = {name: value for name, value in plain.items() if name not in (*spec.settings, "about", "metrics", "seeds")}
    return {"description": described, "settings": settings, **rest}


def _table(table: Published, folds: Folds) -> dict[str, Any]:
    """A published table: one value per fold, and then the mean."""
    values = {
        metric: [*row, table.mean.get(metric, sum(row) / len(row) if row else None)]
        for metric, row in table.values.items()
    }
    about = {key: getattr(table, key) for key in ("title", "model", "policy", "part", "source")}
    return about | {"folds": list(folds.names), "metrics": list(table.values), "values": values}


def _first_difference(old: Any, new: Any, path: str) -> tuple[str, str, str] | None:
    """Where two plain values differ first, and what is there in each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            inner = old.get(key, "missing"), new.get(key, "missing")
            difference = _first_difference(*inner, f"{path}.{key}".lstrip("."))
            if difference is not None:
                return difference
        return None
    return None if old == new else (path or "it", json.dumps(old), json.dumps(new))


def _finish(folder: Path, failures: Sequence[Failure]) -> None:
    """The tables of what has finished, and the failures."""
    write_tables(folder, Results.load(folder))
    if not failures:
        (folder / _FAILURES).unlink(missing_ok=True)
        return
    with write_whole(folder / _FAILURES) as file:
        file.write(json.dumps([failure.__dict__ for failure in failures], indent=1).encode() + b"\n")
