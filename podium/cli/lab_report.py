"""`podium lab report`: the report of stored results, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podium._runtime.words import counted
from podium.cli.application import AsJson, print_json, show


def report_command(
    folder: Annotated[Path, typer.Argument(help="A folder of results that podium lab run wrote.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write; default: report.html in the folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of stored results as one HTML file: leaderboard, intervals, charts, provenance."""
    from podium._runtime.files import refuse_bad_target
    from podium.lab.experiments.results import Results
    from podium.lab.report import write_report

    results = Results.load(folder)
    target = folder / "report.html" if out is None else out
    refuse_bad_target(target)
    write_report(results, target)
    if as_json:
        print_json({"runs": len(results.runs), "models": results.models, "written": str(target)})
    else:
        found = f"{counted(len(results.runs), 'run')} of {counted(len(results.models), 'model')}"
        show(f"{target}: {found}, {target.stat().st_size / 1e6:.1f} MB")
