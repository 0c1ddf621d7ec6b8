"""Measures: what /metrics shows, in the format of Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


class Measures:
    """The counters of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        shared: Any = {"registry": self._registry}
        self._requests = Counter(
            "podium_requests_total", "Requests, by route and status.", ["route", "status"], **shared
        )
        self._answered = Counter(
            "podium_answers_total", "Answers, by name, role and version.", ["name", "role", "sha256"], **shared
        )
        self._seconds = Histogram(
            "podium_request_seconds", "Seconds from arrival to answer.", ["route"], buckets=_SECONDS, **shared
        )
        self._stages = Histogram(
            "podium_stage_seconds", "Seconds per stage of an answer.", ["stage"], buckets=_SECONDS, **shared
        )
        self.loads = Counter(
            "podium_loads_total", "Versions that were loaded or refused.", ["name", "outcome"], **shared
        )
        self.waiting = Gauge("podium_waiting_requests", "Requests in queues.", **shared)
        self.log_waiting = Gauge("podium_log_waiting_records", "Records that the disk does not have yet.", **shared)
        self.not_logged = Counter(
            "podium_not_logged_total", "Answers left out of the log because it fell behind.", **shared
        )
        self.canary_failures = Counter(
            "podium_canary_failures_total",
            "Requests that a canary failed at; the live version answered them.",
            ["name", "canary"],
            **shared,
        )
        self.shadows = Counter(
            "podium_shadow_requests_total",
            "Requests that a shadow scored too.",
            ["name", "shadow", "outcome"],
            **shared,
        )
        self.shadow_overlap = Histogram(
            "podium_shadow_overlap_at_10",
            "Share of the ten best documents that live and shadow version have in common.",
            ["name", "shadow"],
            buckets=_SHARES,
            **shared,
        )
        self._children: dict[tuple[str, ...], Any] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        key = (route, str(status))
        known = self._children.get(key)
        if known is None:  # finding a child by its labels costs as much as counting
            known = self._children[key] = (self._requests.labels(*key), self._seconds.labels(route))
        requests, histogram = known
        requests.inc()
        histogram.observe(seconds)

    def scored(self, name: str, role: str, digest: str) -> None:
        key = (name, role, digest)
        known = self._children.get(key)
        if known is None:
            known = self._children[key] = self._answered.labels(*key)
        known.inc()

    def stage(self, name: str, seconds: float) -> None:
        known = self._children.get((name,))
        if known is None:
            known = self._children[(name,)] = self._stages.labels(name)
        known.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self._registry)
