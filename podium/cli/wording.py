"""Wording: the library advises arguments of Python; a reader of the command line needs options.

`metric="map"` becomes `--metric map` where the command has this option, `--set metric=map` where it sets parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

# What is said in another way, or has no counterpart.
_PHRASES = {
    'To rank its documents, read it with labels="optional".': "Only podium rank, convert and check need none.",
    ' For data without labels: label=None, or labels="optional".': "",
    "; pass strict=True to refuse": "",
    ", or pass strict=False to read them as they are": "",
    ' or pass missing="zero"': " or add --missing zero",
    "Otherwise name the format: format= in Python, --to in podium convert.": "podium convert --to names a format.",
    "keep_texts=False": "--no-texts",
    "podium convert and podium.read_data read it": "podium convert reads it",
    ", podium.load loads it": "",
    " or model.save": "",
    "(format=, --format)": "(--format)",
}
_OTHER_NAMES = {
    "eval_set": "valid",
    "n_jobs": "jobs",
    "random_state": "seed",
    "early_stopping_rounds": "early_stopping",
}
_SET = "--set"
_VALUE = r"\"([^\"\n]*)\"|'([^'\n]*)'|(None|True|False)\b"
_ASSIGNED = re.compile(rf"(?<![\w./\\'\"=(<-])(?:\bset )?([a-z][a-z0-9_]*)=(?:{_VALUE})")
_NAME = re.compile(r"(?<![\w./\\'\"(<=-])([a-z]+(?:_[a-z0-9]+)+)(?![\w./\\'\"(=-])")


def options_of(command: Any, words: list[str]) -> dict[str, str]:
    """The options of the command that the words call, by the names of their arguments in Python.

    Parameters of the model that is named, if one is, are set by `--set`.
    """
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = [one for one in command.params if one.param_type_name == "option"]
    flags = {str(one.name): str(max(one.opts, key=len)) for one in options}
    flags |= {name: flags[option] for name, option in _OTHER_NAMES.items() if option in flags}
    if "settings" not in flags:
        return flags
    from podium.models.registry import catalogue  # a search needs no models

    entries = {entry.name: entry for entry in catalogue()}
    named = [name for word in words if word.lower() in entries for name in entries[word.lower()].parameters]
    return dict.fromkeys(named, _SET) | flags


def for_command_line(message: str, find_options: Callable[[], Mapping[str, str]]) -> str:
    """The message with options in place of arguments; those of the command are found if there may be any."""
    for phrase, other in _PHRASES.items():
        message = message.replace(phrase, other)
    if not _ASSIGNED.search(message) and not _NAME.search(message):
        return message
    options = find_options()
    message = _ASSIGNED.sub(lambda match: _assigned(match, options), message)
    return _NAME.sub(lambda match: _named(match, options), message)


def _assigned(match: re.Match[str], options: Mapping[str, str]) -> str:
    name, value = match[1], next(text for text in match.groups()[1:] if text is not None)
    if name not in options:
        return match[0]
    if options[name] == _SET:
        return f"{_SET} {name}={value}"
    return options[name] if value == "True" else f"{options[name]} {value}"


def _named(match: re.Match[str], options: Mapping[str, str]) -> str:
    option = options.get(match[1], _SET)
    return match[1] if option == _SET else option
