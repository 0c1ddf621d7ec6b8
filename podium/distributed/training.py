"""Training on a Dask cluster, as the client directs it: `fit(..., client=client)`.

    partitions are spilled -> a generation: ranks on all workers, rows shuffled, trees added -> the model

What fails with a worker ends the generation. The next one has the workers that are left, continues from the last state
that the client has, and grows the same trees. If the scheduler is lost, a checkpoint file holds that state.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from typing import Any

from podium import __version__
from podium._runtime.interrupts import check_interrupts
from podium._runtime.warn import warn
from podium._runtime.words import counted
from podium.data.categories import united
from podium.data.ranking import RankingData
from podium.distributed.cluster import Cluster, GenerationLost, Ranks, SchedulerLost, alone, lost_errors
from podium.distributed.fitting import Order, Report, State
from podium.distributed.partitions import Source, is_distributed, source_of
from podium.distributed.ranks import Share, close_rank
from podium.distributed.refusals import refuse_options, refuse_other_models
from podium.distributed.shuffling import Rows
from podium.distributed.spilling import Spilled, remove_spilled, same_everywhere, spill, spilled_already
from podium.formats.kinds import CHECKPOINT
from podium.formats.names import Names
from podium.models.frame.arguments import as_eval_sets, check_callbacks, check_early_stopping, check_verbose
from podium.models.frame.fitting import printing
from podium.models.frame.plan import Callback, FitOptions, Interrupted, Progress
from podium.models.frame.ranker import Ranker
from podium.persistence.checkpoints import Checkpoints
from podium.persistence.saving import load

_FRUITLESS = 5  # generations that end without a further step before the training gives up
_STATE_SECONDS = 5.0  # between two states that are kept in memory only
_BATCH_SECONDS = 0.5  # of steps between two words from the client: Ctrl-C is noticed then


def fit_on_cluster(model: Ranker, client: Any, X: Any, y: Any, qid: Any, options: FitOptions) -> None:
    """`fit`, on the workers of a Dask cluster; the model is the one that `fit` without a client would be."""
    from dask.base import tokenize

    refuse_other_models(model)
    refuse_options(model, client, options)
    check_verbose(options.verbose)
    check_callbacks(options.callbacks)
    sets = as_eval_sets(options.eval_set)
    check_early_stopping(options.early_stopping_rounds, bool(sets))
    say = print if options.verbose else None
    checkpoints = Checkpoints.of(options.checkpoint, options.every, options.checkpoint_errors, say)
    training = source_of(X, y, qid, options.sample_weight, options.query_weight)
    sources = {name: _eval_source(part, f"eval_set[{name!r}]") for name, part in sets.items()}
    read_as = tokenize(__version__, type(model).__name__, getattr(model, "categorical", None))[:8]
    callbacks = [*options.callbacks, *printing(options.verbose)]
    rounds: Any = options.early_stopping_rounds
    rounds = (model.default_patience if rounds is True else rounds) or None
    cluster = Cluster(client, None if checkpoints is None else checkpoints.path)
    named = {
        name: replace(one, identity=f"{one.identity}-{read_as}") for name, one in {"": training, **sources}.items()
    }
    driver = Driver(model, cluster, named, rounds, callbacks, checkpoints)
    with alone(client):
        driver.run()


def _eval_source(part: Any, where: str) -> Source:
    if isinstance(part, (tuple, list)) and len(part) == 3 and not isinstance(part[0], RankingData):
        X, y, qid = part
        return source_of(X, y, qid, where=where)
    if isinstance(part, (RankingData, str)) or hasattr(part, "__fspath__"):
        return source_of(part, where=where)
    what = "a Dask collection alone" if is_distributed(part) else type(part).__name__
    raise ValueError(f"{where} must be (X, y, qid), a RankingData or a path; got {what}.")


@dataclass(eq=False)
class Driver:
    """One training, over as many generations as it takes."""

    model: Ranker
    cluster: Cluster
    sources: Mapping[str, Source]  # the training rows under "", evaluation sets by name
    rounds: int | None
    callbacks: Sequence[Callback]
    checkpoints: Checkpoints | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    state: State | None = None  # the last one that is known
    state_time: float = 0.0
    steps: int = 0  # of that state
    generation: int = 0

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
                    warn(f"{error}; continuing after {self.steps:,} steps with the workers that are left.")
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
        workers = self.cluster.workers()
        spilled = {name: self._spill(source, name) for name, source in self.sources.items()}
        order = self._order(spilled)
        shares = self._shares(spilled, workers, order.names)
        ranks = Ranks(self.cluster, self.name, self.generation, workers)
        ranks.open()
        started = [(order, share.pop(""), share) for share in shares]
        report: Report = ranks.all("begin", started)[0]
        described = self._describe(ranks)
        report = self._restored(ranks, stored, described) or report
        interrupt = self._advance(ranks, report, described)
        return ranks.finish(), interrupt

    def _describe(self, ranks: Ranks) -> dict[str, str]:
        return {} if self.checkpoints is None else ranks.all("describe")[0]

    def _restored(self, ranks: Ranks, stored: Any, described: Mapping[str, str]) -> Report | None:
        """Continue from the last state of an earlier generation, or from a checkpoint file."""
        if self.state is not None:
            return self._restore(ranks, self.state)
        if stored is None or self.checkpoints is None:
            return None
        meta, arrays = stored
        self.checkpoints.refuse_other_run(described, meta["run"])
        try:
            report = self._restore(ranks, ({key: value for key, value in meta.items() if key != "run"}, arrays))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CHECKPOINT.damaged(self.checkpoints.path, f"its content is not understood: {error}") from error
        total = counted(report.total, self.model.step_word)
        self.checkpoints.say(f"{self.checkpoints.path}: resuming after {report.n_steps:,} of {total}.")
        return report

    def _restore(self, ranks: Ranks, state: State) -> Report:
        (everywhere,) = self.cluster.client.scatter([state], broadcast=True, hash=False)
        report: Report = ranks.all("restore", [(everywhere,)] * len(ranks.workers))[0]
        self.state, self.steps = state, report.n_steps
        return report

    def _advance(self, ranks: Ranks, report: Report, described: Mapping[str, str]) -> KeyboardInterrupt | None:
        """Let the ranks take their steps; an interrupt ends them, and what was learned until then is the result."""
        seconds = _BATCH_SECONDS
        try:
            while not report.is_over and report.n_steps < report.total:
                check_interrupts()
                steps, with_state = self._batch(report, seconds)
                began = time.perf_counter()
                before, report = report.n_steps, ranks.all("advance", [(steps, with_state)] * len(ranks.workers))[0]
                seconds = (time.perf_counter() - began) / max(1, report.n_steps - before)
                if report.n_steps > before and self._stopped(report):
                    break
                if report.state is not None and not report.is_over:
                    self._remember(report, described)
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
        listed = self.cluster.ask(spilled_already, source.identity)
        there = {one.number: one for of_worker in listed for one in of_worker}
        missing = [number for number in range(len(source.partitions)) if number not in there]
        for one in self._gathered(self._submit_spills(source, missing, where)):
            there[one.number] = one
            for sentence in one.warnings:
                self.cluster.warn_once(sentence)
        return [there[number] for number in range(len(source.partitions))]

    def _submit_spills(self, source: Source, numbers: Sequence[int], where: str) -> list[Any]:
        """One task per partition; collections go to the cluster as one graph, which may hold their data."""
        from dask import delayed

        client, graph, futures = self.cluster.client, [], []
        for number in numbers:
            partition = source.partitions[number]
            file = None if partition.path is None else (partition.path, partition.row_groups)
            arguments = file, self.model, where, source.identity
            if any(is_distributed(part) for part in partition.parts.values()):
                graph.append(delayed(spill, pure=False)(number, partition.parts, *arguments))
            else:
                parts = {name: client.scatter([part], hash=False)[0] for name, part in partition.parts.items()}
                futures.append(client.submit(spill, number, parts, *arguments, pure=False, retries=2))
        return [*futures, *(client.compute(graph, retries=2) if graph else [])]

    def _gathered(self, futures: Sequence[Any]) -> list[Any]:
        try:
            return list(self.cluster.client.gather(list(futures))) if futures else []
        except lost_errors() as error:
            self.cluster.refuse_lost_scheduler(error)
            raise GenerationLost(f"reading was interrupted: {error}") from error

    def _order(self, spilled: Mapping[str, Sequence[Spilled]]) -> Order:
        like, names = same_everywhere(spilled[""]), united([one.names for one in spilled[""]])
        return Order(self.model, names, like.feature_names, self.rounds)

    def _shares(
        self, spilled: Mapping[str, Sequence[Spilled]], workers: Sequence[str], names: Names
    ) -> list[dict[str, Share]]:
        """What each rank is told of every set of rows: the partitions of its machine are divided among its ranks."""
        machines = self.cluster.machines(workers)
        shares: list[dict[str, Share]] = [{} for _ in workers]
        for name, parts in spilled.items():
            mine = _assigned([one for one in parts if one.n_rows], machines)
            counts = [one.n_rows for one in parts]
            rows = Rows(
                same_everywhere(parts),
                [sum(counts[:number]) for number in range(len(counts))],
                sum(counts),
                names,
                max(map(len, mine)),
            )
            if not rows.n_rows:
                raise ValueError(f"{name or 'fit'}: the data have no rows.")
            for share, own_parts in zip(shares, mine):
                share[name] = Share(rows, own_parts, self.sources[name].query_weight)
        return shares

    def _tidy(self, remove: bool) -> None:
        """End ranks that are still there, and remove what was spilled unless the same fit may follow."""
        if self.cluster.client.status != "running":
            return
        with suppress(OSError, GenerationLost, SchedulerLost):
            self.cluster.run(close_rank, self.name)
            for source in self.sources.values() if remove else ():
                self.cluster.run(remove_spilled, source.identity)


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
