"""Trial: a new version is loaded and tried in a process of its own first.

Whatever it does there (crash, hang, take all memory, answer slowly or not at all), the service is not harmed. What it
compiles there is on the disk when the service loads it.

    python -m podium.server.versions.trial PATH SECONDS_PER_REQUEST < requests
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from podium.server.errors import Refusal
from podium.server.settings import Limits
from podium.server.versions.version import Version, load_version

_MOST_OUTPUT = 4_000


def try_version(path: Path, requests: Requests, limits: Limits) -> None:
    """Refuse a version that cannot be loaded, or that answers one of the requests too slowly or not at all."""
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")))
    if size > limits.load_bytes:
        message = f"version: {path.name} has {size:,} bytes; expected at most {limits.load_bytes:,}."
        raise Refusal(413, message, "version", f"at most {limits.load_bytes:,} bytes")
    command = [sys.executable, "-m", "podium.server.versions.trial", str(path), str(limits.deadline_seconds / 2)]
    try:
        ended = subprocess.run(command, input=requests.as_bytes(), capture_output=True, timeout=limits.load_seconds)
    except subprocess.TimeoutExpired:
        _refuse(path, f"was not loaded and tried within {limits.load_seconds:g} seconds")
    if ended.returncode:
        last = ended.stderr.decode(errors="replace").strip()[-_MOST_OUTPUT:].rpartition("\n")[2]
        _refuse(path, f"failed in its trial: {last or f'the process ended with {ended.returncode}'}")


def _refuse(path: Path, why: str) -> NoReturn:
    message = f"version: {path.name} {why}. What was served is served still."
    raise Refusal(400, message, "version", "a version that answers the stored requests in time")


class Requests:
    """Requests to be replayed: rows for models, queries for what searches."""

    def __init__(self, rows: Iterable[np.ndarray] = (), queries: Iterable[str] = ()) -> None:
        self.rows, self.queries = list(rows), list(queries)

    def as_bytes(self) -> bytes:
        stream = io.BytesIO()
        stream.write(json.dumps({"rows": len(self.rows), "queries": self.queries}).encode() + b"\n")
        for rows in self.rows:
            np.save(stream, rows, allow_pickle=False)
        return stream.getvalue()

    @staticmethod
    def from_stream(stream: IO[bytes]) -> Requests:
        facts = json.loads(stream.readline())
        rest = io.BytesIO(stream.read())
        return Requests([np.load(rest, allow_pickle=False) for _ in range(facts["rows"])], facts["queries"])

    def replay(self, version: Version, most_seconds: float = float("inf")) -> None:
        """Answer all of them, each within so many seconds; what is compiled by the first one does not count."""
        for rows in self.rows if version.model is not None and version.searcher is None else ():
            version.scores(rows)
            started = time.perf_counter()
            scores = version.scores(rows)
            _refuse_slow(time.perf_counter() - started, most_seconds, f"{len(rows):,} documents")
            if len(scores) != len(rows) or not np.isfinite(scores).all():
                raise ValueError("it gives scores that are not finite")
        searcher = version.searcher
        for query in self.queries:
            if searcher is None:
                break
            searcher.search(query, 10)
            started = time.perf_counter()
            searcher.search(query, 10)
            _refuse_slow(time.perf_counter() - started, most_seconds, f"the query {query[:60]!r}")


def _refuse_slow(seconds: float, most: float, what: str) -> None:
    if seconds > most:
        raise ValueError(f"it takes {seconds:.3g} seconds for {what}; expected at most {most:.3g}")


def main(words: Sequence[str]) -> int:
    """The process: 0 if the version is good, else the reason as the last line of standard error."""
    path, seconds = Path(words[0]), float(words[1])
    requests = Requests.from_stream(sys.stdin.buffer)
    try:
        requests.replay(load_version(path), seconds)
    except (ValueError, OSError, ImportError, Refusal) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
