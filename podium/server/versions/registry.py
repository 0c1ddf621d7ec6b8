"""Registry: what is served under which name. A change makes a new table and replaces the old one by one assignment.

A request takes what it needs from the table once, and is answered by that, whatever is loaded meanwhile.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podium.server.errors import Refusal, unknown
from podium.server.settings import CANARY, LIVE, ROLES, SHADOW, Entry, Settings
from podium.server.versions.version import Version, digest_of, load_version

_SUFFIX = ".podium"


@dataclass(frozen=True)
class Served:
    """The versions under a name, by role."""

    name: str
    live: Version
    canary: Version | None = None
    canary_share: float = 0.1
    shadows: tuple[Version, ...] = ()

    def version_for(self, user: str | None) -> tuple[Version, str]:
        """Who answers this user, and in which role. A user is answered by the same version each time."""
        if self.canary is not None and user is not None and _place_of(self.name, user) < self.canary_share:
            return self.canary, CANARY
        return self.live, LIVE

    def about(self) -> dict[str, Any]:
        about: dict[str, Any] = {"name": self.name, LIVE: self.live.about()}
        if self.canary is not None:
            about |= {CANARY: self.canary.about(), "canary_share": self.canary_share}
        return about | ({SHADOW: [one.about() for one in self.shadows]} if self.shadows else {})


def _place_of(name: str, user: str) -> float:
    """A number from 0 to 1 that a user keeps; of another name, another one."""
    digest = hashlib.blake2b(f"{name}\n{user}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Registry:
    """Everything that is served. Reading needs no lock; changes are made one at a time."""

    def __init__(self, settings: Settings) -> None:
        self._folder, self._limits = settings.folder, settings.limits
        self._served: Mapping[str, Served] = {name: _load(name, entry) for name, entry in settings.entries.items()}
        self._changing = threading.Lock()

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._served)

    def get(self, name: str) -> Served:
        served = self._served.get(name)
        if served is None:
            raise unknown("model", "model", name, self._served)
        return served

    def first_search(self) -> str:
        """The name that a search is answered by which names none."""
        return next((served.name for served in self if served.live.searcher is not None), "")

    def versions_of(self, name: str) -> dict[str, Path]:
        """What `load` can take: the files and folders of FOLDER/NAME, by their names without suffix."""
        self.get(name)
        if self._folder is None:
            raise Refusal(403, "no folder of versions is configured. Start the service with --folder FOLDER.")
        folder = self._folder / name  # a name that is served, not one of a request
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        paths = [path for path in paths if path.is_dir() or path.suffix == _SUFFIX]
        return {path.name.removesuffix(_SUFFIX): path for path in paths}

    def load(self, name: str, label: str, role: str, trial: Callable[[Path], None]) -> Version:
        """Put a version of the folder in a role, after `trial(path)` has found nothing wrong with it."""
        if role not in ROLES:
            raise unknown("role", "role", role, ROLES)
        if not self._changing.acquire(blocking=False):
            raise Refusal(409, "another version is being loaded. Wait until it is, then try again.", retry_after=5)
        try:
            versions = self.versions_of(name)
            if label not in versions:
                raise unknown("version", "version", label, versions)
            served = self.get(name)
            digest = digest_of(versions[label])
            trial(versions[label])
            version = load_version(versions[label], label)
            if version.digest != digest:
                raise ValueError(f"{label} has changed since its trial. Give each version a file of its own.")
            _refuse_other_kind(served.live, version)
            self._replace(_with(served, version, role))
            return version
        finally:
            self._changing.release()

    def unload(self, name: str, role: str) -> None:
        """Take the canary or the shadows of a name out of service."""
        if role not in (CANARY, SHADOW):
            raise unknown("role", "role that can be empty", role, (CANARY, SHADOW))
        with self._changing:
            served = self.get(name)
            self._replace(replace(served, canary=None) if role == CANARY else replace(served, shadows=()))

    def _replace(self, served: Served) -> None:
        self._served = {**self._served, served.name: served}


def _load(name: str, entry: Entry) -> Served:
    live = load_version(entry.live)
    others = {path: load_version(path) for path in (entry.canary, *entry.shadow) if path is not None}
    for version in others.values():
        _refuse_other_kind(live, version)
    canary = None if entry.canary is None else others[entry.canary]
    return Served(name, live, canary, entry.canary_share, tuple(others[path] for path in entry.shadow))


def _with(served: Served, version: Version, role: str) -> Served:
    if role == LIVE:
        return replace(served, live=version)
    return replace(served, canary=version) if role == CANARY else replace(served, shadows=(version,))


def _refuse_other_kind(live: Version, version: Version) -> None:
    """Whoever sends requests knows the features and the kind of the live version."""
    if (live.searcher is None) != (version.searcher is None):
        message = f"version {version.label!r} is a {version.kind}, where a {live.kind} is served."
        raise Refusal(400, f"{message} Serve it under a name of its own.", "version", f"a {live.kind}")
    if live.searcher is None and live.names != version.names:
        message = f"version {version.label!r} has other features than {live.label!r}, which is served"
        raise Refusal(400, f"{message}. Serve it under a name of its own.", "version", "the same features")
