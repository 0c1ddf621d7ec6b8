"""Text collections with judged queries (PODIUM_DATA): Cranfield, CACM and NFCorpus, indexed in a folder."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import podium
from podium.search import Index, build_index, open_index, read_documents, read_queries

METRIC = "ndcg@10"


@dataclass(frozen=True)
class Collection:
    name: str
    index: Index
    queries: dict[str, str]
    qrels: dict[str, dict[str, float]]

    @property
    def judged(self) -> list[str]:
        return [name for name in self.queries if max(self.qrels.get(name, {}).values(), default=0) > 0]


def text_of(path: Path) -> str:
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        return stream.read()


def cranfield(data: Path, folder: Path) -> Collection:
    with tarfile.open(data / "cran" / "cran.tar.gz") as archive:
        for name in ("cran.all.1400", "cran.qry"):
            (folder / name).write_bytes(archive.extractfile(name).read())  # type: ignore[union-attr]
    build_index(read_documents(folder / "cran.all.1400"), folder / "cran")
    qrels = podium.read_qrels(data / "cran" / "QRelsCorrectedforTRECeval").to_dict()
    return Collection(
        "Cranfield", open_index(folder / "cran"), read_queries(folder / "cran.qry", by_position=True), qrels
    )


def cacm(data: Path, folder: Path) -> Collection:
    (folder / "cacm.all").write_text(text_of(data / "cacm" / "cacm.all.xz"), encoding="utf-8")
    build_index(read_documents(folder / "cacm.all"), folder / "cacm")
    qrels: dict[str, dict[str, float]] = {}
    for line in (data / "cacm" / "qrels.text").read_text().splitlines():
        if line.strip():
            query, document, *_ = line.split()
            qrels.setdefault(str(int(query)), {})[str(int(document))] = 1
    return Collection("CACM", open_index(folder / "cacm"), read_queries(data / "cacm" / "query.text"), qrels)


def nfcorpus(data: Path, folder: Path, part: str = "test") -> Collection:
    data = data / "nfcorpus"
    documents = (line.split("\t", 1) for line in text_of(data / f"{part}.docs.xz").splitlines())
    build_index(((name, text) for name, text in documents), folder / "nfcorpus")
    queries = dict(line.split("\t", 1) for line in text_of(data / f"{part}.titles.queries.xz").splitlines())
    (folder / "qrels").write_text(text_of(data / f"{part}.2-1-0.qrel.xz"))
    qrels = podium.read_qrels(folder / "qrels").to_dict()
    return Collection(f"NFCorpus {part}", open_index(folder / "nfcorpus"), queries, qrels)


def nfcorpus_dev(data: Path, folder: Path) -> Collection:
    return nfcorpus(data, folder, "dev")


def folds(names: list[str], k: int, seed: int = 0) -> Iterator[tuple[list[str], list[str]]]:
    part = np.random.default_rng(seed).permutation(np.arange(len(names)) % k)
    for fold in range(k):
        yield (
            [name for name, own in zip(names, part) if own != fold],
            [name for name, own in zip(names, part) if own == fold],
        )


def evaluate(collection: Collection, run: podium.Run, names: list[str]) -> dict[str, float]:
    qrels = podium.Qrels.from_dict({name: collection.qrels[name] for name in names})
    found = podium.evaluate_run(qrels, run, metrics=[METRIC], missing="zero")
    return dict(zip(map(str, found.queries), found.per_query[METRIC].tolist()))
