"""`podium lab`: experiments and data sets."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from podium._runtime.words import counted
from podium.cli.application import GROUP, AsJson, Command, Force, say, show

ABOUT = "Run experiments and report their results. Data sets, folds, tuning; worked examples."
app: typer.Typer = typer.Typer(name="lab", help=ABOUT, **GROUP)

ExperimentFile = Annotated[str, Argument(metavar="EXPERIMENT", help="A TOML file, or the name of a preset: mq2008.")]


@app.command("run", cls=Command)
def run_command(
    experiment: ExperimentFile,
    out: Annotated[Path | None, Option(help="The folder for results, where a run resumes; default: lab-NAME.")] = None,
    jobs: Annotated[int | None, Option(min=1, help="Number of processes; default: one per core.")] = None,
    models: Annotated[str | None, Option(help="Only these models, separated by commas.")] = None,
    folds: Annotated[str | None, Option(help="Only these folds, separated by commas.")] = None,
    on: Annotated[str | None, Option(help="test, or valid: by the validation part, the test part unread.")] = None,
    no_report: Annotated[bool, Option("--no-report", help="Write no report.html.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment, or what is missing of it. The leaderboard is printed."""
    from podium._runtime.progress import progress
    from podium.cli import lab_tables
    from podium.lab.experiments.experiment import read_experiment
    from podium.lab.experiments.running import run

    wanted, base = read_experiment(experiment)
    wanted = wanted if on is None else wanted.changed(on=on)
    folder = Path(f"lab-{wanted.name}") if out is None else out
    chosen: dict[str, Any] = {"models": _listed(models, wanted.models), "folds": _listed(folds)}
    with progress(f"running {wanted.name}") as report:
        outcome = run(wanted, folder, n_jobs=jobs, base=base, report=report, **chosen)
    if not as_json:
        lab_tables.print_outcome(outcome)
    written = None if no_report else lab_tables.write_report(outcome)
    if as_json:
        show(lab_tables.outcome_json(outcome) | {"report": None if written is None else str(written)})
    elif written is not None:
        show(f"{written}: written")
    elif not no_report and outcome.results.runs:
        show(f"For a report: pip install 'podium[report]', then: podium lab report {folder}")
    for failure in outcome.failures:
        say(str(failure))
    raise typer.Exit(0 if outcome.is_complete else 1)


@app.command("show", cls=Command)
def show_command(experiment: ExperimentFile, as_json: AsJson = False) -> None:
    """Print an experiment. It is a preset to begin with, or a file, checked."""
    from podium.lab.experiments.experiment import find_file, read_experiment

    checked, _ = read_experiment(experiment)
    show(checked.to_plain() if as_json else find_file(experiment).read_text(encoding="utf-8").removesuffix("\n"))


@app.command("report", cls=Command)
def report_command(
    folder: Annotated[Path, Argument(help="A folder of results that podium lab run wrote.")],
    out: Annotated[Path | None, Option(help="The HTML file to write; default: report.html in the folder.")] = None,
    queries: Annotated[
        Path | None, Option(help="A file with the texts of the queries, shown beside their ids.")
    ] = None,
    tables: Annotated[Path | None, Option(help="A folder for every table as CSV and LaTeX.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a report of stored results as one HTML file. It has leaderboard, intervals, charts, provenance."""
    from podium._runtime.files import refuse_bad_target
    from podium.lab.experiments.results import Results
    from podium.lab.report import write_report
    from podium.workflows.outputs import refuse_other_kind

    results = Results.load(folder)
    target = folder / "report.html" if out is None else out
    refuse_bad_target(target)
    refuse_other_kind("--out", target, "page", force)
    write_report(results, target, queries=queries, tables=tables)
    about = {"runs": len(results.runs), "models": results.models, "written": str(target)}
    sizes = f"{counted(len(results.runs), 'run')} of {counted(len(results.models), 'model')}"
    show(about if as_json else f"{target}: {sizes}, {target.stat().st_size / 1e6:.1f} MB")


@app.command("data", cls=Command)
def data_command(
    check: Annotated[bool, Option("--check", help="Compare files with what was published.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the known data sets. It shows where they lie under $PODIUM_DATA."""
    from podium.cli import lab_tables
    from podium.lab.experiments.datasets import overview

    lines = overview(check=check)
    if as_json:
        show(lines)
    else:
        lab_tables.print_data(lines)
    problems = [problem for line in lines for problem in line.get("problems", [])]
    for problem in problems:
        say(problem)
    raise typer.Exit(1 if problems else 0)


@app.command("download", cls=Command)
def download_command(
    name: Annotated[str, Argument(help="A data set; podium lab data lists them.")],
    to: Annotated[Path | None, Option(help="The folder for data sets; default: $PODIUM_DATA.")] = None,
    accept: Annotated[bool, Option("--accept-licence", help="You accept the publisher's terms.")] = False,
    as_json: AsJson = False,
) -> None:
    """Download a data set from its publisher. Where that is not allowed, it says what to do."""
    from podium._runtime.progress import progress
    from podium.lab.experiments.downloading import download_dataset

    with progress(f"downloading {name}") as report:
        located = download_dataset(name, to, accepted=accept, report=report)
    folder, name = str(located.folder), located.dataset.name
    show({"name": name, "folder": folder, "folds": list(located.folds.names)} if as_json else f"{folder}: {name}")


@app.command("worked-numbers", cls=Command)
def worked_numbers_command(as_json: AsJson = False) -> None:
    """Compute the examples of notes and papers again. They are shown beside what is printed there."""
    from podium.cli import worked_tables
    from podium.lab.worked import worked_numbers

    examples = worked_numbers()
    if as_json:
        show(worked_tables.worked_json(examples))
    else:
        worked_tables.print_worked(examples)
    problems = worked_tables.unexpected(examples)
    for problem in problems:
        say(problem)
    raise typer.Exit(1 if problems else 0)


def _listed(text: str | None, known: Container[str] = ()) -> list[str] | None:
    """The names in a text, between commas. Known names may have commas of their own; the longest one counts."""
    if text is None:
        return None
    parts, names = [part.strip() for part in text.split(",") if part.strip()], []
    while parts:
        lengths = range(len(parts), 1, -1)
        length = next((n for n in lengths if ", ".join(parts[:n]) in known), 1)
        names.append(", ".join(parts[:length]))
        parts = parts[length:]
    return names
