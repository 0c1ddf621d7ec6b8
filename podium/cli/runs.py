"""Commands on several TREC runs: `podium fuse`, `podium pool` and `podium overlap`."""

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


@command("pool")
def pool_command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="TREC runs.")],
    out: Annotated[Path, Option(help="The file: a table if it ends in .tsv, else TREC judgements of -1.")],
    depth: Annotated[int, Option(min=1, help="The best documents per query of each run.")] = 100,
    qrels: Annotated[Path | None, Option(help="TREC judgements; what they have is left out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Pool the best documents of TREC runs, to be judged. Those that are judged already can be left out."""
    from podium.workflows.fusing import is_pool_table, pool_files
    from podium.workflows.outputs import refuse_other_kind

    out, report = output(out, as_json)
    kind = "pool table" if is_pool_table(out) else "pool"
    refuse_other_kind("--out", out, kind, force, [*runs, *([] if qrels is None else [qrels])])
    pooled = pool_files(runs, out, depth, qrels=qrels, locate=inputs.path_of)
    written = pooled.as_dict() | {"written": str(out)}
    show(written if as_json else f"{out}: {pooled.sentence()}", file=report)


@command("overlap")
def overlap_command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Two TREC runs or more.")],
    p: Annotated[float, Option("--p", help="The persistence of rank-biased overlap, between 0 and 1.")] = 0.9,
    depth: Annotated[int | None, Option(min=1, help="Compare the best documents per query of each run only.")] = None,
    per_query: Annotated[bool, Option("--per-query", help="With --json: also the values of each query.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how alike TREC runs are. It is by rank-biased overlap, Kendall's tau and common documents."""
    from podium.workflows.fusing import OVERLAP_COLUMNS, compare_runs

    if per_query and not as_json:
        raise ValueError("--per-query is part of the JSON output. Add --json.")
    compared = compare_runs(runs, p=p, depth=depth, locate=inputs.path_of)
    if as_json:
        show(compared.as_dict(per_query))
        return
    from podium.cli.terminal import print_table

    print_table(OVERLAP_COLUMNS, compared.rows())


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--weights must be numbers such as 0.7,0.3; got {text!r}.") from None
