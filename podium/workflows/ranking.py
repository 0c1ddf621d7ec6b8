"""Ranking the documents of a file with a saved model, as scores or as a TREC run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from podium._runtime.files import plain_suffix
from podium._runtime.once import once
from podium._runtime.words import check_choice, counted
from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.formats.scores import score_lines, write_scores
from podium.formats.trec import Run, run_lines, write_run
from podium.workflows.reading import Locate, itself, read_with_model

RANKING_FORMATS = ("scores", "trec")


def rank_file(model: Path, data: Path, *, locate: Locate = itself, **options: Any) -> Ranking:
    """Score every document of a file, which needs no labels, with a saved model; `options` are those of `Ranking`."""
    ranker, rows = read_with_model(model, data, locate)
    return Ranking(data, rows, ranker.predict(rows), type(ranker).__name__.lower(), **options)


@dataclass(frozen=True)
class Ranking:
    """The documents of a data file as a model scores them, on their way to a scores file or a TREC run."""

    source: Path
    data: RankingData
    scores: np.ndarray  # one per row of the data, in its order
    model: str  # its name
    format: str = "scores"
    tag: str = "podium"
    top: int | None = None

    def write(self, path: Path) -> None:
        if self.format == "scores":
            write_scores(self.scores, path)
        else:
            write_run(self.run, path, self.tag)

    def lines(self) -> Iterator[bytes]:
        """What `write` writes."""
        return score_lines(self.scores) if self.format == "scores" else run_lines(self.run, self.tag)

    def as_dict(self) -> dict[str, Any]:
        return {"scores": self.scores.tolist()} if self.format == "scores" else {"run": self.run.to_dict()}

    def overview(self) -> dict[str, Any]:
        """The model and the sizes, as plain values."""
        sizes = {"documents": self.data.n_rows, "queries": self.data.n_queries}
        return {"model": self.model, **sizes, "format": self.format}

    def sentence(self) -> str:
        if self.format == "scores":
            return f"{counted(self.data.n_rows, 'score')}, one per line in the order of {self.source}"
        queries = counted(self.run.n_queries, "query", "queries")
        return f"a TREC run of {counted(len(self.run), 'document')} for {queries}"

    @once
    def run(self) -> Run:
        """Best first. Where the data has no document ids, a document is called by its row in the file, from 1."""
        data = self.data
        if data.docid_texts is None:
            data = replace(data, docid_texts=Texts.of([str(row + 1) for row in range(data.n_rows)]))
        try:
            return Run.from_scores(data, self.scores).ranked(self.top)
        except ValueError as error:
            raise ValueError(f"{self.source}: {error}") from error


def ranking_format(out: Path | None, format: str | None, tag: str | None, top: int | None) -> str:
    """What to write: as requested, or by the file name; `answers.run` and `answers.trec.gz` are TREC runs."""
    if format is None:
        format = "trec" if out is not None and plain_suffix(out) in (".run", ".trec") else "scores"
    check_choice("--format", format, RANKING_FORMATS)
    if format == "scores" and (tag is not None or top is not None):
        option = "--tag" if tag is not None else "--top"
        raise ValueError(f"{option} is for TREC runs; a scores file has one number per document. Add --format trec.")
    return format
