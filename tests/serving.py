"""A real service in a process of its own, on loopback, that is ended by whoever started it; and models for it."""

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import numpy as np

import podium

N_FEATURES = 5
SECONDS = 120  # within which a service is ready, kernels compiled
_ADDRESS = re.compile(r"(http://\S+) until Ctrl-C")


class Service:
    """`address`, the process, and what it wrote to standard error."""

    def __init__(self, arguments, cwd=None):
        command = [sys.executable, "-m", "podium", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=cwd)
        self.lines = []
        self._ready, self.address = threading.Event(), None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(SECONDS) or self.address is None:
            self.process.kill()
            raise AssertionError("the service was not ready:\n" + "".join(self.lines))

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := _ADDRESS.search(line):
                self.address = found[1]
                self._ready.set()
        self._ready.set()  # it ended

    @property
    def place(self):
        """Host and port."""
        parts = urlsplit(self.address)
        return parts.hostname, parts.port

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def end(self):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._reader.join(10)
            self.process.stderr.close()


@contextmanager
def serving(*arguments, cwd=None):
    """`podium serve ARGUMENTS` while the block runs."""
    service = Service(arguments, cwd)
    try:
        yield service
    finally:
        service.end()


def small_model(seed=0, **settings):
    random = np.random.default_rng(seed)
    X = random.random((400, N_FEATURES)).astype(np.float32)
    y = np.floor(4 * X[:, seed % N_FEATURES] * X[:, 1]).astype(int)
    model = podium.LambdaMART(n_estimators=15, n_jobs=1, **settings)
    return model.fit(X, y, qid=np.repeat(np.arange(20), 20))
