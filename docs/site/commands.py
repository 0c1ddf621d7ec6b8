"""The reference of the command line: every command with its arguments and options, read from the application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import typer
from docstrings import as_markdown, escaped

from podium import cli

INTRODUCTION = """# Command line reference

Every command with its arguments and options; `podium COMMAND --help` prints the same. Each exits with 0 (success), 1
(failure, or problems found) or 2 (invalid input), and prints a single JSON value with `--json`. `-` is standard input
where a file is read and standard output where one is written.
"""


def page() -> str:
    root = typer.main.get_command(cli.app)
    parts = [described(name, command) for name, command in all_commands(root, "podium")]
    return "\n\n".join([INTRODUCTION.rstrip(), *parts]) + "\n"


def all_commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    """(name, command) in the order of `podium --help`, those of groups after their group's name."""
    for key, command in group.commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{name} {key}")
        else:
            yield f"{name} {key}", command


def described(name: str, command: Any) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}", f"```text\n{usage}\n```", as_markdown(command.help or "")]
    rows = [row for one in command.get_params(context) if (row := parameter(one, context))]
    return "\n\n".join([*parts, *rows])


def parameter(one: Any, context: Any) -> str:
    """A definition: how it is written, and what it is for."""
    record = one.get_help_record(context)
    if record is None:
        return ""
    written, about = record
    return f"`{' '.join(written.split())}`\n: {escaped(about) or 'See above.'}"
