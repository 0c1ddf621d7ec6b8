"""Training on a Dask cluster, as the client directs it: `fit(..., client=client)`.

    partitions are spilled -> a generation: ranks on all workers, rows shuffled, trees added -> the model

What fails with a worker ends the generation. The next one has the workers that are left, continues from the last state
that the client has, and grows the same trees. If the scheduler is lost, a checkpoint file holds that state.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from io import BytesIO
from typing import Any

from podium._runtime.interrupts import check_interrupts
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.categories import united
from podium.data.ranking import RankingData
from podium.data.sharding.collective import TIMEOUT, CollectiveError
from podium.distributed.fitting import Order, Report, State
from podium.distributed.partitions import Source, is_distributed, source_of
from podium.distributed.ranks import Share, call, close_rank, open_rank
from podium.distributed.refusals import refuse_options, refuse_other_models
from podium.distributed.shuffling import Rows
from podium.distributed.spilling import Spilled, machine_name, remove_spilled, same_everywhere, spill, spilled_already
from podium.models.frame.arguments import as_eval_sets, check_callbacks, check_early_stopping, check_verbose
from podium.models.frame.fitting import printing
from podium.models.frame.plan import Callback, FitOptions, Interrupted, Progress
from podium.models.frame.ranker import Ranker
from podium.persistence.checkpoints import Checkpoints
from podium.persistence.saving import load

_FRUITLESS = 5  # generations that end without a further step before the training gives up
_STATE_SECONDS = 5.0  # between two states that are kept in memory only
_BATCH_SECONDS = 0.5  # of steps between two words from the client: Ctrl-C is noticed then


class GenerationLost(ConnectionError):
    """A worker was lost, and with it the generation."""


class SchedulerLost(ConnectionError):
    """The client has no connection to the scheduler any more."""


def fit_on_cluster(model: Ranker, client: Any, X: Any, y: Any, qid: Any, options: FitOptions) -> None:
    """`fit`, on the workers of a Dask cluster; the model is the one that `fit` without a client would be."""
    refuse_other_models(model)
    refuse_options(model, client, options)
    check_verbose(options.verbose)
    check_callbacks(options.callbacks)
    sets = as_eval_sets(options.eval_set)
    check_early_stopping(options.early_stopping_rounds, bool(sets))
    checkpoints = Checkpoints.of(options.checkpoint, options.every, options.checkpoint_errors, None)
    training = source_of(X, y, qid, options.sample_weight, options.query_weight)
    sources = {name: _eval_source(part, f"eval_set[{name!r}]") for name, part in sets.items()}
    callbacks = [*options.callbacks, *printing(options.verbose)]
    rounds: Any = options.early_stopping_rounds
    rounds = (model.default_patience if rounds is True else rounds) or None
    driver = Driver(model, client, {"": training, **sources}, rounds, callbacks, checkpoints)
    with _alone(client):
        driver.run()


def _eval_source(part: Any, where: str) -> Source:
    if isinstance(part, (tuple, list)) and len(part) == 3 and not isinstance(part[0], RankingData):
        X, y, qid = part
        return source_of(X, y, qid, where=where)
    if isinstance(part, (RankingData, str)) or hasattr(part, "__fspath__"):
        return source_of(part, where=where)
    what = "a Dask collection alone" if is_distributed(part) else type(part).__name__
    raise ValueError(f"{where} must be (X, y, qid), a RankingData or a path; got {what}.")


@contextmanager
def _alone(client: Any) -> Iterator[None]:
    """One training at a time: two could each hold the workers that the other one waits for."""
    from distributed import Lock

    with client.as_current():
        lock = Lock("podium-training")
        lock.acquire()
        try:
            yield
        finally:
            if client.status == "running":
                with suppress(OSError):
                    lock.release()


@dataclass(eq=False)
class Driver:
    """One training, over as many generations as it takes."""

    model: Ranker
    client: Any
    sources: Mapping[str, Source]  # the training rows under "", evaluation sets by name
    rounds: int | None
    callbacks: Sequence[Callback]
    checkpoints: Checkpoints | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State | None = None  # the last one that is known
    state_time: float = 0.0
    steps: int = 0  # of that state
    generation: int = 0
    warned: set[str] = field(default_factory=set)

    def run(self) -> None:
        stored = None if self.checkpoints is None else self.checkpoints.read()
        fruitless, begun = 0, 0
        try:
            while True:
                try:
                    content, interrupt = self._run_generation(stored)
                    break
                except GenerationLost as error:
                    fruitless, begun = (fruitless + 1, begun) if self.steps == begun else (0, self.steps)
                    if fruitless >= _FRUITLESS:
                        raise
                    self._say(f"{error}; continuing after {self.steps:,} steps with the workers that are left.")
            self._fill(content)
        except BaseException as error:
            self._tidy(remove=not isinstance(error, ConnectionError))
            raise
        self._tidy(remove=True)
        if interrupt is not None:
            stopped = counted(self.model.best_iteration_, self.model.step_word)
            raise Interrupted(f"stopped after {stopped}; what was learned is kept.") from interrupt
        if self.checkpoints is not None:
            self.checkpoints.end()

    # --- one generation

    def _run_generation(self, stored: Any) -> tuple[bytes, KeyboardInterrupt | None]:
        self.generation += 1
        workers = self._workers()
        spilled = {name: self._spill(source, name) for name, source in self.sources.items()}
        order, shares = self._order(spilled), self._shares(spilled, workers)
        ranks = _Ranks(self, workers)
        ranks.open()
        started = [(order, share.pop(""), share) for share in shares]
        report: Report = ranks.all("begin", started)[0]
        described = self._describe(ranks)
        report = self._restored(ranks, stored, described) or report
        interrupt = self._advance(ranks, report, described)
        return ranks.finish(), interrupt

    def _describe(self, ranks: _Ranks) -> dict[str, str]:
        return {} if self.checkpoints is None else ranks.all("describe")[0]

    def _restored(self, ranks: _Ranks, stored: Any, described: Mapping[str, str]) -> Report | None:
        """Continue from the last state of an earlier generation, or from a checkpoint file."""
        if self.state is None and stored is not None and self.checkpoints is not None:
            meta, arrays = stored
            self.checkpoints.refuse_other_run(described, meta["run"])
            self.state = {key: value for key, value in meta.items() if key != "run"}, arrays
        if self.state is None:
            return None
        report: Report = ranks.all("restore", [self.state] * len(ranks.workers))[0]
        self.steps = report.n_steps
        return report

    def _advance(self, ranks: _Ranks, report: Report, described: Mapping[str, str]) -> KeyboardInterrupt | None:
        """Let the ranks take their steps; an interrupt ends them, and what was learned until then is the result."""
        seconds = _BATCH_SECONDS
        try:
            while not report.is_over and report.n_steps < report.total:
                check_interrupts()
                steps, with_state = self._batch(report, seconds)
                began = time.perf_counter()
                before, report = report.n_steps, ranks.all("advance", [(steps, with_state)] * len(ranks.workers))[0]
                seconds = (time.perf_counter() - began) / max(1, report.n_steps - before)
                if report.state is not None and not report.is_over:
                    self._remember(report, described)
                if report.n_steps > before and self._stopped(report):
                    break
        except KeyboardInterrupt as interrupt:
            if not report.n_steps:
                raise
            return interrupt
        return None

    def _batch(self, report: Report, seconds: float) -> tuple[int, bool]:
        """How many steps are taken next, and whether the state after them is wanted."""
        every = 10 if self.checkpoints is None else self.checkpoints.every
        until_state = every - report.n_steps % every
        steps = 1 if self.callbacks else max(1, min(until_state, int(_BATCH_SECONDS / max(seconds, 1e-6))))
        is_due = self.checkpoints is not None or time.monotonic() - self.state_time > _STATE_SECONDS
        return steps, steps == until_state and is_due and report.n_steps + steps < report.total

    def _remember(self, report: Report, described: Mapping[str, str]) -> None:
        assert report.state is not None
        self.state, self.steps, self.state_time = report.state, report.n_steps, time.monotonic()
        if self.checkpoints is not None:
            meta, arrays = report.state
            self.checkpoints.write({"run": dict(described)} | meta, arrays)

    def _stopped(self, report: Report) -> bool:
        progress = Progress(self.model, report.n_steps, report.total, report.curves)
        answers = [bool(callback(progress)) for callback in self.callbacks]  # all are called
        return any(answers)

    def _fill(self, content: bytes) -> None:
        """What was learned becomes the fitted state of the model that was given."""
        loaded, parameters = load(BytesIO(content)), {one.name for one in fields(self.model)}
        for name in [name for name in vars(self.model) if name.endswith("_") and name not in parameters]:
            del self.model.__dict__[name]
        self.model.__dict__ |= {name: value for name, value in vars(loaded).items() if name not in parameters}

    # --- data

    def _spill(self, source: Source, name: str) -> list[Spilled]:
        """All partitions on disk, on machines that have workers; those that are there already are not read again."""
        where = f"eval_set[{name!r}]" if name else "fit"
        there = {one.number: one for found_list in self._ask(spilled_already, source.identity) for one in found_list}
        missing = [number for number in range(len(source.partitions)) if number not in there]
        futures = [self._submit_spill(source, number, where) for number in missing]
        for one in self._gathered(futures):
            there[one.number] = one
            for sentence in one.warnings:
                self.warn_once(sentence)
        return [there[number] for number in range(len(source.partitions))]

    def _submit_spill(self, source: Source, number: int, where: str) -> Any:
        from dask import delayed

        partition = source.partitions[number]
        file = None if partition.path is None else (partition.path, partition.row_groups)
        arguments = file, self.model, where, source.identity
        if any(is_distributed(part) for part in partition.parts.values()):
            return self.client.compute(delayed(spill, pure=False)(number, partition.parts, *arguments), retries=2)
        parts = {name: self.client.scatter(part, hash=False) for name, part in partition.parts.items()}
        return self.client.submit(spill, number, parts, *arguments, pure=False, retries=2)

    def _gathered(self, futures: Sequence[Any]) -> list[Any]:
        try:
            return list(self.client.gather(list(futures))) if futures else []
        except lost_errors() as error:
            self.refuse_lost_scheduler(error)
            raise GenerationLost(f"reading was interrupted: {error}") from error

    def _order(self, spilled: Mapping[str, Sequence[Spilled]]) -> Order:
        like, names = same_everywhere(spilled[""]), united([one.names for one in spilled[""]])
        self._refuse_odd_categories(spilled[""], names)
        return Order(self.model, names, like.feature_names, self.rounds)

    def _refuse_odd_categories(self, spilled: Sequence[Spilled], names: Mapping[str, Any]) -> None:
        for one in spilled:
            missing = [column for column in names if one.n_rows and column not in one.names]
            if missing:
                problem = f"column {missing[0]!r} holds categories in some partitions, and numbers in partition"
                advice = "Give it a categorical type (astype('category')), or text in all of them"
                raise ValueError(f"fit: {problem} {one.number + 1}. {advice}.")

    def _shares(self, spilled: Mapping[str, Sequence[Spilled]], workers: Sequence[str]) -> list[dict[str, Share]]:
        """What each rank is told of every set of rows: the partitions of its machine are divided among its ranks."""
        machines = self._machines(workers)
        shares: list[dict[str, Share]] = [{} for _ in workers]
        for name, parts in spilled.items():
            mine = _assigned([one for one in parts if one.n_rows], machines)
            counts = [one.n_rows for one in parts]
            rows = Rows(
                same_everywhere(parts),
                [sum(counts[:number]) for number in range(len(counts))],
                sum(counts),
                united([one.names for one in parts]),
                max(map(len, mine)),
            )
            if not rows.n_rows:
                raise ValueError(f"{name or 'fit'}: the data have no rows.")
            for share, own_parts in zip(shares, mine):
                share[name] = Share(rows, own_parts, self.sources[name].query_weight)
        return shares

    # --- the cluster

    def _workers(self) -> list[str]:
        """The addresses of all workers, in an order that no result depends on."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                workers = sorted(self.client.nthreads())
            except OSError as error:
                self.refuse_lost_scheduler(error)
                workers = []
            if workers:
                return workers
            self.refuse_lost_scheduler(None)
            if time.monotonic() > deadline:
                problem = f"no worker has joined {self.client.scheduler.address} within {TIMEOUT:g} seconds"
                raise TimeoutError(f"{problem}. Start some: dask worker ADDRESS")
            time.sleep(0.1)

    def _machines(self, workers: Sequence[str]) -> list[str]:
        names = self._run(machine_name)
        missing = [worker for worker in workers if worker not in names]
        if missing:
            raise GenerationLost(f"worker {missing[0]} has left")
        return [names[worker] for worker in workers]

    def _ask(self, function: Any, *arguments: Any) -> list[Any]:
        return list(self._run(function, *arguments).values())

    def _run(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Call a function on all workers; those that are lost meanwhile are left out."""
        try:
            answers = self.client.run(function, *arguments, on_error="return")
        except OSError as error:
            self.refuse_lost_scheduler(error)
            raise GenerationLost(str(error)) from error
        return {worker: answer for worker, answer in answers.items() if not isinstance(answer, BaseException)}

    def refuse_lost_scheduler(self, error: BaseException | None) -> None:
        if self.client.status == "running":
            return
        path = None if self.checkpoints is None else self.checkpoints.path
        advice = "With checkpoint=path the same call could continue; begin again"
        if path is not None:
            advice = f"Start a cluster and run the same again: it continues from {path}"
        raise SchedulerLost(f"the connection to the scheduler is lost. {advice}.") from error

    def warn_once(self, sentence: str) -> None:
        if sentence not in self.warned:
            self.warned.add(sentence)
            warn(sentence)

    def _say(self, sentence: str) -> None:
        warn(sentence)

    def _tidy(self, remove: bool) -> None:
        """End ranks that are still there, and remove what was spilled unless the same fit may follow."""
        if self.client.status != "running":
            return
        with suppress(OSError, GenerationLost, SchedulerLost):
            self._run(close_rank, self.name)
            for source in self.sources.values() if remove else ():
                self._run(remove_spilled, source.identity)


class _Ranks:
    """The ranks of one generation, as the client sees them."""

    def __init__(self, driver: Driver, workers: Sequence[str]) -> None:
        self.driver, self.client, self.workers = driver, driver.client, workers

    def open(self) -> None:
        """Make a rank on every worker, if they all compute alike, and connect them."""
        token = secrets.token_hex(16)
        settings = [(self.driver.name, rank, self.driver.generation, token) for rank in range(len(self.workers))]
        opened = self._results([self._submit(open_rank, number, *one) for number, one in enumerate(settings)])
        for what, name in (("family", "processors of different kinds"), ("versions", "different versions")):
            kinds = {getattr(one, what): worker for one, worker in zip(opened, self.workers)}
            if len(kinds) > 1:
                listed = "; ".join(f"{worker} has {kind}" for kind, worker in kinds.items())
                advice = "Equal models are promised on equal ones only: give the client a cluster of one kind"
                raise ValueError(f"the workers have {name}: {listed}. {advice}.")
        self.all("join", [([one.address for one in opened],)] * len(self.workers))

    def all(self, method: str, arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Call a method of all ranks at the same time; the results, in their order."""
        arguments = [()] * len(self.workers) if arguments is None else arguments
        name = self.driver.name
        answers = self._results([self._submit(call, n, name, method, *one) for n, one in enumerate(arguments)])
        for _, sentences in answers:
            for sentence in sentences:
                self.driver.warn_once(sentence)
        return [result for result, _ in answers]

    def finish(self) -> bytes:
        """The file of the model, which all ranks have alike."""
        results = self.all("finish")
        if len({digest for _, digest, _ in results}) > 1:
            raise RuntimeError("the workers have trained different models; please report this.")
        content: bytes = results[0][0]
        return content

    def _submit(self, function: Any, number: int, *arguments: Any) -> Any:
        only = {"workers": [self.workers[number]], "allow_other_workers": False}
        return self.client.submit(function, *arguments, pure=False, retries=0, priority=100, **only)

    def _results(self, futures: Sequence[Any]) -> list[Any]:
        """The results of all ranks. One that is lost has the others return, within the timeout of their mesh."""
        from distributed import wait

        give_up: float | None = None
        while True:
            try:
                wait(list(futures), timeout=1.0)
                break
            except TimeoutError:
                pass
            except cancelled_errors() as error:
                self.driver.refuse_lost_scheduler(error)
                break
            self.driver.refuse_lost_scheduler(None)
            if give_up is None and (self._missing() or any(one.status == "error" for one in futures)):
                give_up = time.monotonic() + TIMEOUT
            if give_up is not None and (self._all_returned(futures) or time.monotonic() > give_up):
                break
        return self._checked(futures)

    def _missing(self) -> set[str]:
        try:
            return set(self.workers) - set(self.client.nthreads())
        except OSError as error:
            self.driver.refuse_lost_scheduler(error)
            return set()

    def _all_returned(self, futures: Sequence[Any]) -> bool:
        missing = self._missing()
        return all(one.status != "pending" or worker in missing for one, worker in zip(futures, self.workers))

    def _checked(self, futures: Sequence[Any]) -> list[Any]:
        """Results, or the error of a rank that failed by itself, or GenerationLost."""
        errors = {w: _error_of(one) for one, w in zip(futures, self.workers) if one.status != "finished"}
        own_errors = [error for error in errors.values() if not _means_lost(error)]
        if own_errors:
            raise own_errors[0]
        if errors:
            for one in futures:
                one.cancel()
            self.driver.refuse_lost_scheduler(None)
            missing = self._missing() & set(errors)
            worker = next(iter(missing or errors))
            raise GenerationLost(f"worker {worker} is lost ({errors[worker]})")
        return list(self.client.gather(list(futures)))


def _error_of(future: Any) -> BaseException:
    if future.status != "error":
        return GenerationLost("it has left the cluster")
    error: BaseException = future.exception()
    return error


def _means_lost(error: BaseException) -> bool:
    from distributed import KilledWorker

    return isinstance(error, (CollectiveError, GenerationLost, KilledWorker, ConnectionError, *cancelled_errors()))


def lost_errors() -> tuple[type[BaseException], ...]:
    return OSError, *cancelled_errors()


def cancelled_errors() -> tuple[type[BaseException], ...]:
    from asyncio import CancelledError
    from concurrent.futures import CancelledError as OtherCancelledError

    from distributed.client import FutureCancelledError

    return CancelledError, OtherCancelledError, FutureCancelledError


def _assigned(parts: Sequence[Spilled], machines: Sequence[str]) -> list[list[Spilled]]:
    """For each rank, partitions that its machine has; about as many rows for each."""
    mine: list[list[Spilled]] = [[] for _ in machines]
    rows = [0] * len(machines)
    for one in parts:
        able = [rank for rank, machine in enumerate(machines) if machine == one.machine]
        rank = min(able, key=lambda candidate: rows[candidate])
        mine[rank].append(one)
        rows[rank] += one.n_rows
    return mine
