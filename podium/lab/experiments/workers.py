"""Workers: processes that do one task after the other, and can be lost without losing more than their task.

A pool of the standard library breaks as a whole when one of its processes is killed, say for want of memory. Here only
the task of that process has failed, and another process replaces it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from podium._runtime.plugins import import_plugin
from podium.lab.experiments.tasks import Session, Task

_CONTEXT = multiprocessing.get_context("spawn")
_SECONDS_TO_END = 5.0
_STARTED_AGAIN = 78  # the exit code of a worker that came upon the call that had started it
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PROGRAMS, _WORTH_KEEPING = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_ONE_THREAD_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def end_if_starting() -> None:
    """Ends a worker that runs the script of its parent instead of tasks; the parent then says what to do."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(_STARTED_AGAIN)


@dataclass(frozen=True)
class Answer:
    """How a task ended; `error` is empty where all went well."""

    task: Task
    error: str = ""
    details: str = ""


class _Worker:
    def __init__(self, session: Session, programs: str) -> None:
        self.connection, other = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(other, session), name="podium-lab")
        with _variables_of_children(session.threads, programs):
            self.process.start()
        other.close()
        self.task: Task | None = None

    def begin(self, task: Task) -> None:
        self.task = task
        self.connection.send(task)

    def answer(self) -> Answer:
        """How the task ended, once `connection` is ready."""
        if self.task is None:
            raise ValueError("a worker without a task has no answer.")
        task, self.task = self.task, None
        try:
            error, details = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join(_SECONDS_TO_END)
            if self.process.exitcode == _STARTED_AGAIN:
                raise RuntimeError(
                    "podium.lab.run starts processes, each of which imports your script. Call it under "
                    'if __name__ == "__main__": so that they do not start it again.'
                ) from None
            return Answer(task, f"its process ended (exit code {self.process.exitcode}); perhaps memory ran out")
        return Answer(task, error, details)

    def end(self) -> None:
        self.connection.close()
        if self.task is not None:
            self.process.terminate()
        self.process.join(_SECONDS_TO_END)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class Workers:
    """So many processes; `begin` gives a task to one that has none, `answers` waits for some to end."""

    def __init__(self, number: int, session: Session) -> None:
        self._number, self._session = number, session
        self._workers: list[_Worker] = []
        # What XLA compiles for one process, the others load; not in the results, from which no code must come.
        self._programs = tempfile.TemporaryDirectory(prefix="podium-programs-", ignore_cleanup_errors=True)

    @property
    def free(self) -> int:
        return self._number - self.running

    @property
    def running(self) -> int:
        return sum(worker.task is not None for worker in self._workers)

    def begin(self, task: Task) -> None:
        """Give the task to a process that waits for one, or to a new one; what ended while it waited is replaced."""
        while (idle := next((worker for worker in self._workers if worker.task is None), None)) is not None:
            try:
                if idle.process.is_alive():
                    return idle.begin(task)
            except ConnectionError:  # it ended since
                idle.task = None
            self._remove(idle)
        self._workers.append(_Worker(self._session, self._programs.name))
        self._workers[-1].begin(task)

    def answers(self) -> Iterator[Answer]:
        """The tasks that have ended; waits for the first."""
        busy = {worker.connection: worker for worker in self._workers if worker.task is not None}
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            answer = worker.answer()
            if not worker.process.is_alive():
                self._remove(worker)
            yield answer

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()

    def end(self) -> None:
        """End all processes, also in the middle of a task."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._programs.cleanup()


@contextmanager
def _variables_of_children(threads: int, programs: str) -> Iterator[None]:
    """Libraries read these variables when they are loaded, so they are set while a process starts."""
    wanted = dict.fromkeys(_THREADS, str(threads))
    if threads == 1 and "XLA_FLAGS" not in os.environ:
        wanted["XLA_FLAGS"] = _ONE_THREAD_XLA
    if _PROGRAMS not in os.environ:
        wanted |= {_PROGRAMS: programs, _WORTH_KEEPING: "0.3"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, session: Session) -> None:
    """The life of a worker: tasks in, answers out, until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in session.plugins:
        import_plugin(name)
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        answer = "", ""
        try:
            session.perform(task)
        except Exception as error:  # whatever a model does, the others are run
            answer = f"{type(error).__name__}: {error}", traceback.format_exc()
        connection.send(answer)


def _end_with_parent() -> None:
    """A worker whose parent was killed has nobody to work for."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
