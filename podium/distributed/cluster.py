"""The cluster as a training sees it: its workers, what they are asked, and who of them is lost.

A worker that is killed leaves tasks that nobody will ever do; whoever waits for one looks every second who is left.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium._runtime.warn import warn
from podium.data.sharding.collective import TIMEOUT, CollectiveError
from podium.distributed.ranks import call, open_rank
from podium.distributed.spilling import machine_name

START = 60.0  # seconds in which a worker begins its first task, with all that it imports


class GenerationLost(ConnectionError):
    """A worker was lost, and with it the generation."""


class SchedulerLost(ConnectionError):
    """The client has no connection to the scheduler any more."""


@contextmanager
def alone(client: Any) -> Iterator[None]:
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
class Cluster:
    """A client and what it asks of the workers."""

    client: Any
    checkpoint: Path | None  # where a training can be resumed from
    warned: set[str] = field(default_factory=set)
    idle: set[str] = field(default_factory=set)  # workers that have not begun a task: paused, or at work for others

    def workers(self) -> list[str]:
        """The addresses of all workers, in an order that no result depends on."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                workers = sorted(self.client.nthreads())
                workers = [worker for worker in workers if worker not in self.idle] or workers
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

    def machines(self, workers: Sequence[str]) -> list[str]:
        names = self.run(machine_name)
        missing = [worker for worker in workers if worker not in names]
        if missing:
            raise GenerationLost(f"worker {missing[0]} has left")
        return [names[worker] for worker in workers]

    def ask(self, function: Any, *arguments: Any) -> list[Any]:
        return list(self.run(function, *arguments).values())

    def run(self, function: Any, *arguments: Any) -> dict[str, Any]:
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
        advice = "With checkpoint=path the same call could continue; begin again"
        if self.checkpoint is not None:
            advice = f"Start a cluster and run the same again: it continues from {self.checkpoint}"
        raise SchedulerLost(f"the connection to the scheduler is lost. {advice}.") from error

    def warn_once(self, sentence: str) -> None:
        if sentence not in self.warned:
            self.warned.add(sentence)
            warn(sentence)


class Ranks:
    """The ranks of one generation, as the client sees them."""

    def __init__(self, cluster: Cluster, training: str, generation: int, workers: Sequence[str]) -> None:
        self.cluster, self.client, self.workers = cluster, cluster.client, workers
        self.training, self.generation = training, generation

    def open(self) -> None:
        """Make a rank on every worker, if they all compute alike, and connect them."""
        token = secrets.token_hex(16)
        settings = [(self.training, rank, self.generation, token) for rank in range(len(self.workers))]
        opened = self._results([self._submit(open_rank, n, *one) for n, one in enumerate(settings)], START)
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
        calls = [self._submit(call, n, self.training, method, *one) for n, one in enumerate(arguments)]
        answers = self._results(calls)
        for _, sentences in answers:
            for sentence in sentences:
                self.cluster.warn_once(sentence)
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

    def _results(self, futures: Sequence[Any], seconds: float | None = None) -> list[Any]:
        """The results of all ranks. One that is lost has the others return, within the timeout of their mesh.

        seconds: after which workers that have done nothing are given up, where none of them can be at work for long.
        """
        from distributed import wait

        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                wait(list(futures), timeout=1.0)
                break
            except TimeoutError:
                pass
            except cancelled_errors() as error:
                self.cluster.refuse_lost_scheduler(error)
                break
            self.cluster.refuse_lost_scheduler(None)
            if give_up is None and (self._missing() or any(one.status == "error" for one in futures)):
                give_up = time.monotonic() + TIMEOUT
            if give_up is not None and (self._all_returned(futures) or time.monotonic() > give_up):
                break
        if seconds is not None:
            self.cluster.idle |= {w for one, w in zip(futures, self.workers) if one.status == "pending"}
        return self._checked(futures)

    def _missing(self) -> set[str]:
        try:
            return set(self.workers) - set(self.client.nthreads())
        except OSError as error:
            self.cluster.refuse_lost_scheduler(error)
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
            self.cluster.refuse_lost_scheduler(None)
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
