"""Commands on several TREC runs: `podium fuse`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from podium.cli.application import AsJson, Force, command, output, show
from podium.cli.inputs import inputs


@command("fuse")
def fuse_command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Two TREC runs or more.")],
    out: Annotated[Path, Option(help="The TREC run to write; - for standard output.")],
    method: Annotated[str, Option(help="rrf, rrf(k=10), combsum, combmnz, borda, isr, rbc(0.9), ...")] = "rrf",
    normalization: Annotated[
        str | None, Option(help="none, min-max (the default), z-score, sum, max, rank, borda; for methods of scores.")
    ] = None,
    weights: Annotated[str | None, Option(help="One number per run, such as 0.7,0.3.")] = None,
    qrels: Annotated[Path | None, Option(help="TREC judgements of training queries: weights are chosen.")] = None,
    metric: Annotated[str | None, Option(help="With --qrels: what is maximised; default ndcg@10.")] = None,
    folds: Annotated[int | None, Option(min=2, help="With --qrels: parts of the queries; default 5.")] = None,
    seed: Annotated[int | None, Option(min=0, help="With --qrels: the seed of the division; default 0.")] = None,
    depth: Annotated[int | None, Option(min=1, help="Read the best documents per query of each run only.")] = None,
    top: Annotated[int | None, Option(min=1, help="Only the top K documents per query of the result.")] = None,
    tag: Annotated[str, Option(help="The name in the last column of the run.")] = "podium",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fuse TREC runs into one. It is by ranks or by scores, with weights by choice."""
    from podium.workflows.fusing import fuse_files
    from podium.workflows.outputs import refuse_other_kind

    tuning = {"metric": metric, "folds": folds, "random_state": seed}
    tuning = {name: value for name, value in tuning.items() if value is not None}
    if qrels is None and tuning:
        raise ValueError("--metric, --folds and --seed choose weights, which needs judgements. Add --qrels FILE.")
    if qrels is not None and weights is not None:
        raise ValueError("Give --weights, or --qrels to have them chosen, not both.")
    out, report = output(out, as_json)
    refuse_other_kind("--out", out, "run", force, [*runs, *([] if qrels is None else [qrels])])
    options: dict[str, Any] = {"method": method, "normalization": normalization, "depth": depth, "top": top}
    options |= {"weights": None if weights is None else _numbers(weights), "tag": tag, "locate": inputs.path_of}
    fused = fuse_files(runs, out, qrels=qrels, tuning=tuning, **options)
    if as_json:
        show(fused.as_dict())
        return
    if fused.tuned is not None:
        from podium.cli.terminal import print_table

        print_table(("queries", "weights", fused.tuned.metric), fused.tuned.rows(), report)
    show(fused.sentence(), file=report)


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--weights must be numbers such as 0.7,0.3; got {text!r}.") from None
