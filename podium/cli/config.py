"""A command's arguments and options in a TOML file, under their names, and the parameters of its model in a table.

    model = "lambdamart"
    train = ["S1.txt", "S2.txt"]
    valid = "S4.txt"
    out = "m.podium"
    early-stopping = 20
    [parameters]
    learning_rate = 0.05

Files are relative to the folder of the TOML file. What the command line says takes the place of what the file says.
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import typer

from podium._runtime.words import did_you_mean
from podium.cli.application import app

PARAMETERS = "parameters"
_NOT_IN_FILES = ("config", "set", "help")
_KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    int: ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    str: ("text", lambda value: isinstance(value, str)),
    Path: ("the name of a file", lambda value: isinstance(value, str)),
}


def configure(context: typer.Context, path: Path | None) -> Path | None:
    """The callback of `--config`, before all others: what the file says are the defaults of this command."""
    if path is not None:
        content = read_config(path)
        problems, values, entries = list[str](), dict[str, Any](), _entries(context.info_name)
        for key, value in content.items():
            if key in entries:
                problems += [f"{path}: {problem}" for problem in entries[key].problems(key, value)]
                values[entries[key].name] = value if problems else entries[key].value(value, path.parent)
            elif key != PARAMETERS:
                guess = did_you_mean(key, (*entries, PARAMETERS))
                problems.append(f"{path}: {key}: there is no such option.{guess}")
        if problems:
            raise ValueError("\n".join(problems))
        context.default_map = values
    return path


def read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: expected TOML but found {error}. Correct the file.") from None


def with_parameters(path: Path | None, model: str, settings: list[str]) -> list[str]:
    """Settings of the command line, and those of the file that it does not name; each of the file is checked here."""
    if path is None:
        return settings
    from podium.models.registry import find_model

    entry, table = find_model(model), read_config(path).get(PARAMETERS, {})
    if not isinstance(table, Mapping):
        raise ValueError(f"{path}: {PARAMETERS}: expected a table of parameters, but found {table!r}.")
    named = {setting.partition("=")[0].strip() for setting in settings}
    texts, problems = dict[str, str](), list[str]()
    for name, value in table.items():
        where = f"{path}: {PARAMETERS}.{name}"
        if name not in entry.parameters:
            problems.append(f"{where}: {entry.class_name} has no such parameter.{did_you_mean(name, entry.parameters)}")
            continue
        texts[name] = _text(name, value, path.parent)
        problems += [f"{where}: {problem}" for problem in _parameter_problems(entry, name, texts[name])]
    if problems:
        raise ValueError("\n".join(problems))
    return [*(f"{name}={text}" for name, text in texts.items() if name not in named), *settings]


def _parameter_problems(entry: Any, name: str, text: str) -> Iterator[str]:
    declaration = entry.parameters[name].declaration
    try:
        value = declaration.read(text)
    except (ValueError, KeyError) as error:
        yield str(error) if declaration.kind.explains else str(declaration.refuse(entry.class_name, name, text))
        return
    if not declaration.takes(value):
        yield str(declaration.refuse(entry.class_name, name, value))


def _text(name: str, value: Any, folder: Path) -> str:
    """A value as `--set` takes it; an init model may be a file."""
    if isinstance(value, str):
        return str(folder / value) if name == "init" and (folder / value).is_file() else value
    return json.dumps(value) if isinstance(value, (list, dict)) else str(value)


@dataclass(frozen=True)
class _Entry:
    """What a key of the file stands for: an argument or option of the command."""

    name: str  # of the function's parameter
    kind: type
    is_list: bool
    low: float | None

    def problems(self, key: str, value: Any) -> Iterator[str]:
        words, holds = _KINDS[self.kind]
        several = self.is_list and isinstance(value, list)
        for number, one in enumerate(value if several else [value]):
            where = f"{key}[{number}]" if several else key
            if not holds(one):
                yield f"{where}: expected {words}{' or a list of it' if self.is_list else ''}, but found {one!r}."
            elif self.low is not None and one < self.low:
                yield f"{where}: expected {self.low} or more, but found {one!r}."

    def value(self, value: Any, folder: Path) -> Any:
        """As the command line would have it."""
        if self.is_list:
            return [self._located(one, folder) for one in (value if isinstance(value, list) else [value])]
        return self._located(value, folder)

    def _located(self, value: Any, folder: Path) -> Any:
        return str(folder / value) if self.kind is Path and value != "-" else value


def _entries(command: str | None) -> dict[str, _Entry]:
    """The arguments and options of a command by their names, `early-stopping`."""
    callback = next(one.callback for one in app.registered_commands if one.name == command)
    entries = {}
    for name, parameter in inspect.signature(callback, eval_str=True).parameters.items():  # type: ignore[arg-type]
        annotation, info = get_args(parameter.annotation)[:2] if get_args(parameter.annotation) else (str, None)
        key = next((text for text in getattr(info, "param_decls", None) or () if text.startswith("--")), name)
        kind = next((one for one in get_args(annotation) if one is not NoneType), annotation)
        entry = _Entry(name, kind, get_origin(annotation) is list, getattr(info, "min", None))
        entries[key.removeprefix("--").partition("/")[0].replace("_", "-")] = entry
    return {key: entry for key, entry in entries.items() if key not in _NOT_IN_FILES}
