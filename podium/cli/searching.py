"""Commands of search: `podium index`, `search`, `tune-bm25`, `features` and `cascade`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer import Argument, Option

from podium._runtime.words import counted
from podium.cli.application import AsJson, Force, command, output, say, show
from podium.cli.inputs import inputs, paths

if TYPE_CHECKING:
    from podium.pipelines.cascades.cascade import Cascade
    from podium.search import Hits


@command("index")
def index_command(
    documents: Annotated[list[Path], Argument(help="JSON lines, TREC, SMART, CSV, TSV, Parquet, or folders of text.")],
    out: Annotated[Path, Option(help="The folder for the index.")],
    update: Annotated[bool, Option("--update", help="Add to the index; documents of equal id are replaced.")] = False,
    language: Annotated[str | None, Option(help="Of stems and stop words: english (the default), ..., none.")] = None,
    all_words: Annotated[bool, Option("--all-words", help="Index stop words too.")] = False,
    no_texts: Annotated[bool, Option("--no-texts", help="Store no texts, which snippets need.")] = False,
    format: Annotated[str | None, Option(help="jsonl, trec, smart, csv, tsv, parquet, folder; else by name.")] = None,
    strict: Annotated[bool, Option("--strict", help="Stop at the first bad record.")] = False,
    force: Annotated[bool, Option("--force", help="Replace an index that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Index documents for podium search."""
    from podium.workflows import searching

    settings: dict[str, Any] = {"language": language, "stop_words": False if all_words else None}
    settings |= {"update": update, "keep_texts": False if no_texts else None}
    built, faults = searching.index_files(
        documents, out, format=format, strict=strict, force=force, locate=inputs.path_of, **settings
    )
    for message in faults.messages:
        say(f"{message} Left out.")
    if faults.count > len(faults.messages):
        say(f"{counted(faults.count - len(faults.messages), 'more record')} left out.")
    if not built.read:
        say(f"no document in {', '.join(map(str, documents))}: no index was written or changed.")
    if as_json:
        show(built.as_dict() | {"left_out": faults.count})
    elif built.read:
        left_out = f" {counted(faults.count, 'record')} left out." if faults.count else ""
        show(f"{out}: {built.sentence()}{left_out}")
    raise typer.Exit(0 if built.read else 1)


Weighting = Annotated[
    str | None,
    Option(help="bm25 (the default), bm25(k1=0.9,b=0.4), bm25-rm3, bm25f, tfidf, lmir-dir, ..., or a .toml file."),
]
SearchedFields = Annotated[
    list[str], Option("--field", metavar="NAME[=WEIGHT]", help="whole (default), body, title, anchor, url.")
]
ByPosition = Annotated[bool, Option("--by-position", help="Number queries from 1, as Cranfield's qrels do.")]
Normalize = Annotated[str | None, Option(help="minmax within the query, or none; default: as declared, else none.")]


@command("search")
def search_command(
    folder: Annotated[Path, Argument(metavar="DIR", help="A folder that podium index or podium cascade made.")],
    query: Annotated[str | None, Argument(help='Words, "phrases", +must, -not, title:word.')] = None,
    queries: Annotated[Path | None, Option(help="Many queries: TSV, JSON lines, TREC topics or SMART.")] = None,
    out: Annotated[Path | None, Option(help="The TREC run to write (with --queries); - for standard output.")] = None,
    k: Annotated[int | None, Option(min=1, help="Documents per query; default 10, with --queries 1000.")] = None,
    weighting: Weighting = None,
    field: SearchedFields = [],
    explain: Annotated[bool, Option("--explain", help="Of a cascade: what features add to the score.")] = False,
    by_position: ByPosition = False,
    tag: Annotated[str, Option(help="The name in the last column of a run.")] = "podium",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Search an index or a cascade. One query is answered, or a file of queries."""
    from podium.workflows import searching
    from podium.workflows.outputs import refuse_other_kind

    if (query is None) == (queries is None) or (queries is None) != (out is None):
        raise ValueError("Give a query, or --queries FILE with --out RUN.")
    options = _first_stage(weighting, field) if weighting or field else {}
    if explain and (query is None or options or not searching.is_cascade(folder)):
        raise ValueError(
            "--explain is for one query to a cascade, whose weighting and fields are set; "
            "podium cascade makes one of an index and a model."
        )
    if queries is not None and out is not None:
        refuse_other_kind("--out", out, "run", force, [queries])
        searcher = searching.open_searched(folder)
        _search_file(searcher, queries, out, k or 1000, by_position, tag, options, as_json)
        return
    text = cast(str, query)
    if explain:
        explained = searching.open_cascade(folder).explain(text, k or 10)
        if as_json:
            show(explained.as_dict())
        else:
            _print_hits(explained.ranked, [hit.sentence() for hit in explained.hits], explained.note)
        return
    hits = searching.open_searched(folder).search(text, k or 10, **options)
    if as_json:
        show({"query": text, "hits": hits.as_dicts()})
    else:
        _print_hits(hits)


@command("tune-bm25")
def tune_bm25_command(
    index: Annotated[Path, Argument(help="A folder that podium index made.")],
    queries: Annotated[Path, Option(help="TSV, JSON lines, TREC topics or SMART.")],
    qrels: Annotated[Path, Option(help="TREC judgements.")],
    out: Annotated[Path | None, Option(help="The .toml file to write: --weighting of other commands takes it.")] = None,
    picture: Annotated[Path | None, Option(help="Draw the surface of k1 and b to this .svg or .png file.")] = None,
    weighting: Annotated[
        str, Option(help="A weighting with k1 and b: bm25, bm25-rm3, bm25+, ..., or a file.")
    ] = "bm25",
    field: Annotated[
        list[str],
        Option("--field", metavar="NAME[=WEIGHT]", help="Default: whole, and title, anchor and url are tried too."),
    ] = [],
    metric: Annotated[str, Option(help="What is maximised.")] = "ndcg@10",
    folds: Annotated[int, Option(min=2, help="The number of parts that the queries are divided into.")] = 5,
    seed: Annotated[int, Option(min=0, help="The random seed of the division into folds.")] = 0,
    by_position: ByPosition = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Tune BM25 on judged queries. k1, b, weights of fields and feedback are chosen, and cross-validated."""
    from podium.cli.terminal import print_table
    from podium.workflows import searching

    _refuse_bad_outputs(out, picture, [queries, qrels], force)
    options: dict[str, Any] = {"metric": metric, "folds": folds, "random_state": seed, "by_position": by_position}
    first_stage = _first_stage(weighting, field)
    if not field and first_stage["fields"] == {"whole": 1.0}:
        del first_stage["fields"]
    options |= first_stage | {"locate": inputs.path_of}
    tuned = searching.tune_files(index, queries, qrels, out, picture, **options)
    if as_json:
        show(tuned.as_dict() | paths(written=out, picture=picture))
        return
    print_table(("queries", "weighting", tuned.metric), tuned.rows())
    print_table((tuned.metric, *(f"b = {b:g}" for b in tuned.surface()[1])), tuned.surface_rows())
    show("".join(f"{path}: written\n" for path in (out, picture) if path is not None), end="")


def _refuse_bad_outputs(out: Path | None, picture: Path | None, sources: list[Path], force: bool) -> None:
    from podium.explain import drawings
    from podium.workflows.outputs import refuse_other_kind

    if out is not None:
        if out.suffix.lower() != ".toml":
            raise ValueError(f"--out {out}: the name must end in .toml, so that --weighting knows a file from a name.")
        refuse_other_kind("--out", out, "weighting", force, sources)
    if picture is not None:
        drawings.refuse_other_suffixes(picture)
        kind = picture.suffix.lower().removeprefix(".")
        refuse_other_kind("--picture", picture, kind, force, [*sources, *([] if out is None else [out])])


@command("features")
def features_command(
    index: Annotated[Path, Argument(help="A folder that podium index made.")],
    out: Annotated[Path, Option(help="The file to write, its name gives the format; - for standard output.")],
    queries: Annotated[Path | None, Argument(help="TSV, JSON lines, TREC topics or SMART.")] = None,
    queries_option: Annotated[Path | None, Option("--queries", help="The same, as an option.")] = None,
    qrels: Annotated[Path | None, Option(help="TREC judgements: the labels.")] = None,
    run: Annotated[Path | None, Option(help="A TREC run of any engine: its documents are the candidates.")] = None,
    features: Annotated[Path | None, Option(help="A TOML table of features; default: LETOR's 46.")] = None,
    normalize: Normalize = None,
    n: Annotated[int | None, Option("--n", min=1, help="Documents per query; default: as declared, or 1000.")] = None,
    unjudged: Annotated[str, Option(help="Documents without judgement: irrelevant, or skip.")] = "irrelevant",
    add_judged: Annotated[bool, Option("--add-judged", help="Add judged documents beyond the best n.")] = False,
    weighting: Weighting = None,
    field: SearchedFields = [],
    by_position: ByPosition = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the features of each query's candidates. The file is for training or ranking."""
    from podium.workflows import searching

    asked = queries_option if queries is None else queries
    if asked is None or (queries is not None and queries_option is not None):
        raise ValueError("Give one file of queries: podium features INDEX QUERIES --out FILE.")
    out, report = output(out, as_json)
    request = searching.FeatureRequest(asked, qrels, features, normalize, n, unjudged, add_judged, by_position, run)
    first_stage = _first_stage(weighting, field)
    written = searching.features_file(index, request, out, force=force, locate=inputs.path_of, **first_stage)
    show(written.as_dict() if as_json else f"{out}: {written.sentence()}", file=report)


_JUDGED = "--queries FILE with --qrels FILE"


@command("cascade")
def cascade_command(
    index: Annotated[Path, Argument(help="A folder that podium index made.")],
    out: Annotated[Path, Option(help="The new folder for the cascade.")],
    models: Annotated[list[Path] | None, Argument(metavar="[MODEL...]", help="Model files, one per stage.")] = None,
    queries: Annotated[Path | None, Option(help="Instead of MODEL: judged queries, by which one is chosen.")] = None,
    qrels: Annotated[Path | None, Option(help="TREC judgements of these queries.")] = None,
    features: Annotated[list[Path], Option(help="A TOML table of the model's features; default: LETOR's 46.")] = [],
    normalize: Normalize = None,
    n: Annotated[
        list[int], Option("--n", min=1, help="Documents that the model re-ranks; default: as declared, or 1000.")
    ] = [],
    weighting: Weighting = None,
    field: SearchedFields = [],
    metric: Annotated[str | None, Option(help="With --qrels: what is maximised; default ndcg@10.")] = None,
    policy: Annotated[str | None, Option(help="With --qrels: details of the metric; default standard.")] = None,
    folds: Annotated[int | None, Option(min=2, help="With --qrels: parts of the queries; default 5.")] = None,
    seed: Annotated[int | None, Option(min=0, help="With --qrels: the random seed; default 0.")] = None,
    jobs: Annotated[int | None, Option(help="With --qrels: the number of threads; default: all cores.")] = None,
    by_position: ByPosition = False,
    force: Annotated[bool, Option("--force", help="Replace a cascade that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save an index and its re-rankers as one folder. Models are given, or one is chosen by judged queries."""
    from podium.workflows import searching
    from podium.workflows.outputs import new_folder

    rules = {"metric": metric, "policy": policy, "folds": folds, "random_state": seed, "n_jobs": jobs}
    rules = {name: value for name, value in rules.items() if value is not None}
    options = {"locate": inputs.path_of, "normalize": normalize, **_first_stage(weighting, field)}
    if queries is None and qrels is None:
        if not models or rules or by_position:
            raise ValueError(f"Give one MODEL or more, or {_JUDGED}, which --metric, --folds and the like belong to.")
        with new_folder("--out", out, "cascade", force) as folder:
            made = searching.make_cascade(index, models, folder, features=features, n=n, **options)
    else:
        if models or queries is None or qrels is None or len(features) > 1 or len(n) > 1:
            raise ValueError(f"Give {_JUDGED} and no MODEL, --features and --n at most once: one model is chosen.")
        judgements = searching.Judgements(queries, qrels, by_position, rules)
        options |= {"features": features[0] if features else None, "n": n[0] if n else None}
        with new_folder("--out", out, "cascade", force) as folder:
            made = searching.fit_cascade(index, judgements, folder, **options)
    _print_cascade(made, out, as_json)


def _print_cascade(made: Cascade, out: Path, as_json: bool) -> None:
    """What was tried, if a model was chosen; then the stages."""
    names = [None if stage.model is None else type(stage.model).__name__.lower() for stage in made.stages]
    stages = [(name, len(stage.features), stage.n) for name, stage in zip(names, made.stages)]
    choice = made.choice_
    if as_json:
        listed = [dict(zip(("model", "features", "n"), stage)) for stage in stages]
        about = {"documents": len(made.index), "weighting": str(made.weighting), "stages": listed}
        show(about | ({} if choice is None else {"choice": choice.as_dict()}) | {"written": str(out)})
        return
    if choice is not None:
        show(str(choice))
    lines = [
        "the order of the first stage" if name is None else f"{name} re-ranks {n:,} by {counted(features, 'feature')}"
        for name, features, n in stages
    ]
    show(f"{out}: {counted(len(made.index), 'document')}, {made.weighting.name}; {'; '.join(lines)}")


def _print_hits(hits: Hits, reasons: Sequence[str] = (), note: str = "") -> None:
    """Rank (of a cascade also that of the first stage), score and id; title and snippet, where the index keeps texts.

    `reasons` has one sentence per document.
    """
    if not hits:
        show("No document matches.")
    firsts = getattr(hits, "first_ranks", None)
    if firsts is not None and hits:
        show("rank (first stage)  score  document")
    for rank, hit in enumerate(hits, 1):
        texts = hit.stored if hits.searched.manifest.keeps_texts else {}
        title, id = (" ".join(text.split()) for text in (texts.get("title", ""), hit.id))
        before = "" if firsts is None else f" ({firsts[rank - 1]:>3})"
        show(f"{rank:>3}{before}  {hit.score:8.4f}  {id}  {title}".rstrip())
        snippet = " ".join(hit.snippet().marked().split()) if texts else ""
        show("".join(f"     {line}\n" for line in (snippet, *reasons[rank - 1 : rank]) if line), end="")
    if note:
        show(note)


def _first_stage(weighting: str | None, field: list[str]) -> dict[str, Any]:
    """The weighting and fields of options; a file has both, and --field replaces its fields."""
    if weighting is None or not weighting.lower().endswith(".toml"):
        return {"weighting": weighting or "bm25", "fields": _field_weights(field)}
    from podium.search import read_weighting

    chosen, fields = read_weighting(inputs.path_of(Path(weighting)))
    return {"weighting": chosen, "fields": _field_weights(field) if field else fields}


def _search_file(
    searched: Any, queries: Path, out: Path, k: int, by_position: bool, tag: str, options: dict[str, Any], as_json: bool
) -> None:
    from podium.workflows import searching

    out, report = output(out, as_json)
    run = searching.search_file(
        searched, queries, out, k=k, tag=tag, by_position=by_position, locate=inputs.path_of, **options
    )
    counts = {"queries": run.n_queries, "documents": len(run), "written": str(out)}
    sentence = f"{out}: {counted(run.n_queries, 'query', 'queries')}, {counted(len(run), 'document')}"
    show(counts if as_json else sentence, file=report)


def _field_weights(names: list[str]) -> dict[str, float]:
    weights = {}
    for name in names or ["whole"]:
        field, _, weight = name.partition("=")
        try:
            weights[field] = float(weight) if weight else 1.0
        except ValueError:
            raise ValueError(f"--field must be NAME or NAME=WEIGHT, such as title=2; got {name!r}.") from None
    return weights
