"""Commands of search: `podium index`, `search`, `features` and `cascade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from podium._runtime.words import counted
from podium.cli.application import AsJson, command, output, print_json, say, show
from podium.cli.inputs import inputs


@command("index")
def index_command(
    documents: Annotated[
        list[Path],
        typer.Argument(help="JSON lines, TREC SGML, SMART, CSV, TSV, Parquet, or folders of text, Markdown and HTML."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for the index.")],
    update: Annotated[
        bool, typer.Option("--update", help="Add to an index that is there; documents with the same id are replaced.")
    ] = False,
    language: Annotated[
        str | None, typer.Option(help="Stems and stop words: english (the default), russian, ..., none for no stems.")
    ] = None,
    all_words: Annotated[bool, typer.Option("--all-words", help="Index stop words too.")] = False,
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="Do not store the texts themselves, which snippets need.")
    ] = False,
    format: Annotated[
        str | None, typer.Option(help="jsonl, trec, smart, csv, tsv, parquet or folder, if names do not tell.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Index documents for podium search."""
    from podium.workflows import searching

    settings: dict[str, Any] = {"language": language, "stop_words": False if all_words else None}
    settings |= {"update": update, "keep_texts": False if no_texts else None}
    built, faults = searching.index_files(
        documents, out, format=format, strict=strict, locate=inputs.path_of, **settings
    )
    for message in faults.messages:
        say(f"{message} Left out.")
    if faults.count > len(faults.messages):
        say(f"{counted(faults.count - len(faults.messages), 'more record')} left out.")
    if not built.read:
        say(f"no document in {', '.join(map(str, documents))}: no index was written or changed.")
    if as_json:
        print_json(built.as_dict() | {"left_out": faults.count})
    elif built.read:
        left_out = f" {counted(faults.count, 'record')} left out." if faults.count else ""
        show(f"{out}: {built.sentence()}{left_out}")
    raise typer.Exit(0 if built.read else 1)


Weighting = Annotated[
    str | None, typer.Option(help="bm25 (the default), bm25(k1=0.9,b=0.4), bm25f, tfidf, lmir-dir, ...")
]
SearchedFields = Annotated[
    list[str], typer.Option("--field", metavar="NAME[=WEIGHT]", help="whole (the default), body, title, anchor or url.")
]
ByPosition = Annotated[
    bool, typer.Option("--by-position", help="Number the queries of the file from 1, as Cranfield's qrels do.")
]
Normalize = Annotated[
    str | None, typer.Option(help="minmax within the query as LETOR has it, or none; default: as declared, else none.")
]


@command("search")
def search_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that podium index or podium cascade made.")],
    query: Annotated[str | None, typer.Argument(help='Words, "phrases", +must, -not, title:word.')] = None,
    queries: Annotated[
        Path | None, typer.Option(help="A file of queries instead: TSV, JSON lines, TREC topics or SMART.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The TREC run to write (with --queries); - for standard output.")
    ] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Documents per query; default 10, with --queries 1000.")] = None,
    weighting: Weighting = None,
    field: SearchedFields = [],  # noqa: B006 (typer copies it)
    explain: Annotated[
        bool, typer.Option("--explain", help="Of a cascade: the features and their share of the score.")
    ] = False,
    by_position: ByPosition = False,
    tag: Annotated[str, typer.Option(help="The name in the last column of a run.")] = "podium",
    as_json: AsJson = False,
) -> None:
    """Search an index or a cascade for one query, or for a file of queries."""
    from podium.cli import terminal as _terminal
    from podium.workflows import searching

    if (query is None) == (queries is None) or (queries is None) != (out is None):
        raise ValueError("Give a query, or --queries FILE with --out RUN.")
    options: dict[str, Any] = {"weighting": weighting} if weighting else {}
    options |= {"fields": _field_weights(field)} if field else {}
    if explain and (query is None or options or not searching.is_cascade(folder)):
        raise ValueError(
            "--explain is for one query to a cascade, whose weighting and fields are set; "
            "podium cascade makes one of an index and a model."
        )
    if queries is not None and out is not None:
        searcher = searching.open_searched(folder)
        _search_file(searcher, queries, out, k or 1000, by_position, tag, options, as_json)
        return
    text = cast(str, query)
    if explain:
        explained = searching.open_cascade(folder).explain(text, k or 10)
        if as_json:
            print_json(explained.as_dict())
        else:
            _terminal.print_hits(explained.ranked, [hit.sentence() for hit in explained.hits], explained.note)
        return
    hits = searching.open_searched(folder).search(text, k or 10, **options)
    if as_json:
        print_json({"query": text, "hits": hits.as_dicts()})
    else:
        _terminal.print_hits(hits)


@command("features")
def features_command(
    index: Annotated[Path, typer.Argument(help="A folder that podium index made.")],
    out: Annotated[
        Path, typer.Option(help="The file for the features; the format follows from its name. - for standard output.")
    ],
    queries: Annotated[Path | None, typer.Argument(help="TSV, JSON lines, TREC topics or SMART.")] = None,
    queries_option: Annotated[Path | None, typer.Option("--queries", help="The same, as an option.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements: the labels.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="A TOML table that declares the features; default: LETOR's 46.")
    ] = None,
    normalize: Normalize = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Documents per query, the best of the first stage.")] = 1000,
    unjudged: Annotated[str, typer.Option(help="Documents without judgement: irrelevant, or skip.")] = "irrelevant",
    add_judged: Annotated[
        bool, typer.Option("--add-judged", help="Add judged documents that are not among the best n.")
    ] = False,
    weighting: Weighting = None,
    field: SearchedFields = [],  # noqa: B006 (typer copies it)
    by_position: ByPosition = False,
    as_json: AsJson = False,
) -> None:
    """Write the features of each query's candidates to a file for training or ranking."""
    from podium.workflows import searching

    asked = queries_option if queries is None else queries
    if asked is None or (queries is not None and queries_option is not None):
        raise ValueError("Give one file of queries: podium features INDEX QUERIES --out FILE.")
    out, report = output(out, as_json)
    options: dict[str, Any] = {"qrels": qrels, "features": features, "normalize": normalize, "n": n}
    options |= {"unjudged": unjudged, "add_judged": add_judged, "by_position": by_position, "locate": inputs.path_of}
    written = searching.features_file(index, asked, out, **options, **_first_stage(weighting, field))
    if as_json:
        print_json(written.as_dict())
    else:
        show(f"{out}: {written.sentence()}", file=report)


@command("cascade")
def cascade_command(
    index: Annotated[Path, typer.Argument(help="A folder that podium index made.")],
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files, one per stage.")],
    out: Annotated[Path, typer.Option(help="The new folder for the cascade.")],
    features: Annotated[
        list[Path], typer.Option(help="A TOML table that declares the features of the model; default: LETOR's 46.")
    ] = [],  # noqa: B006 (typer copies it)
    normalize: Normalize = None,
    n: Annotated[list[int], typer.Option("--n", min=1, help="Documents that the model re-ranks; default 1000.")] = [],  # noqa: B006 (typer copies it)
    weighting: Weighting = None,
    field: SearchedFields = [],  # noqa: B006 (typer copies it)
    as_json: AsJson = False,
) -> None:
    """Save an index and the models that re-rank what it finds as one folder."""
    from podium.workflows import searching

    options: dict[str, Any] = {"features": features, "normalize": normalize, "n": n, "locate": inputs.path_of}
    made = searching.make_cascade(index, models, out, **options, **_first_stage(weighting, field))
    stages = [
        {"model": type(stage.model).__name__.lower(), "features": len(stage.features), "n": stage.n}
        for stage in made.stages
    ]
    if as_json:
        found = {"documents": len(made.index), "weighting": str(made.weighting), "stages": stages}
        print_json(found | {"written": str(out)})
    else:
        listed = "; ".join(
            f"{stage['model']} re-ranks {stage['n']:,} by {stage['features']} features" for stage in stages
        )
        show(f"{out}: {counted(len(made.index), 'document')}, {made.weighting.variant}; {listed}")


def _first_stage(weighting: str | None, field: list[str]) -> dict[str, Any]:
    return {"weighting": weighting or "bm25", "fields": _field_weights(field)}


def _search_file(
    searched: Any, queries: Path, out: Path, k: int, by_position: bool, tag: str, options: dict[str, Any], as_json: bool
) -> None:
    from podium.workflows import searching

    out, report = output(out, as_json)
    run = searching.search_file(
        searched, queries, out, k=k, tag=tag, by_position=by_position, locate=inputs.path_of, **options
    )
    if as_json:
        print_json({"queries": run.n_queries, "documents": len(run), "written": str(out)})
    else:
        show(f"{out}: {counted(run.n_queries, 'query', 'queries')}, {counted(len(run), 'document')}", file=report)


def _field_weights(names: list[str]) -> dict[str, float]:
    found = {}
    for name in names or ["whole"]:
        field, _, weight = name.partition("=")
        try:
            found[field] = float(weight) if weight else 1.0
        except ValueError:
            raise ValueError(f"--field must be NAME or NAME=WEIGHT, such as title=2; got {name!r}.") from None
    return found
