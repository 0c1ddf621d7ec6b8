"""Ranks: what a worker does for a training, told by tasks of Dask that the client sends, one per step of the plan.

    open -> join -> shuffle and begin -> (restore) -> advance, advance, ... -> finish -> close

A rank lives in the process of its worker between these tasks. They are few (a dozen trees each); what ranks say to one
another for every split goes over their mesh. A rank whose client has been silent for minutes ends by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from podium import __version__
from podium._runtime.compiler import Array
from podium._runtime.machine import cpu_family
from podium._runtime.threads import start_thread, usable_threads
from podium._runtime.warn import collected_warnings
from podium.data.sharding.collective import TIMEOUT, CollectiveError
from podium.distributed.collective import DaskCollective
from podium.distributed.fitting import Order, RankTraining, Report, State
from podium.distributed.mapping import MappedMemory
from podium.distributed.mesh import Mesh
from podium.distributed.shuffling import Rows, ShardRows, shuffle, with_query_weights
from podium.distributed.spilling import Spilled, scratch_folder

FORGOTTEN = 600.0  # seconds without a word from the client after which a rank ends


@dataclass(frozen=True)
class Opened:
    """Where a rank can be reached, and what its results depend on."""

    address: str
    family: str
    versions: str


@dataclass(frozen=True)
class Share:
    """The rows of one set, as one rank is told of them."""

    rows: Rows
    mine: Sequence[Spilled]
    query_weight: Array | None = None


class Rank:
    """One rank of one generation."""

    def __init__(self, rank: int, generation: int, token: str, timeout: float) -> None:
        self.mesh = Mesh(rank, generation, token, timeout)
        self.mesh.is_at_work = False
        self.training: RankTraining | None = None
        self.collective: DaskCollective | None = None
        self.memory = MappedMemory(scratch_folder(), _worker().memory_manager.memory_limit)
        self.used, self.is_busy = monotonic(), False

    def join(self, addresses: Sequence[str]) -> None:
        self.mesh.connect(addresses, **_security().get_connection_args("worker"))
        self.collective = DaskCollective(self.mesh, len(addresses))

    def begin(self, order: Order, training: Share, eval_sets: Mapping[str, Share]) -> Report:
        parts = {name: self._rows(part) for name, part in {"": training, **eval_sets}.items()}
        self.training = RankTraining(order, _threads(order.model.n_jobs), parts.pop(""), parts)
        return self.training.report(with_state=False)

    def describe(self) -> dict[str, str]:
        return self._training.describe()

    def restore(self, state: State) -> Report:
        return self._training.restore(*state)

    def advance(self, steps: int, with_state: bool) -> Report:
        report = self._training.advance(steps, with_state)
        return report if self.mesh.rank == 0 else Report(report.n_steps, report.total, report.is_over, {})

    def finish(self) -> tuple[bytes, str, int]:
        """The file of the model, from the first rank; the digest, from all; and how many bytes this rank has sent."""
        content, digest = self._training.finish()
        return content if self.mesh.rank == 0 else b"", digest, self.mesh.bytes_sent

    def close(self) -> None:
        self.mesh.close()
        self.memory.close()
        self.training = None

    @property
    def _training(self) -> RankTraining:
        if self.training is None:
            raise CollectiveError("this rank has no training.")
        return self.training

    def _rows(self, share: Share) -> ShardRows:
        assert self.collective is not None
        return with_query_weights(shuffle(self.collective, share.rows, share.mine, self.memory), share.query_weight)


_ranks: dict[tuple[str, str], Rank] = {}  # by training and address of the worker
_lock = threading.Lock()


def open_rank(training: str, rank: int, generation: int, token: str, timeout: float = TIMEOUT) -> Opened:
    """Make a rank on this worker, in place of an earlier one of this training."""
    close_rank(training)
    made = Rank(rank, generation, token, timeout)
    with _lock:
        _ranks[training, _here()] = made
    start_thread(lambda: _end_if_forgotten(made), "podium-rank")
    address = made.mesh.listen(_listen_address(), **_security().get_listen_args("worker"))
    return Opened(address, cpu_family(), _versions())


def call(training: str, method: str, *arguments: Any) -> tuple[Any, list[str]]:
    """Call a method of the rank on this worker; returns its result and its warnings."""
    rank = _ranks.get((training, _here()))
    if rank is None:
        raise CollectiveError(f"there is no rank of this training on {_here()}; the worker has been started anew.")
    rank.is_busy = rank.mesh.is_at_work = True
    try:
        with collected_warnings() as sentences:
            result = getattr(rank, method)(*arguments)
    except BaseException:
        close_rank(training)  # which tells the others
        raise
    finally:
        rank.used, rank.is_busy, rank.mesh.is_at_work = monotonic(), False, False
    return result, sentences if rank.mesh.rank == 0 else []


def close_rank(training: str, dask_worker: Any = None) -> None:
    with _lock:
        rank = _ranks.pop((training, _here() if dask_worker is None else str(dask_worker.address)), None)
    if rank is not None and dask_worker is None:
        rank.close()
    elif rank is not None:  # this is the thread of the worker's own event loop
        start_thread(rank.close, "podium-close")


def _threads(n_jobs: int | None) -> int:
    """Threads of a rank: those of its worker, or fewer where the model asks for fewer."""
    threads = int(_worker().state.nthreads)
    return threads if n_jobs is None or n_jobs == -1 else min(threads, usable_threads(n_jobs))


def _end_if_forgotten(rank: Rank) -> None:
    while not rank.mesh.wait_closed(FORGOTTEN / 10):
        if not rank.is_busy and monotonic() - rank.used > FORGOTTEN:
            rank.close()


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def _here() -> str:
    return str(_worker().address)


def _security() -> Any:
    return _worker().security


def _listen_address() -> str:
    """Any free port beside that of the worker, by the same transport."""
    scheme, _, host = _here().partition("://")
    return "inproc://" if scheme == "inproc" else f"{scheme}://{host.rpartition(':')[0]}:0"


def _versions() -> str:
    import numba
    import numpy

    return f"podium {__version__}, numpy {numpy.__version__}, numba {numba.__version__}"
