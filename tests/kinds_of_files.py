"""One small file or folder of each kind that a user may have, by name: what Podium writes, and what it does not."""

import json
import warnings
from pathlib import Path

import numpy as np
from made_results import make_results

from podium.data.ranking import RankingData
from podium.exchange.exporting import report_path
from podium.formats import write_data
from podium.formats.scores import write_scores
from podium.lab.experiments.results import save_about, save_run
from podium.models.linear import Linear
from podium.models.trees.named import LambdaMART
from podium.pipelines.cascades.cascade import Cascade, Stage
from podium.search import build_index

WORDS = ["wing", "tail", "drag", "lift", "gust"]
QUERIES = {f"q{number}": f"{word} flow" for number, word in enumerate(WORDS)}
QRELS = {f"q{q}": {f"p{p}": int(WORDS[p % 5] == WORDS[q]) for p in range(20)} for q in range(5)}
TEXTS = {
    "notes.md": "# Shopping\n\n- 2 apples\n",
    "orders.csv": "date,customer,amount\n2024-01-02,17,3.50\n",
    "thesis.html": "<!doctype html><html><body>My thesis</body></html>\n",
    "logo.svg": "<svg xmlns='http://www.w3.org/2000/svg'><circle r='3'/></svg>\n",
    "settings.json": '{"theme": "dark"}\n',
    "settings.toml": 'theme = "dark"\n',
    "script.py": "print('hello')\n",
    "empty": "",
}


def pages():
    return [
        {"id": f"p{p}", "title": WORDS[p % 5], "body": f"{WORDS[p % 3]} {WORDS[p % 4]} flow " * 2} for p in range(20)
    ]


def make_files(folder: Path) -> dict[str, Path]:
    """All kinds, each under a name that says what it is."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    (folder / "noise.bin").write_bytes(np.random.default_rng(7).bytes(5000))
    (folder / "torn.gz").write_bytes(b"\x1f\x8b\x08\0torn")
    (folder / "folder").mkdir()
    (folder / "folder" / "letter.txt").write_text("Dear reader,\n")
    (folder / "empty folder").mkdir()
    _write_search(folder)
    data = Cascade(folder / "index").training_data(QUERIES, QRELS, 10)
    _write_data(data, folder)
    _write_models(data, folder)
    results = make_results(["first", "second"], n_folds=1, n_seeds=1, n_queries=5)
    save_about(folder / "results", results.about)
    for run in results.runs:
        save_run(folder / "results", run)
    return {path.name: path for path in sorted(folder.iterdir())}


def _write_search(folder: Path) -> None:
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, pages())) + "\n")
    (folder / "queries.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in QUERIES.items()))
    judged = [f"{query} 0 {page} {label}\n" for query, inner in QRELS.items() for page, label in inner.items()]
    (folder / "qrels").write_text("".join(judged))
    (folder / "answers.run").write_text("q0 Q0 p0 1 2.5 me\nq0 Q0 p1 2 1 me\nq1 Q0 p1 1 0.5 me\n")
    build_index(pages(), folder / "index")


def _write_data(data: RankingData, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # formats without names of features
        for name in ("letor.txt", "table.csv", "table.tsv", "table.parquet", "cache.podium-data", "packed.txt.gz"):
            write_data(data, folder / name)
        write_data(data, folder / "lightgbm.train", format="lightgbm")
    write_scores(np.arange(data.n_rows, dtype=float), folder / "scores")


def _write_models(data: RankingData, folder: Path) -> None:
    Linear(max_iter=2).fit(data).save(folder / "linear.podium")
    trees = LambdaMART(n_estimators=2, max_leaf_nodes=2, n_jobs=1).fit(data)
    trees.save(folder / "trees.podium")
    trees.export(folder / "exported.txt", "lightgbm")
    report_path(folder / "exported.txt").unlink()
    Cascade(folder / "index", Stage(trees, n=10)).save(folder / "cascade")
