"""`podium lab`: experiments on the command line."""

from __future__ import annotations

import typer

from podium.cli.lab_report import report_command

lab = typer.Typer(name="lab", help="Experiments: stored results and their report.", no_args_is_help=True)
lab.command("report")(report_command)
