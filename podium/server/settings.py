"""What a service serves, to whom and within which limits: options of the command line or a TOML file.

port = 8080
log = "feedback.jsonl"
folder = "versions"          # versions/NAME/VERSION.podium, for :load

[serve.products]             # a name
live = "products.podium"     # a model, a cascade or an index
canary = "new.podium"        # answers the share of the users
canary_share = 0.05
shadow = ["other.podium"]    # compared, never returned

[limits]
waiting = 128
"""

from __future__ import annotations

import ipaddress
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from podium._runtime.words import did_you_mean
from podium.formats.errors import FormatError

LIVE, SHADOW, CANARY = "live", "shadow", "canary"
ROLES = (LIVE, SHADOW, CANARY)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """Bounds on requests. What is above is refused with its bound."""

    body_bytes: int = 8_000_000
    rows: int = 10_000
    k: int = 1_000  # hits per search
    query_characters: int = 1_000
    waiting: int = 128  # requests in a queue
    deadline_seconds: float = 2.0
    connections: int = 2_000
    read_seconds: float = 10.0  # for a whole request to arrive
    drain_seconds: float = 30.0  # for requests under way, after SIGTERM
    load_seconds: float = 60.0  # for a new version to be loaded and tried
    load_bytes: int = 4_000_000_000
    log_bytes: int = 10_000_000_000

    def __post_init__(self) -> None:
        for item in fields(self):
            value, whole = getattr(self, item.name), item.type == "int"
            known = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
            if not known or not math.isfinite(value) or value <= 0:
                kind = "an integer from 1" if whole else "a number above 0"
                raise ValueError(f"limits.{item.name} must be {kind}; got {value!r}.")


@dataclass(frozen=True)
class Entry:
    """What is served under a name: paths by role."""

    live: Path
    canary: Path | None = None
    canary_share: float = 0.1
    shadow: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 < self.canary_share < 1.0:
            raise ValueError(f"canary_share must be a number between 0 and 1; got {self.canary_share!r}.")


@dataclass(frozen=True)
class Settings:
    """The settings of a service."""

    entries: Mapping[str, Entry]
    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()  # further names by which the service is called
    folder: Path | None = None
    log: Path | None = None
    log_features: bool = False  # log every list that is shown, with the features as they were scored
    warmup: Path | None = None
    threads: int | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.entries:
            raise ValueError("Nothing to serve. Give a model, a cascade or an index: podium serve MODEL|CASCADE|INDEX")
        for name in self.entries:
            check_name(name)
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 0 <= self.port <= 65535:
            raise ValueError(f"port must be an integer from 0 to 65,535; got {self.port!r}.")
        if self.token is not None and len(self.token) < _SHORTEST_TOKEN:
            raise ValueError(f"the token has {len(self.token)} characters; give at least {_SHORTEST_TOKEN}.")
        if self.token is None and not self.is_local:
            problem = f"host {self.host} can be reached from other machines, and there is no token"
            raise ValueError(f"{problem}. Give token_file (a file with a secret), or host 127.0.0.1.")
        if self.threads is not None and (type(self.threads) is not int or self.threads < 1):
            raise ValueError(f"threads must be an integer from 1; got {self.threads!r}.")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @staticmethod
    def read(path: Path) -> Settings:
        """The settings of a TOML file; its paths are relative to its folder."""
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FormatError(path, f"is no TOML file: {error}.") from None
        try:
            return _settings(values, path.parent)
        except (TypeError, ValueError) as error:
            raise FormatError(path, str(error)) from None


def check_name(name: str) -> None:
    """Names stand in addresses and labels."""
    if not _NAME.fullmatch(name):
        expected = "1 to 100 letters, digits, '.', '-' or '_', the first a letter or digit"
        raise ValueError(f"a name must have {expected}; got {name[:120]!r}. Give one: NAME=PATH.")


def entries_of(targets: Iterable[str], models: Iterable[str]) -> dict[str, Entry]:
    """Entries of `[NAME=]PATH` and `NAME=PATH[:role]`."""
    entries: dict[str, Entry] = {}
    for target in targets:
        name, path = _named(target)
        if name in entries:
            raise ValueError(f"{target}: {name!r} is served already. Give another name: NAME=PATH.")
        entries[name] = Entry(path)
    for model in sorted(models, key=lambda text: _role(text)[1] != LIVE):
        text, role = _role(model)
        name, path = _named(text)
        if (role == LIVE) == (name in entries):
            problem = f"{name!r} is served already" if role == LIVE else f"{name!r} has no live model"
            raise ValueError(f"--model {model}: {problem}. Give one live model per name, then canary or shadow.")
        if role == LIVE:
            entries[name] = Entry(path)
        elif role == SHADOW:
            entries[name] = replace(entries[name], shadow=(*entries[name].shadow, path))
        elif entries[name].canary is not None:
            raise ValueError(f"--model {model}: {name!r} has a canary already; there can be one.")
        else:
            entries[name] = replace(entries[name], canary=path)
    return entries


def read_token(path: Path) -> str:
    """The secret in a file, without white space around it."""
    token = path.read_text(encoding="utf-8").strip()
    if not token.isascii() or not token.isprintable():
        raise FormatError(path, "holds no token: expected ASCII letters, digits and signs on one line.")
    return token


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if equals and _NAME.fullmatch(name):
        return name, Path(path)
    path_alone = Path(text)
    return (path_alone.stem if path_alone.suffix == ".podium" else path_alone.resolve().name), path_alone


def _role(text: str) -> tuple[str, str]:
    path, _, role = text.rpartition(":")
    return (path, role) if path and role in ROLES else (text, LIVE)


def _settings(values: dict[str, Any], folder: Path) -> Settings:
    known = {item.name for item in fields(Settings)} - {"entries", "token"} | {"serve", "token_file"}
    _refuse_unknown("", values, known)
    served = _table("serve", values.pop("serve", {}))
    entries = {name: _entry(name, _table(f"serve.{name}", table), folder) for name, table in served.items()}
    limits = _table("limits", values.pop("limits", {}))
    _refuse_unknown("limits.", limits, {item.name for item in fields(Limits)})
    for name in ("folder", "log", "warmup", "token_file"):
        if name in values:
            values[name] = folder / _text(name, values[name])
    if "token_file" in values:
        values["token"] = read_token(values.pop("token_file"))
    if "host" in values:
        _text("host", values["host"])
    values["hosts"] = tuple(_text("hosts", host) for host in _list("hosts", values.get("hosts", [])))
    return Settings(entries, limits=Limits(**limits), **values)


def _entry(name: str, table: dict[str, Any], folder: Path) -> Entry:
    where = f"serve.{name}"
    _refuse_unknown(f"{where}.", table, {item.name for item in fields(Entry)})
    if LIVE not in table:
        raise ValueError(f"{where} needs live, the path of a model, a cascade or an index.")
    shadow = tuple(folder / _text(f"{where}.shadow", path) for path in _list(f"{where}.shadow", table.get(SHADOW, [])))
    canary = folder / _text(f"{where}.canary", table[CANARY]) if CANARY in table else None
    share = table.get("canary_share", Entry.canary_share)
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise ValueError(f"{where}.canary_share must be a number between 0 and 1; got {share!r}.")
    return Entry(folder / _text(f"{where}.live", table[LIVE]), canary, share, shadow)


def _refuse_unknown(where: str, values: Mapping[str, Any], known: Iterable[str]) -> None:
    for name in values:
        if name not in known:
            raise ValueError(f"{where}{name} is not a setting.{did_you_mean(name, known)}")


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table; got {value!r}.")
    return dict(value)


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list; got {value!r}.")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be text; got {value!r}.")
    return value
