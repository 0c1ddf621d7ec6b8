"""`podium lab`: experiments and data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from podium.cli.application import AsJson, Command, print_json, say, show
from podium.cli.lab_report import report_command

app: typer.Typer = typer.Typer(
    name="lab",
    help="Run experiments: data sets, folds, tuning, results and their report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ExperimentFile = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="A TOML file, or the name of a preset: mq2008.")
]


@app.command("run", cls=Command)
def run_command(
    experiment: ExperimentFile,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the results; default: lab-NAME. A stopped run goes on there.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes; default: one per core.")] = None,
    models: Annotated[str | None, typer.Option(help="Only these models, separated by commas.")] = None,
    folds: Annotated[str | None, typer.Option(help="Only these folds, separated by commas.")] = None,
    on: Annotated[
        str | None, typer.Option(help="test, or valid: judge by the validation part and do not read the test part.")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.html.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, or what is missing of it, and print the leaderboard."""
    from podium._runtime.progress import progress
    from podium.cli import lab_tables
    from podium.lab.experiments.experiment import read_experiment
    from podium.lab.experiments.running import run

    found, base = read_experiment(experiment)
    found = found if on is None else found.changed(on=on)
    folder = Path(f"lab-{found.name}") if out is None else out
    chosen: dict[str, Any] = {"models": _listed(models), "folds": _listed(folds)}
    with progress(f"running {found.name}") as report:
        outcome = run(found, folder, n_jobs=jobs, base=base, report=report, **chosen)
    if not as_json:
        lab_tables.print_outcome(outcome)
    written = None if no_report else lab_tables.write_report(outcome)
    if as_json:
        print_json(lab_tables.outcome_json(outcome) | {"report": None if written is None else str(written)})
    elif written is not None:
        show(f"{written}: written")
    elif not no_report and outcome.results.runs:
        show(f"For a report: pip install 'podium[report]', then: podium lab report {folder}")
    for failure in outcome.failures:
        say(str(failure))
    raise typer.Exit(0 if outcome.is_complete else 1)


@app.command("show", cls=Command)
def show_command(experiment: ExperimentFile, as_json: AsJson = False) -> None:
    """Print an experiment: a preset to begin with, or a file of your own, checked."""
    from podium.lab.experiments.experiment import find_file, read_experiment

    found, _ = read_experiment(experiment)
    if as_json:
        print_json(found.to_plain())
    else:
        show(find_file(experiment).read_text(encoding="utf-8"), end="")


app.command("report", cls=Command)(report_command)


@app.command("data", cls=Command)
def data_command(
    check: Annotated[
        bool, typer.Option("--check", help="Compare the files that were found with what was published.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the data sets that are known, and where they were found under $PODIUM_DATA."""
    from podium.cli import lab_tables
    from podium.lab.experiments.datasets import overview

    lines = overview(check=check)
    if as_json:
        print_json(lines)
    else:
        lab_tables.print_data(lines)
    problems = [problem for line in lines for problem in line.get("problems", [])]
    for problem in problems:
        say(problem)
    raise typer.Exit(1 if problems else 0)


@app.command("download", cls=Command)
def download_command(
    name: Annotated[str, typer.Argument(help="A data set; podium lab data lists them.")],
    to: Annotated[Path | None, typer.Option(help="The folder for data sets; default: $PODIUM_DATA.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept-licence", help="You have read the publisher's terms and accept them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Download a data set from its publisher, or say what to do where that is not allowed."""
    from podium._runtime.progress import progress
    from podium.lab.experiments.downloading import download_dataset

    with progress(f"downloading {name}") as report:
        found = download_dataset(name, to, accepted=accept, report=report)
    if as_json:
        print_json({"name": found.dataset.name, "folder": str(found.folder), "folds": list(found.folds.names)})
    else:
        show(f"{found.folder}: {found.dataset.name}")


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]
