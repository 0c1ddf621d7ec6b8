"""Serving: `podium serve` beside a LightGBM model behind FastAPI (`_plain_service.py`), one server process each.

Rank: 100 documents of 46 features by 100 trees of 31 leaves, the same trees in both services. 16 connections, each of
which sends its next request when it has its answer; then arrivals at random times, at half the rate that was measured;
then at five times that rate, where requests are refused. The percentiles are of requests that were accepted, from when
they were due. All of it is done several times; the median counts. Search: the embedded collection of `podium demo`,
whose cascade re-ranks 100 documents. Swaps: another version every 5 seconds, while every answer is compared with the
scores of the version that it names. Memory: the resident size after the first 10,000 requests and after 100,000 more.

The load generator (`_load.py`) has one core and the service the other one, so that they do not take turns on one of
them; what the generator takes is in all times.

    python benchmarks/bench_serve.py [--seconds 5] [--rounds 3] [--swap-seconds 120]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
from _load import Load, arrivals, closed, http_request
from _report import print_header, print_result

import podium
from podium.demo.show import take_tour

DOCUMENTS, FEATURES, TREES, LEAVES = 100, 46, 100, 31
N_REQUESTS = 64  # different ones, sent in turns
RAW, JSON = "application/octet-stream", "application/json"
TOKEN = "token-of-the-benchmark"
CORES = sorted(os.sched_getaffinity(0))[:2]
Address = tuple[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--swap-seconds", type=float, default=120.0)
    options = parser.parse_args()
    print_header("Serving", ["lightgbm", "fastapi", "uvicorn"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = prepare(folder)
        os.sched_setaffinity(0, {CORES[-1]})
        measure_ranking(folder, options.seconds, options.rounds)
        measure_search(folder, options.seconds, options.rounds)
        measure_swaps(folder, models, options.swap_seconds)
        measure_memory(folder)


def prepare(folder: Path) -> dict[str, podium.LambdaMART]:
    """Two models with the same features, one of them for LightGBM too, and the demo."""
    models = {name: trained(seed) for seed, name in enumerate(("one", "two"))}
    (folder / "versions" / "m").mkdir(parents=True)
    for name, model in models.items():
        model.save(folder / "versions" / "m" / f"{name}.podium")
    models["one"].save(folder / "m.podium")
    models["one"].export(folder / "m.txt", to="lightgbm")
    (folder / "token").write_text(TOKEN)
    take_tour(folder / "demo")
    return models


def trained(seed: int) -> podium.LambdaMART:
    random = np.random.default_rng(seed)
    X = random.random((20_000, FEATURES)).astype(np.float32)
    y = np.floor(5 * (0.5 * X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.2 * random.random(len(X)))).clip(0, 4)
    sizes = {"max_leaf_nodes": LEAVES, "min_samples_leaf": 20, "learning_rate": 0.1, "extra_trees": False}
    return podium.LambdaMART(n_estimators=TREES, **sizes).fit(X, y, qid=np.repeat(np.arange(200), 100))


def matrices() -> list[np.ndarray]:
    random = np.random.default_rng(9)
    return [random.random((DOCUMENTS, FEATURES)).astype(np.float32) for _ in range(N_REQUESTS)]


def raw_requests(path: str) -> list[bytes]:
    return [http_request("POST", path, RAW, rows.tobytes()) for rows in matrices()]


def json_requests(path: str, decimals: int = 6) -> list[bytes]:
    """Rows with six decimals, as LETOR has them."""
    bodies = [{"features": np.round(rows.astype(np.float64), decimals).tolist()} for rows in matrices()]
    return [http_request("POST", path, JSON, json.dumps(body).encode()) for body in bodies]


def measure_ranking(folder: Path, seconds: float, rounds: int) -> None:
    """Rates, times at half the rate and times under overload, both services in turns."""
    path = "/v1/models/m:rank"
    ours = {"raw": raw_requests(path), "JSON": json_requests(path)}
    theirs = {"raw": raw_requests("/rank_raw"), "JSON": json_requests("/rank")}
    with serving(folder, folder / "m.podium") as (address, _), plain_service(folder) as plain:
        for kind in ours:
            closed(address, ours[kind], 1.0)
            closed(plain, theirs[kind], 1.0)
        for kind, bar in {"raw": 2_500, "JSON": 1_000}.items():
            rates, plain_rates = [], []
            for _ in range(rounds):
                rates.append(all_answered(closed(address, ours[kind], seconds)).rate)
                plain_rates.append(all_answered(closed(plain, theirs[kind], seconds)).rate)
            rate, plain_rate = statistics.median(rates), statistics.median(plain_rates)
            what, against = f"rank {DOCUMENTS} x {FEATURES}, {kind}, 16 connections", "FastAPI + LightGBM"
            measured = f"{rate:,.0f} against {plain_rate:,.0f} requests/s"
            print_result(what, against, measured, f"at least {bar:,}", rate >= bar)
            measure_arrivals(kind, address, ours[kind], (rate, seconds, rounds))
            half = [arrivals(plain, theirs[kind], plain_rate / 2, seconds).percentile(0.99) for _ in range(rounds)]
            print(f"  {kind}, FastAPI + LightGBM at half its rate: p99 {statistics.median(half):.1f} ms")


def measure_arrivals(kind: str, address: Address, requests: Sequence[bytes], about: tuple[float, float, int]) -> None:
    rate, seconds, rounds = about
    p99 = statistics.median(
        calm(arrivals(address, requests, rate / 2, seconds)).percentile(0.99) for _ in range(rounds)
    )
    what = f"rank, {kind}, random arrivals at half the rate ({rate / 2:,.0f}/s), p99"
    print_result(what, "", f"{p99:.2f} ms", "at most 10 ms", p99 <= 10)
    flood = [arrivals(address, requests, 5 * rate, seconds, connections=128, patient=False) for _ in range(rounds)]
    worst = statistics.median(load.percentile(0.99) for load in flood)
    for load in flood:
        if set(load.statuses) - {200, 429, 503}:
            raise AssertionError(load.statuses)
        print(
            f"  {kind}, {load.due / load.seconds:,.0f}/s due, {load.unsent / load.seconds:,.0f}/s found no connection, "
            f"answered {load.statuses}, {load.failed} connections closed, p50 {load.percentile(0.5):.1f} ms"
        )
    what, measured = f"rank, {kind}, arrivals at five times the rate, p99", f"{worst:.2f} against {p99:.2f} ms"
    print_result(what, "p99 at half the rate", measured, "at most 2.0x", worst <= 2 * p99)


def measure_search(folder: Path, seconds: float, rounds: int) -> None:
    lines = (folder / "demo" / "web" / "queries.tsv").read_text("utf-8").splitlines()
    queries = [line.split("\t")[1] for line in lines]
    requests = [http_request("GET", f"/v1/search?q={quote_plus(query)}&k=10") for query in queries]
    with serving(folder, folder / "demo" / "web" / "cascade") as (address, _):
        closed(address, requests, 1.0)
        loads = [all_answered(closed(address, requests, seconds)) for _ in range(rounds)]
        rate = statistics.median(load.rate for load in loads)
        what = f"search and re-rank 100, {len(queries)} queries of the embedded collection, 16 connections"
        print_result(what, "", f"{rate:,.0f} requests/s", "at least 300", rate >= 300)
        half = [calm(arrivals(address, requests, rate / 2, seconds)).percentile(0.99) for _ in range(rounds)]
        print_result("the same, random arrivals at half the rate, p99", "", f"{statistics.median(half):.1f} ms")


def measure_swaps(folder: Path, models: dict[str, podium.LambdaMART], seconds: float) -> None:
    """Answers while versions are swapped: each has the scores of the version that it names, bit for bit."""
    rows = matrices()[:1]
    requests = [
        http_request(
            "POST",
            "/v1/models/m:rank",
            JSON,
            json.dumps({"features": rows[0].tolist()}).encode(),
            [f"Authorization: Bearer {TOKEN}"],
        )
    ]
    expected = {name: model.predict(rows[0]).tolist() for name, model in models.items()}
    more = ["--folder", folder / "versions", "--token-file", folder / "token"]
    with serving(folder, folder / "m.podium", *more) as (address, _):
        done, swaps, digests = threading.Event(), [], {}

        def swap() -> None:
            client = podium.Client(f"http://{address[0]}:{address[1]}", token=TOKEN)
            digests[client.models()[0]["live"]["sha256"]] = "one"
            while not done.wait(5.0):
                name = ("two", "one")[len(swaps) % 2]
                digests[client.load("m", name)["sha256"]] = name
                swaps.append(name)
            client.close()

        swapping = threading.Thread(target=swap)
        swapping.start()
        load = arrivals(address, requests, 300.0, seconds, keep=True)
        done.set()
        swapping.join()
    answers = [json.loads(answer) for answer in load.answers]
    mixed = sum(answer["scores"] != expected[digests[answer["model"]]] for answer in answers)
    errors = load.failed + sum(number for status, number in load.statuses.items() if status != 200)
    seen = len({answer["model"] for answer in answers})
    what = f"{len(swaps)} swaps of versions in {seconds:.0f} s, 300 requests/s"
    measured = f"{errors} errors, {mixed} mixed answers of {len(answers):,} by {seen} versions"
    print_result(what, "", measured, "0 errors, 0 mixed", errors == 0 and mixed == 0 and seen == 2)


def measure_memory(folder: Path) -> None:
    requests = raw_requests("/v1/models/m:rank")
    with serving(folder, folder / "m.podium") as (address, process):
        send(address, requests, 10_000)
        before = resident(process.pid)
        sent = send(address, requests, 100_000)
        after = resident(process.pid)
    growth = after / before - 1
    measured = f"{before / 2**20:.0f} to {after / 2**20:.0f} MB, {growth:+.1%}"
    print_result(f"memory over {sent:,} requests", "", measured, "at most +5 %", growth <= 0.05)


def send(address: Address, requests: Sequence[bytes], number: int) -> int:
    """At least so many requests."""
    sent = 0
    while sent < number:
        sent += all_answered(closed(address, requests, 2.0)).statuses[200]
    return sent


def all_answered(load: Load, most_refused: float = 0.0) -> Load:
    answered = load.statuses.get(200, 0)
    if sum(load.statuses.values()) - answered > most_refused * answered or load.failed:
        raise AssertionError(f"expected answers with status 200; got {load.statuses}, {load.failed} closed connections")
    return load


def calm(load: Load) -> Load:
    """Random arrivals: a machine that stands still for a moment may make one in a thousand too many."""
    return all_answered(load, 0.001)


def resident(process: int) -> int:
    with open(f"/proc/{process}/status", encoding="utf-8") as lines:
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024


@contextmanager
def serving(folder: Path, *arguments: object) -> Iterator[tuple[Address, subprocess.Popen[str]]]:
    """`podium serve` in a process of its own."""
    command = ["-m", "podium", "serve", *arguments, "--port", "0"]
    process = pinned(command, stderr=subprocess.PIPE, cwd=folder)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if heard := re.search(r"http://([\d.]+):(\d+) until", line):
                yield (heard[1], int(heard[2])), process
                break
        else:
            raise AssertionError("the service did not start")
    finally:
        end(process)
        process.stderr.close()


@contextmanager
def plain_service(folder: Path) -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()[:2]
    script = Path(__file__).with_name("_plain_service.py")
    process = pinned([script, folder / "m.txt", address[1]], cwd=folder)
    try:
        wait_until(lambda: socket.create_connection(address).close())
        yield address
    finally:
        end(process)


def pinned(command: Sequence[object], **options: Any) -> subprocess.Popen[str]:
    """A process on the first core."""
    start = partial(os.sched_setaffinity, 0, {CORES[0]})
    return subprocess.Popen([sys.executable, *map(str, command)], text=True, preexec_fn=start, **options)


def wait_until(attempt: Callable[[], None], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    if process.wait(60) not in (0, -15):
        raise AssertionError(f"the service ended with {process.returncode}")


if __name__ == "__main__":
    main()
