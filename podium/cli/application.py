"""The frame of the command line: the application, options that commands share, output and errors.

Results go to standard output, messages and progress to standard error. `-` is standard input where a file is read and
standard output where one is written; what a command reports then goes to standard error. Exit codes: 0 fine, 1 a
failure or problems, 2 bad input.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperCommand

from podium import __version__
from podium._runtime.plugins import import_plugin
from podium._runtime.words import printable, printable_json
from podium.cli.inputs import inputs
from podium.cli.wording import for_command_line, options_of

GROUP: dict[str, Any] = {"no_args_is_help": True, "add_completion": False, "pretty_exceptions_enable": False}
GROUP |= {"rich_markup_mode": None, "context_settings": {"help_option_names": ["-h", "--help"]}}
ABOUT = "End-to-end learning to rank: check data, train models, rank, evaluate, compare and explain."
app = typer.Typer(name="podium", help=ABOUT, **GROUP | {"add_completion": True})
_TRACEBACK = "PODIUM_TRACEBACK"  # the variable that lets unexpected errors through


class Command(TyperCommand):
    """A command that refuses an option twice where one is allowed; the last would win silently."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks how a line may go on that is not finished
            return super().parse_args(ctx, args)
        _, _, options = self.make_parser(ctx).parse_args(args=list(args))
        for option in options:
            if options.count(option) > 1 and option.param_type_name == "option" and not option.multiple:
                raise ValueError(f"{option.opts[0]} is given {options.count(option)} times; give it once.")
        return super().parse_args(ctx, args)


command = partial(app.command, cls=Command)

AsJson = Annotated[bool, Option("--json", help="Print a single JSON value.")]
DataFile = Annotated[
    Path, Argument(help="LETOR text (.gz, .zst, ...), CSV, Parquet, LightGBM, .podium-data; - for stdin.")
]
ModelFile = Annotated[Path, Argument(help="A model that podium train or model.save wrote.")]
Metrics = Annotated[list[str], Option("--metric", "-m", help="ndcg@10, map, p@5, recall@100, err@10, rbp(0.8), ...")]
PolicyName = Annotated[str, Option(help="Details of metrics: standard, letor4, trec, ..., or all for a comparison.")]
Force = Annotated[bool, Option("--force", help="Replace a file that holds something else.")]


def main() -> None:
    """Run the command line; errors in the user's input are printed as one sentence, not as a traceback."""
    gc.set_threshold(100_000, 50, 50)  # imports make many objects and no garbage: looking for it is 5 % of a start
    try:
        with inputs, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app(args=_plugins_first(sys.argv[1:]), prog_name="podium")  # completion is by this name
    except (ValueError, ImportError, FileNotFoundError, IsADirectoryError, PermissionError) as error:
        _complain(error)
        sys.exit(2)
    except OSError as error:
        _complain(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        _complain_of_defect(error)
        sys.exit(1)


def _plugins_first(words: list[str]) -> list[str]:
    """`--plugin MODULE` may stand behind the command too; here it comes before it."""
    plugins: list[str] = []
    others: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word == "--plugin":
            plugins += [word, *islice(remaining, 1)]
        else:
            (plugins if word.startswith("--plugin=") else others).append(word)
        if word == "--":
            others.extend(remaining)
    return plugins + others


@app.callback(invoke_without_command=True)
def _root(
    plugin: Annotated[list[str], Option(metavar="MODULE", help="A module to import first; also after COMMAND.")] = [],
    version: Annotated[bool, Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    for name in plugin:
        import_plugin(name)
    if version:
        show(f"podium {__version__}")
        raise typer.Exit


def output(path: Path, as_json: bool) -> tuple[Path, IO[str]]:
    """Where to write, and where to report: standard output is for one of them."""
    from podium._runtime.files import is_standard_output

    out = Path("/dev/stdout") if str(path) == "-" else path
    if not is_standard_output(out):
        return out, sys.stdout
    if as_json:
        raise ValueError(f"{path} and --json would both go to standard output. Write to a file, or leave --json out.")
    return out, sys.stderr


def show(content: Any, file: IO[str] | None = None, end: str = "\n") -> None:
    """Print text without control characters, which ids and titles of documents may have; anything else as JSON."""
    if not isinstance(content, str):
        content = printable_json(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    print(printable(content), file=file, end=end)


def _complain(error: BaseException) -> None:
    message = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror}"
    say(message)


def _complain_of_defect(error: BaseException) -> None:
    """Nobody can work with a traceback but those who can mend the code."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    say(f"an unexpected error, {what}. Please report it with the command; {_TRACEBACK}=1 shows where it arose.")


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    say(str(message))


def say(message: str) -> None:
    """A message in the words of the command line."""
    message = for_command_line(message, lambda: options_of(typer.main.get_command(app), sys.argv[1:]))
    show(f"podium: {inputs.named(message)}", file=sys.stderr)
