"""Commands on models of other programs: export, import, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from podium.cli.application import AsJson, Force, ModelFile, command, output, show
from podium.cli.data_options import reads_data
from podium.cli.inputs import inputs

Engine = Annotated[str | None, Option(help="The version of the program that reads the file, where it matters.")]
Complete = Annotated[bool, Option("--complete", help="The rows to be scored have no missing values.")]
Rows = Annotated[Path | None, Option(help="Ranking data whose rows to take; default: rows at the thresholds.")]


@command("export")
@reads_data
def export_command(
    model: ModelFile,
    to: Annotated[str, Option(help="The format: lightgbm, xgboost, onnx, c, ...: docs/deploying.md lists them.")],
    out: Annotated[Path, Option(help="The file for the program; its report stands beside it. - for standard output.")],
    engine: Engine = None,
    complete: Complete = False,
    golden: Annotated[Path | None, Option(help="Also write rows with expected scores, one per line of JSON.")] = None,
    data: Rows = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a model for another program. A report says how equal its scores will be."""
    from podium.workflows.exchanging import Target, export_file

    out, stream = output(out, as_json)
    report = export_file(
        model,
        out,
        Target(to, engine, complete),
        golden=golden,
        data=data,
        force=force,
        locate=inputs.reading,
    )
    show(report.as_dict() if as_json else str(report), file=stream)


@command("import")
def import_command(
    file: Annotated[Path, Argument(help="A model of LightGBM, XGBoost, CatBoost, RankLib, SVMrank, ...")],
    out: Annotated[Path, Option(help="The file for the model.")],
    source_format: Annotated[str | None, Option("--from", help="The format of FILE; default: by its content.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a model of another program's file. It scores, explains and inspects like any other."""
    from podium.workflows.exchanging import import_file

    imported = import_file(file, out, format=source_format, force=force, locate=inputs.path_of)
    show(imported.as_dict() if as_json else "\n".join(imported.sentences()))


@command("verify")
@reads_data
def verify_command(
    model: ModelFile,
    file: Annotated[Path, Argument(help="What podium export wrote of the model.")],
    data: Rows = None,
    golden: Annotated[Path | None, Option(help="Golden rows with the program's scores, instead of asking it.")] = None,
    to: Annotated[str | None, Option(help="The format of FILE; default: that of its report.")] = None,
    engine: Engine = None,
    complete: Complete = False,
    as_json: AsJson = False,
) -> None:
    """Compare an exported model with the program itself. Exit code 1 says that scores are not as claimed."""
    from podium.workflows.exchanging import Target, verify_file

    target = Target(to, engine, complete)
    result = verify_file(model, file, target, golden=golden, data=data, locate=inputs.reading)
    show(result.as_dict() if as_json else str(result))
    raise typer.Exit(0 if result.holds else 1)
