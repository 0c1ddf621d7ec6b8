"""`podium serve`: an HTTP service for ranking and search, and a page to look at it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from podium.cli.application import AsJson, command, say, show

_EXTRA = 'podium serve needs further packages: pip install "podium[serve]"'


@command("serve")
def serve_command(
    targets: Annotated[
        list[str], Argument(metavar="[NAME=]MODEL|CASCADE|INDEX...", help="What is served; names are file names.")
    ] = [],
    model: Annotated[
        list[str], Option(metavar="NAME=FILE[:role]", help="A version as live (default), canary or shadow.")
    ] = [],
    config: Annotated[Path | None, Option(help="All of it in a TOML file.")] = None,
    host: Annotated[str | None, Option(help="The address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[int | None, Option(help="The port; default 8080, 0 is any that is free.")] = None,
    token_file: Annotated[Path | None, Option(help="A file with the secret that requests must carry.")] = None,
    folder: Annotated[Path | None, Option(help="Versions that :load may take: FOLDER/NAME/VERSION.podium.")] = None,
    log: Annotated[Path | None, Option(help="The file for clicks and judgements.")] = None,
    log_features: Annotated[bool, Option("--log-features", help="Log shown lists too, with their features.")] = False,
    warmup: Annotated[Path | None, Option(help="Requests that every version must answer: JSON lines.")] = None,
    get: Annotated[
        str | None, Option(metavar="ADDRESS", help='Answer once, without a port: "/v1/search?q=tea".')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve ranking, search and a page over HTTP."""
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import jinja2  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ImportError(_EXTRA) from None
    options = {"host": host, "port": port, "folder": folder, "log": log, "warmup": warmup}
    options |= {"token_file": token_file, "log_features": log_features or None}
    settings = _settings(targets, model, config, {name: value for name, value in options.items() if value is not None})
    if get is not None:
        _answer_once(settings, get)
        return
    from podium.server.running import run

    def ready(address: str) -> None:
        if as_json:
            show({"address": address, "serves": list(settings.entries)})
            sys.stdout.flush()  # whoever started it waits for this
        say(f"serving {', '.join(settings.entries)} at {address} until Ctrl-C")

    say(f"loading {', '.join(settings.entries)}")
    run(settings, ready)


def _settings(targets: list[str], models: list[str], config: Path | None, options: dict[str, Any]) -> Any:
    from dataclasses import replace

    from podium.server.settings import Settings, entries_of, read_token

    if "token_file" in options:
        options["token"] = read_token(options.pop("token_file"))
    entries = entries_of(targets, models)
    if config is None:
        return Settings(entries, **options)
    read = Settings.read(config)
    twice = [name for name in entries if name in read.entries]
    if twice:
        raise ValueError(f"{twice[0]!r} is served by {config} already. Give another name: NAME=PATH.")
    return replace(read, entries={**read.entries, **entries}, **options)


def _answer_once(settings: Any, address: str) -> None:
    from podium.server.once import answer_once

    status, body = answer_once(settings, address)
    text = body.decode("utf-8", "replace")
    if status >= 400:
        show(text, file=sys.stderr)
        raise typer.Exit(2 if status < 500 else 1)
    show(text)
