"""Options of every command that reads files of data: which columns of a table are what, and how features are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Option

from podium.cli.inputs import inputs

_OPTIONS: dict[str, Any] = {
    "label": Annotated[str | None, Option(help="Tables: the column of labels; default: label.")],
    "qid": Annotated[str | None, Option(help="Tables: the column of query ids; default: qid.")],
    "docid": Annotated[str | None, Option(help="Tables: the column of document ids; default: docid.")],
    "drop": Annotated[list[str], Option(metavar="COLUMN", help="Tables: a column to leave out.")],
    "categorical": Annotated[list[str], Option(metavar="COLUMN", help="Tables: a column of categories.")],
    "names": Annotated[Path | None, Option(metavar="FILE", help="The names of the features, one per line.")],
    "zero_based": Annotated[
        bool | None, Option("--zero-based/--one-based", help="LETOR, LightGBM: what features count from.")
    ],
}
_COMMA = ("drop", "categorical")  # which may be lists: --drop url,title


def reads_data(function: Callable[..., None]) -> Callable[..., None]:
    """A command with these options too; they are what `inputs.reading` reads files with."""
    signature = inspect.signature(function, eval_str=True)
    missing = {name: kind for name, kind in _OPTIONS.items() if name not in signature.parameters}

    @wraps(function)
    def command(**values: Any) -> None:
        chosen = {name: values.pop(name) for name in missing}
        inputs.options = {name: _listed(name, value) for name, value in chosen.items() if value not in (None, [], ())}
        function(**values)

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=[] if name in _COMMA else None, annotation=kind)
        for name, kind in missing.items()
    ]
    command.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # type: ignore[attr-defined]
    command.__annotations__ = get_type_hints(function, include_extras=True) | missing
    return command


def _listed(name: str, value: Any) -> Any:
    """The columns of all options, which may name several each."""
    return [column for text in value for column in text.split(",") if column] if name in _COMMA else value
