"""Per-query NDCG@10 and AP for 2,000 queries x 1,000 documents: Podium, pytrec_eval and ranx from the same arrays.

Each tool starts from one array of scores, one of labels, one of query ids and one of document ids, and ends with one
value per query; building what the tool wants to be given counts, compiling does not (it is shown apart).

Then the same as files: reading a run, and all measures of all_trec from what each tool has read: dictionaries and an
evaluator made of the qrels there, a Qrels and a Run here, which keep nothing from one evaluation to the next. Both give
a value per measure and query, and these are compared. `--only` measures one of the two parts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _report import best_of, measure_in_turns, print_header, print_result

import podium
from podium.evaluation.evaluating import Evaluation


def make_arrays(n_queries: int, n_documents: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    n = n_queries * n_documents
    return {
        "scores": rng.standard_normal(n),
        "labels": rng.integers(1, 4, n) * (rng.random(n) < 0.05),
        "qid": np.repeat(np.arange(n_queries), n_documents),
        "docids": np.tile(np.array([f"d{k:06d}" for k in range(n_documents)], dtype=object), n_queries),
    }


def with_podium(arrays: dict[str, np.ndarray], n_jobs: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    result = podium.evaluate(
        arrays["scores"],
        arrays["labels"],
        qid=arrays["qid"],
        docids=arrays["docids"],
        metrics=["ndcg@10", "map"],
        policy="trec",
        n_jobs=n_jobs,
    )
    return result.per_query["ndcg@10"], result.per_query["map"]


def as_dicts(arrays: dict[str, np.ndarray], values: str) -> dict[str, dict[str, float]]:
    """{query: {document: value}}, by slices of lists: the fastest way that needs no trick of a tool."""
    starts = np.flatnonzero(np.concatenate([[True], arrays["qid"][1:] != arrays["qid"][:-1]]))
    names, numbers = arrays["docids"].tolist(), arrays[values].tolist()
    ends = [*starts[1:].tolist(), len(names)]
    return {
        str(query): dict(zip(names[start:end], numbers[start:end]))
        for query, start, end in zip(arrays["qid"][starts].tolist(), starts.tolist(), ends)
    }


def with_pytrec_eval(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(as_dicts(arrays, "labels"), {"ndcg_cut.10", "map"})
    found = evaluator.evaluate(as_dicts(arrays, "scores"))
    rows = [found[str(query)] for query in dict.fromkeys(arrays["qid"].tolist())]
    return np.array([row["ndcg_cut_10"] for row in rows]), np.array([row["map"] for row in rows])


def with_ranx(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    from ranx import Qrels, Run, evaluate

    found = evaluate(
        Qrels(as_dicts(arrays, "labels")), Run(as_dicts(arrays, "scores")), ["ndcg@10", "map"], return_mean=False
    )
    order = np.argsort(np.argsort(np.array(list(dict.fromkeys(arrays["qid"].tolist()))).astype(str)))
    return np.asarray(found["ndcg@10"])[order], np.asarray(found["map"])[order]  # ranx sorts the queries by name


def write_files(arrays: dict[str, np.ndarray], folder: Path) -> tuple[Path, Path]:
    """The arrays as qrels, with the judgements of the relevant documents and a tenth of the others, and as a run."""
    qrels, run = folder / "qrels", folder / "run"
    judged = np.random.default_rng(8).random(len(arrays["qid"])) < 0.1
    judged |= arrays["labels"] > 0
    rows = zip(arrays["qid"][judged].tolist(), arrays["docids"][judged], arrays["labels"][judged].tolist())
    qrels.write_text("".join(f"{query} 0 {doc} {label}\n" for query, doc, label in rows))
    order = np.lexsort((-arrays["scores"], arrays["qid"]))
    ranks = np.concatenate([np.arange(1, count + 1) for count in np.unique(arrays["qid"], return_counts=True)[1]])
    rows = zip(arrays["qid"][order].tolist(), arrays["docids"][order], ranks.tolist(), arrays["scores"][order].tolist())
    run.write_text("".join(f"{query} Q0 {doc} {rank} {score!r} tag\n" for query, doc, rank, score in rows))
    return qrels, run


def measure_arrays(arrays: dict[str, np.ndarray], size: str) -> None:
    """Two metrics from the same arrays."""
    tiny = make_arrays(2, 50)
    started = time.perf_counter()
    with_podium(tiny)
    print(f"podium, first call (compiling or loading compiled code): {time.perf_counter() - started:.1f} s")
    with_ranx(tiny)

    print(f"{size}, NDCG@10 and AP, one value per query")
    ours, mine = best_of(lambda: with_podium(arrays), 9)
    single, _ = best_of(lambda: with_podium(arrays, n_jobs=1), 9)
    trec, theirs = best_of(lambda: with_pytrec_eval(arrays), 3)
    ranx, others = best_of(lambda: with_ranx(arrays), 2)
    for name, seconds in (("podium", ours), ("podium, one thread", single), ("pytrec_eval", trec), ("ranx", ranx)):
        print(f"{name:>20}: {seconds * 1e3:9.1f} ms   {seconds / ours:7.1f} x podium")
    for metric in (0, 1):
        print(f"largest difference to pytrec_eval: {np.abs(mine[metric] - theirs[metric]).max():.1e}")
        print(f"largest difference to ranx:        {np.abs(mine[metric] - others[metric]).max():.1e}")
    if len(arrays["qid"]) == 2_000_000:
        large = make_arrays(10_000, 1_000)
        print(f"podium alone, 10000 x 1000: {best_of(lambda: with_podium(large), 3)[0] * 1e3:.1f} ms")
    what = f"NDCG@10 and AP, {size}"
    print_result(what, "pytrec_eval", f"{trec / ours:.1f}x", "20x", trec / ours >= 20)
    print_result(what, "ranx", f"{ranx / ours:.1f}x", "100x", ranx / ours >= 100)


def measure_files(arrays: dict[str, np.ndarray], what: str) -> None:
    """Reading a run, and all measures of all_trec for it, from what each tool has read."""
    import pytrec_eval
    from ranx import Run

    with tempfile.TemporaryDirectory() as folder:
        qrels_file, run_file = write_files(arrays, Path(folder))
        readers = {
            "podium": lambda: podium.read_run(run_file),
            "pytrec_eval": lambda: pytrec_eval.parse_run(run_file.open()),
            "ranx": lambda: Run.from_file(str(run_file), kind="trec"),
        }
        reading = {name: timing.best for name, timing in measure_in_turns(readers, 3).items()}
        run, run_dict = readers["podium"](), readers["pytrec_eval"]()
        qrels, labels = podium.read_qrels(qrels_file), pytrec_eval.parse_qrel(qrels_file.open())
    evaluator = pytrec_eval.RelevanceEvaluator(labels, {"all_trec"})
    rivals = {
        "podium": lambda: podium.evaluate_run(qrels, run, metrics="all_trec"),
        "pytrec_eval": lambda: evaluator.evaluate(run_dict),
    }
    evaluating = {name: timing.best for name, timing in measure_in_turns(rivals, 7).items()}
    difference = largest_difference(rivals["podium"](), rivals["pytrec_eval"]())
    print(f"all_trec: largest difference to pytrec_eval {difference:.1e}")
    read, parsed, by_ranx = (reading[name] for name in readers)
    ours, theirs = (evaluating[name] for name in rivals)
    print(f"reading: podium {read:.2f} s, pytrec_eval {parsed:.2f} s, ranx {by_ranx:.2f} s")
    print(f"all_trec: podium {ours:.3f} s, pytrec_eval {theirs:.3f} s")
    print_result(f"reading a run, {what}", "pytrec_eval", f"{parsed / read:.1f}x", "2x", parsed / read >= 2)
    print_result(f"reading a run, {what}", "ranx", f"{by_ranx / read:.1f}x", "5x", by_ranx / read >= 5)
    print_result(f"all of all_trec, {what}", "pytrec_eval", f"{theirs / ours:.1f}x", "20x", theirs / ours >= 20)


def largest_difference(result: Evaluation, theirs: dict[str, dict[str, float]]) -> float:
    """Over all measures and queries. Of geometric means pytrec_eval gives logarithms per query, which are no values."""
    columns = {name: values for name, values in result.per_query.items() if not name.startswith("gm_")}
    return max(
        abs(values[q] - theirs[str(query)][name])
        for name, values in columns.items()
        for q, query in enumerate(result.queries)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--only", choices=("arrays", "files"), help="measure one part")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print_header("metrics", ["pytrec-eval-terrier", "ranx"])
    arrays, size = (
        make_arrays(options.queries, options.documents),
        f"{options.queries} queries x {options.documents} documents",
    )
    if options.only != "files":
        measure_arrays(arrays, size)
    if options.only != "arrays":
        measure_files(arrays, size)


if __name__ == "__main__":
    main()
